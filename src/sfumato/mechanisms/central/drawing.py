"""Which pairs of columns belong together: a spanning forest, edge by edge, each chosen privately.

The score of a pair is the distance of its counts from independence within the classes, sum |n_cab - e_cab|, where the
expectation e comes from columns that were measured with noise before, rounded to whole numbers: one record changes the
score by 1. From it goes what noise of the pair's own measurement will add, so that a pair must be worth measuring;
"stop" scores 0.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import CardError
from sfumato.mechanisms.central.column_codes import Bins, Chooser, FineColumn
from sfumato.table import Encoding
from sfumato.table.statistics import Columns

Pair = tuple[int, int]


def score(table: Codes, first: Floats, second: Floats, noise: float) -> int:
    """Of one pair: counts (classes, a, b), noisy columns (classes, a) and (classes, b), and the noise to come."""
    totals = np.maximum((first.sum(axis=1) + second.sum(axis=1)) / 2.0, 1.0)
    expected = np.rint(first[:, :, None] * second[:, None, :] / totals[:, None, None]).astype(np.int64)
    penalty = round(math.sqrt(2.0 / math.pi) * noise * table.size)
    return int(np.abs(table - expected).sum()) - penalty


def spanning_forest(scores: Mapping[Columns, int], columns: int, chooser: Chooser) -> list[Pair]:
    """Kruskal's algorithm with private choices: joins two trees at a time, at most columns - 1 times."""
    pairs, values = np.array([*scores], dtype=np.int64).reshape(-1, 2), np.fromiter(scores.values(), dtype=np.int64)
    tree = np.arange(columns)
    chosen: list[Pair] = []
    for _ in range(columns - 1):
        apart = tree[pairs[:, 0]] != tree[pairs[:, 1]]
        pairs, values = pairs[apart], values[apart]
        pick = chooser.choose(np.append(values, 0))
        if pick == len(pairs):
            break
        left, right = map(int, pairs[pick])
        chosen.append((left, right))
        tree[tree == tree[right]] = tree[left]
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
        waiting = [Node(root)]
        while waiting:
            node = waiting.pop()
            if node.column not in seen:
                seen.add(node.column)
                order.append(node)
                waiting += [Node(child, (node.column,)) for child in near[node.column]]
    return order


# From noisy counts to probabilities: post-processing, which costs nothing and never sees the table.


ROUNDS = 30
"""Of raking. Margins that fit after fewer end it."""


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest array without negative entries that sums to `total` (Euclidean projection)."""
    flat = np.sort(values.ravel())[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    kept = np.flatnonzero(flat > excess)
    level = excess[kept[-1]] if kept.size else (flat.sum() - total) / flat.size
    return np.asarray(np.maximum(values - level, 0.0))


def class_sizes(columns: list[Floats], rows: float, spread_rows: float, spread: float) -> Floats:
    """Rows of every class, by the margins of all noisy column tables and the noisy number of rows."""
    cells = np.array([table.shape[1] for table in columns], dtype=np.float64)
    weights = 1.0 / (cells * spread**2)  # a class's margin of a table sums so many noisy cells
    sizes = np.einsum("t,tc->c", weights / weights.sum(), np.array([table.sum(axis=1) for table in columns]))
    variance, of_rows = len(sizes) / weights.sum(), spread_rows**2
    total = (rows * variance + sizes.sum() * of_rows) / (variance + of_rows)
    return on_simplex(sizes, max(total, 1.0))


def column_shares(table: Floats, sizes: Floats, spread: float) -> Floats:
    """P(bin | class) of one column: a class's counts, shrunk towards those of all classes where noise hides them."""
    pooled = on_simplex(table.sum(axis=0), max(sizes.sum(), 1.0))
    pooled = pooled / pooled.sum()
    found = np.empty_like(table, dtype=np.float64)
    for code, size in enumerate(sizes):
        expected = size * pooled
        found[code] = on_simplex(expected + shrunk(table[code] - expected, spread), max(size, 1e-9))
    return _shares(found, pooled)


def pair_shares(table: Floats, first: Floats, second: Floats, sizes: Floats, spread: float) -> Floats:
    """P(b | class, a): residuals from independence, shrunk, then raked to the margins of both columns."""
    found = np.empty(table.shape)
    for code, size in enumerate(sizes):
        rows, columns = size * first[code], size * second[code]
        expected = np.outer(rows, columns) / max(size, 1e-9)
        cells = on_simplex(expected + shrunk(table[code] - expected, spread), max(size, 1e-9))
        found[code] = raked(cells, rows, columns)
    return _shares(found, second[:, None, :])


def shrunk(residual: Floats, spread: float) -> Floats:
    """James & Stein's estimate: as much of the residual as is not noise."""
    energy = float((residual**2).sum())
    noise = max(residual.size - 2, 0) * spread**2
    return residual * max(0.0, 1.0 - noise / energy) if energy > 0 else residual


def raked(cells: Floats, rows: Floats, columns: Floats) -> Floats:
    """Cells in proportion, with these margins."""
    cells = cells + 1e-9
    for _ in range(ROUNDS):
        cells *= (rows / np.maximum(cells.sum(axis=1), 1e-12))[:, None]
        cells *= (columns / np.maximum(cells.sum(axis=0), 1e-12))[None, :]
        if np.abs(cells.sum(axis=1) - rows).sum() <= 1e-6 * max(rows.sum(), 1e-9):
            break
    return cells


def _shares(found: Floats, instead: Floats) -> Floats:
    """Rows that sum to one along the last axis; `instead` where nothing is left."""
    total = found.sum(axis=-1, keepdims=True)
    return np.where(total > 1e-12, found / np.maximum(total, 1e-12), np.broadcast_to(instead, found.shape))


# Draw rows from a fitted model: class, then every column given the class and the columns it depends on.
#
# Everything here is noisy or public. The table is not needed, and any number of rows may be drawn.


class ModelColumn(NamedTuple):
    """One column of the model: its bins, P(bin | class), the coarser bins of its pairs, and of those the rough ones of
    tables of three."""

    fine: FineColumn
    bins: Bins
    shares: Floats
    coarse: Bins | None = None
    rough: Bins | None = None

    @property
    def joint(self) -> Bins:
        """Coarse bins of bins, where the column takes part in a pair."""
        return self.coarse or Bins.each(self.bins.count)

    @property
    def rough_of_joint(self) -> Bins:
        """Rough bins of coarse bins, where the column takes part in a table of three."""
        return self.rough or Bins.each(self.joint.count)

    def as_parent(self, place: int) -> Bins:
        """The bins of bins that a child looks at: its first parent's are finer than its second's."""
        return self.joint if place == 0 else self.joint.then(self.rough_of_joint)

    @property
    def joint_shares(self) -> Floats:
        return np.asarray(self.joint.sums(self.shares, axis=1))


@dataclass(frozen=True)
class DrawnModel:
    """P(class), and P(bin | class, coarse bins of the parents) of every column, parents first."""

    encoding: Encoding
    classes: int
    rows: int
    sizes: Floats
    columns: list[ModelColumn]
    nodes: list[Node]
    tables: dict[int, Floats]

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[Matrix, Codes]:
        of_classes, laws = self._laws
        classes = of_classes.draw(np.zeros(rows, dtype=np.int64), rng)
        X = np.empty((rows, self.encoding.width), order="F")
        seen: dict[tuple[int, int], Codes] = {}
        wanted = {(parent, place) for node in self.nodes for place, parent in enumerate(node.parents)}
        for node, (alias, starts, widths) in zip(self.nodes, laws, strict=True):
            one, states = self.columns[node.column], classes
            for place, parent in enumerate(node.parents):
                states = states * self.columns[parent].as_parent(place).count + seen[parent, place]
            drawn = alias.draw(states, rng)
            for place in (0, 1):
                if (node.column, place) in wanted:
                    seen[node.column, place] = one.as_parent(place).of[drawn]
            one.fine.place(starts[drawn], widths[drawn], drawn == one.bins.count - 1, X, rng)
        return X, classes

    @cached_property
    def _laws(self) -> tuple[Alias, list[tuple[Alias, Floats, Floats]]]:
        """Made once, however many blocks are drawn: how to draw the class and each column's bin, and for every bin its
        first fine cell and their number."""
        found = []
        for node in self.nodes:
            of = self.columns[node.column].bins.of
            _, starts, widths = np.unique(of, return_index=True, return_counts=True)
            found.append((Alias.of(self.conditional(node)), starts.astype(np.float64), widths.astype(np.float64)))
        return Alias.of(self.sizes[None, :] / self.sizes.sum()), found

    def conditional(self, node: Node) -> Floats:
        """P(bin | class, parents' coarse bins): the coarse bin by the table, the bin within it by the column."""
        one = self.columns[node.column]
        if not node.parents:
            return one.shares
        within = one.shares / np.maximum(one.joint_shares, 1e-300)[:, one.joint.of]
        states = math.prod(self.columns[parent].as_parent(place).count for place, parent in enumerate(node.parents))
        table = self.tables[node.column].reshape(self.classes, states, one.joint.count)
        found = (table[:, :, one.joint.of] * within[:, None, :]).reshape(-1, one.bins.count)
        total = found.sum(axis=1, keepdims=True)
        even = np.repeat(one.shares, states, axis=0)
        return np.asarray(np.where(total > 1e-12, found / np.maximum(total, 1e-300), even))


@dataclass(frozen=True)
class Alias:
    """Walker's alias tables: one draw from row `state` of a table of probabilities costs two look-ups."""

    keep: Floats
    other: Codes
    width: int

    @classmethod
    def of(cls, probabilities: Floats) -> Alias:
        """One table for each row of (states, outcomes)."""
        states, width = probabilities.shape
        keep, other = np.ones((states, width)), np.tile(np.arange(width), (states, 1))
        for state in range(states):
            scaled, row, beside = probabilities[state] * width, keep[state], other[state]
            small = [j for j, value in enumerate(scaled) if value < 1.0]
            large = [j for j, value in enumerate(scaled) if value >= 1.0]
            while small and large:
                low, high = small.pop(), large[-1]
                row[low], beside[low] = scaled[low], high
                scaled[high] -= 1.0 - scaled[low]
                if scaled[high] < 1.0:
                    small.append(large.pop())
            row[[*small, *large]] = 1.0
        return cls(keep.ravel(), other.ravel(), width)

    def draw(self, states: Codes, rng: np.random.Generator) -> Codes:
        u = rng.random(len(states))
        u *= self.width
        cell = u.astype(np.int64)
        np.minimum(cell, self.width - 1, out=cell)
        u -= cell
        place = states * self.width + cell
        return np.where(u < self.keep[place], cell, self.other[place])


# A fitted model as plain JSON and back: all of it is noisy or public, so that it may be shared like the release.
#
# A model from outside is checked in every part before rows are drawn from it: nothing in it is run, and nothing in it
# can reach beyond its own tables.


FORMAT, VERSION = "sfumato-nobodys-model", 2
READABLE = (1, VERSION)
"""Version 1 had no column with two parents."""
DAMAGED = "The model of the release was edited or is damaged. Take the folder as `sfumato sanitize` wrote it."
MOST_ROWS = 10**12
MOST_PARENTS = 2


def model_as_dict(model: DrawnModel) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "rows": model.rows,
        "classes": [float(size) for size in model.sizes],
        "columns": [
            {
                "name": one.fine.group.column.name,
                "bins": one.bins.of.tolist(),
                "shares": one.shares.tolist(),
                "coarse": None if one.coarse is None else one.coarse.of.tolist(),
                "rough": None if one.rough is None else one.rough.of.tolist(),
            }
            for one in model.columns
        ],
        "order": [[node.column, list(node.parents)] for node in model.nodes],
        "tables": {str(column): table.tolist() for column, table in sorted(model.tables.items())},
    }


def model_text(found: Mapping[str, Any]) -> str:
    return json.dumps(found, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def model_digest(found: Mapping[str, Any]) -> str:
    """What a card says of its model: releases with the same one were drawn from the same measurements."""
    return hashlib.sha256(model_text(found).encode()).hexdigest()


def model_from_dict(found: Any, encoding: Encoding) -> DrawnModel:
    """The inverse of `model_as_dict`, for the columns of a card."""
    try:
        return _read(found, encoding)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError):
        raise CardError(DAMAGED) from None


def _read(found: Any, encoding: Encoding) -> DrawnModel:
    need(found["format"] == FORMAT and found["version"] in READABLE)
    rows, sizes = found["rows"], _figures(found["classes"], 1)
    need(type(rows) is int and 1 <= rows <= MOST_ROWS)
    need(len(sizes) in (1, max(1, len(encoding.classes))) and math.isfinite(sizes.sum()) and sizes.sum() > 0)
    need(len(found["columns"]) == len(encoding.groups))
    columns = [
        _column(FineColumn(group), one, len(sizes))
        for group, one in zip(encoding.groups, found["columns"], strict=True)
    ]
    nodes = [Node(int(column), tuple(map(int, parents))) for column, parents in found["order"]]
    seen: set[int] = set()
    for node in nodes:
        need(0 <= node.column < len(columns) and node.column not in seen and seen.issuperset(node.parents))
        seen.add(node.column)
    need(len(seen) == len(columns))
    tables = {}
    for node in nodes:
        if node.parents:
            need(len(node.parents) <= MOST_PARENTS and len(set(node.parents)) == len(node.parents))
            sizes_of = [columns[parent].as_parent(place).count for place, parent in enumerate(node.parents)]
            sizes_of.append(columns[node.column].joint.count)
            table = _figures(found["tables"][str(node.column)], 1 + len(sizes_of))
            need(table.shape == (len(sizes), *sizes_of))
            tables[node.column] = table
    return DrawnModel(encoding, len(sizes), rows, sizes, columns, nodes, tables)


def _column(fine: FineColumn, found: Mapping[str, Any], classes: int) -> ModelColumn:
    need(found["name"] == fine.group.column.name)
    bins = read_bins(found["bins"], fine.size)
    shares = _figures(found["shares"], 2)
    need(shares.shape == (classes, bins.count) and bool(np.allclose(shares.sum(axis=1), 1.0)))
    coarse = None if found["coarse"] is None else read_bins(found["coarse"], bins.count)
    given = found.get("rough")
    rough = None if given is None else read_bins(given, bins.count if coarse is None else coarse.count)
    return ModelColumn(fine, bins, shares, coarse, rough)


def read_bins(found: Any, size: int) -> Bins:
    """Every code has a bin, and every bin has a code."""
    of: Codes = np.asarray(found)
    need(of.shape == (size,) and of.dtype == np.int64)
    need(bool((np.unique(of) == np.arange(of.max() + 1)).all()))
    return Bins(of, int(of.max()) + 1)


def _figures(found: Any, dimensions: int) -> Floats:
    values: Floats = np.asarray(found, dtype=np.float64)
    need(values.ndim == dimensions and bool(np.isfinite(values).all()) and bool((values >= 0).all()))
    return values


def need(condition: bool) -> None:
    """Refuse a file's part that cannot be; whoever reads the file says so in a sentence."""
    if not condition:
        raise ValueError("model")
