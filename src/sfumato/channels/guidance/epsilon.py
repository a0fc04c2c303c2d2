"""What a floor on bit probabilities proves: epsilon, computed from the guidance that a respondent was given."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import NamedTuple

import numpy as np

from sfumato.channels.guidance.space import FLOOR, AnswerSpace, Link, check_law, floored
from sfumato.core.array_types import Matrix

ROUNDING = 1e-9
"""Share by which epsilon is rounded up: more than all roundings of probabilities and of 53-bit uniforms together."""
HALF = 1 << 14
"""Most sums of one half of the questions that are listed in order to find the value nearest to zero."""


class SurveyEpsilon(NamedTuple):
    """`record`: the sum over bits of the largest |log-ratio| of that bit over all answers; infinite without a floor.

    `tight` says that every bit's range is attained (otherwise the range may be too wide, never too narrow). Either way
    the record's true epsilon is at most this: one pair of answers need not be the worst for all bits at once.
    """

    record: float
    tight: bool
    bits: Matrix


def survey_epsilon(
    V: Matrix, space: AnswerSpace, floor: float = FLOOR, link: Link = "square", *, tight: bool = True
) -> SurveyEpsilon:
    """Epsilon of one answer to the guidance V: a likelihood ratio of e^epsilon between any two answers.

    Bit j depends on the answers through x_j = (t V V')_j, one entry of row j of V V' for each question: its range is
    the sum of the least and of the largest entries. The square link needs the smallest |x_j|: 0 or an end of the
    range as a bound, and the true one wherever the sums can be listed in two halves (never with ``tight=False``).
    """
    check_law(floor, link)
    if floor == 0:
        return SurveyEpsilon(math.inf, True, np.full(len(V), math.inf))
    low, high, attained = projected_range(V, space, nearest=link == "square", listed=tight)
    q_low, q_high = floored(low, floor, link), floored(high, floor, link)
    bits = np.maximum(np.log(q_high / q_low), np.log((1 - q_low) / (1 - q_high)))
    bits = bits * (1 + ROUNDING) + 1e-13 / floor
    return SurveyEpsilon(float(bits.sum()), attained, bits)


def answer_epsilons(V: Matrix, space: AnswerSpace, floor: float = FLOOR, link: Link = "square") -> Matrix:
    """Epsilon of each single answer: the largest log-likelihood ratio when one question is answered otherwise.

    Choices s and s' of question a add p and p' to x_j, and the others, whatever they are, some r between their least
    and largest sum. Per bit the ratio q(r + p) / q(r + p') is largest at an end of that range, where a probability is
    cut off (r + p or r + p' is 1 or -1), or where its derivative vanishes: (r + p)(r + p') = floor / (1 - 2 floor) for
    q and -(1 - floor) / (1 - 2 floor) for 1 - q, or where one of them is cut off and the other 0 (square link). An
    upper bound: the worst r may differ between bits.
    """
    check_law(floor, link)
    tables = choice_tables(V, space)
    if floor == 0:
        return np.full(len(tables), math.inf)
    low, high = (np.sum([end(part, axis=1) for part in tables], axis=0) for end in (np.min, np.max))
    out = np.zeros(len(tables))
    for number, part in enumerate(tables):
        ends = low - part.min(axis=1), high - part.max(axis=1)
        for one in range(part.shape[1]):
            for other in range(part.shape[1]):
                if one != other:
                    ratio = _largest_ratio(part[:, one], part[:, other], *ends, floor, link)
                    out[number] = max(out[number], float((ratio * (1 + ROUNDING) + 1e-13 / floor).sum()))
    return out


def _largest_ratio(p: Matrix, p2: Matrix, low: Matrix, high: Matrix, floor: float, link: Link) -> Matrix:
    """Per bit, the largest of log q(r + p) / q(r + p2) and of the same for 1 - q, over r in [low, high]."""
    gain, middle, half = 1 - 2 * floor, -(p + p2) / 2, (p - p2) / 2
    candidates = [low, high, *(edge - value for value in (p, p2) for edge in (-1.0, 0.0, 1.0))]
    for product in (floor / gain, -(1 - floor) / gain) if link == "square" else ():
        root = np.sqrt(np.maximum(half**2 + product, 0.0))
        candidates += [middle - root, middle + root]
    r = np.clip(np.array(candidates), low, high)
    q, q2 = floored(r + p, floor, link), floored(r + p2, floor, link)
    return np.asarray(np.maximum(np.log(q / q2), np.log((1 - q) / (1 - q2))).max(axis=0))


def projected_range(
    V: Matrix, space: AnswerSpace, *, nearest: bool, listed: bool = True
) -> tuple[Matrix, Matrix, bool]:
    """Least and largest x_j over all answers (of |x_j| with `nearest`), and whether both are attained."""
    tables = choice_tables(V, space)
    low = np.sum([part.min(axis=1) for part in tables], axis=0)
    high = np.sum([part.max(axis=1) for part in tables], axis=0)
    if not nearest:
        return low, high, True
    across = (low < 0) & (high > 0)
    smallest = np.where(across, 0.0, np.minimum(np.abs(low), np.abs(high)))
    sizes = [size + space.blank for size in space.sizes]
    middle = (len(sizes) + 1) // 2
    few = listed and max(math.prod(sizes[:middle]), math.prod(sizes[middle:])) <= HALF
    for j in np.flatnonzero(across) if few else ():
        smallest[j] = _nearest_to_zero([part[j] for part in tables])
    return smallest, np.maximum(np.abs(low), np.abs(high)), bool(few or not across.any())


def choice_tables(V: Matrix, space: AnswerSpace) -> list[Matrix]:
    """For each question, what each of its choices adds to every x_j (width x choices); a blank adds nothing."""
    P = V @ V.T
    tables = [P[:, part] for part in space.slices()]
    return [np.column_stack([part, np.zeros(len(P))]) for part in tables] if space.blank else tables


def _nearest_to_zero(parts: list[Matrix]) -> float:
    """The smallest |sum| of one entry of each part: sorted sums of one half against those of the other."""
    middle = (len(parts) + 1) // 2
    one, other = _sums(parts[:middle]), np.sort(_sums(parts[middle:]))
    place = np.searchsorted(other, -one)
    left, right = other[np.maximum(place - 1, 0)], other[np.minimum(place, len(other) - 1)]
    return float(np.minimum(np.abs(one + left), np.abs(one + right)).min())


def _sums(parts: list[Matrix]) -> Matrix:
    sums = np.zeros(1)
    for part in parts:
        sums = np.unique(np.add.outer(sums, part))
    return np.asarray(sums)


# The record's epsilon of a guided answer: the worst pair of answers, by branch and bound.
#
# Bits are independent, so two answers t and t' are told apart by at most
#
#     f(t, t') = sum_j max( ln q_j(t) / q_j(t'),  ln (1 - q_j(t)) / (1 - q_j(t')) ),
#
# and epsilon is its largest value. The sum over bits of their own worst cases (`survey_epsilon`) is more than that: no
# pair is the worst for all bits at once, and two thirds of the sum are typical. Here questions are answered one after
# another, for t and for t'. What is still open leaves every x_j = (t V V')_j an interval, and so a bound on what any
# pair can reach that begins like this; beginnings that cannot beat a pair already found are dropped, the most promising
# one is continued first. Where the work allowed is spent, the largest bound that is left is an epsilon too: an upper
# bound.
WORK = 1_000_000
"""Bits of beginnings that are looked at: two tenths of a second. Who checks a figure allows `TO_CHECK` times as much,
so that an order of beginnings that rounding changed accuses no collector."""
TO_CHECK = 2
AT_A_TIME = 1 << 13
"""Bits of beginnings that are continued together."""
STARTS = 6
SAME = 1 + 1e-12


class RecordEpsilon(NamedTuple):
    """`exact` where a pair of answers attains the value (but for rounding upward), else it is an upper bound."""

    value: float
    exact: bool


class _Beginnings(NamedTuple):
    """Answers to the first questions, equally many: what they add to every x_j, for t and t'; largest bound first."""

    level: int
    x: Matrix
    y: Matrix
    bounds: Matrix

    def cut(self, part: slice) -> _Beginnings:
        return _Beginnings(self.level, self.x[part], self.y[part], self.bounds[part])


def record_epsilon(
    V: Matrix, space: AnswerSpace, floor: float = FLOOR, link: Link = "square", *, work: int = WORK
) -> RecordEpsilon:
    """Epsilon of a whole answer to the guidance V: exact if the search ends, never more than `survey_epsilon`.

    >>> V = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 3)))[0]
    >>> by_bits, record = survey_epsilon(V, AnswerSpace((3, 2, 4))), record_epsilon(V, AnswerSpace((3, 2, 4)))
    >>> record.exact, bool(record.value < 0.75 * by_bits.record)
    (True, True)
    """
    check_law(floor, link)
    by_bits = survey_epsilon(V, space, floor, link).record
    if floor == 0:
        return RecordEpsilon(by_bits, True)
    search = _Search(V, space, floor, link)
    found, left = search.run(work)
    attained, bound = (value * (1 + ROUNDING) + len(V) * 1e-13 / floor for value in (found, max(found, left)))
    return RecordEpsilon(min(bound, by_bits), min(bound, by_bits) <= attained * SAME)


class _Search:
    """Questions in the order of what they can change; even levels answer for t, odd ones for t'."""

    def __init__(self, V: Matrix, space: AnswerSpace, floor: float, link: Link):
        tables = [np.ascontiguousarray(part.T) for part in choice_tables(V, space)]
        order = np.argsort([-float(np.ptp(part, axis=0).sum()) for part in tables], kind="stable")
        self.tables = [tables[place] for place in order]
        self.floor, self.link, self.width = floor, link, len(V)
        least = [part.min(axis=0) for part in self.tables]
        most = [part.max(axis=0) for part in self.tables]
        self.number = itertools.count()  # equal bounds: first come, first continued
        zero = np.zeros((1, self.width))
        self.least = np.cumsum([*zero, *least[::-1]], axis=0)[::-1]  # of the questions from here on
        self.most = np.cumsum([*zero, *most[::-1]], axis=0)[::-1]

    def run(self, work: int) -> tuple[float, float]:
        """The largest value that a pair attains, and the largest bound among beginnings that were not followed."""
        found = self.climb(work)
        start = np.zeros((1, self.width))
        open_: list[tuple[float, int, _Beginnings]] = []
        self._push(open_, self._bounded(0, start, start), found)
        while open_ and work > 0:
            _, _, group = heapq.heappop(open_)
            first = max(1, AT_A_TIME // (self.width * len(self.tables[group.level // 2])))
            self._push(open_, group.cut(slice(first, None)), found)
            some, (question, of_other) = group.cut(slice(first)), divmod(group.level, 2)
            table = self.tables[question]  # one more answer, every choice of it
            more = ((some.y if of_other else some.x)[:, None] + table).reshape(-1, self.width)
            same = np.repeat(some.x if of_other else some.y, len(table), axis=0)
            children = self._bounded(group.level + 1, *((same, more) if of_other else (more, same)))
            work -= children.x.size
            if children.level == 2 * len(self.tables):
                found = max(found, float(children.bounds.max()))
            else:
                self._push(open_, children, found)
            if open_ and -open_[0][0] <= found * SAME:
                open_.clear()  # the most promising one cannot beat what was found
        return found, -open_[0][0] if open_ else 0.0

    def _push(self, open_: list[tuple[float, int, _Beginnings]], group: _Beginnings, found: float) -> None:
        keep = int(np.count_nonzero(group.bounds > found * SAME))  # the largest come first
        if keep:
            kept = group.cut(slice(keep))
            heapq.heappush(open_, (-float(kept.bounds[0]), next(self.number), kept))

    def _bounded(self, level: int, x: Matrix, y: Matrix) -> _Beginnings:
        for_x, for_y = (level + 1) // 2, level // 2
        q_low, q_high = self._range(x + self.least[for_x], x + self.most[for_x])
        r_low, r_high = self._range(y + self.least[for_y], y + self.most[for_y])
        bounds = np.maximum(np.log(q_high / r_low), np.log((1 - q_low) / (1 - r_high))).sum(axis=1)
        order = np.argsort(-bounds, kind="stable")
        return _Beginnings(level, x[order], y[order], bounds[order])

    def _range(self, low: Matrix, high: Matrix) -> tuple[Matrix, Matrix]:
        """Least and largest probability while x_j goes from `low` to `high`."""
        if self.link == "square":
            ends = np.abs(low), np.abs(high)
            low = np.where((low < 0) & (high > 0), 0.0, np.minimum(*ends))
            high = np.maximum(*ends)
        return floored(low, self.floor, self.link), floored(high, self.floor, self.link)

    def climb(self, work: int = WORK) -> float:
        """A good pair, by changing one answer after another for the better from a few starts; 0 if that is too much."""
        best = 0.0
        once = 2 * self.width * sum(len(part) for part in self.tables)
        for start in range(min(STARTS, work // once)):
            t = [(start * (place + 1)) % len(part) for place, part in enumerate(self.tables)]
            u = [(start * (place + 2) + 1) % len(part) for place, part in enumerate(self.tables)]
            x = np.sum([part[choice] for part, choice in zip(self.tables, t, strict=True)], axis=0)
            y = np.sum([part[choice] for part, choice in zip(self.tables, u, strict=True)], axis=0)
            value = -1.0
            while (now := float(self._apart(x, y))) > value * SAME:
                value = now
                for place, part in enumerate(self.tables):
                    others = x - part[t[place]]
                    t[place] = int(self._apart(others + part, y).argmax())
                    x = others + part[t[place]]
                    others = y - part[u[place]]
                    u[place] = int(self._apart(x, others + part).argmax())
                    y = others + part[u[place]]
            best = max(best, value)
        return best

    def _apart(self, x: Matrix, y: Matrix) -> Matrix:
        q, r = floored(x, self.floor, self.link), floored(y, self.floor, self.link)
        return np.asarray(np.maximum(np.log(q / r), np.log((1 - q) / (1 - r))).sum(axis=-1))
