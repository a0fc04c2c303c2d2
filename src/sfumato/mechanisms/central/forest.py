"""Which pairs of columns belong together: a spanning forest, edge by edge, each chosen privately.

The score of a pair is the distance of its counts from independence within the classes, sum |n_cab - e_cab|, where the
expectation e comes from columns that were measured with noise before, rounded to whole numbers: one record changes the
score by 1. From it goes what noise of the pair's own measurement will add, so that a pair must be worth measuring;
"stop" scores 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.mechanisms.central.budget import Chooser
from sfumato.table.statistics.by_class import Columns

# Tables of several columns that are counted, scored and chosen: as many at a time as memory allows.
#
# Where all of them fit into memory they are counted once, and the chosen ones kept. Where they do not, the chosen ones
# are counted once more. Who adds up the counts (blocks, sites, a cluster) does not matter.


MOST_CELLS = 1 << 24
"""Counts that are kept in memory at a time: 128 MB."""


class Passes:
    """What is still to be counted, the scores of what was, and the exact counts that wait for their noise."""

    def __init__(self, wanted: Iterable[Columns], cells: Callable[[Columns], int]) -> None:
        self.scores: dict[Columns, int] = {}
        self.exact: dict[Columns, Codes] = {}
        self.chosen: list[Columns] | None = None
        self._batches: list[list[Columns]] = []
        batch: list[Columns] = []
        filled = 0
        for one in wanted:
            size = cells(one)
            if batch and filled + size > MOST_CELLS:
                self._batches.append(batch)
                batch, filled = [], 0
            batch.append(one)
            filled += size
        self._batches.append(batch)
        self._keeps = len(self._batches) == 1

    @property
    def waiting(self) -> bool:
        """Whether one more pass over the table is needed."""
        return bool(self._batches)

    @property
    def next(self) -> list[Columns]:
        """What the next pass counts."""
        return self._batches[0]

    def take(self, counted: Mapping[Columns, Codes], score: Callable[[Columns, Codes], int]) -> None:
        """The sums of a pass."""
        for one in self._batches.pop(0):
            if self.chosen is None:
                self.scores[one] = score(one, counted[one])
            if self._keeps or self.chosen is not None:
                self.exact[one] = counted[one]

    def choose(self, chosen: list[Columns]) -> None:
        """Keep these, or ask for one more pass over them."""
        self.chosen = chosen
        self.scores.clear()
        self.exact = {one: self.exact[one] for one in chosen} if self._keeps else {}
        if chosen and not self._keeps:
            self._batches.append(chosen)


Pair = tuple[int, int]


def score(table: Codes, first: Floats, second: Floats, noise: float) -> int:
    """Of one pair: counts (classes, a, b), noisy columns (classes, a) and (classes, b), and the noise to come."""
    totals = np.maximum((first.sum(axis=1) + second.sum(axis=1)) / 2.0, 1.0)
    expected = np.rint(first[:, :, None] * second[:, None, :] / totals[:, None, None]).astype(np.int64)
    penalty = round(math.sqrt(2.0 / math.pi) * noise * table.size)
    return int(np.abs(table - expected).sum()) - penalty


def spanning_forest(scores: Mapping[Pair, int], columns: int, chooser: Chooser) -> list[Pair]:
    """Kruskal's algorithm with private choices: joins two trees at a time, at most columns - 1 times."""
    tree = list(range(columns))
    chosen: list[Pair] = []
    for _ in range(columns - 1):
        open_pairs = [pair for pair in scores if tree[pair[0]] != tree[pair[1]]]
        values = np.array([scores[pair] for pair in open_pairs] + [0], dtype=np.int64)
        pick = chooser.choose(values)
        if pick == len(open_pairs):
            break
        left, right = open_pairs[pick]
        chosen.append((left, right))
        old, new = tree[right], tree[left]
        tree = [new if name == old else name for name in tree]
    return chosen


@dataclass(frozen=True)
class Node:
    """A column in the order of drawing, and the columns that it depends on: none, one, or two."""

    column: int
    parents: tuple[int, ...] = ()


def in_drawing_order(pairs: list[Pair], columns: int) -> list[Node]:
    """Every column once, parents before children; the root of a tree is its first column."""
    near: dict[int, list[int]] = {column: [] for column in range(columns)}
    for left, right in pairs:
        near[left].append(right)
        near[right].append(left)
    order: list[Node] = []
    seen: set[int] = set()
    for root in range(columns):
        if root in seen:
            continue
        waiting = [Node(root)]
        seen.add(root)
        while waiting:
            node = waiting.pop()
            order.append(node)
            for child in near[node.column]:
                if child not in seen:
                    seen.add(child)
                    waiting.append(Node(child, (node.column,)))
    return order
