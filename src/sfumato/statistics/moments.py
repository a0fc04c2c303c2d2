"""Moments of a block of rows: what can be added up over blocks, sites and machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean, scatter (sum of centred outer products), lowest and highest value of every column.

    Blocks are centred before the product and merged by Chan, Golub & LeVeque (1979):
    ``S = S1 + S2 + (n1 n2 / n) (m1 - m2)(m1 - m2)'``, so that a large mean costs no digits.
    """

    n: int
    mean: Matrix
    scatter: Matrix
    low: Matrix
    high: Matrix

    @classmethod
    def of(cls, X: ArrayLike) -> Moments:
        """Moments of one block (rows x columns)."""
        X = np.asarray(X, dtype=np.float64)
        if len(X) == 0:
            return cls.empty(X.shape[1])
        mean = X.mean(axis=0)
        centred = X - mean
        return cls(len(X), mean, centred.T @ centred, X.min(axis=0), X.max(axis=0))

    @classmethod
    def empty(cls, width: int) -> Moments:
        """Moments of no rows: the zero of `+`."""
        return cls(0, np.zeros(width), np.zeros((width, width)), np.full(width, np.inf), np.full(width, -np.inf))

    def __add__(self, other: Moments) -> Moments:
        if self.width != other.width:
            raise ValueError(f"Moments of {self.width} and {other.width} columns cannot be added.")
        n = self.n + other.n
        if n == 0:
            return self
        step = other.mean - self.mean
        weight = other.n / n
        return Moments(
            n,
            self.mean + weight * step,
            self.scatter + other.scatter + self.n * weight * np.outer(step, step),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.mean)

    def covariance(self, ddof: int = 1) -> Matrix:
        """Covariance matrix; zero when there are too few rows to tell."""
        return self.scatter / max(self.n - ddof, 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; infinities of an empty block become null."""
        return {
            "n": self.n,
            "mean": self.mean.tolist(),
            "scatter": self.scatter.tolist(),
            "low": self.low.tolist() if self.n else None,
            "high": self.high.tolist() if self.n else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Moments:
        """The inverse of `to_dict`."""
        mean = np.asarray(data["mean"], dtype=np.float64)
        if not data["n"]:
            return cls.empty(len(mean))
        return cls(
            int(data["n"]),
            mean,
            np.asarray(data["scatter"], dtype=np.float64).reshape(len(mean), len(mean)),
            np.asarray(data["low"], dtype=np.float64),
            np.asarray(data["high"], dtype=np.float64),
        )
