"""How much of the answers the sent bits give away: as a share of their entropy, and answer by answer."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.guidance.bits import FLOOR, Link, bit_probabilities, log_odds, score_bits
from sfumato.channels.guidance.space import BLANK, AnswerSpace
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import UsageError

MOST_PEOPLE = 4_000
"""People who stand for the population in the marginal law of the bits."""
MOST_LISTED = 1 << 20


class Disclosure(NamedTuple):
    """`by_question` = I(t; R) / sum_j H(a_j); lower is safer. `bits` is I(t; R), `error` its standard error (0: exact).

    `of_whole_answers` = I(t; R) / H(t), with H(t) of the whole answer as it occurs in the population: what Definition 2
    takes the maximum of over all guidance (`most_disclosure`). Where questions hang together, H(t) is smaller than the
    sum; where rows are few and all different, it is the logarithm of their number. The paper's figures match
    `by_question`.
    """

    by_question: float
    bits: float
    error: float
    of_whole_answers: float


def answer_entropy(codes: ArrayLike, space: AnswerSpace) -> float:
    """sum_j H(a_j) in bits: what the answers would tell if they were independent."""
    rows = np.atleast_2d(np.asarray(codes))
    total = 0.0
    for question, size in enumerate(space.sizes):
        p = np.bincount(rows[:, question] - BLANK, minlength=size + 1) / len(rows)
        total -= float((p[p > 0] * np.log2(p[p > 0])).sum())
    return total


def joint_entropy(codes: ArrayLike) -> float:
    """H(t) in bits, of whole answers as they occur."""
    _, counts = np.unique(np.atleast_2d(np.asarray(codes)), axis=0, return_counts=True)
    p = counts / counts.sum()
    return float(-(p * np.log2(p)).sum())


def population_of(codes: ArrayLike, rng: np.random.Generator) -> Codes:
    """The people who stand for the population: all, or so many of them."""
    people = np.atleast_2d(np.asarray(codes))
    if len(people) <= MOST_PEOPLE:
        return people
    return np.asarray(people[rng.choice(len(people), MOST_PEOPLE, replace=False)])


def log_mean(log: Matrix) -> Matrix:
    """The logarithm of the mean likelihood over the people of each row."""
    top = log.max(axis=1)
    return np.asarray(top + np.log(np.exp(log - top[:, None]).mean(axis=1)))


def disclosure(
    codes: ArrayLike,
    space: AnswerSpace,
    V: Matrix,
    floor: float = FLOOR,
    link: Link = "square",
    *,
    draws: int = 2_000,
    seed: int = 0,
) -> Disclosure:
    """The share of the answers' entropy that the bits disclose to *this* guidance V, by Monte Carlo.

    The degree of disclosure [guided-survey, Def. 2] is the largest of this over all guidance: `most_disclosure`.
    The population is taken to be the rows `codes` (at most 4,000 of them): I(t; R) = E log2 P(R | t) / P(R), where
    P(R) is the average over the population. It cannot exceed the logarithm of the number of different rows.
    """
    rng = np.random.default_rng(seed)
    people = population_of(codes, rng)
    q = bit_probabilities(space.onehot(people), V, floor, link)
    who = rng.integers(0, len(people), draws)
    gains = np.empty(draws)
    for start in range(0, draws, 500):
        mine = who[start : start + 500]
        R = (rng.random((len(mine), space.width)) < q[mine]).astype(np.float64)
        log = score_bits(R, q)
        gains[start : start + 500] = (log[np.arange(len(mine)), mine] - log_mean(log)) / math.log(2)
    return _disclosure(float(gains.mean()), float(gains.std() / math.sqrt(draws)), people, space)


def exact_disclosure(
    codes: ArrayLike, space: AnswerSpace, V: Matrix, floor: float = FLOOR, link: Link = "square"
) -> Disclosure:
    """The same by listing all 2^width rows of bits; for small surveys."""
    people, counts = np.unique(np.atleast_2d(np.asarray(codes)), axis=0, return_counts=True)
    if (1 << space.width) * len(people) > MOST_LISTED:
        raise UsageError(f"{space.width} bits are too many to list. Use `disclosure`, which draws instead.")
    prior = counts / counts.sum()
    q = bit_probabilities(space.onehot(people), V, floor, link)
    every = ((np.arange(1 << space.width)[:, None] >> np.arange(space.width)) & 1).astype(np.float64)
    likelihood = np.exp(score_bits(every, q))  # rows of bits x people
    marginal = likelihood @ prior
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = likelihood * prior * np.log2(likelihood / marginal[:, None])
    return _disclosure(float(np.nansum(terms)), 0.0, np.atleast_2d(np.asarray(codes)), space)


def _disclosure(told: float, error: float, people: Codes, space: AnswerSpace) -> Disclosure:
    alone, joint = answer_entropy(people, space), joint_entropy(people)
    return Disclosure(told / alone if alone else 0.0, told, error, told / joint if joint else 0.0)


def sureness(
    answer: ArrayLike,
    space: AnswerSpace,
    V: Matrix,
    floor: float = FLOOR,
    link: Link = "square",
    priors: list[ArrayLike] | None = None,
) -> Matrix:
    """Per question: how sure of the true choice a collector who knows all the *other* answers could become at most.

    With the other answers known only the choices of one question are left. Choice s against s' has the largest
    likelihood ratio L = prod_j max(q_j(s) / q_j(s'), (1 - q_j(s)) / (1 - q_j(s'))), so that the posterior is at most
    1 / (1 + sum over s' of (prior s' / prior s) / L(s, s')). For two choices this is attained; for more it is a bound,
    since one row of bits need not be the worst against all others at once. Without `priors` all choices are alike.
    """
    t = np.asarray(answer, dtype=np.int64)
    out = np.empty(len(space.sizes))
    for question, size in enumerate(space.sizes):
        rows, true = _variants(t, question, size, space)
        one, zero = log_odds(bit_probabilities(space.onehot(rows), V, floor, link))
        log_ratio = np.maximum(one[true] - one, zero[true] - zero).sum(axis=1)  # log L(true, s') for every choice s'
        prior = np.full(len(log_ratio), 1.0) if priors is None else np.asarray(priors[question], dtype=np.float64)
        if prior.shape != (len(log_ratio),) or not (prior >= 0).all() or not prior[true] > 0:
            raise UsageError(f"The prior of question {question + 1} needs a number for each of its choices.")
        others = np.arange(len(prior)) != true
        out[question] = 1 / (1 + (prior[others] / prior[true] * np.exp(-log_ratio[others])).sum())
    return out


def told_by(
    bits: ArrayLike, answer: ArrayLike, space: AnswerSpace, V: Matrix, floor: float = FLOOR, link: Link = "square"
) -> Matrix:
    """Per question: how sure of the true choice these very bits make a collector who knows all the other answers."""
    t = np.asarray(answer, dtype=np.int64)
    R = space.checked(bits).astype(np.float64)
    out = np.empty(len(space.sizes))
    for question, size in enumerate(space.sizes):
        rows, true = _variants(t, question, size, space)
        log = score_bits(R, bit_probabilities(space.onehot(rows), V, floor, link))[0]
        out[question] = 1 / np.exp(log - log[true]).sum()
    return out


def _variants(t: Codes, question: int, size: int, space: AnswerSpace) -> tuple[Codes, int]:
    """The answer with every choice of one question in turn (a blank first, where there may be one)."""
    least = BLANK if space.blank else 0
    rows = np.repeat(t[None], size - least, axis=0)
    rows[:, question] = np.arange(least, size)
    return rows, int(t[question]) - least


def published_error_estimate(sigma_1: float, mu: float, rows: int) -> float:
    """2 mu sigma_1 / m: what Theorem 5.1 calls a bound on the degree of error. An estimate only: it is exceeded.

    On Votes with mu = .025 and order by value the error is .377 where this gives .268 (papers/guided-survey).
    """
    return 2 * mu * abs(sigma_1) / rows


def published_disclosure_estimate(T: ArrayLike, space: AnswerSpace, k: int) -> float:
    """(rho_1^2 + ... + rho_k^2) / (m n): what Theorem 5.2 calls a bound on disclosure. An estimate only.

    `T` are answers as bits (`space.onehot(codes)`), one choice of every question set; choice numbers are refused. Eight
    identical binary questions disclose everything at k = 1, where this gives .54.
    """
    space.codes(T)  # refuses rows that no respondent can have
    bits = space.checked(T).astype(np.float64)
    rho = np.linalg.svd(bits, compute_uv=False)
    return float((rho[:k] ** 2).sum() / (len(bits) * len(space.sizes)))
