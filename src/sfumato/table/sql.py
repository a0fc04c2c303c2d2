"""Tables that are the answer to a SQL query."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.core.errors import TableError, UsageError
from sfumato.table.tables import BLOCK_ROWS, Table


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
                if not types:
                    types = dict.fromkeys(self._select(names), pa.null())
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


def _type_of(where: str, name: str, cells: Iterator[Any]) -> pa.DataType:
    """The Arrow type that holds these Python values."""
    found = pa.null()
    for kind in {type(cell) for cell in cells}:
        found = _wider(found, _arrow_type(where, name, kind))
    return found


def _arrow_type(where: str, name: str, kind: type) -> pa.DataType:
    for python, arrow in (
        (type(None), pa.null()),
        (bool, pa.bool_()),
        (int, pa.int64()),
        ((float, decimal.Decimal), pa.float64()),
        (datetime.datetime, pa.timestamp("us")),
        (datetime.date, pa.date32()),
        ((str, uuid.UUID), pa.string()),
    ):
        if issubclass(kind, python):
            return arrow
    raise TableError(
        f"{where}: column {name!r} holds values of the type {kind.__name__}, which cannot be used. Cast it in the "
        "query."
    )


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
    if pa.types.is_timestamp(kind) and cell.tzinfo is not None:
        return cell.astimezone(datetime.UTC).replace(tzinfo=None)
    return cell
