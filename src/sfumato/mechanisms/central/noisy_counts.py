"""Noisy counts under a plan: measured at a site, added by a coordinator, and turned into a model to draw from.

Counts and noise are whole numbers, so that sums are exact. The sum over sites is the table of all people together, with
noise whose variance is the sum of theirs: sqrt(S) times the standard deviation of one of S like sites, on counts that
are S times as large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.wording import counted
from sfumato.mechanisms.central.budget import SHARES, Budget
from sfumato.mechanisms.central.drawing import DrawnModel, ModelColumn, Pair, class_sizes, column_shares, pair_shares
from sfumato.mechanisms.central.plan import Plan
from sfumato.table import Encoding
from sfumato.table.statistics import Columns, Counts

ROWS, COLUMNS, PAIRS = "rows", "columns", "pairs"
Variances = Mapping[str, float]


@dataclass(frozen=True, repr=False)
class NoisyCounts:
    """All tables of a plan in one row of whole numbers; `variances` of the noise by kind of table."""

    plan: Plan
    classes: int
    cells: Codes
    variances: Variances

    def __repr__(self) -> str:
        return f"<NoisyCounts of about {self.rows:,} rows in {len(self.plan.shapes(self.classes))} tables>"

    @property
    def rows(self) -> int:
        """The noisy number of rows."""
        return max(1, int(self.cells[0]))

    def __add__(self, other: NoisyCounts) -> NoisyCounts:
        if (self.plan.digest, self.classes) != (other.plan.digest, other.classes):
            raise ValueError("These counts were measured under different plans.")
        variances = {kind: self.variances[kind] + other.variances[kind] for kind in self.variances}
        return NoisyCounts(self.plan, self.classes, self.cells + other.cells, variances)

    def tables(self) -> list[Codes]:
        """In the plan's order, each in its shape."""
        shapes = self.plan.shapes(self.classes)
        parts = np.split(self.cells, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def drawn(self) -> DrawnModel:
        """Post-processing alone: what rows are drawn from."""
        plan, tables = self.plan, [table.astype(np.float64) for table in self.tables()]
        spread = {kind: math.sqrt(variance) for kind, variance in self.variances.items()}
        of_columns, of_nodes = tables[1 : 1 + len(plan.columns)], tables[1 + len(plan.columns) :]
        sizes = class_sizes(of_columns, self.rows, spread[ROWS], spread[COLUMNS])
        columns = [
            ModelColumn(one.fine, one.bins, column_shares(table, sizes, spread[COLUMNS]), one.coarse)
            for one, table in zip(plan.columns, of_columns, strict=True)
        ]
        shares: dict[int, Floats] = {}
        for node, table in zip(plan.joined, of_nodes, strict=True):
            (parent,) = node.parents
            first, second = columns[parent].joint_shares, columns[node.column].joint_shares
            shares[node.column] = pair_shares(table, first, second, sizes, spread[PAIRS])
        return DrawnModel(plan.encoding, self.classes, self.rows, sizes, columns, list(plan.nodes), shares)


def variances_of(measured: Sequence[Measurement]) -> Variances:
    """Of the noise that a card states."""
    found = {one.what: one.strength if one.way == "gaussian" else 2.0 * one.strength**2 for one in measured}
    return {kind: found.get(kind, 0.0) for kind in (ROWS, COLUMNS, PAIRS)}


@dataclass
class PlannedModel:
    """Fits as `TreeModel` does, in one pass: everything that it chooses is in the plan already."""

    encoding: Encoding
    budget: Budget
    classes: int
    plan: Plan
    rows: int = 0
    needs_tables: bool = False

    def count_columns(self, X: Matrix, y: Codes | None) -> Counts:
        """All tables of the plan."""
        classes = np.zeros(len(X), dtype=np.int64) if y is None else y
        bins = {place: one.bins.of[one.fine.codes(X)] for place, one in enumerate(self.plan.columns)}
        sizes = {place: one.bins.count for place, one in enumerate(self.plan.columns)}
        wanted: list[Columns] = [(place,) for place in bins]
        tables = dict(Counts.of(bins, sizes, classes, self.classes, wanted).tables)
        pairs: list[Columns] = [(*node.parents, node.column) for node in self.plan.joined]
        places = {place for pair in pairs for place in pair}
        coarse = {place: self.plan.columns[place].joint.of[bins[place]] for place in places}
        sizes = {place: self.plan.columns[place].joint.count for place in places}
        return Counts({**tables, **Counts.of(coarse, sizes, classes, self.classes, pairs).tables})

    def measure_columns(self, counts: Counts) -> None:
        """All counts with their noise; the number of rows is one of them."""
        columns = [counts.tables[(place,)] for place in range(len(self.plan.columns))]
        pairs = [counts.tables[(*node.parents, node.column)] for node in self.plan.joined]
        found: list[Codes] = []
        for (kind, share, _), tables in zip(
            spent(self.plan), ([columns[0].sum(keepdims=True)], columns, pairs), strict=False
        ):
            found += self.budget.count(kind, share, tables)
        cells = np.concatenate([table.ravel() for table in found])
        self.noisy = NoisyCounts(self.plan, self.classes, cells, variances_of(self.budget.measured))
        self.rows = self.noisy.rows
        self.model = self.noisy.drawn()

    def count_tables(self, X: Matrix, y: Codes | None) -> Counts:  # noqa: ARG002 - one pass counts all there is
        raise TypeError("A plan is counted in one pass.")

    def measure_tables(self, counts: Counts) -> None:  # noqa: ARG002
        raise TypeError("A plan is counted in one pass.")

    @property
    def columns(self) -> list[ModelColumn]:
        return self.model.columns

    @property
    def chosen(self) -> list[Pair]:
        """The pairs of columns that the plan joins."""
        return [(node.parents[0], node.column) for node in self.plan.joined]

    def drawn(self) -> DrawnModel:
        return self.model

    def notes(self) -> dict[str, str]:
        """Computed from noisy figures alone."""
        spread = math.sqrt(self.noisy.variances[COLUMNS])
        return {
            "noise": f"a count of a column is off by about {spread:,.0f} of about {self.rows:,} rows",
            "plan": f"{counted(len(self.chosen), 'pair')} of columns, {len(self.noisy.cells):,} counts to push",
        }


def spent(plan: Plan) -> list[tuple[str, float, int]]:
    """What is measured under a plan: kind, share of the budget, and how many tables. Nothing is left to choose, so
    that columns and pairs share what edges and forest would have cost."""
    columns, pairs, left = SHARES[COLUMNS], SHARES[PAIRS], 1.0 - SHARES[ROWS]
    if not plan.joined:
        return [(ROWS, SHARES[ROWS], 1), (COLUMNS, left, len(plan.columns))]
    whole = columns + pairs
    return [
        (ROWS, SHARES[ROWS], 1),
        (COLUMNS, left * columns / whole, len(plan.columns)),
        (PAIRS, left * pairs / whole, len(plan.joined)),
    ]


def share_of_pairs() -> float:
    """Of the budget of a plan that joins columns."""
    return (1.0 - SHARES[ROWS]) * SHARES[PAIRS] / (SHARES[COLUMNS] + SHARES[PAIRS])


def planned_measurements(plan: Plan, budget: Budget) -> list[Measurement]:
    """What a site's card must state that measured under this plan with this budget."""
    return [budget.measurement(kind, share, tables) for kind, share, tables in spent(plan)]
