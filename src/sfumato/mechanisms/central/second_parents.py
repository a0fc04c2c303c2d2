"""A second parent for a column: what one parent cannot say, measured in tables of three columns by class.

A column that depends on a parent in the forest may be given a second parent among the columns that are drawn before
it. The candidates are those nearest to it in the forest, which is noisy already. What the forest says about three
columns together is known without the table: the two are joined along the path between them. The score of a candidate
is the distance of the counts from that, sum |n - e| with e rounded to whole numbers, so that one record changes it by
1; from it goes what the noise to come and chance would show anyway. "No second parent" scores 0.

A table of three has rough bins. It corrects the table of the forest, P(column | class, parent), by the ratio of what
was measured to what was expected, so that the finer bins of the pair are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.mechanisms.central.drawing import ModelColumn, on_simplex, raked, shrunk
from sfumato.mechanisms.central.forest import Node

MOST_CANDIDATES = 8
Triple = tuple[int, int, int]
"""Parent, second parent, column."""


def candidates(nodes: Sequence[Node]) -> list[list[Triple]]:
    """For every column with a parent: the columns that are drawn before it, nearest in the forest first."""
    near: dict[int, list[int]] = {node.column: [] for node in nodes}
    found: list[list[Triple]] = []
    for node in nodes:
        if not node.parents:
            continue
        (parent,) = node.parents
        reached, seen = [parent], {parent}
        for place in reached:  # grows while it is walked: breadth first, among columns drawn so far
            reached += [one for one in near[place] if one not in seen]
            seen.update(near[place])
        if others := reached[1 : 1 + MOST_CANDIDATES]:
            found.append([(parent, other, node.column) for other in others])
        near[parent].append(node.column)
        near[node.column].append(parent)
    return found


class Expected:
    """What the forest says about three columns together, from noisy figures alone."""

    def __init__(self, columns: list[ModelColumn], nodes: list[Node], tables: dict[int, Floats], sizes: Floats) -> None:
        self.columns, self.sizes = columns, sizes
        self._given: dict[tuple[int, int], Floats] = {}
        self._near: dict[int, list[int]] = {node.column: [] for node in nodes}
        for node in nodes:
            for parent in node.parents:
                table = tables[node.column]
                both = columns[parent].joint_shares[:, :, None] * table
                back = both.transpose(0, 2, 1)
                self._given[node.column, parent] = table
                self._given[parent, node.column] = back / np.maximum(back.sum(axis=2, keepdims=True), 1e-300)
                self._near[parent].append(node.column)
                self._near[node.column].append(parent)

    def given(self, column: int, other: int) -> Floats:
        """P(column | class, other), joint bins: along the path between the two."""
        if (column, other) not in self._given:
            step = self._step(column, other)
            self._given[column, other] = self.given(step, other) @ self._given[column, step]
        return self._given[column, other]

    def _step(self, column: int, other: int) -> int:
        """The neighbour of `column` on the way to `other`."""
        came = {other: other}
        walked = [other]
        for place in walked:
            for one in self._near[place]:
                if one not in came:
                    came[one] = place
                    walked.append(one)
        return came[column]

    def counts(self, triple: Triple) -> Floats:
        """Rows by class and rough bins of parent, second parent and column."""
        parent, second, column = triple
        of_parent = self.columns[parent]
        others = [self.columns[one].rough_of_joint.sums(self.given(one, parent), axis=2) for one in (second, column)]
        rows = self.sizes[:, None] * of_parent.joint_shares
        both = np.einsum("yb,yba,ybc->ybac", rows, *others)
        return np.asarray(of_parent.rough_of_joint.sums(both, axis=1))


def score(table: Codes, expected: Floats, noise: float) -> int:
    """Of one candidate: counts, what the forest expects, and the noise to come."""
    by_chance = math.sqrt(2.0 / math.pi) * float(np.sqrt(noise**2 + expected).sum())
    return int(np.abs(table - np.rint(expected).astype(np.int64)).sum()) - round(by_chance)


def corrected(pair: Floats, noisy: Floats, expected: Floats, columns: Sequence[ModelColumn], noise: float) -> Floats:
    """P(column | class, parent, second parent): joint bins, but rough ones of the second parent.

    `columns`: parent, second parent and column. Each class's counts are shrunk towards what was expected, and agree
    with it about parent and second parent, and about parent and column.
    """
    found = np.empty_like(expected)
    for code, one in enumerate(expected):
        whole = max(float(one.sum()), 1e-9)
        cells = on_simplex(one + shrunk(noisy[code] - one, noise), whole)
        for place, rows in enumerate(one):
            found[code, place] = raked(cells[place], rows.sum(axis=1), rows.sum(axis=0))
    ratio = found / np.maximum(expected, 1e-9)
    parent, _, column = (one.rough_of_joint.of for one in columns)
    table = pair[:, :, None, :] * ratio[:, parent][:, :, :, column]
    total = table.sum(axis=3, keepdims=True)
    return np.asarray(np.where(total > 1e-12, table / np.maximum(total, 1e-300), pair[:, :, None, :]))
