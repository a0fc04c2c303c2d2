"""Linear and quadratic discriminants: known noise is taken out of means and covariances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.channels import Recipe, apart
from sfumato.core.array_types import Flags, Floats
from sfumato.core.errors import UsageError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.class_densities import ReleaseColumn, columns_of_part
from sfumato.learn.classifiers.reads_noise import (
    GivesProbabilities,
    Part,
    ReadsNoise,
    log_shares,
    recipe_of,
    response_matrix,
    softmax,
)
from sfumato.mechanisms import Mechanism
from sfumato.noise import OperatorNoise
from sfumato.noise.response import onto_simplex
from sfumato.reconstruction.reconstruct import Described

# First and second moments of the plain rows of every class, from the moments of released rows and the known noise.
#
# Every released entry is first made unbiased, E[w | x] = x (entries in the encoding of plain rows):
#
# - a number z = x + e: w = z - E[e]; a factor z = x f: w = z / E[f];
# - a one-hot entry under randomized response, kept with probability p among k: w = (z - q) / (p - q), q = (1-p)/(k-1);
# - a number that may be missing, reported truly with probability p: w = 1/2 + (z - 1/2) / p where shown, 1/2 where not.
#
# Where noise of different columns is independent, E[w_i w_j] = E[x_i x_j] between columns; where they share it, its
# covariance is taken off. Only the entries within one source column need more: E[x x'] = diag(E[x]) for one-hot
# entries, and for numbers, with Var(w | x) = v + r x^2, E[x^2] = (E[w^2] - v) / (1 + r).
#
# Where rows leave cells out, whatever these hold, every sum is taken over the rows that report what it needs, and
# scaled to all of them.

_LEAST, _RIDGE = 1e-9, 1e-8


@dataclass(frozen=True)
class ClassMoments:
    """Per class: estimated number of rows, mean, covariance of plain rows, and the covariance that was removed."""

    counts: Floats
    means: Floats
    covariances: Floats
    removed: Floats
    seen: float = 1.0
    """The share of rows that report two columns together, on average."""


def class_moments(parts: Sequence[Part], classes: int) -> ClassMoments:
    """One estimate from all parts. Parts weigh, entry by entry, by their rows over the variance of their entries."""
    centre = np.full(parts[0].Z.shape[1], 0.5)  # the middle of every range, so that little cancels
    if all(part.source is None for part in parts):
        centre = np.concatenate([part.Z for part in parts]).mean(axis=0)
    rows, first, second, noise, precision, seen = (
        np.array(one) for one in zip(*(_part_sums(part, classes, centre) for part in parts), strict=True)
    )
    counts, weight = rows.sum(axis=0), precision[:, None]
    means = (weight * first).sum(axis=0) / np.maximum((weight * rows[:, :, None]).sum(axis=0), _LEAST)
    cross = np.sqrt(weight[..., None] * weight[:, :, None])
    entries = np.maximum((cross * rows[:, :, None, None]).sum(axis=0), _LEAST)
    covariances = (cross * second).sum(axis=0) / entries - means[:, :, None] * means[:, None, :]
    unbiased = np.maximum(counts, 2.0) / (np.maximum(counts, 2.0) - 1.0)
    removed = (cross * noise).sum(axis=0) / entries
    share = float(np.average(seen, weights=[len(part.y) for part in parts]))
    return ClassMoments(counts, means + centre, covariances * unbiased[:, None, None], removed, share)


def _part_sums(part: Part, classes: int, centre: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats, float]:
    """Of one part, by class: rows (k), x (k x d), x x' (k x d x d) and what noise added to that; the precision of every
    column, and the share of rows that report two columns together."""
    recipe = recipe_of(part.source)
    noises = [_Noise.of(one) for one in columns_of_part(part, ranges=False) if one.is_noisy]
    W = part.Z.copy()
    for noise in noises:
        noise.unbias(part.Z, W)
    W -= centre
    mine = [part.y == code for code in range(classes)]
    inverse: Floats = np.eye(classes)
    if part.label_keep < 1.0 and classes > 1:
        inverse = np.asarray(np.linalg.inv(response_matrix(part.label_keep, classes)), dtype=np.float64)
    counts = np.array([m.sum() for m in mine], dtype=np.float64)
    rows = inverse @ counts
    sums, squares, pairs = zip(*(_reported_sums(W[m]) for m in mine), strict=True)
    first, second = inverse @ np.array(sums), np.tensordot(inverse, np.array(squares), axes=1)
    plain = second.copy()
    for noise in noises:
        noise.within(part.Z, mine, inverse, rows, first, plain)
    if recipe is not None and (shared := apart(recipe.channels)) is not None:
        plain -= rows[:, None, None] * shared.between(recipe.width)
    spread, share = np.nanvar(W, axis=0), np.mean(~np.isnan(W), axis=0)
    precision = share / np.where(spread > 0, spread, 1.0)
    return rows, first, plain, second - plain, precision, float(np.average(pairs, weights=counts))


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
    one: Described
    factor: float = 1.0
    shift: float = 0.0
    variance: float = 0.0
    relative: float = 0.0

    @classmethod
    def of(cls, column: ReleaseColumn) -> _Noise:
        one = column.described
        assert one is not None  # it would not be noisy
        if one.is_categorical or one.noise is None:
            return cls(column, one)
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
            return cls(column, one, shift=law.mean, variance=law.variance)
        base = operator.parameters.get("base")
        if operator.name != "multiplicative" or base is None or base + law.mean == 0:
            raise UsageError(
                f"Column {one.name!r}: what the operator {operator.name} does to means and covariances is not known "
                "from its noise alone. Use reconstructed-naive-bayes or reconstructed-tree."
            )
        factor = base + law.mean
        return cls(column, one, factor=factor, relative=law.variance / factor**2)

    def unbias(self, Z: Floats, W: Floats) -> None:
        """Entries w with E[w | x] = x."""
        column, one = self.column, self.one
        if one.is_categorical:
            k, block = column.stop - column.start, slice(column.start, column.stop)
            other = (1.0 - one.keep) / max(1, k - 1)
            if abs(one.keep - other) < 1e-9:
                raise UsageError(f"The answers of column {one.name!r} say nothing about the truth.")
            W[:, block] = (Z[:, block] - other) / (one.keep - other) if k > 1 else Z[:, block]
            return
        shown = column.encoded((column.low + column.width * Z[:, column.start] - self.shift) / self.factor)
        keep = one.missing_keep
        if keep is None:
            W[:, column.start] = shown
            return
        empty = column.missing(Z)
        W[:, column.start] = np.where(empty, 0.5, 0.5 + (shown - 0.5) / keep)
        W[:, column.stop - 1] = (empty - (1.0 - keep)) / (2.0 * keep - 1.0)

    def within(
        self, Z: Floats, mine: Sequence[Flags], inverse: Floats, rows: Floats, first: Floats, second: Floats
    ) -> None:
        """The entries of the second moments (about 1/2) within this column, noise removed, in place."""
        column, one = self.column, self.one
        if one.is_categorical:
            block = slice(column.start, column.stop)
            shares = first[:, block] + 0.5 * rows[:, None]
            fresh = np.einsum("ci,ij->cij", shares, np.eye(shares.shape[1]))
            fresh -= 0.5 * (shares[:, :, None] + shares[:, None, :]) - 0.25 * rows[:, None, None]
            second[:, block, block] = fresh
            return
        start, keep = column.start, 1.0 if one.missing_keep is None else one.missing_keep
        u = (column.values(Z) - self.shift) / self.factor
        moments = np.array([~np.isnan(u), np.nan_to_num(u), np.nan_to_num(u) ** 2])
        there = column.reported(Z)
        scale = [m.sum() / max(1, there[m].sum()) for m in mine]
        of_classes = [moments.compress(m, axis=1).sum(axis=1) * part for m, part in zip(mine, scale, strict=True)]
        told = inverse @ np.array(of_classes)
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


KINDS = ("linear", "quadratic")


@dataclass(eq=False, repr=False)
class NoiseAwareDiscriminant(GivesProbabilities, ReadsNoise):
    """Normal classes with means and covariances of the *plain* rows, estimated from a noisy release and its card.

    Cov(x) = Cov(w) - N, where w are the released rows made unbiased and N is what noise added (`noise_moments`). The
    difference of two estimates need not be a covariance: it is replaced by the nearest matrix C with C >= kappa N
    (negative eigenvalues of Cov(w) - (1 + kappa) N, columns scaled to unit variance, become 0, then kappa N is added
    back). kappa = `floor` sqrt(d / n), at most 1, is about the chance error of the removal in d columns and n rows (for
    "quadratic" rows per class, alike for all classes: else the rarer one would look wider); no direction is trusted to
    have less variance than that. Without noise nothing is changed. Randomized labels are undone in the
    moments themselves, part by part.

    It needs no range, so it also works in the space of a secret rotation with noise.

    Parameters
    ----------
    kind : "linear" (one covariance) or "quadratic" (one for each class).
    floor : factor of kappa, 0 for the nearest positive semidefinite matrix; 1.5 served best over the sets of
        papers/density-reconstruction/COMPARISON.md with Gaussian noise, 1 to 3 nearly as well.
    pooled_rows : for "quadratic", the pooled covariance counts in that of every class as so many rows; None: as many
        as there are columns.

    Attributes
    ----------
    classes_, class_prior_, means_ : labels, shares, means of plain rows.
    covariance_ : (d, d) for linear, (k, d, d) for quadratic.
    coef_, intercept_ : for linear, one row per class: the score is coef x + intercept.
    """

    corrects_labels = True

    kind: str = "linear"
    floor: float = 1.5
    pooled_rows: float | None = None

    def _check_parameters(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"The 'kind' parameter must be one of {', '.join(KINDS)}. Got {self.kind!r} instead.")
        if not self.floor >= 0:
            raise ValueError(f"The 'floor' parameter must be a number >= 0. Got {self.floor!r} instead.")

    def _train(self, parts: list[Part]) -> None:
        """Estimate the moments."""
        found = class_moments(parts, len(self.classes_))
        rows = np.maximum(found.counts, 0.0)
        self.class_prior_ = onto_simplex(found.counts / found.counts.sum())
        share = rows / rows.sum()
        # A class that randomized labels leave with hardly a row has no mean of its own.
        self.means_ = np.where(rows[:, None] >= 1.0, found.means, share @ found.means)
        pooled, noise = (np.tensordot(share, one, axes=1) for one in (found.covariances, found.removed))
        spread = np.sqrt(np.maximum(np.diag(pooled + noise), 0.0))
        spread = np.where(spread > 0, spread, 1.0)
        linear = possible_covariance(pooled, noise, self._kappa(found.seen * rows.sum()), spread)
        if self.kind == "linear":
            self.covariance_ = linear
            self.coef_ = np.linalg.solve(linear, self.means_.T).T
            self.intercept_ = log_shares(self.class_prior_) - 0.5 * np.sum(self.coef_ * self.means_, axis=1)
            return
        more = float(self.n_features_in_ if self.pooled_rows is None else self.pooled_rows)
        own = [
            possible_covariance(c, n, self._kappa(rows.sum() / len(rows)), spread)
            for c, n in zip(found.covariances, found.removed, strict=True)
        ]
        trust = np.where(rows >= 2.0, rows, 0.0)
        self.covariance_ = np.array(
            [(t * c + more * linear) / (t + more) if t + more > 0 else linear for t, c in zip(trust, own, strict=True)]
        )

    def _kappa(self, rows: float) -> float:
        return float(min(1.0, self.floor * np.sqrt(self.n_features_in_ / max(rows, 1.0))))

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Log-probability of every class up to a constant; for two classes the second's less the first's."""
        scores = self._scores(self._queries(X))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        return softmax(self._scores(self._queries(X)))

    def predict_proba_released(self, Z: npt.ArrayLike, source: Recipe | Card | Mechanism) -> Floats:
        """Probabilities for perturbed rows: normal classes, moved and widened as the channels do to an average row."""
        recipe = recipe_of(source)
        assert recipe is not None
        rows, centre = self._queries(Z), (self.class_prior_ @ self.means_)[None, :]
        gain, added = np.zeros((recipe.width, recipe.width)), np.zeros((recipe.width, recipe.width))
        offset = np.zeros(recipe.width)
        for place, channel in zip(recipe.places, recipe.channels, strict=True):
            gain[place, place], offset[place], added[place, place] = channel.line(centre[:, place])
        if (shared := apart(recipe.channels)) is not None:
            added += shared.between(recipe.width)
        own = self.covariance_ if self.kind == "quadratic" else [self.covariance_] * len(self.classes_)
        seen = [gain @ covariance @ gain.T + added + _RIDGE * np.eye(recipe.width) for covariance in own]
        return softmax(normal_scores(rows, [gain @ mean + offset for mean in self.means_], seen, self.class_prior_))

    def _scores(self, rows: Floats) -> Floats:
        if self.kind == "linear":
            return np.asarray(rows @ self.coef_.T + self.intercept_)
        return normal_scores(rows, self.means_, self.covariance_, self.class_prior_)


def normal_scores(rows: Floats, means: Iterable[Floats], covariances: Iterable[Floats], prior: Floats) -> Floats:
    """Log-probabilities of normal classes with these shares, up to a constant."""
    scores = np.empty((len(rows), len(prior)))
    for code, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        root = np.linalg.cholesky(covariance)
        away = np.linalg.solve(root, (rows - mean).T)
        scores[:, code] = -0.5 * np.sum(away**2, axis=0) - np.log(np.diag(root)).sum()
    return np.asarray(scores + log_shares(prior))


def possible_covariance(estimate: Floats, noise: Floats, kappa: float, spread: Floats) -> Floats:
    """The estimate, moved as little as needed to be at least kappa times the noise, in units of `spread`."""
    scale = np.outer(spread, spread)
    scaled, least = estimate / scale, kappa * noise / scale
    least = 0.5 * (least + least.T)
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T) - least)
    raised = (vectors * np.maximum(values, 0.0)) @ vectors.T + least
    return np.asarray((raised + _RIDGE * np.eye(len(scaled))) * scale)
