"""Train any classifier on one or several releases, with what their cards say about noise and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sfumato.classifiers.distortion import NoiseSummary
from sfumato.classifiers.factor_noise import FactorNoise
from sfumato.classifiers.interruption import heeding_interrupts
from sfumato.classifiers.label_noise import LabelNoiseCorrection
from sfumato.classifiers.radius_vote import RadiusVote
from sfumato.classifiers.reads_noise import ReadsNoise
from sfumato.errors import TableError
from sfumato.guarantee import RANDOMIZED_RESPONSE, Card
from sfumato.mechanisms import Mechanism
from sfumato.noise import Law
from sfumato.table import Encoding

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Rows of one release with their noise: a pooled release is several parts, each with its own."""

    Z: Matrix
    y: Codes
    noise: NoiseSummary
    label_keep: float = 1.0
    source: Card | Mechanism | None = None
    """Where the noise of every column is described; None for rows without noise."""


def noise_summary(laws: Sequence[Law | None], variances: Sequence[float] | None) -> NoiseSummary:
    """Moments of the noise, and variances of kept and dropped components where they are known.

    `variances` are those of all components, kept ones first, as a learned basis states them.
    """
    kept = len(laws)
    known = None if variances is None else np.asarray(variances, dtype=np.float64)
    return NoiseSummary(
        noise_variance=np.array([law.variance if law else 0.0 for law in laws]),
        noise_fourth_moment=np.array([law.fourth_moment if law else 0.0 for law in laws]),
        retained_variances=None if known is None else known[:kept],
        neglected_variances=None if known is None else known[kept:],
    )


def noise_from_card(card: Card) -> NoiseSummary:
    """The radius of `RadiusVote` needs nothing but this: it is computed from the card alone."""
    summary = noise_summary(card.laws(), card.transform.get("variances"))
    if not card.is_columnwise:
        return summary
    return _columnwise(summary, card.source_encoding(), card.release_schema["columns"])


def noise_from_mechanism(mechanism: Mechanism) -> NoiseSummary:
    """The same before a card is written."""
    summary = noise_summary(mechanism.laws(), mechanism.transform().get("variances"))
    if not mechanism.columnwise:
        return summary
    return _columnwise(summary, mechanism.encoding_, mechanism.release_columns())


def _columnwise(summary: NoiseSummary, encoding: Encoding, columns: Sequence[Mapping[str, Any]]) -> NoiseSummary:
    """With what was done to columns that no noise was added to: factors, randomized answers."""
    answers = tuple(
        (group.start, group.stop, float(column["noise"]["keep"]))
        for group, column in zip(encoding.groups, columns, strict=True)
        if group.is_onehot and column["noise"] and column["noise"]["law"] == RANDOMIZED_RESPONSE
    )
    return replace(summary, factors=FactorNoise.stated(encoding, columns), answers=answers)


def part_of_card(Z: Matrix, y: Codes, card: Card) -> Part:
    """Released rows with all that their card says."""
    return Part(Z, y, noise_from_card(card), card.label_keep, card)


@heeding_interrupts()
def fit_on_parts(classifier: Any, parts: Sequence[Part]) -> Any:
    """Fit on the pooled rows; randomized labels are corrected for, and learners that ask are told each part's noise."""
    Z = np.concatenate([part.Z for part in parts])
    y = np.concatenate([part.y for part in parts])
    if len(np.unique(y)) < 2:
        raise TableError("All rows have the same label: there is nothing to learn. At least two classes are needed.")
    classifier = _with_neighbours_for(classifier, len(y))
    extra: dict[str, Any] = {}
    part_of = np.repeat(np.arange(len(parts)), [len(part.Z) for part in parts])
    if isinstance(classifier, RadiusVote):
        extra = {"noise": [part.noise for part in parts], "part": part_of}
    if isinstance(classifier, ReadsNoise):
        extra = {"sources": [part.source for part in parts], "part": part_of}
        if classifier.corrects_labels:
            return classifier.fit(Z, y, label_keep=[part.label_keep for part in parts], **extra)
    # Rows of all parts have the same classes, so their mixture is kept with the average probability.
    keep = float(np.average([part.label_keep for part in parts], weights=[len(part.Z) for part in parts]))
    if keep < 1.0:
        classifier = LabelNoiseCorrection(classifier, keep=keep)
    return classifier.fit(Z, y, **extra)


def _with_neighbours_for(classifier: Any, rows: int) -> Any:
    """Neighbours that are asked are no more than there are rows to be one; also where another classifier holds them."""
    too_many = {
        name: rows
        for name, value in classifier.get_params().items()
        if name.split("__")[-1] == "n_neighbors" and isinstance(value, int) and value > rows
    }
    return clone(classifier).set_params(**too_many) if too_many else classifier


def answers_plain_rows(classifier: Any) -> bool:
    """Whether it classifies plain rows as they are, and not where the release lies on average."""
    inner = classifier.classifier if isinstance(classifier, LabelNoiseCorrection) else classifier
    return bool(getattr(inner, "answers_plain_rows", False))
