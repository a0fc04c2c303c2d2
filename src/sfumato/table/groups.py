"""Which encoded columns belong to which source column, and which points they can take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.core.array_types import Floats
from sfumato.core.errors import SchemaError
from sfumato.table.column import MISSING, Column


@dataclass(frozen=True, eq=False, repr=False)
class Group:
    """The encoded columns `start:stop` of one source column.

    `vertices` (m x (stop - start)) are the extreme points of what one cell can become, so the furthest two cells can
    be apart in any norm is the furthest two vertices are:

    - a number: 0 and 1; a constant: 0.5 alone;
    - a number that may be missing, as (value, indicator): (0, 0), (1, 0) and (0.5, 1);
    - a category: the unit vectors.
    """

    column: Column
    start: int
    stop: int
    vertices: Floats

    def __repr__(self) -> str:
        return f"<Group {self.column.name!r}: encoded columns {self.start}:{self.stop}>"

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.stop - self.start

    @property
    def slice(self) -> slice:
        """The encoded columns, to index a matrix with: `X[:, group.slice]`."""
        return slice(self.start, self.stop)

    @property
    def is_onehot(self) -> bool:
        """Exactly one of the encoded columns is 1."""
        return self.column.is_categorical

    @property
    def has_indicator(self) -> bool:
        """The second of two encoded columns says that the cell is empty."""
        return self.column.missing and not self.is_onehot

    @property
    def is_constant(self) -> bool:
        """A number whose bounds coincide, encoded as 0.5."""
        return not self.is_onehot and self.column.bounds[0] == self.column.bounds[1]

    @property
    def levels(self) -> int | None:
        """How many values a number can take that is whole by its kind; None for others and for categories."""
        if self.column.kind not in ("integer", "ordinal", "date"):
            return None
        low, high = self.column.bounds
        return int(high - low) + 1

    @property
    def not_told(self) -> Floats:
        """What stands for a cell that is empty or unknown: "missing" where that can be said, else the middle of all."""
        found: Floats = self.vertices[-1] if self.column.missing else self.vertices.mean(axis=0)
        return found

    @property
    def slots(self) -> tuple[str, ...]:
        """Categories of a one-hot group, the one for empty cells last."""
        categories = self.column.categories or ()
        return (*categories, MISSING) if self.column.missing else categories

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        name = self.column.name
        if self.is_onehot:
            return tuple(f"{name}={slot}" for slot in self.slots)
        return (name, f"{name}?missing") if self.has_indicator else (name,)


def groups_of(columns: tuple[Column, ...]) -> tuple[Group, ...]:
    """One group per private column, side by side in the order of the schema."""
    groups: list[Group] = []
    start = 0
    for column in columns:
        vertices = _vertices(column)
        groups.append(Group(column, start, start + vertices.shape[1], vertices))
        start += vertices.shape[1]
    return tuple(groups)


def _vertices(column: Column) -> Floats:
    if column.kind in ("categorical", "ordinal") and not column.categories:
        raise SchemaError(
            f"Column {column.name!r} is {column.kind} but has no categories. List them in the schema"
            f"{' in their order' if column.kind == 'ordinal' else ''}."
        )
    if column.is_categorical:
        return np.eye(len(column.categories or ()) + int(column.missing))
    low, high = column.bounds
    ends = [0.5] if low == high else [0.0, 1.0]
    if column.missing:
        return np.array([*([end, 0.0] for end in ends), [0.5, 1.0]])
    return np.array([[end] for end in ends])
