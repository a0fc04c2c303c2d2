"""Generalised cells of a release: read, given a value that stands for the set, and the likelihood of their channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.channels import Channel, NotApplicableError
from sfumato.channels.base import passes_on
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import TableError
from sfumato.table import Group, Schema
from sfumato.table.arrays import is_text, plain, text
from sfumato.table.cell_sets import Hierarchy, categories_of, interval_of

UNLIKELY = -14.0
"""Log-likelihood of a value that its cell rules out: one in a million, since tables have mistakes."""
SLACK = 1e-9
NEVER_STATED = "what an audit estimates of generalised cells is never stated on a card"


@dataclass(frozen=True)
class Sets:
    """The generalised cells of one column, in encoded units.

    index: per release row the number of its set, -1 where the cell holds a single value. low, high (sets x width): the
    values that a set allows, slot by slot. counts: rows of each set.
    """

    index: Codes
    low: Matrix
    high: Matrix

    @property
    def counts(self) -> Codes:
        return np.bincount(self.index[self.index >= 0], minlength=len(self.low))

    def take(self, rows: Codes) -> Sets:
        return replace(self, index=self.index[rows])

    def allows(self, x: Matrix) -> Flags:
        """sets x values: whether the set allows it."""
        inside = (x[None] >= self.low[:, None] - SLACK) & (x[None] <= self.high[:, None] + SLACK)
        return np.asarray(inside.all(axis=2))


Cells = Mapping[str, tuple[Sequence[str], Codes]]
"""By column the words that name sets, and of each row the number of its word, -1 where it has none."""


def split_off(
    released: pa.Table, schema: Schema, hierarchies: Mapping[str, Hierarchy], original: pa.RecordBatch
) -> tuple[pa.Table, Cells]:
    """Take generalised cells out of the columns that are text; what names no set stays, for the reader to judge.

    original: some of its rows; a value of theirs stands in the place of the cells until they are encoded.
    """
    cells: dict[str, tuple[Sequence[str], Codes]] = {}
    for column in schema.private:
        array = plain(released[column.name])
        if not is_text(array.type):
            continue
        spelt, hierarchy = text(array, column.name), hierarchies.get(column.name)
        meant: Callable[..., Any] = categories_of if column.kind == "categorical" else interval_of
        words = [word for word in pc.unique(spelt.drop_null()).to_pylist() if word not in (column.categories or ())]
        named = [word for word in words if meant(word, column, hierarchy) is not None]
        if not named:
            continue
        found = pc.index_in(spelt, value_set=pa.array(named, pa.string())).fill_null(-1)
        cells[column.name] = named, np.asarray(found, dtype=np.int64)
        value = text(plain(original.column(column.name)), column.name).drop_null()[0]
        cleaned = pc.if_else(pa.array(cells[column.name][1] >= 0), value, spelt)
        released = released.set_column(released.column_names.index(column.name), column.name, cleaned)
    return released, cells


def sets_of(cells: Cells, groups: Sequence[Group], hierarchies: Mapping[str, Hierarchy]) -> dict[int, Sets]:
    """The sets of every generalised column, by the number of its group."""
    found = {}
    for number, group in enumerate(groups):
        words, index = cells.get(group.column.name, ((), None))
        if index is not None:
            ends = np.array([_ends(word, group, hierarchies.get(group.column.name)) for word in words])
            found[number] = Sets(index, ends[:, 0], ends[:, 1])
    return found


def _ends(word: str, group: Group, hierarchy: Hierarchy | None) -> tuple[list[float], list[float]]:
    column = group.column
    if group.is_onehot:
        flags = categories_of(word, column, hierarchy) or ()
        return [0.0] * group.width, [float(flag) for flag in flags] + [0.0] * (group.width - len(flags))
    interval = interval_of(word, column, hierarchy)
    assert interval is not None
    low, high = column.bounds
    scale = high - low or 1.0
    first, last = (min(max((end - low) / scale, 0.0), 1.0) for end in interval)
    spare = [0.0] * (group.width - 1)
    return [first, *spare], [last, *spare]


def fill_in(Z: Matrix, sets: Mapping[int, Sets], groups: Sequence[Group], population: Matrix) -> None:
    """Put what stands for each set into the release matrix: the mean of the people whom it allows, else its middle."""
    for number, found in sets.items():
        group, there = groups[number], found.index >= 0
        people = population[:, group.slice]
        allowed, middle = found.allows(people), (found.low + found.high) / 2
        count = allowed.sum(axis=1, keepdims=True)
        if middle.shape[1] > 2:
            middle = middle / np.maximum(middle.sum(axis=1, keepdims=True), 1.0)
        points = np.where(count > 0, allowed @ people / np.maximum(count, 1), middle)
        Z[there, group.slice] = points[found.index[there]]


def check_hierarchies(hierarchies: Mapping[str, Hierarchy], schema: Schema) -> None:
    """A hierarchy belongs to a column of the original, and has a line for each of its categories.

    A category without one would be ruled out by every wider word, and people who have it would seem safe.
    """
    for name, hierarchy in hierarchies.items():
        if name not in schema:
            raise TableError(f"The original has no column {name!r}, for which a hierarchy was given.")
        known = frozenset().union(*hierarchy.values())
        categories = schema[name].categories or ()
        if absent := sum(category not in known for category in categories):
            raise TableError(
                f"The hierarchy of {name!r} has a hole: no line for {absent} of the {len(categories)} values of the "
                "original. Every value needs one."
            )


@passes_on("width", "numbers", "fits", "line")
@dataclass(frozen=True)
class Generalised(Channel, on_cards=False):
    """A column of which some cells name a set: f(S | x) is S's share of the rows of all sets that allow x.

    inner: how the column was changed on average, for those who draw a line. single: how its other cells were.
    points: what stands for each set in the release.
    """

    inner: Channel
    single: Channel
    sets: Sets
    points: Matrix
    tag = "generalised"

    @property
    def is_stated(self) -> bool:
        return False

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        """As often as in the release a set, drawn by its likelihood; else a single value."""
        rows_of = np.cumsum(self.sets.allows(x).T * self.sets.counts, axis=1)
        named = (rng.random(len(x)) < np.mean(self.sets.index >= 0)) & (rows_of[:, -1] > 0)
        picked = (rows_of > rng.random((len(x), 1)) * rows_of[:, -1:]).argmax(axis=1)
        found = self.single.draw(x, rng)
        found[named] = self.points[picked[named]]
        return found

    def blurred(self, width: float) -> Channel:
        return replace(self, single=self.single.blurred(width))

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        number = self.set_of(z)
        found = np.empty((len(z), len(x)))
        alone = number < 0
        if alone.any():
            found[alone] = np.maximum(self.single.log_likelihood(z[alone], x), 10 * UNLIKELY)
        allowed, weight = self.sets.allows(x), self.sets.counts[:, None].astype(np.float64)
        in_all = (allowed * weight).sum(axis=0, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.where(allowed & (weight > 0), np.log(weight / in_all), UNLIKELY)
        found[~alone] = log[number[~alone]]
        return found

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        number = self.set_of(z)
        low, high = (np.array(part, dtype=np.float64) for part in self.single.possible(z))
        there = number >= 0
        low[there], high[there] = self.sets.low[number[there]], self.sets.high[number[there]]
        return low, high

    def set_of(self, z: Matrix) -> Codes:
        """The number of the set that each released value stands for, -1 for none."""
        found = np.full(len(z), -1, dtype=np.int64)
        for number, point in enumerate(self.points):
            found[(np.abs(z - point) <= SLACK).all(axis=1)] = number
        return found

    def to_dict(self) -> dict[str, Any]:
        raise NotApplicableError(NEVER_STATED)

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any]) -> Generalised:  # noqa: ARG003
        raise NotApplicableError(NEVER_STATED)
