"""Who a row belongs to, without keeping who that is.

Two spellings of one person would give that person twice the rows that a cap allows, so names that are likely to mean
the same person count as one: see `one_spelling`. Two people who are taken for one lose rows, and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from decimal import Context, Decimal, InvalidOperation
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.array_types import Flags, Hashes
from sfumato.core.errors import TableError
from sfumato.table import arrays

# Tables as people hold them: what comes in says as what the answer goes out.


PANDAS, POLARS, ARROW = "pandas", "polars", "pyarrow"


def kind_of(source: Any) -> str:
    """As what to answer somebody who gave this: in kind; for paths and the like as pandas where it is installed.

    >>> kind_of(pa.table({"a": [1]}))
    'pyarrow'
    """
    makers = {parent.__module__.partition(".")[0] for parent in type(source).__mro__}
    for kind in (PANDAS, POLARS, ARROW):
        if kind in makers:
            return kind
    return PANDAS if find_spec(PANDAS) is not None else ARROW


def as_frame(table: pa.Table, kind: str) -> Any:
    """An Arrow table as a data frame of another kind."""
    if kind == PANDAS:
        return table.to_pandas(date_as_object=False)
    if kind == POLARS:
        import polars

        return polars.from_arrow(table)
    return table


# Drawn anew in every process and never written: hashes of one run cannot be matched with those of another.
_KEY = os.urandom(32)
LONGEST = 400
"""Digits of a number that is written out; longer ones have an exponent."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,9})?")


def one_spelling(word: str) -> str:
    """The name by which a person is counted: 1, 1.0, 01 and " 1" are one, as are "Ann Lee" and "ANN  LEE".

    Letters are compared without case and in one form (NFKC: full-width and joined letters are plain ones), without
    invisible characters and with single spaces; what reads as a number counts by its value, leading zeros or not.
    """
    if len(word) < LONGEST and word.isascii() and word.isdigit() and not word.startswith("0"):
        return word
    seen = "".join(letter for letter in unicodedata.normalize("NFKC", word) if unicodedata.category(letter) != "Cf")
    # some letters decompose only after they were folded, and the other way round
    plain = " ".join(unicodedata.normalize("NFKC", seen.casefold()).split())
    return _value(plain) if _NUMBER.fullmatch(plain) else plain


def _value(number: str) -> str:
    """All digits count: none is rounded away, however long a number is."""
    exact = Context(prec=len(number) + 1, Emax=10**10, Emin=-(10**10), traps=[InvalidOperation])
    found = exact.normalize(Decimal(number))
    if not found:
        return "0"
    places = found.as_tuple().exponent
    return f"{found:f}" if isinstance(places, int) and -LONGEST < places < LONGEST else str(found)


def person_codes(array: pa.Array, name: str, first_row: int = 0) -> npt.NDArray[np.uint64]:
    """Keyed 64-bit hash of every cell (BLAKE2b); two different persons collide with probability 2^-64."""
    persons = _Persons(array, name, first_row)
    return persons.hashes(_KEY, 8).view("<u8").astype(np.uint64, copy=False)


def person_hashes(array: pa.Array, name: str, first_row: int, key: bytes) -> tuple[Hashes, Hashes]:
    """128-bit hash of every cell under the owner's own key, by which a person is known again next month.

    The second one is of the cell as it is written, by which memories of version 0.1.0 know their people.
    """
    persons = _Persons(array, name, first_row)
    return persons.hashes(key, 16), persons.hashes(key, 16, as_written=True)


class _Persons:
    """A column of people; every distinct name is looked at once."""

    def __init__(self, array: pa.Array, name: str, first_row: int):
        words = arrays.text(array, name)
        if words.null_count:
            raise _nobody(name, first_row, arrays.as_numpy(words.is_null()))
        distinct = pc.unique(words)
        self._places = arrays.as_numpy(pc.index_in(words, value_set=distinct))
        self._written = distinct.to_pylist()
        self._spelled = [one_spelling(word) for word in self._written]
        empty = np.array([not word for word in self._spelled], dtype=np.bool_)
        if empty.any():
            raise _nobody(name, first_row, empty[self._places])

    def hashes(self, key: bytes, size: int, *, as_written: bool = False) -> Hashes:
        words = self._written if as_written else self._spelled
        digests = (hashlib.blake2b(word.encode(), digest_size=size, key=key).digest() for word in words)
        return np.asarray(np.frombuffer(b"".join(digests), dtype=f"S{size}")[self._places])


def _nobody(name: str, first_row: int, empty: Flags) -> TableError:
    row = first_row + int(np.argmax(empty)) + 1
    return TableError(f"The person column {name!r} is empty in row {row}. Every row must belong to somebody.")
