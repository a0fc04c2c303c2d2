"""What all learners share that are told the noise of every part: parts, checks of their input, labels as seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.channels import Recipe
from sfumato.core.array_types import Codes, Floats
from sfumato.guarantee import Card
from sfumato.learn.classifiers.checked_rows import matrix_of_rows, rows_and_targets
from sfumato.mechanisms import Mechanism


@dataclass(frozen=True)
class Part:
    """Rows of one release, with class codes as seen: a pooled release is several parts, each with its own noise."""

    Z: Floats
    y: Codes
    source: Recipe | None = None
    """Where the noise of every column is described; None for rows without noise."""
    label_keep: float = 1.0
    """How often labels were kept."""

    @classmethod
    def of_card(cls, Z: Floats, y: Codes, card: Card) -> Part:
        """Released rows with all that their card says."""
        return cls(Z, y, card.made_by(), card.label_keep)


def mean_keep(parts: Sequence[Part]) -> float:
    """Rows of all parts have the same classes, so their mixture is kept with the average probability."""
    return float(np.average([part.label_keep for part in parts], weights=[len(part.y) for part in parts]))


def recipe_of(source: Any) -> Recipe | None:
    """From what people have at hand: a recipe, a card, or a fitted mechanism; None for rows without noise."""
    if source is None or isinstance(source, Recipe):
        return source
    return source.made_by() if isinstance(source, Card) else cast(Mechanism, source).recipe_


class ReadsNoise(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier that is trained on released rows and answers for *plain* rows, in the encoding of the source.

    `fit(X, y, sources, part, label_keep)`: `sources` is the recipe of the release (or its card, or the fitted
    mechanism), or a list of them with, for every row, the number of its own in `part`. None means rows without noise.
    `label_keep` is the probability that a label was kept, one number or one per source.
    """

    answers_plain_rows = True
    """Plain rows are classified as they are, not moved to where the release lies on average."""
    corrects_labels = False
    """Whether `label_keep` is used in training; else what the classifier says is corrected afterwards."""
    reads_gaps: bool = True
    """Whether it learns from rows of which some cells are not reported (NaN), as far as their recipes say so."""

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sources: Any = None, part: Any = None, label_keep: Any = 1.0
    ) -> Self:
        """Train on released rows; see `ReadsNoise` for the parameters."""
        self._check_parameters()
        self._train(self._rows(X, y, sources, part, label_keep))
        return self

    def _check_parameters(self) -> None:
        """Refuse a parameter that is out of its range."""

    @abstractmethod
    def _train(self, parts: list[Part]) -> None:
        """Learn from validated rows, part by part; `classes_` is set."""

    def _set_prior(self, parts: Sequence[Part]) -> tuple[Floats, Floats | None]:
        """Set `class_prior_`, the shares of the true classes; returns those of labels as seen, and T where these were
        randomized."""
        counts = np.bincount(np.concatenate([rows.y for rows in parts]), minlength=len(self.classes_))
        shares, response = counts / counts.sum(), self._response(parts)
        self.class_prior_ = shares
        if response is not None:
            from sfumato.reconstruction.shares import onto_simplex

            self.class_prior_ = onto_simplex(np.linalg.solve(response, shares))
        return shares, response

    def _rows(self, X: Any, y: Any, sources: Any, part: Any, label_keep: Any) -> list[Part]:
        """Validated rows, part by part; sets `classes_`."""
        given = [recipe_of(source) for source in (sources if isinstance(sources, Sequence) else [sources])]
        gaps = self.reads_gaps and any(recipe is not None and recipe.left_out for recipe in given)
        X, y = rows_and_targets(self, X, y, gaps=gaps)
        self.classes_ = np.unique(y)
        codes = np.searchsorted(self.classes_, y)  # one number a row, where unique(..., return_inverse) takes several
        place = _part_of_rows(part, len(given), len(X))
        keeps = np.broadcast_to(np.asarray(label_keep, dtype=np.float64), len(given)).tolist()
        if not all(0.0 <= keep <= 1.0 for keep in keeps):
            raise ValueError(f"The 'label_keep' parameter must hold probabilities. Got {label_keep!r} instead.")
        codes = codes.astype(np.int64, copy=False)
        if len(given) == 1:  # no copy: there may be millions of rows
            found = [Part(X, codes, given[0], keeps[0])]
        else:
            found = [
                Part(X[place == number], codes[place == number], source, keep)
                for number, (source, keep) in enumerate(zip(given, keeps, strict=True))
                if (place == number).any()
            ]
        if gaps:
            for rows in found:
                _check_gaps(rows)
        return found

    def _response(self, parts: Sequence[Part]) -> Floats | None:
        """T of the rows together (labels of all parts have the same shares); None where labels are exact."""
        keep = mean_keep(parts)
        if keep >= 1.0 or len(self.classes_) < 2:
            return None
        from sfumato.learn.classifiers.label_noise import response_matrix

        return response_matrix(keep, len(self.classes_))

    def _queries(self, X: Any, *, gaps: bool = False) -> Floats:
        check_is_fitted(self)
        return matrix_of_rows(self, X, gaps=gaps)


def _part_of_rows(part: Any, parts: int, rows: int) -> Codes:
    """The number of the part that each row belongs to; of one part it need not be said."""
    place = np.zeros(0, dtype=np.int64) if part is None else np.asarray(part, dtype=np.int64)
    wrong = place.shape != (rows,) or (len(place) and (place.min() < 0 or place.max() >= parts))
    if (parts > 1) if part is None else wrong:
        raise ValueError(f"The 'part' parameter must hold a number from 0 to {parts - 1} for each of {rows} rows.")
    return place


def _check_gaps(rows: Part) -> None:
    """Only a recipe can say that cells are left out."""
    if rows.source is not None:
        rows.source.check_gaps(rows.Z)
    elif np.isnan(rows.Z).any():
        raise ValueError("Input X contains NaN in rows without noise, where no cell can be left out.")


class GivesProbabilities(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A classifier that answers with the most probable class."""

    @abstractmethod
    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes."""

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable class; of equal ones the first in `classes_`."""
        likely = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likely])


class AnswersForReleased(GivesProbabilities, ReadsNoise):
    """One that also answers for rows that were themselves perturbed."""

    @abstractmethod
    def predict_proba_released(self, Z: npt.ArrayLike, source: Recipe | Card | Mechanism) -> Floats:
        """Probabilities for perturbed rows, of a release whose card (or mechanism) is `source`."""

    def predict_released(self, Z: npt.ArrayLike, source: Recipe | Card | Mechanism) -> npt.NDArray[Any]:
        """Classes of perturbed rows, of a release whose card (or mechanism) is `source`."""
        return np.asarray(self.classes_[self.predict_proba_released(Z, source).argmax(axis=1)])


def softmax(scores: Floats) -> Floats:
    """Probabilities from log-probabilities up to a constant, line by line."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
