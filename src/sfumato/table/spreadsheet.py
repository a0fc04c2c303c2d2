"""The first sheet of an Excel (.xlsx) or OpenDocument (.ods) file: names in its first row, then one row a record."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.errors import SfumatoError, TableError
from sfumato.table.arrays import plain
from sfumato.table.statistical import needed, unreadable

# The first sheet of an OpenDocument file, row by row: no tree of the whole document is built, and rows that the file
# repeats are not repeated here.

MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
"""What a sheet can hold; also where repeated empty cells stop."""
LONGEST_CELL = 1 << 16
"""Characters. Excel holds half of it."""
ODS_PIECE = 1 << 13
"""Bytes that are parsed at a time: each line of them may be a row of 16,384 repeated cells."""

_TABLE, _TEXT, _OFFICE = (f"urn:oasis:names:tc:opendocument:xmlns:{part}:1.0 " for part in ("table", "text", "office"))
_CELLS = (_TABLE + "table-cell", _TABLE + "covered-table-cell")
_PARAGRAPH = _TEXT + "p"
_BLANKS = {_TEXT + "s": " ", _TEXT + "tab": "\t", _TEXT + "line-break": "\n"}


def ods_rows(path: Path) -> Iterator[tuple[list[Any], int]]:
    """The rows of the first sheet, and how many times each stands there."""
    sheet = _Sheet()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = sheet.refuse_doctype
    parser.StartElementHandler, parser.EndElementHandler = sheet.start, sheet.end
    parser.CharacterDataHandler = sheet.say
    with zipfile.ZipFile(path) as archive, archive.open("content.xml") as content:
        piece = b"<"
        while piece and not sheet.ended:
            piece = content.read(ODS_PIECE)
            parser.Parse(piece, not piece)
            yield from sheet.rows
            sheet.rows.clear()


class _Sheet:
    """Where the parser is, and the rows that it has finished."""

    def __init__(self) -> None:
        self.rows: list[tuple[list[Any], int]] = []
        """Those that were finished, and how many times each stands there."""
        self._depth = 0  # of tables in tables
        self._cells: list[Any] = []
        self._repeated = 1
        self._cell: Mapping[str, str] | None = None  # the open cell's attributes
        self._inside: list[str] = []  # elements that are open in the open cell
        self._text: list[str] = []
        self._length = 0
        self.ended = False

    def refuse_doctype(self, *_: Any) -> None:
        raise ValueError("a document type, which no sheet has")

    def start(self, name: str, about: dict[str, str]) -> None:
        if self._cell is not None:
            self._inside.append(name)
            if self._inside == [_PARAGRAPH] and self._text:
                self.say("\n")
            elif name in _BLANKS:
                times = int(about.get(_TEXT + "c", 1))
                if times > LONGEST_CELL:
                    raise ValueError("more spaces than a cell holds")
                self.say(_BLANKS[name] * times)
        elif self.ended:
            return
        elif name == _TABLE + "table":
            self._depth += 1
        elif name == _TABLE + "table-row":
            self._cells, self._repeated = [], int(about.get(_TABLE + "number-rows-repeated", 1))
        elif name in _CELLS:
            self._cell, self._text, self._length = about, [], 0

    def say(self, text: str) -> None:
        """Only a cell's paragraphs are what it says: notes and drawings are about it."""
        if self._inside and self._inside[0] == _PARAGRAPH:
            self._text.append(text)
            self._length += len(text)
            if self._length > LONGEST_CELL:
                raise ValueError("more text than a cell holds")

    def end(self, name: str) -> None:
        if self._inside:
            self._inside.pop()
        elif self._cell is not None:
            value = _value(self._cell, "".join(self._text))
            room = MOST_COLUMNS - len(self._cells)
            times = int(self._cell.get(_TABLE + "number-columns-repeated", 1))
            if times > room and value is not None:
                raise ValueError("more columns than a sheet holds")
            self._cells += [value] * min(times, room)
            self._cell = None
        elif name == _TABLE + "table":
            self._depth -= 1
            self.ended = self.ended or self._depth == 0
        elif name == _TABLE + "table-row" and not self.ended:
            self.rows.append((self._cells, self._repeated))


def _value(about: Mapping[str, str], shown: str) -> Any:
    """What a cell holds. An error states "" and shows #N/A; a time of day is what it shows."""
    kind = about.get(_OFFICE + "value-type")
    if kind in ("float", "percentage", "currency"):
        return float(about[_OFFICE + "value"])
    if kind == "boolean":
        return about.get(_OFFICE + "boolean-value") == "true"
    if kind == "date":
        return datetime.datetime.fromisoformat(about[_OFFICE + "date-value"])
    return None if kind is None else about.get(_OFFICE + "string-value", shown)


SHEETS = (".xlsx", ".xlsm", ".ods")
SPARE = 32 << 20
"""Bytes that any file may unpack to, beside so many for each of its own:"""
MOST_UNPACKED = {".xlsx": 100, ".xlsm": 100, ".ods": 400}
"""XML for each byte of the file. Nothing but zeros comes to 16 (.xlsx, whose texts are held whole) and 250 (.ods)."""
MOST_CELLS = 100
"""Bytes of cells, each 8 and its text: cells and rows that the file repeats count as often as they stand there."""
LONGEST_STRETCH = 1 << 20
"""Bytes without a new tag: a cell's characters, each written as &#x10FFFF; in the worst case."""
PIECE = 1 << 16
TOO_LARGE = (
    "{path} unpacks to more cells or text than a sheet of its size holds, so it was not read. If it is yours, save it "
    "as CSV."
)
LONG_CELL = (
    "{path} has a cell of more than {most:,} characters, so it was not read. If it is yours, leave that column out."
)


def read_sheet(path: Path) -> pa.Table:
    """Cells as the program last computed them; errors such as #N/A are empty, and so are empty rows at the end."""
    rows = _rows_of(path)
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        raise TableError(f"{path}: the first sheet is empty.")
    width = max(len(row) for row in rows)
    names = ["" if cell is None else str(cell) for cell in [*rows[0], *[None] * width][:width]]
    if "" in names:
        raise TableError(f"{path}: column {names.index('') + 1} of the first sheet has no name in the first row.")
    cells = ([row[place] if place < len(row) else None for row in rows[1:]] for place in range(width))
    return pa.Table.from_arrays([_array(column) for column in cells], names=names)


def _rows_of(path: Path) -> list[list[Any]]:
    """The rows of the first sheet without the empty cells at their ends. A small file that unpacks to much
    more than others of its size was made to fill the memory."""
    rows: list[list[Any]] = []
    left = SPARE + MOST_CELLS * path.stat().st_size
    try:
        _check_parts(path)
        for found, times in ods_rows(path) if path.suffix.lower() == ".ods" else _xlsx_rows(path):
            row = [_cleaned(cell) for cell in found]
            while row and row[-1] is None:
                row.pop()
            times = times if row else 1  # office programs append empty rows by the million
            texts = [len(cell) for cell in row if isinstance(cell, str)]
            if max(texts, default=0) > LONGEST_CELL:
                raise TableError(LONG_CELL, path=path, most=LONGEST_CELL)
            left -= times * (8 * (len(row) + 1) + sum(texts))
            if left < 0 or len(rows) + times > MOST_ROWS:
                raise TableError(TOO_LARGE, path=path)
            rows += [row] * times
    except SfumatoError:
        raise
    except Exception as error:
        raise unreadable(path, error) from None
    return rows


def _check_parts(path: Path) -> None:
    """Before anything is unpacked whole: what the parts say of their sizes (no more is read of them), and that no tag
    or text goes on and on."""
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > SPARE + MOST_UNPACKED[path.suffix.lower()] * path.stat().st_size:
            raise TableError(TOO_LARGE, path=path)
        for part in parts:
            if not part.filename.endswith((".xml", ".rels")):
                continue
            with archive.open(part) as content:
                stretch = 0
                while piece := content.read(PIECE):
                    tag = piece.find(b"<")
                    stretch += len(piece) if tag < 0 else tag
                    if stretch > LONGEST_STRETCH:
                        raise TableError(LONG_CELL, path=path, most=LONGEST_CELL)
                    stretch = stretch if tag < 0 else len(piece) - piece.rfind(b"<")


def _xlsx_rows(path: Path) -> Iterator[tuple[list[Any], int]]:
    openpyxl = needed("openpyxl", f"Reading {path.suffix.lower()} files")
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        for row in book.worksheets[0].iter_rows():
            yield [None if cell.data_type == "e" else cell.value for cell in row], 1
    finally:
        book.close()


def _cleaned(value: Any) -> Any:
    """Empty text is an empty cell, a whole number an integer, and midnight a date."""
    if isinstance(value, str) and not value.strip():
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value.date() if isinstance(value, datetime.datetime) and value.time() == datetime.time() else value


def _array(cells: list[Any]) -> pa.Array:
    """Numbers, dates or truth values where all cells are such; else text, spelt as the cells show it."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    if kinds == {datetime.date, datetime.datetime}:
        times = [None if cell is None else datetime.datetime.fromisoformat(cell.isoformat()) for cell in cells]
        return pa.array(times, pa.timestamp("us"))
    if len(kinds) > 1 or kinds - {int, float, str, bool, datetime.date, datetime.datetime}:
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    return pa.array(cells)


def rows_of(table: pa.Table) -> Iterator[list[Any]]:
    """The names, and then every row, as a sheet has them."""
    yield list(table.column_names)
    for batch in table.to_batches():
        arrays = [plain(column) for column in batch.columns]
        arrays = [pc.if_else(pc.is_nan(a), None, a) if pa.types.is_floating(a.type) else a for a in arrays]
        yield from map(list, zip(*(array.to_pylist() for array in arrays), strict=True))


def xlsx_content(rows: Iterator[list[Any]]) -> bytes:
    """One sheet. Text stays text: "=1+1" is no formula."""
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("release")
    try:
        for row in rows:
            cells = [WriteOnlyCell(sheet, value) for value in row]
            for cell in cells:
                cell.data_type = "s" if isinstance(cell.value, str) else cell.data_type
            sheet.append(cells)
    finally:
        sheet.close()
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def ods_content(rows: Iterator[list[Any]]) -> bytes:
    """One sheet. Text stays text: "=1+1" is no formula."""
    from odf import opendocument
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    document = opendocument.OpenDocumentSpreadsheet()
    sheet = Table(name="release")
    for row in rows:
        line = TableRow()
        for value in row:
            about = {} if value is None else {"valuetype": "string"}
            if isinstance(value, bool):
                about = {"valuetype": "boolean", "booleanvalue": str(value).lower()}
            elif isinstance(value, int | float):
                about = {"valuetype": "float", "value": repr(value)}
            elif isinstance(value, datetime.date):
                about = {"valuetype": "date", "datevalue": value.isoformat()}
            cell = TableCell(**about)
            if value is not None:
                cell.addElement(P(text=str(value)))
            line.addElement(cell)
        sheet.addElement(line)
    document.spreadsheet.addElement(sheet)
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()
