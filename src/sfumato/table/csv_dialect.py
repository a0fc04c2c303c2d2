"""How a file is written: its decimal mark, its encoding, its words for empty cells."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import TableError, UsageError
from sfumato.table.arrays import has_leading_zeros

RANKS = (pa.null(), pa.int64(), pa.float64(), pa.string())
"""The types that columns of a CSV file can have, from narrow to wide."""
DECIMALS = (".", ",")
_POINTED, _NUMBER_LIKE = r"^\s*[+-]?\d+\.\d", r"^\s*[+-]?\d[\d.,]*\s*$"
_WHOLE = r"^\s*[+-]?\d+\s*$"


@dataclass(frozen=True)
class Dialect:
    """What a file does not say of itself.

    decimal : "." or ",", of a CSV file.
    encoding : any of Python's text encodings, for example "cp1252"; "utf-8" may begin with a byte order mark.
    missing : words that stand for an empty cell, in files of any kind.
    """

    decimal: str = "."
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS:
            raise UsageError(f"--decimal must be {' or '.join(DECIMALS)}. Got {self.decimal!r} instead.")
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

    def in_utf8(self, file: IO[bytes]) -> IO[bytes]:
        """The same text in UTF-8, transcoded as it is read."""
        if self.is_utf8:
            return file
        stream: Any = pa.transcoding_input_stream(pa.PythonFile(file, mode="r"), self.encoding, "utf-8")
        return io.BufferedReader(stream)

    def rank(self, column: pa.Array, at_least: int) -> int:
        """Position in `RANKS` of the narrowest type for these text cells, not narrower than found so far."""
        if column.null_count == len(column) or at_least == 3:
            return at_least
        if at_least <= 1 and _casts(column, RANKS[1]):
            return 3 if has_leading_zeros(column) else 1
        if self._are_numbers(column):
            # Integers that no int64 holds are text, which keeps all their digits; the schema looks at them later.
            return 3 if at_least <= 1 and pc.all(pc.match_substring_regex(column, _WHOLE)).as_py() else 2
        trimmed = pc.utf8_trim_whitespace(column)
        return 3 if trimmed.equals(column) else self.rank(trimmed, at_least)

    def check_points(self, name: str, column: pa.Array) -> None:
        """Where the comma is the decimal mark, 1.234 is a thousand or a mistake, and never 1.234."""
        if self.decimal == "." or not pc.any(pc.match_substring_regex(column, _POINTED)).as_py():
            return
        if pc.all(pc.match_substring_regex(column, _NUMBER_LIKE)).as_py():
            raise TableError(
                f"Column {name!r} has numbers with a point, but the decimal mark is a comma. Remove points between "
                "thousands, or leave --decimal out if the point is the decimal mark."
            )

    def _are_numbers(self, column: pa.Array) -> bool:
        if self.decimal == ".":
            return _casts(column, RANKS[2])
        if pc.any(pc.match_substring(column, ".")).as_py():
            return False
        return _casts(pc.replace_substring(column, self.decimal, "."), RANKS[2])


def _casts(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
