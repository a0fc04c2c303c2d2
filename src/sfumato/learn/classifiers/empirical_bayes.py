"""Class distributions of a column from counts through a known channel, shrunk as much as the data ask for.

Every class distribution is p_c = pool exp(sum_k a_ck phi_k) / Z with orthonormal functions phi of the pooled
distribution: of a number the first two polynomials of its rank, of a category all contrasts. Before looking,
a_ck ~ N(0, t rho^(k-1)) with probability theta, and 0 otherwise. The three hyperparameters maximise the marginal
likelihood of all columns, in Laplace's approximation: a table with little signal is shrunk to nothing, one with much is
hardly shrunk. The a_ck then follow by a few damped Fisher-scoring steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato.channels import Channel, Exact, NotApplicableError, Recipe, Secret, Staged
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.reads_noise import AnswersForReleased, Part, recipe_of, softmax
from sfumato.mechanisms import Mechanism
from sfumato.table import Group

# One column of a release as counts: what was true in a few states, what was released in a few outcomes.
#
# Whatever the channel, learning from one column comes down to two things: how often each class released each outcome,
# and P(outcome | state), which the card states. Counts add up over blocks and sites, so a learner needs one pass.

STATES = 32
"""Equal parts of a number's range that are told apart."""
WITHIN = 4
"""Places of each part at which the channel is looked at."""
OUTCOMES = 96
_LEAST = 1e-300
BLOCK_ROWS = 1 << 16
RARE = 1e-4
"""Of released numbers, so many may lie beyond the outcomes; they count as the last one."""


@dataclass(frozen=True)
class States:
    """The states of one column: parts of a number's range [low, high] and "missing", or the slots of a category.

    `start`: its first column in the matrix of plain rows. `parts` is 0 for a category.
    """

    start: int
    width: int
    parts: int
    low: float = 0.0
    high: float = 1.0

    @property
    def count(self) -> int:
        return self.parts + (self.width - 1) if self.parts else self.width

    @property
    def can_be_missing(self) -> bool:
        return bool(self.parts) and self.width > 1

    def of(self, X: Matrix) -> Codes:
        """The state of plain rows; -1 for a category that is none of these."""
        if not self.parts:
            slots = X[:, self.start : self.start + self.width]
            known = slots.max(axis=1) > slots.min(axis=1) if self.width > 1 else np.ones(len(X), dtype=bool)
            return np.where(known, slots.argmax(axis=1), -1)
        scaled = (X[:, self.start] - self.low) / (self.high - self.low) * self.parts
        found = np.clip(scaled.astype(np.int64), 0, self.parts - 1)
        if self.can_be_missing:
            found[X[:, self.start + 1] > 0.5] = self.parts
        return found

    def truths(self) -> Matrix:
        """Encoded values that stand for the states; `WITHIN` places of every part, one after the other."""
        if not self.parts:
            return np.eye(self.width)
        share = (np.arange(self.parts * WITHIN) + 0.5) / (self.parts * WITHIN)
        if self.parts < STATES:  # every part holds one value, in its middle
            share = (np.repeat(np.arange(self.parts), WITHIN) + 0.5) / self.parts
        values = np.zeros((len(share), self.width))
        values[:, 0] = self.low + (self.high - self.low) * share
        return np.vstack([values, [[0.5, 1.0]]]) if self.can_be_missing else values

    def averaged(self, over_truths: Matrix) -> Matrix:
        """A matrix over truths, averaged over the places of every part."""
        if not self.parts:
            return over_truths
        cut = self.parts * WITHIN
        parts = over_truths[:, :cut].reshape(len(over_truths), self.parts, WITHIN).mean(axis=2)
        return np.hstack([parts, over_truths[:, cut:]])


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of one channel: cells between `edges` and "reported missing", or the slots of a category.

    `transition`: outcomes x states, columns sum to one.
    """

    place: slice
    edges: Floats
    tells_missing: bool
    transition: Matrix

    def of(self, Z: Matrix) -> Codes:
        """The outcome of released rows; -1 where the column is not reported."""
        cells = Z[:, self.place]
        left_out = np.isnan(cells[:, 0])
        if not len(self.edges):
            found = np.where(left_out[:, None], 0.0, cells).argmax(axis=1)
        else:
            scaled = (cells[:, 0] - self.edges[0]) / (self.edges[1] - self.edges[0])
            found = np.clip(np.where(left_out, 0.0, scaled), 0, len(self.edges) - 2).astype(np.int64)
            if self.tells_missing:
                found[cells[:, 1] > 0.5] = len(self.edges) - 1
        return np.where(left_out, -1, found)

    def counts(self, Z: Matrix, y: Codes, classes: int) -> Floats:
        """How many rows of each class have each outcome, counted block by block."""
        size = len(self.transition)
        total = np.zeros(classes * size, dtype=np.int64)
        for start in range(0, len(Z), BLOCK_ROWS):
            found = self.of(Z[start : start + BLOCK_ROWS])
            told = found >= 0
            total += np.bincount(y[start : start + BLOCK_ROWS][told] * size + found[told], minlength=classes * size)
        return total.reshape(classes, size).astype(float)


def outcomes_of(
    channel: Channel, place: slice, states: States, given: Callable[[Floats], Floats] | None = None
) -> Outcomes:
    """What a channel makes of the states; refused in words where its law is not stated.

    `given`: what a number becomes before it enters the channel; as it is, if None.
    """
    truths = states.truths()
    if given is not None and states.parts:
        truths[:, 0] = given(truths[:, 0])
    if not states.parts:
        told = np.exp(channel.log_likelihood(np.eye(states.width), truths))
        return Outcomes(place, np.zeros(0), False, _normalised(states.averaged(told)))
    wide = channel.is_exact or states.parts == STATES
    first, last = (states.low, states.high) if wide else (truths[:, 0].min(), truths[:, 0].max())
    reach = channel.reach(float(first), float(last), RARE)
    span = states.high - states.low
    low, high = (max(reach.low, states.low - 3 * span), min(reach.high, states.high + 3 * span))
    if not high > low:
        low, high = states.low - 1e-9, states.high + 1e-9
    tells_missing = states.can_be_missing and not channel.hides_missing
    if channel.is_exact:
        return Outcomes(place, np.linspace(low, high, states.parts + 1), tells_missing, np.eye(states.count))
    edges = np.linspace(low, high, OUTCOMES + 1)
    table = channel.transition(edges, truths)
    if tells_missing:
        table = np.vstack([table, np.exp(channel.log_likelihood(np.array([[0.5, 1.0]]), truths))])
    return Outcomes(place, edges, tells_missing, _normalised(states.averaged(table)))


def lines_of(table: Matrix, codes: Codes, otherwise: float) -> Matrix:
    """The line of every code; something else throughout where there is none (-1)."""
    return np.where(codes[:, None] >= 0, table[np.maximum(codes, 0)], otherwise)


def _normalised(table: Matrix) -> Matrix:
    return np.asarray(table / np.maximum(table.sum(axis=0, keepdims=True), _LEAST))


def states_of(recipe: Recipe) -> list[States]:
    """The states of every column of a release, or of every component of one that mixes columns."""
    if isinstance(recipe.map, Secret) or recipe.by_class:
        raise NotApplicableError("its map is a secret key, or its noise differs by class")
    if recipe.is_columnwise:
        return [states_of_group(group) for group in recipe.encoding.groups]
    if isinstance(recipe.map, Staged):
        raise NotApplicableError("its rows were released in stages; train private-discriminant, or auto, on it")
    if recipe.map.affine() is None or not all(channel.numbers for channel in recipe.channels):
        raise NotApplicableError("its columns are answers of a survey, not numbers with noise of a known law")
    low, high = recipe.map.ranges(recipe.encoding, 0.0)
    return [States(j, 1, STATES, float(low[j]), float(max(high[j], low[j] + 1e-12))) for j in range(recipe.width)]


def states_of_group(group: Group) -> States:
    """The states of one source column."""
    if group.is_onehot:
        return States(group.start, group.width, 0)
    if group.is_constant:
        return States(group.start, group.width, 1)
    levels = group.levels or STATES
    edge = 0.5 / (levels - 1) if levels < STATES else 0.0  # parts that hold one value each, in their middle
    return States(group.start, group.width, min(levels, STATES), 0.0 - edge, 1.0 + edge)


SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
DECAYS = (0.1, 0.3, 1.0)
SHARES = (0.1, 0.3, 1.0)
PSEUDO_ROWS = 16.0
"""Weight of the average column in every pooled distribution of a number."""
_EM, _STEPS, _DAMPING, _TINY = 200, 6, 0.7, 1e-12


class Seen(NamedTuple):
    """Counts (classes x outcomes) of one column in one part, and the transition (outcomes x states)."""

    counts: Matrix
    transition: Matrix


class Prior(NamedTuple):
    """Spread of the first coefficient, decay of the second, share of columns that differ between classes."""

    spread: float
    decay: float
    share: float


def pooled(seen: Sequence[Seen], prior: Floats) -> Floats:
    """The distribution of all classes together: expectation-maximization with so many rows of `prior` beforehand."""
    p: Floats = prior / prior.sum()
    totals = [(one.counts.sum(axis=0), one.transition) for one in seen]
    for _ in range(_EM):
        new = prior.copy()
        for counts, transition in totals:
            new += p * (transition.T @ (counts / np.maximum(transition @ p, _TINY)))
        new /= new.sum()
        if np.abs(new - p).sum() < 1e-7:
            return np.asarray(new)
        p = new
    return p


def functions(pool: Floats, parts: int) -> Matrix:
    """Orthonormal functions (states x k) under the pooled distribution; the constant is left out.

    `parts`: so many states are parts of a number's range; a further one says "missing". 0: a category.
    """
    if not parts:
        raw = np.eye(len(pool))[:, np.argsort(-pool, kind="stable")[:-1]]
    else:
        rank = np.cumsum(pool[:parts]) - pool[:parts] / 2.0
        rank = np.append(rank, np.full(len(pool) - parts, rank @ pool[:parts] / max(pool[:parts].sum(), _TINY)))
        raw = np.column_stack([rank, rank**2, *(np.eye(len(pool))[parts:])])
    found: list[Floats] = [np.ones(len(pool))]
    for left in raw.T.astype(np.float64):
        for one in (*found, *found):  # twice is enough
            left = left - (pool @ (left * one)) * one
        norm = math.sqrt(float(pool @ left**2))
        if norm > 1e-6:
            found.append(left / norm)
    return np.column_stack(found[1:]) if len(found) > 1 else np.zeros((len(pool), 0))


@dataclass(frozen=True)
class ColumnFit:
    """One column: its pooled distribution, its functions, and what the counts say about each class near the pool.

    `score` (classes x k) and `information` (classes x k x k) are those of the coefficients at 0.
    """

    seen: tuple[Seen, ...]
    pool: Floats
    phi: Matrix
    score: Matrix
    information: Floats
    of_number: bool

    @classmethod
    def of(cls, seen: Sequence[Seen], pool: Floats, parts: int) -> ColumnFit:
        phi = functions(pool, parts)
        classes, k = len(seen[0].counts), phi.shape[1]
        score, information = np.zeros((classes, k)), np.zeros((classes, k, k))
        for one in seen:
            q = one.transition @ pool
            expected = (one.transition @ (pool[:, None] * phi)) / np.maximum(q, _TINY)[:, None]
            rows = one.counts.sum(axis=1)
            score += (one.counts - rows[:, None] * q) @ expected
            information += rows[:, None, None] * np.einsum("o,ok,ol->kl", q, expected, expected)
        return cls(tuple(seen), pool, phi, score, information, parts > 0)

    def variances(self, prior: Prior) -> Floats:
        """Of the coefficients: the decay is for polynomials, contrasts of categories are all alike."""
        decays = prior.decay ** np.minimum(np.arange(self.phi.shape[1]), 1.0) if self.of_number else 1.0
        return np.broadcast_to(prior.spread * decays, self.phi.shape[1])

    def evidence(self, prior: Prior) -> float:
        """Log marginal likelihood ratio of "differs between classes" to "does not"."""
        if not self.phi.shape[1]:
            return 0.0
        variance, classes = self.variances(prior), len(self.score)
        root = np.sqrt(variance)
        scaled = root[None, :, None] * self.information * root[None, None, :] + np.eye(len(root))
        explained = np.linalg.solve(scaled, (self.score * root)[:, :, None])[:, :, 0]
        found = 0.5 * float(((self.score * root) * explained).sum()) - 0.5 * float(np.linalg.slogdet(scaled)[1].sum())
        return found * (classes - 1) / classes  # deviations of the classes sum to zero

    def included(self, prior: Prior) -> float:
        """Posterior probability that the column differs between classes."""
        odds = self.evidence(prior) + math.log(prior.share) - math.log1p(-prior.share) if prior.share < 1 else math.inf
        return 1.0 / (1.0 + math.exp(-min(odds, 700.0))) if odds > -700 else 0.0

    def coefficients(self, prior: Prior) -> Matrix:
        """Damped Fisher scoring through the channel, every class on its own."""
        classes, k = self.score.shape
        found, penalty = np.zeros((classes, k)), 1.0 / self.variances(prior)
        for code in range(classes):
            a = np.zeros(k)
            for _ in range(_STEPS):
                p = self._tilted(a)
                centred = self.phi - p @ self.phi
                gradient, fisher = -penalty * a, np.diag(penalty).astype(np.float64)
                for one in self.seen:
                    q = np.maximum(one.transition @ p, _TINY)
                    slope = one.transition @ (p[:, None] * centred)
                    gradient += slope.T @ (one.counts[code] / q)
                    fisher += float(one.counts[code].sum()) * (slope.T @ (slope / q[:, None]))
                a = np.clip(a + _DAMPING * np.linalg.solve(fisher, gradient), -6.0, 6.0)
            found[code] = a
        return found

    def _tilted(self, a: Floats) -> Floats:
        weights = np.log(np.maximum(self.pool, _LEAST)) + self.phi @ a
        weights = np.exp(weights - weights.max())
        return np.asarray(weights / weights.sum())

    def distributions(self, prior: Prior) -> Matrix:
        """P(state | class), classes x states."""
        return np.array([self._tilted(a) for a in self.coefficients(prior)])


def choose_prior(columns: Sequence[ColumnFit]) -> Prior:
    """The hyperparameters of the largest marginal likelihood, with a weak preference for a spread of .3."""
    best, chosen = -math.inf, Prior(0.3, 0.3, 1.0)
    for spread, decay in itertools.product(SPREADS, DECAYS):
        found = np.array([column.evidence(Prior(spread, decay, 1.0)) for column in columns])
        for share in SHARES:
            total = _together(found, share) - 0.7 * math.log(spread / 0.3) ** 2 + math.log(share)
            if total > best:
                best, chosen = total, Prior(spread, decay, share)
    return chosen


def _together(found: Floats, share: float) -> float:
    """Log marginal likelihood ratio of "some columns differ between classes" to "none does"."""
    none = math.log(1.0 - share) if share < 1.0 else -math.inf
    return float(np.logaddexp(math.log(share) + found, none).sum())


# Naive Bayes for strong noise: class distributions shrunk by empirical Bayes, from counts through the channels.


class EmpiricalBayesNaiveBayes(AnswersForReleased):
    """Naive Bayes whose class distributions are as simple as the noise demands.

    How much a class may differ from all rows, and how many columns do at all, is estimated from all columns together,
    so that noise is not taken for signal. Columns that not every row reports, missing cells and randomized labels are
    taken in.

    Attributes
    ----------
    classes_, class_prior_ : labels, and their shares (before randomization).
    spread_, decay_, share_ : how much classes differ, how much less in the curve, and in how many columns.
    evidence_ : log marginal likelihood ratio of "classes differ" to "they do not".
    """

    corrects_labels = True

    def _train(self, parts: list[Part]) -> None:
        """Count and estimate."""
        k = len(self.classes_)
        shares, response = self._set_prior(parts)
        states, outcomes = self._readings(parts)
        with threadpool_limits(1, user_api="blas"):
            columns = self._columns_of(parts, states, outcomes, k)
            prior = choose_prior(columns)
            self.spread_, self.decay_, self.share_ = prior
            self.evidence_ = _together(np.array([column.evidence(prior) for column in columns]), prior.share)
            fields = ("start", "width", "parts", "low", "high")  # plain lists, which a model file can hold
            self.starts_, self.widths_, self.parts_, self.lows_, self.highs_ = (
                [getattr(one, name) for one in states] for name in fields
            )
            self.pools_: list[Floats] = [column.pool for column in columns]
            self.included_: list[float] = [column.included(prior) for column in columns]
            self.ratios_: list[Matrix] = []
            for column, included in zip(columns, self.included_, strict=True):
                found = column.distributions(prior)
                if response is not None:
                    found = _unmixed(found, shares, self.class_prior_, response)
                ratio = np.log(np.maximum(found, _LEAST)) - np.log(np.maximum(column.pool, _LEAST))
                self.ratios_.append(included * np.where(column.pool > 0, ratio, 0.0))

    def _readings(self, parts: list[Part]) -> tuple[list[States], list[list[Outcomes]]]:
        recipes = [rows.source for rows in parts if rows.source is not None]
        if not recipes:
            low = np.min([rows.Z.min(axis=0) for rows in parts], axis=0)
            high = np.maximum(np.max([rows.Z.max(axis=0) for rows in parts], axis=0), low + 1e-12)
            ranges = zip(low.tolist(), high.tolist(), strict=True)
            states = [States(place, 1, STATES, *ends) for place, ends in enumerate(ranges)]
            return states, [_outcomes(None, states)] * len(parts)
        try:
            states = states_of(recipes[0])
            if any(states_of(recipe) != states for recipe in recipes):
                raise UsageError(
                    "The releases have different columns or ranges, so they cannot be learned from together."
                )
            return states, [_outcomes(rows.source, states) for rows in parts]
        except NotApplicableError as error:
            raise UsageError(f"empirical-bayes-naive-bayes cannot read this release: {error}.") from None

    def _columns_of(
        self, parts: list[Part], states: list[States], outcomes: list[list[Outcomes]], classes: int
    ) -> list[ColumnFit]:
        seen = [
            [Seen(one.counts(rows.Z, rows.y, classes), one.transition) for rows, one in zip(parts, column, strict=True)]
            for column in zip(*outcomes, strict=True)
        ]
        flat = [
            np.append(np.full(one.parts, PSEUDO_ROWS / max(one.parts, 1)), np.full(one.count - one.parts, 0.5))
            for one in states
        ]
        pools = [pooled(column, weight) for column, weight in zip(seen, flat, strict=True)]
        usual = [pool[: one.parts] for pool, one in zip(pools, states, strict=True) if one.parts == STATES]
        average = np.mean(usual, axis=0) if usual else np.ones(STATES) / STATES
        fits = []
        for column, one, weight in zip(seen, states, flat, strict=True):
            if one.parts == STATES:
                weight = np.append(PSEUDO_ROWS * average / average.sum(), weight[STATES:])
            fits.append(ColumnFit.of(column, pooled(column, weight + 1e-6), one.parts))
        return fits

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes of plain rows; a category that was never seen speaks for no class."""
        rows = self._queries(X)
        scores = self._prior_scores(len(rows))
        for one, ratios in zip(self._states(), self.ratios_, strict=True):
            scores += lines_of(ratios.T, one.of(rows), 0.0)
        return softmax(scores)

    def predict_proba_released(self, Z: npt.ArrayLike, source: Recipe | Card | Mechanism) -> Floats:
        """Probabilities for perturbed rows: P(outcome | class) is the class's distribution through the channel."""
        recipe = recipe_of(source)
        assert recipe is not None
        rows = self._queries(Z, gaps=bool(recipe.left_out))
        scores = self._prior_scores(len(rows))
        pairs = zip(recipe.channels, recipe.places, self._states(), self.ratios_, self.pools_, strict=True)
        for channel, place, one, ratios, pool in pairs:
            outcomes = outcomes_of(channel, place, one)
            told = outcomes.transition @ (np.exp(ratios) * pool).T  # outcomes x classes
            told = np.log(np.maximum(told / np.maximum((outcomes.transition @ pool)[:, None], _LEAST), _LEAST))
            scores += lines_of(told, outcomes.of(rows), 0.0)
        return softmax(scores)

    def _states(self) -> list[States]:
        told = zip(self.starts_, self.widths_, self.parts_, self.lows_, self.highs_, strict=True)
        return [States(*one) for one in told]


def _outcomes(recipe: Recipe | None, states: Sequence[States]) -> list[Outcomes]:
    """What channels make of every column; without a recipe, of rows as they are."""
    if recipe is None:
        return [outcomes_of(Exact(one.width), slice(one.start, one.start + one.width), one) for one in states]
    return [outcomes_of(*one) for one in zip(recipe.channels, recipe.places, states, strict=True)]


def _unmixed(found: Matrix, seen: Floats, true: Floats, response: Matrix) -> Matrix:
    """Distributions of the true classes from those of the reported ones: joint shares, the response undone."""
    joint = np.linalg.solve(response, seen[:, None] * found)
    joint = np.maximum(joint, 0.02 * true[:, None] * (seen @ found)[None, :] + _LEAST)
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))
