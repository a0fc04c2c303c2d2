"""Tables of statistics programs: SPSS (.sav, .zsav, .por), Stata (.dta) and SAS (.sas7bdat, .xpt), by pyreadstat.

Labels are what the cells mean, so a column all of whose values have one is read as its labels; user-missing codes are
empty cells. Such files are read whole: their readers have no blocks that labels could be judged in.
"""

from __future__ import annotations

import datetime
import decimal
import math
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.errors import TableError, UsageError
from sfumato.table.arrays import is_text, plain
from sfumato.table.tables import BLOCK_ROWS, Table

READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
NEEDED = "install sfumato with the extra `statistics`: pip install 'sfumato[statistics]'"


def needed(module: str, what: str) -> Any:
    """A package of the extra; says what to install where it is missing."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise UsageError(f"{what} needs the package {name}, which is not there. Please {NEEDED}.") from None


def unreadable(path: Path, error: Exception) -> TableError:
    """The reader's own words may quote a cell, so only their kind is repeated."""
    kind = type(error).__name__
    return TableError(
        f"{path} cannot be read as a {path.suffix.lower()} file ({kind}): it is damaged or of another format."
    )


def read_statistical(path: Path) -> pa.Table:
    """The file as an Arrow table. SAS keeps labels in a catalogue, which is read where it lies beside the file."""
    ending, catalogue = path.suffix.lower(), path.with_suffix(".sas7bcat")
    reader = getattr(needed("pyreadstat", f"Reading {ending} files"), READERS[ending])
    more = {"catalog_file": str(catalogue)} if ending == ".sas7bdat" and catalogue.is_file() else {}
    try:
        cells, about = reader(str(path), output_format="dict", **more)
    except Exception as error:
        raise unreadable(path, error) from None
    labels = about.variable_value_labels or {}
    arrays = [_array(cells[name], labels.get(name) or {}, name, path) for name in about.column_names]
    return pa.Table.from_arrays(arrays, names=list(about.column_names))


def _array(cells: Sequence[Any], labels: Mapping[Any, str], name: str, path: Path) -> pa.Array:
    """Labels where every value has one; whole numbers as integers; an empty text is an empty cell."""
    cells = [cell if _there(cell) else None for cell in cells]
    here = {cell for cell in cells if cell is not None}
    if labels and here and here <= set(labels):
        return pa.array([None if cell is None else labels[cell] for cell in cells], pa.string())
    try:
        array = pa.array(cells)
    except (pa.ArrowException, TypeError, ValueError):
        raise TableError(f"{path}: column {name!r} holds cells of several kinds.") from None
    if pa.types.is_floating(array.type):
        whole = pc.all(pc.and_(pc.equal(pc.trunc(array), array), pc.less(pc.abs(array), 2.0**53))).as_py()
        array = array.cast(pa.int64()) if whole is True else array
    return array


def _there(cell: Any) -> bool:
    return cell is not None and cell != "" and not (isinstance(cell, float) and math.isnan(cell))


def statistical_content(table: pa.Table, ending: str, beside: Path) -> bytes:
    """The bytes of a file of a statistics program, made in a folder that only the owner can read, `beside` the file.
    Text is written as codes 1, 2, ... in alphabetical order with the words as value labels (SPSS, Stata), or as text
    (SAS transport files, which have no labels)."""
    import pyreadstat

    frame, labels = _as_frame(table, labelled=ending != ".xpt")
    with tempfile.TemporaryDirectory(dir=beside, prefix=".sfumato-") as folder:
        path = Path(folder) / f"table{ending}"
        if ending == ".dta":
            pyreadstat.write_dta(frame, str(path), variable_value_labels=labels)
        elif ending == ".xpt":
            pyreadstat.write_xport(frame, str(path), file_format_version=8)
        else:
            pyreadstat.write_sav(frame, str(path), compress=ending == ".zsav", variable_value_labels=labels)
        return path.read_bytes()


def _as_frame(table: pa.Table, *, labelled: bool) -> tuple[Any, dict[str, dict[int | float, str]]]:
    """A pandas frame of numbers, dates and text, and the labels of columns whose words became codes."""
    import pandas

    labels: dict[str, dict[int | float, str]] = {}
    columns: dict[str, Any] = {}
    for name in table.column_names:
        array = plain(table[name])
        array = array.cast(pa.string()) if pa.types.is_boolean(array.type) else array
        if is_text(array.type) and labelled:
            words = sorted(pc.unique(array.drop_null()).to_pylist())
            labels[name] = {float(code): word for code, word in enumerate(words, 1)}
            array = pc.add(pc.index_in(array, value_set=pa.array(words, array.type)), 1)
        if pa.types.is_integer(array.type) or pa.types.is_decimal(array.type):
            array = array.cast(pa.float64())
        if is_text(array.type):
            array = array.fill_null("")
        columns[name] = array.to_pandas(date_as_object=True)
    return pandas.DataFrame(columns), labels


# Tables that are the answer to a SQL query.


@dataclass(frozen=True, repr=False)
class SqlQuery:
    """A query and the database URL to send it to, as SQLAlchemy writes it: `postgresql://user:password@host/base`."""

    url: str
    query: str

    def __repr__(self) -> str:
        return f"SqlQuery({self.place!r})"

    @property
    def place(self) -> str:
        """The URL without its password, and without options, which may hold one."""
        sqlalchemy = _sqlalchemy()
        try:
            url = sqlalchemy.engine.make_url(self.url)
        except sqlalchemy.exc.ArgumentError:
            raise UsageError(
                "The database URL cannot be understood. Write it like postgresql://user@host/base."
            ) from None
        return str(url.set(query={}).render_as_string(hide_password=True))


class SqlTable(Table):
    """Reads the rows of a query in parts; the query runs once for the types, and once for every pass."""

    def __init__(self, query: SqlQuery, columns: Sequence[str] | None = None) -> None:
        super().__init__(f"The query at {query.place}", columns)
        self._query = query
        self._schema: pa.Schema | None = None

    @property
    def arrow_schema(self) -> pa.Schema:
        if self._schema is None:
            types: dict[str, pa.DataType] = {}
            for names, rows in self._parts(BLOCK_ROWS):
                types = types or dict.fromkeys(self._select(names), pa.null())
                for name in types:
                    position = names.index(name)
                    types[name] = _wider(types[name], _type_of(self.where, name, (row[position] for row in rows)))
            self._schema = pa.schema(list(types.items()))
        return self._schema

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        schema = self.arrow_schema
        for names, part in self._parts(rows):
            if part:
                columns = [
                    pa.array([_converted(row[names.index(field.name)], field.type) for row in part], field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _parts(self, rows: int) -> Iterator[tuple[list[str], Sequence[Any]]]:
        """Column names with every part of the answer; one empty part if there is none, so that names are known."""
        sqlalchemy = _sqlalchemy()
        with self._connected() as connection:
            result = connection.execution_options(stream_results=True, max_row_buffer=rows).execute(
                sqlalchemy.text(self._query.query)
            )
            if not result.returns_rows:
                raise TableError(f"{self.where} returns no rows. Give a SELECT.")
            names = [str(name) for name in result.keys()]  # noqa: SIM118 - a result is no dict
            yield names, []
            for part in result.partitions(rows):
                yield names, part

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        sqlalchemy = _sqlalchemy()
        try:
            engine = sqlalchemy.create_engine(self._query.url, poolclass=sqlalchemy.pool.NullPool)
        except ImportError as error:
            raise UsageError(
                f"The driver of this database is not installed: {error.name}. Install it with pip."
            ) from None
        except sqlalchemy.exc.SQLAlchemyError:
            raise UsageError("The database URL names a kind of database that SQLAlchemy does not know.") from None
        file = engine.url.database if engine.url.get_backend_name() == "sqlite" else None
        if file and not file.startswith((":", "file:")) and not Path(file).exists():  # SQLite would make an empty one
            raise TableError(f"{self.where}: there is no such file. Check the address.")
        try:
            with engine.connect() as connection:
                yield connection
        except sqlalchemy.exc.SQLAlchemyError as error:
            # The database's own words may quote cells or the password, so only the kind of failure is told.
            kind = type(getattr(error, "orig", None) or error).__name__
            raise TableError(
                f"{self.where} failed ({kind}). Check the address and try the query in the database's own client."
            ) from None
        finally:
            engine.dispose()


def _sqlalchemy() -> Any:
    try:
        import sqlalchemy
        import sqlalchemy.exc
        import sqlalchemy.pool
    except ImportError:
        raise UsageError("Reading from a database needs SQLAlchemy: pip install 'sfumato[sql]'.") from None
    return sqlalchemy


_ORDER = (pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.string())


_HELD_BY: dict[Any, pa.DataType] = {
    type(None): pa.null(),
    bool: pa.bool_(),
    int: pa.int64(),
    (float, decimal.Decimal): pa.float64(),
    datetime.datetime: pa.timestamp("us"),
    datetime.date: pa.date32(),
    (str, uuid.UUID): pa.string(),
}


def _type_of(where: str, name: str, cells: Iterator[Any]) -> pa.DataType:
    """The Arrow type that holds these Python values."""
    found = pa.null()
    for kind in {type(cell) for cell in cells}:
        arrow = next((arrow for python, arrow in _HELD_BY.items() if issubclass(kind, python)), None)
        if arrow is None:
            raise TableError(
                f"{where}: column {name!r} holds values of the type {kind.__name__}, which cannot be used. Cast it in "
                "the query."
            )
        found = _wider(found, arrow)
    return found


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The narrowest type for both; numbers and dates, or numbers and words, only share text."""
    low, high = sorted((_ORDER.index(one), _ORDER.index(other)))
    if low in (0, high) or (low, high) in ((2, 3), (4, 5)):
        return _ORDER[high]
    return pa.string()


def _converted(cell: Any, kind: pa.DataType) -> Any:
    if cell is None:
        return None
    if pa.types.is_string(kind):
        return str(cell)
    if pa.types.is_float64(kind):
        return float(cell)
    if pa.types.is_timestamp(kind) and not isinstance(cell, datetime.datetime):
        return datetime.datetime.combine(cell, datetime.time())
    zoned = pa.types.is_timestamp(kind) and cell.tzinfo is not None
    return cell.astimezone(datetime.UTC).replace(tzinfo=None) if zoned else cell
