"""Agrawal & Srikant's third way, Local: reconstruct again, by class, in every node of the tree. Here to be measured.

The same grower serves ByClass (values assigned once, at the root) and Local, so that nothing else differs.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from sfumato.channels import Recipe
from sfumato.learn.classifiers.on_reconstruction import Assignment
from sfumato.learn.classifiers.reads_noise import Part

FEWEST = 400
"""Nodes with fewer rows keep the values that they came with."""


class LocalTree:
    """A tree for two classes by the Gini index, on values assigned at the root or in every node."""

    def __init__(self, recipe: Recipe, min_leaf: int, *, local: bool, depth: int = 6) -> None:
        self.recipe, self.min_leaf, self.local, self.depth = recipe, min_leaf, local, depth

    def fit(self, Z: np.ndarray, y: np.ndarray) -> Self:
        self.root_ = self._grow(Z, self._values(Z, y), y, self.depth)
        return self

    def _values(self, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
        codes = np.unique(y, return_inverse=True)[1]
        return Assignment(middles=True).rows(
            [Part(Z, codes, self.recipe)], int(codes.max()) + 1, np.random.default_rng(0)
        )

    def _grow(self, Z: np.ndarray, X: np.ndarray, y: np.ndarray, depth: int) -> tuple[Any, ...]:
        share = float(y.mean())
        if depth == 0 or len(y) < 2 * self.min_leaf or share in (0.0, 1.0):
            return (int(share > 0.5),)
        if self.local and depth < self.depth and len(y) >= FEWEST:
            X = self._values(Z, y)
        column, cut = best_split(X, y, self.min_leaf)
        if column < 0:
            return (int(share > 0.5),)
        left = X[:, column] <= cut
        return column, cut, *(self._grow(Z[side], X[side], y[side], depth - 1) for side in (left, ~left))

    def predict(self, X: np.ndarray) -> np.ndarray:
        found = np.zeros(len(X), dtype=np.int64)
        self._answer(self.root_, X, np.arange(len(X)), found)
        return found

    def _answer(self, node: tuple[Any, ...], X: np.ndarray, rows: np.ndarray, found: np.ndarray) -> None:
        if len(node) == 1:
            found[rows] = node[0]
            return
        left = X[rows, node[0]] <= node[1]
        self._answer(node[2], X, rows[left], found)
        self._answer(node[3], X, rows[~left], found)


def best_split(X: np.ndarray, y: np.ndarray, min_leaf: int) -> tuple[int, float]:
    """The column and cut with the least weighted Gini index; column -1 where no cut improves on none."""
    best, column, cut = len(y) * y.mean() * (1 - y.mean()) * (1 - 1e-9), -1, 0.0
    before = np.arange(1, len(y))
    for j in range(X.shape[1]):
        order = np.argsort(X[:, j], kind="stable")
        x, ones = X[order, j], np.cumsum(y[order])
        first, second = ones[:-1], ones[-1] - ones[:-1]
        impurity = first * (1 - first / before) + second * (1 - second / (len(y) - before))
        allowed = (x[1:] > x[:-1]) & (before >= min_leaf) & (len(y) - before >= min_leaf)
        impurity = np.where(allowed, impurity, np.inf)
        place = int(np.argmin(impurity))
        if impurity[place] < best:
            best, column, cut = float(impurity[place]), j, float(0.5 * (x[place] + x[place + 1]))
    return column, cut
