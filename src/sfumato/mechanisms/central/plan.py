"""An agreed plan: which tables every site counts, so that noisy counts of several sites can be added.

It says which fine cells form a bin of each column, which bins form a coarser one in tables of several columns, and
which column depends on which. It holds no counts. It must be public, or chosen under a budget of its own: from a public
rule, from the noisy model of one site, whose people have paid for that model, or from noisy scores of all sites. The
bins of every column and the pairs say which, as bounds in a schema do: with a source, and a reason for it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sfumato.core.array_types import Codes
from sfumato.core.errors import SchemaError, UsageError
from sfumato.mechanisms.central.column_codes import Bins, FineColumn, merged
from sfumato.mechanisms.central.drawing import Node
from sfumato.mechanisms.central.model import MOST_BINS
from sfumato.mechanisms.central.scoring import FORMAT as SCORING
from sfumato.table import Encoding

FORMAT, VERSION = "sfumato-plan", 1
MOST_CELLS = 1 << 20
"""Counts that one site pushes: 8 MB."""
MOST_PARENTS = 1
LONGEST = 200
"""Letters of a reason."""
RULE, PUBLIC, NOISY, LEARNED = "rule", "public", "noisy", "learned"
PUBLIC_BINS, PUBLIC_PAIR_BINS = 16, 8


class Origin(NamedTuple):
    """Where bins or pairs come from.

    Bins of the RULE can be computed again. That something is PUBLIC, or was paid for as something NOISY, is the word of
    whoever gives the reason. What is LEARNED, or says nothing, carries no proof.
    """

    source: str = LEARNED
    reason: str = ""

    @property
    def is_vouched(self) -> bool:
        return self.source == RULE or (self.source in (PUBLIC, NOISY) and bool(self.reason.strip()))

    @property
    def in_words(self) -> str:
        if not self.is_vouched:
            return "a choice that does not say where it comes from"
        return "public rules" if self.source == RULE else self.reason

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Origin:
        origin = cls(found.get("source", LEARNED), found.get("reason", ""))
        _need(origin.source in (RULE, PUBLIC, NOISY, LEARNED) and isinstance(origin.reason, str))
        _need(len(origin.reason) <= LONGEST and origin.reason.isprintable())
        return origin


class PlannedColumn(NamedTuple):
    """One column's bins, and the coarser ones in tables of several columns."""

    fine: FineColumn
    bins: Bins
    coarse: Bins | None = None
    origin: Origin = Origin()

    @property
    def name(self) -> str:
        return self.fine.group.column.name

    @property
    def joint(self) -> Bins:
        """Coarse bins of bins."""
        return self.coarse or Bins.each(self.bins.count)

    @property
    def told(self) -> dict[str, Any]:
        """The bins, as they stand in a file."""
        return {"edges": _edges(self), "coarse": None if self.coarse is None else self.coarse.of.tolist()}

    @property
    def follows_the_rule(self) -> bool:
        return any(self.told == even_column(self.fine, most).told for most in (0, PUBLIC_PAIR_BINS))


def even_column(fine: FineColumn, most: int) -> PlannedColumn:
    """Bins by the public rule: of equal width, and up to `most` coarser ones in tables of several columns."""
    missing = fine.group.has_indicator
    bins = Bins.each(fine.size)
    if fine.is_ordered and fine.cells > MOST_BINS:
        ends = [round(step * fine.cells / PUBLIC_BINS) for step in range(1, PUBLIC_BINS)]
        bins = Bins.runs(ends, fine.cells, missing)
    if not most:
        return PlannedColumn(fine, bins, None, Origin(RULE))
    width = np.bincount(bins.of).astype(np.float64)
    return PlannedColumn(fine, bins, merged(width, most, ordered=fine.is_ordered, missing=missing), Origin(RULE))


@dataclass(frozen=True, repr=False)
class Plan:
    """`nodes`: every column once, parents first. `pairs` says where it comes from which of them have parents."""

    encoding: Encoding
    columns: tuple[PlannedColumn, ...]
    nodes: tuple[Node, ...]
    pairs: Origin

    def __repr__(self) -> str:
        return f"<Plan of {len(self.columns)} columns, {len(self.joined)} of them with a parent>"

    @property
    def joined(self) -> list[Node]:
        """Columns that depend on others; each has a table."""
        return [node for node in self.nodes if node.parents]

    @property
    def origins(self) -> dict[str, Origin]:
        """Where every part comes from that was chosen: columns by name, and the pairs."""
        bins = {f"bins of {one.name}": one.origin for one in self.columns}
        return {**bins, "pairs of columns": self.pairs} if self.joined else bins

    @property
    def chosen_by(self) -> str:
        """In a few words where the plan comes from."""
        return "; ".join(dict.fromkeys(origin.in_words for origin in self.origins.values()))

    @property
    def digest(self) -> str:
        """Sites and coordinator mean the same plan if it is the same."""
        return f"sha256:{self._digest}"

    @cached_property
    def _digest(self) -> str:
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def shapes(self, classes: int) -> list[tuple[int, ...]]:
        """Of all tables in the order in which they are pushed: the number of rows, the columns, what depends."""
        of_columns = [(classes, one.bins.count) for one in self.columns]
        joint = [self.columns[place].joint.count for place in range(len(self.columns))]
        of_nodes = [(classes, *(joint[place] for place in (*node.parents, node.column))) for node in self.joined]
        return [(1,), *of_columns, *of_nodes]

    def cells(self, classes: int) -> int:
        """How many counts there are in all."""
        return sum(math.prod(shape) for shape in self.shapes(classes))

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a study file."""
        names = [one.name for one in self.columns]
        return {
            "format": FORMAT,
            "version": VERSION,
            "columns": [{"name": one.name, **one.told, **one.origin._asdict()} for one in self.columns],
            "pairs": self.pairs._asdict(),
            "order": [[names[node.column], [names[place] for place in node.parents]] for node in self.nodes],
        }

    @classmethod
    def from_dict(cls, found: Any, encoding: Encoding) -> Plan:
        """Read a plan for the columns of a schema; whatever does not fit is refused."""
        try:
            if not isinstance(found, Mapping) or (found["format"], found["version"]) != (FORMAT, VERSION):
                raise ValueError("format")
            plan = _read(found, encoding)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError):
            raise SchemaError(
                "The plan does not fit the schema's columns, or it is damaged. Make one with `sfumato study plan`."
            ) from None
        if plan.cells(max(1, len(encoding.classes))) > MOST_CELLS:
            raise SchemaError(f"The plan asks for more than {MOST_CELLS:,} counts. Give it fewer or coarser tables.")
        return plan


def read_plan(given: Mapping[str, Any] | Path | str) -> Any:
    """A plan as plain JSON, given as it is, in a file of its own, or in a study file."""
    if isinstance(given, Mapping):
        return given
    try:
        found = json.loads(Path(given).read_text(encoding="utf-8"))
        return found if found.get("format") in (FORMAT, SCORING) else found["mechanism"]["parameters"]["plan"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise UsageError(
            f"{given} is no plan: a JSON file that `sfumato study plan` wrote. Make one, or leave the plan out."
        ) from None


def _edges(one: PlannedColumn) -> list[int] | None:
    """First fine cells of all bins but the first; None where every fine cell is a bin."""
    if one.bins.count == one.fine.size:
        return None
    of = one.bins.of[: one.fine.cells]
    return (np.flatnonzero(np.diff(of)) + 1).tolist()


def _read(found: Mapping[str, Any], encoding: Encoding) -> Plan:
    fine = [FineColumn.of(group) for group in encoding.groups]
    names = [one.group.column.name for one in fine]
    _need([one["name"] for one in found["columns"]] == names)
    columns = tuple(_column(one, stated) for one, stated in zip(fine, found["columns"], strict=True))
    nodes: list[Node] = []
    for name, parents in found["order"]:
        node = Node(names.index(name), tuple(names.index(parent) for parent in parents))
        seen = {one.column for one in nodes}
        _need(node.column not in seen and seen.issuperset(node.parents) and len(node.parents) <= MOST_PARENTS)
        nodes.append(node)
    _need(len(nodes) == len(columns))
    pairs = Origin.read(found.get("pairs", {}))
    _need(pairs.source != RULE or not any(node.parents for node in nodes))
    return Plan(encoding, columns, tuple(nodes), pairs)


def _column(fine: FineColumn, found: Mapping[str, Any]) -> PlannedColumn:
    _need({"name", "edges", "coarse"} <= set(found) <= {"name", "edges", "coarse", "source", "reason"})
    origin = Origin.read(found)
    bins = Bins.each(fine.size)
    if found["edges"] is not None:
        ends = _whole(found["edges"])
        _need(fine.is_ordered and ends == sorted(set(ends)) and (not ends or (ends[0] > 0 and ends[-1] < fine.cells)))
        bins = Bins.runs(ends, fine.cells, fine.group.has_indicator)
    if found["coarse"] is None:
        return _as_it_says(PlannedColumn(fine, bins, None, origin))
    of: Codes = np.array(_whole(found["coarse"]), dtype=np.int64)
    _need(of.shape == (bins.count,) and bool((np.unique(of) == np.arange(of.max() + 1)).all()))
    return _as_it_says(PlannedColumn(fine, bins, Bins(of, int(of.max()) + 1), origin))


def _as_it_says(column: PlannedColumn) -> PlannedColumn:
    if column.origin.source == RULE and not column.follows_the_rule:
        raise SchemaError(
            f"The plan says that the bins of {column.name!r} follow the public rule, and they do not. Give them the "
            "source public with a reason, or make the plan with `sfumato study plan`."
        )
    return column


def _whole(found: Any) -> list[int]:
    _need(isinstance(found, list) and all(type(value) is int and 0 <= value < 1 << 31 for value in found))
    return list(found)


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError("plan")
