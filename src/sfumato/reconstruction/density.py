"""What a reconstruction gives: a density on cells, or shares of categories, with a band that says how far it can be
trusted. Shares behind randomized response are found by the inverse of the response matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import logsumexp
from scipy.stats import norm

from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.wording import counted
from sfumato.noise.response import onto_simplex
from sfumato.reconstruction.atoms import Column, Fitted, LogDensity
from sfumato.reconstruction.evidence import Cells, Options
from sfumato.reconstruction.picture import WIDE, Band, Size, bars_picture, steps_picture


@dataclass(frozen=True, repr=False)
class Shares:
    """Estimated shares of the categories; `low` and `high` are their pointwise bootstrap band, if there is one."""

    name: str
    categories: tuple[str, ...]
    mass: Floats
    low: Floats | None
    high: Floats | None
    confidence: float
    rows: int

    def __repr__(self) -> str:
        return f"<Shares of {self.name!r}: {len(self.mass)} categories from {self.rows:,} rows>"

    @property
    def band(self) -> Band | None:
        return None if self.low is None or self.high is None else Band(self.low, self.high, self.confidence)

    def table(self) -> pa.Table:
        columns: dict[str, Any] = {"category": list(self.categories), "probability": self.mass}
        if self.band is not None:
            columns |= {"probability_low": self.low, "probability_high": self.high}
        return pa.table(columns)

    def summary(self) -> dict[str, Any]:
        return {
            "column": self.name,
            "rows": self.rows,
            "shares": dict(zip(self.categories, map(float, self.mass), strict=True)),
            "confidence": None if self.band is None else self.confidence,
            "method": "response-inverse",
        }

    def shares_of(self, values: Sequence[Any]) -> Floats:
        """Shares of given categories."""
        return counts_of(values, self.categories) / max(1, len(values))

    def plot(self, size: Size = WIDE) -> str:
        """The shares with their band, as an SVG picture."""
        return bars_picture(f"Shares of {self.name}", self.categories, self.mass, self.band, size)


def counts_of(values: Iterable[Any], categories: Sequence[str], *, left_out: bool = False) -> Floats:
    """How often each category occurs; empty cells are the last category where there is one for them.

    Where cells can be `left_out`, empty ones do not count.

    `values` are categories, or an iterator over blocks of them, which is read once in constant memory.
    """
    if isinstance(values, Iterator):
        blocks = (counts_of(block, categories, left_out=left_out) for block in values)
        return np.asarray(sum(blocks, np.zeros(len(categories))))
    place = {category: number for number, category in enumerate(categories)}
    counts = np.zeros(len(categories))
    for value, count in Counter(values).items():
        if value is None and left_out:
            continue
        code = place.get("(missing)" if value is None else str(value))
        if code is None and value is None:
            raise TableError(
                f"The column has {counted(count, 'empty cell')}, and its card does not say that cells can be "
                "missing there: the release was changed or damaged. Get it again from whoever made it."
            )
        if code is None:
            raise TableError("The column contains categories that the card does not name. Card and release disagree.")
        counts[code] += count
    return counts


def invert_response(counts: Sequence[ArrayLike], keeps: Sequence[float]) -> Floats:
    """Shares s with R s = observed, R_ij = keep if i = j else (1 - keep) / (k - 1); then the nearest possible ones.

    R = a I + b 1 1' with b = (1 - keep) / (k - 1), a = keep - b; on shares that sum to 1, s = (observed - b) / a.
    Parts with different `keeps` weigh by n a^2, about the precision of their inverses. Shares below 0 are chance; the
    Euclidean projection on the simplex takes them out.
    """
    parts = [np.asarray(one, dtype=np.float64) for one in counts]
    k = len(parts[0])
    if k < 2:
        return np.ones(k)
    total, weight = np.zeros(k), 0.0
    for observed, keep in zip(parts, keeps, strict=True):
        other = (1.0 - keep) / (k - 1)
        if not 0 < keep <= 1 or abs(keep - other) < 1e-12:
            raise UsageError(
                f"Answers kept with probability {keep:g} among {k} categories say nothing about the truth."
            )
        total += (keep - other) * (observed - other * observed.sum())
        weight += (keep - other) ** 2 * observed.sum()
    return onto_simplex(total / weight)


def reconstruct_shares(
    name: str, counts: Sequence[Floats], categories: Sequence[str], keeps: Sequence[float], how: Options
) -> Shares:
    """Shares from counts of randomized answers, with their band where there are to be draws: one estimate for all
    parts."""
    rows = [int(one.sum()) for one in counts]
    mass, low, high = invert_response(counts, keeps), None, None
    if how.resamples:
        rng, tail = np.random.default_rng(how.seed), (1.0 - how.confidence) / 2.0
        draws = [rng.multinomial(n, one / max(1, n), how.resamples) for n, one in zip(rows, counts, strict=True)]
        again = np.array([invert_response(draw, keeps) for draw in zip(*draws, strict=True)])
        low, high = np.quantile(again, [tail, 1.0 - tail], axis=0)
    return Shares(name, tuple(categories), mass, low, high, how.confidence, sum(rows))


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
    def band(self) -> Band | None:
        """As a density."""
        if self.low is None or self.high is None:
            return None
        return Band(self.low / self.cells.widths, self.high / self.cells.widths, self.confidence)

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
        columns: dict[str, Floats] = {
            "low": self.cells.edges[:-1],
            "high": self.cells.edges[1:],
            "probability": self.mass,
            "density": self.mass / self.cells.widths,
            "cumulative": np.cumsum(self.mass),
        }
        if self.band is not None:
            columns |= {"density_low": self.band.low, "density_high": self.band.high}
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
        axis = f"{self.name}, {self.about['unit']}" if "unit" in self.about else self.name
        titles, height = (f"Density of {self.name}", axis), self.mass / self.cells.widths
        return steps_picture(titles, self.cells.edges, height, self.mean, self.band, size)


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


# Densities that could be the truth: draws from the posterior, by Hamiltonian Monte Carlo.
#
# The most probable curve with its curvature (Laplace's approximation) says too little where noise is strong: there the
# logarithm of a cell's probability is uncertain by more than 1, and nothing is normal. Short chains in coordinates in
# which the curvature is 1 cost a tenth of a second and need no such approximation.

_TRAJECTORIES, _KEPT = 12, 4
_LEAPS, _STEP = 8, 0.25


def draw_masses(model: LogDensity, fits: Sequence[Fitted], count: int, rng: np.random.Generator) -> Floats:
    """`count` draws (lines) of the probabilities of cells and points; the roughness is drawn by its evidence."""
    evidence = np.array([fit.log_evidence for fit in fits])
    share = np.exp(evidence - evidence.max())
    chains = -(-count // _KEPT)
    places = (np.arange(chains) + rng.random()) / chains  # evenly, so that few chains still stand for all
    chosen = np.minimum(np.searchsorted(np.cumsum(share / share.sum()), places), len(fits) - 1)
    found = [_chains(model, fits[place], int(np.sum(chosen == place)), rng) for place in np.unique(chosen)]
    return np.vstack(found)[:count]


def draw_shares(model: LogDensity, masses: Floats, rng: np.random.Generator) -> Floats:
    """For every draw of the distribution, a draw of the shares that the people of this table have in it.

    With r_ij the probability that a person with a value in z-cell j belongs to cell i, their number in i has the mean
    sum_j n_j r_ij and the variance sum_j n_j r_ij (1 - r_ij): what chance made of the distribution in this very table.
    """
    found = np.empty_like(masses)
    for line, mass in enumerate(masses):
        belongs = model.G * mass / np.maximum(model.expected(mass), 1e-300)[:, None]
        mean = model.counts @ belongs
        variance = np.maximum(mean - model.counts @ belongs**2, 0.0)
        number = np.maximum(mean + np.sqrt(variance) * rng.standard_normal(len(mass)), 0.0)
        found[line] = number / mean.sum()
    return found


def _chains(model: LogDensity, fit: Fitted, chains: int, rng: np.random.Generator) -> Floats:
    """Several chains side by side, begun near the most probable curve; of each the last few states."""
    inverse = solve_triangular(fit.triangle, np.eye(len(fit.theta)))
    towards, rest = model.design @ inverse, fit.precision @ fit.theta
    precision, rest = inverse.T @ fit.precision @ inverse, inverse.T @ rest

    def look(at: Floats) -> tuple[Floats, Floats]:
        """Log-posterior and its slope, at the chains' places."""
        likelihood, slope = model.likelihood(model.masses(fit.theta[:, None] + inverse @ at))
        pulled = precision @ at
        value = likelihood - 0.5 * (at * pulled).sum(axis=0) - rest @ at
        return value, towards.T @ slope - pulled - rest[:, None]

    at = 0.5 * rng.standard_normal((len(fit.theta), chains))
    value, slope = look(at)
    found = []
    for number in range(_TRAJECTORIES):
        speed = rng.standard_normal(at.shape)
        step = _STEP * rng.uniform(0.6, 1.3)
        before = value - 0.5 * (speed**2).sum(axis=0)
        moved, moved_value, moved_slope = at, value, slope
        for _ in range(_LEAPS):
            speed = speed + 0.5 * step * moved_slope
            moved = moved + step * speed
            moved_value, moved_slope = look(moved)
            speed = speed + 0.5 * step * moved_slope
        after = moved_value - 0.5 * (speed**2).sum(axis=0)
        taken = np.log(rng.random(chains)) < after - before
        at, value, slope = (
            np.where(taken, new, old) for new, old in ((moved, at), (moved_value, value), (moved_slope, slope))
        )
        if number >= _TRAJECTORIES - _KEPT:
            found.append(model.masses(fit.theta[:, None] + inverse @ at).T)
    return np.vstack(found)


# The band: between which shares of the table's people the true one lies in each cell, whatever the column is like.
#
# Every column that the released values allow (see `atoms`) gives a pointwise interval from draws of its posterior, in
# which chance and the bias of smoothing are one: a draw is a table that could be the true one. The band spans the
# intervals of all of them. A point mass may lie in each cell that its standard error reaches.

_LIKELY = 0.02
"""Chance from which on a kind of curve counts: what is seldom true is true of some columns, so only what the released
values rule out is left out."""
_NARROWED = 0.95
"""The span of several intervals covers more than each of them, so that each is taken narrower by this.

It was chosen on the columns of benchmarks/bench_coverage.py --chosen-on, `_LIKELY` on two skewed columns of real
tables: docs/reconstruction.md says which, and what others show.
"""


def band_of(columns: Sequence[Column], cells: Cells, how: Options) -> tuple[Floats, Floats]:
    """Lower and upper ends for every cell; less than one of the released rows is not told from none."""
    rng = np.random.default_rng(how.seed)
    found = [_interval(column, fits, cells, how, rng) for column in columns for fits in _alike(column.fits)]
    low = np.min([ends[0] for ends in found], axis=0)
    high = np.max([ends[1] for ends in found], axis=0)
    one_row = 1.0 / float(columns[0].model.counts.sum())
    low[low < one_row] = 0.0
    return low, np.maximum(high, one_row)


def _alike(fits: Sequence[Fitted]) -> list[Sequence[Fitted]]:
    """Smooth curves, those between, and rough ones: of each kind that is likely, its fits.

    Strong noise hides whether a column has one hump or two. Averaged over all, the smooth ones would speak loudest, and
    the band be far too narrow where they are wrong.
    """
    third = -(-len(fits) // 3)
    kinds = [fits[start : start + third] for start in range(0, len(fits), third)]
    evidence = np.array([logsumexp([fit.log_evidence for fit in kind]) for kind in kinds])
    chances = np.exp(evidence - logsumexp(evidence))
    return [kind for kind, chance in zip(kinds, chances, strict=True) if chance >= _LIKELY]


def _interval(
    column: Column, fits: Sequence[Fitted], cells: Cells, how: Options, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    draws, reach = how.resamples, _NARROWED * float(norm.ppf(0.5 * (1.0 + how.confidence)))
    tails = [float(norm.cdf(-reach)), float(norm.cdf(reach))]
    drawn = draw_shares(column.model, draw_masses(column.model, fits, draws, rng), rng)
    smooth, shares = drawn[:, : cells.count].copy(), drawn[:, cells.count :].T
    lines = np.arange(draws)
    for atom, share in zip(column.atoms, shares, strict=True):
        if atom.width:
            centre = atom.place + atom.error * rng.standard_normal(draws)
            for distance, weight in zip(*atom.spread(), strict=True):
                smooth[lines, cells.holding(centre + distance)] += weight * share
    low, high = np.quantile(smooth, tails, axis=0)
    for atom, share in zip(column.atoms, shares, strict=True):
        if not atom.width:
            away = reach * atom.error
            ends = cells.holding(np.array([atom.place - away, atom.place + away, atom.value]))
            there = np.arange(ends.min(), ends.max() + 1)
            with_it = np.quantile(smooth[:, there] + share[:, None], tails, axis=0)
            high[there] = np.maximum(high[there], with_it[1])
            if len(there) == 1:
                low[there] = with_it[0]
    return low, high
