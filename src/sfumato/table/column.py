"""One column of a table: what it holds, what may be known about it, and what is to happen to it."""

from __future__ import annotations

import datetime
import difflib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.accepted import Either, Nothing, Positive, Text
from sfumato.core.errors import SchemaError
from sfumato.core.records import BRIEF, FieldError, Record
from sfumato.table.arrays import is_number, is_text, numbers, parsed_numbers, text

# What is to happen to one column, where it differs from what the mechanism does to all of them.

ABOVE_0 = Either((Positive(math.inf), Nothing()))


@dataclass(frozen=True)
class ColumnNoise(Record):
    """Choices for one column; what is None follows the mechanism.

    Parameters
    ----------
    law : str, optional
        Law of the noise, for `additive-noise`, `multiplicative-noise` and `noisy-operator`.
    scale, low, high, df : float, optional
        Of the law, in the units of the mechanism: relative to the column's range for `additive-noise`, raw ones for an
        additive operator, a factor for a multiplicative one.
    operator : str, optional
        How noise is carried into the column, for `multiplicative-noise` and `noisy-operator`.
    base : float, optional
        Of a multiplicative operator.
    epsilon_share : float, optional
        The column's part of the record's epsilon, relative to others; instead of 1 / weight.
    kernel : str, optional
        For `kernel-resampling`.
    bandwidth : float or str, optional
        For `kernel-resampling`: a share of the column's range, or the name of a rule.
    """

    law: Annotated[str | None, BRIEF] = None
    scale: Annotated[float | None, ABOVE_0, BRIEF] = None
    low: Annotated[float | None, BRIEF] = None
    high: Annotated[float | None, BRIEF] = None
    df: Annotated[float | None, ABOVE_0, BRIEF] = None
    operator: Annotated[str | None, BRIEF] = None
    base: Annotated[float | None, BRIEF] = None
    epsilon_share: Annotated[float | None, ABOVE_0, BRIEF] = None
    kernel: Annotated[str | None, BRIEF] = None
    bandwidth: Annotated[float | str | None, Either((Positive(math.inf), Text(), Nothing())), BRIEF] = None
    takes_more = False

    @property
    def settles_strength(self) -> bool:
        """Whether it says how strong the column's noise is."""
        return self.scale is not None or self.low is not None or self.high is not None

    @property
    def chosen(self) -> dict[str, Any]:
        """The choices that were made, by name."""
        return self.to_dict()

    @classmethod
    def of(cls, found: Any, column: str) -> ColumnNoise | None:
        """Read and check what a schema says; laws, operators and kernels are known to the mechanisms."""
        if found is None or isinstance(found, cls):
            return found
        try:
            made = cls.from_dict(found)
        except FieldError as problem:
            raise SchemaError(f"Column {column!r}: in its `noise`, {problem}.") from None
        return None if made == cls() else made


# Numbers as categories: where they are cut, and what the intervals are called.


def checked_edges(found: Any, what: str) -> tuple[float, ...]:
    """Edges as increasing finite numbers; a `SchemaError` says what is wrong with those of `what`."""
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise SchemaError(f"The edges of {what} must be a list of numbers: where it is cut into intervals.")
    try:
        edges = tuple(math.nan if isinstance(edge, bool | str) else float(edge) for edge in found)
    except (TypeError, ValueError, OverflowError):
        edges = (math.nan,)
    if not all(math.isfinite(edge) for edge in edges):
        raise SchemaError(f"The edges of {what} must be numbers.")
    if any(a >= b for a, b in itertools.pairwise(edges)):
        raise SchemaError(f"The edges of {what} must increase.")
    return edges


def interval_names(edges: Sequence[float]) -> tuple[str, ...]:
    """What the intervals are called; an edge belongs to the upper one.

    >>> interval_names((5, 7.5))
    ('below 5', '5 to 7.5', '7.5 or more')
    """
    written = [f"{edge:.15g}" for edge in edges]  # 1500000, not 1.5e+06
    middle = [f"{low} to {high}" for low, high in itertools.pairwise(written)]
    return (f"below {written[0]}", *middle, f"{written[-1]} or more")


def cut(array: pa.Array, edges: Sequence[float], categories: Sequence[str], name: str) -> pa.Array:
    """Cells as names of intervals: numbers are cut, names of intervals (of a table that was cut before) stay."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.string())
    if is_text(array.type):
        words = text(array, name)
        found = parsed_numbers(words)
    elif is_number(array.type):
        words = pa.nulls(len(array), pa.string())
        found = array.cast(pa.float64(), safe=False)
    else:
        raise SchemaError(f"Column {name!r} has edges, so it must hold numbers. The table's type is {array.type}.")
    found = pc.if_else(pc.is_nan(found), None, found)
    codes = np.searchsorted(np.asarray(edges), numbers(found, name).numbers, side="right")
    names = pa.array(categories, pa.string()).take(pa.array(codes))
    return pc.if_else(found.is_valid(), names, words)


KINDS = ("numeric", "integer", "ordinal", "categorical", "date")
ROLES = ("private", "label", "target", "person", "identifier")
SOURCES = ("learned", "public")

MISSING = "(missing)"
"""Name of the extra category that stands for an empty cell of a categorical column."""

EPOCH = datetime.date(1970, 1, 1)

Bound = float | int | str


@dataclass(frozen=True, repr=False)
class Column(Record):
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
        Whether others may know it of a person already, so that it can single a person out: an audit counts how many
        people are alike in all such columns.
    """

    name: str
    kind: str
    role: str = "private"
    low: Annotated[Bound | None, BRIEF] = None
    high: Annotated[Bound | None, BRIEF] = None
    categories: Annotated[tuple[str, ...] | None, BRIEF] = None
    edges: Annotated[tuple[float, ...] | None, BRIEF] = None
    missing: Annotated[bool, BRIEF] = False
    quasi_identifier: Annotated[bool, BRIEF] = False
    weight: Annotated[float, BRIEF] = 1.0
    noise: Annotated[ColumnNoise | Mapping[str, Any] | None, BRIEF] = None
    source: str = "learned"
    reason: Annotated[str | None, BRIEF] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", ColumnNoise.of(self.noise, self.name))
        if self.edges is not None:
            where = f"column {self.name!r}"
            if self.kind not in ("categorical", "ordinal"):
                raise SchemaError(
                    f"The {where} has edges and is {self.kind}. Numbers that are cut become categories: write "
                    "`kind: categorical`, or `kind: ordinal` where their order matters."
                )
            edges = checked_edges(self.edges, where)
            if self.categories is not None and len(self.categories) != len(edges) + 1:
                raise SchemaError(
                    f"The {where} has {len(edges)} edges, so it needs {len(edges) + 1} categories, or none."
                )
            object.__setattr__(self, "edges", edges)
            object.__setattr__(self, "categories", self.categories or interval_names(edges))
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(str(category) for category in self.categories))
        for bound in ("low", "high"):
            object.__setattr__(self, bound, _plain_bound(self, getattr(self, bound)))
        where = f"Column {self.name!r}"
        _check_words(self, where)
        _check_range(self, where)
        if self.categories is not None:
            _check_categories(self, where)

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

    @classmethod
    def from_dict(cls, found: Any) -> Self:
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
        values = {**found, "name": str(found["name"])}
        if (categories := values.get("categories")) is not None:
            if isinstance(categories, str) or not hasattr(categories, "__iter__"):
                raise SchemaError(f"{where}: `categories` must be a list.")
            values["categories"] = tuple(_category_text(category) for category in categories)
        for key in ("missing", "quasi_identifier"):
            told = values.get(key, False)
            values[key] = told if isinstance(told, bool) else {"yes": True, "no": False}.get(str(told).lower())
            if values[key] is None:
                raise SchemaError(f"{where}: `{key}` must be true or false.")
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
        text = str(bound)[:10]  # of a date or a time, too
        try:
            days(text)
        except ValueError:
            raise SchemaError(
                "Column {name!r}: bounds of a date must be ISO dates (2001-12-31).", name=column.name
            ) from None
        return text
    number = _number(f"Column {column.name!r}", "bounds", bound)
    if not math.isfinite(number):
        raise SchemaError("Column {name!r}: bounds must be finite numbers.", name=column.name)
    if column.kind == "integer":
        if number != int(number):
            raise SchemaError("Column {name!r} is an integer, so its bounds must be integers.", name=column.name)
        return int(bound)
    return number


def _check_words(column: Column, where: str) -> None:
    """Kind, role, source, reason and weight."""
    for key, known in (("kind", KINDS), ("role", ROLES), ("source", SOURCES)):
        if (value := getattr(column, key)) not in known:
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


def _check_range(column: Column, where: str) -> None:
    if column.low is not None and column.high is not None and column.kind not in ("ordinal", "categorical"):
        low, high = column.bounds
        if low > high:
            raise SchemaError("{where}: low is above high.", where=where)
        if not math.isfinite(high - low):
            raise SchemaError(f"{where}: the range from low to high is too wide for a number. Narrow the bounds.")
        if column.kind == "integer" and column.low != column.high and not told_apart(int(column.low), int(column.high)):
            raise SchemaError(
                f"{where}: its bounds lie beyond 2^53 and too close together for floating point to tell them apart. "
                "Subtract a constant from the column, declare categories, or give it the role identifier."
            )


def _check_categories(column: Column, where: str) -> None:
    if column.kind not in ("ordinal", "categorical"):
        raise SchemaError(f"{where} is {column.kind}, so it has bounds, not categories. Remove `categories`.")
    if not column.categories:
        raise SchemaError("{where}: the list of categories is empty.", where=where)
    if len(set(column.categories)) != len(column.categories):
        raise SchemaError("{where}: a category is listed twice.", where=where)
    if column.missing and column.kind == "categorical" and MISSING in column.categories:
        raise SchemaError(
            f"{where}: {MISSING!r} is added automatically for empty cells. Remove it from the categories."
        )


def _category_text(category: Any) -> str:
    """A category as text: what YAML read as a truth value or a date is spelt as tables spell it."""
    if isinstance(category, bool):
        return str(category).lower()
    return category.isoformat() if isinstance(category, datetime.date) else str(category)


def _number(where: str, key: str, value: Any) -> float:
    try:
        return float("" if isinstance(value, bool) else value)  # a truth value is no number
    except (TypeError, ValueError):
        raise SchemaError(f"{where}: {key} must be a number.") from None
