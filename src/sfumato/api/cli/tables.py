"""How commands are given tables: one block of options, and one way from what was typed to a table."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.api.cli.console import Console, Force, argument, option
from sfumato.core.asked import REQUIRED, asked, optional
from sfumato.core.errors import UsageError
from sfumato.study import server_part

if TYPE_CHECKING:
    from sfumato.study.client import Coordinator


@dataclass(frozen=True)
class AtServer:
    """Commands that work on this machine's server itself."""

    data: Path = asked(REQUIRED, "The server's data folder.", metavar="DIR")
    database: str | None = optional("PostgreSQL URL; otherwise SQLite in --data (or SFUMATO_DATABASE).", metavar="URL")

    def settings(self, **given: Any) -> Any:
        """The server's settings; the folder is made."""
        found = server_part("settings").Settings.from_environment(data=self.data, database=self.database, **given)
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        return found

    def store(self) -> Any:
        """The server's store, for a `with` block."""
        return closing(server_part("store").Store.open(self.settings()))


To = Annotated[str, option("The coordinator's address, https://..., as the invitation has it.", "--to", metavar="URL")]
TokenFile = Annotated[
    Path | None, option("File with the token; otherwise the variable SFUMATO_TOKEN is read.", metavar="FILE")
]
InsecureHttp = Annotated[bool, option("Allow http:// to another machine, unencrypted.")]


@dataclass(frozen=True)
class AtCoordinator:
    """Where the coordinator is, and who asks."""

    to: To
    token_file: TokenFile = None
    insecure_http: InsecureHttp = False

    def connected(self, console: Console) -> Coordinator:
        """The coordinator; warnings about the token's file are shown. Pushes are signed where this user has a key."""
        from sfumato.study.client.connection import read_token
        from sfumato.study.client.coordinator import Coordinator, site_signer

        with console.listening():
            token = read_token(self.token_file)
            return Coordinator(self.to, token, insecure_http=self.insecure_http, signer=site_signer())


@dataclass(frozen=True)
class IntoFolder:
    """Where a folder is written."""

    out: Path = asked(REQUIRED, "Folder to write.", metavar="DIR")
    force: Force = False


TableArgument = Annotated[
    str, argument("TABLE", "CSV, Parquet or Arrow file, - for standard input; or a database URL with --query.")
]
TablesArgument = Annotated[
    list[str],
    argument(
        "TABLE",
        "CSV, Parquet or Arrow files, a folder or a quoted glob of them, - for standard input; or a database URL "
        "with --query.",
    ),
]
Folders = Annotated[list[Path], argument("DIR", "Folders that `sfumato sanitize` wrote.")]
Query = Annotated[str | None, option("Read this query; TABLE is then a database URL.", metavar="SQL")]


@dataclass
class Tables:
    """The tables of one command; standard input can be only one of them."""

    decimal: str = asked(".", "Decimal mark in CSV files: . or a comma.", metavar="MARK")
    encoding: str = asked("utf-8", "Encoding of CSV files, for example cp1252 or utf-16.", metavar="NAME")
    missing: str | None = optional('Words in files that mean an empty cell, for example "n/a,-".', metavar="WORD,WORD")
    delimiter: str = asked("", "Between cells of CSV files: a comma, ; or a tab, as the header tells.", metavar="MARK")
    _piped: bool = field(default=False, init=False, repr=False)

    def open(self, given: str, query: str | None = None, *, encoding: str | None = None) -> Any:
        """A table, or a query that becomes one; `encoding` is its own, where it differs from the others'."""
        from sfumato.table import SqlQuery, open_table
        from sfumato.table.readers import table_from

        dialect = self._dialect(encoding)
        if query is not None:
            if self.missing is not None:
                raise UsageError("--missing is for files. In a query, write NULLIF(column, 'word').")
            return SqlQuery(given, query)
        if given != "-":
            return open_table(given, dialect=dialect)
        if self._piped:
            raise UsageError("Standard input (-) can be only one of the tables. Give the other by its path.")
        self._piped = True
        return table_from(sys.stdin.buffer, dialect)

    def open_all(self, given: list[str], query: str | None = None) -> Any:
        """One table of all files that were named."""
        from sfumato.table import open_table

        if len(given) == 1:
            return self.open(given[0], query)
        if query is not None or "-" in given:
            raise UsageError("Several tables must be files. Give standard input or a database alone.")
        return open_table(given, dialect=self._dialect())

    def _dialect(self, encoding: str | None = None) -> Any:
        from sfumato.table.csv_table import Dialect

        words = [] if self.missing is None else [word.strip() for word in self.missing.split(",")]
        if not all(words):
            raise UsageError('--missing needs words with commas between them, for example --missing "n/a,-".')
        return Dialect(self.decimal, encoding or self.encoding, tuple(words), self.delimiter)

    def open_if_given(self, given: str | None, *, encoding: str | None = None) -> Any:
        """The same for an option that may be left out."""
        return None if given is None else self.open(given, encoding=encoding)

    def open_or_folder(self, given: str) -> Any:
        """A table, or the folder of a release as it is."""
        return Path(given) if Path(given).is_dir() else self.open(given)

    def piped_object(self, what: str) -> dict[str, Any]:
        """A JSON object from standard input, for what must stand in no argument; none of it is ever quoted."""
        self._piped = True
        if sys.stdin.isatty():
            print(f"Type {what}, and end it with Ctrl-D (Windows: Ctrl-Z and Enter).", file=sys.stderr)
        try:
            found = json.loads(sys.stdin.buffer.read())
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise UsageError(f"Standard input must be one JSON object: {what}.")
        return found
