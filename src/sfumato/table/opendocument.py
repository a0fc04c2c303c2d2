"""The first sheet of an OpenDocument file, row by row: no tree of the whole document is built, and rows that the file
repeats are not repeated here."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.parsers import expat

MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
"""What a sheet can hold; also where repeated empty cells stop."""
LONGEST_CELL = 1 << 16
"""Characters. Excel holds half of it."""
PIECE = 1 << 13
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
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler, parser.EndElementHandler = sheet.start, sheet.end
    parser.CharacterDataHandler = sheet.say
    with zipfile.ZipFile(path) as archive, archive.open("content.xml") as content:
        piece = b"<"
        while piece and not sheet.ended:
            piece = content.read(PIECE)
            parser.Parse(piece, not piece)
            yield from sheet.taken()


def _refuse_doctype(*_: Any) -> None:
    raise ValueError("a document type, which no sheet has")


class _Sheet:
    """Where the parser is, and the rows that it has finished."""

    def __init__(self) -> None:
        self._rows: list[tuple[list[Any], int]] = []
        self._depth = 0  # of tables in tables
        self._cells: list[Any] = []
        self._repeated = 1
        self._cell: Mapping[str, str] | None = None  # the open cell's attributes
        self._inside: list[str] = []  # elements that are open in the open cell
        self._text: list[str] = []
        self._length = 0
        self.ended = False

    def taken(self) -> list[tuple[list[Any], int]]:
        """The rows since the last call, and how many times each stands there."""
        rows, self._rows = self._rows, []
        return rows

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
            self._end_cell(self._cell)
            self._cell = None
        elif name == _TABLE + "table":
            self._depth -= 1
            self.ended = self.ended or self._depth == 0
        elif name == _TABLE + "table-row" and not self.ended:
            self._rows.append((self._cells, self._repeated))

    def _end_cell(self, about: Mapping[str, str]) -> None:
        value = _value(about, "".join(self._text))
        room = MOST_COLUMNS - len(self._cells)
        times = int(about.get(_TABLE + "number-columns-repeated", 1))
        if times > room and value is not None:
            raise ValueError("more columns than a sheet holds")
        self._cells += [value] * min(times, room)


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
