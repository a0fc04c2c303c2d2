"""How small the crowds are in which people hide: k-anonymity, l-diversity and t-closeness of groups of alike rows.

A crowd is all rows that are alike in the quasi-identifiers: what others may know of a person already. Rows are given
as the number of their crowd, 0 .. crowds - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import gammaln

from sfumato.core.array_types import Codes, Floats, Matrix

# How many of those who are unique in a sample are unique in the population too.
#
# Two models, both fitted to the sample alone, and both only as good as their assumptions: Pitman's sampling formula
# [Pitman 1995; Hoshino 2001], which knows only how large the crowds are, and a Poisson log-linear model of the table of
# quasi-identifiers [Skinner and Shlomo 2008], which knows how their values hang together.
MOST_CELLS = 1 << 20
"""Cells of a contingency table that is fitted with all pairs of columns."""
ROUNDS, TOLERANCE = 50, 1e-6
FAR_OFF = 2.0
"""Standard errors beyond which the estimated error of a model means that the model is wrong."""
LEAST_ALPHA = 1e-6


class Pitman(NamedTuple):
    """theta > -alpha and 0 < alpha < 1; uniques: expected share of sample uniques that no one else is like."""

    theta: float
    alpha: float
    uniques: float


class LogLinear(NamedTuple):
    """Expected share of the sample uniques that are unique in the population (tau 1 over uniques), the chance that a
    sample unique is linked rightly (tau 2 over uniques), the model (main effects or pairs) and its estimated error."""

    uniques: float
    hits: float
    model: str
    error: float | None


def pitman(sizes: Codes, population: int) -> Pitman | None:
    """Fit Pitman's formula to crowd sizes by maximum likelihood; None where no row is unique or all are.

    With n rows in u crowds, m_j of them of size j, the log-likelihood is up to a constant
    sum_{k=1}^{u-1} log(theta + k alpha) - sum_{i=1}^{n-1} log(theta + i) + sum_j m_j sum_{i=1}^{j-1} log(i - alpha).
    A row that is alone among n stays so when another is drawn with probability (theta + alpha + n - 1) / (theta + n):
    the new one joins the row's crowd with probability (1 - alpha) / (theta + n). The product up to the population is
    a ratio of gamma functions.
    """
    n, u = int(sizes.sum()), len(sizes)
    if not (sizes == 1).any() or u == n or population < n:
        return None
    larger, count = np.unique(sizes[sizes > 1], return_counts=True)

    def parameters(at: Floats) -> tuple[float, float]:
        alpha = float(min(max(1.0 / (1.0 + np.exp(-at[0])), LEAST_ALPHA), 1 - LEAST_ALPHA))
        return float(np.exp(min(at[1], 60.0)) - alpha), alpha

    def cost(at: Floats) -> float:
        theta, alpha = parameters(at)
        new = (u - 1) * np.log(alpha) + gammaln(theta / alpha + u) - gammaln(theta / alpha + 1)
        drawn = gammaln(theta + n) - gammaln(theta + 1)
        joined = float((count * (gammaln(larger - alpha) - gammaln(1 - alpha))).sum())
        return -float(new - drawn + joined)

    starts = [(a, b) for a in (-2.0, 0.0, 2.0) for b in (0.0, np.log(max(u, 2)))]
    best = min((optimize.minimize(cost, start, method="Nelder-Mead") for start in starts), key=lambda found: found.fun)
    theta, alpha = parameters(best.x)
    return Pitman(theta, alpha, stays_alone(theta, alpha, n, population))


def stays_alone(theta: float, alpha: float, rows: int, population: int) -> float:
    """Chance that a row that is alone among `rows` is alone in the population, by Pitman's formula."""
    log = gammaln(theta + alpha + population - 1) - gammaln(theta + alpha + rows - 1)
    log += gammaln(theta + rows) - gammaln(theta + population)
    return float(np.exp(min(log, 0.0)))


def log_linear(columns: list[Codes], population: int) -> LogLinear | None:
    """Fit Poisson log-linear models to the table of the columns' codes; None where no row is unique.

    With sampling fraction p and expected population counts L of the cells, a sample unique is alone with probability
    exp(-(1 - p) L), and linking it hits with (1 - exp(-(1 - p) L)) / ((1 - p) L), since F - 1 is Poisson. L is fitted
    with main effects; where the estimated error of tau 1 is then far from 0, and the table has at most `MOST_CELLS`
    cells, with all pairs of columns, as Skinner and Shlomo search.
    """
    n = len(columns[0])
    shape = tuple(int(codes.max()) + 1 for codes in columns)
    cells = np.prod([float(width) for width in shape])
    share = n / population
    small = cells <= MOST_CELLS
    if small:
        where = np.ravel_multi_index(tuple(columns), shape)
        observed = np.bincount(where, minlength=int(cells)).astype(np.float64).reshape(shape)
        unique = np.flatnonzero(observed.ravel()[where] == 1)
    else:
        joint = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True, return_counts=True)
        unique = np.flatnonzero(joint[2][joint[1].reshape(-1)] == 1)
    if not len(unique) or population < n:
        return None
    if not small:
        main = np.prod([np.bincount(codes)[codes] / n for codes in columns], axis=0)
        return _risks(main[unique] * n / share, share, "main effects", None)
    for order in (1, 2):
        table = _fitted(observed, order)
        error, spread = _error_of_uniques(observed, table / share, share)
        if len(shape) < 3 or abs(error) <= FAR_OFF * spread:
            break
    model = "main effects" if order == 1 else "pairs"
    return _risks(table.ravel()[where[unique]] / share, share, model, error / len(unique))


def _risks(expected: Floats, share: float, model: str, error: float | None) -> LogLinear:
    others = expected * (1 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.where(others > 0, -np.expm1(-others) / others, 1.0)
    return LogLinear(float(np.exp(-others).mean()), float(hits.mean()), model, error)


def _fitted(observed: Floats, order: int) -> Floats:
    """Counts with the observed margins of every column, or pair of columns: iterative proportional fitting."""
    axes = range(observed.ndim)
    margins = [(axis,) for axis in axes] if order == 1 else [(i, j) for i in axes for j in axes if i < j]
    table = np.full(observed.shape, observed.sum() / observed.size)
    for _ in range(ROUNDS):
        moved = 0.0
        for margin in margins:
            rest = tuple(axis for axis in axes if axis not in margin)
            wanted, has = observed.sum(axis=rest, keepdims=True), table.sum(axis=rest, keepdims=True)
            factor = np.divide(wanted, has, out=np.zeros_like(wanted), where=has > 0)
            table = table * factor
            moved = max(moved, float(np.abs(wanted - has).max()))
        if moved <= TOLERANCE * observed.sum():
            break
    return table


def _error_of_uniques(observed: Floats, expected: Floats, share: float) -> tuple[float, float]:
    """Estimated bias of tau 1, to second order in the error d of the cells' expected counts; and its spread if d = 0.

    A cell adds g(d) = p (L + d) exp(-p (L + d)) [exp(-(1-p) L) - exp(-(1-p)(L + d))] to it, with g(0) = 0,
    g'(0) = p (1-p) L exp(-L) and g''(0) = p (1-p) exp(-L) [2 (1 - p L) - (1-p) L]. With f the observed count and
    m = p L, d is estimated by (f - m) / p and its square, without bias, by [(f - m)^2 - f] / p^2. If f is Poisson with
    mean m these two have variances m and 2 m^2 (times 1 / p^2, 1 / p^4) and are uncorrelated.
    """
    mean = share * expected
    off = observed - mean
    first = (1 - share) * expected * np.exp(-expected)
    second = (1 - share) * np.exp(-expected) * (2 * (1 - mean) - (1 - share) * expected) / share / 2
    variance = first**2 * mean + second**2 * 2 * mean**2
    return float((first * off + second * (off**2 - observed)).sum()), float(np.sqrt(variance.sum()))


RECURSIVE_C = 2.0
"""The c of recursive (c, l)-diversity, as sdcMicro has it by default."""


class Diversity(NamedTuple):
    """The least diverse crowd: distinct values, exp(entropy), and the largest l that is recursive (c, l)-diverse."""

    distinct: int
    entropy: float
    recursive: int


class Closeness(NamedTuple):
    """Distance of a crowd's values from those of all rows: of the furthest crowd, and of the crowd of a row."""

    largest: float
    mean: float


def crowd_numbers(columns: list[Codes]) -> Codes:
    """The crowd of every row, from the code of its cell in each column; the order of the columns does not matter."""
    crowd = np.zeros(len(columns[0]), dtype=np.int64)
    for codes in columns:
        together = crowd * (int(codes.max(initial=0)) + 1) + codes
        crowd = np.asarray(np.unique(together, return_inverse=True)[1], dtype=np.int64).reshape(-1)
    return crowd


def crowd_sizes(crowd: Codes) -> Codes:
    """Rows of each crowd."""
    return np.bincount(crowd)


def values_of_crowds(crowd: Codes, values: Codes) -> tuple[Codes, Codes, Codes]:
    """The (crowd, value) pairs that occur, sorted by crowd, with their counts."""
    width = int(values.max(initial=0)) + 1
    pairs, counts = np.unique(crowd * width + values, return_counts=True)
    return pairs // width, pairs % width, counts


def diversity(crowd: Codes, values: Codes, c: float = RECURSIVE_C) -> Diversity:
    """l-diversity of a sensitive column in the least diverse crowd [Machanavajjhala et al. 2007]; larger is safer.

    Recursive (c, l): the commonest value of a crowd is rarer than c times all those together that are not among its
    l - 1 commonest. The largest such l over the number of values; 0 where not even l = 1 holds.
    """
    of, _, counts = values_of_crowds(crowd, values)
    crowds = int(crowd.max()) + 1
    distinct = np.bincount(of, minlength=crowds)
    size = np.bincount(of, weights=counts, minlength=crowds)
    share = counts / size[of]
    entropy = np.bincount(of, weights=-share * np.log(share), minlength=crowds)
    order = np.lexsort((-counts, of))
    ordered, ends = counts[order].astype(np.float64), np.cumsum(distinct)
    running = np.concatenate([[0.0], np.cumsum(ordered)])
    left = np.repeat(running[ends], distinct) - running[:-1]  # what is left from each place of its crowd on
    commonest = np.repeat(ordered[ends - distinct], distinct)
    holds = commonest < c * left  # falls along a crowd: once it fails it fails on
    recursive = np.bincount(of[order], weights=holds, minlength=crowds)
    return Diversity(int(distinct.min()), float(np.exp(entropy.min())), int(recursive.min()))


def closeness(crowd: Codes, values: Codes, *, ordered: bool) -> Closeness:
    """t-closeness of a sensitive column: how far crowds are from all rows, in [0, 1] [Li et al. 2007]; lower is safer.

    Earth mover's distance. ordered: values are numbers, codes their ranks, and neighbouring values lie 1 / (m - 1)
    apart; else all values are equally far apart, and the distance is total variation.
    """
    of, value, counts = values_of_crowds(crowd, values)
    size = crowd_sizes(crowd).astype(np.float64)
    overall = np.bincount(values) / len(values)
    share = counts / size[of]
    # TV = 1 - sum min(p, q): values that a crowd lacks add nothing to the sum.
    far = np.asarray(1.0 - np.bincount(of, weights=np.minimum(share, overall[value]), minlength=len(size)))
    if ordered:
        far = _moved_in_order(of, value, share, overall, size)
    return Closeness(float(far.max()), float((far * size).sum() / size.sum()))


def _moved_in_order(of: Codes, value: Codes, share: Floats, overall: Floats, size: Floats) -> Floats:
    """sum_i |P(<= i) - Q(<= i)| / (m - 1) for every crowd, from its own values only.

    Between two neighbouring values of a crowd P(<= i) is a constant p, and Q rises. With Q's cumulative sums H at hand,
    sum |p - Q| over a stretch splits where Q passes p: found by bisection, so that no crowd x value table is made.
    """
    m = len(overall)
    if m < 2:
        return np.zeros(len(size))
    Q = np.cumsum(overall)
    H = np.concatenate([[0.0], np.cumsum(Q)])
    first = np.concatenate([[True], of[1:] != of[:-1]])
    within = np.cumsum(share)
    before = np.repeat(within[first] - share[first], np.diff(np.append(np.flatnonzero(first), len(of))))
    P = within - before  # cumulative share of the crowd at each of its values
    until = np.append(value[1:], m - 1)
    until[np.append(first[1:], True)] = m - 1  # the last stretch ends before the last value, where P = Q = 1
    stretches = _stretch(P, value, until, Q, H)
    start = _stretch(np.zeros(int(first.sum())), np.zeros(int(first.sum()), dtype=np.int64), value[first], Q, H)
    far = np.bincount(of, weights=stretches, minlength=len(size)) + start
    return np.asarray(np.clip(far / (m - 1), 0.0, 1.0))


def _stretch(p: Floats, low: Codes, high: Codes, Q: Floats, H: Matrix) -> Floats:
    """sum over low <= i < high of |p - Q_i|."""
    turn = np.clip(np.searchsorted(Q, p, "right"), low, np.maximum(low, high))
    under = p * (turn - low) - (H[turn] - H[low])
    over = (H[high] - H[turn]) - p * (high - turn)
    return np.asarray(np.where(high > low, under + over, 0.0))
