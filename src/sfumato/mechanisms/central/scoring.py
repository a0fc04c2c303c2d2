"""A plan for the first of two rounds: sites score pairs of columns, and the second plan is made from the sum.

It holds nothing but the schema's columns: which pairs there are, how many quantiles a number has, and how the budget is
shared are public rules.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes, Floats
from sfumato.core.wording import counted
from sfumato.mechanisms.central.column_codes import (
    Bins,
    Budget,
    FineColumn,
    Passes,
    Steps,
    quantiles,
    scored,
    tables_of,
)
from sfumato.mechanisms.central.drawing import DrawnModel, ModelColumn, Pair, in_drawing_order
from sfumato.table import Encoding

FORMAT, VERSION = "sfumato-scoring-plan", 1
ROWS, EDGES, COLUMNS, SCORES = "rows", "edges", "columns", "scores"
SHARES = {ROWS: 0.04, EDGES: 0.3, COLUMNS: 0.06, SCORES: 0.6}
"""Of what the first round may spend. What a step does not need is shared by the others."""
DEPTH = 3
"""A number has 2^DEPTH - 1 quantiles."""


class AgreedPlan(ABC):
    """What all sites measure alike, so that their noisy figures can be added. It holds no figures."""

    encoding: Encoding

    @property
    def chosen_by(self) -> str:
        """In a few words where the plan comes from."""
        return "public rules"

    @property
    def origins(self) -> Mapping[str, Any]:
        """Where every part comes from that was chosen."""
        return {}

    @abstractmethod
    def cells(self, classes: int) -> int:
        """How many figures a site pushes."""

    @abstractmethod
    def spent(self) -> list[tuple[str, float, int]]:
        """What is measured: kind, share of the budget, and how many tables or choices."""

    def measurements(self, budget: Budget) -> list[Measurement]:
        """What a site's card must state that measured under this plan with this budget."""
        return [(budget.choices if one[0] == EDGES else budget.measurement)(*one) for one in self.spent()]

    @abstractmethod
    def model(self, budget: Budget, classes: int) -> Any:
        """What a site fits."""

    @abstractmethod
    def figures(self, classes: int, cells: Codes, measured: Sequence[Measurement]) -> NoisyFigures:
        """What a site pushed, with the noise that its card states."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """As it stands in a study file."""

    @cached_property
    def digest(self) -> str:
        """Sites and coordinator mean the same plan if it is the same."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True, repr=False)
class NoisyFigures(ABC):
    """All figures of a plan in one row of whole numbers, so that sites are added; `variances` of the noise by kind."""

    plan: AgreedPlan
    classes: int
    cells: Codes
    variances: Mapping[str, float]
    kinds: ClassVar[tuple[str, ...]]
    """Of figures that have noise."""

    @classmethod
    def variances_of(cls, measured: Sequence[Measurement]) -> dict[str, float]:
        found = {one.what: one.strength if one.way == "gaussian" else 2.0 * one.strength**2 for one in measured}
        return {kind: found.get(kind, 0.0) for kind in cls.kinds}

    @property
    def rows(self) -> int:
        """The noisy number of rows, at least 1."""
        return max(1, int(self.cells[0]))

    def __add__(self, other: Self) -> Self:
        if (self.plan.digest, self.classes) != (other.plan.digest, other.classes):
            raise ValueError("These figures were measured under different plans.")
        variances = {kind: self.variances[kind] + other.variances[kind] for kind in self.variances}
        return replace(self, cells=self.cells + other.cells, variances=variances)

    @abstractmethod
    def likely(self, far: float) -> bool:
        """Whether these can be figures of one table, where noise goes so many standard deviations far."""

    @abstractmethod
    def drawn(self) -> DrawnModel:
        """Post-processing alone: what rows are drawn from."""


@dataclass(frozen=True, repr=False)
class ScoringPlan(AgreedPlan):
    """Scores of all pairs of the columns of an encoding."""

    encoding: Encoding

    def __repr__(self) -> str:
        return f"<ScoringPlan of {len(self.fine)} columns>"

    @cached_property
    def fine(self) -> list[FineColumn]:
        return [FineColumn(group) for group in self.encoding.groups]

    @cached_property
    def numbers(self) -> dict[int, FineColumn]:
        """Columns whose quantiles are looked for; of the others every code is counted."""
        return {place: one for place, one in enumerate(self.fine) if one.is_ordered and one.cells > 1 << DEPTH}

    @property
    def sizes(self) -> list[int]:
        """Figures of each column, and the number of scores."""
        columns = [(1 << DEPTH) - 1 if place in self.numbers else one.size for place, one in enumerate(self.fine)]
        return [*columns, len(self.fine) * (len(self.fine) - 1) // 2]

    def cells(self, classes: int) -> int:  # noqa: ARG002 - scores are sums over classes
        return 1 + sum(self.sizes)

    def spent(self) -> list[tuple[str, float, int]]:
        numbers, pairs = len(self.numbers), self.sizes[-1]
        times = {ROWS: 1, EDGES: numbers * DEPTH, COLUMNS: len(self.fine) - numbers, SCORES: pairs}
        whole = sum(share for kind, share in SHARES.items() if times[kind])
        return [(kind, share / whole, times[kind]) for kind, share in SHARES.items() if times[kind]]

    def model(self, budget: Budget, classes: int) -> ScoringModel:
        return ScoringModel(self.encoding, budget, classes, self)

    def figures(self, classes: int, cells: Codes, measured: Sequence[Measurement]) -> NoisyScores:
        return NoisyScores(self, classes, cells, NoisyScores.variances_of(measured))

    def to_dict(self) -> dict[str, Any]:
        columns = [one.group.column.name for one in self.fine]
        return {"format": FORMAT, "version": VERSION, "chosen_by": self.chosen_by, "columns": columns}


# Scores of all pairs of columns, measured with noise at every site and added: what an agreed plan can be made from.
#
# A first round, before tables are counted under a plan. Every site measures its number of rows, the quantiles of its
# numbers (private halving), how common its categories are, and one score for each pair of columns. Nothing of it is
# agreed on beforehand but the schema: each site scores its own bins, and scores of different bins add up all the same.
#
# The score of a pair is its distance from independence within the classes, by the table's own margins:
#
#     S = sum over classes c of  sum over a, b of |n_cab - n_ca n_cb / n_c|
#
# A record (c, a', b') changes n - e by n_c / (n_c + 1) (1[a = a'] - p_a) (1[b = b'] - q_b), the sum of whose magnitudes
# is below 4 (1 - p_a') (1 - q_b') <= 4. So S / 4, rounded in each class, changes by at most 1.


SCORED_BINS = 4
"""Of every column in the tables that are scored; a missing cell has one more."""
SCALE = 4
"""The distance from independence changes by less than this when a record comes or goes."""

MOST_SQUARED = 1 << 30
"""Products of counts above this do not fit into 64 bits."""


def distance(table: Codes) -> int:
    """S / 4 of a table (classes, a, b), rounded in each class by whole numbers alone."""
    total = 0
    for cells in table:
        rows = int(cells.sum())
        if rows:
            cells = cells.astype(object) if rows > MOST_SQUARED else cells
            off = np.abs(rows * cells - np.outer(cells.sum(axis=1), cells.sum(axis=0)))
            total += (int(off.sum()) + SCALE * rows // 2) // (SCALE * rows)
    return total


@dataclass(frozen=True, repr=False)
class NoisyScores(NoisyFigures):
    """Rows, quantiles times rows, categories, scores.

    Quantiles are multiplied by the noisy number of rows, so that their sum over sites is a weighted mean.
    """

    plan: ScoringPlan
    kinds = (ROWS, COLUMNS, SCORES)

    def __repr__(self) -> str:
        return f"<NoisyScores of about {self.rows:,} rows>"

    @property
    def parts(self) -> list[Codes]:
        """Quantiles by number, counts by other column, and all scores."""
        return np.split(self.cells, np.cumsum([1, *self.plan.sizes])[:-1])[1:]

    @property
    def scores(self) -> dict[Pair, int]:
        pairs = combinations(range(len(self.plan.fine)), 2)
        return dict(zip(pairs, self.parts[-1].tolist(), strict=True))

    def columns(self, depth: int = DEPTH) -> list[ModelColumn]:
        """Bins of about equal weight (numbers) or every code for itself, as far as is known, for one class."""
        found = []
        for place, (one, part) in enumerate(zip(self.plan.fine, self.parts, strict=False)):
            if place in self.plan.numbers:
                step = 1 << (DEPTH - min(depth, DEPTH))
                ends = np.rint(part[step - 1 :: step] / self.rows).astype(np.int64)
                ends = np.unique(np.clip(ends, 1, one.cells - 1))
                bins = Bins.runs(ends.tolist(), one.cells, one.group.has_indicator)
                weights: Floats = np.ones(bins.count)
                if one.group.has_indicator:
                    weights[-1] = 0.0  # how many are missing is not measured
            else:
                bins, weights = Bins.each(one.size), np.maximum(part.astype(np.float64), 0.0)
                if not weights.sum():
                    weights = np.ones(one.size)
            found.append(ModelColumn(one, bins, np.tile(weights / weights.sum(), (self.classes, 1))))
        return found

    def to_dict(self) -> dict[str, Any]:
        return {"cells": self.cells.tolist(), "classes": self.classes, "variances": dict(self.variances)}

    @classmethod
    def from_dict(cls, found: Any, plan: ScoringPlan) -> NoisyScores:
        """The inverse of `to_dict`; an error says that it does not fit."""
        cells: Codes = np.asarray(found["cells"])
        variances = {kind: float(found["variances"][kind]) for kind in cls.kinds}
        classes = max(1, len(plan.encoding.classes))
        fits = cells.shape == (plan.cells(classes),) and cells.dtype == np.int64
        if not fits or found["classes"] != classes or not all(0 <= one < math.inf for one in variances.values()):
            raise ValueError("cells")
        return cls(plan, classes, cells, variances)

    def likely(self, far: float) -> bool:
        """Whether these can be figures of one table: quantiles in order, counts and scores that its rows allow."""
        rows, parts = self.rows, self.parts
        of_rows = far * math.sqrt(self.variances[ROWS])
        low, high = (far * math.sqrt(self.variances[kind]) for kind in (COLUMNS, SCORES))
        for place, (one, part) in enumerate(zip(self.plan.fine, parts, strict=False)):
            if place in self.plan.numbers:
                if part[0] < rows or part[-1] > rows * one.cells or bool((np.diff(part) < 0).any()):
                    return False
            elif int(part.min()) < -low or abs(int(part.sum()) - rows) > low * math.sqrt(one.size) + of_rows:
                return False
        most = (rows + of_rows) / 2.0 + self.classes + high  # the distance of n rows is below 2 n
        scores = parts[-1]
        return not len(scores) or (int(scores.min()) >= -high and int(scores.max()) <= most)

    def drawn(self) -> DrawnModel:
        """Rows whose columns are spread as the quantiles say, with nothing in common."""
        sizes, columns = np.full(self.classes, self.rows / self.classes), self.columns()
        nodes = in_drawing_order([], len(columns))
        return DrawnModel(self.plan.encoding, self.classes, self.rows, sizes, columns, nodes, {})


@dataclass
class ScoringModel(Passes):
    """Fits as `TreeModel` does: a pass over the columns, and as many as memory needs over the pairs."""

    encoding: Encoding
    budget: Budget
    classes: int
    plan: ScoringPlan
    rows: int = 0

    def fitting(self) -> Steps:
        """Rows, quantiles and categories; then scores with their noise, once all pairs are scored."""
        plan, budget, fine = self.plan, self.budget, self.plan.fine
        d, shares = len(fine), {kind: share for kind, share, _ in plan.spent()}
        counts = yield partial(tables_of, fine, {}, self.classes, [(place,) for place in range(d)])
        found = [counts.tables[(place,)].sum(axis=0) for place in range(d)]
        (noisy,) = budget.count(ROWS, shares[ROWS], [found[0].sum(keepdims=True)])
        self.rows = max(1, int(noisy[0]))
        parts: dict[int, Codes] = {}
        if plan.numbers:
            chooser = budget.chooser(EDGES, shares[EDGES], len(plan.numbers) * DEPTH)
            for place in plan.numbers:
                ends = quantiles(found[place][: fine[place].cells], DEPTH, chooser)
                parts[place] = self.rows * np.array(ends, dtype=np.int64)
        if others := [place for place in range(d) if place not in parts]:
            parts.update(zip(others, budget.count(COLUMNS, shares[COLUMNS], [found[at] for at in others]), strict=True))
        known = [np.array([self.rows], dtype=np.int64), *(parts[place] for place in range(d))]
        self._fill([*known, np.zeros(d * (d - 1) // 2, dtype=np.int64)])
        if d < 2:
            return
        bins = {
            place: one.bins.then(one.fine.merged(one.shares[0], SCORED_BINS + one.fine.group.has_indicator))
            for place, one in enumerate(self.noisy.columns(2))
        }
        scores, _ = yield from scored(
            combinations(range(d), 2),
            lambda pair: self.classes * math.prod(bins[place].count for place in pair),
            lambda wanted: partial(tables_of, fine, bins, self.classes, wanted),
            lambda _, table: distance(table),
        )
        exact = [np.array([score], dtype=np.int64) for score in scores.values()]
        self._fill([*known, *budget.count(SCORES, shares[SCORES], exact)])

    def _fill(self, figures: list[Codes]) -> None:
        self.noisy = self.plan.figures(self.classes, np.concatenate(figures), self.budget.measured)

    def drawn(self) -> DrawnModel:
        return self.noisy.drawn()

    def notes(self) -> dict[str, str]:
        """Computed from noisy figures alone."""
        return {
            "plan": f"{counted(len(self.noisy.scores), 'score')} of pairs of columns, to be added to those of other "
            "sites; drawn rows know nothing of what columns and classes have in common"
        }
