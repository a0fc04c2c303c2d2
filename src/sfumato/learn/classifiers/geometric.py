"""Learners of distances and planes, for which a rotation can change nothing: nearest rows, kernels, hyperplanes.

The nearest rows vote, with weights 1, 1/d or 1/d^2. Kernel methods are as the rotation paper defines them, a weighted
mean of the labels around a point:

    f(x) = sum_i K(x, x_i) y_i / sum_i K(x, x_i),   K(x, x_i) = D(|x - x_i| / width)   [random-rotation, Eqs 1, 2]

For classes y_i is one-hot, and f(x) are their probabilities. Only distances enter, also where k or the width is chosen:
so answers stay the same under every rotation about any centre (Theorem 1). Hyperplanes are found by scikit-learn, and
nothing is kept of it but weights and intercepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sfumato.core.array_types import Codes, Floats
from sfumato.learn.classifiers.factory import DISTANCES, PENALISED, SINGLE_COLUMNS, Invariance
from sfumato.learn.classifiers.reads_noise import GivesProbabilities, matrix_of_rows, rows_and_numbers, rows_and_targets
from sfumato.table.neighbours.nearest import nearest

BY_VALIDATION = "cross-validation"
POWERS = {"1": 0, "1/d": 1, "1/d^2": 2}
"""Weights by name, and the power of the distance that each divides by."""
LADDER = (1, 3, 5, 7, 9, 11, 15, 21, 31, 51, 75, 101, 151, 201, 301)
MOST_ASKED = 1_000
"""Rows that are left out, one at a time, to choose k."""


class NeighbourLadder:
    """Votes of the k nearest rows for all k of `LADDER` at once: the k nearest are the first k of the most."""

    def __init__(self, rows: Floats, codes: Codes, power: int = 2) -> None:
        self.rows, self.codes, self.power = rows, codes, power
        self.ladder = tuple(k for k in LADDER if k < len(rows))

    def predict(self, queries: Floats) -> Codes:
        """One row of predictions for every k of the ladder."""
        return self._voted(*nearest(queries, self.rows, self.ladder[-1]))

    def held_out(self, rng: np.random.Generator) -> Floats:
        """Accuracy of every k on rows that are left out one at a time; higher is better.

        This is all that a holder of the release alone can measure: the rows left out are as noisy as the others.
        """
        held = rng.permutation(len(self.rows))[:MOST_ASKED]
        distance, index = nearest(self.rows[held], self.rows, self.ladder[-1] + 1)
        others = index != held[:, None]
        others[others.all(axis=1), -1] = False  # twins pushed the row itself out: drop the last instead
        shape = (len(held), self.ladder[-1])
        predicted = self._voted(distance[others].reshape(shape), index[others].reshape(shape))
        return np.asarray((predicted == self.codes[held]).mean(axis=1))

    def _voted(self, distance: Floats, index: Codes) -> Codes:
        votes = np.zeros((len(self.ladder), len(distance), int(self.codes.max()) + 1))
        who, weight = np.arange(len(distance))[:, None], vote_weights(distance, self.power)
        for number, (start, stop) in enumerate(zip((0, *self.ladder), self.ladder, strict=False)):
            np.add.at(votes[number], (who, self.codes[index[:, start:stop]]), weight[:, start:stop])
        return np.asarray(votes.cumsum(axis=0).argmax(axis=2))


def votes_of(near: tuple[Floats, Codes], codes: Codes, classes: int, power: int) -> Floats:
    """What the nearest rows of every query, at these distances, say of each class."""
    distance, index = near
    votes = np.zeros((len(distance), classes))
    np.add.at(votes, (np.arange(len(distance))[:, None], codes[index]), vote_weights(distance, power))
    return votes


def vote_weights(distance: Floats, power: int) -> Floats:
    """1 / distance^power over that of the nearest, so that none is infinite; rows at distance zero vote alone."""
    if power == 0 or distance.shape[1] == 0:
        return np.ones_like(distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = (distance[:, :1] / distance) ** power
    return np.where(distance[:, :1] > 0, weight, distance == 0)


@dataclass(eq=False, repr=False)
class NearestVote(GivesProbabilities):
    """The k nearest rows vote for their classes [random-rotation, Lemma 1; principal-laplace, 6.2].

    Distances are exact, and of equally distant rows the first counts. Where rows lie exactly on the query and votes are
    weighted, these rows alone vote.

    Parameters
    ----------
    k : how many rows vote, no more than there are; "cross-validation" takes the one of `LADDER` with the fewest errors
        on up to 1,000 of the rows, each left out of its own vote (of equal ones the smallest).
    weights : "1", "1/d" or "1/d^2".

    Attributes
    ----------
    classes_, n_features_in_ : labels and columns.
    k_ : how many rows vote.

    Examples
    --------
    >>> model = NearestVote(k=1).fit([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    >>> model.predict([[4.0]]).tolist()
    ['b']
    """

    k: int | str = 11
    weights: str = "1/d"

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Keep the rows, and choose k where that is asked for."""
        if self.weights not in POWERS:
            raise ValueError(f"The 'weights' parameter must be one of {', '.join(POWERS)}. Got {self.weights!r}.")
        if self.k != BY_VALIDATION and not (isinstance(self.k, int | np.integer) and self.k >= 1):
            raise ValueError(f"The 'k' parameter must be a count of rows or {BY_VALIDATION}. Got {self.k!r} instead.")
        X, y = rows_and_targets(self, X, y)
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        self.rows_ = np.ascontiguousarray(X)
        if self.k != BY_VALIDATION:
            self.k_ = min(int(self.k), len(self.rows_))
        else:  # of equally good ones the smallest
            tried = NeighbourLadder(self.rows_, self.codes_, POWERS[self.weights])
            self.k_ = tried.ladder[int(tried.held_out(np.random.default_rng(0)).argmax())] if tried.ladder else 1
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """The share of every class in the votes."""
        check_is_fitted(self)
        queries = np.ascontiguousarray(matrix_of_rows(self, X))
        near = nearest(queries, self.rows_, self.k_)
        votes = votes_of(near, self.codes_, len(self.classes_), POWERS[self.weights])
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))


# Regressions by name: learners of a number, with what a rotation does to them.


@dataclass(frozen=True)
class NamedRegression:
    """`make` gives an unfitted estimator: the class `of`, with what is `given`; `rotations`: what they change."""

    of: str
    given: Mapping[str, Any]
    rotations: Invariance

    def make(self) -> Any:
        module, _, kind = self.of.rpartition(".")
        return getattr(import_module(module), kind)(**self.given)


REGRESSIONS: dict[str, NamedRegression] = {
    "kernel-smoother": NamedRegression(f"{__name__}.KernelRegression", {}, DISTANCES),
    "linear": NamedRegression("sklearn.linear_model.Ridge", {"alpha": 1.0}, PENALISED),
    "least-squares": NamedRegression(
        "sklearn.linear_model.LinearRegression",
        {},
        Invariance("any centre", "Every plane of plain rows is a plane of rotated rows with the same residuals."),
    ),
    "tree": NamedRegression(
        "sklearn.tree.DecisionTreeRegressor", {"min_samples_leaf": 5, "random_state": 0}, SINGLE_COLUMNS
    ),
}


KERNELS = ("gaussian", "epanechnikov")
MOST_HELD_OUT, MOST_ROWS = 500, 10_000
"""Rows left out in turn to choose the width, and rows that they are held against."""
WIDTHS = 16
BLOCK = 1 << 22
"""Distances in memory at a time."""


@dataclass(eq=False, repr=False)
class _Smoother(BaseEstimator):  # type: ignore[misc]
    """Rows, their labels as columns of numbers, and the weighted mean."""

    width: float | str = BY_VALIDATION
    kernel: str = "gaussian"

    def _keep(self, rows: Floats, values: Floats) -> None:
        if self.kernel not in KERNELS:
            raise ValueError(f"The 'kernel' parameter must be one of {', '.join(KERNELS)}. Got {self.kernel!r}.")
        if self.width != BY_VALIDATION and not (isinstance(self.width, int | float) and 0 < self.width < np.inf):
            raise ValueError(f"The 'width' parameter must be positive or {BY_VALIDATION}. Got {self.width!r} instead.")
        self.rows_, self.values_ = np.ascontiguousarray(rows), values
        self.width_ = float(self.width) if self.width != BY_VALIDATION else self._best_width()

    def _means(self, X: npt.ArrayLike) -> Floats:
        check_is_fitted(self)
        queries = matrix_of_rows(self, X)
        step, found = max(1, BLOCK // max(1, len(self.rows_))), np.empty((len(queries), self.values_.shape[1]))
        for start in range(0, len(queries), step):
            distance = cdist(queries[start : start + step], self.rows_)
            found[start : start + step] = _mean(distance, self.values_, self.width_, self.kernel)
        return found

    def _best_width(self) -> float:
        """Of a ladder from near neighbours to the whole table: least squared error of rows left out in turn."""
        some = np.random.default_rng(0).permutation(len(self.rows_))[:MOST_ROWS]
        held = np.arange(min(len(some), MOST_HELD_OUT))
        distance = cdist(self.rows_[some[held]], self.rows_[some])
        distance[held, held] = np.inf
        if len(some) < 2 or not (far := float(np.median(distance[np.isfinite(distance)]))) > 0:
            return 1.0  # there is one row, or all are the same: every width says the same
        near, values = float(np.median(distance.min(axis=1))), self.values_[some]
        ladder = np.geomspace(max(near / 2.0, far / 200.0), far, WIDTHS)
        losses = [np.mean((_mean(distance, values, width, self.kernel) - values[held]) ** 2) for width in ladder]
        return float(ladder[int(np.argmin(losses))])


def _mean(distance: Floats, values: Floats, width: float, kernel: str) -> Floats:
    """The weighted mean for every query; where no row is within reach, the nearest row answers."""
    nearest = distance.min(axis=1, keepdims=True)
    if kernel == "gaussian":  # over the weight of the nearest row, so that far away nothing is 0 / 0
        weight = np.exp(-0.5 * ((distance / width) ** 2 - (nearest / width) ** 2))
    else:
        weight = np.maximum(0.0, 1.0 - (distance / width) ** 2)
        weight = np.where(weight.sum(axis=1, keepdims=True) > 0, weight, distance == nearest)
    return np.asarray(weight @ values / weight.sum(axis=1, keepdims=True))


class KernelSmoother(GivesProbabilities, _Smoother):
    """Classes by the weighted shares of the rows around a point [random-rotation, Eqs 1, 2].

    Parameters
    ----------
    width : lambda of Eq. 2, a distance; "cross-validation" takes the one with the least squared error of up to 500
        rows, each left out in turn.
    kernel : D of Eq. 2, "gaussian" or "epanechnikov" (1 - t^2, no row beyond one width).

    Attributes
    ----------
    classes_, n_features_in_, width_ : labels, columns, and the width that is used.

    Examples
    --------
    >>> model = KernelSmoother(width=1.0).fit([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    >>> model.predict([[4.0]]).tolist()
    ['b']
    """

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Keep the rows, and choose the width where that is asked for."""
        X, y = rows_and_targets(self, X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._keep(X, np.eye(len(self.classes_))[codes])
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """f(x) of Eq. 1 for one-hot labels."""
        return self._means(X)


class KernelRegression(RegressorMixin, _Smoother):  # type: ignore[misc]
    """A number by the weighted mean of the rows around a point [random-rotation, Eqs 1, 2]; see `KernelSmoother`.

    Examples
    --------
    >>> model = KernelRegression(width=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 10.0, 20.0])
    >>> model.predict([[1.0]]).round(6).tolist()
    [10.0]
    """

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Keep the rows, and choose the width where that is asked for."""
        X, y = rows_and_numbers(self, X, y)
        self._keep(X, y[:, None])
        return self

    def predict(self, X: npt.ArrayLike) -> Floats:
        """f(x) of Eq. 1."""
        return self._means(X)[:, 0]


# Classifiers that are hyperplanes.

KINDS = ("perceptron", "logistic")


@dataclass(eq=False, repr=False)
class Hyperplanes(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A perceptron or a logistic regression: the class on whose side of its plane a row lies furthest.

    Parameters
    ----------
    kind : "perceptron" (Rosenblatt's rule, one class against the rest) or "logistic" (L2 penalty).
    penalty : of "logistic", in (0, inf): the weight of |w|^2 / 2 beside the sum of the rows' log losses.
    epochs : passes over the rows of "perceptron", iterations of "logistic", at most.
    random_state : order of the rows of "perceptron".

    Attributes
    ----------
    classes_, weights_, intercepts_ : one row of weights a class; with two classes one for the second.
    """

    kind: str = "logistic"
    penalty: float = 1.0
    epochs: int = 1_000
    random_state: int = 0

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Find the planes."""
        if self.kind not in KINDS:
            raise ValueError(f"The 'kind' parameter must be one of {', '.join(KINDS)}. Got {self.kind!r} instead.")
        X, y = rows_and_targets(self, X, y)
        from sklearn.linear_model import LogisticRegression, Perceptron  # slow to load

        found: Any
        if self.kind == "perceptron":
            found = Perceptron(max_iter=self.epochs, random_state=self.random_state).fit(X, y)
        else:
            found = LogisticRegression(C=1.0 / self.penalty, max_iter=self.epochs, tol=1e-8).fit(X, y)
        self.classes_ = found.classes_
        self.weights_, self.intercepts_ = np.array(found.coef_), np.array(found.intercept_)
        return self

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """How far on its side of every plane a row lies."""
        check_is_fitted(self)
        found = matrix_of_rows(self, X) @ self.weights_.T + self.intercepts_
        return np.asarray(found[:, 0] if len(self.classes_) == 2 else found)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The class on whose side the row lies furthest."""
        side = self.decision_function(X)
        codes = (side > 0).astype(np.int64) if side.ndim == 1 else side.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @available_if(lambda model: model.kind == "logistic")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Of "logistic": the probability of every class."""
        side = self.decision_function(X)
        if side.ndim == 1:
            one = expit(side)
            return np.column_stack([1.0 - one, one])
        return np.asarray(softmax(side, axis=1))
