"""A regressor that has seen how releases come about."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from sfumato.accepted import Whole
from sfumato.array_types import Codes, Flags, Matrix
from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values
from sfumato.attacks.inversion_ways import FOREST, LINE, RELEASED, USUAL, WAYS, Learned
from sfumato.attacks.simulated_pairs import Pairs, simulated_pairs
from sfumato.attacks.window import half_width
from sfumato.table import Group

FEWEST_PEOPLE = 8
TRUSTED = (RELEASED, LINE, FOREST)
"""Of ways that are right equally often the one that rests on less comes first."""


class LearnedInversion(Attack):
    """The adversary knows the mechanism and its parameters and has people of the same population: it releases these
    people itself, again and again, and learns from the pairs what a released row tells of the row behind it.

    It needs no law of the noise, only a way to draw from it. Two regressors are fitted to the pairs: a line, and a
    forest whose leaves say how a column is spread behind such rows; the guess is the window that holds most of that.
    Every column is guessed in the way that is right most often about people whom the regressor has not seen (each half
    of them by what was learned from the other): by the line, by the forest, as it was released, or by the commonest
    value beside the released label unless another way is better by a standard error, or never wrong. `details` say
    how many people there were, and in how many columns the adversary would rather guess.

    Parameters
    ----------
    trees : int, default=20
        Trees of the forest, from 1 to 1,000.
    """

    name = "learned-inversion"
    reads_gaps = True
    knows = frozenset({"release", "sample"})
    helps = frozenset({"simulator", "noise", "transform", "guided", "labels", "sample_labels"})
    accepts = MappingProxyType({"trees": Whole(1, 1_000)})

    def __init__(self, trees: int = 20) -> None:
        self.trees = trees

    def guess(self, known: Knowledge) -> Guess:
        """Per released row and column, what the best way for the column says."""
        assert known.sample is not None
        if len(known.sample) < FEWEST_PEOPLE:
            return Abstain(f"needs at least {FEWEST_PEOPLE} people to learn from")
        rng = np.random.default_rng(0)  # the adversary's own draws; a guess is a function of what is known
        pairs = simulated_pairs(known, rng)
        ways = self._chosen(known, pairs, rng)
        # A forest that no column is guessed by need not be grown again from all pairs.
        trees = self.trees if (ways == FOREST).any() else 1
        seen = self._learned(known, pairs, trees).seeing(known.release, known.labels)
        out, mean = (np.empty((len(known.release), known.encoding.width)) for _ in range(2))
        for number, group in enumerate(known.encoding.groups):
            out[:, group.slice], mean[:, group.slice] = seen.guess(number, int(ways[number]), known.tolerance)
        details = {f"columns_{way}": float((ways == place).sum()) for place, way in enumerate(WAYS)}
        return Values(mean, details={"simulated_people": float(len(known.sample)), **details}, aimed=out)

    def _learned(self, known: Knowledge, pairs: Pairs, trees: int) -> Learned:
        gaps = bool(np.isnan(known.release).any() or np.isnan(pairs.Z).any())
        return Learned.of(pairs, known.encoding.groups, known.columnwise, gaps, trees)

    def _chosen(self, known: Knowledge, pairs: Pairs, rng: np.random.Generator) -> Codes:
        """The way in which each column is guessed."""
        groups = known.encoding.groups
        people = np.unique(pairs.person)
        half = np.isin(pairs.person, rng.permutation(people)[: len(people) // 2])
        right = np.zeros((len(groups), len(WAYS)))
        for mine in (half, ~half):
            held = pairs.take(np.flatnonzero(mine))
            seen = self._learned(known, pairs.take(np.flatnonzero(~mine)), self.trees).seeing(held.Z, held.labels)
            for number, group in enumerate(groups):
                for way in range(len(WAYS)):
                    guess, _ = seen.guess(number, way, known.tolerance)
                    right[number, way] += _right(group, guess, held.X, known.tolerance).sum()
        right /= len(pairs.X)
        usual, best = right[:, USUAL], right[:, TRUSTED].max(axis=1)
        error = np.sqrt(usual * (1.0 - usual) / len(people))
        # What was never wrong is no luck, however common the usual value is: a copy is read as one.
        better = (best > usual + error) | ((best == 1.0) & (usual < 1.0))
        return np.where(better, np.array(TRUSTED)[right[:, TRUSTED].argmax(axis=1)], USUAL)


def _right(group: Group, guess: Matrix, X: Matrix, tolerance: float) -> Flags:
    """Whether a guess counts as right, as the score has it."""
    truth = X[:, group.slice]
    if group.is_onehot:
        return np.asarray(guess.argmax(axis=1) == truth.argmax(axis=1))
    near = np.abs(guess[:, 0] - truth[:, 0]) <= half_width(group, tolerance)
    if not group.has_indicator:
        return np.asarray(near)
    missing = truth[:, 1] > 0.5
    return np.asarray(np.where(missing, guess[:, 1] > 0.5, near & (guess[:, 1] <= 0.5)))
