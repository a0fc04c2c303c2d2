"""A plan for the first of two rounds: sites score pairs of columns, and the second plan is made from the sum.

It holds nothing but the schema's columns: which pairs there are, how many quantiles a number has, and how the budget is
shared are public rules.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sfumato.channels.recipe import Measurement
from sfumato.mechanisms.central.column_codes import Budget, FineColumn
from sfumato.table import Encoding

FORMAT, VERSION = "sfumato-scoring-plan", 1
ROWS, EDGES, COLUMNS, SCORES = "rows", "edges", "columns", "scores"
SHARES = {ROWS: 0.04, EDGES: 0.3, COLUMNS: 0.06, SCORES: 0.6}
"""Of what the first round may spend. What a step does not need is shared by the others."""
DEPTH = 3
"""A number has 2^DEPTH - 1 quantiles."""


@dataclass(frozen=True, repr=False)
class ScoringPlan:
    """Scores of all pairs of the columns of an encoding."""

    encoding: Encoding
    chosen_by: str = "public rules"

    def __repr__(self) -> str:
        return f"<ScoringPlan of {len(self.fine)} columns>"

    @cached_property
    def fine(self) -> list[FineColumn]:
        return [FineColumn.of(group) for group in self.encoding.groups]

    @cached_property
    def numbers(self) -> list[int]:
        """Columns whose quantiles are looked for; of the others every code is counted."""
        return [place for place, one in enumerate(self.fine) if one.is_ordered and one.cells > 1 << DEPTH]

    @property
    def sizes(self) -> list[int]:
        """Figures of each column, and the number of scores."""
        numbers = set(self.numbers)
        columns = [(1 << DEPTH) - 1 if place in numbers else one.size for place, one in enumerate(self.fine)]
        return [*columns, len(self.fine) * (len(self.fine) - 1) // 2]

    def cells(self, classes: int) -> int:  # noqa: ARG002 - scores are sums over classes
        """How many figures a site pushes."""
        return 1 + sum(self.sizes)

    @cached_property
    def digest(self) -> str:
        """Sites and coordinator mean the same columns if it is the same."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def spent(self) -> list[tuple[str, float, int, bool]]:
        """What is measured: kind, share of the budget, how often, and whether it is a choice."""
        numbers, pairs = len(self.numbers), self.sizes[-1]
        times = {ROWS: 1, EDGES: numbers * DEPTH, COLUMNS: len(self.fine) - numbers, SCORES: pairs}
        whole = sum(share for kind, share in SHARES.items() if times[kind])
        return [(kind, share / whole, times[kind], kind == EDGES) for kind, share in SHARES.items() if times[kind]]

    def measurements(self, budget: Budget) -> list[Measurement]:
        """What a site's card must state that measured under this plan with this budget."""
        return [
            budget.choices(kind, share, times) if choice else budget.measurement(kind, share, times)
            for kind, share, times, choice in self.spent()
        ]

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a study file."""
        columns = [one.group.column.name for one in self.fine]
        return {"format": FORMAT, "version": VERSION, "chosen_by": self.chosen_by, "columns": columns}
