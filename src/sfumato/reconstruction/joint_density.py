"""What the reconstruction of two columns gives: probabilities of pairs of cells, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.array_types import Floats
from sfumato.errors import UsageError
from sfumato.reconstruction.heat_picture import heat_picture


@dataclass(frozen=True)
class Axis:
    """The cells of a number (`atoms`: only their middles occur), or the categories of a word."""

    name: str
    edges: Floats = field(default_factory=lambda: np.zeros(0))
    categories: tuple[str, ...] = ()
    atoms: bool = False

    @property
    def count(self) -> int:
        return len(self.categories) or len(self.edges) - 1

    @property
    def middles(self) -> Floats:
        return np.asarray(0.5 * (self.edges[1:] + self.edges[:-1]))

    def codes(self, values: Any) -> Any:
        """The cell of every original value, -1 for what lies outside."""
        if self.categories:
            place = {category: number for number, category in enumerate(self.categories)}
            return np.array([place.get(str(value), -1) for value in values], dtype=np.int64)
        numbers = np.asarray(values, dtype=np.float64)
        codes = np.clip(np.searchsorted(self.edges, numbers, side="right") - 1, 0, self.count - 1)
        inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
        return np.where(inside, codes, -1)


@dataclass(frozen=True, repr=False)
class JointDensity:
    """Probabilities `mass` of pairs: lines are the cells of the first column, columns those of the second.

    It has no band: how far a cell of it can be trusted is not told.
    """

    axes: tuple[Axis, Axis]
    mass: Floats
    rows: int
    about: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        cells = " x ".join(str(axis.count) for axis in self.axes)
        return f"<JointDensity of {self.name}: {cells} cells from {self.rows:,} rows>"

    @property
    def name(self) -> str:
        return " and ".join(repr(axis.name) for axis in self.axes)

    @property
    def correlation(self) -> float | None:
        """Of two numbers; of categories there is none."""
        if any(axis.categories for axis in self.axes):
            return None
        x, y = (axis.middles for axis in self.axes)
        p, q = self.mass.sum(axis=1), self.mass.sum(axis=0)
        dx, dy = x - p @ x, y - q @ y
        spread = float(np.sqrt((p @ dx**2) * (q @ dy**2)))
        return float(dx @ self.mass @ dy) / spread if spread > 0 else None

    @property
    def mutual_information(self) -> float:
        """In bits: what the one column tells of the other; 0 where they are independent."""
        apart = np.outer(self.mass.sum(axis=1), self.mass.sum(axis=0))
        shown = self.mass > 0
        return float(np.sum(self.mass[shown] * np.log2(self.mass[shown] / apart[shown])))

    def shares_of(self, first: Any, second: Any) -> Floats:
        """Shares of original pairs in the same cells; pairs outside count nowhere."""
        one, other = self.axes[0].codes(first), self.axes[1].codes(second)
        if len(one) != len(other) or not len(one):
            raise UsageError("There are no pairs to compare the density with: the columns must be equally long.")
        inside = (one >= 0) & (other >= 0)
        counts = np.zeros(self.mass.shape)
        np.add.at(counts, (one[inside], other[inside]), 1.0)
        return np.asarray(counts / len(one))

    def information_loss(self, first: Any, second: Any) -> float:
        """Half the L1 distance to original pairs, from 0 to 1; lower is better [density-reconstruction, Eq. 20]."""
        shares = self.shares_of(first, second)
        return 0.5 * float(np.abs(shares - self.mass).sum()) + 0.5 * max(0.0, 1.0 - float(shares.sum()))

    def table(self) -> pa.Table:
        """One row for each pair of cells: their ends or categories, and the probability."""
        columns: dict[str, Any] = {}
        for place, axis in enumerate(self.axes):
            at = (
                np.repeat(np.arange(axis.count), self.axes[1].count)
                if place == 0
                else np.tile(np.arange(axis.count), self.axes[0].count)
            )
            if axis.categories:
                columns[axis.name] = [axis.categories[code] for code in at]
            else:
                columns |= {f"{axis.name}_low": axis.edges[:-1][at], f"{axis.name}_high": axis.edges[1:][at]}
        return pa.table({**columns, "probability": self.mass.ravel()})

    def summary(self) -> dict[str, Any]:
        """Plain figures, for JSON."""
        told: dict[str, Any] = {
            "columns": [axis.name for axis in self.axes],
            "rows": self.rows,
            "cells": [axis.count for axis in self.axes],
            "mutual_information": self.mutual_information,
        }
        if (found := self.correlation) is not None:
            told["correlation"] = found
        return {**told, **self.about}

    def plot(self) -> str:
        """The probabilities as an SVG picture: the darker a cell, the more people."""
        names = [axis.categories or axis.edges for axis in self.axes]
        return heat_picture(f"Density of {self.name}", [axis.name for axis in self.axes], names, self.mass)
