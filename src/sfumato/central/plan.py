"""An agreed plan: which tables every site counts, so that noisy counts of several sites can be added.

It says which fine cells form a bin of each column, which bins form a coarser one in tables of several columns, and
which column depends on which. It holds no counts. It must be public, or chosen under a budget of its own: from public
rules, from the noisy model of one site, whose people have paid for that model, or from noisy scores of all sites.
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

from sfumato.array_types import Codes
from sfumato.central.column_codes import Bins, FineColumn
from sfumato.central.forest import Node
from sfumato.central.scoring_plan import FORMAT as SCORING
from sfumato.errors import SchemaError, UsageError
from sfumato.table import Encoding

FORMAT, VERSION = "sfumato-plan", 1
MOST_CELLS = 1 << 20
"""Counts that one site pushes: 8 MB."""
MOST_PARENTS = 1
LONGEST = 200
"""Letters of `chosen_by`."""


class PlannedColumn(NamedTuple):
    """One column's bins, and the coarser ones in tables of several columns."""

    fine: FineColumn
    bins: Bins
    coarse: Bins | None = None

    @property
    def name(self) -> str:
        return self.fine.group.column.name

    @property
    def joint(self) -> Bins:
        """Coarse bins of bins."""
        return self.coarse or Bins.each(self.bins.count)


@dataclass(frozen=True, repr=False)
class Plan:
    """`nodes`: every column once, parents first. `chosen_by` says in a few words where the plan comes from: without it
    there is no claim, since somebody may have made it by looking at a table."""

    encoding: Encoding
    columns: tuple[PlannedColumn, ...]
    nodes: tuple[Node, ...]
    chosen_by: str

    def __repr__(self) -> str:
        return f"<Plan of {len(self.columns)} columns, {len(self.joined)} of them with a parent>"

    @property
    def joined(self) -> list[Node]:
        """Columns that depend on others; each has a table."""
        return [node for node in self.nodes if node.parents]

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
            "chosen_by": self.chosen_by,
            "columns": [
                {
                    "name": one.name,
                    "edges": _edges(one),
                    "coarse": None if one.coarse is None else one.coarse.of.tolist(),
                }
                for one in self.columns
            ],
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
    chosen_by = found.get("chosen_by", "")
    _need(isinstance(chosen_by, str) and len(chosen_by) <= LONGEST and chosen_by.isprintable())
    return Plan(encoding, columns, tuple(nodes), chosen_by)


def _column(fine: FineColumn, found: Mapping[str, Any]) -> PlannedColumn:
    _need(set(found) == {"name", "edges", "coarse"})
    bins = Bins.each(fine.size)
    if found["edges"] is not None:
        ends = _whole(found["edges"])
        _need(fine.is_ordered and ends == sorted(set(ends)) and (not ends or (ends[0] > 0 and ends[-1] < fine.cells)))
        bins = Bins.runs(ends, fine.cells, fine.group.has_indicator)
    if found["coarse"] is None:
        return PlannedColumn(fine, bins)
    of: Codes = np.array(_whole(found["coarse"]), dtype=np.int64)
    _need(of.shape == (bins.count,) and bool((np.unique(of) == np.arange(of.max() + 1)).all()))
    return PlannedColumn(fine, bins, Bins(of, int(of.max()) + 1))


def _whole(found: Any) -> list[int]:
    _need(isinstance(found, list) and all(type(value) is int and 0 <= value < 1 << 31 for value in found))
    return list(found)


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError("plan")
