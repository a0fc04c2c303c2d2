"""An agreed plan: which tables every site counts, so that noisy counts of several sites can be added, and the counts.

It says which fine cells form a bin of each column, which bins form a coarser one in tables of several columns, and
which column depends on which. It holds no counts. It must be public, or chosen under a budget of its own: from a public
rule, from the noisy model of one site, whose people have paid for that model, or from noisy scores of all sites. The
bins of every column and the pairs say which, as bounds in a schema do: with a source, and a reason for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.wording import counted
from sfumato.mechanisms.central.column_codes import SHARES, Bins, Budget, FineColumn, Passes, Steps
from sfumato.mechanisms.central.drawing import (
    DrawnModel,
    ModelColumn,
    Node,
    Pair,
    class_sizes,
    column_shares,
    in_drawing_order,
    model_as_dict,
    model_digest,
    need,
    pair_shares,
    read_bins,
)
from sfumato.mechanisms.central.model import MOST_BINS, depth_for, pair_bins_for
from sfumato.mechanisms.central.scoring import FORMAT as SCORING
from sfumato.mechanisms.central.scoring import (
    SCALE,
    SCORED_BINS,
    SCORES,
    AgreedPlan,
    NoisyFigures,
    NoisyScores,
    ScoringPlan,
)
from sfumato.table import Encoding
from sfumato.table.statistics import Columns, Counts

FORMAT, VERSION = "sfumato-plan", 1
MOST_CELLS = 1 << 20
"""Counts that one site pushes: 8 MB."""
MOST_PARENTS = 1
LONGEST = 200
"""Letters of a reason."""
RULE, PUBLIC, NOISY, LEARNED = "rule", "public", "noisy", "learned"
ROWS, COLUMNS, PAIRS = "rows", "columns", "pairs"
SHARE_OF_PAIRS = (1.0 - SHARES[ROWS]) * SHARES[PAIRS] / (SHARES[COLUMNS] + SHARES[PAIRS])
"""Of the budget of a plan that joins columns."""
PUBLIC_BINS, PUBLIC_PAIR_BINS = 16, 8


class Origin(NamedTuple):
    """Where bins or pairs come from.

    Bins of the RULE can be computed again. That something is PUBLIC, or was paid for as something NOISY, is the word of
    whoever gives the reason. What is LEARNED, or says nothing, carries no proof.
    """

    source: str = LEARNED
    reason: str = ""

    @property
    def is_vouched(self) -> bool:
        return self.source == RULE or (self.source in (PUBLIC, NOISY) and bool(self.reason.strip()))

    @property
    def in_words(self) -> str:
        if not self.is_vouched:
            return "a choice that does not say where it comes from"
        return "public rules" if self.source == RULE else self.reason

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Origin:
        origin = cls(found.get("source", LEARNED), found.get("reason", ""))
        need(origin.source in (RULE, PUBLIC, NOISY, LEARNED) and isinstance(origin.reason, str))
        need(len(origin.reason) <= LONGEST and origin.reason.isprintable())
        return origin


class PlannedColumn(NamedTuple):
    fine: FineColumn
    bins: Bins
    coarse: Bins | None = None
    origin: Origin = Origin()

    @property
    def name(self) -> str:
        return self.fine.group.column.name

    @property
    def joint(self) -> Bins:
        return self.coarse or Bins.each(self.bins.count)

    @property
    def told(self) -> dict[str, Any]:
        """The bins, as they stand in a file: the first fine cells of all but the first, where not each is a bin."""
        edges = (np.flatnonzero(np.diff(self.bins.of[: self.fine.cells])) + 1).tolist()
        return {
            "edges": None if self.bins.count == self.fine.size else edges,
            "coarse": None if self.coarse is None else self.coarse.of.tolist(),
        }


def even_column(fine: FineColumn, most: int) -> PlannedColumn:
    """Bins by the public rule: of equal width, and up to `most` coarser ones in tables of several columns."""
    bins = Bins.each(fine.size)
    if fine.is_ordered and fine.cells > MOST_BINS:
        ends = [round(step * fine.cells / PUBLIC_BINS) for step in range(1, PUBLIC_BINS)]
        bins = Bins.runs(ends, fine.cells, fine.group.has_indicator)
    width = np.bincount(bins.of).astype(np.float64)
    return PlannedColumn(fine, bins, fine.merged(width, most) if most else None, Origin(RULE))


@dataclass(frozen=True, repr=False)
class Plan(AgreedPlan):
    """`nodes`: every column once, parents first. `pairs` says where it comes from which of them have parents."""

    encoding: Encoding
    columns: tuple[PlannedColumn, ...]
    nodes: tuple[Node, ...]
    pairs: Origin

    def __repr__(self) -> str:
        return f"<Plan of {len(self.columns)} columns, {len(self.joined)} of them with a parent>"

    @property
    def joined(self) -> list[Node]:
        """Columns that depend on others; each has a table."""
        return [node for node in self.nodes if node.parents]

    @property
    def origins(self) -> dict[str, Origin]:
        """Where every part comes from that was chosen: columns by name, and the pairs."""
        bins = {f"bins of {one.name}": one.origin for one in self.columns}
        return {**bins, "pairs of columns": self.pairs} if self.joined else bins

    @property
    def chosen_by(self) -> str:
        return "; ".join(dict.fromkeys(origin.in_words for origin in self.origins.values()))

    def shapes(self, classes: int) -> list[tuple[int, ...]]:
        """Of all tables in the order in which they are pushed: the number of rows, the columns, what depends."""
        of_columns = [(classes, one.bins.count) for one in self.columns]
        joint = [self.columns[place].joint.count for place in range(len(self.columns))]
        of_nodes = [(classes, *(joint[place] for place in (*node.parents, node.column))) for node in self.joined]
        return [(1,), *of_columns, *of_nodes]

    def cells(self, classes: int) -> int:
        return sum(math.prod(shape) for shape in self.shapes(classes))

    def spent(self) -> list[tuple[str, float, int]]:
        """Nothing is left to choose, so that columns and pairs share what edges and forest would have cost."""
        rows, columns = (ROWS, SHARES[ROWS], 1), len(self.columns)
        if not self.joined:
            return [rows, (COLUMNS, 1.0 - SHARES[ROWS], columns)]
        of_columns = (1.0 - SHARES[ROWS]) * SHARES[COLUMNS] / (SHARES[COLUMNS] + SHARES[PAIRS])
        return [rows, (COLUMNS, of_columns, columns), (PAIRS, SHARE_OF_PAIRS, len(self.joined))]

    def model(self, budget: Budget, classes: int) -> PlannedModel:
        return PlannedModel(self.encoding, budget, classes, self)

    def figures(self, classes: int, cells: Codes, measured: Sequence[Measurement]) -> NoisyCounts:
        return NoisyCounts(self, classes, cells, NoisyCounts.variances_of(measured))

    def to_dict(self) -> dict[str, Any]:
        names = [one.name for one in self.columns]
        return {
            "format": FORMAT,
            "version": VERSION,
            "columns": [{"name": one.name, **one.told, **one.origin._asdict()} for one in self.columns],
            "pairs": self.pairs._asdict(),
            "order": [[names[node.column], [names[place] for place in node.parents]] for node in self.nodes],
        }

    @classmethod
    def from_dict(cls, found: Any, encoding: Encoding) -> Plan:
        try:
            plan = _read(found, encoding)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError):
            raise SchemaError(
                "The plan does not fit the schema's columns, or it is damaged. Make one with `sfumato study plan`."
            ) from None
        if plan.cells(max(1, len(encoding.classes))) > MOST_CELLS:
            raise SchemaError(f"The plan asks for more than {MOST_CELLS:,} counts. Give it fewer or coarser tables.")
        return plan


def agreed_plan(found: Any, encoding: Encoding) -> AgreedPlan:
    """Read a plan of either kind for the columns of a schema; whatever does not fit is refused."""
    if not isinstance(found, Mapping) or found.get("format") != SCORING:
        return Plan.from_dict(found, encoding)
    plan = ScoringPlan(encoding)
    if dict(found) != plan.to_dict():
        raise SchemaError(
            "The plan's scores are not those of the schema's columns. Make one with `sfumato study plan --scores`."
        )
    if plan.cells(1) > MOST_CELLS:
        raise SchemaError(f"The plan asks for more than {MOST_CELLS:,} figures: leave columns out of the study.")
    return plan


def read_plan(given: Mapping[str, Any] | Path | str) -> Any:
    """A plan as plain JSON, given as it is, in a file of its own, or in a study file."""
    if isinstance(given, Mapping):
        return given
    try:
        found = json.loads(Path(given).read_text(encoding="utf-8"))
        return found if found.get("format") in (FORMAT, SCORING) else found["mechanism"]["parameters"]["plan"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise UsageError(
            f"{given} is no plan: a JSON file that `sfumato study plan` wrote. Make one, or leave the plan out."
        ) from None


def _read(found: Any, encoding: Encoding) -> Plan:
    need(isinstance(found, Mapping) and (found["format"], found["version"]) == (FORMAT, VERSION))
    fine = [FineColumn(group) for group in encoding.groups]
    names = [one.group.column.name for one in fine]
    need([one["name"] for one in found["columns"]] == names)
    columns = tuple(_column(one, stated) for one, stated in zip(fine, found["columns"], strict=True))
    nodes: list[Node] = []
    for name, parents in found["order"]:
        node = Node(names.index(name), tuple(names.index(parent) for parent in parents))
        seen = {one.column for one in nodes}
        need(node.column not in seen and seen.issuperset(node.parents) and len(node.parents) <= MOST_PARENTS)
        nodes.append(node)
    need(len(nodes) == len(columns))
    pairs = Origin.read(found.get("pairs", {}))
    need(pairs.source != RULE or not any(node.parents for node in nodes))
    return Plan(encoding, columns, tuple(nodes), pairs)


def _column(fine: FineColumn, found: Mapping[str, Any]) -> PlannedColumn:
    need({"name", "edges", "coarse"} <= set(found) <= {"name", "edges", "coarse", "source", "reason"})
    origin = Origin.read(found)
    bins = Bins.each(fine.size)
    if found["edges"] is not None:
        ends = _whole(found["edges"])
        need(fine.is_ordered and ends == sorted(set(ends)) and (not ends or (ends[0] > 0 and ends[-1] < fine.cells)))
        bins = Bins.runs(ends, fine.cells, fine.group.has_indicator)
    coarse = None if found["coarse"] is None else read_bins(_whole(found["coarse"]), bins.count)
    column = PlannedColumn(fine, bins, coarse, origin)
    if origin.source == RULE and column.told not in [even_column(fine, most).told for most in (0, PUBLIC_PAIR_BINS)]:
        raise SchemaError(
            f"The plan says that the bins of {column.name!r} follow the public rule, and they do not. Give them the "
            "source public with a reason, or make the plan with `sfumato study plan`."
        )
    return column


def _whole(found: Any) -> list[int]:
    need(isinstance(found, list) and all(type(value) is int and 0 <= value < 1 << 31 for value in found))
    return list(found)


# Noisy counts under a plan: measured at a site, added by a coordinator, and turned into a model to draw from.
#
# Counts and noise are whole numbers, so that sums are exact. The sum over sites is the table of all people together,
# with noise whose variance is the sum of theirs: sqrt(S) times the standard deviation of one of S like sites, on counts
# that are S times as large.


@dataclass(frozen=True, repr=False)
class NoisyCounts(NoisyFigures):
    """All tables of a plan, the number of rows first."""

    plan: Plan
    kinds = (ROWS, COLUMNS, PAIRS)

    def __repr__(self) -> str:
        return f"<NoisyCounts of about {self.rows:,} rows in {len(self.plan.shapes(self.classes))} tables>"

    def tables(self) -> list[Codes]:
        shapes = self.plan.shapes(self.classes)
        parts = np.split(self.cells, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def likely(self, far: float) -> bool:
        """Noise explains negative counts, and tables agree about the number of rows up to noise."""
        kinds = [ROWS, *[COLUMNS] * len(self.plan.columns), *[PAIRS] * len(self.plan.joined)]
        for kind, table in zip(kinds, self.tables(), strict=True):
            variance = self.variances[kind]
            off = abs(int(table.sum()) - int(self.cells[0]))
            spread = math.sqrt(table.size * variance + self.variances[ROWS])
            if int(table.min()) < -far * math.sqrt(variance) or off > far * spread:
                return False
        return True

    def drawn(self) -> DrawnModel:
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


@dataclass
class PlannedModel(Passes):
    """Fits as `TreeModel` does, in one pass: everything that it chooses is in the plan already."""

    encoding: Encoding
    budget: Budget
    classes: int
    plan: Plan
    rows: int = 0

    def fitting(self) -> Steps:
        """All tables with their noise; the number of rows is one of them."""
        counts = yield self._counted
        columns = [counts.tables[(place,)] for place in range(len(self.plan.columns))]
        pairs = [counts.tables[(*node.parents, node.column)] for node in self.plan.joined]
        found: list[Codes] = []
        kinds = zip(self.plan.spent(), ([columns[0].sum(keepdims=True)], columns, pairs), strict=False)
        for (kind, share, _), tables in kinds:
            found += self.budget.count(kind, share, tables)
        cells = np.concatenate([table.ravel() for table in found])
        self.noisy = self.plan.figures(self.classes, cells, self.budget.measured)
        self.rows = self.noisy.rows
        self.model = self.noisy.drawn()

    def _counted(self, X: Matrix, y: Codes | None) -> Counts:
        classes = np.zeros(len(X), dtype=np.int64) if y is None else y
        bins = {place: one.bins.of[one.fine.codes(X)] for place, one in enumerate(self.plan.columns)}
        sizes = {place: one.bins.count for place, one in enumerate(self.plan.columns)}
        columns = Counts.of(bins, sizes, classes, self.classes, [(place,) for place in bins])
        pairs: list[Columns] = [(*node.parents, node.column) for node in self.plan.joined]
        joint = {place: self.plan.columns[place].joint for pair in pairs for place in pair}
        coarse = {place: one.of[bins[place]] for place, one in joint.items()}
        sizes = {place: one.count for place, one in joint.items()}
        return Counts({**columns.tables, **Counts.of(coarse, sizes, classes, self.classes, pairs).tables})

    def drawn(self) -> DrawnModel:
        return self.model

    def notes(self) -> dict[str, str]:
        """Computed from noisy figures alone."""
        spread = math.sqrt(self.noisy.variances[COLUMNS])
        return {
            "noise": f"a count of a column is off by about {spread:,.0f} of about {self.rows:,} rows",
            "plan": f"{counted(len(self.plan.joined), 'pair')} of columns, {len(self.noisy.cells):,} counts to push",
        }


# Where a plan comes from: public rules, the noisy model of one site, or noisy scores that all sites have added.
#
# In every case it is post-processing of public or noisy figures, and costs nothing more. Bins are chosen for all sites
# together: S like sites have S times the rows and sqrt(S) times the noise of one.


DIGITS = 16
"""Of a model's digest, for readers to compare."""
SURE = 1.0
"""A pair's distance from independence must be so many standard deviations of its noise to be measured."""


def plan_from_model(model: DrawnModel, budget: Budget, sites: int) -> Plan:
    """Edges and forest of one site's noisy model, as finely as `sites` like it, each with `budget`, can measure."""
    nodes = tuple(Node(node.column, node.parents[:MOST_PARENTS]) for node in model.nodes)
    columns = tuple(PlannedColumn(one.fine, one.bins) for one in model.columns)
    digest = model_digest(model_as_dict(model))[:DIGITS]
    origin = Origin(NOISY, f"the noisy model {digest} of one site, for {counted(sites, 'site')} like it")
    rough = Plan(model.encoding, columns, nodes, origin)
    crowd = sites * model.rows / (4.0 * model.classes)
    return _finer_plan(rough, crowd, sites, budget, lambda _: model.columns, model.sizes)


def plan_from_scores(scores: NoisyScores, sites: int, budget: Budget) -> Plan:
    """Quantiles and forest from what `sites` have added up, as finely as they can measure, each with `budget`.

    Kruskal's algorithm takes the best pairs whose distance from independence is more than the noise of their table will
    add, and more than the noise on their score.
    """
    d, classes = len(scores.plan.fine), scores.classes
    crowd = scores.rows / (4.0 * classes)
    pairs = _best_forest(scores, math.sqrt(sites) * budget.spread(SHARE_OF_PAIRS, max(d - 1, 1)), crowd, sites)
    origin = Origin(NOISY, f"noisy scores of pairs of columns, added over {counted(sites, 'site')}")
    columns = tuple(PlannedColumn(one.fine, one.bins) for one in scores.columns())
    rough = Plan(scores.plan.encoding, columns, tuple(in_drawing_order(pairs, d)), origin)
    even = np.full(classes, scores.rows / classes)
    return _finer_plan(rough, crowd, sites, budget, scores.columns, even)


def _finer_plan(
    rough: Plan,
    crowd: float,
    sites: int,
    budget: Budget,
    columns: Callable[[int], Sequence[ModelColumn]],
    sizes: Floats,
) -> Plan:
    """The plan with bins that a crowd of rows at so many sites can fill, each with this budget; `columns` are what is
    known of them for a depth of halving."""
    spread = {kind: math.sqrt(sites) * budget.spread(share, tables) for kind, share, tables in rough.spent()}
    depth = depth_for(crowd / spread[COLUMNS])
    most = pair_bins_for(crowd / spread[PAIRS]) if PAIRS in spread else 0
    joined = {place for node in rough.joined for place in (*node.parents, node.column)}
    found = (
        _finer(one, depth, sizes, most if place in joined else 0)._replace(origin=rough.pairs)
        for place, one in enumerate(columns(depth))
    )
    return replace(rough, columns=tuple(found))


def _best_forest(scores: NoisyScores, noise: float, crowd: float, sites: int) -> list[Pair]:
    if crowd < 4.0 * noise:
        return []
    bins = [min(SCORED_BINS, one.cells) + one.group.has_indicator for one in scores.plan.fine]
    cells = scores.classes * pair_bins_for(crowd / noise) ** 2
    least = math.sqrt(2.0 / math.pi) * noise * cells + SURE * SCALE * math.sqrt(scores.variances[SCORES])

    def by_chance(first: int, second: int) -> float:
        """About what independent columns of even bins show at so many like sites: mean |x - e| of Poisson counts."""
        cells = scores.classes * first * second
        rows = scores.rows / (sites * cells)
        seen = min(math.sqrt(2.0 * rows / math.pi), 2.0 * rows)
        return sites * cells * seen * math.sqrt((1 - 1 / first) * (1 - 1 / second))

    worth = {
        (left, right): SCALE * score - by_chance(bins[left], bins[right])
        for (left, right), score in scores.scores.items()
    }
    tree, chosen = list(range(len(bins))), []
    for left, right in sorted(worth, key=lambda pair: -worth[pair]):
        if worth[left, right] > least and tree[left] != tree[right]:
            chosen.append((left, right))
            old, new = tree[right], tree[left]
            tree = [new if name == old else name for name in tree]
    return chosen


def public_plan(encoding: Encoding, pairs: Sequence[tuple[str, str]] = (), reason: str = "") -> Plan:
    """Bins of equal width, and the pairs of columns that an expert names, and says how they are known."""
    fine = [FineColumn(group) for group in encoding.groups]
    names = [one.group.column.name for one in fine]
    for name in (name for pair in pairs for name in pair):
        if name not in names:
            raise UsageError(f"There is no column {name[:60]!r} to pair. There are: {', '.join(names[:20])}.")
    places = [(names.index(one), names.index(other)) for one, other in pairs]
    nodes = tuple(in_drawing_order(places, len(fine)))
    if sum(len(node.parents) for node in nodes) != len(places):
        raise UsageError("The pairs of columns must form trees: no pair twice, no column with itself, and no circle.")
    joined = {place for pair in places for place in pair}
    columns = tuple(even_column(one, PUBLIC_PAIR_BINS if place in joined else 0) for place, one in enumerate(fine))
    return Plan(encoding, columns, nodes, Origin(PUBLIC, reason) if pairs else Origin(RULE))


def _finer(one: ModelColumn, depth: int, sizes: Floats, most: int) -> PlannedColumn:
    """The model's bins, halved at their middles as long as the whole crowd can fill them."""
    fine, bins = one.fine, one.bins
    weights: Floats = sizes @ one.shares
    if fine.is_ordered and bins.count < fine.size:
        ends = [0, *(np.flatnonzero(np.diff(bins.of[: fine.cells])) + 1).tolist(), fine.cells]
        wanted = 1 << depth
        while len(ends) - 1 <= wanted // 2 and max(b - a for a, b in pairwise(ends)) > 1:
            ends = sorted({*ends, *((a + b) // 2 for a, b in pairwise(ends) if b - a > 1)})
        bins = Bins.runs(ends[1:-1], fine.cells, fine.group.has_indicator)
        width = np.bincount(one.bins.of).astype(np.float64)
        weights = np.bincount(bins.of, weights=(weights / width)[one.bins.of]).astype(np.float64)
    return PlannedColumn(fine, bins, fine.merged(weights, most) if most else None)
