"""A table as a matrix with entries in [0, 1], and back."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.array_types import Codes, Flags, Floats
from sfumato.core.errors import SchemaError, TableError
from sfumato.core.wording import counted, said
from sfumato.table import arrays
from sfumato.table.column import Column, cut, interval_names, nearest
from sfumato.table.infer import TableWarning
from sfumato.table.schema import Group, Schema, groups_of

# Cells that fit no category of a schema, told by column and number; their words stay where they are.

REFUSING = " To refuse them instead: --unknown refuse."


class UnknownCategoryWarning(TableWarning):
    """Rows hold categories or classes that were not there before."""


def unfit_in_words(unfit: Mapping[str, int], whose: str) -> str:
    """Which columns hold categories that `whose` rows do not have, and in how many cells; "" for none."""
    columns = ", ".join(f"{name} ({counted(count, 'cell')})" for name, count in unfit.items())
    return f"Categories that {whose} does not have were treated as missing: {columns}." if unfit else ""


def warn_of_unfit(unfit: Mapping[str, int], whose: str, instead: str = REFUSING, stacklevel: int = 2) -> None:
    """The same as a warning, with the way to refuse such rows."""
    if words := unfit_in_words(unfit, whose):
        warnings.warn(f"{words}{instead}", UnknownCategoryWarning, stacklevel=stacklevel + 1)


REFUSE, MISSING_INSTEAD = "refuse", "missing"
BLIND = "blind"
"""Like "missing", and no cell of any column is refused: whether there is one that does not fit stays untold. It is
no choice of the user's, but what a claim about presence needs."""
UNKNOWN_WAYS = (MISSING_INSTEAD, REFUSE)
"""What is done with a category that the schema does not list; an empty cell where none is expected counts as one."""

NOT_TOLD, UNLISTED = -1, -2
"""Codes of an empty cell, and of one whose category is not listed."""

TILE = 4096
"""Rows that are moved from columns to the matrix at a time: a tile of 100 columns stays in a core's own cache."""


def column_of(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    """One column of a block, contiguous."""
    position = batch.schema.get_field_index(name)
    if position < 0:
        raise SchemaError(
            f"The table has no column {name!r}, which the schema names.{nearest(name, batch.schema.names)}"
        )
    return arrays.plain(batch.column(position))


class Numbers(NamedTuple):
    """Raw numbers within the bounds, where cells are empty (None: nowhere), and how many were out of bounds. `unfit`:
    cells of an ordinal that fit none of its categories and count as empty. `ends`: the smallest and the largest number
    as they stand in the table, where there are any."""

    values: Floats
    empty: Flags | None
    outside: int = 0
    unfit: int = 0
    ends: tuple[float, float] | None = None


def numbers_of(column: Column, array: pa.Array, first_row: int, unknown: str = REFUSE) -> Numbers:
    """The cells of a column that is encoded as a number."""
    if column.kind == "ordinal":
        codes, unfit = codes_of(column, array, first_row, unknown)
        return Numbers(*ranks_of(codes), unfit=unfit)
    low, high = column.bounds
    if unknown == BLIND and arrays.is_text(arrays.plain(array).type):
        array = (arrays.parsed_dates if column.kind == "date" else arrays.parsed_numbers)(array)
    found = raw_numbers(column, array, first_row)
    values = found.numbers
    if len(values) == 0:
        return Numbers(values, None)
    # Two reductions over clean data are cheaper than masks over every cell; NaN fails both comparisons.
    if found.empty is None and (least := values.min()) >= low and (most := values.max()) <= high:
        return Numbers(values, None, ends=(float(least), float(most)))
    if unknown == BLIND:
        found = found._replace(numbers=np.nan_to_num(values, nan=np.nan))  # what is infinite is clipped
    values, empty = arrays.checked(found, column.name, first_row)
    told = values
    if empty is not None:
        if not column.missing and unknown != BLIND:
            raise _unexpected_empty(column, empty, first_row)
        told, values = values[~empty], np.where(empty, low, values)
    outside = int(np.count_nonzero((values < low) | (values > high)))
    ends = (float(told.min()), float(told.max())) if len(told) else None
    return Numbers(np.clip(values, low, high) if outside else values, empty, outside, ends=ends)


def raw_numbers(column: Column, array: pa.Array, first_row: int) -> arrays.Values:
    """The cells of a column of numbers or dates, whatever its bounds are."""
    read = arrays.day_numbers if column.kind == "date" else arrays.numbers
    return read(array, column.name, first_row)


def ranks_of(codes: Codes) -> arrays.Values:
    """Positions of an ordinal's categories as numbers."""
    empty = codes < 0
    return arrays.Values(np.where(empty, 0, codes).astype(np.float64), empty if empty.any() else None)


def fill_numbers(X: Floats, numeric: list[tuple[int, Floats, float, float]]) -> None:
    """Write (x - l) / (h - l) of many columns into the matrix; into a row-major one, tile by tile."""
    if X.strides[0] == X.itemsize:  # columns lie together: nothing has to be transposed
        for position, values, low, width in numeric:
            column = np.subtract(values, low, out=X[:, position])
            column /= width
        return
    scratch = np.empty(TILE)
    for start in range(0, len(X), TILE):
        tile = X[start : start + TILE]
        buffer = scratch[: len(tile)]
        for position, values, low, width in numeric:
            piece = values[start : start + TILE]
            if low != 0.0:
                piece = np.subtract(piece, low, out=buffer)
            if width != 1.0:
                piece = np.divide(piece, width, out=buffer)
            tile[:, position] = piece


def fill_onehot(X: Floats, group: Group, array: pa.Array, first_row: int, unknown: str = REFUSE) -> int:
    """Write the slots of a categorical column; returns how many cells did not fit and were taken as missing."""
    codes, unfit = codes_of(group.column, array, first_row, unknown)
    told = codes >= 0
    X[:, group.slice] = 0.0
    if told.all():
        X[np.arange(len(codes)), group.start + codes] = 1.0
        return unfit
    X[np.flatnonzero(told), group.start + codes[told]] = 1.0
    X[~told, group.slice] = group.not_told
    return unfit


def codes_of(
    column: Column, array: pa.Array, first_row: int, unknown: str = REFUSE, *, may_be_empty: bool | None = None
) -> tuple[Codes, int]:
    """Positions of cells in the list of categories, `NOT_TOLD` where a cell is empty, and how many cells do not fit. A
    category that is not listed, and an empty cell of a column that has none, is refused, or with `unknown="missing"`
    let through as `UNLISTED` and `NOT_TOLD`. `may_be_empty` is what the column says, unless given."""
    may_be_empty = column.missing if may_be_empty is None else may_be_empty
    if column.edges is not None:
        array = cut(array, column.edges, column.categories or (), column.name)
    words = arrays.text(array, column.name)
    found = pc.index_in(words, value_set=pa.array(column.categories or (), pa.string()))
    if found.null_count == 0:
        return np.asarray(arrays.as_numpy(found), dtype=np.int64), 0
    empty = arrays.as_numpy(words.is_null())
    strange = arrays.as_numpy(pc.and_(words.is_valid(), found.is_null()))
    if unknown == REFUSE and strange.any():
        what = "class" if column.role == "label" else "category"
        raise TableError(
            "Column {name!r} holds a {what} that the schema does not list, first in row {row}. Add it to "
            "the schema's categories, or correct the table.",
            name=column.name,
            what=said(what),
            row=first_row + int(strange.argmax()) + 1,
        )
    if unknown == REFUSE and not may_be_empty and empty.any():
        raise _unexpected_empty(column, empty, first_row)
    unfit = int(np.count_nonzero(strange)) + (0 if may_be_empty else int(np.count_nonzero(empty)))
    codes = np.array(arrays.as_numpy(found.fill_null(NOT_TOLD)), dtype=np.int64)
    codes[strange] = UNLISTED
    return codes, unfit


def _unexpected_empty(column: Column, empty: Flags, first_row: int) -> TableError:
    sentence = "The column to predict {name!r} is missing in row {row}. Remove such rows first."
    if column.role != "label":
        sentence = (
            "Column {name!r} is empty in row {row}, but the schema does not allow it. Set `missing: true` "
            "for the column in the schema, or fill the cell."
        )
    return TableError(sentence, name=column.name, row=first_row + int(empty.argmax()) + 1)


# Encoded columns back to a source column.


def decode_group(group: Group, X: Floats, like_original: bool, *, overwrite: bool) -> pa.Array:
    """One source column from its encoded columns, which may hold any numbers. NaN is a cell that is not reported. With
    `overwrite` the raw numbers may take the place of the encoded ones."""
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
    if group.column.kind == "date" and not like_original:
        # time stamps; what noise pushed out of the calendar stays at its ends
        days = np.clip(np.where(empty, low, raw), arrays.FIRST_DAY, arrays.LAST_DAY)
        micro = np.rint(days * (arrays.DAY * 1e6)).astype(np.int64)
        return pa.array(micro, pa.int64(), mask=mask).cast(pa.timestamp("us"))
    if like_original:
        return _as_kind(group.column, np.clip(np.where(empty, low, raw), low, high), mask)
    return pa.array(raw, pa.float64(), mask=mask)


def _as_kind(column: Column, raw: Floats, mask: Flags | None) -> pa.Array:
    """Raw numbers within bounds, cast to the column's kind."""
    if column.kind == "numeric":
        return pa.array(raw, pa.float64(), mask=mask)
    whole = pa.array(np.rint(raw).astype(np.int64), mask=mask)
    if column.kind == "date":
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole if column.kind == "integer" else arrays.typed_categories(column.categories or ()).take(whole)


class Encoded(NamedTuple):
    """Encoded rows, and how many cells of each column (only columns with any) were clipped to its bounds. `unfit`:
    cells that fit no category of the schema and were taken as missing, by column as well. `ends`: the smallest and the
    largest value of each column of numbers or dates, in raw units and before anything was clipped."""

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
            name = group.column.name
            array = column_of(batch, name)
            if group.is_onehot:
                unfit[name] = fill_onehot(X, group, array, first_row, unknown)
                continue
            values, empty, clipped[name], unfit[name], found = numbers_of(group.column, array, first_row, unknown)
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
        time stamp), categories are the slot with the largest entry, an indicator above 0.5 makes the cell empty. With
        `like_original` numbers are clipped to their bounds, integers, dates and ordinals rounded and cast to what they
        were: post-processing, which no guarantee suffers from. With `overwrite` X is lost, and memory is saved."""
        matrix = np.asarray(X, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != self.width:
            raise TableError(
                f"The matrix to decode must have {self.width} columns. Got the shape {matrix.shape} instead."
            )
        made = [decode_group(one, matrix[:, one.slice], like_original, overwrite=overwrite) for one in self.groups]
        return pa.Table.from_arrays(made, names=[group.column.name for group in self.groups])

    def decode_label(self, codes: npt.ArrayLike, like: pa.DataType | None = None) -> pa.Array:
        """Labels of the codes: numbers or truth values where all classes are spelt so, else text; always text where
        they are to be compared with a column `like` that."""
        as_text = like is not None and arrays.is_text(arrays.plain(pa.nulls(0, like)).type)
        classes = pa.array(self.classes, pa.string()) if as_text else arrays.typed_categories(self.classes)
        return classes.take(pa.array(np.asarray(codes, dtype=np.int64)))

    def people(self, batch: pa.RecordBatch | pa.Table) -> tuple[pa.Array, str]:
        """The column that says who each row belongs to, and its name."""
        person = self.schema.person
        if person is None:
            raise SchemaError("The schema has no person column. Give one column `role: person`.")
        return column_of(batch, person.name), person.name

    def fingerprint(self) -> str:
        """SHA-256 of what defines the map: equal for two sites that encode alike, whatever reasons they give."""
        label, map_ = self.schema.label, []
        for c in (*self.schema.private, *(() if label is None else (label,))):
            map_.append([c.name, c.kind, c.low, c.high, list(c.categories or ()), c.missing])
            # Where intervals have names of their own, the names do not tell where numbers are cut.
            if c.edges is not None and c.categories != interval_names(c.edges):
                map_[-1].append(list(c.edges))
        if self.schema.target is not None:
            map_.append([self.schema.target.name, "target"])
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
            codes, _ = codes_of(group.column, array, first_row, may_be_empty=True)  # one not listed is refused
            empty: Flags | None = codes == NOT_TOLD
            told = np.flatnonzero(codes != NOT_TOLD)
            X[told, group.start + codes[told]] = 1.0
        else:
            values, empty = arrays.checked(_raw(group.column, array, first_row, ranks), name, first_row)
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


def _raw(column: Column, array: pa.Array, first_row: int, ranks: bool) -> arrays.Values:
    if column.kind != "ordinal":
        return raw_numbers(column, array, first_row)
    if arrays.is_number(array.type) and (
        ranks or codes_of(column, array, first_row, MISSING_INSTEAD, may_be_empty=True)[1]
    ):
        return arrays.numbers(array, column.name, first_row)
    return ranks_of(codes_of(column, array, first_row, may_be_empty=True)[0])
