"""Naive Bayes for strong noise: class distributions shrunk by empirical Bayes, from counts through the channels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato.channels import Exact, NotApplicableError, Recipe
from sfumato.core.array_types import Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.empirical_bayes import (
    PSEUDO_ROWS,
    STATES,
    ColumnFit,
    Outcomes,
    Seen,
    States,
    choose_prior,
    evidence_of,
    outcomes_of,
    pooled,
    readings,
)
from sfumato.learn.classifiers.reads_noise import AnswersForReleased, Part, recipe_of, softmax
from sfumato.mechanisms import Mechanism

_TINY = 1e-300


class EmpiricalBayesNaiveBayes(AnswersForReleased):
    """Naive Bayes whose class distributions are as simple as the noise demands.

    Every column is read as counts of outcomes by class, and the card says how outcomes come about. The distribution of
    all rows is reconstructed; a class differs from it by a line and a curve in the ranks of a number, by the shares of
    a category. How much a class may differ, and how many columns do at all, is estimated from all columns together, so
    that noise is not taken for signal. Columns that not every row reports, missing cells and randomized labels are
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
            self.evidence_ = evidence_of(columns, prior)
            self.starts_ = [one.start for one in states]
            self.widths_ = [one.width for one in states]
            self.parts_ = [one.parts for one in states]
            self.lows_, self.highs_ = [one.low for one in states], [one.high for one in states]
            self.ratios_: list[Matrix] = []
            self.included_: list[float] = []
            self.pools_: list[Floats] = [column.pool for column in columns]
            for column in columns:
                found = column.distributions(prior)
                if response is not None:
                    found = _unmixed(found, shares, self.class_prior_, response)
                ratio = np.log(np.maximum(found, _TINY)) - np.log(np.maximum(column.pool, _TINY))
                self.included_.append(column.included(prior))
                self.ratios_.append(self.included_[-1] * np.where(column.pool > 0, ratio, 0.0))

    def _readings(self, parts: list[Part]) -> tuple[list[States], list[list[Outcomes]]]:
        recipes = [rows.source for rows in parts if rows.source is not None]
        if not recipes:
            states = [States(j, 1, STATES, *_range(parts, j)) for j in range(parts[0].Z.shape[1])]
            plain = [outcomes_of(Exact(), slice(j, j + 1), one) for j, one in enumerate(states)]
            return states, [plain for _ in parts]
        try:
            states, found = readings(recipes)
        except NotApplicableError as error:
            raise UsageError(f"empirical-bayes-naive-bayes cannot read this release: {error}.") from None
        told = iter(found)
        exact = [outcomes_of(Exact(one.width), slice(one.start, one.start + one.width), one) for one in states]
        return states, [exact if rows.source is None else next(told) for rows in parts]

    def _columns_of(
        self, parts: list[Part], states: list[States], outcomes: list[list[Outcomes]], classes: int
    ) -> list[ColumnFit]:
        seen = [
            [
                Seen(found[place].counts(rows.Z, rows.y, classes), found[place].transition)
                for rows, found in zip(parts, outcomes, strict=True)
            ]
            for place in range(len(states))
        ]
        flat = [_flat(one) for one in states]
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
        scores = np.repeat(np.log(np.maximum(self.class_prior_, _TINY))[None, :], len(rows), axis=0)
        for one, ratios in zip(self._states(), self.ratios_, strict=True):
            found = one.of(rows)
            scores += np.where(found[:, None] >= 0, ratios[:, np.maximum(found, 0)].T, 0.0)
        return softmax(scores)

    def predict_proba_released(self, Z: npt.ArrayLike, source: Recipe | Card | Mechanism) -> Floats:
        """Probabilities for perturbed rows: P(outcome | class) is the class's distribution through the channel."""
        recipe = recipe_of(source)
        assert recipe is not None
        rows = self._queries(Z, gaps=bool(recipe.left_out))
        scores = np.repeat(np.log(np.maximum(self.class_prior_, _TINY))[None, :], len(rows), axis=0)
        states = self._states()
        pairs = zip(recipe.channels, recipe.places, states, self.ratios_, self.pools_, strict=True)
        for channel, place, one, ratios, pool in pairs:
            outcomes = outcomes_of(channel, place, one)
            told = outcomes.transition @ (np.exp(ratios) * pool).T  # outcomes x classes
            told /= np.maximum((outcomes.transition @ pool)[:, None], _TINY)
            found = outcomes.of(rows)
            scores += np.where(found[:, None] >= 0, np.log(np.maximum(told, _TINY))[np.maximum(found, 0)], 0.0)
        return softmax(scores)

    def _states(self) -> list[States]:
        told = zip(self.starts_, self.widths_, self.parts_, self.lows_, self.highs_, strict=True)
        return [States(*one) for one in told]


def _flat(states: States) -> Floats:
    if not states.parts:
        return np.full(states.count, 0.5)
    return np.append(np.full(states.parts, PSEUDO_ROWS / states.parts), np.full(states.count - states.parts, 0.5))


def _range(parts: list[Part], column: int) -> tuple[float, float]:
    low = min(float(rows.Z[:, column].min()) for rows in parts)
    high = max(float(rows.Z[:, column].max()) for rows in parts)
    return low, max(high, low + 1e-12)


def _unmixed(found: Matrix, seen: Floats, true: Floats, response: Matrix) -> Matrix:
    """Distributions of the true classes from those of the reported ones: joint shares, the response undone."""
    joint = np.linalg.solve(response, seen[:, None] * found)
    joint = np.maximum(joint, 0.02 * true[:, None] * (seen @ found)[None, :] + _TINY)
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))
