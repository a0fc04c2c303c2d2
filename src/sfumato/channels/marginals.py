"""How the columns of a table are spread, as guidance: ranks and polynomials of ranks that stages of a release use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.array_types import Floats, Matrix
from sfumato.errors import CardError
from sfumato.table import Group

CELLS = 32
"""Of a number's range."""
WITHIN = 0.125
"""Ranks within one cell differ by no more than this."""
INSIDE = 4
LEAST_SPREAD = 1e-3
"""A polynomial that varies less than this over all people is left out (it is 0 for everybody)."""


def cells_of(group: Group) -> int:
    """Into how many cells the range of a number is cut; those of one value each where it takes few."""
    return min(CELLS, group.levels or CELLS)


def values_in(cells: int) -> Matrix:
    """Values between 0 and 1 that stand for the cells: `INSIDE` of each, or the one that it holds."""
    if cells < CELLS:
        return np.arange(cells) / max(cells - 1, 1)
    return (np.arange(cells * INSIDE) + 0.5) / (cells * INSIDE)


@dataclass(frozen=True, eq=False)
class Marginals:
    """For every column its shares: of even cells of a number's range, of its values where they are few, or of the
    categories."""

    shares: tuple[Matrix, ...]

    @classmethod
    def flat(cls, groups: Sequence[Group]) -> Marginals:
        """As if every value were as likely: what is known before anything was released."""
        sizes = [len(group.column.categories or ()) if group.is_onehot else cells_of(group) for group in groups]
        return cls(tuple(np.full(size, 1.0 / size) for size in sizes))

    def rank(self, column: int, x: Matrix) -> Matrix:
        """About the share of people below x, and half of those at x.

        Where a cell holds many, it is not known whether they are spread over it or all at one place, often its edge
        (zeros, answers of 0 or 1). So ranks within a cell lie about its middle, at most `WITHIN` / 2 away.
        """
        share = self.shares[column] / self.shares[column].sum()
        middle = np.cumsum(share) - share / 2.0
        if len(share) < CELLS:  # one value each
            return np.asarray(middle[np.rint(np.clip(x, 0.0, 1.0) * (len(share) - 1)).astype(np.int64)])
        place = np.clip(x, 0.0, 1.0) * len(share)
        cell = np.minimum(place.astype(np.int64), len(share) - 1)
        span = np.minimum(share, WITHIN)
        return np.asarray(middle[cell] + span[cell] * (place - cell - 0.5))

    def ranks(self, groups: Sequence[Group], X: Matrix) -> Matrix:
        """The columns of `groups` side by side, numbers by their ranks, categories and "missing" as they are."""
        parts = []
        for column, group in enumerate(groups):
            part = np.array(X[:, group.slice], dtype=np.float64)
            if not group.is_onehot:
                part[:, 0] = self.rank(column, part[:, 0])
            parts.append(part)
        return np.hstack(parts)

    def features(self, groups: Sequence[Group], X: Matrix) -> Matrix:
        """Two orthonormal polynomials of a number's rank, contrasts of a category; 0 for what is missing.

        Each has mean 0 and variance 1 where people are spread as these shares say, and those of one column are
        uncorrelated.
        """
        return np.hstack([self._features(column, group, X[:, group.slice]) for column, group in enumerate(groups)])

    def _features(self, column: int, group: Group, cells: Matrix) -> Matrix:
        if group.is_onehot:
            found = cells[:, : len(self.shares[column])] @ self._contrasts(column)
        else:
            u = self.rank(column, cells[:, 0])
            found = np.column_stack([np.ones(len(u)), u, u**2]) @ self._polynomials[column]
        if group.column.missing:
            found = np.where(cells[:, -1:] > 0.5, 0.0, found)
        return np.asarray(found)

    @cached_property
    def _polynomials(self) -> tuple[Matrix, ...]:
        """For every number, coefficients (1, rank, rank^2) of two functions that are orthonormal under its shares."""
        return tuple(self._orthonormal(column) for column in range(len(self.shares)))

    def _orthonormal(self, column: int) -> Matrix:
        share = self.shares[column] / self.shares[column].sum()
        values = values_in(len(share))
        u = self.rank(column, values)
        weight = np.repeat(share, len(values) // len(share)) / (len(values) // len(share))
        powers = np.column_stack([np.ones(len(u)), u, u**2])
        found = np.eye(3)
        for k in range(3):
            for _ in range(2):  # twice is enough
                for j in range(k):
                    found[:, k] -= (weight @ ((powers @ found[:, j]) * (powers @ found[:, k]))) * found[:, j]
            norm = math.sqrt(float(weight @ (powers @ found[:, k]) ** 2))
            found[:, k] = found[:, k] / norm if norm > LEAST_SPREAD else 0.0
        return found[:, 1 : len(share)]

    def _contrasts(self, column: int) -> Matrix:
        """Categories x (categories - 1): with the constant they are orthonormal under the shares."""
        root = np.sqrt(np.maximum(self.shares[column], 1e-3))
        root /= np.linalg.norm(root)
        basis, _ = np.linalg.qr(np.column_stack([root, np.eye(len(root))[:, 1:]]))
        return np.asarray(basis[:, 1:] / root[:, None])

    def count(self, groups: Sequence[Group]) -> int:
        """How many features there are."""
        return sum(self.sizes(groups))

    def sizes(self, groups: Sequence[Group]) -> list[int]:
        """Features of every column: contrasts of a category, two polynomials of a number, one of two values."""
        most = [len(share) - 1 for share in self.shares]
        return [size if group.is_onehot else min(size, 2) for size, group in zip(most, groups, strict=True)]

    def of_features(self, groups: Sequence[Group], by_column: Sequence[float]) -> Floats:
        """Every feature's figure, of figures of columns."""
        return np.repeat(np.asarray(by_column, dtype=np.float64), self.sizes(groups))

    def is_like(self, other: Marginals) -> bool:
        """Whether both make the same features."""
        if [share.shape for share in self.shares] != [share.shape for share in other.shares]:
            return False
        return all(np.allclose(one, two, atol=1e-9) for one, two in zip(self.shares, other.shares, strict=True))

    def to_list(self) -> list[list[float]]:
        """As it stands on a card."""
        return [share.tolist() for share in self.shares]

    @classmethod
    def from_list(cls, found: Any, groups: Sequence[Group]) -> Marginals:
        """The inverse; refuses what are no shares of these columns."""
        wrong = CardError("The card's stages do not fit its columns: it was edited or is damaged.")
        flat = cls.flat(groups)
        if not isinstance(found, list) or len(found) != len(flat.shares):
            raise wrong
        try:
            shares = tuple(np.array(one, dtype=np.float64) for one in found)
        except (TypeError, ValueError):
            raise wrong from None
        for share, like in zip(shares, flat.shares, strict=True):
            if share.shape != like.shape or not np.isfinite(share).all() or (share <= 0).any():
                raise wrong
        return cls(shares)


def lifted(f: Matrix, radius: float) -> Matrix:
    """Vectors clipped to the ball of this radius, as unit vectors with one coordinate more."""
    length = np.sqrt((f**2).sum(axis=1, keepdims=True))
    inside = f / np.maximum(length, radius)
    rest = np.sqrt(np.maximum(0.0, 1.0 - (inside**2).sum(axis=1, keepdims=True)))
    return np.hstack([inside, rest])
