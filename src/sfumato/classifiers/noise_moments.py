"""First and second moments of the plain rows of every class, from the moments of released rows and the known noise.

Every released entry is first made unbiased, E[w | x] = x (entries in the encoding of plain rows):

- a number z = x + e: w = z - E[e]; a factor z = x f: w = z / E[f];
- a one-hot entry under randomized response, kept with probability p among k: w = (z - q) / (p - q), q = (1-p)/(k-1);
- a number that may be missing, reported truly with probability p: w = 1/2 + (z - 1/2) / p where shown, 1/2 where not.

Where noise of different columns is independent, E[w_i w_j] = E[x_i x_j] between columns; where they share it, its
covariance is taken off. Only the entries within one source column need more: E[x x'] = diag(E[x]) for one-hot entries,
and for numbers, with Var(w | x) = v + r x^2, E[x^2] = (E[w^2] - v) / (1 + r).

Where rows leave cells out, whatever these hold, every sum is taken over the rows that report what it needs, and scaled
to all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Floats
from sfumato.channels import apart
from sfumato.classifiers.label_noise import response_matrix
from sfumato.classifiers.reads_noise import Rows
from sfumato.classifiers.release_columns import ReleaseColumn, clean_columns, columns_of, recipe_of
from sfumato.errors import CardError, UsageError
from sfumato.noise import OperatorNoise


@dataclass(frozen=True)
class ClassMoments:
    """Per class: estimated number of rows, mean, covariance of plain rows, and the covariance that was removed."""

    counts: Floats
    means: Floats
    covariances: Floats
    removed: Floats
    seen: float = 1.0
    """The share of rows that report two columns together, on average."""


@dataclass(frozen=True)
class _Sums:
    """Over the rows of one part, by class: rows (k), x (k x d), x x' (k x d x d), and what noise added to the last."""

    rows: Floats
    first: Floats
    second: Floats
    noise: Floats
    precision: Floats
    seen: float = 1.0


def class_moments(parts: Sequence[Rows], classes: int) -> ClassMoments:
    """One estimate from all parts. Parts weigh, entry by entry, by their rows over the variance of their entries."""
    centre = np.full(parts[0].Z.shape[1], 0.5)  # the middle of every range, so that little cancels
    if all(part.source is None for part in parts):
        centre = np.concatenate([part.Z for part in parts]).mean(axis=0)
    sums = [_part_sums(part, classes, centre) for part in parts]
    counts = np.sum([one.rows for one in sums], axis=0)
    weights = [one.precision for one in sums]
    cross = [np.sqrt(np.outer(weight, weight)) for weight in weights]
    tiny = 1e-9
    total = sum(w[None, :] * one.rows[:, None] for w, one in zip(weights, sums, strict=True))
    means = sum(w * one.first for w, one in zip(weights, sums, strict=True)) / np.maximum(total, tiny)
    entries = np.maximum(sum(c * one.rows[:, None, None] for c, one in zip(cross, sums, strict=True)), tiny)
    second = sum(c * one.second for c, one in zip(cross, sums, strict=True)) / entries
    removed = sum(c * one.noise for c, one in zip(cross, sums, strict=True)) / entries
    covariances = second - means[:, :, None] * means[:, None, :]
    unbiased = np.maximum(counts, 2.0) / (np.maximum(counts, 2.0) - 1.0)
    seen = float(np.average([one.seen for one in sums], weights=[len(part.y) for part in parts]))
    return ClassMoments(counts, means + centre, covariances * unbiased[:, None, None], removed, seen)


def _part_sums(part: Rows, classes: int, centre: Floats) -> _Sums:
    columns = clean_columns(part.Z) if part.source is None else columns_of(part.source, ranges=False)
    recipe = recipe_of(part.source)
    if (columns[-1].stop if recipe is None else recipe.width) != part.Z.shape[1]:
        raise CardError(
            "The card describes different columns from those of the rows. Card and release do not belong together."
        )
    noises = [_Noise.of(column) for column in columns]
    W = part.Z.copy()  # a slot for "missing" that nobody reports belongs to no column
    for noise in noises:
        noise.unbias(part.Z, W)
    W -= centre
    mine = [part.y == code for code in range(classes)]
    inverse: Floats = np.eye(classes)
    if part.label_keep < 1.0 and classes > 1:
        inverse = np.asarray(np.linalg.inv(response_matrix(part.label_keep, classes)), dtype=np.float64)
    rows = inverse @ np.array([m.sum() for m in mine], dtype=np.float64)
    sums, squares, pairs = zip(*(_reported_sums(W[m]) for m in mine), strict=True)
    first, second = inverse @ np.array(sums), np.tensordot(inverse, np.array(squares), axes=1)
    plain = second.copy()
    for noise in noises:
        noise.within(part.Z, mine, inverse, rows, first, plain)
    if recipe is not None and (shared := apart(recipe.channels)) is not None:
        plain -= rows[:, None, None] * shared.between(recipe.width)
    spread, share = np.nanvar(W, axis=0), np.mean(~np.isnan(W), axis=0)
    precision = share / np.where(spread > 0, spread, 1.0)
    return _Sums(
        rows, first, plain, second - plain, precision, float(np.average(pairs, weights=[m.sum() for m in mine]))
    )


def _reported_sums(W: Floats) -> tuple[Floats, Floats, float]:
    """Sums of x and of x x' over rows, as if all reported everything, and the share of pairs that they report."""
    there = ~np.isnan(W)
    if there.all():
        return W.sum(axis=0), np.asarray(W.T @ W), 1.0
    both = there.astype(np.float64)
    pairs, known = both.T @ both, np.where(there, W, 0.0)
    if not pairs.all():
        raise UsageError(
            "Not applicable: in some class no row reports two of the columns together, so it is unknown how they "
            "vary together. Use reconstructed-naive-bayes, which takes columns one by one."
        )
    first, second = known.sum(axis=0) / np.diag(pairs), known.T @ known / pairs
    return len(W) * first, np.asarray(len(W) * second), float(pairs.mean() / len(W))


@dataclass(frozen=True)
class _Noise:
    """What was done, in raw units: E[z | x] = factor x + shift, Var(z | x) / factor^2 = variance + relative x^2."""

    column: ReleaseColumn
    factor: float = 1.0
    shift: float = 0.0
    variance: float = 0.0
    relative: float = 0.0

    @classmethod
    def of(cls, column: ReleaseColumn) -> _Noise:
        one = column.described
        if one is None or one.is_categorical or one.noise is None:
            return cls(column)
        if not isinstance(one.noise, OperatorNoise):
            raise UsageError(
                f"Not applicable: the noise of column {one.name!r} depends on the value in a way that means and "
                "covariances alone do not undo. Use reconstructed-naive-bayes or reconstructed-tree."
            )
        law, operator = one.noise.law, one.noise.operator
        if not math.isfinite(law.variance):
            raise UsageError(
                f"The noise of column {one.name!r} has no variance, so none can be subtracted. "
                "Use reconstructed-naive-bayes or reconstructed-tree."
            )
        if operator.is_additive:
            return cls(column, shift=law.mean, variance=law.variance)
        base = operator.parameters.get("base")
        if operator.name != "multiplicative" or base is None or base + law.mean == 0:
            raise UsageError(
                f"Column {one.name!r}: what the operator {operator.name} does to means and covariances is not known "
                "from its noise alone. Use reconstructed-naive-bayes or reconstructed-tree."
            )
        factor = base + law.mean
        return cls(column, factor=factor, relative=law.variance / factor**2)

    def unbias(self, Z: Floats, W: Floats) -> None:
        """Entries w with E[w | x] = x."""
        column, one = self.column, self.column.described
        block = slice(column.start, column.stop)
        W[:, block] = Z[:, block]
        if one is None or not column.is_noisy:
            return
        if one.is_categorical:
            k = column.stop - column.start
            other = (1.0 - one.keep) / max(1, k - 1)
            if abs(one.keep - other) < 1e-9:
                raise UsageError(f"The answers of column {one.name!r} say nothing about the truth.")
            W[:, block] = (Z[:, block] - other) / (one.keep - other) if k > 1 else Z[:, block]
        else:
            shown = column.encoded((column.low + column.width * Z[:, column.start] - self.shift) / self.factor)
            keep = one.missing_keep
            if keep is None:
                W[:, column.start] = shown
                return
            empty = column.missing(Z)
            W[:, column.start] = np.where(empty, 0.5, 0.5 + (shown - 0.5) / keep)
            W[:, column.stop - 1] = (empty - (1.0 - keep)) / (2.0 * keep - 1.0)

    def within(
        self, Z: Floats, mine: Sequence[Floats], inverse: Floats, rows: Floats, first: Floats, second: Floats
    ) -> None:
        """The entries of the second moments (about 1/2) within this column, noise removed, in place."""
        column, one = self.column, self.column.described
        block = slice(column.start, column.stop)
        if one is None or not column.is_noisy:
            return
        if one.is_categorical:
            shares = first[:, block] + 0.5 * rows[:, None]
            fresh = np.einsum("ci,ij->cij", shares, np.eye(shares.shape[1]))
            fresh -= 0.5 * (shares[:, :, None] + shares[:, None, :]) - 0.25 * rows[:, None, None]
            second[:, block, block] = fresh
            return
        start, keep = column.start, one.missing_keep if one.missing_keep is not None else 1.0
        u = (column.values(Z) - self.shift) / self.factor
        shown = ~np.isnan(u)
        u = np.where(shown, u, 0.0)
        there = column.reported(Z)
        told = inverse @ np.array(
            [
                np.array([shown[m].sum(), u[m].sum(), (u[m] ** 2).sum()]) * (m.sum() / max(1, there[m].sum()))
                for m in mine
            ]
        )
        middle, empty = column.low + 0.5 * column.width, np.zeros(len(rows))
        if one.missing_keep is not None:
            empty = first[:, column.stop - 1] + 0.5 * rows
            second[:, column.stop - 1, column.stop - 1] = 0.25 * rows  # an indicator is 1/2 away from the middle
            second[:, start, column.stop - 1] = second[:, column.stop - 1, start] = -0.5 * first[:, start]
        stand_ins = (1.0 - keep) * empty
        plain = (told[:, 1] - stand_ins * middle) / keep
        squares = ((told[:, 2] - self.variance * told[:, 0]) / (1.0 + self.relative) - stand_ins * middle**2) / keep
        present = rows - empty
        second[:, start, start] = (squares - 2 * middle * plain + middle**2 * present) / column.width**2
