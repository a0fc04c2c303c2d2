"""How small the crowds are in which people hide: k-anonymity, l-diversity and t-closeness of groups of alike rows.

A crowd is all rows that are alike in the quasi-identifiers: what others may know of a person already. Rows are given
as the number of their crowd, 0 .. crowds - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.array_types import Codes, Floats, Matrix

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
