"""Kernel methods as the rotation paper defines them: a weighted mean of the labels around a point.

    f(x) = sum_i K(x, x_i) y_i / sum_i K(x, x_i),   K(x, x_i) = D(|x - x_i| / width)   [random-rotation, Eqs 1, 2]

For classes y_i is one-hot, and f(x) are their probabilities. Only distances enter, also where the width is chosen: so
answers stay the same under every rotation about any centre (Theorem 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.core.array_types import Floats
from sfumato.learn.classifiers.reads_noise import GivesProbabilities, matrix_of_rows, rows_and_numbers, rows_and_targets

# Regressions by name: learners of a number, with what a rotation does to them.


@dataclass(frozen=True)
class NamedRegression:
    """`make` gives an unfitted estimator: the class `of`, with what is `given`; when, why: whether predictions stay the
    same under a rotation."""

    words: str
    of: str
    given: Mapping[str, Any]
    when: str
    why: str

    def make(self) -> Any:
        module, _, kind = self.of.rpartition(".")
        return getattr(import_module(module), kind)(**self.given)


REGRESSIONS: dict[str, NamedRegression] = {
    "kernel-smoother": NamedRegression(
        "The weighted mean of the rows around a point [random-rotation, Eqs 1, 2].",
        "sfumato.learn.classifiers.kernel_smoother.KernelRegression",
        {},
        "any centre",
        "It looks at nothing but distances, and a rotation keeps them.",
    ),
    "linear": NamedRegression(
        "A linear model with a penalty on the length of its weights.",
        "sklearn.linear_model.Ridge",
        {"alpha": 1.0},
        "any centre",
        "Rotated weights are as long as they were, and the intercept, which is not penalised, takes up the centre.",
    ),
    "least-squares": NamedRegression(
        "A linear model without a penalty.",
        "sklearn.linear_model.LinearRegression",
        {},
        "any centre",
        "Every plane of plain rows is a plane of rotated rows with the same residuals.",
    ),
    "tree": NamedRegression(
        "A regression tree, for comparison.",
        "sklearn.tree.DecisionTreeRegressor",
        {"min_samples_leaf": 5, "random_state": 0},
        "never",
        "It looks at single columns, and a rotation mixes them.",
    ),
}


BY_VALIDATION = "cross-validation"
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
        step = max(1, BLOCK // max(1, len(self.rows_)))
        blocks = [
            _mean(cdist(queries[start : start + step], self.rows_), self.values_, self.width_, self.kernel)
            for start in range(0, len(queries), step)
        ]
        return np.concatenate(blocks) if blocks else np.empty((0, self.values_.shape[1]))

    def _best_width(self) -> float:
        """Of a ladder from near neighbours to the whole table: least squared error of rows left out in turn."""
        rng = np.random.default_rng(0)
        some = rng.permutation(len(self.rows_))[:MOST_ROWS]
        held = np.arange(min(len(some), MOST_HELD_OUT))
        distance = cdist(self.rows_[some[held]], self.rows_[some])
        distance[held, held] = np.inf
        if len(some) < 2:
            return 1.0
        near = float(np.median(distance.min(axis=1)))
        far = float(np.median(distance[np.isfinite(distance)]))
        if not far > 0:
            return 1.0  # all rows are the same: every width says the same
        ladder = np.geomspace(max(near / 2.0, far / 200.0), far, WIDTHS)
        truth = self.values_[some[held]]
        losses = [
            float(np.mean((_mean(distance, self.values_[some], width, self.kernel) - truth) ** 2)) for width in ladder
        ]
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
