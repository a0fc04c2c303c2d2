"""What a released row tells of the row behind it, learned from pairs in four ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.column_beliefs import best_guess
from sfumato.attacks.observation import into_domain
from sfumato.attacks.simulated_pairs import Pairs
from sfumato.attacks.support import Support
from sfumato.table import Group

USUAL, LINE, RELEASED, FOREST = range(4)
WAYS = ("usual", "linear", "released", "forest")
LEAST_IN_LEAF = 10
MOST_TRIED = 20
"""Features tried for a split, and directions in which leaves are to differ little: a wide table takes no longer."""
RIDGE = 1e-6
"""Of the mean square of every feature: so little that a map without noise is inverted exactly."""


@dataclass(frozen=True)
class Learned:
    """A line and a forest, and what is usual beside every released label."""

    groups: Sequence[Group]
    pairs: Pairs
    columnwise: bool
    filled: Matrix
    gaps: bool
    centre: Matrix
    scale: Matrix
    weights: Matrix
    forest: Any
    leaves: Codes
    starts: Codes

    @classmethod
    def of(cls, pairs: Pairs, groups: Sequence[Group], columnwise: bool, gaps: bool, trees: int) -> Learned:
        from sklearn.ensemble import ExtraTreesRegressor

        there = ~np.isnan(pairs.Z)
        filled = np.where(there, pairs.Z, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        F = _features(pairs.Z, pairs.labels, filled, gaps, _codes(pairs.labels))
        centre, scale = F.mean(axis=0), F.std(axis=0)
        scale = np.where(scale > 1e-12, scale, 1.0)
        S = np.column_stack([(F - centre) / scale, np.ones(len(F))])
        weights = np.linalg.solve(S.T @ S + RIDGE * len(S) * np.eye(S.shape[1]), S.T @ pairs.X)
        seen = np.hstack([F, S @ weights])
        grown = ExtraTreesRegressor(
            n_estimators=trees,
            min_samples_leaf=LEAST_IN_LEAF,
            max_features=min(MOST_TRIED, seen.shape[1]),
            random_state=0,
            n_jobs=1,
        ).fit(seen, _main_directions(pairs.X))
        starts = np.concatenate([[0], np.cumsum([tree.tree_.node_count for tree in grown.estimators_])])
        leaves = grown.apply(seen) + starts[:-1]
        return cls(groups, pairs, columnwise, filled, gaps, centre, scale, weights, grown, leaves, starts)

    def seeing(self, Z: Matrix, labels: Codes | None) -> Seen:
        """Ready to guess what is behind these rows."""
        F = _features(Z, labels, self.filled, self.gaps, _codes(self.pairs.labels))
        line = np.column_stack([(F - self.centre) / self.scale, np.ones(len(F))]) @ self.weights
        nodes, width = self.forest.apply(np.hstack([F, line])) + self.starts[:-1], int(self.starts[-1])
        sizes = np.maximum(np.bincount(self.leaves.ravel(), minlength=width), 1) * len(self.forest.estimators_)
        return Seen(self, Z, labels, line, _ones(nodes, width), _ones(self.leaves, width).T.tocsr(), sizes)


@dataclass(frozen=True)
class Seen:
    """Released rows as the line and the forest see them; `sizes` of the leaves, times the trees."""

    learned: Learned
    Z: Matrix
    labels: Codes | None
    line: Matrix
    at: sparse.csr_matrix
    reached: sparse.csr_matrix
    sizes: Codes

    def guess(self, number: int, way: int, tolerance: float) -> tuple[Matrix, Matrix]:
        """Of one column the guess that is best for the score, and the mean."""
        group = self.learned.groups[number]
        if way in (RELEASED, LINE):
            mean = self.line[:, group.slice]
            if way == RELEASED and self.learned.columnwise:
                mean = np.where(np.isnan(self.Z), self.learned.filled, self.Z)[:, group.slice]
            return _settled(group, into_domain(mean)), into_domain(mean)
        support = Support.of_group(group)
        places = support.places(self.learned.pairs.X[:, group.slice])
        belief = self._usual(places, len(support.values))
        if way == FOREST:
            truth = np.zeros((len(places), len(support.values)), dtype=np.float32)
            truth[np.arange(len(places)), places] = 1.0
            spread = np.asarray(self.reached @ truth) / self.sizes[:, None]
            belief = np.asarray(self.at @ spread.astype(np.float32), dtype=np.float64)
        return best_guess(belief, support, group, tolerance)[0], np.asarray(belief @ support.values)

    def _usual(self, places: Codes, count: int) -> Matrix:
        """How a column is spread beside each released label; of all people where there is none."""
        belief = np.tile(np.bincount(places, minlength=count) / len(places), (len(self.Z), 1))
        labels = self.learned.pairs.labels
        if labels is not None and self.labels is not None:
            for code in _codes(labels).tolist():
                mine = places[labels == code]
                belief[self.labels == code] = np.bincount(mine, minlength=count) / len(mine)
        return belief


def _codes(labels: Codes | None) -> Codes:
    return np.empty(0, dtype=np.int64) if labels is None else np.unique(labels)


def _features(Z: Matrix, labels: Codes | None, filled: Matrix, gaps: bool, codes: Codes) -> Matrix:
    """Released cells, which of them are not reported, and the label."""
    there = ~np.isnan(Z)
    parts = [np.where(there, Z, filled)]
    if gaps:
        parts.append((~there).astype(np.float64))
    if len(codes) and labels is not None:
        parts.append((labels[:, None] == codes).astype(np.float64))
    return np.hstack(parts)


def _main_directions(X: Matrix) -> Matrix:
    """What leaves are to hold alike: the rows themselves, or their principal components where they are wide."""
    if X.shape[1] <= MOST_TRIED:
        return X
    centred = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ vectors[:, -MOST_TRIED:])


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
