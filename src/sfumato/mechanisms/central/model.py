"""The private model of a table: what was measured with noise, and how rows are drawn from it.

Fitting takes a few passes over counts (see `Counts`): fine codes of every column by class; pairs of columns by class;
where columns may have two parents, tables of three. Pairs and threes take as many passes as their number needs memory
(see `Passes`). Everything that is kept in the model is noisy, or public.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.core.wording import counted
from sfumato.mechanisms.central.column_codes import (
    SHARES,
    WITH_SECOND,
    Bins,
    Budget,
    Count,
    FineColumn,
    Passes,
    Steps,
    halved,
    kept,
    scored,
    tables_of,
)
from sfumato.mechanisms.central.drawing import (
    DrawnModel,
    ModelColumn,
    Node,
    Pair,
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


def candidates(nodes: Sequence[Node]) -> list[list[Columns]]:
    """For every column with a parent: that, a column that is drawn before it (nearest in the forest first), and it."""
    near: dict[int, list[int]] = {node.column: [] for node in nodes}
    found: list[list[Columns]] = []
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

    def counts(self, triple: Columns) -> Floats:
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
class TreeModel(Passes):
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
        self.fine = [FineColumn(group) for group in self.encoding.groups]
        self.chosen: list[Pair] = []
        self.threes: list[Columns] = []
        super().__post_init__()

    def fitting(self) -> Steps:
        """The number of rows, edges, and the columns by class; then pairs, if a tree can pay."""
        d, budget = len(self.fine), self.budget
        counts = yield partial(tables_of, self.fine, {}, self.classes, [(place,) for place in range(d)])
        found = [counts.tables[(place,)] for place in range(d)]
        (noisy,) = budget.count("rows", SHARES["rows"], [found[0].sum(keepdims=True)])
        self.rows = max(1, int(noisy.ravel()[0]))
        crowd = self.rows / (4.0 * self.classes)
        numbers = [place for place, one in enumerate(self.fine) if one.is_ordered and one.cells > FEWEST_BINS]
        plants = self.parents > 0 and d > 1 and crowd >= 4.0 * budget.spread(SHARES["pairs"], d - 1)
        share = SHARES["columns"] + (0.0 if numbers else SHARES["edges"])
        share += 0.0 if plants else SHARES["forest"] + SHARES["pairs"]
        self.spread = budget.spread(share, d)
        bins = self._bins(found, numbers, depth_for(crowd / self.spread))
        exact = [one.sums(table, axis=1) for one, table in zip(bins, found, strict=True)]
        measured = [table.astype(np.float64) for table in budget.count("columns", share, exact)]
        self._fill_columns(bins, measured)
        self.nodes = in_drawing_order([], d)
        if plants:
            yield from self._fit_pairs(crowd, exact, measured)

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

    def _fit_pairs(self, crowd: float, exact: list[Codes], measured: list[Floats]) -> Steps:
        """The forest and its pairs, then second parents, if these can pay. Without an edge, the columns once more."""
        d, budget, shares = len(self.fine), self.budget, dict(SHARES)
        of_three = crowd / budget.spread(WITH_SECOND["triples"], d - 2) if self.parents > 1 and d > 2 else 0.0
        if of_three >= CROWD_OF_THREE:
            shares.update(WITH_SECOND)
        spread = budget.spread(shares["pairs"], d - 1)
        most = pair_bins_for(crowd / spread)
        self.columns = [one._replace(coarse=one.fine.merged(self.sizes @ one.shares, most)) for one in self.columns]
        margins = [self.sizes[:, None] * one.joint_shares for one in self.columns]

        def worth(pair: Columns, table: Codes) -> int:
            return score(table, margins[pair[0]], margins[pair[1]], spread)

        count = partial(self._counted, [one.joint for one in self.columns])
        cells = partial(self._cells, [one.joint for one in self.columns])
        scores, tables = yield from scored(combinations(range(d), 2), cells, count, worth)
        self.chosen = spanning_forest(scores, d, budget.chooser("forest", shares["forest"], d - 1))
        if not self.chosen:
            again = sum(shares.get(name, 0.0) for name in ("pairs", "second", "triples"))
            measured, self.spread = self._again("columns", again, exact, measured, self.spread)
            self._fill_columns([one.bins for one in self.columns], measured)
            return
        exact.clear()
        tables = yield from kept(self.chosen, tables, count)
        self.nodes = in_drawing_order(self.chosen, d)
        spread = budget.spread(shares["pairs"], len(tables))
        pairs = [table.astype(np.float64) for table in budget.count("pairs", shares["pairs"], list(tables.values()))]
        self._fill_tables(pairs, spread)
        if "triples" not in shares:
            return
        rough = int(min(MOST_ROUGH_BINS, max(FEWEST_ROUGH_BINS, of_three ** (1 / 3))))
        if left := (yield from self._fit_threes(shares, rough)):
            self._fill_tables(*self._again("pairs", left, list(tables.values()), pairs, spread))

    def _fit_threes(self, shares: Mapping[str, float], rough: int) -> Generator[Count, Counts, float]:
        """Second parents; returns what they were not worth of the budget."""
        choices = candidates(self.nodes)
        if not choices:
            return shares["second"] + shares["triples"]
        self.columns = [
            one._replace(rough=one.fine.merged(self.sizes @ one.joint_shares, rough)) for one in self.columns
        ]
        expected = Expected(self.columns, self.nodes, self.tables, self.sizes)
        spread = self.budget.spread(shares["triples"], len(choices))

        def worth(three: Columns, table: Codes) -> int:
            return score_of_three(table, expected.counts(three), spread)

        bins = [one.as_parent(1) for one in self.columns]
        count, cells = partial(self._counted, bins), partial(self._cells, bins)
        scores, tables = yield from scored((three for some in choices for three in some), cells, count, worth)
        chooser = self.budget.chooser("second", shares["second"], len(choices))
        for some in choices:
            pick = chooser.choose(np.array([*(scores[three] for three in some), 0], dtype=np.int64))
            self.threes += some[pick : pick + 1]
        tables = yield from kept(self.threes, tables, count)
        if not tables:
            return shares["triples"]
        spread = self.budget.spread(shares["triples"], len(tables))
        measured = self.budget.count("triples", shares["triples"], list(tables.values()))
        second = {}
        for (parent, other, column), noisy in zip(tables, measured, strict=True):
            second[column] = Node(column, (parent, other))
            three = [self.columns[place] for place in (parent, other, column)]
            awaited = expected.counts((parent, other, column))
            self.tables[column] = corrected(self.tables[column], noisy.astype(np.float64), awaited, three, spread)
        self.nodes = [second.get(node.column, node) for node in self.nodes]
        return 0.0

    def _again(
        self, what: str, share: float, exact: list[Codes], noisy: list[Floats], spread: float
    ) -> tuple[list[Floats], float]:
        """What is left goes to what was measured: both answers, each by its precision, and their noise."""
        first, second = (1.0 / one**2 for one in (spread, self.budget.spread(share, len(exact))))
        pairs = zip(noisy, self.budget.count(f"{what} again", share, exact), strict=True)
        both = [(first * old + second * new) / (first + second) for old, new in pairs]
        return both, math.sqrt(1.0 / (first + second))

    def _fill_tables(self, noisy: list[Floats], spread: float) -> None:
        tables = dict(zip(self.chosen, noisy, strict=True))
        for node in self.nodes:
            for parent in node.parents:
                table = tables[min(node.column, parent), max(node.column, parent)]
                if parent > node.column:
                    table = table.transpose(0, 2, 1)
                first, second = self.columns[parent].joint_shares, self.columns[node.column].joint_shares
                self.tables[node.column] = pair_shares(table, first, second, self.sizes, spread)

    def _counted(self, joined: list[Bins], wanted: list[Columns]) -> Count:
        bins = {place: one.bins.then(of) for place, (one, of) in enumerate(zip(self.columns, joined, strict=True))}
        return partial(tables_of, self.fine, bins, self.classes, wanted)

    def _cells(self, joined: list[Bins], columns: Columns) -> int:
        return self.classes * math.prod(joined[place].count for place in columns)

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

    def drawn(self) -> DrawnModel:
        """What rows are drawn from, without whatever the fit needed."""
        return DrawnModel(self.encoding, self.classes, self.rows, self.sizes, self.columns, self.nodes, self.tables)


def pair_bins_for(crowd_per_noise: float) -> int:
    return int(min(MOST_PAIR_BINS, max(FEWEST_PAIR_BINS, math.sqrt(crowd_per_noise))))


def depth_for(crowd_per_noise: float) -> int:
    wanted = math.floor(math.log2(max(crowd_per_noise, 1.0)))
    return max(int(math.log2(FEWEST_BINS)), min(int(math.log2(MOST_BINS)), wanted))
