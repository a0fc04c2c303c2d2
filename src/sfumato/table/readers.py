"""Open a table: Parquet, Arrow and CSV files, those of statistics programs, data frames and SQL queries."""

from __future__ import annotations

import glob
import os
import re
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, ClassVar
from urllib.parse import unquote

import pyarrow as pa

from sfumato.core.errors import TableError, UsageError
from sfumato.core.wording import counted
from sfumato.table.csv_table import RANKS, CsvTable, Dialect
from sfumato.table.spreadsheet import SHEETS, read_sheet
from sfumato.table.statistical import READERS, SqlQuery, SqlTable, read_statistical
from sfumato.table.tables import FileMark, MemoryTable, Table, View, bare

# A table in parts: a folder, a glob or a list of files with the same columns, read one after the other.

MARKS = frozenset("*?[")
WHOLE = re.compile("-?(0|[1-9][0-9]{0,17})")
"""A whole number of a path; codes with leading zeros are text."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""How Hive and Spark write an empty cell into a path."""


def is_pattern(given: str) -> bool:
    """Whether a glob was given and not a path."""
    return not MARKS.isdisjoint(given) and not Path(given).exists()


def files_of_pattern(pattern: str) -> list[Path]:
    """Files and folders that a glob names, in the order of their names; ** stands for folders at any depth."""
    found = sorted(Path(name) for name in glob.glob(pattern, recursive=True))  # noqa: PTH207 - absolute ones too
    if not found:
        raise TableError(f"No file matches {pattern}. Check the pattern, and quote it so that the shell leaves it.")
    return found


def files_of_folder(folder: Path, endings: dict[str, tuple[str, ...]]) -> list[Path]:
    """The parts in a folder, in the order of their paths: files of one kind, by their endings. Names that begin with a
    point or an underscore are no parts, as Hadoop has it; nor is what has no known ending."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(step.startswith((".", "_")) for step in path.relative_to(folder).parts)
        kind = next((kind for kind, known in endings.items() if path.name.lower().endswith(known)), None)
        if kind is not None and not hidden and path.is_file():
            kinds.setdefault(kind, []).append(path)
    if not kinds:
        raise TableError(f"{folder} is a folder without CSV, Parquet or Arrow files. Give the path of a table.")
    if len(kinds) > 1:
        raise TableError(
            f"{folder} holds files of several kinds ({', '.join(kinds)}). Name those that are the table by a pattern, "
            f'for example "{folder}/*.parquet".'
        )
    return next(iter(kinds.values()))


def partition_values(part: Path, root: Path) -> dict[str, str | None]:
    """What the folders between root and part say of all rows in it: year=2024/month=5."""
    values: dict[str, str | None] = {}
    for step in part.relative_to(root).parts[:-1]:
        name, equals, value = step.partition("=")
        if equals and name:
            values[unquote(name)] = None if value == NO_VALUE else unquote(value)
    return values


class PartsTable(Table):
    """Files with the same columns as one table; columns may come in another order, and whole numbers may be wider.
    `values` are the cells that the path of each part states (hive partitions): they become columns, the last ones."""

    def __init__(
        self,
        where: str,
        parts: Sequence[Table],
        values: Sequence[dict[str, str | None]] | None = None,
        columns: Sequence[str] | None = None,
        folders: Sequence[Path] = (),
    ) -> None:
        super().__init__(where, columns)
        self.parts = list(parts)
        self._values = list(values or [{}] * len(parts))
        self.folders = tuple(folders)
        self.files = tuple(file for part in parts for file in part.files)
        self.missing = parts[0].missing
        for part, stated in zip(self.parts, self._values, strict=True):
            self._check_alike(part, stated)
        self._stated = {}  # whole numbers where every path states one, else text; codes with leading zeros stay text
        for name in self._values[0]:
            cells = [cell for stated in self._values if (cell := stated[name]) is not None]
            self._stated[name] = pa.int64() if cells and all(map(WHOLE.fullmatch, cells)) else pa.string()
        self._selected = self._select([*self.parts[0].names, *self._stated])
        self._schema: pa.Schema | None = None
        self._starts: list[int] = []

    def _check_alike(self, part: Table, stated: dict[str, str | None]) -> None:
        """Refuse a part that has other columns than the first, or whose folders state others or the same again."""
        first = self.parts[0]
        missing = [name for name in first.names if name not in part.names]
        further = [name for name in part.names if name not in first.names]
        if missing or further:
            what = f"no column {missing[0]!r}" if missing else f"a column {further[0]!r}"
            has = "has it" if missing else "has not"
            raise TableError(
                f"{part.where} has different columns from {first.where}: it has {what}, and {first.where} {has}. "
                "All files of a table must have the same columns."
            )
        if list(stated) != list(self._values[0]):
            raise TableError(
                f"The folders around {part.where} state other columns than those around {first.where}. All parts "
                "must be partitioned alike (year=2024/month=5)."
            )
        if twice := [name for name in stated if name in part.names]:
            raise TableError(
                f"{part.where} has a column {twice[0]!r}, and the folder that it lies in states one as well. "
                "Rename or remove one of them."
            )

    @property
    def rows(self) -> int | None:
        counts = [count for part in self.parts if (count := part.rows) is not None]
        return sum(counts) if len(counts) == len(self.parts) else None

    @property
    def arrow_schema(self) -> pa.Schema:
        if self._schema is None:
            types = {name: self._type_of(name) for name in self._selected}
            for part in self.parts:
                if isinstance(part, CsvTable):  # its cells are text until the caller says otherwise
                    part.read_as({name: kind for name, kind in types.items() if name in part.names})
            self._schema = pa.schema([pa.field(name, kind) for name, kind in types.items()])
        return self._schema

    def _type_of(self, name: str) -> pa.DataType:
        if name in self._stated:
            return self._stated[name]
        found, at = self.parts[0].arrow_schema.field(name).type, self.parts[0].where
        for part in self.parts[1:]:
            kind = part.arrow_schema.field(name).type
            if kind == found:
                continue
            common = None  # where a column means different things in them
            if isinstance(part, CsvTable):
                common = RANKS[max(RANKS.index(found), RANKS.index(kind))]
            else:
                with suppress(pa.ArrowException, TypeError):
                    fields = [pa.schema([pa.field("", one)]) for one in (found, kind)]
                    common = bare(pa.unify_schemas(fields, promote_options="permissive")).field(0).type
            if common is None:
                raise TableError(
                    f"Column {name!r} changes its type: it is {found} in {at} and {kind} in {part.where}. "
                    "Write all parts with the same types."
                )
            found, at = common, part.where if common == kind else at
        return found

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        row, self._starts = 0, []
        for place in range(len(self.parts)):
            self._starts.append(row)
            for batch in self.of_part(place, rows):
                row += batch.num_rows
                yield batch

    def told_where(self, message: str) -> str:
        found = re.search(r"\brow (\d+)\b", message)
        if found is None or not self._starts:
            return message
        row = int(found[1])
        place = bisect_right(self._starts, row - 1) - 1
        return f"{message} (It is row {row - self._starts[place]} of {self.parts[place].where}.)"

    def of_part(self, place: int, rows: int, groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of one part; of a Parquet file, of some row groups only."""
        schema, part = self.arrow_schema, self.parts[place]
        batches = part._batches(rows) if groups is None else part.of_groups(rows, groups)
        for batch in batches:
            cells = [self._cells(batch, field, self._values[place]) for field in schema]
            yield pa.RecordBatch.from_arrays(cells, schema=schema)

    def _cells(self, batch: pa.RecordBatch, field: pa.Field, values: dict[str, str | None]) -> pa.Array:
        if field.name in self._stated:
            stated: Any = values[field.name]
            return pa.repeat(pa.scalar(stated, pa.string()).cast(field.type), batch.num_rows)
        column = batch.column(field.name)
        return column if column.type == field.type else column.cast(field.type)


CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.bz2", ".tsv.bz2", ".csv.zst", ".tsv.zst")
FETCHED = ("http", "https", "ftp", "sftp", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hdfs")
ARROW_ENDINGS = (".arrow", ".feather", ".ipc", ".arrows")
PARQUET_ENDINGS = (".parquet", ".pq")
ENDINGS = {"CSV": CSV_ENDINGS, "Parquet": PARQUET_ENDINGS, "Arrow": ARROW_ENDINGS}


def open_table(source: Any, columns: Sequence[str] | None = None, dialect: Dialect | None = None) -> Table:
    """Open a path, a pandas / polars / pyarrow object, or an `SqlQuery`, without reading more than is needed.

    A folder, a glob ("2024/*.parquet") or a list of paths is one table in parts. `dialect` says how a file writes
    its numbers, letters and empty cells, where it does not say so itself.

    >>> open_table(pa.table({"a": [1, 2]})).names
    ('a',)
    """
    if isinstance(source, Table):
        return source if columns is None else View(source, columns)
    if isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, Path)) for path in source):
        return _open_list(source, columns, dialect)
    if isinstance(source, (str, Path)):
        check_local(source)
        if is_pattern(str(source)):
            return _open_list(files_of_pattern(str(source)), columns, dialect, where=str(source))
        return _open_file(Path(source), columns, dialect)
    if isinstance(source, SqlQuery):
        return SqlTable(source, columns)
    return MemoryTable(as_arrow(source), columns=columns)


def check_local(source: str | Path) -> None:
    """Addresses are told from paths that do not exist; they may hold passwords, so only their kind is repeated."""
    scheme, colon, rest = str(source).partition(":/")
    scheme = scheme.lower()
    if colon and scheme in FETCHED:
        fetch = {"s3": "aws s3 cp ADDRESS -", "gs": "gcloud storage cat ADDRESS"}.get(scheme, "curl -s ADDRESS")
        raise TableError(
            f"This is an address ({scheme}), and tables are read from this machine only. Fetch it with a program that "
            f"knows your credentials and give its path, or pipe it in: {fetch} | sfumato COMMAND - ..."
        )
    if colon and rest.startswith("/") and scheme.replace("+", "").isalnum():
        if scheme == "file":
            raise TableError("This is a file:// address. Give the path alone.")
        raise UsageError("A database URL needs --query with the SQL to read (in Python: an SqlQuery).")


def as_arrow(source: Any) -> pa.Table:
    """Any data frame as an Arrow table, sharing memory where the two can."""
    makers = {parent.__module__.partition(".")[0] for parent in type(source).__mro__}
    if "pandas" in makers:
        frame = source if hasattr(source, "columns") else source.to_frame()
        names = [str(name) for name in frame.columns]
        arrays = []
        for position, name in enumerate(names):
            try:
                arrays.append(pa.array(frame.iloc[:, position], from_pandas=True))
            except (pa.ArrowException, TypeError, ValueError):
                raise TableError(
                    f"Column {name!r} of the pandas frame mixes incompatible types. "
                    "Make all its cells numbers, or all of them text."
                ) from None
        return pa.Table.from_arrays(arrays, names=names)
    try:
        if isinstance(source, pa.Table):
            return source
        if "polars" in makers and hasattr(source, "collect"):
            source = source.collect()  # a lazy frame is a query yet to be run
        if hasattr(source, "to_arrow"):
            source = source.to_arrow()
        return pa.table(source)  # columns in a dict, or whatever speaks Arrow's C interface
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        raise TableError(
            f"A {type(source).__name__} cannot be read as a table. Give the path of a CSV, Parquet or Arrow file, "
            "a pandas or polars frame, a pyarrow table or an SqlQuery."
        ) from None


def _open_list(
    given: Sequence[str | Path], columns: Sequence[str] | None, dialect: Dialect | None, where: str | None = None
) -> Table:
    """Files and folders, one after the other, as one table."""
    for path in given:
        check_local(path)
    found, folders = _parts_of(given)
    part, times = Counter(part for part, _ in found).most_common(1)[0]
    if times > 1:
        raise TableError(f"{part} is named {times} times. Every part of a table is read once.")
    if len(found) == 1 and not folders and not partition_values(*found[0]):
        return _open_file(found[0][0], columns, dialect)
    parts = [_open_file(part, None, dialect, part=True) for part, _ in found]
    values = [partition_values(part, root) for part, root in found]
    name = where or (str(given[0]) if len(given) == 1 else f"The table of {counted(len(found), 'file')}")
    return PartsTable(name, parts, values, columns, folders)


def _parts_of(given: Sequence[str | Path]) -> tuple[list[tuple[Path, Path]], list[Path]]:
    """Every part with the folder that its partitions are counted from; and the folders among what was given."""
    found: list[tuple[Path, Path]] = []
    folders: list[Path] = []
    plain = [Path(path).parent for path in given if not is_pattern(str(path)) and not Path(path).is_dir()]
    together = Path(os.path.commonpath(plain)) if plain else Path()
    for path in given:
        pattern = is_pattern(str(path))
        steps = takewhile(MARKS.isdisjoint, Path(path).parts)  # partitions are those below a pattern's fixed start
        root = Path(*steps) if pattern else together
        for one in files_of_pattern(str(path)) if pattern else [Path(path)]:
            if one.is_dir():
                folders.append(one)
                found += [(part, root if pattern else one) for part in files_of_folder(one, ENDINGS)]
            else:
                found.append((one, root))
    return found, folders


def _open_file(path: Path, columns: Sequence[str] | None, dialect: Dialect | None, *, part: bool = False) -> Table:
    if path.is_dir():
        return _open_list([path], columns, dialect, where=str(path))
    if not path.exists():
        raise TableError(f"{path} does not exist.")
    ending = path.name.lower()
    if ending.endswith(CSV_ENDINGS):
        return CsvTable(path, columns, dialect, part=part)
    if ending.endswith(PARQUET_ENDINGS):
        table: Table = ParquetTable(path, columns)
    elif ending.endswith(ARROW_ENDINGS):
        table = IpcTable(path, columns)
    elif ending.endswith((*READERS, *SHEETS)):
        read = read_sheet if ending.endswith(SHEETS) else read_statistical
        table = MemoryTable(read(path), str(path), columns, files=(path,))
    else:
        known = ", ".join((*CSV_ENDINGS, ".parquet", *ARROW_ENDINGS, *READERS, *SHEETS))
        raise TableError(f"{path} has an ending that sfumato does not know. It knows {known}.")
    return _without_words(table, dialect)


def _without_words(table: Table, dialect: Dialect | None) -> Table:
    return View(table, missing=dialect.missing) if dialect is not None and dialect.missing else table


class _TypedFile(Table):
    """A file that says of itself what its cells are, and that must stay as it is while it is read."""

    format: ClassVar[str]

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        super().__init__(str(path), columns)
        self.files = (path,)
        self._mark = FileMark.of(path.absolute())
        found = self._stated()
        self._selected = self._select(found.names)
        self._schema = bare(pa.schema([found.field(name) for name in self._selected]))

    @abstractmethod
    def _stated(self) -> pa.Schema:
        """All columns with their types, as the file says."""

    @property
    def arrow_schema(self) -> pa.Schema:
        return self._schema

    def _whole(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of a file that stays as it is meanwhile."""
        self._mark.check()
        try:
            yield from batches
        except (pa.ArrowException, OSError):
            raise self._damaged() from None
        self._mark.check()

    def _damaged(self) -> TableError:
        self._mark.check()
        return TableError(
            "{where} cannot be read as {format}: it is damaged, truncated or of another format.",
            where=self.where,
            format=self.format,
        )


class ParquetTable(_TypedFile):
    """A Parquet file."""

    format = "Parquet"

    def _stated(self) -> pa.Schema:
        with self._opened() as opened:
            about = opened.metadata
            self._rows = int(about.num_rows)
            self.row_groups = [int(about.row_group(i).num_rows) for i in range(about.num_row_groups)]
            return opened.schema_arrow

    @property
    def rows(self) -> int | None:
        return self._rows

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        return self.of_groups(rows, range(len(self.row_groups)))

    def of_groups(self, rows: int, groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
        with self._opened() as opened:
            batches = opened.iter_batches(
                batch_size=rows, columns=self._selected, row_groups=list(groups), use_threads=False
            )
            for batch in self._whole(batches):
                cells = [batch.column(field.name) for field in self._schema]
                cells = [c if c.type == f.type else c.cast(f.type) for c, f in zip(cells, self._schema, strict=True)]
                yield pa.RecordBatch.from_arrays(cells, schema=self._schema)

    def _opened(self) -> Any:
        """Through small buffers: memory then stays flat even where a row group is the whole file. Measured at 1M x 100,
        150 MB instead of 820 MB to 1 GB with Arrow's data sets, and no slower."""
        import pyarrow.parquet as pq  # slow to load, and a card is read without a table

        try:
            return pq.ParquetFile(self._mark.path, pre_buffer=False, buffer_size=1 << 16)
        except (pa.ArrowException, OSError):
            raise self._damaged() from None


class IpcTable(_TypedFile):
    """An Arrow file (or stream), mapped into memory: reading it copies nothing."""

    format = "an Arrow file"

    def _stated(self) -> pa.Schema:
        with self._reader() as reader:
            return reader.schema

    def _reader(self) -> Any:
        try:
            source = pa.memory_map(str(self._mark.path))
            try:
                return pa.ipc.open_file(source)
            except pa.ArrowInvalid:
                source.seek(0)
                return pa.ipc.open_stream(source)
        except (pa.ArrowException, OSError):
            raise self._damaged() from None

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - an Arrow file has its own batches
        with self._reader() as reader:
            if hasattr(reader, "get_batch"):
                found: Iterator[pa.RecordBatch] = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                found = iter(reader)
            cells = ([batch.column(name) for name in self._selected] for batch in found)  # damage may show here first
            yield from self._whole(pa.RecordBatch.from_arrays(columns, schema=self._schema) for columns in cells)


# A table that is piped in. It is kept in memory, never in a file: passes over it start again from there.

NAME = "Standard input"


def table_from(stream: IO[bytes], dialect: Dialect | None = None) -> Table:
    """Parquet and Arrow by their first bytes; anything else is CSV, plain or compressed."""
    content = stream.read()
    if not content:
        raise TableError(f"{NAME} is empty. Pipe a table into it.")
    try:
        if content.startswith(b"PAR1"):
            import pyarrow.parquet as pq

            found = pq.read_table(pa.BufferReader(content))
        elif content.startswith(b"ARROW1"):
            found = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        elif content.startswith(b"\xff\xff\xff\xff"):
            found = pa.ipc.open_stream(pa.BufferReader(content)).read_all()
        else:
            return CsvTable(Path(NAME), dialect=dialect, content=content)
    except (pa.ArrowException, OSError):
        raise TableError(f"{NAME} looks like Parquet or Arrow, but is damaged or truncated.") from None
    return _without_words(MemoryTable(found, NAME), dialect)
