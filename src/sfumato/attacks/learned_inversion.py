"""A regressor that has seen how releases come about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sfumato.attacks.base import NEEDS_MAP, Abstain, Attack, Guess, Knowledge, Simulated, Values, promised
from sfumato.attacks.column_beliefs import best_guess
from sfumato.attacks.likelihood import into_domain, released
from sfumato.attacks.metrics.privacy import learned
from sfumato.attacks.support import Support
from sfumato.channels import NotApplicableError
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.mechanisms.parameters import parameter
from sfumato.table import Group

MOST_PAIRS, FEWEST_PAIRS = 6_000, 1_000
MOST_CELLS = 300_000
"""Pairs times columns, beyond which fewer pairs are made."""
MOST_TIMES = 8
"""How often one person is released: more of them add no people."""


@dataclass(frozen=True)
class Pairs:
    """`Z`: released rows; `labels`: released beside them; `X`: the rows behind; `person`: whose they are."""

    Z: Matrix
    labels: Codes | None
    X: Matrix
    person: Codes

    def take(self, rows: Flags) -> Pairs:
        """Some of them."""
        labels = None if self.labels is None else self.labels[rows]
        return Pairs(self.Z[rows], labels, self.X[rows], self.person[rows])


def simulated_pairs(known: Knowledge, rng: np.random.Generator) -> Pairs:
    """Release the people of the sample as often as it takes; reads `sample`, `sample_labels` and how rows are made."""
    X, y = np.asarray(promised(known.sample), dtype=np.float64), known.sample_labels
    if len(X) > MOST_PAIRS:
        some = np.sort(rng.choice(len(X), size=MOST_PAIRS, replace=False))
        X, y = X[some], None if y is None else y[some]
    wanted = max(FEWEST_PAIRS, min(MOST_PAIRS, MOST_CELLS // max(X.shape[1] + known.release.shape[1], 1)))
    parts = [_released(known, X, y, rng) for _ in range(min(MOST_TIMES, -(-wanted // len(X))))]
    person = np.concatenate([part.source for part in parts])
    labels = None
    if known.labels is not None and all(part.labels is not None for part in parts):
        # As they are released: randomized response keeps one, or says any other class, each as likely.
        labels = np.concatenate([part.labels for part in parts if part.labels is not None])
        classes = max(len(known.encoding.classes), 2)
        moved = (labels + rng.integers(1, classes, size=len(labels))) % classes
        labels = np.where(rng.random(len(labels)) < known.label_keep, labels, moved)
    return Pairs(np.vstack([part.Z for part in parts]), labels, X[person], person)


def _released(known: Knowledge, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Simulated:
    """As the mechanism would; where only its channels are known, as they would."""
    if known.simulator is not None:
        return known.simulator(X, y, rng)
    noise = known.noise
    if noise is None or not all(channel.is_stated for channel in noise.channels):
        raise NotApplicableError("needs to know how the release was made, and its card does not say")
    if not known.columnwise and known.transform is None and known.guided is None:
        raise NotApplicableError(NEEDS_MAP)
    return Simulated(released(known, noise, X, rng), y, np.arange(len(X)))


USUAL, LINE, RELEASED, FOREST = range(4)
WAYS = ("usual", "linear", "released", "forest")
LEAST_IN_LEAF = 10
MOST_TRIED = 20
"""Features tried for a split, and directions in which leaves are to differ little: a wide table takes no longer."""
RIDGE = 1e-6
"""Of the mean square of every feature: so little that a map without noise is inverted exactly."""


Guesses = Callable[[int, int], tuple[Matrix, Matrix]]


class Learned:
    """A line and a forest, and what is usual beside every released label."""

    def __init__(self, pairs: Pairs, known: Knowledge, trees: int) -> None:
        from sklearn.ensemble import ExtraTreesRegressor

        self.pairs, self.known = pairs, known
        self.codes = np.empty(0, dtype=np.int64) if pairs.labels is None else np.unique(pairs.labels)
        shown = ~np.isnan(pairs.Z)
        self.gaps = bool(np.isnan(known.release).any() or not shown.all())
        self.filled = np.where(shown, pairs.Z, 0.0).sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
        F = self._features(pairs.Z, pairs.labels)
        scale = F.std(axis=0)
        self.centre, self.scale = F.mean(axis=0), np.where(scale > 1e-12, scale, 1.0)
        S = np.column_stack([(F - self.centre) / self.scale, np.ones(len(F))])
        self.weights = np.linalg.solve(S.T @ S + RIDGE * len(S) * np.eye(S.shape[1]), S.T @ pairs.X)
        seen, directions = np.hstack([F, S @ self.weights]), pairs.X
        if directions.shape[1] > MOST_TRIED:  # leaves are to hold principal components alike
            centred = directions - directions.mean(axis=0)
            directions = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -MOST_TRIED:]
        self.forest = ExtraTreesRegressor(
            n_estimators=trees,
            min_samples_leaf=LEAST_IN_LEAF,
            max_features=min(MOST_TRIED, seen.shape[1]),
            random_state=0,
            n_jobs=1,
        ).fit(seen, directions)
        self.starts = np.concatenate([[0], np.cumsum([tree.tree_.node_count for tree in self.forest.estimators_])])
        self.leaves = self.forest.apply(seen) + self.starts[:-1]

    def _features(self, Z: Matrix, labels: Codes | None) -> Matrix:
        """Released cells, which of them are not reported, and the label."""
        shown = ~np.isnan(Z)
        parts = [np.where(shown, Z, self.filled)]
        if self.gaps:
            parts.append((~shown).astype(np.float64))
        if labels is not None:
            parts.append((labels[:, None] == self.codes).astype(np.float64))
        return np.hstack(parts)

    def reading(self, Z: Matrix, labels: Codes | None) -> Guesses:
        """Of these rows, by the number of a column and a way: the guess that is best for the score, and the mean."""
        F = self._features(Z, labels)
        line = np.column_stack([(F - self.centre) / self.scale, np.ones(len(F))]) @ self.weights
        nodes, width = self.forest.apply(np.hstack([F, line])) + self.starts[:-1], int(self.starts[-1])
        sizes = np.maximum(np.bincount(self.leaves.ravel(), minlength=width), 1) * len(self.forest.estimators_)
        at, reached = _ones(nodes, width), _ones(self.leaves, width).T.tocsr()

        def guess(number: int, way: int) -> tuple[Matrix, Matrix]:
            group = self.known.encoding.groups[number]
            if way in (RELEASED, LINE):
                mean = line[:, group.slice]
                if way == RELEASED and self.known.columnwise:
                    mean = np.where(np.isnan(Z), self.filled, Z)[:, group.slice]
                return _settled(group, into_domain(mean)), into_domain(mean)
            support = Support.of_group(group)
            places = support.places(self.pairs.X[:, group.slice])
            belief = self._usual(places, len(support.values), labels, len(Z))
            if way == FOREST:
                truth = np.zeros((len(places), len(support.values)), dtype=np.float32)
                truth[np.arange(len(places)), places] = 1.0
                spread = np.asarray(reached @ truth) / sizes[:, None]
                belief = np.asarray(at @ spread.astype(np.float32), dtype=np.float64)
            return best_guess(belief, support, group, self.known.tolerance)[0], np.asarray(belief @ support.values)

        return guess

    def _usual(self, places: Codes, count: int, labels: Codes | None, rows: int) -> Matrix:
        """How a column is spread beside each released label; of all people where there is none."""
        belief, told = np.tile(np.bincount(places, minlength=count) / len(places), (rows, 1)), self.pairs.labels
        for code in self.codes.tolist() if labels is not None else ():
            mine = places[told == code]
            belief[labels == code] = np.bincount(mine, minlength=count) / len(mine)
        return belief


def _ones(columns: Codes, width: int) -> sparse.csr_matrix:
    """Rows x width with a one in every named column."""
    rows, each = columns.shape
    ones = np.ones(rows * each, dtype=np.float32)
    return sparse.csr_matrix((ones, columns.ravel(), np.arange(rows + 1) * each), shape=(rows, width))


def _settled(group: Group, mean: Matrix) -> Matrix:
    """An average as a value: the likeliest category, and "missing" or not."""
    if group.is_onehot:
        return np.asarray(group.vertices[mean.argmax(axis=1)])
    if not group.has_indicator:
        return mean
    missing = mean[:, -1] > 0.5
    return np.column_stack([np.where(missing, 0.5, mean[:, 0]), missing])


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
    """

    name = "learned-inversion"
    reads_gaps = True
    needs_map = False
    knows = frozenset({"release", "sample"})
    helps = frozenset({"simulator", "noise", "transform", "guided", "labels", "sample_labels"})
    trees: int = parameter(Whole(1, 1_000), "Trees of the forest.", default=20)

    def guess(self, known: Knowledge) -> Guess:
        if len(promised(known.sample)) < FEWEST_PEOPLE:
            return Abstain(f"needs at least {FEWEST_PEOPLE} people to learn from")
        rng = np.random.default_rng(0)  # the adversary's own draws; a guess is a function of what is known
        pairs = simulated_pairs(known, rng)
        ways = self._chosen(known, pairs, rng)
        # A forest that no column is guessed by need not be grown again from all pairs.
        trees = self.trees if (ways == FOREST).any() else 1
        guess = Learned(pairs, known, trees).reading(known.release, known.labels)
        out, mean = (np.empty((len(known.release), known.encoding.width)) for _ in range(2))
        for number, group in enumerate(known.encoding.groups):
            out[:, group.slice], mean[:, group.slice] = guess(number, int(ways[number]))
        details = {f"columns_{way}": float((ways == place).sum()) for place, way in enumerate(WAYS)}
        return Values(mean, details={"simulated_people": float(len(promised(known.sample))), **details}, aimed=out)

    def _chosen(self, known: Knowledge, pairs: Pairs, rng: np.random.Generator) -> Codes:
        """The way in which each column is guessed."""
        groups = known.encoding.groups
        people = np.unique(pairs.person)
        half = np.isin(pairs.person, rng.permutation(people)[: len(people) // 2])
        right = np.zeros((len(groups), len(WAYS)))
        for mine in (half, ~half):
            held, others = pairs.take(mine), pairs.take(~mine)
            guess = Learned(others, known, self.trees).reading(held.Z, held.labels)
            for number, group in enumerate(groups):
                for way in range(len(WAYS)):
                    found, truth = guess(number, way)[0], held.X[:, group.slice]
                    right[number, way] += learned(truth, found, group, known.tolerance).sum()
        right /= len(pairs.X)
        usual, best = right[:, USUAL], right[:, TRUSTED].max(axis=1)
        error = np.sqrt(usual * (1.0 - usual) / len(people))
        # What was never wrong is no luck, however common the usual value is: a copy is read as one.
        better = (best > usual + error) | ((best == 1.0) & (usual < 1.0))
        return np.where(better, np.array(TRUSTED)[right[:, TRUSTED].argmax(axis=1)], USUAL)
