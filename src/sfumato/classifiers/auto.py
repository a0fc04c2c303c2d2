"""Choose a learner by held-out released rows: what predicts their labels best, under the noise that the card states.

The choice uses the release and its card alone. Rows are cut into folds; every candidate is trained on the others and
tells P(label | released row) for the rows of the fold, by its own class distributions sent through the channels. The
smallest loss -log P wins. Where it is worse than that of the class shares alone, by half a standard error, the shares
are the answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sfumato.array_types import Codes, Floats
from sfumato.classifiers.factory import make_classifier
from sfumato.classifiers.label_noise import LabelNoiseCorrection, response_matrix
from sfumato.classifiers.reads_noise import GivesProbabilities, ReadsNoise, Rows
from sfumato.errors import CardError, TableError, UsageError
from sfumato.reconstruction.shares import onto_simplex

THROUGH_NOISE = (
    "empirical-bayes-naive-bayes",
    "noise-aware-lda",
    "noise-aware-qda",
    "reconstructed-naive-bayes",
)
AS_THEY_ARE = ("boosting", "forest", "logistic", "naive-bayes", "knn")
OF_KIND = {"guided": ("bernoulli-naive-bayes",), "staged": ("private-discriminant",)}
"""Learners of maps that ordinary ones cannot read."""
SHARES = "class shares"
FOLDS = 5
MOST_ROWS = 20_000
"""Rows that the choice is made on; the chosen learner gets all of them."""
_LEAST = 1e-6


class AutoClassifier(GivesProbabilities):
    """The learner that predicts the labels of held-out released rows best, or the class shares where none does.

    Releases with noise of a known law are learned from by those that read it; rows that are as they are, or belong to
    nobody, by ordinary ones.

    Attributes
    ----------
    chosen_ : its name; losses_ : mean held-out loss by name, in nats a row; skipped_ : why others were not tried.
    """

    corrects_labels = True
    reads_stages = True

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sources: Any = None, part: Any = None, label_keep: Any = 1.0
    ) -> Self:
        """Choose and train; see `ReadsNoise` for the parameters."""
        parts = self._rows(X, y, sources, part, label_keep)
        self.skipped_: dict[str, str] = {}
        k = len(self.classes_)
        counts = np.bincount(np.concatenate([rows.y for rows in parts]), minlength=k)
        response = self._response(parts)
        shares = counts / counts.sum()
        self.class_prior_ = shares if response is None else onto_simplex(np.linalg.solve(response, shares))
        tried = _sampled(parts)
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
        self.chosen_ = min(self.losses_, key=lambda name: self.losses_[name] if name != SHARES else np.inf)
        worse = by_row[self.chosen_] - by_row[SHARES]
        if worse.mean() >= 0.5 * worse.std() / np.sqrt(len(worse)):
            self.chosen_ = SHARES
        self.answers_prior_ = self.chosen_ == SHARES
        self.classifier_ = None if self.answers_prior_ else _fitted(self.chosen_, parts, self.classes_)
        if self.classifier_ is not None:  # of a release in stages it asks about plain rows, which have fewer columns
            self.n_features_in_ = self.classifier_.n_features_in_
        return self

    def _held_out(self, name: str, parts: Sequence[Rows], folds: Sequence[Codes]) -> Floats:
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
        if self.classifier_ is None:
            return np.tile(self.class_prior_, (len(rows), 1))
        return np.asarray(self.classifier_.predict_proba(rows))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        if self.classifier_ is None:
            return super().predict(X)
        return np.asarray(self.classifier_.predict(self._queries(X)))


def learners_for(parts: Sequence[Rows]) -> tuple[str, ...]:
    """Those that come into question for such rows."""
    kinds = {rows.source.map.kind for rows in parts if rows.source is not None} & OF_KIND.keys()
    if kinds:
        return OF_KIND[min(kinds)]
    return THROUGH_NOISE if any(reads_noise(rows) for rows in parts) else AS_THEY_ARE


def reads_noise(rows: Rows) -> bool:
    """Whether a part has noise of a known law that a learner should read."""
    recipe = rows.source
    if recipe is None or recipe.rows != "perturbed":
        return False
    return any(not channel.is_exact and channel.is_stated for channel in recipe.channels)


def _fitted(name: str, parts: Sequence[Rows], classes: npt.NDArray[Any]) -> Any:
    made = make_classifier(name)
    parts = [rows for rows in parts if len(rows.y)]
    Z, y = np.concatenate([rows.Z for rows in parts]), classes[np.concatenate([rows.y for rows in parts])]
    keeps = [rows.label_keep for rows in parts]
    if isinstance(made, ReadsNoise):
        part = np.repeat(np.arange(len(parts)), [len(rows.y) for rows in parts])
        return made.fit(Z, y, sources=[rows.source for rows in parts], part=part, label_keep=keeps)
    keep = float(np.average(keeps, weights=[len(rows.y) for rows in parts]))
    return (LabelNoiseCorrection(made, keep=keep) if keep < 1.0 else made).fit(Z, y)


def _told(fitted: Any, rows: Rows, classes: npt.NDArray[Any]) -> Floats:
    """P(label as seen | released row), classes in their order."""
    if rows.source is not None and hasattr(fitted, "predict_proba_released"):
        found = fitted.predict_proba_released(rows.Z, rows.source)
    else:
        found = fitted.predict_proba(rows.Z)
    told = np.zeros((len(rows.y), len(classes)))
    told[:, np.searchsorted(classes, fitted.classes_)] = found
    if rows.label_keep < 1.0:
        told = told @ response_matrix(rows.label_keep, len(classes)).T
    return told


def _sampled(parts: Sequence[Rows]) -> list[Rows]:
    rows_in_all = sum(len(rows.y) for rows in parts)
    if rows_in_all <= MOST_ROWS:
        return list(parts)
    rng = np.random.default_rng(0)
    return [_taken(rows, rng.random(len(rows.y)) < MOST_ROWS / rows_in_all) for rows in parts]


def _folds(y: Codes, classes: int) -> Codes:
    """The fold of every row, even within the classes; the same for the same labels."""
    rng, folds = np.random.default_rng(1), np.zeros(len(y), dtype=np.int64)
    for code in range(classes):
        members = np.flatnonzero(y == code)
        folds[rng.permutation(members)] = np.arange(len(members)) % FOLDS
    return folds


def _taken(rows: Rows, which: npt.NDArray[np.bool_]) -> Rows:
    return Rows(rows.Z[which], rows.y[which], rows.source, rows.label_keep)
