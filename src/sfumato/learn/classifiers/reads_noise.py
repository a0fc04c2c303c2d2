"""Rows as users of scikit-learn have them, checked without a word of what stands in them.

scikit-learn's own messages quote cells ("could not convert string to float: 'Mary'") or print whole arrays.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from sfumato.channels import Recipe
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.guarantee import Card
from sfumato.mechanisms import Mechanism
from sfumato.noise.response import onto_simplex

WITHOUT_CELLS = (
    "Complex data not supported",
    "Expected 2D array, got",
    "Expected a 2-dimensional container",
    "Found array with",
    "Found input variables with inconsistent",
    "Input X contains",
    "Input contains",
    "Input y contains",
    "Sparse data was passed",
    "The feature names should match",
    "Unknown label type",
    "X has ",
    "X does not have valid feature names",
    "float() argument must be a string or",
    "y should be a 1d array",
)
"""Beginnings of scikit-learn's messages that name shapes, columns and types only. No other message is shown."""


def matrix_of_rows(estimator: Any, X: Any, *, accept_sparse: bool = False, gaps: bool = False) -> Matrix:
    """Numbers (n x d); a sparse matrix is made dense, as noise would make it. `gaps`: cells may be left out (NaN)."""
    with no_cells_in_errors(X):
        found = validate_data(
            estimator,
            X,
            dtype=np.float64,
            reset=False,
            accept_sparse="csr" if accept_sparse else False,
            ensure_all_finite="allow-nan" if gaps else True,
        )
    return np.asarray(found.toarray() if issparse(found) else found, dtype=np.float64)


def rows_and_targets(
    estimator: Any, X: Any, y: Any, *, accept_sparse: bool = False, gaps: bool = False
) -> tuple[Matrix, NDArray[Any]]:
    """The same with a class for every row."""
    with no_cells_in_errors(X):
        sparse = "csr" if accept_sparse else False
        finite = "allow-nan" if gaps else True
        read, targets = validate_data(estimator, X, y, dtype=np.float64, accept_sparse=sparse, ensure_all_finite=finite)
        check_classification_targets(targets)
    return np.asarray(read.toarray() if issparse(read) else read, dtype=np.float64), targets


def rows_and_numbers(estimator: Any, X: Any, y: Any) -> tuple[Matrix, Matrix]:
    """Rows with a number for each of them."""
    with no_cells_in_errors(X):
        found, targets = validate_data(estimator, X, y, dtype=np.float64, y_numeric=True)
    return np.asarray(found, dtype=np.float64), np.asarray(targets, dtype=np.float64)


def check_columns(estimator: Any, X: Any, *, reset: bool = False) -> None:
    """Names and number of a data frame's columns, noted or compared; their content is the encoding's business."""
    with no_cells_in_errors(None):
        validate_data(estimator, X, reset=reset, skip_check_array=True)


def targets_beside(X: Any, y: Any) -> NDArray[Any]:
    """A class for every row of a data frame."""
    with no_cells_in_errors(None):
        if y is None:
            raise ValueError("Found input variables with inconsistent numbers of samples: y is None.")
        targets = column_or_1d(y, warn=True)
        if any(value is None or value != value for value in targets.tolist()):
            raise ValueError("Input y contains NaN.")
        check_consistent_length(X, targets)
        check_classification_targets(targets)
    return np.asarray(targets)


@contextlib.contextmanager
def no_cells_in_errors(X: Any) -> Iterator[None]:
    """Let scikit-learn's errors pass that quote nothing; word all others anew."""
    try:
        yield
    except (ValueError, TypeError) as error:
        words, kind = str(error), type(error)
        if words.startswith("The feature names") or "requires y to be passed" in words:
            raise
        if not words.startswith(WITHOUT_CELLS):
            raise kind(_reworded(X)) from None
        first = words.partition("\n")[0].rstrip(":")
        if first.startswith("Expected 2D array"):
            first += ". Reshape your data: a table has rows and columns."
        raise kind(first) from None


def _reworded(X: Any) -> str:
    """Which columns are no numbers, as far as that can be told."""
    try:
        cells, wrong = np.asarray(X, dtype=object), []
        for place in range(cells.shape[1]):
            try:
                cells[:, place].astype(np.float64)
            except (ValueError, TypeError):
                wrong.append(place)
    except (ValueError, TypeError, IndexError):
        return "The rows cannot be read as a table of numbers. Give an array of numbers, or a DataFrame."
    if not wrong:
        return "The rows or their classes cannot be read. Give numbers or a DataFrame, and one class per row."
    names = list(X.columns) if hasattr(X, "columns") else []
    shown = ", ".join(repr(names[place]) if names else str(place) for place in wrong[:10])
    return (
        f"These columns hold values that are not numbers: {shown}. PerturbedClassifier takes them in a DataFrame; "
        "other classifiers need numbers."
    )


# Learning from randomized labels: undo, in what a classifier says, what randomized response did to its labels.
#
# Randomized response keeps a label with probability `keep` and otherwise replaces it by one of the other k - 1 classes,
# each as likely. The label that was seen then has distribution T p, where p is that of the true label and
#
#     T = (keep - q) I + q 11',   q = (1 - keep) / (k - 1),   T^-1 p = (p - q) / (keep - q)   for p summing to one.
#
# Labels with keep = 1/k tell nothing; below it they point away from the truth, and still inform.
def response_matrix(keep: float, k: int) -> Floats:
    """T: entry (i, j) is the probability that class j is seen as class i."""
    if k < 2:
        raise ValueError(f"Randomized labels need at least two classes. Got {k} instead.")
    if not 0 <= keep <= 1 or abs(keep - 1 / k) < 1e-9:
        raise ValueError(
            f"The 'keep' parameter must be a probability other than 1/{k}, at which labels say nothing. Got {keep!r}."
        )
    q = (1 - keep) / (k - 1)
    return np.full((k, k), q) + (keep - q) * np.eye(k)


@dataclass(eq=False, repr=False)
class LabelNoiseCorrection(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Train any classifier on randomized labels and answer for the true ones.

    The classifier learns P(seen label | x) = T P(true label | x). Its probabilities are mapped back by T^-1 and
    projected to the simplex (backward correction). With calibrated probabilities this does not change which class is
    most probable, only how probable.

    Classifiers that weigh classes equally and say so by `is_balanced_` (such as `RadiusVote` with a radius and no known
    noise) answer with P(seen | x) / P(seen), divided by priors that randomization has flattened. Putting these back,
    inverting, and dividing by the corrected priors is unbiased, but multiplies the sampling error of a rare class by
    1 / (true prior); in simulations it lost up to 16 points of balanced accuracy. Instead, each class's excess over
    what its prior explains, T^-1 (P(seen | x) - P(seen)), is measured in its own standard deviation under "x tells
    nothing", and added to the equal priors 1/k. With equal priors this *is* the backward correction; with unequal
    ones balanced accuracy stayed within 1.3 points of the uncorrected votes or rose, by up to 4, and plain
    accuracy rose by up to 19.

    A classifier without `predict_proba` gives no probabilities to correct. Its answers are passed on as they are
    (`corrected_` is False), which for symmetric noise with keep > 1/k is the right class wherever it has learned
    the most probable seen one; for keep < 1/k it is refused.

    Parameters
    ----------
    classifier : any scikit-learn classifier; a copy is trained.
    keep : probability that randomization kept a label.
    """

    classifier: Any = None
    keep: float = 1.0

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, **fit_parameters: Any) -> Self:
        """Train a copy of the classifier on labels as seen."""
        if y is None:
            raise ValueError("LabelNoiseCorrection requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        k = len(self.classes_)
        self.response_ = response_matrix(self.keep, k) if k > 1 else np.eye(1)
        self.seen_prior_ = np.bincount(codes, minlength=k) / len(codes)
        self.class_prior_ = onto_simplex(np.linalg.solve(self.response_, self.seen_prior_))
        self.classifier_ = clone(self.classifier).fit(X, y, **fit_parameters)
        if hasattr(self.classifier_, "n_features_in_"):
            self.n_features_in_ = self.classifier_.n_features_in_
        self.corrected_ = hasattr(self.classifier_, "predict_proba")
        if not self.corrected_ and (np.argmax(self.response_, axis=0) != np.arange(k)).any():
            raise ValueError(
                f"{type(self.classifier_).__name__} has no predict_proba, and labels appear more often as another "
                "class than as their own: use a classifier that gives probabilities."
            )
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the true classes."""
        check_is_fitted(self)
        if not self.corrected_:
            raise AttributeError(f"{type(self.classifier_).__name__} gives no probabilities to correct.")
        seen = np.asarray(self.classifier_.predict_proba(X), dtype=np.float64)
        if not getattr(self.classifier_, "is_balanced_", False):
            return onto_simplex(np.linalg.solve(self.response_, seen.T).T)
        seen = seen * self.seen_prior_
        seen /= seen.sum(axis=1, keepdims=True)
        excess = np.linalg.solve(self.response_, (seen - self.seen_prior_).T).T
        k = len(self.classes_)
        even = np.full(k, 1 / k)
        # Of each class: the standard deviation of T^-1 (one label), drawn evenly and as labels were seen.
        inverse, deviations = np.linalg.inv(self.response_), []
        for prior in (even, self.seen_prior_):
            variance = np.diag(inverse @ (np.diag(prior) - np.outer(prior, prior)) @ inverse.T)
            deviations.append(np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny)))
        return onto_simplex(even + excess * (np.sqrt(np.mean(deviations[0] ** 2)) / deviations[1]))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable true class."""
        check_is_fitted(self)
        if not self.corrected_:
            return np.asarray(self.classifier_.predict(X))
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    @property
    def answers_plain_rows(self) -> bool:
        """Whether the classifier itself classifies plain rows as they are."""
        return bool(getattr(self.classifier, "answers_plain_rows", False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.classifier is not None:
            tags.input_tags.sparse = get_tags(self.classifier).input_tags.sparse
        return tags


# What all learners share that are told the noise of every part: parts, checks of their input, labels as seen.


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
            self.class_prior_ = onto_simplex(np.linalg.solve(response, shares))
        return shares, response

    def _rows(self, X: Any, y: Any, sources: Any, part: Any, label_keep: Any) -> list[Part]:
        """Validated rows, part by part; sets `classes_`."""
        given = [recipe_of(source) for source in (sources if isinstance(sources, Sequence) else [sources])]
        gaps = self.reads_gaps and any(recipe is not None and recipe.left_out for recipe in given)
        X, y = rows_and_targets(self, X, y, gaps=gaps)
        self.classes_ = np.unique(y)
        # one number a row, where unique(..., return_inverse) takes several
        codes = np.searchsorted(self.classes_, y).astype(np.int64, copy=False)
        place = part_of_rows(part, len(given), len(X))
        keeps = np.broadcast_to(np.asarray(label_keep, dtype=np.float64), len(given)).tolist()
        if not all(0.0 <= keep <= 1.0 for keep in keeps):
            raise ValueError(f"The 'label_keep' parameter must hold probabilities. Got {label_keep!r} instead.")
        if len(given) == 1:  # no copy: there may be millions of rows
            found = [Part(X, codes, given[0], keeps[0])]
        else:
            found = [
                Part(X[place == number], codes[place == number], source, keep)
                for number, (source, keep) in enumerate(zip(given, keeps, strict=True))
                if (place == number).any()
            ]
        for rows in found if gaps else ():  # only a recipe can say that cells are left out
            if rows.source is not None:
                rows.source.check_gaps(rows.Z)
            elif np.isnan(rows.Z).any():
                raise ValueError("Input X contains NaN in rows without noise, where no cell can be left out.")
        return found

    def _response(self, parts: Sequence[Part]) -> Floats | None:
        """T of the rows together (labels of all parts have the same shares); None where labels are exact."""
        keep, k = mean_keep(parts), len(self.classes_)
        return None if keep >= 1.0 or k < 2 else response_matrix(keep, k)

    def _queries(self, X: Any, *, gaps: bool = False) -> Floats:
        check_is_fitted(self)
        return matrix_of_rows(self, X, gaps=gaps)


def part_of_rows(part: Any, parts: int, rows: int) -> Codes:
    """The number of the part that each row belongs to; of one part it need not be said."""
    place = np.zeros(rows, dtype=np.int64) if part is None else np.asarray(part, dtype=np.int64)
    wrong = place.shape != (rows,) or (len(place) and (place.min() < 0 or place.max() >= parts))
    if (parts > 1) if part is None else wrong:
        raise ValueError(f"The 'part' parameter must hold a number from 0 to {parts - 1} for each of {rows} rows.")
    return place


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

    def _prior_scores(self, rows: int) -> Floats:
        """Log-probabilities of the classes before anything is seen, for so many rows."""
        return np.tile(log_shares(self.class_prior_), (rows, 1))


def log_shares(shares: Floats) -> Floats:
    """Logarithms; finite where a share is 0."""
    return np.log(np.maximum(shares, 1e-300))


def softmax(scores: Floats) -> Floats:
    """Probabilities from log-probabilities up to a constant, line by line."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
