"""CSV files, read in blocks with types that hold for the whole file."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from sfumato.core.errors import TableError, UsageError
from sfumato.table.arrays import OTHER_DATE, has_leading_zeros
from sfumato.table.tables import FileMark, Table

# How a file is written: its decimal mark, its encoding, its words for empty cells.

RANKS = (pa.null(), pa.int64(), pa.float64(), pa.string())
"""The types that columns of a CSV file can have, from narrow to wide."""
DECIMALS, DELIMITERS = (".", ","), (",", ";", "\t")
_POINTED, _NUMBER_LIKE = r"^\s*[+-]?\d+\.\d", r"^\s*[+-]?\d[\d.,]*\s*$"
_WHOLE = r"^\s*[+-]?\d+\s*$"


@dataclass(frozen=True)
class Dialect:
    """What a file does not say of itself.

    decimal : "." or ",", of a CSV file.
    encoding : any of Python's text encodings, for example "cp1252"; "utf-8" may begin with a byte order mark.
    missing : words that stand for an empty cell, in files of any kind.
    delimiter : "," ";" or a tab, between the cells of a CSV file; "" where the header tells.
    """

    decimal: str = "."
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()
    delimiter: str = ""

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS:
            raise UsageError(f"--decimal must be {' or '.join(DECIMALS)}. Got {self.decimal!r} instead.")
        if self.delimiter not in ("", *DELIMITERS):
            raise UsageError(f"--delimiter must be a comma, ; or a tab. Got {self.delimiter!r} instead.")
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError):
            raise UsageError(
                f"There is no text encoding {self.encoding!r}. Examples: utf-8, cp1252, latin-1, utf-16."
            ) from None

    @property
    def is_utf8(self) -> bool:
        """Whether Arrow can read the bytes as they are."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")

    def rank(self, column: pa.Array, at_least: int) -> int:
        """Position in `RANKS` of the narrowest type for these text cells, not narrower than found so far."""
        if column.null_count == len(column) or at_least == 3:
            return at_least
        if at_least <= 1 and _casts(column, RANKS[1]):
            return 3 if has_leading_zeros(column) else 1
        comma = self.decimal != "."
        pointed = pc.replace_substring(column, self.decimal, ".") if comma else column
        mixed = comma and pc.any(pc.match_substring(column, ".")).as_py()
        if not mixed and _casts(pointed, RANKS[2]):
            # Integers that no int64 holds are text, which keeps all their digits; the schema looks at them later.
            return 3 if at_least <= 1 and pc.all(pc.match_substring_regex(column, _WHOLE)).as_py() else 2
        trimmed = pc.utf8_trim_whitespace(column)
        return 3 if trimmed.equals(column) else self.rank(trimmed, at_least)

    def check_points(self, name: str, column: pa.Array) -> None:
        """Where the comma is the decimal mark, 1.234 is a thousand or a mistake; 31.12.2001 is a date."""
        if self.decimal == "." or not pc.any(pc.match_substring_regex(column, _POINTED)).as_py():
            return
        dates, numbers = (pc.all(pc.match_substring_regex(column, one)).as_py() for one in (OTHER_DATE, _NUMBER_LIKE))
        if numbers and not dates:
            raise TableError(
                "Column {name!r} has numbers with a point, but the decimal mark is a comma. Remove points "
                "between thousands, or leave --decimal out if the point is the decimal mark.",
                name=name,
            )


PLAIN = Dialect()
"""As most files are."""


def _casts(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


EMPTY_CELLS = ["", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL"]
"""What counts as an empty cell. Words such as none or ? can be categories: --missing names them."""

BYTES_PER_READ = 1 << 24


class CsvTable(Table):
    """A comma (or tab, or semicolon) separated file with a header row, plain or compressed."""

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None = None,
        dialect: Dialect | None = None,
        content: bytes | None = None,
        *,
        part: bool = False,
    ) -> None:
        """`content` is what came from elsewhere than a file; `path` is then only its name. A `part` of a table may have
        no rows, if it has a header."""
        super().__init__(str(path), columns)
        self._path, self._content, self._part = path.absolute(), content, part
        self._mark = None if content is not None else FileMark.of(self._path)
        self.files = () if content is not None else (path,)
        self._dialect = dialect or PLAIN
        self.missing = self._dialect.missing
        try:
            with io.TextIOWrapper(self._bytes(), encoding="utf-8-sig", newline="") as file:
                first = file.readline()
                likely = max(DELIMITERS, key=lambda mark: (first.count(mark), mark == ","))
                likely = "\t" if ".tsv" in self._path.name.lower() else likely
                delimiter = self._dialect.delimiter or likely
                header = next(csv.reader(chain([first], file), delimiter=delimiter), [])
        except UnicodeError:
            raise self._misread() from None
        except (OSError, EOFError, csv.Error):
            raise TableError("{where} cannot be read: it is damaged, or not a CSV file.", where=self.where) from None
        if "\0" in first:
            raise TableError(
                "{where} is not a CSV file in UTF-8. If it is UTF-16 without a mark, add --encoding utf-16-le.",
                where=self.where,
            )
        if not header:
            raise TableError("{where} is empty: it has no header row.", where=self.where)
        self._delimiter, self._header = (delimiter, [name.strip() for name in header])
        self._selected = self._select(self._header)
        self._schema: pa.Schema | None = None
        self.decimal = self._dialect.decimal

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - sized by the caller
        yield from self._read({field.name: field.type for field in self.arrow_schema})

    def read_as(self, types: dict[str, pa.DataType]) -> None:
        """Read cells as wider types than this file alone would need."""
        self._schema = pa.schema([pa.field(name, types.get(name, pa.string())) for name in self._selected])

    @property
    def arrow_schema(self) -> pa.Schema:
        """The narrowest of integer, number and text that every cell of a column fits, from one pass over the text.
        Guessing from the first rows, as readers usually do, fails when a later row disagrees; this pass costs half as
        much again as such a guess. Codes with leading zeros are text, as are dates, which the schema understands
        later."""
        if self._schema is None:
            ranks = dict.fromkeys(self._selected, 0)
            for batch in self._read(dict.fromkeys(self._selected, pa.string())):
                for name, column in zip(self._selected, batch.columns, strict=True):
                    self._dialect.check_points(name, column)
                    ranks[name] = max(ranks[name], self._dialect.rank(column, ranks[name]))
            self._schema = pa.schema([pa.field(name, RANKS[rank]) for name, rank in ranks.items()])
        return self._schema

    def _read(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        def check() -> None:
            if self._mark is not None:
                self._mark.check()

        check()
        try:
            yield from self._parsed(types)
        except TableError:
            check()  # damage has an explanation if another program is writing
            raise
        check()

    def _parsed(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        try:
            with self._bytes() as file:
                yield from pacsv.open_csv(
                    file,
                    pacsv.ReadOptions(block_size=BYTES_PER_READ, skip_rows=1, column_names=self._header),
                    pacsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    pacsv.ConvertOptions(
                        column_types=types,
                        include_columns=self._selected,
                        null_values=[*EMPTY_CELLS, *self.missing],
                        strings_can_be_null=True,
                        decimal_point=self._dialect.decimal,
                    ),
                )
        except StopIteration:
            return
        except UnicodeError:
            raise self._misread() from None
        except (pa.ArrowException, OSError, EOFError) as error:
            if self._part and "Empty CSV file" in str(error):
                return
            raise self._explained(error) from None

    def _explained(self, error: BaseException) -> Exception:
        """Arrow's messages quote rows, so none of their words are used."""
        message = str(error)
        if "Empty CSV file" in message:
            return TableError("{where} has no rows.", where=self.where)
        if "CSV parse error" in message:  # "Expected ..." or "Row #3: Expected ...", as its threads have it
            with (
                suppress(csv.Error, OSError),
                io.TextIOWrapper(self._bytes(), encoding="utf-8-sig", errors="replace", newline="") as file,
            ):
                reader = csv.reader(file, delimiter=self._delimiter)
                for row in reader:
                    if row and len(row) != len(self._header):
                        return TableError(
                            "{where} has {found} cells in line {line}, and the header has {columns}. Correct the line; "
                            "a cell that contains the delimiter must be quoted.",
                            where=self.where,
                            found=len(row),
                            line=reader.line_num,
                            columns=len(self._header),
                        )
        if "UTF8" in message.replace("-", ""):
            return self._misread()
        return TableError(
            "{where} cannot be read as CSV: it is damaged, truncated or of another format.", where=self.where
        )

    def _misread(self) -> TableError:
        """The bytes are no text in the encoding that was given, or in UTF-8."""
        if not self._dialect.is_utf8:
            return TableError(
                "{where} is not text in the encoding {encoding}. Try another.",
                where=self.where,
                encoding=self._dialect.encoding,
            )
        with self._raw() as file:
            likely = "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "cp1252"
        return TableError(
            "{where} is not UTF-8 text. Name its encoding, for example --encoding {likely}, or save it as UTF-8.",
            where=self.where,
            likely=likely,
        )

    def _bytes(self) -> IO[bytes]:
        """The text in UTF-8, from its beginning, transcoded as it is read."""
        file, dialect = self._raw(), self._dialect
        if dialect.is_utf8:
            return file
        stream: Any = pa.transcoding_input_stream(pa.PythonFile(file, mode="r"), dialect.encoding, "utf-8")
        return io.BufferedReader(stream)

    def _raw(self) -> IO[bytes]:
        source: Any = self._path if self._content is None else io.BytesIO(self._content)
        name, start = self._path.name.lower(), (self._content or b"")[:4]  # what is piped in has no ending
        for ending, begins, opened_by in ((".gz", b"\x1f\x8b", gzip.open), (".bz2", b"BZh", bz2.open)):
            if name.endswith(ending) or start.startswith(begins):
                return cast(IO[bytes], opened_by(source, "rb"))
        if name.endswith(".zst") or start.startswith(b"\x28\xb5\x2f\xfd"):
            opened: Any = pa.input_stream(str(source) if self._content is None else source, compression="zstd")
            return io.BufferedReader(opened)
        return cast(IO[bytes], self._path.open("rb") if self._content is None else source)
