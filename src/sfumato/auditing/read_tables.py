"""Case from a release of any tool: two tables with the same columns, and no card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.auditing.asked import AuditAsked
from sfumato.auditing.case import Case, People, read_holdout, read_people, sampled, schema_of
from sfumato.auditing.generalised import Sets, check_hierarchies, fill_in, sets_of, split_off
from sfumato.auditing.matching import SAME_ORDER, same_order
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SchemaError, TableError
from sfumato.table import Encoding, Schema, Table, open_table
from sfumato.table.arrays import numbers, plain, text
from sfumato.table.cell_sets import read_hierarchy
from sfumato.table.column import nearest
from sfumato.table.encoding import MISSING_INSTEAD, recode

LARGE = 1_000_000
"""Rows above which a release is read as a sample, in one pass, so that memory does not grow with the table."""
NOT_DECLARED = (
    "No cell of that column is empty in the original, so this is no person's value. If the release blanks cells on "
    "purpose, declare it: `missing: true` for the column in a schema, given with --schema."
)
HEAD = 20_000
"""Rows at the start of both tables that are compared to find out whether these are in the same order."""


def row_count(table: Table) -> int:
    """Rows of a table, counted where it does not say."""
    return sum(batch.num_rows for batch in table.blocks()) if table.rows is None else table.rows


def read_sample(release: Table, rows: int, wanted: Codes) -> tuple[pa.Table, Codes]:
    """These of so many rows and the first ones, in the order of the table, and their places in it."""
    places = np.union1d(wanted, np.arange(min(HEAD, rows)))
    parts, first = [], 0
    for batch in release.blocks():
        here = places[np.searchsorted(places, first) : np.searchsorted(places, first + batch.num_rows)]
        if len(here):
            parts.append(batch.take(pa.array(here - first)))
        first += batch.num_rows
    return pa.Table.from_batches(parts), places


def paired_by_id(original: Table, released: pa.Table, name: str) -> Codes:
    """The original row of every release row (-1: none), by a column that both tables have."""
    for where, names in (("The original", original.names), ("The release", released.column_names)):
        if name not in names:
            raise TableError(f"{where} has no column {name!r}, which --match names. Both tables must carry it.")
    theirs = pa.concat_arrays([text(plain(batch.column(name)), name) for batch in original.blocks()])
    if theirs.null_count or len(pc.unique(theirs)) < len(theirs):
        raise TableError(f"Column {name!r} of the original is empty or the same in several rows, so it says not whose.")
    found = pc.index_in(text(plain(released[name]), name), value_set=theirs).fill_null(-1)
    return np.asarray(found, dtype=np.int64)


def paired_by_file(path: Path | str, release_rows: int, original: Table) -> Codes:
    """The same from a table with the columns `release` and `original`: row numbers, counted from 1.

    Without the column `release`, its rows are those of the release, in order.
    """
    table = open_table(path).read()
    if "original" not in table.column_names:
        raise TableError(f"{path} needs a column `original` (row numbers, from 1), and `release` unless rows are all.")
    told = {"original": np.arange(0), "release": np.arange(release_rows)}
    for name in [name for name in told if name in table.column_names]:
        values, empty = numbers(plain(table[name]), name)
        if empty is not None or (values % 1).any():
            raise TableError(f"{path}: the column `{name}` must hold whole numbers, and no empty cell.")
        told[name] = values.astype(np.int64) - 1
    mine, theirs = told["release"], told["original"]
    if len(mine) != len(theirs):
        raise TableError(
            f"{path} has {len(theirs)} rows, but the release has {release_rows}. Give the column `release` too."
        )
    for what, found, count in (("release", mine, release_rows), ("original", theirs, row_count(original))):
        if len(found) and (found.min() < 0 or found.max() >= count):
            raise TableError(f"{path}: a number in the column `{what}` is no row of it; its rows are 1 to {count:,}.")
    if len(np.unique(mine)) < len(mine):
        raise TableError(f"{path} names a row of the release twice.")
    source = np.full(release_rows, -1, dtype=np.int64)
    source[mine] = theirs
    return source


def case_from_tables(release: Any, options: AuditAsked, rng: np.random.Generator) -> tuple[Case, People | None]:
    """Treat the release as column-wise: every column is its source column, changed in an unknown way.

    With it some people, where the release is so large that a sample was read, and it is unknown whose rows are whose.
    """
    original, release = open_table(options.original), open_table(release)
    notes: list[str] = []
    back = original_names(release.names, original.names, options.columns or {})
    rows = row_count(release)
    wanted = sampled(rows, options.max_rows, rng) if rows > LARGE else None
    released, places = (release.read(), None) if wanted is None else read_sample(release, rows, wanted)
    released = released.rename_columns([back.get(name, name) for name in released.column_names])
    alignment, source = "trace", None
    if options.match is not None or options.mapping is not None:
        alignment, source = _told(original, released, rows, options, notes)
        source = source[places] if alignment == "mapping" and places is not None else source
    encoding, Z, y, sets = _encoded(original, released, options, notes)
    case = Case(
        options=options,
        encoding=encoding,
        original=original,
        Z=Z,
        y=y,
        source=source,
        affine=(np.eye(encoding.width), np.zeros(encoding.width)),
        columnwise=True,
        alignment=alignment,
        notes=notes,
        released=lambda: [released] if wanted is None else _renamed(release, back),
        sets=sets,
        release_rows=rows,
    )
    if wanted is None or places is None:
        return case, None
    return _of_sample(case, places, np.flatnonzero(np.isin(places, wanted)), rng)


def _told(original: Table, released: pa.Table, rows: int, options: AuditAsked, notes: list[str]) -> tuple[str, Codes]:
    """Whose row each is, by a column or by a file, and by which."""
    if options.match is not None:
        source = paired_by_id(original, released, options.match)
        alignment, how = "id", f"by the column {options.match!r}, which both tables carry"
    else:
        assert options.mapping is not None
        source = paired_by_file(options.mapping, rows, original)
        alignment, how = "mapping", "by a file of row numbers"
    if np.count_nonzero(source >= 0) < 2:
        raise TableError("Fewer than two rows of the release are paired with a row of the original: nothing to audit.")
    notes.append(f"Whose row is whose was told {how}; that is so for {np.mean(source >= 0):.0%} of the release.")
    return alignment, source


def _renamed(table: Table, names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    return (batch.rename_columns([names.get(name, name) for name in table.names]) for batch in table.blocks())


def _of_sample(case: Case, places: Codes, chosen: Codes, rng: np.random.Generator) -> tuple[Case, People | None]:
    """The sampled rows alone, with what the first rows of both tables tell of their order."""
    total, people, alignment = row_count(case.original), None, case.alignment
    source = None if case.source is None else case.source[chosen]
    head = np.flatnonzero(places < HEAD)  # row i came from row i of the original, by the first rows of both
    alike = source is None and total == case.release_rows
    if alike and same_order(read_people(case.original, case.encoding, places[head]).X, case.Z[head]):
        case.notes.append(SAME_ORDER)
        source, alignment = places[chosen], "same-order"
    elif source is None:
        case.notes.append(
            "No private match file, and the rows are in another order. The table is too large to be matched: it is "
            "unknown which row is whose. Name an id that both tables carry with --match."
        )
        people = read_people(case.original, case.encoding, sampled(total, case.options.max_rows, rng))
    case.notes.append(
        f"The release has {case.release_rows:,} rows: a random sample of {len(chosen):,} was read, and intervals are "
        "those of the sample. Crowds were counted over all rows."
    )
    y, sets = None if case.y is None else case.y[chosen], {n: found.take(chosen) for n, found in case.sets.items()}
    return replace(case, Z=case.Z[chosen], y=y, sets=sets, source=source, alignment=alignment), people


def original_names(released: Sequence[str], original: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The original's names for renamed columns of the release; refuses a release that has none of its columns."""
    for old, new in columns.items():
        if old not in original:
            raise TableError(
                f"The original has no column {old!r}, which --columns names.{nearest(old, list(original))}"
            )
        if new not in released:
            raise TableError(f"The release has no column {new!r}, which --columns names.{nearest(new, list(released))}")
    back = {new: old for old, new in columns.items()}
    names = [back.get(name, name) for name in released]
    if twice := [name for name in names if names.count(name) > 1]:
        raise TableError(f"The release has two columns for {twice[0]!r} of the original. Correct --columns.")
    if not set(names) & set(original):
        raise TableError(
            "The release has no column of the original. If its columns were renamed, say so: --columns old=new."
        )
    return back


def _encoded(
    original: Table, released: pa.Table, options: AuditAsked, notes: list[str]
) -> tuple[Encoding, Matrix, Codes | None, dict[int, Sets]]:
    """How the columns that both tables have are encoded, the encoded release with its labels, and generalised cells.

    Bounds are the original's alone: noise widens the range of a release, and a guess would then count as near that is
    not near on the scale of the people. Categories are the release's too; empty cells must be the original's own kind.
    """
    schema = _shared(original, released, options, notes)
    hierarchies = {name: read_hierarchy(path) for name, path in (options.hierarchies or {}).items()}
    check_hierarchies(hierarchies, schema)
    single, cells = split_off(released, schema, hierarchies, next(iter(original.blocks())))
    columns = []
    for column in schema.columns:
        if column.name in single.column_names and column.kind == "categorical" and column.categories is not None:
            words = pc.unique(text(plain(single[column.name]), column.name).drop_null()).to_pylist()
            more = sorted(set(words) - set(column.categories))
            column = replace(column, categories=(*column.categories, *more))
        columns.append(column)
    encoding = Encoding(Schema(tuple(columns)))
    y, label, sets = None, schema.label, sets_of(cells, encoding.groups, hierarchies)
    if label is not None and label.name in single.column_names:
        y = encoding.encode_label(single)
    elif label is not None:
        notes.append(f"The release does not contain the label {label.name!r}.")
    Z = recode(encoding, single, why=NOT_DECLARED)
    notes.append(
        "No card: the release is taken column by column, and the attackers are given the actual strength of the "
        "change (normal noise, randomized response)."
    )
    if sets:
        similar = original if options.holdout is None else open_table(options.holdout)
        fill_in(Z, sets, encoding.groups, read_holdout(similar, encoding, MISSING_INSTEAD)[0].X)
        notes.append(
            f"Some cells of the release name several values ({', '.join(cells)}): the adversaries take each for the "
            "set of these values. What stands for a set is the mean of similar people whose value it allows."
        )
    return encoding, Z, y, sets


def _shared(original: Table, released: pa.Table, options: AuditAsked, notes: list[str]) -> Schema:
    """The columns that both tables have and that can be audited; the notes name the others."""
    schema = schema_of(original, options.schema, options.label)
    absent = [column.name for column in schema.private if column.name not in released.column_names]
    if absent:
        notes.append(
            f"Columns of the original that the release does not have were left out: {', '.join(absent[:20])}. What it "
            "tells of them through the other columns was not tried."
        )
    extra = [name for name in released.column_names if name not in (*schema.names, options.match)]
    if extra:
        notes.append(f"Columns of the release that the original does not have were ignored: {', '.join(extra[:20])}.")
    schema = Schema(tuple(column for column in schema.columns if column.name not in (*absent, options.match)))
    if schema.dropped:
        notes.append(f"Columns that cannot be audited were ignored: {', '.join(schema.dropped[:20])}.")
    if not schema.private:
        raise SchemaError("No column is left to audit: the release shares none that can be audited with the original.")
    return Schema(tuple(column for column in schema.columns if column.role in ("private", "label")))
