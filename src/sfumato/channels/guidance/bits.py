"""How a respondent's device turns an answer into the bits it sends, to the last binary digit [guided-survey, 4.2].

All numbers are IEEE doubles; every product and every sum is rounded once, in this order and no other, so that a
browser computes the same bits from the same random numbers:

1. ``u[c] = 0``; for j = 0, 1, ..., width - 1, where t[j] is 1: ``u[c] = u[c] + V[j][c]``   (for every column c)
2. ``x[j] = 0``; for c = 0, 1, ..., k - 1: ``x[j] = x[j] + u[c] * V[j][c]``   (for every bit j): Eq. 7, t V V'
3. square link (published, Eq. 8): ``p = x[j] * x[j]``, at most 1; linear link: ``p = 0.5 + 0.5 * x[j]``, from 0 to 1
4. ``q[j] = floor + (1 - 2 * floor) * p``
5. ``R[j] = 1`` if and only if ``uniform[j] < q[j]``

A uniform is eight random bytes, read as a little-endian unsigned number, shifted right by 11 and times 2^-53.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.guidance.space import AnswerSpace, checked_bits
from sfumato.core.array_types import Bits, Matrix
from sfumato.core.errors import UsageError

Link = Literal["square", "linear"]

LINKS: tuple[Link, ...] = ("square", "linear")
FLOOR = 0.25
"""The default floor eta: no bit is ever surer than three to one, whatever the guidance (docs/guided-survey.md)."""
ROWS = 4096
"""Answers that are computed at a time: the working rows stay in a core's cache."""


def bit_probabilities(t: ArrayLike, V: Matrix, floor: float = FLOOR, link: Link = "square") -> Matrix:
    """P(R_j = 1) of every bit, for one answer (width) or several (m x width); see above for the order of all steps.

    >>> V = np.array([[0.6], [0.8]])
    >>> bit_probabilities([1, 0], V, floor=0.0)
    array([0.1296, 0.2304])
    """
    check_floor(floor)
    check_link(link)
    answers = checked_bits(t, len(V))
    q = np.empty((len(answers), len(V)))
    for start in range(0, len(answers), ROWS):
        q[start : start + ROWS] = _probabilities(answers[start : start + ROWS], V, floor, link)
    return q[0] if np.ndim(t) == 1 else q


def perturb_bits(t: ArrayLike, V: Matrix, uniforms: ArrayLike, floor: float = FLOOR, link: Link = "square") -> Bits:
    """The bits that are sent: 1 where the uniform is below its probability; one answer or several."""
    q = bit_probabilities(t, V, floor, link)
    drawn = np.asarray(uniforms, dtype=np.float64)
    if drawn.shape != q.shape:
        raise UsageError(f"Every bit needs its own uniform number: {q.shape} are needed, {drawn.shape} were given.")
    return np.asarray(drawn < q).astype(np.uint8)


def uniforms_from_bytes(data: bytes) -> Matrix:
    """Numbers in [0, 1) of eight bytes each, as `crypto.getRandomValues` gives them.

    >>> uniforms_from_bytes(bytes([0, 0, 0, 0, 0, 0, 0, 128]))
    array([0.5])
    """
    return np.asarray((np.frombuffer(data, dtype="<u8") >> np.uint64(11)) * 2.0**-53)


def check_floor(floor: float) -> None:
    """A floor of 1/2 would leave nothing of the answer."""
    if isinstance(floor, bool) or not isinstance(floor, int | float | np.floating) or not 0 <= floor < 0.5:
        raise UsageError(f"The 'floor' parameter must be a number from 0 up to, not including, 0.5. Got {floor!r}.")


def check_link(link: str) -> None:
    if link not in LINKS:
        raise UsageError(f"The 'link' parameter must be one of {', '.join(LINKS)}. Got {link!r} instead.")


def _probabilities(answers: Bits, V: Matrix, floor: float, link: Link) -> Matrix:
    return floored(_projected(answers, V), floor, link)


def projected(t: ArrayLike, V: Matrix) -> Matrix:
    """x = t V V' of several answers (m x width): steps 1 and 2."""
    answers = checked_bits(t, len(V))
    x = np.empty((len(answers), len(V)))
    for start in range(0, len(answers), ROWS):
        x[start : start + ROWS] = _projected(answers[start : start + ROWS], V)
    return x


def _projected(answers: Bits, V: Matrix) -> Matrix:
    u = np.zeros((len(answers), V.shape[1]))
    for j, row in enumerate(V):
        chosen = np.flatnonzero(answers[:, j])
        if len(chosen):
            u[chosen] += row
    x = np.zeros((len(answers), len(V)))
    for c in range(V.shape[1]):  # not a matrix product: those add in an order of their own
        x += u[:, c, None] * V[:, c]
    return x


def floored(x: Matrix, floor: float, link: Link) -> Matrix:
    """From projected values t V V' to probabilities: steps 3 and 4."""
    p = np.minimum(x * x, 1.0) if link == "square" else np.clip(0.5 + 0.5 * x, 0.0, 1.0)
    return np.asarray(floor + (1.0 - 2.0 * floor) * p)


# How likely received bits are under every possible answer: what Bayes' rule needs.


IMPOSSIBLE = 1e-300
"""Stands for a probability of 0 where no floor keeps bits from being certain: its logarithm is finite."""


def log_odds(q: Matrix) -> tuple[Matrix, Matrix]:
    """(log q, log(1 - q)) of bit probabilities."""
    return np.log(np.maximum(q, IMPOSSIBLE)), np.log(np.maximum(1.0 - q, IMPOSSIBLE))


def log_likelihoods(
    bits: ArrayLike, answers: ArrayLike, V: Matrix, floor: float = FLOOR, link: Link = "square"
) -> Matrix:
    """log P(R = bits[i] | t = answers[j]), rows of bits x one-hot answers: bits are independent given the answer."""
    R = checked_bits(bits, len(V)).astype(np.float64)
    return score_bits(R, np.atleast_2d(bit_probabilities(np.atleast_2d(answers), V, floor, link)))


def score_bits(R: Matrix, q: Matrix) -> Matrix:
    """The same from bit probabilities (answers x width)."""
    one, zero = log_odds(q)
    return np.asarray(R @ (one - zero).T + zero.sum(axis=1))


def posterior(
    bits: ArrayLike, answers: ArrayLike, weights: ArrayLike | None, V: Matrix, floor: float, link: Link
) -> Matrix:
    """P(t = answers[j] | R = bits[i]) by Bayes' rule, where answers[j] had the prior `weights[j]` (None: all alike)."""
    log = log_likelihoods(bits, answers, V, floor, link)
    if weights is not None:
        log = log + np.log(np.maximum(np.asarray(weights, dtype=np.float64), IMPOSSIBLE))
    log -= log.max(axis=1, keepdims=True)
    p = np.exp(log)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def answer_posteriors(
    bits: ArrayLike, codes: ArrayLike, space: AnswerSpace, V: Matrix, floor: float = FLOOR, link: Link = "square"
) -> list[Matrix]:
    """Per question, P(choice | R) of every row, for somebody who takes the population to be the rows `codes`."""
    people, weights = np.unique(np.atleast_2d(codes), axis=0, return_counts=True)
    p = posterior(bits, space.onehot(people), weights / weights.sum(), V, floor, link)
    chosen = space.onehot(people).astype(np.float64)
    return [np.asarray(p @ chosen[:, part]) for part in space.slices()]
