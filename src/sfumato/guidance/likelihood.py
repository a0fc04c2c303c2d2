"""How likely received bits are under every possible answer: what Bayes' rule needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Matrix
from sfumato.guidance.bits import FLOOR, Link, bit_probabilities
from sfumato.guidance.space import AnswerSpace, checked_bits

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
