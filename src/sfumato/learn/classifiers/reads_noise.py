"""What all learners share that are told the noise of every part: parts, checks of their input, labels as seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.channels import Recipe
from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import CardError
from sfumato.learn.classifiers.checked_rows import matrix_of_rows, rows_and_targets
from sfumato.learn.classifiers.class_densities import Slice
from sfumato.learn.classifiers.label_noise import response_matrix
from sfumato.learn.classifiers.release_columns import ReleaseColumns, clean_columns, columns_of, recipe_of

Source = Recipe | None


@dataclass(frozen=True)
class Rows:
    """Training rows of one part: matrix, class codes as seen, who describes the noise, how often labels were kept."""

    Z: Floats
    y: Codes
    source: Source = None
    label_keep: float = 1.0

    def columns(self) -> ReleaseColumns:
        """Every column with its noise; refused where card or mechanism do not tell."""
        columns = clean_columns(self.Z) if self.source is None else columns_of(self.source)
        recipe = recipe_of(self.source)
        width = columns[-1].stop if recipe is None else recipe.width
        if width != self.Z.shape[1]:
            raise CardError(
                f"The card describes {width} columns, but the rows have {self.Z.shape[1]}. Card and release do not "
                "belong together."
            )
        return columns


def slices(parts: Sequence[Rows]) -> list[list[Slice]]:
    """For every column, its slice of every part."""
    stated = [None if part.source is None else part.columns() for part in parts]
    first = next((columns for columns in stated if columns is not None), None)
    # Rows without noise lie in the same columns as those with noise, where there are any.
    exact = None if first is None else tuple(column.without_noise() for column in first)
    described = [columns or exact or part.columns() for part, columns in zip(parts, stated, strict=True)]
    if len({tuple((c.start, c.stop) for c in columns) for columns in described}) != 1:
        raise CardError("The parts have different columns, so there is no joint estimate.")
    return [
        [Slice(columns[place], part.Z, part.y) for part, columns in zip(parts, described, strict=True)]
        for place in range(len(described[0]))
    ]


class ReadsNoise(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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

    def _rows(self, X: Any, y: Any, sources: Any, part: Any, label_keep: Any) -> list[Rows]:
        """Validated rows, part by part; sets `classes_`."""
        given = [recipe_of(source) for source in (sources if isinstance(sources, Sequence) else [sources])]
        gaps = self.reads_gaps and any(recipe is not None and recipe.left_out for recipe in given)
        X, y = rows_and_targets(self, X, y, gaps=gaps)
        self.classes_ = np.unique(y)
        codes = np.searchsorted(self.classes_, y)  # one number a row, where unique(..., return_inverse) takes several
        place = np.zeros(0, dtype=np.int64) if part is None else np.asarray(part, dtype=np.int64)
        wrong = place.shape != (len(X),) or (len(place) and (place.min() < 0 or place.max() >= len(given)))
        if (len(given) > 1) if part is None else wrong:
            raise ValueError(
                f"The 'part' parameter must hold a number from 0 to {len(given) - 1} for each of {len(X)} rows."
            )
        keeps = np.broadcast_to(np.asarray(label_keep, dtype=np.float64), len(given)).tolist()
        if not all(0.0 <= keep <= 1.0 for keep in keeps):
            raise ValueError(f"The 'label_keep' parameter must hold probabilities. Got {label_keep!r} instead.")
        codes = codes.astype(np.int64, copy=False)
        if len(given) == 1:  # no copy: there may be millions of rows
            found = [Rows(X, codes, given[0], keeps[0])]
        else:
            found = [
                Rows(X[place == number], codes[place == number], source, keep)
                for number, (source, keep) in enumerate(zip(given, keeps, strict=True))
                if (place == number).any()
            ]
        if gaps:
            for rows in found:
                _check_gaps(rows)
        return found

    def _response(self, parts: Sequence[Rows]) -> Floats | None:
        """T of the rows together (labels of all parts have the same shares); None where labels are exact."""
        keep = float(np.average([part.label_keep for part in parts], weights=[len(part.y) for part in parts]))
        return None if keep >= 1.0 or len(self.classes_) < 2 else response_matrix(keep, len(self.classes_))

    def _queries(self, X: Any, *, gaps: bool = False) -> Floats:
        check_is_fitted(self)
        return matrix_of_rows(self, X, gaps=gaps)


def _check_gaps(rows: Rows) -> None:
    """Only a recipe can say that cells are left out."""
    if rows.source is not None:
        rows.source.check_gaps(rows.Z)
    elif np.isnan(rows.Z).any():
        raise ValueError("Input X contains NaN in rows without noise, where no cell can be left out.")


class GivesProbabilities(ReadsNoise, ABC):
    """One that answers with the most probable class."""

    @abstractmethod
    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes of plain rows."""

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Classes of plain rows."""
        likely = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likely])


def softmax(scores: Floats) -> Floats:
    """Probabilities from log-probabilities up to a constant, line by line."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
