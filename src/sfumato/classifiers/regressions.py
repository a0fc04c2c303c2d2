"""Regressions by name: learners of a number, with what a rotation does to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NamedRegression:
    """`make` gives an unfitted estimator; when, why: whether predictions stay the same under a rotation."""

    words: str
    make: Callable[[], Any]
    when: str
    why: str


def _kernel() -> Any:
    from sfumato.classifiers.kernel_smoother import KernelRegression

    return KernelRegression()


def _linear() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=1.0)


def _least_squares() -> Any:
    from sklearn.linear_model import LinearRegression

    return LinearRegression()


def _tree() -> Any:
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(min_samples_leaf=5, random_state=0)


REGRESSIONS: dict[str, NamedRegression] = {
    "kernel-smoother": NamedRegression(
        "The weighted mean of the rows around a point [random-rotation, Eqs 1, 2].",
        _kernel,
        "any centre",
        "It looks at nothing but distances, and a rotation keeps them.",
    ),
    "linear": NamedRegression(
        "A linear model with a penalty on the length of its weights.",
        _linear,
        "any centre",
        "Rotated weights are as long as they were, and the intercept, which is not penalised, takes up the centre.",
    ),
    "least-squares": NamedRegression(
        "A linear model without a penalty.",
        _least_squares,
        "any centre",
        "Every plane of plain rows is a plane of rotated rows with the same residuals.",
    ),
    "tree": NamedRegression(
        "A regression tree, for comparison.",
        _tree,
        "never",
        "It looks at single columns, and a rotation mixes them.",
    ),
}
