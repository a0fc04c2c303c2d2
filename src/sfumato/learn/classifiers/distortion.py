"""What noise does to squared distances: mean and variance of the distortion, for noise of any law.

A released row is X + delta on the retained components S; the neglected components N are gone. Against an
unperturbed query Y the squared distance changes by

    D = sum_S 2 (X_i - Y_i) delta_i + sum_S delta_i^2 - sum_N (X_i - Y_i)^2.

X and Y are independent rows of the same population; components are uncorrelated; noise is symmetric about 0.
Random factors are treated apart (`factor_noise`): their noise depends on X.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy import stats

from sfumato.channels import Affine, Recipe
from sfumato.core.array_types import Codes, Floats


# What random factors do to squared distances: noise that is larger where the value is.
#
# A column is released as z = x f, in units in which its zero is 0 (`origin` is subtracted), f with mean m, variance v
# and fourth central moment k, symmetric about m. A query y is put where it lies on average, at m y. With f = m + g the
# squared distance is
#
#     (z - m y)^2 = m^2 (x - y)^2 + 2 m (x - y) x g + x^2 g^2,
#
# and its distortion has the mean v x^2, which differs from row to row: a class of large values would be heard too
# little. But E[z^2 | x] = (m^2 + v) x^2, so that r z^2 with r = v / (m^2 + v) has the same mean, whatever x is. With
# this taken off a row's squared distance, and the mean over all rows put in its place, the distortion is
#
#     D = sum 2 m g x ((1 - r) x - y) + (1 - r) x^2 (g^2 - v) + v E[x^2],
#
#     E(D) = sum v E[x^2],
#     Var(D) = sum 4 m^2 v ((1 - r)^2 a_4 - 2 (1 - r) a_3 a_1 + a_2^2) + (1 - r)^2 (k - v^2) a_4.
#
# Rows x and queries y are independent and of one population, with moments a_n = E[x^n] = E[z^n] / E[f^n]. Given x and y
# every term has mean zero and the factors of different columns are independent, so that columns may be correlated.
@dataclass(frozen=True)
class FactorNoise:
    """The multiplied columns of a release matrix, where the zero of each lies in it, and moments of their factors."""

    columns: Codes
    origin: Floats
    mean: Floats
    variance: Floats
    fourth_moment: Floats

    @classmethod
    def of(cls, recipe: Recipe) -> FactorNoise | None:
        """The multiplied columns of a release; None where nothing was multiplied."""
        pairs = zip(recipe.places, (channel.factor for channel in recipe.channels), strict=True)
        found = [(place.start, factor) for place, factor in pairs if factor is not None]
        if not found:
            return None
        columns, factors = zip(*found, strict=True)
        origin, *moments = np.array(factors, dtype=np.float64).T
        return cls(np.array(columns, dtype=np.int64), origin, *moments)

    @property
    def share(self) -> Floats:
        """r: how much of z^2 is noise on average; 1 for a factor without variance."""
        with np.errstate(invalid="ignore"):
            found = self.variance / (self.mean**2 + self.variance)
        return np.where(np.isfinite(self.variance), found, 1.0)

    def of_rows(self, rows: Floats) -> Floats:
        """sum r z^2 for every row: an unbiased estimate of the squared length of the noise in it."""
        return np.asarray((rows[:, self.columns] - self.origin) ** 2 @ self.share)

    def distortion(self, rows: Floats) -> tuple[float, float]:
        """E(D) and Var(D) of squared distances, `of_rows` replaced by its mean; infinite where the moments are."""
        if not np.isfinite(self.variance).all():
            return np.inf, np.inf
        z, m, v, k, r = rows[:, self.columns] - self.origin, self.mean, self.variance, self.fourth_moment, self.share
        a1 = np.divide(z.mean(axis=0), m, out=np.zeros_like(m), where=m != 0)
        a2 = np.mean(z**2, axis=0) / (m**2 + v)
        mean = float(v @ a2)
        if not np.isfinite(k).all():
            return mean, np.inf
        cubes = m**3 + 3 * m * v
        a3 = np.divide(np.mean(z**3, axis=0), cubes, out=np.zeros_like(m), where=cubes != 0)
        a4 = np.mean(z**4, axis=0) / (m**4 + 6 * m**2 * v + k)
        crossed = 4 * m**2 * v * ((1 - r) ** 2 * a4 - 2 * (1 - r) * a3 * a1 + a2**2)
        return mean, float(np.maximum(crossed + (1 - r) ** 2 * (k - v**2) * a4, 0.0).sum())


@dataclass(frozen=True, eq=False)
class NoiseSummary:
    """All that a distance needs to know of a release: moments of noise and variances of the data, per component.

    `retained_variances` and `neglected_variances` are those of the data *before* noise. Where the former are
    unknown they are estimated from the release (`with_variances_of`); where the latter are unknown they count as
    zero, and distances are those within the retained components.
    """

    noise_variance: Floats
    noise_fourth_moment: Floats
    retained_variances: Floats | None = None
    neglected_variances: Floats | None = None
    factors: FactorNoise | None = None
    """Columns that were multiplied; these have no noise variance of their own."""
    answers: tuple[tuple[int, int, float], ...] = ()
    """Categories that were randomized: first column, column after the last, and how often the answer was kept."""

    def __post_init__(self) -> None:
        for name in ("noise_variance", "noise_fourth_moment", "retained_variances", "neglected_variances"):
            given = getattr(self, name)
            if given is None:
                continue
            values = np.atleast_1d(np.asarray(given, dtype=np.float64))
            if values.ndim != 1 or np.isnan(values).any() or (values < 0).any():
                raise ValueError(f"The '{name}' of a NoiseSummary must be a list of numbers >= 0.")
            if name != "neglected_variances" and len(values) != (wanted := len(self.noise_variance)):
                raise ValueError(
                    f"The '{name}' of a NoiseSummary must have one entry per retained component ({wanted}). "
                    f"Got {len(values)} instead."
                )
            object.__setattr__(self, name, values)

    def with_variances_of(self, release: Floats) -> Self:
        """The same with retained variances, if unknown, estimated from the release: max(var(Z_i) - var(noise_i), 0)."""
        if self.retained_variances is not None:
            return self
        return replace(self, retained_variances=np.maximum(release.var(axis=0) - self.noise_variance, 0.0))

    def widening(self, rows: Floats) -> float:
        """How many times as wide as plain rows noise has spread them: the root of total over plain variance.

        The variance of n rows is known to about sqrt(2 / n) of itself, and what is left of it counts as no less.
        """
        spread, added = float(rows.var(axis=0).sum()), float(_finite(self.noise_variance).sum())
        if self.factors is not None:
            added += float(self.factors.of_rows(rows).mean())
        if not (added > 0.0 and spread > 0.0):
            return 1.0
        return float(max(1.0 - added / spread, np.sqrt(2.0 / len(rows))) ** -0.5)

    def again(self, rows: Floats, rng: np.random.Generator) -> Floats:
        """The rows noised once more: normal noise with the known variances, answers randomized as they were."""
        noisier = rows + rng.standard_normal(rows.shape) * np.sqrt(_finite(self.noise_variance))
        if self.factors is not None:
            columns, mean = self.factors.columns, self.factors.mean
            relative = np.sqrt(_finite(self.factors.variance)) / np.where(mean != 0, np.abs(mean), np.inf)
            away = rows[:, columns] - self.factors.origin
            noisier[:, columns] += away * relative * rng.standard_normal(away.shape)
        for start, stop, keep in self.answers:
            codes, k = rows[:, start:stop].argmax(axis=1), stop - start
            moved = (codes + rng.integers(1, max(k, 2), len(rows))) % k
            noisier[:, start:stop] = np.eye(k)[np.where(rng.random(len(rows)) < keep, codes, moved)]
        return noisier

    def distortion(self) -> tuple[float, float]:
        r"""E(D) and Var(D).

        E(D) = sum_S E[delta_i^2] - 2 sum_N sigma_i^2                                                (Eq 12)

        Var(D) = sum_S (8 E[delta_i^2] sigma_i^2 + E[delta_i^4] - E[delta_i^2]^2) + 8 sum_N sigma_i^4

        The first term is 4 Var((X - Y) delta) = 4 (2 sigma^2) E[delta^2]; the covariance with delta^2 vanishes as
        X - Y has mean zero; the last term takes neglected components as normal (A.2). For Laplace noise this is
        16 b_i^2 sigma_i^2 + 20 b_i^4, Eq 13. A law without fourth moment gives an infinite variance,
        one without variance an infinite mean.
        """
        if self.retained_variances is None:
            raise ValueError("Retained variances are unknown: estimate them from the release with with_variances_of.")
        neglected = np.zeros(0) if self.neglected_variances is None else self.neglected_variances
        mean = self.noise_variance.sum() - 2 * neglected.sum()
        if not np.isfinite(self.noise_variance).all():
            return np.inf, np.inf
        spread = 8 * self.noise_variance * self.retained_variances + self.noise_fourth_moment - self.noise_variance**2
        return float(mean), float(np.maximum(spread, 0.0).sum() + 8 * (neglected**2).sum())


def _finite(variances: Floats) -> Floats:
    """Noise without variance cannot be repeated: then nothing is known of it, and nothing is taken back."""
    return np.where(np.isfinite(variances), variances, 0.0)


def noise_summary(recipe: Recipe | None, width: int) -> NoiseSummary:
    """Moments of the noise, and variances of kept and dropped components where they are known.

    The radius of `RadiusVote` needs nothing but this. None: rows without noise.
    """
    if recipe is None:
        return NoiseSummary(noise_variance=np.zeros(width), noise_fourth_moment=np.zeros(width))
    variance, fourth = np.zeros(recipe.width), np.zeros(recipe.width)
    answers = []
    for place, channel in zip(recipe.places, recipe.channels, strict=True):
        variance[place.start], fourth[place.start] = channel.added_moments
        if recipe.is_columnwise and channel.width > 1 and not channel.numbers and not channel.is_exact:
            answers.append((place.start, place.stop, channel.kept))
    known = recipe.map.variances if isinstance(recipe.map, Affine) else None
    kept = neglected = None
    if known is not None:
        kept, neglected = known[: len(recipe.channels)], known[len(recipe.channels) :]
    factors = FactorNoise.of(recipe) if recipe.is_columnwise else None
    return NoiseSummary(variance, fourth, kept, neglected, factors, tuple(answers))


# How much votes say: a posterior from votes, measured on the released rows themselves.
#
# Noise flattens votes, so that they are no probabilities; nor should they decide alone once they are divided by the
# shares of the classes. Where noise is strong their differences are chance, or come from how widely a class is spread,
# and a rule that listens to them errs more often than one that always answers the commonest class.
#
# Every released row, left out of the vote, is a query whose class is known. But it is noisy, and the rows to be
# classified are not. Noise leaves the mean votes of a class about where they are, and adds to their variance; how much,
# is found by noising the released rows again (simulation, as in Cook & Stefanski 1994), and taken off. What remains is
# a difference of estimates and can come out negative: what is used is its mean given that it is not, if its error is
# normal, and no less than rows show without any widening. Votes are then taken as normal in every class
# with these means and this variance, density f_c, and the shares of the classes are the prior p_c. That a class differs
# at all from the commonest one, m, is believed with probability h_c:
#
#     P(c | votes) is proportional to p_c (h_c f_c + (1 - h_c) f_m).
#
# So the commonest class is answered where votes are not believed, and where classes are equally common votes decide
# however weak they are. h_c follows from how far, in standard errors, rows of c vote for c rather than for m, more than
# rows of m do: by the most that a p-value allows in favour, -e p ln p (Sellke, Bayarri & Berger 2001), against odds of
# `SCEPTICISM`.

SCEPTICISM = 19.0
"""Odds against votes that say anything, before rows were asked; on generated sets 9 to 49 serve alike."""


class VoteEvidence(NamedTuple):
    """Mean votes and variance (of one direction) of plain rows in every class, and `beliefs`: h of every class."""

    means: Floats
    variances: Floats
    beliefs: Floats

    @classmethod
    def of(
        cls, heard: tuple[Floats, Floats, Floats], widening: Floats, codes: Codes, prior: Floats, share_asked: float
    ) -> VoteEvidence:
        """From the votes that left-out rows `heard`, as released and noised again, twice.

        `widening`: rows asked from places so many times nearer the middle, and what votes differed from their mean was
        multiplied by it. `share_asked` of the rows were asked. Rows that vote for each other are right or wrong
        together, so that the variance of their mean is 1 + share_asked times that of independent ones.
        """
        votes, first, second = heard
        rows, k = votes.shape
        counts = np.bincount(codes, minlength=k)
        if rows <= np.count_nonzero(counts):
            return cls(np.zeros((k, k)), np.ones(k), np.zeros(k))
        means, squares = _within(votes, codes)
        of_means = (1.0 + share_asked) * float(squares.mean()) / np.maximum(counts, 1)
        # What noise adds to the squares: two noisings of one row differ by noise, and by how rough votes are from place
        # to place. Plain rows hear the roughness too, but it is not widened for them. What a further noising adds to
        # the squares is noise alone.
        differ = 0.5 * np.sum((first - second) ** 2, axis=1)
        added = 0.5 * (_within(first, codes)[1] + _within(second, codes)[1]) - squares
        rough = 1.0 / widening**2
        clean = squares - (rough * added + (1.0 - rough) * differ)
        # The mean of a normal law with the mean of these and its error, cut off below 0.
        estimate, error = float(clean.mean()), float(clean.std()) / np.sqrt(rows)
        variance = max(estimate, 0.0)
        if error > 0.0:
            ratio = max(estimate / error, -20.0)
            variance = error * (ratio + float(np.exp(stats.norm.logpdf(ratio) - stats.norm.logcdf(ratio))))
        variance = max(variance, float(np.mean(squares / widening**2)))
        # Of one direction, as votes sum to one; and means are not exactly known.
        variances = np.maximum((variance + of_means) / (k - 1), np.finfo(np.float64).eps)
        return cls(means, variances, _beliefs(means, of_means / (k - 1), counts, int(prior.argmax())))

    def probabilities(self, votes: Floats, prior: Floats) -> Floats:
        """P(c | votes)."""
        away = np.sum((votes[:, None, :] - self.means) ** 2, axis=2)
        scores = -0.5 * away / self.variances - 0.5 * (len(prior) - 1) * np.log(self.variances)
        density = np.exp(scores - scores.max(axis=1, keepdims=True))
        found = prior * (self.beliefs * density + (1.0 - self.beliefs) * density[:, [int(prior.argmax())]])
        whole = found.sum(axis=1, keepdims=True)
        return np.where(whole > 0, found / np.where(whole > 0, whole, 1.0), prior)


def _within(votes: Floats, codes: Codes) -> tuple[Floats, Floats]:
    """Mean votes of every class, and for every row the squared distance from that of its own (unbiased)."""
    k = votes.shape[1]
    counts = np.bincount(codes, minlength=k)
    means = np.zeros((k, k))
    np.add.at(means, codes, votes)
    means /= np.maximum(counts, 1)[:, None]
    rows, there = len(codes), np.count_nonzero(counts)
    return means, np.sum((votes - means[codes]) ** 2, axis=1) * rows / (rows - there)


def _beliefs(means: Floats, of_means: Floats, counts: Codes, commonest: int) -> Floats:
    """h of every class; 0 for the commonest, which has none to be told from, and for classes without rows.

    Between a class and the commonest, rows of the one should vote for it rather than for the other, more than rows of
    the other do. `of_means`: variance of mean votes in one direction; a difference of two votes has twice as much.
    """
    found = np.diag(means) - means[commonest] - (means[:, commonest] - means[commonest, commonest])
    error = np.sqrt(2.0 * (of_means + of_means[commonest]))
    p = stats.norm.sf(found / np.maximum(error, np.finfo(np.float64).tiny))
    factor = np.where(p < 1.0 / np.e, -np.e * p * np.log(np.maximum(p, np.finfo(np.float64).tiny)), 1.0)
    return np.where((found > 0.0) & (counts > 0), 1.0 / (1.0 + SCEPTICISM * factor), 0.0)


def worse_than_prior(votes: Floats, codes: Codes, prior: Floats) -> bool:
    """Whether answering by votes errs more often than always answering the commonest class, by a standard error."""
    right, usual = votes.argmax(axis=1) == codes, codes == prior.argmax()
    losses, wins = np.count_nonzero(usual & ~right), np.count_nonzero(right & ~usual)
    return bool(losses - wins > np.sqrt(losses + wins))
