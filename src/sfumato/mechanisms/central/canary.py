"""What one fit tells about planted records, as an auditor sees it who knows the table, the records and all answers.

The planted records are alike and lie at the end of everything: the largest number, the last category, the first class.
Each figure below grows by at most what the claim says when they are there. Of counts the auditor takes away what the
others contribute, so that only the noise is between him and the answer. What goes out is looked at as well: a fact that
bypasses the answers is in no measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.mechanisms.central.column_codes import FineColumn
from sfumato.mechanisms.central.drawing import DrawnModel
from sfumato.mechanisms.central.model import TreeModel
from sfumato.table import Encoding
from sfumato.table.statistics import Columns

PARTS = ("rows", "edges", "columns", "forest", "columns again", "pairs", "second", "triples", "pairs again")
RELEASED = {"released rows": "rows", "released cells": None}
"""What goes out, and the measurement that it is made of alone; None: of all."""


def planted(encoding: Encoding, copies: int) -> Matrix:
    """So many equal records at the end of every column."""
    record = np.zeros((copies, encoding.width))
    for group in encoding.groups:
        if group.is_onehot:
            record[:, group.start + group.width - 1 - group.column.missing] = 1.0
        else:
            record[:, group.start] = 0.5 if group.is_constant else 1.0
    return record


@dataclass(frozen=True)
class Auditor:
    """Holds the table without the planted records, as fine codes by column, and their classes."""

    codes: list[Codes]
    classes: Codes
    record: list[int]

    @classmethod
    def of(cls, encoding: Encoding, X: Matrix, classes: Codes) -> Auditor:
        fine = [FineColumn.of(group) for group in encoding.groups]
        canary = planted(encoding, 1)
        return cls([one.codes(X) for one in fine], classes, [int(one.codes(canary)[0]) for one in fine])

    def figures(self, model: TreeModel) -> dict[str, float]:
        """One figure for every kind of measurement that this fit made."""
        answers, first = model.budget.answers, self.classes == 0
        found = {"rows": float(answers["rows"][0].sum())}
        bins = [one.bins.of for one in model.columns]
        cell = [of[code] for of, code in zip(bins, self.record, strict=True)]
        found["edges"] = float(sum(np.argmax(of == at) / len(of) for of, at in zip(bins, cell, strict=True)))
        for part in ("columns", "columns again"):
            found[part] = float(
                sum(
                    int(table[0, at]) - np.count_nonzero(of[codes[first]] == at)
                    for table, of, at, codes in zip(answers[part], bins, cell, self.codes, strict=True)
                )
                if part in answers
                else 0.0
            )
        found["forest"], found["second"] = float(len(model.chosen)), float(len(model.threes))
        for part, measured, of in (
            ("pairs", model.chosen, 0),
            ("pairs again", model.chosen, 0),
            ("triples", model.threes, 1),
        ):
            found[part] = self._joint(model, measured, answers[part], of, first) if part in answers else 0.0
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
