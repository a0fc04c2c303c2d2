"""How much a guess gives away. Plain functions of numbers; each says in its first line which way is better."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.base import Posteriors
from sfumato.attacks.support import TOLERANCE, half_width
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.registry import metric
from sfumato.table import Encoding, Group
from sfumato.table.neighbours.nearest import nearest
from sfumato.table.neighbours.tiles import slices


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float

    @classmethod
    def about(cls, share: float, error: float, confidence: float) -> Interval:
        """Of a share with this standard error, taken as normal and clipped to [0, 1]."""
        half = float(stats.norm.ppf(0.5 + confidence / 2)) * error
        return cls(max(0.0, share - half), min(1.0, share + half))


@metric(takes="guess", better="higher")
def interval_width(
    original: Matrix, guess: Matrix, *, confidence: float = 0.95, span: ArrayLike | None = None
) -> Matrix:
    """Width of the error's central interval over the column's range, per column; wider is safer.

    The average privacy of [principal-laplace, 6.1.3]. `span` is the range per column (default: that of `original`; a
    constant column counts with range 1).
    """
    widths = np.ptp(original, axis=0) if span is None else np.asarray(span, dtype=np.float64)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(guess - original, [tail, 1.0 - tail], axis=0)
    return np.asarray((high - low) / np.where(widths > 0, widths, 1.0))


@metric(takes="guess", better="higher")
def variance_of_difference(original: Matrix, guess: Matrix, *, cap: bool = True) -> Matrix:
    """Variance of guess - original per column (VoD); larger is safer, up to what guessing the mean gives.

    As published [random-rotation] it grows without limit; with `cap`, a guess that is worse than the column's mean
    counts as the mean, whose VoD is the column's own variance: an adversary can always fall back on it.
    """
    vod = np.var(guess - original, axis=0)
    return np.asarray(np.minimum(vod, np.var(original, axis=0)) if cap else vod)


@metric(takes="guess", better="higher")
def root_mean_square(original: Matrix, guess: Matrix, scale: ArrayLike = 1.0) -> Matrix:
    """Root mean square error per column, times `scale` (raw units per encoded unit); larger is safer."""
    return np.asarray(np.sqrt(np.mean((guess - original) ** 2, axis=0)) * np.asarray(scale))


def learned(original: Matrix, guess: Matrix, group: Group, tolerance: float = TOLERANCE) -> Flags:
    """Per record whether the guess tells this source column; fewer is safer. Both matrices hold the group's slots only.

    A number: within `tolerance` of the column's range (a speck is added for rounding). Where only whole steps occur
    (integers, ordinals, dates) the adversary rounds: the right step is enough, however far apart steps are. A
    category: the same one (largest slot). A column that may be missing: the indicator is right and, for a value that
    is there, the number too.
    """
    if group.is_onehot:
        return np.asarray(original.argmax(axis=1) == guess.argmax(axis=1))
    near = np.abs(guess[:, 0] - original[:, 0]) <= half_width(group, tolerance)
    if not group.has_indicator:
        return np.asarray(near)
    missing = original[:, 1] > 0.5
    return np.asarray((missing == (guess[:, 1] > 0.5)) & (missing | near))


CELLS = 1 << 17
"""Cells of a block of rows, which stays in a processor's cache while its columns are looked at one by one."""


def breaches(original: Matrix, guess: Matrix, encoding: Encoding, tolerance: float = TOLERANCE) -> Flags:
    """Per record and private source column whether the guess tells it (n x columns); fewer is safer."""
    found = np.empty((len(original), len(encoding.groups)), dtype=bool)
    for rows in slices(len(original), max(1, CELLS // encoding.width)):
        for number, group in enumerate(encoding.groups):
            found[rows, number] = learned(original[rows, group.slice], guess[rows, group.slice], group, tolerance)
    return found


def worst_records(risk: Matrix, share: float = 0.01) -> Codes:
    """Positions of the `share` of records (at least one) with the highest risk, worst first; ties by position."""
    count = max(1, round(share * len(risk)))
    return np.argsort(-np.asarray(risk), kind="stable")[:count].astype(np.int64)


def auc(members: ArrayLike, others: ArrayLike) -> float:
    """Probability that a member scores above a non-member, ties counting half; .5 is safest, 1 is worst."""
    low, high = np.asarray(others, dtype=np.float64), np.asarray(members, dtype=np.float64)
    ranks = stats.rankdata(np.concatenate([high, low]))
    return float((ranks[: len(high)].sum() - len(high) * (len(high) + 1) / 2) / (len(high) * len(low)))


def auc_interval(members: ArrayLike, others: ArrayLike, confidence: float = 0.95) -> Interval:
    """Interval of the AUC by DeLong's variance, clipped to [0, 1]; the nearer to .5 the safer.

    DeLong: var = var_m(V) / m + var_n(W) / n with the placements V of members among others and W the other way round.
    """
    scores = np.concatenate([np.asarray(members, dtype=np.float64), np.asarray(others, dtype=np.float64)])
    count = len(scores)
    return auc_within(scores, np.arange(count) < np.size(members), np.zeros(count, dtype=np.int64), confidence)[1]


def auc_within(scores: Matrix, members: Flags, classes: Codes, confidence: float = 0.95) -> tuple[float, Interval]:
    """The AUC over pairs of a member and another person of the same class, and its interval; .5 is safest.

    sum(a) / sum(b), where b counts a person's counterparts and a those that the pair is right about. Its variance is
    that of a ratio, over the members and over the others; with one class that is DeLong's.
    """
    right, pairs = np.zeros(len(scores)), np.zeros(len(scores))
    for code in np.unique(classes).tolist():
        high, low = np.flatnonzero((classes == code) & members), np.flatnonzero((classes == code) & ~members)
        if len(high) and len(low):
            right[high], pairs[high] = len(low) * _placement(scores[high], scores[low]), len(low)
            right[low], pairs[low] = len(high) * (1.0 - _placement(scores[low], scores[high])), len(high)
    area, variance = float(right[members].sum() / pairs[members].sum()), 0.0
    for kind in (members, ~members):
        off = (right - area * pairs)[kind] / pairs[kind].mean()
        variance += float(np.var(off, ddof=1)) / len(off) if len(off) > 1 else 0.0
    return area, Interval.about(area, float(np.sqrt(variance)), confidence)


def _placement(values: Matrix, reference: Matrix) -> Matrix:
    """Share of the reference below each value, ties counting half."""
    ordered = np.sort(reference)
    below, up_to = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return np.asarray((below + up_to) / (2.0 * len(reference)))


def proportion_interval(hits: float, trials: int, confidence: float = 0.95) -> Interval:
    """Wilson's interval of a proportion of independent trials; lower is safer."""
    if trials == 0:
        return Interval(0.0, 1.0)
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    p = hits / trials
    middle = (p + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * float(np.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2)))
    return Interval(max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half)))  # p itself despite rounding


def mean_interval(values: Matrix, confidence: float = 0.95) -> Interval:
    """Interval of the mean of per-record shares in [0, 1], from their standard error; lower is safer.

    Never narrower than half a record's worth at the ends: a Wilson interval stands in where all values are equal.
    """
    if len(values) < 2 or np.ptp(values) == 0:
        return proportion_interval(float(np.sum(values)), len(values), confidence)
    return Interval.about(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))), confidence)


def same_rows(first: Matrix, second: Matrix) -> Flags:
    """Which rows of two matrices are the same record: identical people cannot be told apart, nor need they be."""
    return np.asarray(np.isclose(first, second, rtol=0.0, atol=1e-9).all(axis=1))


def row_codes(X: Matrix) -> Codes:
    """Equal numbers for equal rows (to 9 digits)."""
    rounded = np.ascontiguousarray(np.round(X, 9) + 0.0)
    kind = pa.binary(rounded.itemsize * rounded.shape[1])
    rows = pa.FixedSizeBinaryArray.from_buffers(kind, len(rounded), [None, pa.py_buffer(rounded)])
    return np.asarray(rows.dictionary_encode().indices, dtype=np.int64)


def rises(prior: Matrix, posterior: Matrix, rare: float, sure: float) -> Flags:
    """Per record and property whether belief rose from at most `rare` to at least `sure`; fewer is safer [Def. 1]."""
    return np.asarray((prior <= rare) & (posterior >= sure))


def falls(prior: Matrix, posterior: Matrix, rare: float, sure: float) -> Flags:
    """Per record and property whether belief fell from at least `sure` to at most `rare`; fewer is safer [Thm 3]."""
    return np.asarray((prior >= sure) & (posterior <= rare))


def belief_moves(guess: Posteriors, truth: Flags) -> tuple[Flags, Flags]:
    """Per record and property: (rightly moved by the release, could have been); fewer of the first is safer.

    truth: which properties are true of which records (`guesses.truths`).

    Rightly moved: a rare property that is true rose to sure, or a common one (prior >= sure) that is false fell to
    rare. A belief that moves the wrong way tells the adversary nothing about the person, and does not count.
    """
    rare, common = guess.prior <= guess.rare, guess.prior >= guess.sure
    moved, could = np.empty(truth.shape, dtype=bool), np.empty(truth.shape, dtype=bool)
    for rows in slices(len(truth), max(1, CELLS // max(len(rare), 1))):
        could[rows] = np.where(truth[rows], rare, common)
        given = guess.prior, guess.posterior[rows], guess.rare, guess.sure
        moved[rows] = np.where(truth[rows], rises(*given), falls(*given))
    return moved, could


# The unified multi-column privacy of [random-rotation, 4.1-4.4]: variance of difference (VoD), weights, guarantees.
class Unified(NamedTuple):
    """Minimum and average privacy guarantee over the columns; larger is safer."""

    minimum: float
    average: float


def unified_privacy(column_privacy: ArrayLike, weights: ArrayLike | None = None, *, published: bool = False) -> Unified:
    """Phi_1 = min p_i / w_i and Phi_2 = mean p_i / w_i; larger is safer.

    p is the VoD per column, or its root sigma, as in the paper's Table 1. Weights w (a column that matters more needs
    more privacy for the same guarantee) are scaled to the mean 1, so that equal weights change nothing; `published`
    scales them to the sum 1, which multiplies every figure by the number of columns. NaN columns are left out.
    """
    p = np.asarray(column_privacy, dtype=np.float64)
    w = np.ones(len(p)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights is not None:
        w = w / (w.sum() if published else w.mean())
    there = ~np.isnan(p)
    if not there.any():
        return Unified(float("nan"), float("nan"))
    weighted = p[there] / w[there]
    return Unified(float(weighted.min()), float(weighted.mean()))


def column_privacy(original: Matrix, guess: Matrix, encoding: Encoding, *, cap: bool = True) -> Matrix:
    """VoD of every private source column (encoded units); larger is safer, up to what guessing the mean gives.

    A category counts with half the sum over its slots, so that mistaking it for another weighs like a number's whole
    range. A missing number is no difference. Constant columns are NaN: there is nothing in them to hide. `cap=False`
    does not cap, as published.
    """
    spreads = [column_spread(original, guess, group) for group in encoding.groups]
    return np.array([min(one) if cap else one[0] for one in spreads])


def column_spread(original: Matrix, guess: Matrix, group: Group) -> tuple[float, float]:
    """VoD of one source column, uncapped, and its own variance, as `column_privacy` counts both."""
    x, y = np.ascontiguousarray(original[:, group.slice]), guess[:, group.slice]
    factor = 0.5 if group.is_onehot else 1.0
    if group.has_indicator:
        there = x[:, 1] < 0.5
        x, y = x[there, :1], y[there, :1]
    if not len(x) or not np.ptp(x, axis=0).any():
        return float("nan"), float("nan")
    return factor * float(variance_of_difference(x, y, cap=False).sum()), factor * float(x.var(axis=0).sum())


def component_privacy(
    original: Matrix, components: Matrix, weights: ArrayLike | None = None, *, published: bool = False
) -> Unified:
    """Minimum and average sigma over the orderings of ICA components (n x r); larger is safer.

    Over the d! orderings the lowest minimum is the smallest entry of the VoD matrix, and the lowest average a linear
    assignment: the worst case of both. The attacker rescales by the known mean and deviation,
    VoD_ij = var_i (2 - 2 |rho_ij|), no more than var_i, which also stands for columns without a component; constant
    columns, which hide nothing, are left out. Signs are the better ones.

    `published`: components of variance 1 are held against columns on [0, 1], so that a column which is recovered
    perfectly scores 1 - sd, and columns in excess of the components are left out. The average is that of the ordering
    with the lowest minimum [random-rotation, 4.4], not the lowest one. Every ordering with the smallest entry has that
    minimum, (d - 1)! of them, and the paper does not say which it takes: this is their mean.
    """
    x = original - original.mean(axis=0)
    c = components - components.mean(axis=0)
    c = c / np.where(c.std(axis=0) > 0, c.std(axis=0), 1.0)
    variance = x.var(axis=0)
    shared = np.abs(x.T @ c) / len(x)
    w = np.ones(len(variance)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights is not None:
        w = w / (w.sum() if published else w.mean())
    if published:
        sigma = np.sqrt(np.maximum(variance[:, None] + 1.0 - 2 * shared, 0.0)) / w[:, None]
        # The smallest entry, and the mean average of all assignments with it: the other pairs are equally frequent.
        column, component = np.unravel_index(sigma.argmin(), sigma.shape)
        rest = np.delete(np.delete(sigma, column, axis=0), component, axis=1)
        pairs, lowest = min(sigma.shape), float(sigma[column, component])
        return Unified(lowest, (lowest + (pairs - 1) * float(rest.mean())) / pairs if rest.size else lowest)
    varies = variance > 0
    if not varies.any():
        return Unified(float("nan"), float("nan"))
    deviation = np.sqrt(variance[varies])
    rho = np.minimum(shared[varies] / deviation[:, None], 1.0)
    vod = np.minimum(2 - 2 * rho, 1.0) * deviation[:, None] ** 2
    # Guessing the mean is open to every column, beside the components.
    vod = np.hstack([vod, np.broadcast_to(deviation[:, None] ** 2, (len(deviation), len(deviation)))])
    sigma = np.sqrt(vod) / w[varies][:, None]
    return Unified(float(sigma.min()), float(sigma[linear_sum_assignment(sigma)].mean()))


def nearest_row_privacy(original: Matrix, perturbed: Matrix, weights: ArrayLike | None = None) -> Unified:
    """Minimum and average sigma between perturbed rows and the original row nearest to each; larger is safer.

    How the paper measures condensation [random-rotation, 5.3, Figs 5-8]: sigma_i = sd of the difference in column i
    (encoded). Constant columns count with 0, as published.
    """
    _, index = nearest(np.ascontiguousarray(perturbed), np.ascontiguousarray(original), k=1)
    sigma = np.sqrt(variance_of_difference(original[index[:, 0]], perturbed, cap=False))
    return unified_privacy(sigma, weights)
