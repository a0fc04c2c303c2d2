"""What a reconstruction gives: a density on cells, with a band that says how far it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, UsageError
from sfumato.reconstruction.evidence import Cells
from sfumato.reconstruction.picture import WIDE, Band, Size, steps_picture
from sfumato.reconstruction.shares import Shares

SKEWED = 1.5
"""Skewness of the columns on which docs/reconstruction.md says how many people bands held."""


@dataclass(frozen=True, repr=False)
class Density:
    """Probabilities `mass` of the cells of x; constant density within a cell (with `cells.atoms`: at its middle only).

    `low` and `high` are the band: between them each cell's true probability lies at `confidence`, cell by cell and on
    average over the cells. It does not depend on the method, so that `mass` may leave it: then `mass` errs.
    `about["atoms"]` are point masses that were found. `missing` is the estimated share of people without a value.
    """

    name: str
    cells: Cells
    mass: Floats
    low: Floats | None = None
    high: Floats | None = None
    confidence: float = 0.9
    rows: int = 0
    missing: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Density of {self.name!r}: {len(self.mass)} cells from {self.rows:,} rows>"

    @property
    def band_in_words(self) -> str:
        """What the band covers: cells, and on a skewed column, where most people are in a few of them, fewer people."""
        if self.low is None:
            return ""
        words = f"The band is meant to hold the true share in {self.confidence:.0%} of the cells, on average."
        spread = max(self.variance, np.finfo(np.float64).tiny) ** 0.5
        if abs(self.mass @ ((self.cells.middles - self.mean) / spread) ** 3) > SKEWED:
            words += (
                " This column is skewed, and most people are in a few cells: where that was tried on real tables, a 90%"
                " band held the cells of 83 to 87% of the people, and of 57% at worst. Read no single cell off it."
            )
        return words

    def cdf(self, x: ArrayLike) -> Floats:
        """P(X <= x)."""
        total = np.concatenate([[0.0], np.cumsum(self.mass)])
        at = np.asarray(x, dtype=np.float64)
        if self.cells.atoms:
            return np.asarray(total[np.searchsorted(self.cells.middles, at, side="right")])
        return np.asarray(np.interp(at, self.cells.edges, total))

    def quantiles(self, p: ArrayLike) -> Floats:
        """The x below which a share p lies."""
        share = np.asarray(p, dtype=np.float64)
        if not ((share >= 0) & (share <= 1)).all():
            raise UsageError("Quantiles must be requested at shares between 0 and 1.")
        total = np.cumsum(self.mass)
        cell = np.minimum(np.searchsorted(total, share * total[-1], side="left"), self.cells.count - 1)
        if self.cells.atoms:
            return np.asarray(self.cells.middles[cell])
        before = np.where(cell > 0, total[cell - 1], 0.0)
        within = np.divide(share - before, self.mass[cell], out=np.zeros_like(share), where=self.mass[cell] > 0)
        return np.asarray(self.cells.edges[cell] + np.clip(within, 0.0, 1.0) * self.cells.widths[cell])

    @property
    def mean(self) -> float:
        return float(self.mass @ self.cells.middles)

    @property
    def variance(self) -> float:
        within = 0.0 if self.cells.atoms else self.cells.widths**2 / 12.0
        return float(self.mass @ ((self.cells.middles - self.mean) ** 2 + within))

    def sample(self, rng: np.random.Generator, rows: int) -> Floats:
        """New values of this distribution; they are made up."""
        return self.quantiles(rng.random(rows))

    def shares_of(self, values: ArrayLike) -> Floats:
        """Shares of given values in the same cells; what lies outside counts nowhere."""
        x = np.asarray(values, dtype=np.float64)
        x = x[~np.isnan(x)]
        if len(x) == 0:
            raise UsageError("There are no values to compare the density with.")
        return np.histogram(x, self.cells.edges)[0] / len(x)

    def table(self) -> pa.Table:
        """One row per cell: its ends, probability, density, cumulative probability and band."""
        widths = self.cells.widths
        columns: dict[str, Floats] = {
            "low": self.cells.edges[:-1],
            "high": self.cells.edges[1:],
            "probability": self.mass,
            "density": self.mass / widths,
            "cumulative": np.cumsum(self.mass),
        }
        if self.low is not None and self.high is not None:
            columns |= {"density_low": self.low / widths, "density_high": self.high / widths}
        return pa.table(columns)

    def summary(self) -> dict[str, Any]:
        """Plain figures, for JSON."""
        marks = (0.05, 0.25, 0.5, 0.75, 0.95)
        found = self.quantiles(marks)
        return {
            "column": self.name,
            "rows": self.rows,
            "cells": self.cells.count,
            "range": [float(self.cells.edges[0]), float(self.cells.edges[-1])],
            "mean": self.mean,
            "standard_deviation": float(np.sqrt(self.variance)),
            "quantiles": {f"{mark:g}": float(value) for mark, value in zip(marks, found, strict=True)},
            "missing": self.missing,
            "confidence": self.confidence if self.low is not None else None,
            **self.about,
        }

    def plot(self, size: Size = WIDE) -> str:
        """The density with its band, as an SVG picture."""
        widths, band = self.cells.widths, None
        if self.low is not None and self.high is not None:
            band = Band(self.low / widths, self.high / widths, self.confidence)
        axis = f"{self.name}, {self.about['unit']}" if "unit" in self.about else self.name
        height = self.mass / widths
        return steps_picture((f"Density of {self.name}", axis), self.cells.edges, height, self.mean, band, size)


# A reconstruction as plain JSON, there and back: what a coordinator keeps of it, and tells its owner.


BAND = ("mass", "low", "high")


def to_plain(found: Density | Shares) -> dict[str, Any]:
    """Names, cells or categories, probabilities and their band."""
    band = {name: None if getattr(found, name) is None else getattr(found, name).tolist() for name in BAND}
    told = {"column": found.name, **band, "confidence": found.confidence, "rows": found.rows}
    if isinstance(found, Shares):
        return {**told, "categories": list(found.categories)}
    cells = {"edges": found.cells.edges.tolist(), "atoms": found.cells.atoms}
    return {**told, **cells, "missing": found.missing, "about": dict(found.about)}


def from_plain(told: Mapping[str, Any]) -> Density | Shares:
    """What `to_plain` told; refused where it is something else."""
    try:
        name, count = str(told["column"]), len(told["mass"])
        given: dict[str, Any] = {one: None if told[one] is None else _numbers(told[one], count) for one in BAND}
        given |= {"confidence": float(told["confidence"]), "rows": int(told["rows"])}
        if "categories" in told:
            categories = tuple(str(one) for one in told["categories"])
            if len(categories) != count:
                raise ValueError("lengths")
            return Shares(name, categories, **given)
        edges = _numbers(told["edges"], count + 1)
        if not (np.diff(edges) > 0).all():
            raise ValueError("edges")
        cells, about = Cells(edges, bool(told["atoms"])), dict(told["about"])
        return Density(name, cells, **given, missing=float(told["missing"]), about=about)
    except (KeyError, TypeError, ValueError):
        raise CardError("This is not a density or shares as a coordinator tells them.") from None


def _numbers(told: Any, count: int) -> Floats:
    found = np.asarray(told, dtype=np.float64)
    if count < 1 or found.shape != (count,) or not np.isfinite(found).all():
        raise ValueError("numbers")
    return found
