"""The private model of a table: what was measured with noise, and how rows are drawn from it.

Fitting takes a few passes over counts (see `Counts`): fine codes of every column by class; pairs of columns by class,
in as many passes as their number needs memory; once more the chosen pairs where not all could be kept. Everything
that is kept in the model is noisy, or public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from sfumato.array_types import Codes, Floats, Matrix
from sfumato.central.budget import SHARES, Budget
from sfumato.central.column_codes import Bins, FineColumn, merged
from sfumato.central.drawing import DrawnModel, ModelColumn
from sfumato.central.edges import halved
from sfumato.central.estimates import class_sizes, column_shares, pair_shares
from sfumato.central.forest import Node, Pair, in_drawing_order, score, spanning_forest
from sfumato.statistics.counts import Columns, Counts
from sfumato.table import Encoding

FEWEST_BINS, MOST_BINS = 4, 32
FEWEST_PAIR_BINS, MOST_PAIR_BINS = 2, 16
MOST_CELLS = 1 << 24
"""Counts of pairs that are kept in memory at a time: 128 MB."""


@dataclass
class TreeModel:
    """A class-conditional spanning forest over the columns of an encoding."""

    encoding: Encoding
    budget: Budget
    classes: int
    forest: bool = True
    rows: int = 0
    columns: list[ModelColumn] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    tables: dict[int, Floats] = field(default_factory=dict)
    """P(bin | class, bins of the parents), by column."""

    def __post_init__(self) -> None:
        self.fine = [FineColumn.of(group) for group in self.encoding.groups]
        self._scores: dict[Pair, int] = {}
        self._kept: dict[Pair, Codes] = {}
        self._waiting: list[list[Pair]] = []
        self._pairs: list[Pair] | None = None

    # Passes over the table

    def count_columns(self, X: Matrix, y: Codes | None) -> Counts:
        """What the first pass adds up: fine codes of every column by class."""
        codes = {place: one.codes(X) for place, one in enumerate(self.fine)}
        sizes = {place: one.size for place, one in enumerate(self.fine)}
        return Counts.of(codes, sizes, _classes(X, y), self.classes, [(place,) for place in codes])

    def measure_columns(self, counts: Counts) -> None:
        """The number of rows, edges, and the columns by class; then which pairs to count, if a tree can pay."""
        d, found = len(self.fine), [counts.tables[(place,)] for place in range(len(self.fine))]
        (noisy,) = self.budget.count("rows", SHARES["rows"], [found[0].sum(keepdims=True)])
        self.rows = max(1, int(noisy.ravel()[0]))
        crowd = self.rows / (4.0 * self.classes)
        numbers = [place for place, one in enumerate(self.fine) if one.is_ordered and one.cells > FEWEST_BINS]
        share = SHARES["columns"] + (0.0 if numbers else SHARES["edges"])
        plants = self.forest and d > 1 and crowd >= 4.0 * self.budget.spread(SHARES["pairs"], d - 1)
        if not plants:
            share += SHARES["forest"] + SHARES["pairs"]
        spread = self.spread = self.budget.spread(share, d)
        depth = _depth(crowd / spread)
        chooser = self.budget.chooser("edges", SHARES["edges"], len(numbers) * depth) if numbers else None
        bins = []
        for place, one in enumerate(self.fine):
            missing = one.group.has_indicator
            if chooser is not None and place in numbers and one.cells > 1 << depth:
                ends = halved(found[place].sum(axis=0)[: one.cells], depth, chooser)
                bins.append(Bins.runs(ends, one.cells, missing))
            else:
                bins.append(Bins.each(one.size))
        exact = [one.sums(table, axis=1) for one, table in zip(bins, found, strict=True)]
        measured = [table.astype(np.float64) for table in self.budget.count("columns", share, exact)]
        sizes = class_sizes(measured, self.rows, self.budget.spread(SHARES["rows"], 1), spread)
        self.sizes = sizes
        self.columns = [
            ModelColumn(one, bins[place], column_shares(measured[place], sizes, spread))
            for place, one in enumerate(self.fine)
        ]
        self.nodes = in_drawing_order([], d)
        if plants:
            self._plan_pairs(crowd)

    def _plan_pairs(self, crowd: float) -> None:
        d = len(self.columns)
        self._spread = self.budget.spread(SHARES["pairs"], d - 1)
        most = int(min(MOST_PAIR_BINS, max(FEWEST_PAIR_BINS, math.sqrt(crowd / self._spread))))
        self.columns = [
            one._replace(
                coarse=merged(
                    self.sizes @ one.shares, most, ordered=one.fine.is_ordered, missing=one.fine.group.has_indicator
                )
            )
            for one in self.columns
        ]
        batch: list[Pair] = []
        cells = 0
        for pair in combinations(range(d), 2):
            size = self.classes * math.prod(self.columns[place].joint.count for place in pair)
            if batch and cells + size > MOST_CELLS:
                self._waiting.append(batch)
                batch, cells = [], 0
            batch.append(pair)
            cells += size
        self._waiting.append(batch)
        self._keep_all = len(self._waiting) == 1

    def notes(self) -> dict[str, str]:
        """For whoever wonders what the budget was enough for; computed from noisy figures alone."""
        told = {"noise": f"a count of a column is off by about {self.spread:,.0f} of about {self.rows:,} rows"}
        told["depends_on_each_other"] = f"{len(self.chosen)} pairs of columns"
        of_rows, of_classes = self.budget.spread(SHARES["rows"], 1), self.spread * math.sqrt(FEWEST_BINS * self.classes)
        if max(3.0 * of_rows, of_classes) > self.rows:
            told["too_little_budget"] = "noise hides the table, so that released rows say hardly more than the schema"
        hidden = {
            one.fine.group.column.name: int(np.count_nonzero(self.sizes @ one.shares < 1e-6))
            for one in self.columns
            if not one.fine.is_ordered
        }
        if rare := [f"{name} ({count:,})" for name, count in hidden.items() if count]:
            told["categories_that_noise_hides_and_no_row_has"] = ", ".join(rare)
        return told

    @property
    def chosen(self) -> list[Pair]:
        """The pairs of columns that the forest joined."""
        return self._pairs or []

    @property
    def needs_pairs(self) -> bool:
        """Whether one more pass over the table is needed."""
        return bool(self._waiting)

    def count_pairs(self, X: Matrix, y: Codes | None) -> Counts:
        """What the next pass adds up: coarse bins of some pairs of columns by class."""
        wanted = self._waiting[0]
        places = {place for pair in wanted for place in pair}
        codes = {place: self._from_fine(place).of[self.fine[place].codes(X)] for place in places}
        sizes = {place: self.columns[place].joint.count for place in places}
        keys: list[Columns] = list(wanted)
        return Counts.of(codes, sizes, _classes(X, y), self.classes, keys)

    def measure_pairs(self, counts: Counts) -> None:
        """Score the pairs that were counted; after the last of them choose the forest and measure its pairs."""
        done = self._waiting.pop(0)
        if self._pairs is not None:
            self._measure_chosen({pair: counts.tables[pair] for pair in done})
            return
        for pair in done:
            self._scores[pair] = score(counts.tables[pair], self._noisy(pair[0]), self._noisy(pair[1]), self._spread)
            if self._keep_all:
                self._kept[pair] = counts.tables[pair]
        if self._waiting:
            return
        chooser = self.budget.chooser("forest", SHARES["forest"], len(self.columns) - 1)
        self._pairs = spanning_forest(self._scores, len(self.columns), chooser)
        self._scores.clear()
        if self._keep_all:
            self._measure_chosen({pair: self._kept[pair] for pair in self._pairs})
        elif self._pairs:
            self._waiting.append(self._pairs)

    def _measure_chosen(self, exact: dict[Pair, Codes]) -> None:
        self._kept.clear()
        if not exact:
            return
        spread = self.budget.spread(SHARES["pairs"], len(exact))
        measured = self.budget.count("pairs", SHARES["pairs"], list(exact.values()))
        self.nodes = in_drawing_order(list(exact), len(self.columns))
        noisy = dict(zip(exact, measured, strict=True))
        for node in self.nodes:
            for parent in node.parents:
                pair = (min(node.column, parent), max(node.column, parent))
                table = noisy[pair].astype(np.float64)
                if parent != pair[0]:
                    table = table.transpose(0, 2, 1)
                first, second = self.columns[parent].joint_shares, self.columns[node.column].joint_shares
                self.tables[node.column] = pair_shares(table, first, second, self.sizes, spread)

    def drawn(self) -> DrawnModel:
        """What rows are drawn from, without whatever the fit needed."""
        return DrawnModel(self.encoding, self.classes, self.rows, self.sizes, self.columns, self.nodes, self.tables)

    # Small readings

    def _from_fine(self, place: int) -> Bins:
        return self.columns[place].bins.then(self.columns[place].joint)

    def _noisy(self, place: int) -> Floats:
        return self.sizes[:, None] * self.columns[place].joint_shares


def _classes(X: Matrix, y: Codes | None) -> Codes:
    return np.zeros(len(X), dtype=np.int64) if y is None else y


def _depth(crowd_per_noise: float) -> int:
    wanted = math.floor(math.log2(max(crowd_per_noise, 1.0)))
    return max(int(math.log2(FEWEST_BINS)), min(int(math.log2(MOST_BINS)), wanted))
