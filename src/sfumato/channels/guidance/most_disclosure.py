"""Definition 2 [guided-survey, Eq. 27]: the most that any guidance of at most k directions can make bits disclose.

    l_p(k) = max over V with V'V = I and at most k columns of I(t; R(t, V)) / H(t)

The maximum itself is out of reach: I(t; R) is neither convex nor concave in V. So it is enclosed: no guidance
discloses more than `most_bits`, and `most_disclosure` searches for guidance that comes near to it.

The bound. Given t the bits are independent, so I(t; R) <= sum_j I(t; R_j). Write h for the binary entropy, f for the
floor, P = V V', d_j = P_jj, n for the number of questions, and S for the sum of the k largest eigenvalues of E[t't].
- x_j = (tP)_j has |x_j|^2 <= n d_j, and sum_j d_j <= k. And sum_j E[x_j^2] = trace(P E[t't]) <= S.
- Square link: p_j = min(1, x_j^2) lies in [0, c_j] with c_j = min(1, n d_j) and has some mean m_j. As h is concave,
  I(t; R_j) is largest where p_j is 0 or c_j. Such a bit is the one of p_j in {0, 1} of mean m_j / c_j, let through with
  probability c_j and else drawn as for 0. Whoever were told which would know more, so I(t; R_j) <= c_j g(m_j / c_j)
  with g(m) = h(f + (1 - 2f) m) - h(f). This is concave in (c_j, m_j), and the c_j add up to at most
  C = min(width, n k), the m_j to at most S: the sum is at most C g(min(S / C, 1/2)).
- Linear link: 1 - h((1 + y) / 2) is convex in y^2, so I(t; R_j) <= 1 - E h <= E[min(1, x_j^2)] (1 - h(f)): the sum is
  at most min(width, S) (1 - h(f)).
And I(t; R) <= H(t). All of it grows with k, so that it holds for fewer directions too. Without a population S is n.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.guidance.disclosure import (
    MOST_LISTED,
    Disclosure,
    answer_entropy,
    disclosure,
    exact_disclosure,
    joint_entropy,
    log_mean,
    population_of,
)
from sfumato.channels.guidance.space import FLOOR, AnswerSpace, Link, check_law, floored, projected, score_bits
from sfumato.core.array_types import Bits, Codes, Matrix
from sfumato.core.errors import TableError, UsageError

# Definition 1 [guided-survey, Eqs. 10 and 11]: how far received rows mislead about the difference of two classes.
#
#     l_e(h) = max over h answers t_s of |(P(C_0, t_s) - P(C_1, t_s)) - (P~(C_0, t_s) - P~(C_1, t_s))|
#     l_e    = max over h = 1, ..., n of l_e(h)
#
# P counts plain rows, P~ received ones as they are, which is what a classifier does that is trained on them directly.
# For h = 1 and 2 these are the entries of A and A_R. There are prod (s_j + 1) sets of answers in all; a larger set has
# fewer rows of each kind, so that no set which contains s can have more than
#
#     max( P(C_0, s) + P~(C_1, s),  P(C_1, s) + P~(C_0, s) ),
#
# and sets that cannot beat what was found are never looked at.
WORK = 20_000
"""Sets of answers that are continued at most, for every size."""
SAME = 1e-12


class DegreeOfError(NamedTuple):
    """`value` = l_e, lower is better; `by_size` = l_e(1), l_e(2), ... as far as asked for.

    `exact` where the search came to its end. Otherwise the values were found, and l_e is at most `bound`.
    """

    value: float
    by_size: tuple[float, ...]
    exact: bool
    bound: float


Classed = tuple[ArrayLike, ArrayLike]
"""Rows with the class of each."""


def degree_of_error(
    plain: Classed, received: Classed, space: AnswerSpace, *, sizes: int = 3, work: int = WORK
) -> DegreeOfError:
    """l_e of received bits against the plain answers (one-hot rows) that they stand for, with l_e(h) up to `sizes`.

    Of more than two classes every pair is taken, and the largest counts.
    """
    T, R = space.checked(plain[0]), space.checked(received[0])
    labels = np.asarray(plain[1]), np.asarray(received[1])
    if [one.shape for one in labels] != [(len(T),), (len(R),)] or not len(R):
        raise TableError("The degree of error needs plain and received rows, each with its class.")
    classes = np.unique(labels[0])
    if len(classes) < 2:
        raise TableError("The degree of error compares classes, and there is only one.")
    if sizes < 0:
        raise UsageError(f"The 'sizes' parameter must be a whole number from 0. Got {sizes!r} instead.")
    searches = [_Search(T, R, labels, pair, space) for pair in itertools.combinations(classes.tolist(), 2)]
    by_size, exact = [], True
    for size in range(1, min(sizes, len(space.sizes)) + 1):
        found = [search.run(size, work, only=True) for search in searches]
        by_size.append(max(value for value, _ in found))
        exact = exact and all(left <= value + SAME for value, left in found)
    found = [search.run(len(space.sizes), work, start=max(by_size, default=0.0)) for search in searches]
    value = max(value for value, _ in found)
    bound = max(map(max, found))
    return DegreeOfError(value, tuple(by_size), exact and bound <= value + SAME, bound)


class _Search:
    """Depth first over sets of answers: at most one of every question, questions in their order."""

    def __init__(self, T: Bits, R: Bits, labels: tuple[Codes, Codes], pair: tuple[int, int], space: AnswerSpace):
        (plain, received), (one, other) = labels, pair
        kinds = [(T, plain == one), (R, received == other), (T, plain == other), (R, received == one)]
        self.rows = [rows[chosen].astype(np.float32) for rows, chosen in kinds]
        self.weights = [1 / len(rows) for rows, _ in kinds]
        self.slices = space.slices()

    def run(self, size: int, work: int, *, only: bool = False, start: float = 0.0) -> tuple[float, float]:
        """The largest error of sets up to `size` (`only` of that size), and a bound on those not looked at."""
        best, left = start, 0.0
        open_: list[tuple[int, int, list[Matrix]]] = [(0, 0, [np.ones(len(rows), np.float32) for rows in self.rows])]
        while open_:
            question, had, inside = open_.pop()
            shares = [  # counts are exact in single precision, up to sixteen million rows
                (mask @ rows).astype(np.float64) * weight
                for mask, rows, weight in zip(inside, self.rows, self.weights, strict=True)
            ]
            up, down = shares[0] + shares[1], shares[2] + shares[3]
            first = self.slices[question].start
            if not only or had + 1 == size:
                best = max(best, float(np.abs(up - down)[first:].max()))
            if had + 1 == size:
                continue
            if work <= 0:
                left = max(left, float(np.maximum(up, down)[first:].max()))
                continue
            work -= 1
            for place in range(len(self.slices) - 1, question - 1, -1):
                if place + 1 == len(self.slices) or (only and had + 1 + len(self.slices) - place - 1 < size):
                    continue  # too few questions are left
                for bit in range(self.slices[place].start, self.slices[place].stop):
                    if max(up[bit], down[bit]) > best + SAME:
                        narrowed = [mask * rows[:, bit] for mask, rows in zip(inside, self.rows, strict=True)]
                        open_.append((place + 1, had + 1, narrowed))
        return best, left


ROUNDING = 1e-9
AT_A_TIME = 250
"""People of one step of the search."""
DRAWS, STEPS = 4, 100
LEAST_CHANCE = 0.02
"""Bits nearer to certainty are treated as if they were this far from it when a direction of ascent is estimated."""


class MostDisclosure(NamedTuple):
    """The degree of disclosure l_p(k) lies between `found.of_whole_answers` and `of_whole_answers`; lower is safer.

    `found`: what the guidance `V` discloses, the worst that was found (drawn, with its standard error, unless the
    survey is small). `bits`: no guidance of at most k directions makes an answer's bits disclose more.
    `of_whole_answers`: the same as a share of H(t), and `by_question` of the sum of H(a_j); at most 1.
    """

    found: Disclosure
    V: Matrix
    bits: float
    of_whole_answers: float
    by_question: float


def most_bits(
    space: AnswerSpace, k: int, floor: float = FLOOR, link: Link = "square", codes: ArrayLike | None = None
) -> float:
    """An upper bound in bits on what any guidance of at most `k` directions discloses of one answer.

    With `codes` it holds for people like those rows, without for every population.

    >>> round(most_bits(AnswerSpace([2] * 16), 1), 2)
    3.02
    """
    check_law(floor, link)
    if isinstance(k, bool) or not 1 <= k <= space.width:
        raise UsageError(f"The level k must be between 1 and the {space.width} bits of an answer. Got {k!r}.")
    questions = len(space.sizes)
    seen, most = float(questions), math.inf
    if codes is not None:
        t = space.onehot(codes).astype(np.float64)
        seen = min(seen, float(np.linalg.eigvalsh(t.T @ t / len(t))[::-1][:k].sum()) * (1 + ROUNDING))
        most = joint_entropy(codes)
    if link == "linear":
        told = min(space.width, seen) * (1 - _entropy(floor))
    else:
        used = min(space.width, questions * k)
        told = used * (_entropy(floor + (1 - 2 * floor) * min(seen / used, 0.5)) - _entropy(floor))
    return min(told, most) * (1 + ROUNDING)


def most_disclosure(
    codes: ArrayLike,
    space: AnswerSpace,
    k: int,
    floor: float = FLOOR,
    link: Link = "square",
    *,
    guidance: Matrix | None = None,
    seed: int = 0,
) -> MostDisclosure:
    """Definition 2 for people like `codes` (at most 4,000 of them): the worst guidance found, and the certified bound.

    The search begins with single choices, with the directions in which answers vary most, and with `guidance` where it
    is given and has no more than `k` columns; from the two best it climbs for `STEPS` steps.
    """
    rng = np.random.default_rng(seed)
    people = population_of(codes, rng)
    bits = most_bits(space, k, floor, link, people)
    if guidance is not None and len(guidance) != space.width:
        raise UsageError(f"The guidance must have a row for each of the {space.width} bits of an answer.")
    listed = space.width < 20 and (1 << space.width) * len(np.unique(people, axis=0)) <= MOST_LISTED

    def measured(V: Matrix, seed: int) -> Disclosure:
        """Listed where the survey is small, else drawn, with the same numbers for all of a seed."""
        if listed:
            return exact_disclosure(people, space, V, floor, link)
        return disclosure(people, space, V, floor, link, seed=seed)

    starts = [V for V in _starts(people, space, k) if V.shape[1] <= k]
    if guidance is not None and guidance.shape[1] <= k:
        starts.append(np.asarray(guidance, dtype=np.float64))
    tried = sorted(((measured(V, seed).bits, number) for number, V in enumerate(starts)), reverse=True)
    candidates = [_climbed(people, space, starts[number], floor, link, rng) for _, number in tried[:2]]
    candidates.append(starts[tried[0][1]])
    best = max(candidates, key=lambda V: measured(V, seed).bits)
    found = measured(best, seed + 1)  # drawn anew: the best of several draws is too good
    entropies = joint_entropy(people), answer_entropy(people, space)
    return MostDisclosure(found, best, bits, *(min(1.0, bits / whole) if whole else 0.0 for whole in entropies))


def _climbed(
    people: Codes, space: AnswerSpace, V: Matrix, floor: float, link: Link, rng: np.random.Generator
) -> Matrix:
    """Steps of decreasing length along the estimated gradient of I(t; R), each followed by making V orthonormal."""
    for step in range(STEPS):
        few = people if len(people) <= AT_A_TIME else people[rng.choice(len(people), AT_A_TIME, replace=False)]
        slope = _slope(space.onehot(few), V, floor, link, rng)
        size = float(np.linalg.norm(slope))
        if not size > 0:
            break
        V = np.linalg.qr(V + 0.3 * (1 - step / STEPS) * slope / size)[0]
    return np.ascontiguousarray(V)


def _starts(people: Codes, space: AnswerSpace, k: int) -> list[Matrix]:
    """Single choices that are as likely chosen as not, of different questions first; directions of most variance."""
    t = space.onehot(people).astype(np.float64)
    spread = t.mean(axis=0) * (1 - t.mean(axis=0))
    rounds = np.empty(space.width)  # the best choice of every question, then the second best, ...
    for part in space.slices():
        rounds[part] = np.argsort(np.argsort(-spread[part], kind="stable"), kind="stable")
    order = np.lexsort((-spread, rounds))
    around = np.linalg.eigh(np.cov(t.T, bias=True))[1][:, ::-1]
    through = np.linalg.eigh(t.T @ t)[1][:, ::-1]
    levels = dict.fromkeys((k, (k + 1) // 2, 1))
    return [M[:, :level] for level in levels for M in (np.eye(space.width)[:, order], around, through)]


def _slope(answers: Bits, V: Matrix, floor: float, link: Link, rng: np.random.Generator) -> Matrix:
    """dI / dV. With L = log P(R | t) / P(R): dI / dq_ij = E[L (R_j - q_ij) / (q_ij (1 - q_ij))] / people."""
    x = projected(answers, V)
    q = floored(x, floor, link)
    many = np.tile(q, (DRAWS, 1))
    R = (rng.random(many.shape) < many).astype(np.float64)
    log = score_bits(R, q)
    gain = log[np.arange(len(R)), np.tile(np.arange(len(q)), DRAWS)] - log_mean(log)
    chance = np.clip(q, LEAST_CHANCE, 1 - LEAST_CHANCE)
    by_q = (gain - gain.mean())[:, None] * (R - many) / np.tile(chance * (1 - chance), (DRAWS, 1))
    by_x = by_q.reshape(DRAWS, *q.shape).mean(axis=0) * (1 - 2 * floor)
    by_x *= np.where(np.abs(x) < 1, 2 * x if link == "square" else 0.5, 0.0)
    across = answers.T.astype(np.float64) @ by_x
    return np.asarray((across + across.T) @ V)


def _entropy(p: float) -> float:
    """h(p) in bits."""
    return 0.0 if p in (0.0, 1.0) else -p * math.log2(p) - (1 - p) * math.log2(1 - p)
