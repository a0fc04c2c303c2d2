"""What was read off private tables, remembered beside the owner's ledger: it must not come back as if it were public.

The smallest and the largest value of a column are two people's values. Copied into a schema they look like anybody's
bounds, and so do their roundings. A file beside the ledger (mode 0600, with a key of its own) keeps keyed hashes of
both, which tell nothing without the key. A schema holds no trace of it, since schemas travel.

This finds what was copied, rounded, or nudged in digits that no person writes. Bounds that were read and then moved by
more are not found: that a range is public remains the owner's word.
"""

from __future__ import annotations

import calendar
import datetime
import hmac
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

from sfumato.core.files import exclusive, read_kept, write_whole
from sfumato.guarantee.card import Card
from sfumato.ledger.ledger import default_ledger, memory_beside
from sfumato.table import Column, Schema
from sfumato.table.column import iso_date

FORMAT, VERSION = "sfumato-read-off", 1
KEY_BYTES, HASH_BYTES = 32, 8
NUMBERS = ("numeric", "integer", "date")
"""Kinds that have bounds."""
ENDS = ("low", "high")
MOST_SHOWN = 20
NUDGE = 1e-3
FEWEST_DIGITS = 3
_SPELT = json.JSONEncoder(ensure_ascii=False)
ROUND_HALVES = 3
"""Leading digits within which people also round to twos and fives, not only to tens."""


class ReadOff:
    """The memory of one ledger; an empty one is written when there is something to remember."""

    def __init__(self, ledger: Path | None = None):
        self.path = memory_beside(ledger or default_ledger())
        self._load()

    def _load(self) -> None:
        self._key, self._hashes = os.urandom(KEY_BYTES), set[str]()
        if not self.path.exists():
            return
        lost = (
            f"The memory of what was read, {self.path}, cannot be read. Take it from a backup, or move it away "
            "(bounds are then no longer compared with what was read before)."
        )

        def read(data: Mapping[str, Any]) -> tuple[bytes, set[str]]:
            key = bytes.fromhex(data["key"])
            if len(key) != KEY_BYTES:
                raise ValueError("the key was cut short")
            return key, {str(item) for item in data["hashes"]}

        what = "The memory of what was read"
        self._key, self._hashes = read_kept(self.path, what, (FORMAT, VERSION), read, lost)

    def remember(self, columns: Iterable[Column], *, shown: bool) -> None:
        """Columns whose bounds or categories are those of a private table; `shown`: in a schema or on a card."""
        columns = [column for column in columns if column.role in ("private", "label")]
        if all(
            (self.was_shown(column) or not shown) and len(self.equal_ends(column)) == len(_ends(column))
            for column in columns
        ):
            return
        with exclusive(self.path):
            self._load()
            for column in columns:
                if shown:
                    self._hashes.add(self._hash(column.name, "shown"))
                for end, bound in _ends(column).items():
                    self._hashes.add(self._hash(column.name, "compared"))
                    self._hashes.add(self._hash(column.name, end, "equal", _text(column, bound)))
                    self._hashes |= {self._hash(column.name, end, text) for text in _roundings(column, bound)}
            kept = {"format": FORMAT, "version": VERSION, "key": self._key.hex(), "hashes": sorted(self._hashes)}
            write_whole(self.path, json.dumps(kept, indent=0), private=True)

    def was_shown(self, column: Column) -> bool:
        """Whether the range of a column of this name was read off a table, for the owner to see."""
        return self._hash(column.name, "shown") in self._hashes

    def can_compare(self, column: Column) -> bool:
        """Whether the ends of a column of this name are remembered."""
        return self._hash(column.name, "compared") in self._hashes

    def equal_ends(self, column: Column) -> list[str]:
        """The ends ("low", "high") that are what was read, but for a nudge in digits that no person writes."""
        return [
            end
            for end, bound in _ends(column).items()
            if any(
                self._hash(column.name, end, "equal", text) in self._hashes for text in _without_nudge(column, bound)
            )
        ]

    def copied_ends(self, column: Column) -> list[str]:
        """The ends that are what was read, or a rounding of it."""
        near = self.equal_ends(column)
        return [
            end
            for end, bound in _ends(column).items()
            if end in near or self._hash(column.name, end, _text(column, bound)) in self._hashes
        ]

    def at_the_ends(self, schema: Schema) -> dict[str, list[str]]:
        """The public ranges that end exactly where a table under this ledger ended, by column."""
        found = {column.name: self.equal_ends(column) for column in schema.private if column.source == "public"}
        return {name: ends for name, ends in found.items() if ends}

    def _hash(self, *parts: str) -> str:
        message = _SPELT.encode(parts).encode()
        return hmac.digest(self._key, message, "sha256")[:HASH_BYTES].hex()


def table_ends(schema: Schema, ends: Mapping[str, tuple[float, float]]) -> dict[str, Column]:
    """The columns of numbers with the smallest and the largest value of the table as their bounds."""
    found = {}
    for column in schema.private:
        if column.kind in NUMBERS and column.name in ends and all(map(math.isfinite, ends[column.name])):
            low, high = ends[column.name]
            if column.kind != "numeric":  # as a schema that is read off the table has them
                low, high = math.floor(low), math.ceil(high)
            bounds = (iso_date(low), iso_date(high)) if column.kind == "date" else (low, high)
            found[column.name] = replace(column, low=bounds[0], high=bounds[1], source="learned", reason=None)
    return found


def shared_ends(schema: Schema, own: Mapping[str, Column]) -> dict[str, list[str]]:
    """The public ranges that end exactly where the table does, by column; `own` is what `table_ends` found."""
    public = [column for column in schema.private if column.source == "public" and column.name in own]
    found = {one.name: [end for end in ENDS if about_equal(one, own[one.name], end)] for one in public}
    return {name: ends for name, ends in found.items() if ends}


def about_equal(column: Column, own: Column, end: str) -> bool:
    """Whether they differ by less than a thousandth of the range, which no owner declares."""
    one, other = getattr(column, end), getattr(own, end)
    if column.kind == "date" or one is None or other is None:
        return bool(one == other)
    width = float(own.high or 0.0) - float(own.low or 0.0)
    return abs(float(one) - float(other)) <= NUDGE * width


def ends_in_words(found: Mapping[str, Sequence[str]]) -> str:
    """What only the owner is told of public ranges that end where the table does; nothing where none does."""
    if not found:
        return ""
    names = {"low": "lowest", "high": "highest"}
    shown = [f"{name} ({' and '.join(names[end] for end in ends)})" for name, ends in list(found.items())[:MOST_SHOWN]]
    more = f" and {len(found) - MOST_SHOWN:,} more" if len(found) > MOST_SHOWN else ""
    return (
        f"Told to you alone: these ranges end exactly where your table ends: {', '.join(shown)}{more}. If they were "
        "read off it, they are people's values, and nothing is proved. Declare what you know from elsewhere."
    )


def told_to_the_owner(card: Card, ledger: Path | None = None) -> str:
    """The same of a release that was made under this ledger; nothing for anybody else."""
    return ends_in_words(ReadOff(ledger).at_the_ends(card.source_encoding().schema))


def _ends(column: Column) -> dict[str, Any]:
    """The bounds that a column has; categories and ordinals have none."""
    if column.kind not in NUMBERS:
        return {}
    return {end: bound for end in ENDS if (bound := getattr(column, end)) is not None}


def _text(column: Column, bound: Any) -> str:
    """One spelling of each number and date."""
    return str(bound) if column.kind == "date" else str(Decimal(repr(bound)).normalize() + 0)


def _without_nudge(column: Column, bound: Any) -> set[str]:
    """The bound as written, and with fewer digits, down to three: 5.4299999 is 5.43 to anybody who reads it."""
    if column.kind == "date":
        return {str(bound)}
    number = Decimal(repr(bound)).normalize()
    digits = range(FEWEST_DIGITS, len(number.as_tuple().digits))
    return {_text(column, bound), *(str(Decimal(f"{number:.{count - 1}e}").normalize() + 0) for count in digits)}


def _roundings(column: Column, bound: Any) -> set[str]:
    if column.kind == "date":
        return _date_roundings(datetime.date.fromisoformat(str(bound)))
    return {str(one.normalize() + 0) for one in _number_roundings(Decimal(repr(bound)).normalize())}


def _number_roundings(number: Decimal) -> set[Decimal]:
    """The number, and its neighbours with fewer digits, down to one: up and down, to tens, and to twos and fives.

    Zero has no digit of the number, so it is a rounding of itself alone.

    >>> sorted(float(one) for one in _number_roundings(Decimal("17.3")))
    [10.0, 15.0, 16.0, 17.0, 17.2, 17.3, 17.4, 17.5, 18.0, 20.0]
    """
    found = {number}
    first, last = number.adjusted(), number.as_tuple().exponent
    assert isinstance(last, int)  # a bound is finite
    for place in range(last, first + 1):
        coarse = first - ROUND_HALVES < place < first
        for times in (1, 2, 5) if coarse else (1,):
            step = Decimal(times).scaleb(place)
            found |= {(number / step).to_integral_value(way) * step for way in (ROUND_FLOOR, ROUND_CEILING)}
    return {one for one in found if one != 0} | {number}


def _date_roundings(day: datetime.date) -> set[str]:
    """The day; the first and the last of its month, year and decade, and the first of the next ones."""
    year, month = day.year, day.month
    decade = year - year % 10
    after = (year, month + 1) if month < 12 else (year + 1, 1)
    return {
        day.isoformat(),
        *(
            f"{y:04}-{m:02}-01"
            for y, m in ((year, month), after, (year, 1), (year + 1, 1), (decade, 1), (decade + 10, 1))
        ),
        f"{year:04}-{month:02}-{calendar.monthrange(year, month)[1]:02}",
        *(f"{y:04}-12-31" for y in (year, decade + 9)),
    }
