"""Canary audit: fit again and again, with and without planted records, and see how well the two can be told apart.

For measurements that cost rho in all, a test that looks for k planted records gains at most what looking for a shift
of mu = k sqrt(2 rho) standard deviations in a normal variable gains. The measured mu comes from the area under the
curve of a figure of the fit: AUC = Phi(mu / sqrt 2). A program that adds less noise than it says,
or lets an exact fact through, shows a larger one. What changes no figure is not seen: a second, hidden measurement is
a matter of accounting, and the law of the noise far out in its tail one of how it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

from sfumato.auditing.asked import CanaryAsked
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted
from sfumato.guarantee.cost import Central
from sfumato.mechanisms.central.column_codes import FineColumn
from sfumato.mechanisms.central.drawing import DrawnModel
from sfumato.mechanisms.central.model import TreeModel
from sfumato.mechanisms.tree_resampling import TreeResampling
from sfumato.noise import Streams
from sfumato.release.source import Source
from sfumato.table import Encoding, Schema, open_table
from sfumato.table.statistics import Columns

PARTS = ("rows", "edges", "columns", "forest", "columns again", "pairs", "second", "triples", "pairs again")
RELEASED = {"released rows": "rows", "released cells": None}
"""What goes out, and the measurement that it is made of alone; None: of all."""


def planted(encoding: Encoding, copies: int) -> Matrix:
    """So many equal records at the end of everything: the largest number, the last category, the first class."""
    record = np.zeros((copies, encoding.width))
    for group in encoding.groups:
        last = group.start + group.width - 1 - group.column.missing if group.is_onehot else group.start
        record[:, last] = 0.5 if group.is_constant and not group.is_onehot else 1.0
    return record


class Auditor:
    """Holds the table without the planted records, as fine codes by column, and their classes, and knows all answers.

    Each figure grows by at most what the claim says when the planted records are there. Of counts the auditor takes
    away what the others contribute, so that only the noise is between him and the answer. What goes out is looked at as
    well: a fact that bypasses the answers is in no measurement.
    """

    def __init__(self, encoding: Encoding, X: Matrix, classes: Codes) -> None:
        fine, canary = [FineColumn(group) for group in encoding.groups], planted(encoding, 1)
        self.codes, self.classes = [one.codes(X) for one in fine], classes
        self.record = [int(one.codes(canary)[0]) for one in fine]

    def figures(self, model: TreeModel) -> dict[str, float]:
        """One figure for every kind of measurement that this fit made."""
        answers, first = model.budget.answers, self.classes == 0
        bins = [one.bins.of for one in model.columns]
        cell = [of[code] for of, code in zip(bins, self.record, strict=True)]
        found = dict.fromkeys(PARTS, 0.0) | {
            "rows": float(answers["rows"][0].sum()),
            "edges": float(sum(np.argmax(of == at) / len(of) for of, at in zip(bins, cell, strict=True))),
            "forest": float(len(model.chosen)),
            "second": float(len(model.threes)),
        }
        for part in answers.keys() & {"columns", "columns again"}:
            for table, of, at, codes in zip(answers[part], bins, cell, self.codes, strict=True):
                found[part] += float(int(table[0, at]) - np.count_nonzero(of[codes[first]] == at))
        joint: dict[str, tuple[Sequence[Columns], int]] = {
            "pairs": (model.chosen, 0),
            "pairs again": (model.chosen, 0),
            "triples": (model.threes, 1),
        }
        for part in answers.keys() & joint.keys():
            measured, of_parent = joint[part]
            found[part] = self._joint(model, measured, answers[part], of_parent, first)
        return found

    def released(self, model: DrawnModel, rows: int) -> dict[str, float]:
        """What a release of so many rows tells: their number, and how many of them are expected where the planted
        records lie."""
        cells = [one.shares[0, one.bins.of[code]] for one, code in zip(model.columns, self.record, strict=True)]
        return {"released rows": float(rows), "released cells": float(model.sizes[0] * sum(cells))}

    def _joint(
        self, model: TreeModel, measured: Sequence[Columns], answers: list[Codes], of: int, first: Flags
    ) -> float:
        """A mean, because fits that measure fewer tables do so with less noise."""
        total = 0.0
        for places, table in zip(measured, answers, strict=True):
            columns = [model.columns[place] for place in places]
            bins = [one.bins.then(one.as_parent(of)).of for one in columns]
            cell = [found[self.record[place]] for found, place in zip(bins, places, strict=True)]
            others = [found[self.codes[place][first]] for found, place in zip(bins, places, strict=True)]
            like = np.all([codes == at for codes, at in zip(others, cell, strict=True)], axis=0)
            total += (int(table[(0, *cell)]) - np.count_nonzero(like)) / len(measured)
        return total


TOGETHER = "together"
WANTED_MU = 1.5
"""As many records are planted as make the claim about this large: much smaller ones need thousands of fits."""
MOST_COPIES = 1_000
CONFIDENCE = 0.999
"""Of all parts together: whoever is told to release nothing of a mechanism should not be told so by chance."""


@dataclass(frozen=True)
class Part:
    """One kind of measurement: the mu that is claimed, the one that was measured, and an interval for it."""

    what: str
    claimed: float
    measured: float
    low: float
    high: float

    @property
    def above(self) -> bool:
        """Whether more was told than is claimed, beyond what chance explains."""
        return self.low > self.claimed


@dataclass(frozen=True)
class CanaryAudit:
    """What `sf.canary` found. It was computed from the table itself: it is for the table's owner."""

    epsilon: float
    delta: float
    copies: int
    fits: int
    parts: tuple[Part, ...]

    @property
    def above(self) -> bool:
        """Whether any part tells more than is claimed."""
        return any(part.above for part in self.parts)

    def in_words(self) -> str:
        """A few lines; a violation comes first."""
        lines = [
            f"{part.what:>14}: mu {part.measured:.2f} ({part.low:.2f} to {part.high:.2f}), claimed {part.claimed:.2f}"
            + ("   ABOVE THE CLAIM" if part.above else "")
            for part in self.parts
        ]
        said = (
            "MORE IS TOLD THAN IS CLAIMED. Do not release anything of this mechanism, and report it (SECURITY.md)."
            if self.above
            else "Nothing above the claim was found."
        )
        planted_ = counted(self.copies, "planted record")
        return "\n".join([said, f"{self.fits:,} fits with and {self.fits:,} without {planted_}:", *lines])

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "above": self.above}


@asks(CanaryAsked)
def canary(table: Any, options: CanaryAsked) -> CanaryAudit:
    """Fit `tree-resampling` many times with and without planted records, and measure how well one tells the two apart.

    The claim must hold for every table, so a public or an invented one will do. Nothing is released and the ledger is
    not charged. If the table is private, so is what comes out.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path or SqlQuery
        Rows to plant records among.
    {options}

    Returns
    -------
    CanaryAudit
        `parts` (claimed and measured mu with an interval), `above` (True: more is told than is claimed), `in_words()`.

    Examples
    --------
    >>> import sfumato as sf
    >>> known = {"source": "public", "reason": "the admission form"}
    >>> schema = sf.Schema((sf.Column("age", "integer", low=0, high=120, **known),))
    >>> people = {"age": [34, 61, 47, 29, 52] * 20}
    >>> sf.canary(people, schema=schema, epsilon=1, fits=50, seed=1).above
    False
    """
    return plant(table, options, CONFIDENCE)


def plant(table: Any, options: CanaryAsked, confidence: float) -> CanaryAudit:
    """The same with a confidence of the intervals of all parts together. Whoever audits many settings wants more of it,
    or chance alone shows one of them above its claim."""
    epsilon, delta, fits = options.epsilon, options.delta, options.fits
    if delta == 0:
        raise UsageError("A canary audit judges concentrated differential privacy. Give a --delta above 0, as 1e-6.")
    mechanism = TreeResampling(epsilon, delta)
    encoding = Encoding(Schema.of(options.schema))
    mechanism.check_schema(encoding)
    copies = max(1, min(MOST_COPIES, round(WANTED_MU / math.sqrt(2 * mechanism.planned.rho))))
    X, classes = _read(table, encoding)
    streams = Streams() if options.seed is None else Streams.seeded(options.seed)
    auditor = Auditor(encoding, X, classes)
    more = np.vstack([X, planted(encoding, copies)]), np.append(classes, np.zeros(copies, dtype=np.int64))
    found: list[dict[str, list[float]]] = [{part: [] for part in (*PARTS, *RELEASED)} for _ in (0, 1)]
    costs: list[Central] = []
    rho = dict.fromkeys(PARTS, 0.0)
    for number in range(2 * fits):
        rows, labels = more if number % 2 else (X, classes)
        mechanism.start(encoding, streams.generator(number, b"", b"canary"), labelled=bool(encoding.classes))
        while mechanism.needs_counts:
            mechanism.measure(mechanism.count(rows, labels))
        assert isinstance(mechanism.model_, TreeModel)
        out = auditor.released(mechanism.drawn_, mechanism.released(len(rows)))
        for part, figure in (auditor.figures(mechanism.model_) | out).items():
            found[number % 2][part].append(figure)
        measured = mechanism.recipe_.measured
        costs.append(Central.of(measured, delta))
        for one in measured:
            rho[one.what] = max(rho[one.what], one.rho)
        options.progress("Fitting", number + 1, 2 * fits)
    claimed = {part: copies * math.sqrt(2 * rho[part]) for part in PARTS}
    together = copies * math.sqrt(2 * max(one.rho for one in costs))
    return CanaryAudit(epsilon, delta, copies, fits, _judged(found, claimed, together, confidence))


def _read(table: Any, encoding: Encoding) -> tuple[Matrix, Codes]:
    """All records and their classes; without a label all are of the first."""
    source = Source(open_table(table), encoding, keep_in_memory=True, blind=True)
    blocks = list(source.blocks()) or [source.no_rows()]
    y = [np.zeros(len(block.X), dtype=np.int64) if block.y is None else block.y for block in blocks]
    return np.vstack([block.X for block in blocks]), np.concatenate(y)


def _judged(
    found: list[dict[str, list[float]]], claimed: Mapping[str, float], together: float, confidence: float
) -> tuple[Part, ...]:
    without, there = ({part: np.array(values) for part, values in side.items()} for side in found)
    asked = [part for part in PARTS if claimed[part] > 0]
    made = {part: together if of is None else claimed[of] for part, of in RELEASED.items()}
    z = float(stats.norm.isf((1 - confidence) / 2 / (len(asked) + len(made) + 1)))
    claims = {**{part: claimed[part] for part in asked}, **made}
    parts = [_part(part, claim, without[part], there[part], z) for part, claim in claims.items()]
    sides = [np.zeros(len(side["rows"])) for side in (without, there)]
    for part in asked:
        if (spread := without[part].std()) > 0:
            for total, side in zip(sides, (without, there), strict=True):
                total += claimed[part] * (side[part] - without[part].mean()) / spread
    return (*parts, _part(TOGETHER, together, sides[0], sides[1], z))


def _part(what: str, claimed: float, without: Floats, there: Floats, z: float) -> Part:
    """The mu of a figure, and all that chance does not rule out: each end is judged by the error it would have itself.

    An interval by the error of what was measured is far too short near 1: of 20 fits every eighth was called above.
    """
    n = len(without)
    ranks = stats.rankdata(np.concatenate([without, there]))
    area, edge = float((ranks[n:].sum() - n * (n + 1) / 2) / n**2), 1 / (2 * n)
    area = min(max(area, 1 - area), 1 - edge)  # a figure that falls tells as much as one that grows
    ends = (area, _end(area, -z, edge, n), _end(area, z, edge, n))
    return Part(what, claimed, *(math.sqrt(2) * float(stats.norm.ppf(one)) for one in ends))


def _end(area: float, z: float, edge: float, n: int) -> float:
    """The area from which the measured one lies z of its own standard errors away."""

    def beyond(one: float) -> float:  # the error is that of an area from n and n figures (Hanley & McNeil 1982)
        q1, q2 = one / (2 - one), 2 * one**2 / (1 + one)
        return one - area - z * math.sqrt((one * (1 - one) + (n - 1) * (q1 + q2 - 2 * one**2)) / n**2)

    ends = (edge, area) if z < 0 else (area, 1 - edge)
    if beyond(ends[0]) * beyond(ends[1]) >= 0:
        return ends[0] if z < 0 else ends[1]
    return float(optimize.brentq(beyond, *ends))
