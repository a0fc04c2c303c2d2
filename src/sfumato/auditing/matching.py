"""Whose row is whose where no file says so: found out as an adversary would who holds the original rows.

The model: every release row is one person's, each value changed by normal noise of a strength that is estimated per
column (the mixture z_i ~ mean over people of N(x_j, s^2), by EM). The best one-to-one match is an assignment problem.
Scored against it, every attack would look too good: where two people fit a row alike, the nearer one was taken. So the
match that is scored against is *drawn* by its likelihood (Metropolis: two rows exchange their people), which is right
on average if the model is. Where one person fits far better than all others, both are the same.

Rows that are no person's could be matched too, and would mean nothing. So rows that fit a person better than anyone of
the holdout are told from the rest, by a margin that chance explains for one in twenty of them; the rest is matched only
where it lies nearer to the people than strangers' rows do as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, triu
from scipy.spatial.distance import cdist
from scipy.special import softmax

from sfumato.attacks.metrics.privacy import row_codes
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.table.neighbours.nearest import nearest

SAME_ORDER = "No private match file: comparing the rows showed that release and original are in the same order."
SHIFTS = tuple(shift for size in range(1, 11) for shift in (-size, size))
ALIGNED_BEYOND_CHANCE = 6.0
"""Standard errors by which a row must be nearer to its own source than to the neighbours of its source."""


def same_order(E: Matrix, Z: Matrix) -> bool:
    """Whether row i of the release Z came from row i of E (original rows in the release's space).

    Compared with the rows just before and after, and not with random ones: two tables that are merely sorted alike
    have similar rows near each other, but not more similar at the same place than one place further.
    The statistic is the mean over rows of (mean distance to the shifted rows - distance to the own row), over its
    standard error; distances are sums of absolute differences in units of the column's spread.
    """
    if E.shape != Z.shape or len(E) < 3:
        return False
    spread = E.std(axis=0)
    varies = spread > 0
    if not varies.any():
        return False
    a, b = (X[:20_000, varies] / spread[varies] for X in (E, Z))
    own = np.abs(a - b).sum(axis=1)
    gain = np.mean([np.abs(np.roll(a, shift, axis=0) - b).sum(axis=1) for shift in SHIFTS], axis=0) - own
    error = float(gain.std(ddof=1)) / np.sqrt(len(gain))
    return bool(gain.mean() > ALIGNED_BEYOND_CHANCE * error)


def identical_rows(X: Matrix, Z: Matrix, rng: np.random.Generator) -> Codes | None:
    """For each release row the original row that is identical to it (-1: none), if too many are for chance.

    Chance is judged by a release whose columns were shuffled one by one. Of several identical originals, each is
    given to one release row as long as they last.
    """
    found = _aligned(X, Z)
    share = float(np.mean(found >= 0))
    shuffled = np.column_stack([rng.permutation(column) for column in Z.T])
    by_chance = float(np.mean(_aligned(X, shuffled) >= 0))
    return found if share >= 0.5 and by_chance < share / 2 else None


def _aligned(X: Matrix, Z: Matrix) -> Codes:
    keys = row_codes(np.vstack([X, Z]))
    originals, wanted = keys[: len(X)], keys[len(X) :]
    order, sequence = (np.argsort(part, kind="stable") for part in (originals, wanted))
    low, high = (np.searchsorted(originals[order], wanted, side) for side in ("left", "right"))
    # The r-th release row of a kind takes the r-th original of that kind, the last one when they run out.
    rank = np.empty(len(wanted), dtype=np.int64)
    rank[sequence] = np.arange(len(wanted)) - np.searchsorted(wanted[sequence], wanted[sequence], "left")
    place = np.minimum(low + rank, np.maximum(high - 1, low))
    return np.where(high > low, order[np.minimum(place, len(order) - 1)], -1)


MOST_EXACT = 3_000
"""Rows up to which the best match is found exactly: its costs are a matrix of so many squared."""
MOST_FITTED, LEAST_FITTED, MOST_COMPARED = 2_000, 500, 100_000_000
"""Release rows that the strength of the change is estimated from: fewer where each is compared with many people."""
STEADY = 0.005
"""Relative change of the estimate below which it has settled: its own error is ten times as large."""
CANDIDATES = 20
"""People that a release row may belong to."""
LEAST_RIVALRY = 1e-4
COMPARED = 10
"""People among whom the two halves of the columns are to agree on one."""
MANY = 100
"""People that count in the estimate of the noise: with fewer, strong noise would look weaker than it is."""
SPLITS, ROUNDS, STEPS, SWEEPS = 4, 25, 4_000_000, (300, 4_000)
LEAST_NOISE = 1e-3
"""Standard deviation that stands for an unchanged column, in encoded units."""
FAR_BEYOND_CHANCE = 5.0
"""Standard errors by which the columns' two halves must agree more often on the nearest person than for strangers."""
LIKELY, SETTLED = 0.9, 0.9999
FALSE_SHARE = 0.05
"""Of the rows that are said to fit a person better than strangers, at most so many do by chance."""
COPY = 1e-9
"""Distance at which two records are one."""


class Match(NamedTuple):
    """For every release row a person, -1 where it is no person's as far as can be told. exact: the best match was
    computed exactly before the draw.

    sure: share of matched rows for which one person has 90% of the likelihood or more.
    """

    source: Codes
    exact: bool
    sure: float


def match_people(E: Matrix, Z: Matrix, strangers: Matrix | None, rng: np.random.Generator) -> Match | None:
    """Match release rows Z to people E (in the release's space); None where it cannot be told whose a row is.

    strangers: people who are not in the table, where there are any.
    """
    varies = (E.std(axis=0) > 0) & (Z.std(axis=0) > 0)
    if min(len(E), len(Z)) < 2 * COMPARED or varies.sum() < 2:
        return None
    people, rows = E[:, varies], Z[:, varies]
    others = None if strangers is None or len(strangers) < 2 * COMPARED else strangers[:, varies]
    own = fit_a_person(people, rows, others, rng)
    rest = rows[~own]
    if own.any() and len(rest) >= 2 * COMPARED and not _about_people(people, rest, others, rng):
        found = _matched(people, rows[own], rng)
        source = np.full(len(rows), -1, dtype=np.int64)
        source[own] = found.source
        return found._replace(source=source)
    return _matched(people, rows, rng) if own.any() or _about_people(people, rows, others, rng) else None


def _matched(people: Matrix, rows: Matrix, rng: np.random.Generator) -> Match:
    """A person for each of these rows."""
    noise = strength(people, rows, rng)
    people, rows = np.ascontiguousarray(people / noise), np.ascontiguousarray(rows / noise)
    distance, near = nearest(rows, people, k=min(CANDIDATES, len(people)))
    share = softmax(-0.5 * distance**2, axis=1)  # the noise being normal with variance 1
    sure = float(np.mean(share[:, 0] >= LIKELY))
    if len(rows) > len(people):  # some people have several rows: each row is drawn by itself
        picked = (share.cumsum(axis=1) > rng.random((len(rows), 1))).argmax(axis=1)
        return Match(near[np.arange(len(rows)), picked], False, sure)
    exact = len(people) <= MOST_EXACT
    source = linear_sum_assignment(cdist(rows, people, "sqeuclidean"))[1] if exact else one_to_one(near, len(people))
    return Match(drawn(np.asarray(source, dtype=np.int64), people, rows, near, share, rng), exact, sure)


def fit_a_person(people: Matrix, rows: Matrix, strangers: Matrix | None, rng: np.random.Generator) -> Flags:
    """Rows that lie nearer to one of the people than to any stranger, by a margin beyond chance.

    A person to whom made-up rows lie near is as likely to be a stranger, by any margin, as one of as many people. So
    the strangers that rows lie nearer to count the people of whom that holds by chance, and the margin is the least
    that leaves 5% of these [Barber and Candes 2015, knockoffs]. Everybody counts once: hundreds of rows that lie far
    out have the same outlier nearest. More people than strangers come in blocks; each stranger then stands for as many
    people as there are blocks. Without strangers copies alone count, and rows whose columns were shuffled say how many
    there are by chance.
    """
    spread = people.std(axis=0)
    people, rows = people / spread, rows / spread
    if strangers is None:
        shuffled = np.column_stack([rng.permutation(column) for column in rows.T])
        copied, by_chance = (nearest(part, people)[0][:, 0] <= COPY for part in (rows, shuffled))
        return copied & bool(1 + by_chance.sum() <= FALSE_SHARE * copied.sum())
    strangers = strangers[rng.permutation(len(strangers))[: len(people)]] / spread
    distance, stranger = nearest(rows, strangers)
    away, blocks = np.log(distance[:, 0] + COPY), -(-len(people) // len(strangers))
    margins, mine = [], []
    for block in np.array_split(rng.permutation(len(people)), blocks):
        distance, person = nearest(rows, people[block])
        margins.append(away - np.log(distance[:, 0] + COPY))
        mine.append(_each_once(margins[-1], person[:, 0]))
    nearer, farther = np.sort(np.concatenate(mine))[::-1], np.sort(_each_once(-np.min(margins, axis=0), stranger[:, 0]))
    false = blocks * (1 + len(farther) - np.searchsorted(farther, nearer))
    enough = np.flatnonzero(false <= FALSE_SHARE * np.arange(1, len(nearer) + 1))
    return np.asarray(np.max(margins, axis=0) >= nearer[enough[-1]]) if len(enough) else np.zeros(len(rows), dtype=bool)


def _each_once(margins: Matrix, nearest_ones: Codes) -> Matrix:
    """Of everybody to whom some row lies nearest by a positive margin the largest one."""
    best = np.zeros(int(nearest_ones.max()) + 1)
    np.maximum.at(best, nearest_ones, margins)
    return best[best > 0]


def _about_people(people: Matrix, rows: Matrix, strangers: Matrix | None, rng: np.random.Generator) -> bool:
    """Whether these rows, taken together, are about these people at all, and not about others like them.

    More lie near to them than to strangers; or of the people nearest to a row by one half of the columns, the very
    nearest is also the nearest by the other half. If the row is a person's: often. For a row of a stranger: hardly more
    often than chance. How often that is, the people themselves say: each is compared with all the others.
    """
    if strangers is not None and nearer_than_strangers(people, rows, strangers, rng):
        return True
    people, rows = people / people.std(axis=0), rows / people.std(axis=0)
    rows = rows[rng.permutation(len(rows))[:MOST_FITTED]]
    others = rng.permutation(len(people))[:MOST_FITTED]
    same, usual = np.zeros(len(rows)), np.zeros(len(others))
    for _ in range(SPLITS):
        order = rng.permutation(people.shape[1])
        first, second = order[::2], order[1::2]
        same += _agreement(rows, people, first, second) / SPLITS
        usual += _agreement(people[others], people, first, second, itself=others) / SPLITS
    error = np.sqrt(same.var() / len(same) + usual.var() / len(usual) + 1e-12)
    return bool((same.mean() - usual.mean()) / error > FAR_BEYOND_CHANCE)


def nearer_than_strangers(people: Matrix, rows: Matrix, strangers: Matrix, rng: np.random.Generator) -> bool:
    """Whether more rows lie nearest to each of the people than to each of as many strangers, beyond chance.

    Chance is how much the number of rows differs from one to the next: a single outlier that has them all is chance.
    """
    count = min(len(people), len(strangers), MOST_FITTED)
    spread = people.std(axis=0)
    mine, theirs = (part[rng.permutation(len(part))[:count]] / spread for part in (people, strangers))
    rows = rows[rng.permutation(len(rows))[:MOST_FITTED]] / spread
    (near, person), (away, stranger) = nearest(rows, mine), nearest(rows, theirs)
    gap = away[:, 0] - near[:, 0]
    own = np.bincount(person[gap > 0, 0], minlength=count)
    others = np.bincount(stranger[gap < 0, 0], minlength=count)
    error = np.sqrt((own.var() + others.var()) / count + 1e-12)
    return bool((own.mean() - others.mean()) / error > FAR_BEYOND_CHANCE)


def _agreement(queries: Matrix, people: Matrix, first: Codes, second: Codes, itself: Codes | None = None) -> Matrix:
    """Per query the probability, ties broken at random, that the nearest person by `first` is so by `second` too."""
    spare = 0 if itself is None else 1
    distance, near = nearest(queries[:, first], people[:, first], k=COMPARED + spare)
    if itself is not None:  # no person is compared with themselves
        own = near == itself[:, None]
        own[~own.any(axis=1), -1] = True
        near, distance = near[~own].reshape(len(near), -1), distance[~own].reshape(len(near), -1)
    other = np.linalg.norm(people[:, second][near] - queries[:, None, second], axis=2)
    best, too = distance <= distance[:, :1] + 1e-12, other <= other.min(axis=1, keepdims=True) + 1e-12
    return np.asarray((best & too).sum(axis=1) / (best.sum(axis=1) * too.sum(axis=1)))


def strength(people: Matrix, rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Standard deviation of the change per column: the likeliest if each row is one of the people, changed (EM)."""
    fitted = int(np.clip(MOST_COMPARED // len(people), LEAST_FITTED, MOST_FITTED))
    rows = rows[rng.permutation(len(rows))[:fitted]]
    noise = 0.3 * people.std(axis=0)
    for _ in range(ROUNDS):
        distance, near = nearest(rows / noise, people / noise, k=min(MANY, len(people)))
        share = softmax(-0.5 * distance**2, axis=1)  # the noise being normal with variance 1
        change = (people[near] - rows[:, None, :]) ** 2
        before, noise = noise, np.sqrt(np.einsum("nk,nkd->d", share, change) / len(rows) + LEAST_NOISE**2)
        if np.abs(noise / before - 1).max() < STEADY:
            break
    return np.asarray(noise)


def one_to_one(near: Codes, people: int) -> Codes:
    """A good match where the best one does not fit into memory: rows take the nearest of their candidates that is free,
    and those left over get any person who is left."""
    source, free = np.full(len(near), -1, dtype=np.int64), np.ones(people, dtype=bool)
    for candidates in near.T:
        open_rows = np.flatnonzero(source < 0)
        open_rows = open_rows[free[candidates[open_rows]]]
        wanted, first = np.unique(candidates[open_rows], return_index=True)
        source[open_rows[first]] = wanted
        free[wanted] = False
    left = np.flatnonzero(source < 0)
    source[left] = np.flatnonzero(free)[: len(left)]
    return source


def drawn(
    source: Codes,
    people: Matrix,
    rows: Matrix,
    near: Codes,
    share: Matrix,
    rng: np.random.Generator,
    sweeps: int | None = None,
) -> Codes:
    """A match drawn by its likelihood, by Metropolis steps from a good one; rows and people in units of the noise.

    Two rows exchange their people, or a row takes one of its candidates who has none. Which rows are asked depends on
    how alike their candidates are and never on the present match, so going and coming back are proposed equally often.
    """
    source = source.copy()
    edges, weight = rivals(near, share, len(people))
    undecided = np.flatnonzero(share[:, 0] < SETTLED) if len(people) > len(rows) else np.empty(0, dtype=np.int64)
    chance = np.cumsum(weight)
    sweeps = int(np.clip(STEPS // len(rows), *SWEEPS)) if sweeps is None else sweeps
    for _ in range(sweeps if len(edges) else 0):
        mixed = edges[np.searchsorted(chance, chance[-1] * rng.random(min(len(rows), 2 * len(edges))))]
        a, b = mixed[disjoint(mixed, len(rows))].T
        change = _misfit(rows[a], people[source[b]]) + _misfit(rows[b], people[source[a]])
        change -= _misfit(rows[a], people[source[a]]) + _misfit(rows[b], people[source[b]])
        take = np.log(rng.random(len(a))) < -change
        a, b = a[take], b[take]
        source[a], source[b] = source[b], source[a]
        if not len(undecided):
            continue
        # Each row asks one of its candidates, and takes who has no row: by likelihood, and only if there is a way back.
        who = rng.permutation(undecided)
        wanted = near[who, rng.integers(near.shape[1], size=len(who))]
        heard = np.unique(wanted, return_index=True)[1]  # of several who ask the same, one is heard
        who, wanted = who[heard], wanted[heard]
        taken: Flags = np.zeros(len(people), dtype=bool)
        taken[source] = True
        back = (near[who] == source[who, None]).any(axis=1)
        change = _misfit(rows[who], people[wanted]) - _misfit(rows[who], people[source[who]])
        moves = back & ~taken[wanted] & (np.log(rng.random(len(who))) < -change)
        source[who[moves]] = wanted[moves]
    return source


def rivals(near: Codes, share: Matrix, people: int) -> tuple[Codes, Matrix]:
    """Pairs of release rows that may belong to the same people, and how much: the product of their shares."""
    begin = np.arange(0, near.size + 1, near.shape[1])
    belief = csr_array((share.ravel(), near.ravel(), begin), shape=(len(near), people))
    both = triu(belief @ belief.T, k=1).tocoo()
    kept = both.data > LEAST_RIVALRY
    return np.column_stack([both.row[kept], both.col[kept]]).astype(np.int64), both.data[kept]


def disjoint(edges: Codes, count: int) -> Codes:
    """Positions of edges of which no two touch: each is the first, in this order, at both of its ends."""
    first = np.full(count, len(edges))
    np.minimum.at(first, edges.ravel(), np.repeat(np.arange(len(edges)), 2))
    place = np.arange(len(edges))
    return np.flatnonzero((first[edges[:, 0]] == place) & (first[edges[:, 1]] == place))


def _misfit(rows: Matrix, people: Matrix) -> Matrix:
    return np.asarray(0.5 * ((rows - people) ** 2).sum(axis=1))
