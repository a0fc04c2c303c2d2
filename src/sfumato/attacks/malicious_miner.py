"""A collector that sends guidance made for reading people instead of learning from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.guidance.guidance import SurveyCounts
from sfumato.channels.guidance.space import FLOOR, AnswerSpace, Link, answer_posteriors, bit_probabilities, perturb_bits
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import UsageError

CERTAIN = 0.999
KINDS = ("unit", "plus-minus", "optimised")


@dataclass(frozen=True)
class Reading:
    """What the collector gets of one question, over many people; lower is safer.

    `identified`: share of people of whose answer it is certain (99.9%) and right. `right`: share whose answer it
    guesses. `baseline`: the same for a guesser who knows only how often each answer occurs. `row_norm`: the longest row
    of the guidance: what a bound on row norms would look at.
    """

    identified: float
    right: float
    baseline: float
    row_norm: float


class MaliciousMiner:
    """The collector chooses the guidance itself, to read one question of everybody [guided-survey, Def. 2].

    Respondents check that V'V = I, and all of these pass. "unit": unit vectors on choices of the question; without a
    floor their bits come back as they are. "plus-minus": plus and minus a on two choices, and for every other question
    one value on all its choices; these add up to a for everybody, so that one answer projects to nothing and any bit
    that is 1 proves the other. The longest row is a, as short as a bound on row norms may ask. "optimised": the better
    of the two, improved by random turns as long as the answers' bits come further apart.

    With a floor none of them is ever certain.
    """

    name: ClassVar[str] = "malicious-miner"

    def __init__(self, kind: str = "unit", question: int = 0, row_norm: float = 0.5, steps: int = 300) -> None:
        if kind not in KINDS:
            raise UsageError(f"The 'kind' of a malicious miner must be one of {', '.join(KINDS)}. Got {kind!r}.")
        self.kind, self.question, self.row_norm, self.steps = kind, question, row_norm, steps

    def guidance(
        self, space: AnswerSpace, people: ArrayLike | None = None, floor: float = FLOOR, link: Link = "square"
    ) -> Matrix:
        """A V that passes all checks of a respondent; `people` (plain answers) are needed to optimise."""
        part = space.slices()[self.question]
        if part.stop - part.start < 2:
            raise UsageError("A question with one choice reveals nothing. Aim at another.")
        if self.kind == "unit":
            return unit_vectors(space, self.question, 1)
        if self.kind == "plus-minus":
            return plus_minus(space, self.question, self.row_norm)
        if people is None:
            raise UsageError("Guidance is optimised on people: give plain answers of a population.")
        some, rng = np.atleast_2d(np.asarray(people))[:300], np.random.default_rng(0)

        def apart(V: Matrix) -> float:
            return separation(V, some, space, self.question, floor, link)

        V = max(unit_vectors(space, self.question, 1), plus_minus(space, self.question, 1.0), key=apart)
        best = apart(V)
        for step in range(self.steps):
            turned = np.linalg.qr(V + 0.5 * 0.99**step * rng.normal(size=V.shape) / math.sqrt(len(V)))[0]
            if (now := apart(turned)) > best:
                V, best = np.ascontiguousarray(turned), now
        return V

    def read(
        self,
        people: ArrayLike,
        space: AnswerSpace,
        floor: float = FLOOR,
        link: Link = "square",
        V: Matrix | None = None,
    ) -> Reading:
        """Send the guidance to everybody, and apply Bayes' rule to the bits that come back.

        The prior is how often whole answers occur among `people`: exact posteriors, of simulated respondents.
        """
        codes = np.atleast_2d(np.asarray(people, dtype=np.int64))
        V = self.guidance(space, codes, floor, link) if V is None else V
        T = space.onehot(codes)
        bits = perturb_bits(T, V, np.random.default_rng(0).random(T.shape), floor, link)
        sure = answer_posteriors(bits, codes, space, V, floor, link)[self.question]
        truth = codes[:, self.question]
        guess = sure.argmax(axis=1)
        usual = np.bincount(truth[truth >= 0], minlength=1).max() / len(truth)
        certain = (sure.max(axis=1) >= CERTAIN) & (guess == truth)
        longest = float(np.sqrt((V**2).sum(axis=1)).max())
        return Reading(float(certain.mean()), float((guess == truth).mean()), float(usual), longest)


def unit_vectors(space: AnswerSpace, question: int, k: int) -> Matrix:
    """k unit vectors: the choices of the question first, then those of the questions after it."""
    part = space.slices()[question]
    order = (part.start + np.arange(space.width)) % space.width
    if not 1 <= k <= space.width:
        raise UsageError(f"The level k must be between 1 and the {space.width} bits of an answer. Got {k!r}.")
    return np.ascontiguousarray(np.eye(space.width)[:, order[:k]])


def plus_minus(space: AnswerSpace, question: int, row_norm: float = 0.5) -> Matrix:
    """One column: +a and -a on two choices of the question, c_q on all choices of every other question q, sum c_q = a.

    t V = a + a for the first choice, 0 for the second. The c_q are a / (n - 1) plus and minus d, with d such that the
    column has length 1, for an even number of questions; the largest a that `row_norm` allows is taken.
    """
    others = [q for q in range(len(space.sizes)) if q != question]
    if not others:
        raise UsageError("Plus and minus needs a second question to hide behind.")
    sizes = np.array([space.sizes[q] for q in others], dtype=np.float64)
    # The least length of the other entries with sum a is a^2 / sum(1 / s_q), at c_q proportional to 1 / s_q.
    weight = 1 / sizes
    a = min(row_norm, 1 / math.sqrt(2 + 1 / weight.sum()))
    c = a * weight / weight.sum()
    missing = 1 - 2 * a**2 - (sizes * c**2).sum()
    if missing > 1e-12:  # lengthen without changing the sum: along a direction that sums to zero
        sign = np.where(np.arange(len(others)) % 2 == 0, 1.0, -1.0)
        turn = sign - sign.mean()
        if not turn.any():
            raise UsageError("With two questions the row norm is fixed: leave it at 1.")
        # sizes . (c + d turn)^2 = wanted: a quadratic in d
        A, B, C = (sizes * turn**2).sum(), 2 * (sizes * c * turn).sum(), -missing
        c = c + (-B + math.sqrt(B**2 - 4 * A * C)) / (2 * A) * turn
    v = np.zeros(space.width)
    part = space.slices()[question]
    v[part.start], v[part.start + 1] = a, -a
    for q, value in zip(others, c, strict=True):
        v[space.slices()[q]] = value
    return np.ascontiguousarray(v[:, None] / np.linalg.norm(v))


def separation(V: Matrix, people: Codes, space: AnswerSpace, question: int, floor: float, link: Link) -> float:
    """How far apart the bits of two answers to the question lie, all else equal: mean Bhattacharyya distance."""
    size, total, told = space.sizes[question], 0.0, []
    for choice in range(size):
        rows = people.copy()
        rows[:, question] = choice
        told.append(bit_probabilities(space.onehot(rows), V, floor, link))
    for place, p in enumerate(told):
        for q in told[:place]:
            overlap = np.sqrt(p * q) + np.sqrt((1 - p) * (1 - q))
            total += float((1 - np.prod(overlap, axis=1)).mean())
    return total / (size * (size - 1) / 2)


@dataclass(frozen=True)
class Watched:
    """What was learned about one victim's sent bits.

    `bits`: the guess, NaN where nothing is known. `certain`: whether it is read, not guessed. `scores`: higher where a
    one is likelier.
    """

    bits: Matrix
    certain: bool
    scores: Matrix


class RogueRespondent:
    """A respondent (not the collector) wants to know what another respondent sent [guided-survey, 4.1].

    The collector publishes guidance, and here also the counts behind it, so that anybody can check it. Between two
    versions the counts grow by the rows of one batch. If that was one row, its bits are the diagonal of the growth. If
    the rogue itself sent all the other rows of the batch under false names (Sybils), it takes them away first.
    A person who sees only the guidance looks at where the directions moved: (I - V V') W has, for one new row r,
    columns along
    (I - V V') r.

    Batches of many honest people stop both. What is read are perturbed bits, and the floor bounds what they say about
    the answers, whoever reads them.
    """

    name: ClassVar[str] = "rogue-respondent"

    def from_counts(
        self, before: SurveyCounts, after: SurveyCounts, own: ArrayLike | None = None, own_labels: ArrayLike = ()
    ) -> Watched:
        """From the published counts of two versions; `own` are the rows that the rogue itself sent in between."""
        mine = SurveyCounts(after.width) if own is None else SurveyCounts.of(own, own_labels, after.width)
        grown = []  # per class, rows of others, and how often each of their bits was 1
        for label in after:
            new = after.rows[label] - before.rows.get(label, 0) - mine.rows.get(label, 0)
            ones = after.ones(label).astype(np.int64)
            for earlier in (before, mine):
                ones = ones - earlier.ones(label) if label in earlier.rows else ones
            if new < 0 or (ones < 0).any():
                raise UsageError("These are not two versions of one survey in order, or your own rows are not in it.")
            grown.append((new, ones))
        rows = sum(n for n, _ in grown)
        if rows < 1:
            raise UsageError("No other person answered between these versions.")
        if rows > 1:
            share = sum((ones for _, ones in grown), np.zeros(after.width)) / rows
            return Watched(np.full(after.width, np.nan), False, share)
        bits = next(ones for n, ones in grown if n == 1).astype(np.float64)
        return Watched(bits, True, bits)

    def from_guidance(self, before: Matrix, after: Matrix) -> Watched:
        """From two versions of V alone: the direction in which the space of the first was left.

        One new row turns every direction towards its own part outside V. The sign is unknown; a row has fewer ones than
        zeros, so that the side with fewer and larger entries (positive skew) is taken.
        """
        outside = after - before @ (before.T @ after)
        left = np.linalg.svd(outside, full_matrices=False)[0][:, 0]
        score = left if (left**3).sum() > 0 else -left
        return Watched((score > 0.5 * score.max()).astype(np.float64), False, score)
