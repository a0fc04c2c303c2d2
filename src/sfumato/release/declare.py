"""declare: which ranges are public by the owner's word, and which cannot be, since they were read off the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.wording import counted, to_type
from sfumato.ledger.memories import ENDS, NUMBERS, ReadOff, about_equal
from sfumato.table import Column, Schema
from sfumato.table.schema import read_yaml

MOST_CODES = 24
"""Whole numbers in a range of so many values are codes (grades, months, hours, a scale), not measurements."""
END_NAMES = {"low": "lower", "high": "upper"}


class CopiedError(UsageError):
    """A bound that is what was read off the table, or nearly: some person's value, or just what a form says. `ends` are
    those of the range."""

    def __init__(self, path: Path, column: Column, ends: Sequence[str], why: str) -> None:
        self.ends = tuple(ends)
        # Round numbers that stand in a form may well be where the table ends.
        super().__init__(
            f"Column {column.name!r}: its {' and '.join(END_NAMES[end] for end in ends)} bound {why}. Type what you "
            f"know from elsewhere: {example(path, column)}. If your source says just these numbers, write them into "
            f"{path} by hand, with `source: public` and a `reason:` that names the source. `sfumato show` then tells "
            "readers that they rest on your word, and tells you that they end where the table does."
        )


@dataclass(frozen=True)
class Typed:
    """What the owner types for one column, instead of what stands in the file."""

    low: str | None = None
    high: str | None = None
    categories: tuple[str, ...] | None = None

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


def declare(
    path: Path, names: Sequence[str] | None, reason: str, typed: Typed | None = None, ledger: Path | None = None
) -> tuple[Schema, list[str]]:
    """The schema in the file `path` with these columns public, and their names; None stands for all that are not.
    Refused are numbers that were read off the table or are roundings of what was, categories and codes that were read
    and are not typed again, and all columns at once where any was read."""
    typed = typed or Typed()
    _check_typed(names, reason, typed)
    declaring = Declaring(path, ledger)
    schema = declaring.schema
    wanted = names or [
        one.name for one in schema.columns if one.role in ("private", "label") and one.source == "learned"
    ]
    read = [name for name in wanted if declaring.was_read(name)]
    if names is None and read:
        raise UsageError(
            f"--all cannot declare what was read off a table, as {counted(len(read), 'column')} of {path} "
            f"{'was' if len(read) == 1 else 'were'}. Say for each column what you know, and how: "
            f"{example(path, schema[read[0]])}"
        )
    for name in wanted:
        declaring.declare(name, reason, typed)
    return declaring.schema, list(wanted)


def _check_typed(names: Sequence[str] | None, reason: str, typed: Typed) -> None:
    if not reason.strip():
        raise UsageError("--reason must say how the bounds are known without this table.")
    if typed.given and (names is None or len(names) != 1):
        raise UsageError("--low, --high and --categories are typed for one column at a time. Give one --column.")


class Declaring:
    """A schema file whose columns are declared one after the other; each is taken or refused by itself."""

    def __init__(self, path: Path, ledger: Path | None = None) -> None:
        self.schema = Schema.load(path)
        self._path, self._memory = path, ReadOff(ledger)
        found = read_yaml(path)
        columns = found.get("columns", ()) if isinstance(found, Mapping) else ()
        # who writes one by hand says nothing of where its ranges come from
        self._marked = {str(column.get("name")) for column in columns if column.get("source") == "learned"}

    def was_read(self, name: str) -> bool:
        """Whether a column's range was read off a table, by the file or by the ledger's memory."""
        return name in self._marked or self._memory.was_shown(self.schema[name])

    def declare(self, name: str, reason: str, typed: Typed) -> None:
        """Take one column, or refuse it and leave the schema as it is."""
        column, path = _with(self.schema[name], typed), self._path
        if column.kind in NUMBERS:
            _check_range(column, typed, self.was_read(name), self._memory, path)
        elif typed.categories is None and self.was_read(name):
            raise UsageError(
                f"Column {name!r}: its categories were read off the table. Type them again from your source: "
                f"{example(path, column)}"
            )
        if name in self._marked and typed.given:
            _check_against(self.schema[name], column, path)
        domain = {key: getattr(column, key) for key in (*ENDS, "categories")}
        self.schema = self.schema.with_column(name, **domain, source="public", reason=reason.strip())


def in_words(column: Column) -> str:
    """What is declared of a column: "age from 0 to 120"."""
    if column.kind in NUMBERS:
        said = f"{column.name} from {column.low} to {column.high}"
    else:
        said = f"{column.name} with {counted(len(column.categories or ()), 'category')}"
    return f"{said}, may be empty" if column.missing else said


def _check_range(column: Column, typed: Typed, read: bool, memory: ReadOff, path: Path) -> None:
    """Refuse a range that was read and not typed, or that is a copy of what was read."""
    where = f"Column {column.name!r}"
    if column.low is None or column.high is None:
        raise SchemaError(f"{where} has no bounds to declare. Type them: {example(path, column)}")
    if read and not memory.can_compare(column) and any(end not in typed.given for end in ENDS):
        raise UsageError(
            f"{where} was read off a table, but not under this ledger: its bounds cannot be compared with what was "
            f"read. Type those that you know: {example(path, column)}"
        )
    plain = _plain_ends(column)
    copied = [end for end in memory.copied_ends(column) if end not in typed.given or end not in plain]
    if copied:
        many = "are" if len(copied) > 1 else "is"
        why = f"{many} what was read off the table, or a rounding of it, which is some person's value"
        raise CopiedError(path, column, copied, why)


def _check_against(read: Column, column: Column, path: Path) -> None:
    """Refuse what was typed where the file itself says that nearly the same was read, whatever this ledger knows."""
    if column.kind == "date" or column.kind not in NUMBERS or None in (read.low, read.high):
        return
    plain = _plain_ends(column)
    if ends := [end for end in ENDS if end not in plain and about_equal(column, read, end)]:
        raise CopiedError(path, column, ends, "is what the file says was read off a table, or a thousandth from it")


def _plain_ends(column: Column) -> set[str]:
    """Bounds that hold no digit of anybody's value: those of codes, and 0 and powers of ten: forms are full of them."""
    if column.kind == "date":
        return set()
    if column.kind == "integer" and int(column.high or 0) - int(column.low or 0) < MOST_CODES:
        return set(ENDS)
    digits = {end: Decimal(repr(getattr(column, end))).normalize().as_tuple().digits for end in ENDS}
    return {end for end, found in digits.items() if found in ((0,), (1,))}


def _with(column: Column, typed: Typed) -> Column:
    """The column with what was typed for it."""
    given = typed.given
    wrong = "categories" if column.kind in NUMBERS else "low" if "low" in given else "high"
    if wrong in given:
        raise UsageError(f"Column {column.name!r} is {column.kind}, so --{wrong} says nothing about it.")
    for end in ENDS:
        if end in given and column.kind != "date":
            try:
                given[end] = float(given[end])
            except ValueError:
                told = "--{end} must be a number, as {name!r} is {kind}."
                raise UsageError(told, end=end, name=column.name, kind=column.kind) from None
    return replace(column, **given)


def example(path: Path, column: Column) -> str:
    """The command that declares a column; its own values stand in no message."""
    values = {"low": "LOW", "high": "HIGH"} if column.kind in NUMBERS else {"categories": "A,B"}
    return to_type("schema declare", path, column=column.name, **values, reason="WHERE IT IS WRITTEN")
