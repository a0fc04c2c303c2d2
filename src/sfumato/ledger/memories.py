"""What is remembered beside the owner's ledger: what was read off private tables, and which rows were released.

What was read off must not come back as if it were public. The smallest and the largest value of a column are two
people's values. Copied into a schema they look like anybody's bounds, and so do their roundings. A file beside the
ledger (mode 0600, with a key of its own) keeps keyed hashes of both, which tell nothing without the key. A schema holds
no trace of it, since schemas travel.

This finds what was copied, rounded, or nudged in digits that no person writes. Bounds that were read and then moved by
more are not found: that a range is public remains the owner's word.
"""

from __future__ import annotations

import calendar
import contextlib
import datetime
import hashlib
import hmac
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.core.array_types import Floats, Hashes
from sfumato.core.errors import CardError
from sfumato.core.files import exclusive, explained, file_digest, read_kept, sync_folder, write_whole
from sfumato.guarantee.card import Card
from sfumato.ledger.ledger import Ledger, default_ledger, memory_beside
from sfumato.table import Column, Schema
from sfumato.table.column import iso_date

FORMAT, VERSION = "sfumato-read-off", 1
KEY_BYTES, BOUND_BYTES = 32, 8
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
                told = [["shown"]] if shown else []
                for end, bound in _ends(column).items():
                    told += [["compared"], [end, "equal", _text(column, bound)]]
                    told += [[end, text] for text in _roundings(column, bound)]
                self._hashes |= {self._hash(column.name, *parts) for parts in told}
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
        return hmac.digest(self._key, message, "sha256")[:BOUND_BYTES].hex()


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


# Which rows were released before: files of keyed hashes in a private folder beside the owner's ledger.
#
# A release and the memory of it cannot become durable in one stroke, so they do so in three: the hashes are written
# as *pending*, together with what identifies the release and where it will stand; the release is renamed into place;
# the hashes lose the word pending. Who finds pending hashes later looks whether the release stands there, and so knows
# whether its rows were released. Rows are then neither released twice nor lost, whenever a run was killed.


ROW_BYTES = 16
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
TILE = 1 << 15  # cells that are hashed at a time: they stay in the cache


class RowHash:
    """A pseudorandom function of encoded rows, computed per block.

    Two sums of 64 bits over the row's words, each mixed with secret words of its own (a keyed universal hash), then
    AES-128 of both together: without the key, hashes tell no more than which rows are equal.
    """

    def __init__(self, key: bytes, series: str, width: int):
        self._key = hmac.new(key, b"row/" + series.encode(), hashlib.sha256).digest()
        seed = int.from_bytes(self._key[16:], "little")
        secret = np.random.Generator(np.random.PCG64(seed)).integers(0, 2**64, size=(2, 2, width), dtype=np.uint64)
        self._masks, self._weights = secret[0], secret[1] | np.uint64(1)

    def of_rows(self, cells: Floats) -> Hashes:
        """Hashes of encoded rows (n, width); equal rows, and only they, have equal hashes."""
        sums = np.empty((len(cells), 2), dtype=np.uint64)
        step = max(64, TILE // max(1, cells.shape[1]))
        for start in range(0, len(cells), step):
            words = np.ascontiguousarray(cells[start : start + step].T + 0.0).view(np.uint64)  # -0 and 0 are one row
            for lane in range(2):
                mixed = words ^ self._masks[lane][:, None]
                for multiplier in _MIXERS:
                    mixed ^= mixed >> np.uint64(31)
                    mixed *= multiplier
                mixed ^= mixed >> np.uint64(29)
                mixed *= self._weights[lane][:, None]
                sums[start : start + step, lane] = mixed.sum(axis=0, dtype=np.uint64)
        # One block, one row: that equal rows give equal words is what is wanted of a hash here.
        encryptor = Cipher(algorithms.AES(self._key[:16]), modes.ECB()).encryptor()
        return np.frombuffer(encryptor.update(sums.tobytes()) + encryptor.finalize(), dtype=f"S{ROW_BYTES}")

    @property
    def person_key(self) -> bytes:
        """The key under which people, rather than rows, are hashed."""
        return hmac.new(self._key, b"person", hashlib.sha256).digest()


KNOWN, PENDING, ANNOUNCED, RELEASED = ".rows", ".pending", ".announced", ".released"


@dataclass
class RowMemory:
    """What a ledger remembers of one series of releases: those of one schema.

    `series` says of what kind the hashes are (rows or people) and under which encoding they were made.
    """

    folder: Path
    hasher: RowHash
    _pending: Path | None = None

    @classmethod
    @contextlib.contextmanager
    def opened(cls, ledger: Ledger, series: str, width: int) -> Iterator[RowMemory]:
        """The memory, for this process alone: another run waits, else both would take the same rows for new."""
        ledger.keep()  # the key that the hashes are made with must outlive this run
        folder = memory_folder(ledger, series)
        with exclusive(folder.parent):
            memory = cls(folder, RowHash(ledger.key, series, width))
            with explained(folder):
                folder.parent.mkdir(mode=0o700, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                # Runs that were killed left their hashes pending; no other run is at work here now.
                for pending in folder.glob("*" + PENDING):
                    memory._decide(pending, at_once=False)
                for about in folder.glob("*" + ANNOUNCED):  # its hashes were settled, then the run was killed
                    if about.with_suffix(KNOWN).exists():
                        about.rename(about.with_suffix(RELEASED))
                    else:
                        about.unlink()
            yield memory

    def known(self) -> Iterator[Hashes]:
        """The hashes of every earlier release, sorted, as files that are read only where they are looked into."""
        for path in sorted(self.folder.glob("*" + KNOWN)):
            size = path.stat().st_size
            if size % ROW_BYTES:
                raise CardError(f"The ledger's memory {path} was cut short. Take it from a backup.")
            if size:
                yield np.memmap(path, dtype=f"S{ROW_BYTES}", mode="r")

    def write_pending(self, parts: Iterable[Hashes]) -> None:
        """Write the hashes of rows that are about to be released; `parts` come sorted, one after the other."""
        self._pending = self.folder / (secrets.token_hex(8) + PENDING)
        private = partial(os.open, mode=0o600)
        with explained(self._pending), open(self._pending, "xb", opener=private) as file:
            for part in parts:
                file.write(part.tobytes())
            file.flush()
            os.fsync(file.fileno())

    @property
    def mark(self) -> str:
        """By which the ledger's note of the release names the hashes that are pending now."""
        assert self._pending is not None
        return f"{self.folder.name}/{self._pending.stem}"

    def holds(self, mark: str) -> bool:
        """Whether the hashes under this mark are of this series."""
        return mark.partition("/")[0] == self.folder.name

    def announce(self, release: Path, target: Path, note: Mapping[str, Any]) -> None:
        """Say, durably, whose hashes are pending: those of the file `release`, which is to stand at `target`.

        `note` is how the ledger noted the release, so that it can be struck with the hashes, should it never leave.
        """
        assert self._pending is not None
        about = {"release": file_digest(release), "from": str(release.absolute()), "to": str(target.absolute())}
        text = json.dumps({**about, "note": dict(note)})
        write_whole(self._pending.with_suffix(ANNOUNCED), text, private=True)

    def keep(self, note: Mapping[str, Any]) -> Path:
        """Know the hashes from now on: their release is in memory, and may be seen as soon as it is handed over.

        Returns the file that says so, for `name_release` once there is a file of the release.
        """
        assert self._pending is not None
        pending, self._pending = self._pending, None
        about = pending.with_suffix(RELEASED)
        write_whole(about, json.dumps({"release": None, "note": dict(note)}), private=True)
        with explained(self.folder):
            pending.rename(pending.with_suffix(KNOWN))
            sync_folder(self.folder)
        return about

    def settle(self) -> None:
        """The run ended: its hashes are known from now on if the release stands, and else forgotten."""
        if self._pending is not None and self._pending.exists():
            with explained(self.folder):
                self._decide(self._pending, at_once=True)
        self._pending = None

    def _decide(self, pending: Path, *, at_once: bool) -> None:
        about = pending.with_suffix(ANNOUNCED)
        if about.exists() and _stands(about, pending, at_once=at_once):
            pending.rename(pending.with_suffix(KNOWN))
            about.rename(about.with_suffix(RELEASED))
        else:
            pending.unlink()
            about.unlink(missing_ok=True)
        sync_folder(self.folder)


def name_release(about: Path, release: Path) -> None:
    """Say which file a release that was kept in memory has become, so that it can be forgotten like any other."""
    if about.is_file():
        found = json.loads(about.read_text(encoding="utf-8"))
        write_whole(about, json.dumps({**found, "release": file_digest(release)}), private=True)


def forget(ledger: Ledger, digest: str) -> int:
    """Forget a release that never left, by the digest of its file: its rows are new again. Returns their number."""
    home = memory_home(ledger)
    if not home.is_dir():
        return 0
    with exclusive(home), explained(home):
        for about in home.glob("*/*" + RELEASED):
            found = json.loads(about.read_text(encoding="utf-8"))
            known = about.with_suffix(KNOWN)
            if found["release"] == digest and known.exists():
                rows = known.stat().st_size // ROW_BYTES
                ledger.strike(**found["note"])
                known.unlink()
                about.unlink()
                sync_folder(about.parent)
                return rows
    return 0


def was_released(ledger: Ledger, mark: str) -> bool:
    """Whether the release under this mark stands; one of another series that was not settled yet may."""
    hashes = memory_home(ledger) / mark
    return any(hashes.with_suffix(ending).exists() for ending in (KNOWN, PENDING))


def memory_home(ledger: Ledger) -> Path:
    """The folder of all series, beside the ledger."""
    return ledger.path.with_name(ledger.path.name + ".rows")


def memory_folder(ledger: Ledger, series: str) -> Path:
    name = hmac.new(ledger.key, b"series/" + series.encode(), hashlib.sha256).hexdigest()[:16]
    return memory_home(ledger) / name


def _stands(note: Path, pending: Path, *, at_once: bool) -> bool:
    """Whether the announced release was renamed into place; `at_once`, no one can have moved it away since."""
    try:
        about = json.loads(note.read_text(encoding="utf-8"))
        here, target, digest = Path(about["from"]), Path(about["to"]), about["release"]
    except (ValueError, KeyError, TypeError) as error:
        raise CardError(f"The ledger's note {note} is damaged. Take it from a backup.") from error
    if target.is_file() and file_digest(target) == digest:
        return True
    if here.is_file() or at_once:
        return False
    raise CardError(
        f"A run with --only-new was killed while it wrote {target.parent}, and the release is no longer there, so it "
        f"is unknown whether its rows were released. If that release exists somewhere, put its folder back for this "
        f"run. If it does not, delete {note} and {pending}."
    )
