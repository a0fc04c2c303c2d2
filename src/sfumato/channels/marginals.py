"""How the columns of a table are spread, as guidance: ranks and polynomials of ranks that stages of a release use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.array_types import Matrix
from sfumato.errors import CardError
from sfumato.table import Group

CELLS = 32
"""Of a number's range."""


@dataclass(frozen=True, eq=False)
class Marginals:
    """For every column its shares: of even cells of a number's range, or of the categories."""

    shares: tuple[Matrix, ...]

    @classmethod
    def flat(cls, groups: Sequence[Group]) -> Marginals:
        """As if every value were as likely: what is known before anything was released."""
        sizes = [len(group.column.categories or ()) if group.is_onehot else CELLS for group in groups]
        return cls(tuple(np.full(size, 1.0 / size) for size in sizes))

    @cached_property
    def _cumulative(self) -> tuple[Matrix, ...]:
        return tuple(np.concatenate([[0.0], np.cumsum(share)]) / share.sum() for share in self.shares)

    def rank(self, column: int, x: Matrix) -> Matrix:
        """The share of people below x."""
        known = self._cumulative[column]
        return np.asarray(np.interp(x, np.linspace(0.0, 1.0, len(known)), known))

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
            u = self.rank(column, cells[:, 0]) - 0.5
            found = np.column_stack([math.sqrt(12.0) * u, math.sqrt(180.0) * (u**2 - 1.0 / 12.0)])
        if group.column.missing:
            found = np.where(cells[:, -1:] > 0.5, 0.0, found)
        return np.asarray(found)

    def _contrasts(self, column: int) -> Matrix:
        """Categories x (categories - 1): with the constant they are orthonormal under the shares."""
        root = np.sqrt(np.maximum(self.shares[column], 1e-3))
        root /= np.linalg.norm(root)
        basis, _ = np.linalg.qr(np.column_stack([root, np.eye(len(root))[:, 1:]]))
        return np.asarray(basis[:, 1:] / root[:, None])

    def count(self, groups: Sequence[Group]) -> int:
        """How many features there are."""
        return sum(len(share) - 1 if group.is_onehot else 2 for share, group in zip(self.shares, groups, strict=True))

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
