"""Train any classifier on one or several releases, with what their cards say about noise and labels; or the one that
suits them, or a blend."""

from __future__ import annotations

import math
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from sfumato.channels import NotApplicableError, Recipe, Staged
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.reads_noise import (
    GivesProbabilities,
    LabelNoiseCorrection,
    Part,
    ReadsNoise,
    mean_keep,
    response_matrix,
)

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


# Choose a learner by released rows and their card alone, and believe it as far as they speak for it.
#
# Rows without noise of their own (made-up ones, or rows as they are) go to the blend of ordinary learners; there is
# nothing to choose, and how far its held-out answers hold says nothing about the table behind made-up rows.
#
# *Which learner.* Noisy rows are cut into folds; every candidate is trained on the others and tells P(label | released
# row) for the rows of the fold, by its own class distributions sent through the channels. A released row tells so
# little that the smallest mean loss -log P is mostly a matter of chance. So the first candidate, which is made for
# strong noise, is taken unless another is better on the same rows by two standard errors.
#
# *How far.* Do the classes differ at all? Two figures tell how much likelier the release is if they do: the held-out
# likelihood, which needs no model but has little power, and the learner's marginal likelihood, which uses all rows but
# believes its model. The mean of their logarithms is used. Beforehand classes of about the same size are taken to
# differ; the larger the commonest one, the more is lost by contradicting it in vain, and the more doubt there is.
# Answers are the learner's probabilities and the class shares, mixed by these odds: with classes of equal size that
# changes nothing, with a large one a learner must have been borne out before it contradicts it.

THROUGH_NOISE = ("empirical-bayes-naive-bayes", "noise-aware-lda", "noise-aware-qda", "reconstructed-naive-bayes")
BLEND = "blend"
AS_THEY_ARE = (BLEND, "knn")
"""Rows that were moved without noise, or by noise of no stated law: a rotation keeps nothing but distances."""
OF_KIND = {"guided": ("bernoulli-naive-bayes",), "staged": ("private-discriminant",)}
"""Learners of maps that ordinary ones cannot read."""
SHARES = "class shares"
CLEARLY = 2.0
"""By so many standard errors another learner must be better than the first."""
EVEN, DOUBT, MOST_DOUBT = 0.15, 20.0, 2.0
"""Log-odds against a difference: so many for every unit that the shares of the two commonest classes are further apart
than `EVEN` (for one where they are nearer), and at most. Like `CLEARLY` chosen on generated tables and scikit-learn's
digits (decision 0061), none of which is reported on."""
FOLDS = 5
MOST_ROWS = 20_000
"""Rows that the choice is made on; the chosen learner gets all of them."""
LEAST_BELIEF = 0.01
_LEAST = 1e-6


class AutoClassifier(GivesProbabilities, ReadsNoise):
    """The learner that predicts the labels of held-out released rows best, or the class shares where none does.

    Attributes
    ----------
    chosen_ : its name; losses_ : mean held-out loss by name, in nats a row; skipped_ : why others were not tried.
    belief_ : probability that the classes differ at all; the class shares have the rest.
    """

    corrects_labels = True
    reads_stages = True

    def _train(self, parts: list[Part]) -> None:
        """Choose and train."""
        self.skipped_: dict[str, str] = {}
        k = len(self.classes_)
        shares, _ = self._set_prior(parts)
        if learners_for(parts) == (BLEND,):
            self.chosen_, self.losses_, self.belief_, self.answers_prior_ = BLEND, {}, 1.0, False
            self.classifier_ = _fitted(BLEND, parts, self.classes_)
            return
        total, tried, rng = sum(len(rows.y) for rows in parts), parts, np.random.default_rng(0)
        if total > MOST_ROWS:
            tried = [_taken(rows, rng.random(len(rows.y)) < MOST_ROWS / total) for rows in parts]
        folds = [_folds(rows.y, k) for rows in tried]
        by_row = {SHARES: np.concatenate([-np.log(np.maximum(shares, _LEAST))[rows.y] for rows in tried])}
        for name in learners_for(parts):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of trials; what the chosen one has to say, it says afterwards
                    by_row[name] = self._held_out(name, tried, folds)
            except (UsageError, CardError, TableError, ValueError) as error:
                self.skipped_[name] = str(error)[:200]
        self.losses_ = {name: float(losses.mean()) for name, losses in by_row.items()}
        self.chosen_ = _chosen(by_row)
        self.classifier_ = None if self.chosen_ == SHARES else _fitted(self.chosen_, parts, self.classes_)
        gained = float((by_row[SHARES] - by_row[self.chosen_]).sum())
        self.belief_ = _belief(gained, getattr(self.classifier_, "evidence_", None), self.class_prior_)
        if self.belief_ < LEAST_BELIEF:
            self.chosen_, self.classifier_ = SHARES, None
        self.answers_prior_ = self.classifier_ is None
        # Of a release in stages it asks about plain rows, which have fewer columns.
        recipe = parts[0].source
        if self.classifier_ is not None:
            self.n_features_in_ = self.classifier_.n_features_in_
        elif recipe is not None and isinstance(recipe.map, Staged):
            self.n_features_in_ = recipe.encoding.width

    def _held_out(self, name: str, parts: Sequence[Part], folds: Sequence[Codes]) -> Floats:
        """-log P(label as seen | released row) of every row, by a learner that was not trained on it."""
        losses = [np.zeros(len(rows.y)) for rows in parts]
        for fold in range(FOLDS):
            training = [_taken(rows, of != fold) for rows, of in zip(parts, folds, strict=True)]
            fitted = _fitted(name, training, self.classes_)
            for rows, of, loss in zip(parts, folds, losses, strict=True):
                left = _taken(rows, of == fold)
                if len(left.y):
                    told = _told(fitted, left, self.classes_)
                    loss[of == fold] = -np.log(np.maximum(told[np.arange(len(left.y)), left.y], _LEAST))
        return np.concatenate(losses)

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes of plain rows."""
        rows = self._queries(X)
        shares = np.tile(self.class_prior_, (len(rows), 1))
        if self.classifier_ is None:
            return shares
        told = np.zeros(shares.shape)
        told[:, np.searchsorted(self.classes_, self.classifier_.classes_)] = self.classifier_.predict_proba(rows)
        return np.asarray(self.belief_ * told + (1.0 - self.belief_) * shares)


def _chosen(by_row: dict[str, Floats]) -> str:
    """The first learner, unless others are clearly better on the same rows: then the one with the smallest loss."""
    tried = [name for name in by_row if name != SHARES]
    if not tried:
        return SHARES
    gains = {name: by_row[tried[0]] - by_row[name] for name in tried[1:]}
    clear = [name for name, gain in gains.items() if gain.mean() > CLEARLY * gain.std() / math.sqrt(len(gain))]
    return min(clear or tried[:1], key=lambda name: by_row[name].mean())


def _belief(gained: float, evidence: float | None, shares: Floats) -> float:
    """Probability that the classes differ, from both likelihood ratios (logarithms) and odds beforehand."""
    odds = gained if evidence is None else (gained + evidence) / 2.0
    first, second = np.sort(shares)[::-1][:2] if len(shares) > 1 else (1.0, 0.0)
    odds -= min(MOST_DOUBT, DOUBT * (float(first - second) - EVEN))
    return 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0)))


def learners_for(parts: Sequence[Part]) -> tuple[str, ...]:
    """Those that come into question for such rows."""
    kinds = {rows.source.map.kind for rows in parts if rows.source is not None} & OF_KIND.keys()
    if kinds:
        return OF_KIND[min(kinds)]
    moved = [rows.source for rows in parts if rows.source is not None and rows.source.rows == "perturbed"]
    if any(not channel.is_exact and channel.is_stated for recipe in moved for channel in recipe.channels):
        return THROUGH_NOISE
    return AS_THEY_ARE if moved else (BLEND,)


def _fitted(name: str, parts: Sequence[Part], classes: npt.NDArray[Any]) -> Any:
    made = make_classifier(name)
    parts = [rows for rows in parts if len(rows.y)]
    Z, y = np.concatenate([rows.Z for rows in parts]), classes[np.concatenate([rows.y for rows in parts])]
    keeps = [rows.label_keep for rows in parts]
    if isinstance(made, ReadsNoise):
        part = np.repeat(np.arange(len(parts)), [len(rows.y) for rows in parts])
        return made.fit(Z, y, sources=[rows.source for rows in parts], part=part, label_keep=keeps)
    keep = mean_keep(parts)
    return (LabelNoiseCorrection(made, keep=keep) if keep < 1.0 else made).fit(Z, y)


def _told(fitted: Any, rows: Part, classes: npt.NDArray[Any]) -> Floats:
    """P(label as seen | released row), classes in their order."""
    told = np.zeros((len(rows.y), len(classes)))
    released = rows.source is not None and hasattr(fitted, "predict_proba_released")
    told[:, np.searchsorted(classes, fitted.classes_)] = (
        fitted.predict_proba_released(rows.Z, rows.source) if released else fitted.predict_proba(rows.Z)
    )
    return told if rows.label_keep >= 1.0 else told @ response_matrix(rows.label_keep, len(classes)).T


def _folds(y: Codes, classes: int) -> Codes:
    """The fold of every row, even within the classes; the same for the same labels."""
    rng, folds = np.random.default_rng(1), np.zeros(len(y), dtype=np.int64)
    for code in range(classes):
        members = np.flatnonzero(y == code)
        folds[rng.permutation(members)] = np.arange(len(members)) % FOLDS
    return folds


def _taken(rows: Part, which: npt.NDArray[np.bool_]) -> Part:
    return replace(rows, Z=rows.Z[which], y=rows.y[which])


# The mean of three ordinary learners, for rows without noise of their own: made-up rows, and rows as they are.
#
# Made-up rows share the noise of the counts they were drawn from, so held-out made-up rows cannot tell which learner
# has mistaken that noise for signal. A single learner can fail badly: on one covtype release boosting answered 7 of 100
# rightly, and the mean of all three 69. Averaging needs no choice, and costs no folds (docs/decisions/0107).
@dataclass(eq=False, repr=False)
class Blend(GivesProbabilities):
    """Forest, boosting and logistic regression; their probabilities are averaged.

    Parameters
    ----------
    trees : of the forest, whose leaves hold at least 15 rows.
    rounds : of boosting, with trees of at most 8 leaves.
    most_rows : that are learned from at most, drawn at random: made-up rows come in any number and tell no more.
    seed : of all random choices.
    """

    reads_gaps = True

    trees: int = 60
    rounds: int = 50
    most_rows: int = 10_000
    seed: int = 0

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit all three on the same rows, in one thread: small trees wait for each other longer than they work."""
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.classes_ = np.unique(labels)
        self.n_features_in_ = rows.shape[1]
        if len(rows) > self.most_rows:
            rng = np.random.default_rng(self.seed)
            # One row of every class at least, so that each part knows the same classes.
            first = np.unique(labels, return_index=True)[1]
            chosen = np.union1d(first, rng.choice(len(rows), self.most_rows, replace=False))
            rows, labels = rows[chosen], labels[chosen]
        settings: dict[str, dict[str, Any]] = {
            "forest": {"trees": self.trees, "min_leaf": 15, "seed": self.seed},
            "boosting": {"rounds": self.rounds, "rate": 0.1, "max_leaves": 8, "seed": self.seed},
            "logistic": {},
        }
        if np.isnan(rows).any():
            del settings["logistic"]
        with threadpool_limits(1):
            self.parts_ = [make_classifier(name, parameters=own).fit(rows, labels) for name, own in settings.items()]
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """The mean of what the parts say; one that cannot read an empty cell is left out."""
        rows = np.asarray(X, dtype=np.float64)
        parts = self.parts_[:2] if np.isnan(rows).any() else self.parts_
        with threadpool_limits(1):
            return np.asarray(np.mean([part.predict_proba(rows) for part in parts], axis=0))
