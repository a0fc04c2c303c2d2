"""The private model of a table: what was measured with noise, and how rows are drawn from it.

Fitting takes a few passes over counts (see `Counts`): fine codes of every column by class; pairs of columns by class;
where columns may have two parents, tables of three. Pairs and threes take as many passes as their number needs memory
(see `Passes`). Everything that is kept in the model is noisy, or public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import cast

import numpy as np

from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.wording import counted
from sfumato.mechanisms.central.budget import SHARES, WITH_SECOND, Budget
from sfumato.mechanisms.central.column_codes import Bins, FineColumn, halved
from sfumato.mechanisms.central.drawing import (
    DrawnModel,
    ModelColumn,
    Node,
    Pair,
    Passes,
    class_sizes,
    column_shares,
    in_drawing_order,
    on_simplex,
    pair_shares,
    raked,
    score,
    shrunk,
    spanning_forest,
)
from sfumato.table import Encoding
from sfumato.table.statistics import Columns, Counts

# A second parent for a column: what one parent cannot say, measured in tables of three columns by class.
#
# A column that depends on a parent in the forest may be given a second parent among the columns that are drawn before
# it. The candidates are those nearest to it in the forest, which is noisy already. What the forest says about three
# columns together is known without the table: the two are joined along the path between them. The score of a candidate
# is the distance of the counts from that, sum |n - e| with e rounded to whole numbers, so that one record changes it by
# 1; from it goes what the noise to come and chance would show anyway. "No second parent" scores 0.
#
# A table of three has rough bins. It corrects the table of the forest, P(column | class, parent), by the ratio of what
# was measured to what was expected, so that the finer bins of the pair are kept.


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
            came, walked = {other: other}, [other]
            for place in walked:  # grows while it is walked: breadth first
                new = [one for one in self._near[place] if one not in came]
                came.update(dict.fromkeys(new, place))
                walked += new
            step = came[column]  # its neighbour on the way to the other
            self._given[column, other] = self.given(step, other) @ self._given[column, step]
        return self._given[column, other]

    def counts(self, triple: Triple) -> Floats:
        """Rows by class and rough bins of parent, second parent and column."""
        parent, second, column = triple
        of_parent = self.columns[parent]
        others = [self.columns[one].rough_of_joint.sums(self.given(one, parent), axis=2) for one in (second, column)]
        rows = self.sizes[:, None] * of_parent.joint_shares
        both = np.einsum("yb,yba,ybc->ybac", rows, *others)
        return np.asarray(of_parent.rough_of_joint.sums(both, axis=1))


def score_of_three(table: Codes, expected: Floats, noise: float) -> int:
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


FEWEST_BINS, MOST_BINS = 4, 32
FEWEST_PAIR_BINS, MOST_PAIR_BINS = 2, 16
FEWEST_ROUGH_BINS, MOST_ROUGH_BINS = 2, 8
CROWD_OF_THREE = 27.0
"""Second parents are looked for where a quarter of a class is so many times the noise on a table of three."""


@dataclass
class TreeModel:
    """A class-conditional spanning forest over the columns of an encoding."""

    encoding: Encoding
    budget: Budget
    classes: int
    parents: int = 2
    rows: int = 0
    columns: list[ModelColumn] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    tables: dict[int, Floats] = field(default_factory=dict)
    """P(bin | class, bins of the parents), by column."""

    def __post_init__(self) -> None:
        self.fine = [FineColumn.of(group) for group in self.encoding.groups]
        self.chosen: list[Pair] = []
        self.threes: list[Columns] = []
        self._shares = dict(SHARES)
        self._passes: Passes | None = None
        self._expected: Expected | None = None
        self._exact_columns: list[Codes] = []
        self._pairs: dict[Columns, Codes] = {}
        """Exact counts of columns and pairs, until it is known whether their noise is to be lowered."""

    # Passes over the table

    def count_columns(self, X: Matrix, y: Codes | None) -> Counts:
        """What the first pass adds up: fine codes of every column by class."""
        return fine_counts(self.fine, X, y, self.classes)

    def measure_columns(self, counts: Counts) -> None:
        """The number of rows, edges, and the columns by class; then which pairs to count, if a tree can pay."""
        d, found = len(self.fine), [counts.tables[(place,)] for place in range(len(self.fine))]
        (noisy,) = self.budget.count("rows", SHARES["rows"], [found[0].sum(keepdims=True)])
        self.rows = max(1, int(noisy.ravel()[0]))
        crowd = self.rows / (4.0 * self.classes)
        numbers = [place for place, one in enumerate(self.fine) if one.is_ordered and one.cells > FEWEST_BINS]
        share = SHARES["columns"] + (0.0 if numbers else SHARES["edges"])
        plants = self.parents > 0 and d > 1 and crowd >= 4.0 * self.budget.spread(SHARES["pairs"], d - 1)
        if not plants:
            share += SHARES["forest"] + SHARES["pairs"]
        spread = self.spread = self.budget.spread(share, d)
        depth = depth_for(crowd / spread)
        bins = self._bins(found, numbers, depth)
        exact = [one.sums(table, axis=1) for one, table in zip(bins, found, strict=True)]
        measured = [table.astype(np.float64) for table in self.budget.count("columns", share, exact)]
        self._fill_columns(bins, measured)
        self.nodes = in_drawing_order([], d)
        if plants:
            self._exact_columns, self._noisy_columns = exact, measured
            self._plan_pairs(crowd)

    def _bins(self, found: list[Codes], numbers: list[int], depth: int) -> list[Bins]:
        """Runs of cells between private medians, or each cell by itself where there are few."""
        bins = [Bins.each(one.size) for one in self.fine]
        chooser = self.budget.chooser("edges", SHARES["edges"], len(numbers) * depth) if numbers else None
        for place in numbers:
            one = self.fine[place]
            if chooser is not None and one.cells > 1 << depth:
                ends = halved(found[place].sum(axis=0)[: one.cells], depth, chooser)
                bins[place] = Bins.runs(ends, one.cells, one.group.has_indicator)
        return bins

    def _fill_columns(self, bins: list[Bins], measured: list[Floats]) -> None:
        self.sizes = class_sizes(measured, self.rows, self.budget.spread(SHARES["rows"], 1), self.spread)
        self.columns = [
            ModelColumn(one, bins[place], column_shares(measured[place], self.sizes, self.spread))
            for place, one in enumerate(self.fine)
        ]

    def _measure_columns_again(self) -> None:
        """What a forest without edges did not need goes to the columns: both answers, each by its precision."""
        share = sum(self._shares.get(name, 0.0) for name in ("pairs", "second", "triples"))
        bins, first = [one.bins for one in self.columns], 1.0 / self.spread**2
        second = 1.0 / self.budget.spread(share, len(bins)) ** 2
        again = self.budget.count("columns again", share, self._exact_columns)
        self.spread = math.sqrt(1.0 / (first + second))
        both = zip(self._noisy_columns, again, strict=True)
        self._fill_columns(bins, [(first * old + second * new) / (first + second) for old, new in both])

    def _plan_pairs(self, crowd: float) -> None:
        d = len(self.columns)
        if self.parents > 1 and d > 2:
            of_three = crowd / self.budget.spread(WITH_SECOND["triples"], d - 2)
            if of_three >= CROWD_OF_THREE:
                self._shares.update(WITH_SECOND)
                self._rough = int(min(MOST_ROUGH_BINS, max(FEWEST_ROUGH_BINS, of_three ** (1 / 3))))
        self._spread = self.budget.spread(self._shares["pairs"], d - 1)
        most = int(min(MOST_PAIR_BINS, max(FEWEST_PAIR_BINS, math.sqrt(crowd / self._spread))))
        self.columns = [one._replace(coarse=one.fine.merged(self.sizes @ one.shares, most)) for one in self.columns]
        self._margins = [self.sizes[:, None] * one.joint_shares for one in self.columns]
        pairs: list[Columns] = list(combinations(range(d), 2))
        self._passes = Passes(pairs, self._cells)

    def _plan_threes(self, exact: dict[Columns, Codes]) -> None:
        """Which second parents to try, after the forest was measured."""
        self._choices = candidates(self.nodes)
        if not self._choices:
            self._measure_pairs_again(exact, self._shares["second"] + self._shares["triples"])
            return
        self._pairs = exact
        self._expected = Expected(self.columns, self.nodes, self.tables, self.sizes)
        self.columns = self._expected.columns = [
            one._replace(rough=one.fine.merged(self.sizes @ one.joint_shares, self._rough)) for one in self.columns
        ]
        self._spread = self.budget.spread(self._shares["triples"], len(self._choices))
        self._passes = Passes([triple for some in self._choices for triple in some], self._cells)

    def notes(self) -> dict[str, str]:
        """For whoever wonders what the budget was enough for; computed from noisy figures alone."""
        told = {"noise": f"a count of a column is off by about {self.spread:,.0f} of about {counted(self.rows, 'row')}"}
        told["depends_on_each_other"] = f"{counted(len(self.chosen), 'pair')} of columns"
        if self.threes:
            told["depends_on_two_others"] = counted(len(self.threes), "column")
        of_rows, of_classes = self.budget.spread(SHARES["rows"], 1), self.spread * math.sqrt(FEWEST_BINS * self.classes)
        if max(3.0 * of_rows, of_classes) > self.rows:
            told["too_little_budget"] = (
                "noise may hide the table, so that released rows say hardly more than the schema"
            )
        hidden = {
            one.fine.group.column.name: int(np.count_nonzero(self.sizes @ one.shares < 1e-6))
            for one in self.columns
            if not one.fine.is_ordered
        }
        if rare := [f"{name} ({count:,})" for name, count in hidden.items() if count]:
            told["categories_that_noise_hides_and_no_row_has"] = ", ".join(rare)
        return told

    @property
    def needs_tables(self) -> bool:
        """Whether one more pass over the table is needed."""
        return self._passes is not None

    def count_tables(self, X: Matrix, y: Codes | None) -> Counts:
        """What the next pass adds up: bins of some pairs or threes of columns by class."""
        wanted = self._waiting.next
        places = {place for one in wanted for place in one}
        bins = {place: self.columns[place].bins.then(self._joined(place)) for place in places}
        codes = {place: bins[place].of[self.fine[place].codes(X)] for place in places}
        sizes = {place: bins[place].count for place in places}
        return Counts.of(codes, sizes, class_codes(X, y), self.classes, wanted)

    def measure_tables(self, counts: Counts) -> None:
        """Score what was counted; after the last of it choose, and measure what was chosen."""
        passes = self._waiting
        passes.take(counts.tables, self._score)
        if passes.waiting:
            return
        if passes.chosen is None:
            passes.choose(self._chosen(passes.scores))
            if passes.waiting:
                return
        self._passes = None
        if self._expected is None:
            if self.chosen:
                self._measure_pairs(passes.exact)
            else:
                self._measure_columns_again()
            self._exact_columns = []
            if self.chosen and "triples" in self._shares:
                self._plan_threes(passes.exact)
            return
        if passes.exact:
            self._measure_threes(passes.exact, self._expected)
        else:
            self._measure_pairs_again(self._pairs, self._shares["triples"])
        self._expected, self._pairs = None, {}

    def _score(self, columns: Columns, table: Codes) -> int:
        if self._expected is not None:
            return score_of_three(table, self._expected.counts(cast(Triple, columns)), self._spread)
        first, second = (self._margins[place] for place in columns)
        return score(table, first, second, self._spread)

    def _chosen(self, scores: dict[Columns, int]) -> list[Columns]:
        if self._expected is None:
            chooser = self.budget.chooser("forest", self._shares["forest"], len(self.columns) - 1)
            self.chosen = spanning_forest(
                {cast(Pair, one): value for one, value in scores.items()}, len(self.columns), chooser
            )
            return list(self.chosen)
        chooser = self.budget.chooser("second", self._shares["second"], len(self._choices))
        for some in self._choices:
            pick = chooser.choose(np.array([*(scores[triple] for triple in some), 0], dtype=np.int64))
            self.threes += some[pick : pick + 1]
        return self.threes

    def _measure_pairs(self, exact: dict[Columns, Codes]) -> None:
        spread = self.budget.spread(self._shares["pairs"], len(exact))
        measured = self.budget.count("pairs", self._shares["pairs"], list(exact.values()))
        self.nodes = in_drawing_order(self.chosen, len(self.columns))
        self._noisy = {one: table.astype(np.float64) for one, table in zip(exact, measured, strict=True)}
        self._fill_tables(spread)

    def _measure_pairs_again(self, exact: dict[Columns, Codes], share: float) -> None:
        """What second parents were not worth goes to the pairs: both answers, each by its precision."""
        spreads = [self.budget.spread(one, len(exact)) for one in (self._shares["pairs"], share)]
        first, second = (1.0 / spread**2 for spread in spreads)
        measured = self.budget.count("pairs again", share, list(exact.values()))
        for one, table in zip(exact, measured, strict=True):
            self._noisy[one] = (first * self._noisy[one] + second * table) / (first + second)
        self._fill_tables(math.sqrt(1.0 / (first + second)))

    def _fill_tables(self, spread: float) -> None:
        for node in self.nodes:
            for parent in node.parents:
                table = self._noisy[min(node.column, parent), max(node.column, parent)]
                if parent > node.column:
                    table = table.transpose(0, 2, 1)
                first, second = self.columns[parent].joint_shares, self.columns[node.column].joint_shares
                self.tables[node.column] = pair_shares(table, first, second, self.sizes, spread)

    def _measure_threes(self, exact: dict[Columns, Codes], expected: Expected) -> None:
        spread = self.budget.spread(self._shares["triples"], len(exact))
        measured = self.budget.count("triples", self._shares["triples"], list(exact.values()))
        second = {}
        for (parent, other, column), noisy in zip(exact, measured, strict=True):
            second[column] = Node(column, (parent, other))
            three = [self.columns[place] for place in (parent, other, column)]
            awaited = expected.counts((parent, other, column))
            self.tables[column] = corrected(self.tables[column], noisy.astype(np.float64), awaited, three, spread)
        self.nodes = [second.get(node.column, node) for node in self.nodes]

    def drawn(self) -> DrawnModel:
        """What rows are drawn from, without whatever the fit needed."""
        return DrawnModel(self.encoding, self.classes, self.rows, self.sizes, self.columns, self.nodes, self.tables)

    # Small readings

    @property
    def _waiting(self) -> Passes:
        if self._passes is None:
            raise RuntimeError("No pass over the table is needed.")
        return self._passes

    def _joined(self, place: int) -> Bins:
        """The bins of bins that the present passes count."""
        return self.columns[place].as_parent(0 if self._expected is None else 1)

    def _cells(self, columns: Columns) -> int:
        return self.classes * math.prod(self._joined(place).count for place in columns)


def fine_counts(fine: list[FineColumn], X: Matrix, y: Codes | None, classes: int) -> Counts:
    """Fine codes of every column by class."""
    codes = {place: one.codes(X) for place, one in enumerate(fine)}
    sizes = {place: one.size for place, one in enumerate(fine)}
    return Counts.of(codes, sizes, class_codes(X, y), classes, [(place,) for place in codes])


def class_codes(X: Matrix, y: Codes | None) -> Codes:
    """One class for all, where there are none."""
    return np.zeros(len(X), dtype=np.int64) if y is None else y


def depth_for(crowd_per_noise: float) -> int:
    wanted = math.floor(math.log2(max(crowd_per_noise, 1.0)))
    return max(int(math.log2(FEWEST_BINS)), min(int(math.log2(MOST_BINS)), wanted))
