"""Train any classifier on one or several releases, with what their cards say about noise and labels."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from sfumato.channels import NotApplicableError, Recipe
from sfumato.channels.staged import Staged
from sfumato.core.array_types import Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.learn.classifiers.reads_noise import LabelNoiseCorrection, Part, ReadsNoise, mean_keep

# An interrupt that a library swallows is raised again when the library is done.


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Whatever a signal's handler raised inside of the block, and a learner caught, is raised at its end.

    scikit-learn's network ends its training at Ctrl-C and returns as if it were done: a half-trained model would be
    written. Signals reach the main thread only, so there is nothing to heed in others.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    raised: list[BaseException] = []

    def heed(number: int, frame: FrameType | None) -> None:
        handler = handlers[signal.Signals(number)]
        assert callable(handler)
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    ours = [number for number, handler in handlers.items() if callable(handler)]
    for number in ours:
        signal.signal(number, heed)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, handlers[number])
    if raised:
        raise raised[0]


def reads_gaps(classifier: Any) -> bool:
    """Whether it learns from rows of which some cells are not reported (NaN), without inventing them."""
    own = getattr(classifier, "reads_gaps", None)
    return bool(get_tags(classifier).input_tags.allow_nan if own is None else own)


def _check_gaps(classifier: Any, parts: Sequence[Part]) -> None:
    """Refuse cells that are empty without a word, and those that the classifier can make nothing of."""
    left_out: set[str] = set()
    for part in parts:
        if part.source is not None and np.isnan(part.Z).any():
            part.source.check_gaps(part.Z)
            left_out |= part.source.left_out
    if left_out and not reads_gaps(classifier):
        few = sorted(left_out)[:3]
        more = [f"{len(left_out) - 3} more"] if len(left_out) > 3 else []
        raise UsageError(
            "Not applicable: this classifier needs every cell of a row, and the release leaves cells of "
            f"{', '.join([*map(repr, few), *more])} out. Use reconstructed-naive-bayes, reconstructed-tree, "
            "noise-aware-lda, forest or boosting."
        )


def _check_stages(classifier: Any, parts: Sequence[Part]) -> None:
    """Rows of stages under different guides are different numbers to a learner that does not know them."""
    maps = [part.source.map for part in parts if part.source is not None and isinstance(part.source.map, Staged)]
    differ = any(not one.is_like(maps[0]) for one in maps)
    if differ and not getattr(classifier, "reads_stages", False):
        raise UsageError(
            "Not applicable: these releases in stages have guides of their own, so the same number means different "
            "things in them. Use auto or private-discriminant, which read each by its own guide."
        )


def public_map(recipe: Recipe) -> tuple[Matrix, Matrix] | None:
    """(A, c) that puts a plain row x at A x + c; None where the map is a secret or there is none (survey bits).

    Refused where what a channel makes of a value on average is no line: rows put elsewhere would be answered wrongly.
    """
    if not recipe.is_columnwise:
        return recipe.map.affine()
    slope, offset = np.ones(recipe.width), np.zeros(recipe.width)
    for place, channel, name in zip(recipe.places, recipe.channels, recipe.names(), strict=True):
        try:
            slope[place.start], offset[place.start] = channel.mean_line()
        except NotApplicableError as reason:
            raise UsageError(
                f"Column {name!r} was {reason}. This classifier answers only for rows released in the same way; for "
                "plain rows train reconstructed-naive-bayes or reconstructed-tree."
            ) from None
    return np.diag(slope), offset


@heeding_interrupts()
def fit_on_parts(classifier: Any, parts: Sequence[Part]) -> Any:
    """Fit on the pooled rows; randomized labels are corrected for, and learners that ask are told each part's noise."""
    Z = np.concatenate([part.Z for part in parts])
    y = np.concatenate([part.y for part in parts])
    if len(np.unique(y)) < 2:
        raise TableError("All rows are of the same class: there is nothing to learn. At least two classes are needed.")
    _check_gaps(classifier, parts)
    _check_stages(classifier, parts)
    extra: dict[str, Any] = {}
    part_of = np.repeat(np.arange(len(parts)), [len(part.Z) for part in parts])
    if isinstance(classifier, ReadsNoise):
        extra = {"sources": [part.source for part in parts], "part": part_of}
        if classifier.corrects_labels:
            return classifier.fit(Z, y, label_keep=[part.label_keep for part in parts], **extra)
    elif getattr(classifier, "asks_noise", False):
        from sfumato.learn.classifiers.distortion import noise_summary

        extra = {"noise": [noise_summary(part.source, Z.shape[1]) for part in parts], "part": part_of}
    if (keep := mean_keep(parts)) < 1.0:
        classifier = LabelNoiseCorrection(classifier, keep=keep)
    return classifier.fit(Z, y, **extra)


def answers_plain_rows(classifier: Any) -> bool:
    """Whether it classifies plain rows as they are, and not where the release lies on average."""
    return bool(getattr(classifier, "answers_plain_rows", False))
