"""How much of the answers the sent bits give away: as a share of their entropy, and answer by answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import (
    BLANK,
    FLOOR,
    IMPOSSIBLE,
    AnswerSpace,
    Link,
    bit_probabilities,
    checked_bits,
    perturb_bits,
    score_bits,
)
from sfumato.core.array_types import Bits, Codes, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.table.neighbours.tiles import slices

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
    for some in slices(draws, 500):
        mine = who[some]
        log = score_bits((rng.random((len(mine), space.width)) < q[mine]).astype(np.float64), q)
        gains[some] = (log[np.arange(len(mine)), mine] - log_mean(log)) / math.log(2)
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
    found = []
    for question, (q, true) in enumerate(_variants(answer, space, V, floor, link)):
        one, zero = np.log(np.maximum(q, IMPOSSIBLE)), np.log(np.maximum(1.0 - q, IMPOSSIBLE))
        log_ratio = np.maximum(one[true] - one, zero[true] - zero).sum(axis=1)  # log L(true, s') for every choice s'
        prior = np.ones(len(log_ratio)) if priors is None else np.asarray(priors[question], dtype=np.float64)
        if prior.shape != (len(log_ratio),) or not (prior >= 0).all() or not prior[true] > 0:
            raise UsageError(f"The prior of question {question + 1} needs a number for each of its choices.")
        others = np.arange(len(prior)) != true
        found.append(1 / (1 + (prior[others] / prior[true] * np.exp(-log_ratio[others])).sum()))
    return np.array(found)


def told_by(
    bits: ArrayLike, answer: ArrayLike, space: AnswerSpace, V: Matrix, floor: float = FLOOR, link: Link = "square"
) -> Matrix:
    """Per question: how sure of the true choice these very bits make a collector who knows all the other answers."""
    R = space.checked(bits).astype(np.float64)
    logs = ((score_bits(R, q)[0], true) for q, true in _variants(answer, space, V, floor, link))
    return np.array([1 / np.exp(log - log[true]).sum() for log, true in logs])


def _variants(
    answer: ArrayLike, space: AnswerSpace, V: Matrix, floor: float, link: Link
) -> Iterator[tuple[Matrix, int]]:
    """Per question, bit probabilities with each of its choices in turn (a blank first, where there may be one), and the
    place of the true one."""
    t, least = np.asarray(answer, dtype=np.int64), BLANK if space.blank else 0
    for question, size in enumerate(space.sizes):
        rows = np.repeat(t[None], size - least, axis=0)
        rows[:, question] = np.arange(least, size)
        yield bit_probabilities(space.onehot(rows), V, floor, link), int(t[question]) - least


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


# Whole-tuple response, the older scheme that the guided survey is compared with [guided-survey, Eq. 2].
#
# A respondent sends the whole answer t as it is with probability theta, and else its complement: every bit turned over.
# One coin decides for all questions, so that a row tells t but for one bit of doubt, however many questions there are.
# No other answer can give the same row (but the complement itself, where all questions are binary), so that the
# likelihood ratio has no bound: with more than one question there is no epsilon. It is a baseline, not a protection.
THETA = 0.7


def whole_tuple_response(t: ArrayLike, uniforms: ArrayLike, theta: float = THETA) -> Bits:
    """The rows that are sent: t where the row's uniform number is below `theta`, else every bit turned over.

    >>> whole_tuple_response([[1, 0, 0, 1], [0, 1, 0, 1]], [0.2, 0.9])
    array([[1, 0, 0, 1],
           [1, 0, 1, 0]], dtype=uint8)
    """
    _check(theta)
    rows = checked_bits(t, np.atleast_2d(np.asarray(t)).shape[1])
    drawn = np.asarray(uniforms, dtype=np.float64)
    if drawn.shape != (len(rows),):
        raise UsageError(f"Every row needs one uniform number: {len(rows)} are needed, {drawn.size} were given.")
    return np.asarray(np.where((drawn < theta)[:, None], rows, 1 - rows), dtype=np.uint8)


def whole_tuple_disclosure(codes: ArrayLike, space: AnswerSpace, theta: float = THETA) -> Disclosure:
    """I(t; R) of people like `codes`, exactly: what is left in doubt is only whether the row or its complement is true.

    >>> people = [[0, 0], [1, 1], [0, 1], [1, 0]]
    >>> round(whole_tuple_disclosure(people, AnswerSpace((2, 2)), 0.5).bits, 6)
    1.0
    """
    _check(theta)
    people, counts = np.unique(np.atleast_2d(np.asarray(codes)), axis=0, return_counts=True)
    rows, told = space.onehot(people), 0.0
    prior = {row.tobytes(): share for row, share in zip(rows, counts / counts.sum(), strict=True)}
    for row in rows:
        mine, other = prior[row.tobytes()], prior.get((1 - row).astype(np.uint8).tobytes(), 0.0)
        for chance, against in ((theta, 1 - theta), (1 - theta, theta)):  # sent as it is, or turned over
            if chance > 0:
                told += mine * chance * np.log2(chance / (chance * mine + against * other))
    return _disclosure(float(told), 0.0, np.asarray(codes), space)


def _check(theta: float) -> None:
    if isinstance(theta, bool) or not isinstance(theta, int | float | np.floating) or not 0.5 <= theta <= 1:
        raise UsageError(f"The 'theta' parameter must be a number from 0.5 to 1. Got {theta!r} instead.")


PUBLIC = (0.17, 0.56, 0.27)
"""Shares of fundamentalists, pragmatists and people who hardly mind [guided-survey, 2.2]."""


class Version(NamedTuple):
    """One version of the guidance: it was computed after `received` answers and had level k*."""

    received: int
    guidance: Guidance


@dataclass(frozen=True)
class SurveyRun:
    """What came of a simulated survey.

    `who`: of each sent row its respondent's number, in the order of sending; `bits`, `y`: what was received (bits is
    empty when rows were not kept). `version`: number of the guidance each row was perturbed with. `waited`: of each
    row, how many people arrived between its respondent and its sending. `never`: respondents whose limit was never met.
    """

    rules: SurveyRules
    counts: SurveyCounts
    versions: list[Version]
    who: Codes
    bits: Bits
    y: Codes
    version: Codes
    waited: Codes
    never: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def levels(self) -> Codes:
        """k* of every version."""
        return np.array([version.guidance.k for version in self.versions])


def simulate(
    codes: ArrayLike,
    y: ArrayLike,
    space: AnswerSpace,
    rules: SurveyRules | None = None,
    *,
    limits: ArrayLike | None = None,
    startup: SurveyCounts | None = None,
    seed: int = 0,
    keep_rows: bool = True,
) -> SurveyRun:
    """Run a survey on plain answers (m x questions), arriving in this order, with class codes `y`.

    `limits` are the respondents' largest acceptable levels k_i (None: everybody accepts every level). Whoever finds
    k* above it asks again at every new version, and those who waited send first. A version lasts until `batch` rows
    have been sent. The noise of a simulation comes from a seed: it is no release.
    """
    people, labels = np.atleast_2d(np.asarray(codes)), np.asarray(y, dtype=np.int64)
    rules = rules or SurveyRules()
    if labels.shape != (len(people),):
        raise TableError("Every respondent needs one class code.")
    if rules.batch < 1:
        raise UsageError(f"The 'batch' parameter must be at least 1. Got {rules.batch!r} instead.")
    rng, received = np.random.default_rng(seed), SurveyCounts(space.width)
    versions: list[Version] = []
    none = np.empty(0, dtype=np.int64)
    parts: list[tuple[Codes, Bits, Codes, Codes]] = [(none, np.empty((0, space.width), dtype=np.uint8), none, none)]
    queue = _Queue(np.full(len(people), space.width) if limits is None else np.asarray(limits, dtype=np.int64))
    while queue.arrived < len(people) or len(queue.waiting):
        guidance = Guidance.from_counts(received, rules, startup)
        versions.append(Version(received.n, guidance))
        who, waited = queue.take(rules.batch, guidance.k)
        if not len(who):
            break  # no one who is left accepts this level, and nothing will change it any more
        answers = space.onehot(people[who])
        bits = perturb_bits(answers, guidance.V, rng.random(answers.shape), rules.floor, rules.link)
        received += SurveyCounts.of(bits, labels[who])
        number = np.full(len(who), len(versions) - 1)
        parts.append((who, bits if keep_rows else bits[:0], number, waited))
    who, bits, number, waited = (np.concatenate(column) for column in zip(*parts, strict=True))
    never = np.sort(np.concatenate([queue.waiting, np.arange(queue.arrived, len(people))]))
    return SurveyRun(rules, received, versions, who, bits, labels[who], number, waited, never)


class _Queue:
    """People in the order of their arrival; those who found the level too high wait in front of the newcomers."""

    def __init__(self, limits: Codes):
        self.limits = limits
        self.waiting = np.empty(0, dtype=np.int64)
        self.arrived = 0

    def take(self, most: int, level: int) -> tuple[Codes, Codes]:
        """The next people who accept `level`, and how many arrived since each of them."""
        willing = np.flatnonzero(self.limits[self.waiting] >= level)[:most]
        first = self.waiting[willing]
        since = self.arrived - 1 - first
        taken, refused = [first], [np.delete(self.waiting, willing)]
        missing = most - len(first)
        while missing and self.arrived < len(self.limits):
            chunk = np.arange(self.arrived, min(self.arrived + 4 * most, len(self.limits)))
            accept = np.flatnonzero(self.limits[chunk] >= level)[:missing]
            end = len(chunk) if len(accept) < missing else int(accept[-1]) + 1
            taken.append(chunk[accept])
            refused.append(np.delete(chunk[:end], accept))
            missing -= len(accept)
            self.arrived += end
        self.waiting, who = np.concatenate(refused), np.concatenate(taken)
        return who, np.concatenate([since, np.zeros(len(who) - len(first), dtype=np.int64)])


def mixed_limits(
    count: int,
    width: int,
    *,
    shares: tuple[float, float, float] = PUBLIC,
    levels: tuple[int, int] = (1, 4),
    seed: int = 0,
) -> Codes:
    """Limits k_i of a mixed public: fundamentalists accept `levels[0]`, pragmatists `levels[1]`, the rest any level."""
    kinds = np.random.default_rng(seed).choice(3, size=count, p=shares)
    return np.array([levels[0], levels[1], width])[kinds]


def random_startup(space: AnswerSpace, classes: int, rows: int | None = None, seed: int = 0) -> SurveyCounts:
    """Start-up rows that tell nothing: random answers with random classes, as many as there are questions [4.1]."""
    rng = np.random.default_rng(seed)
    number = len(space.sizes) if rows is None else rows
    codes = np.column_stack([rng.integers(0, size, number) for size in space.sizes])
    return SurveyCounts.of(space.onehot(codes), np.arange(number) % classes)
