"""A table as a matrix with entries in [0, 1], and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.core.array_types import Codes, Flags, Floats, Hashes
from sfumato.core.errors import SchemaError, TableError
from sfumato.table import arrays
from sfumato.table.cell_sets import person_codes, person_hashes
from sfumato.table.column import Column, interval_names
from sfumato.table.filling import (
    BLIND,
    MISSING_INSTEAD,
    NOT_TOLD,
    REFUSE,
    UNKNOWN_WAYS,
    codes_of,
    column_of,
    fill_numbers,
    fill_onehot,
    numbers_of,
)
from sfumato.table.schema import Group, Schema, groups_of

# Encoded columns back to a source column.


def decode_group(group: Group, X: Floats, like_original: bool, *, overwrite: bool = False) -> pa.Array:
    """One source column from its encoded columns, which may hold any numbers. NaN is a cell that is not reported.

    With `overwrite` the raw numbers may take the place of the encoded ones.
    """
    if group.is_onehot:
        codes, categories = X.argmax(axis=1), group.column.categories or ()
        empty = (codes == len(categories)) | np.isnan(X).any(axis=1)
        places = pa.array(codes, pa.int64(), mask=empty if empty.any() else None)
        return arrays.typed_categories(categories).take(places)
    low, high = group.column.bounds
    raw = np.multiply(X[:, 0], high - low, out=X[:, 0] if overwrite else None)
    raw += low
    if not (like_original or group.has_indicator or group.column.kind == "date") and not np.isnan(raw.sum()):
        return pa.array(raw, pa.float64())  # the most frequent kind by far, with no mask to make
    empty = np.isnan(raw)
    if group.has_indicator:
        empty |= X[:, 1] > 0.5
    mask = empty if empty.any() else None
    if like_original:
        return _like_original(group, np.clip(np.where(empty, low, raw), low, high), mask)
    if group.column.kind == "date":  # time stamps; what noise pushed out of the calendar stays at its ends
        days = np.clip(np.where(empty, low, raw), arrays.FIRST_DAY, arrays.LAST_DAY)
        micro = np.rint(days * (arrays.DAY * 1e6)).astype(np.int64)
        return pa.array(micro, pa.int64(), mask=mask).cast(pa.timestamp("us"))
    return pa.array(raw, pa.float64(), mask=mask)


def _like_original(group: Group, raw: Floats, mask: Flags | None) -> pa.Array:
    """Raw numbers within bounds, cast to the column's kind."""
    kind = group.column.kind
    if kind == "numeric":
        return pa.array(raw, pa.float64(), mask=mask)
    whole = np.rint(raw).astype(np.int64)
    if kind == "integer":
        return pa.array(whole, pa.int64(), mask=mask)
    if kind == "date":
        return pa.array(whole.astype(np.int32), pa.int32(), mask=mask).cast(pa.date32())
    return arrays.typed_categories(group.column.categories or ()).take(pa.array(whole, mask=mask))


class Encoded(NamedTuple):
    """Encoded rows, and how many cells of each column (only columns with any) were clipped to its bounds.

    `unfit`: cells that fit no category of the schema and were taken as missing, by column as well. `ends`: the smallest
    and the largest value of each column of numbers or dates, in raw units and before anything was clipped.
    """

    X: Floats
    clipped: dict[str, int]
    unfit: dict[str, int]
    ends: dict[str, tuple[float, float]]


class Encoding:
    """Maps the private columns of a schema to encoded columns (a fixed, public function once the schema is).

    With bounds l < h a number, integer or date x becomes (x - l) / (h - l); a constant becomes 0.5; an ordinal of k
    categories its rank / (k - 1); a category a one-hot vector. A number that may be missing gets a second column:
    (value, 0), or (0.5, 1) for an empty cell; a category that may be missing gets one more slot.

    >>> encoding = Encoding(Schema((Column("age", "integer", low=0, high=100),)))
    >>> encoding.encode(pa.record_batch({"age": [25, 50]})).X.tolist()
    [[0.25], [0.5]]
    """

    def __init__(self, schema: Schema) -> None:
        if not schema.private:
            raise SchemaError("The schema has no private column, so there is nothing to release. Check its roles.")
        label = schema.label
        if label is not None and label.categories is None:
            raise SchemaError(
                f"The column to predict {label.name!r} has no categories. List its classes in the schema."
            )
        self.schema = schema
        self.groups: tuple[Group, ...] = groups_of(schema.private)
        self.width: int = self.groups[-1].stop
        self.names: tuple[str, ...] = tuple(name for group in self.groups for name in group.names)
        self.classes: tuple[str, ...] = () if label is None else label.categories or ()

    @classmethod
    def unit(cls, d: int, public: bool = False) -> Encoding:
        """d numeric columns c000, c001, ... that lie in [0, 1] already."""
        source, reason = ("public", "defined on the unit interval") if public else ("learned", None)
        return cls(
            Schema(
                tuple(Column(f"c{j:03d}", "numeric", low=0.0, high=1.0, source=source, reason=reason) for j in range(d))
            )
        )

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the private columns whose bounds or categories were learned from the data."""
        return self.schema.learned

    @cached_property
    def scale(self) -> Floats:
        """Raw units per encoded unit (d,): h - l for numbers (0 for a constant), 1 for one-hot slots and indicators."""
        scale = np.ones(self.width)
        for group in self.groups:
            if not group.is_onehot:
                low, high = group.column.bounds
                scale[group.start] = high - low
        scale.flags.writeable = False  # it is asked for column by column, and so computed once
        return scale

    def encode(
        self,
        batch: pa.RecordBatch | pa.Table,
        out_of_bounds: str = "clip",
        *,
        unknown: str = REFUSE,
        first_row: int = 0,
        out: Floats | None = None,
    ) -> Encoded:
        """Encode one block (n, d). Values outside the bounds are clipped and counted, or refused.

        With `unknown="missing"` a category that the schema does not list (or an empty cell in its place) is counted
        and encoded as missing: by the slot for it, or by the middle of the column where it has none.

        `first_row` is the number of rows before this block; error messages count rows from 1 over the whole table.
        `out` is a matrix of at least n rows to write into: memory that was used before is faster than new memory.
        """
        _check_ways(out_of_bounds, unknown)
        X = np.empty((batch.num_rows, self.width)) if out is None else out[: batch.num_rows]
        clipped, unfit, ends = dict[str, int](), dict[str, int](), dict[str, tuple[float, float]]()
        numeric: list[tuple[int, Floats, float, float]] = []
        empties: list[tuple[Group, Flags]] = []
        for group in self.groups:
            array = column_of(batch, group.column.name)
            name = group.column.name
            if group.is_onehot:
                unfit[name] = fill_onehot(X, group, array, first_row, unknown)
                continue
            values, empty, clipped[name], unfit[name], found = numbers_of(group, array, first_row, unknown)
            if found is not None:
                ends[name] = found
            low, high = group.column.bounds
            if low == high:
                X[:, group.start] = 0.5
            else:
                numeric.append((group.start, values, low, high - low))
            if group.has_indicator:
                X[:, group.start + 1] = 0.0
            if empty is not None:
                empties.append((group, empty))
        clipped, unfit = ({name: count for name, count in one.items() if count} for one in (clipped, unfit))
        if clipped and out_of_bounds == "refuse":
            counts = ", ".join(f"{name!r} in {count} row{'s' * (count > 1)}" for name, count in clipped.items())
            raise TableError(
                f"Values lie outside the schema's bounds: {counts}. Widen the bounds, or let values be clipped."
            )
        fill_numbers(X, numeric)
        for group, empty in empties:
            X[empty, group.slice] = group.not_told
        return Encoded(X, clipped, unfit, ends)

    def encode_label(
        self, batch: pa.RecordBatch | pa.Table, *, unknown: str = REFUSE, may_be_empty: bool = False, first_row: int = 0
    ) -> Codes:
        """Codes of the labels: positions in `classes`; `UNLISTED` and `NOT_TOLD` where such cells are let through."""
        label = self.schema.label
        if label is None:
            raise SchemaError(
                "The schema has no column to predict. Name it with --label, or give one column `role: label`."
            )
        array = column_of(batch, label.name)
        return codes_of(label, array, first_row, unknown, may_be_empty=may_be_empty)[0]

    def decode(self, X: npt.ArrayLike, like_original: bool = False, *, overwrite: bool = False) -> pa.Table:
        """Source columns in raw units. Numbers are neither clipped nor rounded (an ordinal becomes its rank, a date a
        time stamp), categories are the slot with the largest entry, an indicator above 0.5 makes the cell empty.

        With `like_original` numbers are clipped to their bounds, integers, dates and ordinals rounded and cast to what
        they were: post-processing, which no guarantee suffers from. With `overwrite` X is lost, and memory is saved.
        """
        matrix = np.asarray(X, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != self.width:
            raise TableError(
                f"The matrix to decode must have {self.width} columns. Got the shape {matrix.shape} instead."
            )
        columns = [
            decode_group(group, matrix[:, group.slice], like_original, overwrite=overwrite) for group in self.groups
        ]
        return pa.Table.from_arrays(columns, names=[group.column.name for group in self.groups])

    def decode_label(self, codes: npt.ArrayLike, like: pa.DataType | None = None) -> pa.Array:
        """Labels of the codes: numbers or truth values where all classes are spelt so, else text; always text where
        they are to be compared with a column `like` that."""
        as_text = like is not None and arrays.is_text(arrays.plain(pa.nulls(0, like)).type)
        classes = pa.array(self.classes, pa.string()) if as_text else arrays.typed_categories(self.classes)
        return classes.take(pa.array(np.asarray(codes, dtype=np.int64)))

    def person_codes(self, batch: pa.RecordBatch | pa.Table, *, first_row: int = 0) -> npt.NDArray[np.uint64]:
        """Who each row belongs to, as keyed 64-bit hashes that mean nothing outside this process."""
        return person_codes(*self._people(batch), first_row)

    def person_hashes(
        self, batch: pa.RecordBatch | pa.Table, key: bytes, *, first_row: int = 0
    ) -> tuple[Hashes, Hashes]:
        """Who each row belongs to, as 128-bit hashes under a key of the owner's; the second ones as version 0.1.0
        made them."""
        return person_hashes(*self._people(batch), first_row, key)

    def _people(self, batch: pa.RecordBatch | pa.Table) -> tuple[pa.Array, str]:
        person = self.schema.person
        if person is None:
            raise SchemaError("The schema has no person column. Give one column `role: person`.")
        return column_of(batch, person.name), person.name

    def to_dict(self) -> dict[str, Any]:
        """The schema: an encoding is nothing more."""
        return self.schema.to_dict()

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Encoding:
        """The encoding of a schema that was written with `to_dict`."""
        return cls(Schema.from_dict(found))

    def fingerprint(self) -> str:
        """SHA-256 of what defines the map: equal for two sites that encode alike, whatever reasons they give."""
        label, map_ = self.schema.label, []
        for c in (*self.schema.private, *(() if label is None else (label,))):
            map_.append([c.name, c.kind, c.low, c.high, list(c.categories or ()), c.missing])
            # Where intervals have names of their own, the names do not tell where numbers are cut.
            if c.edges is not None and c.categories != interval_names(c.edges):
                map_[-1].append(list(c.edges))
        target = self.schema.target
        if target is not None:
            map_.append([target.name, "target"])
        canonical = json.dumps([map_, label is not None], separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoding) and self.schema == other.schema

    def __hash__(self) -> int:
        return hash(self.schema)

    def __repr__(self) -> str:
        return f"<Encoding of {len(self.groups)} columns as {self.width}>"


def _check_ways(out_of_bounds: str, unknown: str) -> None:
    if out_of_bounds not in ("clip", "refuse"):
        raise ValueError(f"The 'out_of_bounds' parameter must be 'clip' or 'refuse'. Got {out_of_bounds!r} instead.")
    if unknown not in (*UNKNOWN_WAYS, BLIND):
        raise ValueError(f"The 'unknown' parameter must be one of {UNKNOWN_WAYS}. Got {unknown!r} instead.")


# A column-wise release back to a matrix: the inverse of `Encoding.decode`, without bounds.


NOT_ON_CARD = (
    "Its card does not say that cells can be missing there: the release was changed or damaged. Get it again from "
    "whoever made it."
)


def recode(
    encoding: Encoding,
    released: pa.Table,
    *,
    ranks: bool = False,
    unreported: Collection[str] = (),
    why: str | None = NOT_ON_CARD,
    first_row: int = 0,
) -> Floats:
    """Encoded units of released cells; noise may have carried them anywhere, so nothing is clipped.

    An empty cell is read as missing where the column can be. Anywhere else it is refused: read as the middle of its
    range, as it would have to be, every learner and attack would believe it. `why` ends the message; None: whoever only
    guesses may leave cells open. In columns that are `unreported` in part, an empty cell is NaN: there is nothing to
    read.

    Numbers in an ordinal column are `ranks` after noise; else they are ranks only if they are no categories.
    `first_row` is the number of rows before this block, for messages.
    """
    X = np.zeros((released.num_rows, encoding.width))
    for group in encoding.groups:
        name, array = group.column.name, arrays.plain(column_of(released, group.column.name))
        if group.is_onehot:
            codes = _codes(group, array, first_row)
            empty: Flags | None = codes == NOT_TOLD
            told = np.flatnonzero(codes != NOT_TOLD)
            X[told, group.start + codes[told]] = 1.0
        else:
            values, empty = arrays.checked(_raw(group, array, first_row, ranks), name, first_row)
            low, high = group.column.bounds
            X[:, group.start] = 0.5 if low == high else (values - low) / (high - low)
        if empty is not None and empty.any():
            if name not in unreported and not group.column.missing and why is not None:
                raise unstated(name, first_row + int(empty.argmax()) + 1, why)
            X[empty, group.slice] = np.nan if name in unreported else group.not_told
    return X


def unstated(name: str, row: int, why: str = NOT_ON_CARD) -> TableError:
    """A released cell that is empty although nothing says that cells of its column can be."""
    return TableError(f"Column {name!r} of the release is empty in row {row} (or does not hold a number). {why}")


def _raw(group: Group, array: pa.Array, first_row: int, ranks: bool) -> arrays.Values:
    column = group.column
    if column.kind == "date":
        return arrays.day_numbers(array, column.name, first_row)
    if column.kind != "ordinal":
        return arrays.numbers(array, column.name, first_row)
    if arrays.is_number(array.type) and (
        ranks or codes_of(column, array, first_row, MISSING_INSTEAD, may_be_empty=True)[1]
    ):
        return arrays.numbers(array, column.name, first_row)
    codes = _codes(group, array, first_row)
    empty = codes == NOT_TOLD
    return arrays.Values(np.where(empty, 0, codes).astype(np.float64), empty if empty.any() else None)


def _codes(group: Group, array: pa.Array, first_row: int) -> Codes:
    """Positions of released categories; one that is not listed is refused, an empty cell is `NOT_TOLD`."""
    return codes_of(group.column, array, first_row, may_be_empty=True)[0]
