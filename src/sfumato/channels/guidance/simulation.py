"""A whole survey in one process: respondents arrive, wait until the level suits them, and send; batch after batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.guidance.bits import perturb_bits
from sfumato.channels.guidance.disclosure import Disclosure, answer_entropy, joint_entropy
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import AnswerSpace, checked_bits
from sfumato.core.array_types import Bits, Codes
from sfumato.core.errors import TableError, UsageError

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
    prior = {row.tobytes(): share for row, share in zip(space.onehot(people), counts / counts.sum(), strict=True)}
    told = 0.0
    for row in space.onehot(people):
        mine, other = prior[row.tobytes()], prior.get((1 - row).astype(np.uint8).tobytes(), 0.0)
        for chance, against in ((theta, 1 - theta), (1 - theta, theta)):  # sent as it is, or turned over
            if chance > 0:
                told += mine * chance * np.log2(chance / (chance * mine + against * other))
    told = float(told)
    alone, joint = answer_entropy(codes, space), joint_entropy(codes)
    return Disclosure(told / alone if alone else 0.0, told, 0.0, told / joint if joint else 0.0)


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
    rng = np.random.default_rng(seed)
    received, sent = SurveyCounts.empty(space.width), 0
    versions: list[Version] = []
    parts: list[tuple[Codes, Bits, Codes, Codes]] = []
    queue = _Queue(np.full(len(people), space.width) if limits is None else np.asarray(limits, dtype=np.int64))
    while not queue.empty:
        guidance = Guidance.from_counts(received, rules, startup)
        versions.append(Version(sent, guidance))
        who, waited = queue.take(rules.batch, guidance.k)
        if not len(who):
            break  # nobody who is left accepts this level, and nothing will change it any more
        answers = space.onehot(people[who])
        bits = perturb_bits(answers, guidance.V, rng.random(answers.shape), rules.floor, rules.link)
        received += SurveyCounts.of(bits, labels[who])
        number = np.full(len(who), len(versions) - 1)
        parts.append((who, bits if keep_rows else bits[:0], number, waited))
        sent += len(who)
    who, bits, number, waited = (
        (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else _nothing(space)
    )
    return SurveyRun(rules, received, versions, who, bits, labels[who], number, waited, queue.left())


class _Queue:
    """People in the order of their arrival; those who found the level too high wait in front of the newcomers."""

    def __init__(self, limits: Codes):
        self.limits = limits
        self.waiting = np.empty(0, dtype=np.int64)
        self.arrived = 0

    @property
    def empty(self) -> bool:
        return self.arrived == len(self.limits) and not len(self.waiting)

    def take(self, most: int, level: int) -> tuple[Codes, Codes]:
        """The next people who accept `level`, and how many arrived since each of them."""
        willing = self.limits[self.waiting] >= level
        first = self.waiting[willing][:most]
        stay = np.ones(len(self.waiting), dtype=bool)
        stay[np.flatnonzero(willing)[:most]] = False
        since = self.arrived - 1 - first
        self.waiting = self.waiting[stay]
        taken, refused = [first], [self.waiting]
        missing = most - len(first)
        for chunk in self._arrivals(most):
            if not missing:
                break
            accept = np.flatnonzero(self.limits[chunk] >= level)[:missing]
            end = len(chunk) if len(accept) < missing else int(accept[-1]) + 1
            others = np.ones(end, dtype=bool)
            others[accept] = False
            taken.append(chunk[accept])
            refused.append(chunk[:end][others])
            missing -= len(accept)
            self.arrived += end
        self.waiting = np.concatenate(refused)
        who = np.concatenate(taken)
        return who, np.concatenate([since, np.zeros(len(who) - len(first), dtype=np.int64)])

    def _arrivals(self, most: int) -> Iterator[Codes]:
        while self.arrived < len(self.limits):
            yield np.arange(self.arrived, min(self.arrived + 4 * most, len(self.limits)))

    def left(self) -> Codes:
        return np.sort(np.concatenate([self.waiting, np.arange(self.arrived, len(self.limits))]))


def _nothing(space: AnswerSpace) -> tuple[Codes, Bits, Codes, Codes]:
    none = np.empty(0, dtype=np.int64)
    return none, np.empty((0, space.width), dtype=np.uint8), none, none


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
