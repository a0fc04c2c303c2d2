"""What one fit tells about planted records, as an auditor sees it who knows the table, the records and all answers.

The planted records are alike and lie at the end of everything: the largest number, the last category, the first class.
Each figure below grows by at most what the claim says when they are there. Of counts the auditor takes away what the
others contribute, so that only the noise is between him and the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.central.column_codes import FineColumn
from sfumato.central.model import TreeModel
from sfumato.table import Encoding

PARTS = ("rows", "edges", "columns", "forest", "pairs")


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
        found["columns"] = float(
            sum(
                int(table[0, at]) - np.count_nonzero(of[codes[first]] == at)
                for table, of, at, codes in zip(answers["columns"], bins, cell, self.codes, strict=True)
            )
        )
        pairs = model.chosen
        found["forest"] = float(len(pairs))
        joint = {place: model.columns[place].joint.of[bins[place]] for pair in pairs for place in pair}
        found["pairs"] = 0.0  # a mean, because fits that measure fewer pairs do so with less noise
        for (a, b), table in zip(pairs, answers.get("pairs", []), strict=True):
            here = [joint[place][self.record[place]] for place in (a, b)]
            others = [joint[place][self.codes[place][first]] == at for place, at in zip((a, b), here, strict=True)]
            more = int(table[0, here[0], here[1]]) - np.count_nonzero(others[0] & others[1])
            found["pairs"] += more / len(pairs)
        return found
