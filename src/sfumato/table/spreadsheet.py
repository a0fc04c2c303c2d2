"""The first sheet of an Excel (.xlsx) or OpenDocument (.ods) file: names in its first row, then one row a record."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OutputError, TableError
from sfumato.table.arrays import plain
from sfumato.table.statistical import WholeWriter, needed, unreadable
from sfumato.table.tables import MemoryTable

SHEETS = (".xlsx", ".xlsm", ".ods")
MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
"""What a sheet can hold; also where repeated empty cells stop."""


class SheetTable(MemoryTable):
    """The first sheet of a spreadsheet file, read whole."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        super().__init__(read_sheet(path), str(path), columns)
        self.files = (path,)


def read_sheet(path: Path) -> pa.Table:
    """Cells as the program last computed them; errors such as #N/A are empty, and so are empty rows at the end."""
    ending = path.suffix.lower()
    module = needed("odf.opendocument" if ending == ".ods" else "openpyxl", f"Reading {ending} files")
    try:
        rows = list(_ods_rows(module, path) if ending == ".ods" else _xlsx_rows(module, path))
    except Exception as error:
        raise unreadable(path, error) from None
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise TableError(f"{path}: the first sheet is empty.")
    width = max(len(row) for row in rows)
    while width and all(len(row) < width or row[width - 1] is None for row in rows):
        width -= 1
    names = ["" if cell is None else str(cell) for cell in [*rows[0], *[None] * width][:width]]
    if "" in names:
        raise TableError(f"{path}: column {names.index('') + 1} of the first sheet has no name in the first row.")
    cells = [[row[place] if place < len(row) else None for row in rows[1:]] for place in range(width)]
    return pa.Table.from_arrays([_array(column) for column in cells], names=names)


def _xlsx_rows(openpyxl: Any, path: Path) -> Iterator[list[Any]]:
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        for row in book.worksheets[0].iter_rows():
            yield [None if cell.data_type == "e" else _cleaned(cell.value) for cell in row]
    finally:
        book.close()


def _ods_rows(opendocument: Any, path: Path) -> Iterator[list[Any]]:
    from odf import table as tables

    sheet = opendocument.load(str(path)).spreadsheet.getElementsByType(tables.Table)[0]
    count = 0
    for row in sheet.getElementsByType(tables.TableRow):
        cells: list[Any] = []
        for cell in row.childNodes:
            if getattr(cell, "qname", (None, ""))[1] not in ("table-cell", "covered-table-cell"):
                continue
            times = min(int(cell.getAttribute("numbercolumnsrepeated") or 1), MOST_COLUMNS)
            cells += [_ods_cell(cell)] * times
        while cells and cells[-1] is None:
            cells.pop()
        times = int(row.getAttribute("numberrowsrepeated") or 1) if cells else 1
        count += times
        if count > MOST_ROWS:
            raise ValueError("more rows than a sheet holds")
        for _ in range(times):
            yield list(cells)


def _ods_cell(cell: Any) -> Any:
    from odf import teletype

    kind = cell.getAttribute("valuetype")
    if kind in ("float", "percentage", "currency"):
        return _cleaned(float(cell.getAttribute("value")))
    if kind == "boolean":
        return cell.getAttribute("booleanvalue") == "true"
    if kind == "date":
        return _cleaned(datetime.datetime.fromisoformat(cell.getAttribute("datevalue")))
    stated = cell.getAttribute("stringvalue")  # an error states "" and shows #N/A
    return None if kind is None else _cleaned(teletype.extractText(cell) if stated is None else stated)


def _cleaned(value: Any) -> Any:
    """Empty text is an empty cell, a whole number an integer, and midnight a date."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, datetime.datetime):
        return value.date() if value.time() == datetime.time() else value
    return value


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


class SheetWriter(WholeWriter):
    """One sheet. Text stays text: "=1+1" is no formula."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, ending: str) -> None:
        super().__init__(file, schema, ending)
        self._module = needed("odf.opendocument" if ending == ".ods" else "openpyxl", f"Writing {ending} files")

    def write(self, block: pa.RecordBatch | pa.Table) -> None:
        super().write(block)
        if sum(part.num_rows for part in self._blocks) >= MOST_ROWS:
            raise OutputError(f"A sheet holds at most {MOST_ROWS - 1:,} rows. Choose --format parquet or csv.")

    def _content(self, table: pa.Table) -> bytes:
        return (_ods if self._ending == ".ods" else _xlsx)(self._module, _rows(table))


def _rows(table: pa.Table) -> Iterator[list[Any]]:
    yield list(table.column_names)
    for batch in table.to_batches():
        arrays = [plain(batch.column(name)) for name in batch.schema.names]
        arrays = [pc.if_else(pc.is_nan(a), None, a) if pa.types.is_floating(a.type) else a for a in arrays]
        yield from (list(row) for row in zip(*(array.to_pylist() for array in arrays), strict=True))


def _xlsx(openpyxl: Any, rows: Iterator[list[Any]]) -> bytes:
    from openpyxl.cell import WriteOnlyCell

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("release")
    try:
        for row in rows:
            cells = []
            for value in row:
                cell = WriteOnlyCell(sheet, value)
                if isinstance(value, str):
                    cell.data_type = "s"
                cells.append(cell)
            sheet.append(cells)
    finally:
        sheet.close()
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _ods(opendocument: Any, rows: Iterator[list[Any]]) -> bytes:
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    document = opendocument.OpenDocumentSpreadsheet()
    sheet = Table(name="release")
    for row in rows:
        line = TableRow()
        for value in row:
            if value is None:
                cell = TableCell()
            elif isinstance(value, bool):
                cell = TableCell(valuetype="boolean", booleanvalue=str(value).lower())
            elif isinstance(value, int | float):
                cell = TableCell(valuetype="float", value=repr(value))
            elif isinstance(value, datetime.date):
                cell = TableCell(valuetype="date", datevalue=value.isoformat())
            else:
                cell = TableCell(valuetype="string")
            if value is not None:
                cell.addElement(P(text=str(value)))
            line.addElement(cell)
        sheet.addElement(line)
    document.spreadsheet.addElement(sheet)
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()
