"""What a floor on bit probabilities proves: epsilon, computed from the guidance that a respondent was given."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sfumato.array_types import Matrix
from sfumato.guidance.bits import FLOOR, Link, check_floor, check_link, floored
from sfumato.guidance.space import AnswerSpace

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
    check_floor(floor)
    check_link(link)
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
    check_floor(floor)
    check_link(link)
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
    few = listed and max(_halves(space)) <= HALF
    for j in np.flatnonzero(across) if few else ():
        smallest[j] = _nearest_to_zero([part[j] for part in tables])
    return smallest, np.maximum(np.abs(low), np.abs(high)), bool(few or not across.any())


def choice_tables(V: Matrix, space: AnswerSpace) -> list[Matrix]:
    """For each question, what each of its choices adds to every x_j (width x choices); a blank adds nothing."""
    P = V @ V.T
    tables = [P[:, part] for part in space.slices()]
    return [np.column_stack([part, np.zeros(len(P))]) for part in tables] if space.blank else tables


def _halves(space: AnswerSpace) -> tuple[int, int]:
    sizes = [size + space.blank for size in space.sizes]
    middle = (len(sizes) + 1) // 2
    return math.prod(sizes[:middle]), math.prod(sizes[middle:])


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
