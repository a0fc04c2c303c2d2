"""Which encoded columns belong to which source column, and which points they can take."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sfumato.core.array_types import Floats
from sfumato.core.errors import SchemaError
from sfumato.core.files import other_version, write_whole
from sfumato.core.wording import counted
from sfumato.table.column import MISSING, Column, nearest
from sfumato.table.infer import infer_columns


@dataclass(frozen=True, eq=False, repr=False)
class Group:
    """The encoded columns `start:stop` of one source column.

    `vertices` (m x (stop - start)) are the extreme points of what one cell can become, so the furthest two cells can
    be apart in any norm is the furthest two vertices are:

    - a number: 0 and 1; a constant: 0.5 alone;
    - a number that may be missing, as (value, indicator): (0, 0), (1, 0) and (0.5, 1);
    - a category: the unit vectors.
    """

    column: Column
    start: int
    stop: int
    vertices: Floats

    def __repr__(self) -> str:
        return f"<Group {self.column.name!r}: encoded columns {self.start}:{self.stop}>"

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.stop - self.start

    @property
    def slice(self) -> slice:
        """The encoded columns, to index a matrix with: `X[:, group.slice]`."""
        return slice(self.start, self.stop)

    @property
    def is_onehot(self) -> bool:
        """Exactly one of the encoded columns is 1."""
        return self.column.is_categorical

    @property
    def has_indicator(self) -> bool:
        """The second of two encoded columns says that the cell is empty."""
        return self.column.missing and not self.is_onehot

    @property
    def is_constant(self) -> bool:
        """A number whose bounds coincide, encoded as 0.5."""
        return not self.is_onehot and self.column.bounds[0] == self.column.bounds[1]

    @property
    def levels(self) -> int | None:
        """How many values a number can take that is whole by its kind; None for others and for categories."""
        if self.column.kind not in ("integer", "ordinal", "date"):
            return None
        low, high = self.column.bounds
        return int(high - low) + 1

    @property
    def not_told(self) -> Floats:
        """What stands for a cell that is empty or unknown: "missing" where that can be said, else the middle of all."""
        found: Floats = self.vertices[-1] if self.column.missing else self.vertices.mean(axis=0)
        return found

    @property
    def slots(self) -> tuple[str, ...]:
        """Categories of a one-hot group, the one for empty cells last."""
        categories = self.column.categories or ()
        return (*categories, MISSING) if self.column.missing else categories

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        name = self.column.name
        if self.is_onehot:
            return tuple(f"{name}={slot}" for slot in self.slots)
        return (name, f"{name}?missing") if self.has_indicator else (name,)


def groups_of(columns: tuple[Column, ...]) -> tuple[Group, ...]:
    """One group per private column, side by side in the order of the schema."""
    vertices = [_vertices(column) for column in columns]
    stops = list(accumulate(one.shape[1] for one in vertices))
    return tuple(Group(*one) for one in zip(columns, [0, *stops[:-1]], stops, vertices, strict=True))


def _vertices(column: Column) -> Floats:
    if column.kind in ("categorical", "ordinal") and not column.categories:
        raise SchemaError(
            f"Column {column.name!r} is {column.kind} but has no categories. List them in the schema"
            f"{' in their order' if column.kind == 'ordinal' else ''}."
        )
    if column.is_categorical:
        return np.eye(len(column.categories or ()) + int(column.missing))
    low, high = column.bounds
    ends = [0.5] if low == high else [0.0, 1.0]
    return np.array([*([end, 0.0] for end in ends), [0.5, 1.0]] if column.missing else [[end] for end in ends])


# Schema files: YAML that a person can read and edit, JSON for programs.

HEADER = """\
# What sfumato knows about the columns of this table. Edit it by hand.
#
# kind      numeric, integer, date: need `low` and `high`; ordinal, categorical: need `categories`
#           (an ordinal's in their order).
# role      private     perturbed before it is released
#           label       what classifiers are to predict; released last, exact unless you ask otherwise
#           person      says which rows belong to one person; never released
#           identifier  never released (names, numbers of people or samples)
# missing   true if cells may be empty
# weight    how much privacy the column deserves relative to the others (1 is usual): a column of weight 2 gets
#           half the epsilon of one of weight 1
# noise     how this column is perturbed where it differs from the others, for example {law: normal, scale: 0.1};
#           keys: law, scale, low, high, df, operator, base, epsilon_share, kernel, bandwidth
# source    learned     bounds and categories were read off the private table: they reveal something about
#                       the people in it, and no proof can rest on them
#           public      you know them from elsewhere (a law, a form, a code book). Only you can say so, and every
#                       reader is told that a proof rests on your word: give bounds that do not depend on this
#                       table, and a `reason` in one sentence (`sfumato schema declare` writes both):
#
#             - name: age
#               kind: integer
#               low: 0
#               high: 120
#               source: public
#               reason: nobody on the register is older than 120
#
"""


MOST_BYTES = 16 << 20
"""Of a YAML file: larger ones were given by mistake, or to keep the reader busy."""
MOST_REPEATED = 100_000
"""Values that the aliases of a file (*name) may stand for: ten lines of them can mean a hundred million."""


class _Loader(yaml.SafeLoader):
    """YAML whose aliases are counted while it is read: each is as many values as what it repeats."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = self._repeated = 0
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        alias, before = self.check_event(yaml.AliasEvent), self._values
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if not alias:
            self._values += 1
            self._sizes[node] = self._values - before
            return node
        if node not in self._sizes:
            raise SchemaError("one of its aliases (*name) stands for something that contains it.")
        self._values += self._sizes[node]
        self._repeated += self._sizes[node]
        if self._repeated > MOST_REPEATED:
            raise SchemaError(f"its aliases (*name) repeat more than {MOST_REPEATED:,} values. Write them out.")
        return node


class _WordLoader(_Loader):
    """YAML in which yes, no, on and off are words: they are categories far more often than truth values."""

    yaml_implicit_resolvers = {
        first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:bool" or first in "tTfF"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(path: Path, *, yes_is_true: bool = False) -> Any:
    """What a YAML or JSON (which is YAML) file says, unchecked."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SchemaError(
                f"it has more than {MOST_BYTES >> 20} MiB, more than any schema or study. Is it the table?"
            )
        return parse_yaml(path.read_text(encoding="utf-8-sig"), yes_is_true=yes_is_true)
    except OSError as error:
        raise SchemaError(f"it cannot be read: {error.strerror or type(error).__name__}.") from None
    except UnicodeDecodeError:
        raise SchemaError("it is not UTF-8 text.") from None


def parse_yaml(text: str, *, yes_is_true: bool = False) -> Any:
    """What a text says: the only place where YAML is read. JSON is YAML, and is read fifty times as fast: it matters
    where there are thousands of columns."""
    try:
        if text.lstrip().startswith("{"):
            with contextlib.suppress(ValueError):  # int refuses NaN and Infinity, which Python's reader would take
                return json.loads(text, parse_constant=int)
        return yaml.load(text, Loader=_Loader if yes_is_true else _WordLoader)
    except RecursionError:
        raise SchemaError("it is nested too deeply.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise SchemaError(f"it is not valid YAML{where}.") from None
    except ValueError:  # the loader's own words for a 31st of February quote the file
        raise SchemaError("it contains a date or a number that does not exist.") from None


def schema_text(found: Mapping[str, Any], *, as_json: bool = False) -> str:
    """YAML with a header that explains what to edit, or plain JSON for programs."""
    if as_json:
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    return HEADER + yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=118)


VERSION = 1


@dataclass(frozen=True, repr=False)
class Schema:
    """The columns of a table, in order.

    Parameters
    ----------
    columns : sequence of Column
        Each of another name; at most one label, one target and one person.

    Examples
    --------
    >>> schema = Schema((Column("age", "integer", low=0, high=120, source="public", reason="human ages"),))
    >>> schema.learned
    ()
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if twice := [name for name, times in Counter(self.names).items() if times > 1]:
            raise SchemaError(f"The schema names the column {twice[0]!r} twice.")
        for role in ("label", "target", "person"):
            if len(named := [column.name for column in self.columns if column.role == role]) > 1:
                told = ", ".join(named)
                raise SchemaError(f"Only one column can have the role {role}; the schema gives it to {told}.")
        label, target = self.label, self.target
        if label is not None and label.kind not in ("categorical", "ordinal"):
            raise SchemaError(f"The column to predict {label.name!r} must be categorical. Got {label.kind!r} instead.")
        if target is not None and target.kind not in ("numeric", "integer"):
            raise SchemaError(
                f"The target {target.name!r} must be numeric or integer. Got {target.kind!r} instead. A class to "
                "predict has the role `label`."
            )
        if label is not None and label.categories is not None and len(label.categories) < 2:
            raise SchemaError(
                f"The column to predict {label.name!r} has only one class, so there is nothing to learn from it. Name "
                "every class that can occur, or give the column the role `private`."
            )

    def __repr__(self) -> str:
        label = "" if self.label is None else f", to predict {self.label.name!r}"
        learned = f", {len(self.learned)} of them learned" if self.learned else ""
        return f"<Schema of {counted(len(self.columns), 'column')}: {len(self.private)} private{learned}{label}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def private(self) -> tuple[Column, ...]:
        """The columns that are perturbed."""
        return tuple(column for column in self.columns if column.role == "private")

    @property
    def label(self) -> Column | None:
        """The column that classifiers are to predict."""
        return self._with_role("label")

    @property
    def target(self) -> Column | None:
        """The number that is to be predicted: it is released as it is, and never perturbed or mixed with others."""
        return self._with_role("target")

    def with_target(self, name: str) -> Schema:
        """The same schema with a private number as its target; its bounds are left out, since nothing needs them."""
        if self[name].role == "target":
            return self
        if self[name].role != "private":
            raise SchemaError(f"Column {name!r} cannot be the target: its role is {self[name].role}.")
        return self.with_column(name, role="target", low=None, high=None, source="learned", reason=None, missing=False)

    @property
    def person(self) -> Column | None:
        """The column that says which rows belong to the same person."""
        return self._with_role("person")

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names of the identifiers, which are never released."""
        return tuple(column.name for column in self.columns if column.role == "identifier")

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the private columns whose bounds or categories were learned from the data."""
        return tuple(column.name for column in self.private if column.source == "learned")

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"The schema has no column {name!r}.{nearest(name, self.names)}")

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def _with_role(self, role: str) -> Column | None:
        return next((column for column in self.columns if column.role == role), None)

    def with_column(self, name: str, **changes: Any) -> Schema:
        """The same schema with some fields of one column changed."""
        self[name]
        return Schema(tuple(replace(c, **changes) if c.name == name else c for c in self.columns))

    def with_noise(self, columns: Mapping[str, Mapping[str, Any]]) -> Schema:
        """The same schema with some columns perturbed in their own way, beside what the schema says of them."""
        found = self
        for name, choices in columns.items():
            if self[name].role != "private":
                raise SchemaError(f"Column {name!r} is not blurred: its role is {self[name].role}.")
            if not isinstance(choices, Mapping):
                raise SchemaError(f"Column {name!r}: its noise must be names with values.")
            found = found.with_column(name, noise={**self[name].choices.chosen, **choices})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML and JSON."""
        return {"version": VERSION, "columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Schema:
        """The schema that `to_dict` wrote, or a person by hand."""
        if not isinstance(found, Mapping) or not isinstance(found.get("columns"), (list, tuple)):
            raise SchemaError("A schema needs a list under the key `columns`.")
        for key in found:
            if key not in ("version", "columns"):
                raise SchemaError(f"The schema has an unknown key {key!r}.{nearest(key, ('version', 'columns'))}")
        if why := other_version(found.get("version", VERSION), VERSION, older="Write it again with `sfumato schema`."):
            raise SchemaError(f"The schema {why}")
        return cls(tuple(Column.from_dict(column) for column in found["columns"]))

    @classmethod
    def load(cls, path: Path | str) -> Schema:
        """Read a schema file (YAML or JSON)."""
        try:
            return cls.from_dict(read_yaml(Path(path)))
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from None

    @classmethod
    def of(cls, given: Schema | Path | str) -> Schema:
        """A schema as it is, or the one in a file."""
        return cls.load(given) if isinstance(given, str | Path) else given

    def save(self, path: Path | str) -> None:
        """Write a schema file to edit. What was learned from data stays marked `learned`."""
        text = schema_text(self.to_dict(), as_json=Path(path).suffix.lower() == ".json")
        write_whole(path, text, private=bool(self.learned))  # learned bounds are people's values

    def to_yaml(self) -> str:
        """The text of a schema file to edit."""
        return schema_text(self.to_dict())

    @classmethod
    def infer(
        cls,
        source: Any,
        label: str | None = None,
        *,
        person: str | None = None,
        identifiers: Collection[str] = (),
        refuse: bool = True,
    ) -> Schema:
        """Learn a schema from a table, in one pass over its blocks; raises `PrivacyLeakWarning`: bounds are learned.

        Parameters
        ----------
        source : DataFrame, Arrow table, path or SqlQuery
            The table to look at.
        label : str, optional
            The column that classifiers are to predict.
        person : str, optional
            The column that says which rows belong to the same person.
        identifiers : collection of str, default ()
            Columns to drop.
        refuse : bool, default True
            With False a column that cannot be used (free text, too many categories, nothing but empty cells) gets the
            role `identifier` and a warning instead of an error, so that a file to edit can be written.
        """
        return cls(infer_columns(source, label, person=person, identifiers=identifiers, refuse=refuse))
