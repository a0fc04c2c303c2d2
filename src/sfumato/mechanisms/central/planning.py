"""Where a plan comes from: public rules, the noisy model of one site, or noisy scores that all sites have added.

In every case it is post-processing of public or noisy figures, and costs nothing more. Bins are chosen for all sites
together: S like sites have S times the rows and sqrt(S) times the noise of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted
from sfumato.mechanisms.central.budget import Budget
from sfumato.mechanisms.central.column_codes import Bins, FineColumn
from sfumato.mechanisms.central.drawing import (
    DrawnModel,
    ModelColumn,
    Node,
    Pair,
    in_drawing_order,
    model_as_dict,
    model_digest,
)
from sfumato.mechanisms.central.model import FEWEST_PAIR_BINS, MOST_PAIR_BINS, depth_for
from sfumato.mechanisms.central.plan import (
    COLUMNS,
    MOST_PARENTS,
    NOISY,
    PAIRS,
    PUBLIC,
    PUBLIC_PAIR_BINS,
    RULE,
    Origin,
    Plan,
    PlannedColumn,
    even_column,
    share_of_pairs,
)
from sfumato.mechanisms.central.scoring import SCALE, SCORED_BINS, SCORES, NoisyScores
from sfumato.table import Encoding

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
    pairs = _best_forest(scores, math.sqrt(sites) * budget.spread(share_of_pairs(), max(d - 1, 1)), crowd, sites)
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
    most = _most_pair_bins(crowd / spread[PAIRS]) if PAIRS in spread else 0
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
    cells = scores.classes * _most_pair_bins(crowd / noise) ** 2
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
    fine = [FineColumn.of(group) for group in encoding.groups]
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
    fine, missing = one.fine, one.fine.group.has_indicator
    weights: Floats = sizes @ one.shares
    bins = one.bins
    if fine.is_ordered and bins.count < fine.size:
        ends = [0, *(np.flatnonzero(np.diff(bins.of[: fine.cells])) + 1).tolist(), fine.cells]
        wanted = 1 << depth
        while len(ends) - 1 <= wanted // 2 and max(b - a for a, b in pairwise(ends)) > 1:
            ends = sorted({*ends, *((a + b) // 2 for a, b in pairwise(ends) if b - a > 1)})
        bins = Bins.runs(ends[1:-1], fine.cells, missing)
        width = np.bincount(one.bins.of).astype(np.float64)
        weights = np.bincount(bins.of, weights=(weights / width)[one.bins.of]).astype(np.float64)
    if not most:
        return PlannedColumn(fine, bins)
    return PlannedColumn(fine, bins, fine.merged(weights, most))


def _most_pair_bins(crowd_per_noise: float) -> int:
    return int(min(MOST_PAIR_BINS, max(FEWEST_PAIR_BINS, math.sqrt(crowd_per_noise))))
