"""One column of a table: what it holds, what may be known about it, and what is to happen to it."""

from __future__ import annotations

import datetime
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sfumato.errors import SchemaError
from sfumato.table.column_noise import ColumnNoise
from sfumato.table.intervals import checked_edges, interval_names

KINDS = ("numeric", "integer", "ordinal", "categorical", "date")
ROLES = ("private", "label", "target", "person", "identifier")
SOURCES = ("learned", "public")

MISSING = "(missing)"
"""Name of the extra category that stands for an empty cell of a categorical column."""

EPOCH = datetime.date(1970, 1, 1)

Bound = float | int | str


@dataclass(frozen=True, repr=False)
class Column:
    """Name, kind and role of a column, with the bounds or categories that its encoding needs.

    Parameters
    ----------
    name : str
        As it stands in the table.
    kind : {"numeric", "integer", "ordinal", "categorical", "date"}
        What the cells are.
    role : {"private", "label", "target", "person", "identifier"}, default "private"
        What happens to it: perturbed, a class to be predicted, a number to be predicted (released as it is), says whose
        row it is, or dropped.
    low, high : number or ISO date, optional
        Bounds, low below high. A column of numbers or dates cannot be released without.
    categories : sequence of str, optional
        All categories; of an ordinal column in their order.
    source : {"learned", "public"}, default "learned"
        Where bounds, categories and `missing` come from: from the private table, or from elsewhere. Only what is public
        can carry a formal guarantee.
    reason : str, optional
        How they are known without looking at the table. What is public needs one.
    weight : float, default 1
        The share of the privacy effort that the column gets, relative to others; above 0.
    missing : bool, default False
        Whether cells may be empty.
    noise : ColumnNoise or mapping, optional
        How this column is perturbed, where it differs from the others: `{"law": "normal", "scale": 0.1}`.
    edges : sequence of float, optional
        Of a categorical or ordinal column whose cells are numbers: where they are cut. Categories are then the
        intervals, and need not be named. An edge belongs to the upper interval.
    quasi_identifier : bool, default False
        Whether others may know it of a person already, so that it can single somebody out: an audit counts how many
        people are alike in all such columns.
    """

    name: str
    kind: str
    role: str = "private"
    low: Bound | None = None
    high: Bound | None = None
    categories: tuple[str, ...] | None = None
    source: str = "learned"
    reason: str | None = None
    weight: float = 1.0
    missing: bool = False
    noise: ColumnNoise | Mapping[str, Any] | None = None
    edges: tuple[float, ...] | None = None
    quasi_identifier: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", ColumnNoise.of(self.noise, self.name))
        if self.edges is not None:
            _cut_at_edges(self)
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(str(category) for category in self.categories))
        for bound in ("low", "high"):
            object.__setattr__(self, bound, _plain_bound(self, getattr(self, bound)))
        _check_words(self)
        _check_domain(self)

    def __repr__(self) -> str:
        """Without bounds and categories: learned ones are values of people."""
        return f"<Column {self.name!r}: {self.kind}, {self.role}, {self.source}{', missing' if self.missing else ''}>"

    @property
    def choices(self) -> ColumnNoise:
        """How this column is perturbed, where it differs from the others."""
        return ColumnNoise.of(self.noise, self.name) or ColumnNoise()

    @property
    def is_categorical(self) -> bool:
        """Encoded one-hot; everything else is one number in [0, 1]."""
        return self.kind == "categorical"

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds in raw units: numbers as they are, dates as days since 1970-01-01, an ordinal's ranks 0 .. k-1."""
        if self.kind == "ordinal":
            return 0.0, float(len(self.categories or ()) - 1)
        if self.low is None or self.high is None:
            raise SchemaError(
                f"Column {self.name!r} has no bounds, so it cannot be encoded and no guarantee can be stated. "
                "Give `low` and `high` in the schema from what you know of the column, not from the data."
            )
        if self.kind == "date":
            return float(days(str(self.low))), float(days(str(self.high)))
        return float(self.low), float(self.high)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML and JSON; what says nothing is left out."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind, "role": self.role}
        if self.low is not None:
            found["low"] = self.low
        if self.high is not None:
            found["high"] = self.high
        if self.categories is not None:
            found["categories"] = list(self.categories)
        if self.edges is not None:
            found["edges"] = list(self.edges)
        if self.missing:
            found["missing"] = True
        if self.quasi_identifier:
            found["quasi_identifier"] = True
        if self.weight != 1.0:
            found["weight"] = self.weight
        if self.noise is not None:
            found["noise"] = self.choices.chosen
        found["source"] = self.source
        if self.reason is not None:
            found["reason"] = self.reason
        return found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Column:
        """Read one entry of a schema file; a misspelt key is refused with the nearest right one."""
        if not isinstance(found, Mapping):
            raise SchemaError("Every entry under `columns` must be a mapping with at least `name` and `kind`.")
        where = f"Column {found.get('name', '?')!r}"
        known = [field.name for field in fields(cls)]
        for key in found:
            if key not in known:
                raise SchemaError(f"{where} has an unknown key {key!r}.{nearest(key, known)}")
        for key in ("name", "kind"):
            if found.get(key) in (None, ""):
                raise SchemaError(f"{where} lacks the key {key!r}.")
        values = dict(found)
        values["name"] = str(values["name"])
        categories = values.get("categories")
        if categories is not None:
            if isinstance(categories, str) or not hasattr(categories, "__iter__"):
                raise SchemaError(f"{where}: `categories` must be a list.")
            values["categories"] = tuple(_category_text(category) for category in categories)
        for key in ("missing", "quasi_identifier"):
            values[key] = _truth(where, key, values.get(key, False))
        values["weight"] = _number(where, "weight", values.get("weight", 1.0))
        if values.get("reason") is not None:
            values["reason"] = str(values["reason"])
        return cls(**values)


def days(text: str) -> int:
    """Days since 1970-01-01 of an ISO date."""
    return (datetime.date.fromisoformat(text[:10]) - EPOCH).days


def iso_date(day: float) -> str:
    """The ISO date of a day number."""
    return (EPOCH + datetime.timedelta(days=int(day))).isoformat()


NEAR = 0.75
"""Share of letters that two words must have in common, in order, for one to be a likely misspelling of the other."""


def nearest(word: object, known: list[str] | tuple[str, ...]) -> str:
    """ " Did you mean 'x'?" for a known word that is near, else the list of all of them."""
    wanted, by_letters = str(word).casefold(), {name.casefold(): name for name in known}
    close = difflib.get_close_matches(wanted, list(by_letters), n=1, cutoff=NEAR)
    close = close or [name for name in by_letters if sorted(name) == sorted(wanted)]  # two letters the other way round
    if close:
        return f" Did you mean {by_letters[close[0]]!r}?"
    return f" Known are: {', '.join(known[:40])}{', ...' if len(known) > 40 else ''}."


EXACT_INTEGERS = 2**53
"""Beyond it a double cannot count in ones."""


def told_apart(low: float, high: float) -> bool:
    """Whether a double has at least a million steps between two numbers, or both are small enough to be exact."""
    largest = max(abs(low), abs(high))
    return largest <= EXACT_INTEGERS or (high - low) >= 2**20 * math.ulp(float(largest))


def _plain_bound(column: Column, bound: Any) -> Bound | None:
    """A bound as int, float or ISO date text, whatever a YAML reader or numpy made of it."""
    if bound is None:
        return None
    if column.kind == "date":
        if isinstance(bound, datetime.datetime):
            bound = bound.date()
        text = bound.isoformat() if isinstance(bound, datetime.date) else str(bound)
        try:
            days(text)
        except ValueError:
            raise SchemaError(f"Column {column.name!r}: bounds of a date must be ISO dates (2001-12-31).") from None
        return text[:10]
    number = _number(f"Column {column.name!r}", "bounds", bound)
    if not math.isfinite(number):
        raise SchemaError(f"Column {column.name!r}: bounds must be finite numbers.")
    if column.kind == "integer":
        if number != int(number):
            raise SchemaError(f"Column {column.name!r} is an integer, so its bounds must be integers.")
        return int(bound)
    return number


def _cut_at_edges(column: Column) -> None:
    """Edges as numbers, and the intervals between them as categories."""
    where = f"column {column.name!r}"
    if column.kind not in ("categorical", "ordinal"):
        raise SchemaError(
            f"The {where} has edges and is {column.kind}. Numbers that are cut become categories: write "
            "`kind: categorical`, or `kind: ordinal` where their order matters."
        )
    edges = checked_edges(column.edges, where)
    if column.categories is not None and len(column.categories) != len(edges) + 1:
        raise SchemaError(f"The {where} has {len(edges)} edges, so it needs {len(edges) + 1} categories, or none.")
    object.__setattr__(column, "edges", edges)
    object.__setattr__(column, "categories", column.categories or interval_names(edges))


def _check_words(column: Column) -> None:
    """Kind, role, source, reason and weight."""
    where = f"Column {column.name!r}"
    for key, value, known in (
        ("kind", column.kind, KINDS),
        ("role", column.role, ROLES),
        ("source", column.source, SOURCES),
    ):
        if value not in known:
            raise SchemaError(f"{where}: the {key} must be one of {', '.join(known)}. Got {value!r} instead.")
    if column.source == "public" and not (column.reason or "").strip():
        raise SchemaError(
            f"{where} is marked `source: public` without a `reason`. Say in one sentence why its bounds or categories "
            "are known to everybody (a law, a form, a code book), or leave `source: learned`."
        )
    if not (column.weight > 0 and math.isfinite(column.weight)):
        raise SchemaError(
            f"{where}: the privacy weight must be a finite number above 0. Got {column.weight!r} instead."
        )


def _check_domain(column: Column) -> None:
    """Bounds and categories that make sense together."""
    where = f"Column {column.name!r}"
    if column.low is not None and column.high is not None and column.kind not in ("ordinal", "categorical"):
        low, high = column.bounds
        if low > high:
            raise SchemaError(f"{where}: low is above high.")
        if not math.isfinite(high - low):
            raise SchemaError(f"{where}: the range from low to high is too wide for a number. Narrow the bounds.")
        if column.kind == "integer" and column.low != column.high and not told_apart(int(column.low), int(column.high)):
            raise SchemaError(
                f"{where}: its bounds lie beyond 2^53 and too close together for floating point to tell them apart. "
                "Subtract a constant from the column, declare categories, or give it the role identifier."
            )
    if column.categories is None:
        return
    if column.kind not in ("ordinal", "categorical"):
        raise SchemaError(f"{where} is {column.kind}, so it has bounds, not categories. Remove `categories`.")
    if not column.categories:
        raise SchemaError(f"{where}: the list of categories is empty.")
    if len(set(column.categories)) != len(column.categories):
        raise SchemaError(f"{where}: a category is listed twice.")
    if column.missing and column.kind == "categorical" and MISSING in column.categories:
        raise SchemaError(
            f"{where}: {MISSING!r} is added automatically for empty cells. Remove it from the categories."
        )


def _category_text(category: Any) -> str:
    """A category as text: what YAML read as a truth value or a date is spelt as tables spell it."""
    if isinstance(category, bool):
        return "true" if category else "false"
    if isinstance(category, datetime.date):
        return category.isoformat()
    return str(category)


def _truth(where: str, key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("yes", "no"):
        return str(value).lower() == "yes"
    raise SchemaError(f"{where}: `{key}` must be true or false.")


def _number(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool):
        raise SchemaError(f"{where}: {key} must be a number.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SchemaError(f"{where}: {key} must be a number.") from None
