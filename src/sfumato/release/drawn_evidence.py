"""Made-up rows against the model that they were drawn from, and the model against what was paid for.

The model is public, so the law of the rows is known exactly. Rows are independent, and so are, given what they depend
on, the bins of a column: none is rarer or more frequent than its share allows [Chernoff 1952], and within a bin of a
number no fine cell is. That the noise in the model was drawn cannot be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sfumato.channels.recipe import COUNTS as COUNTED
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, TableError
from sfumato.core.files import file_digest
from sfumato.guarantee import Card
from sfumato.guarantee.card import MOST_BYTES, from_json
from sfumato.mechanisms.central.drawing import DAMAGED, DrawnModel, ModelColumn, Node, model_from_dict
from sfumato.release.check_rows import exceeds
from sfumato.release.write_release import MODEL

FLOOR = 1e-9
"""Added to every share: rounding may carry a value over the edge of its cell."""
FINE_ENOUGH = 1e-13
"""Of a range: doubles as fine as that hardly ever leave their cell."""
CHOSEN = frozenset({"edges", "forest", "second"})
OTHER_ROWS = (
    "Its rows are not spread as the model beside them says: they were not drawn from it, or were edited. Take the "
    "folder as `sfumato sanitize` wrote it."
)
UNPAID = "Its model rests on more measurements than the card states and its guarantee counts: one of them was edited."


def read_model(folder: Path, card: Card) -> DrawnModel | None:
    """The model beside a card, checked against its digest there; None where it was not handed over."""
    path, digest = folder / MODEL, card.made_by().model
    if digest is None or not path.is_file():
        return None
    if file_digest(path) != digest:
        raise CardError(f"{MODEL} is not the model of the card: it was edited, or comes from another release.")
    try:
        found = from_json(path.read_bytes() if path.stat().st_size <= MOST_BYTES else b"")
    except ValueError:
        raise CardError(DAMAGED) from None
    model = model_from_dict(found, card.source_encoding())
    measured = card.made_by().measured
    if {one.what for one in measured} <= COUNTED | CHOSEN:
        paid = sum(one.times for one in measured if one.what in ("columns", "pairs", "triples"))
        if paid < len(model.columns) + sum(bool(node.parents) for node in model.nodes):
            raise CardError(UNPAID)
    return model


@dataclass
class DrawnEvidence:
    """How often each bin was seen, given what it depends on."""

    model: DrawnModel
    counts: dict[tuple[str, int], Codes] = field(default_factory=dict)

    def add(self, matrix: Matrix, codes: Codes | None) -> None:
        """One block of the release matrix."""
        model = self.model
        classes = np.zeros(len(matrix), dtype=np.int64) if codes is None or model.classes == 1 else codes
        self._add("class", 0, classes, model.classes)
        fine = {node.column: model.columns[node.column].fine.codes(matrix) for node in self._told()}
        bins = {column: model.columns[column].bins.of[some] for column, some in fine.items()}
        for node in self._told():
            one, states = model.columns[node.column], classes
            for place, parent in enumerate(node.parents):
                as_parent = model.columns[parent].as_parent(place)
                states = states * as_parent.count + as_parent.of[bins[parent]]
            size = len(model.conditional(node))
            self._add("bin", node.column, states * one.bins.count + bins[node.column], size * one.bins.count)
            if one.fine.is_ordered:
                self._add("cell", node.column, fine[node.column], one.fine.size)

    def _add(self, kind: str, column: int, codes: Codes, size: int) -> None:
        found = np.bincount(codes, minlength=size)
        self.counts[kind, column] = self.counts.get((kind, column), 0) + found

    def _told(self) -> Iterator[Node]:
        """Columns whose cells can be told from what is written, as can those of the columns that they depend on."""
        for node in self.model.nodes:
            if all(_is_told(self.model.columns[column]) for column in (node.column, *node.parents)):
                yield node

    def check(self, false_alarms: float) -> None:
        """Raise what contradicts the model; an honest release does so with a probability of `false_alarms` at most."""
        sizes = self.model.sizes / self.model.sizes.sum()
        tests = [(self.counts["class", 0][None, :], sizes[None, :])]
        for node in self._told():
            one, shares = self.model.columns[node.column], self.model.conditional(node)
            tests.append((self.counts["bin", node.column].reshape(shares.shape), shares))
            if one.fine.is_ordered:
                seen = self.counts["cell", node.column]
                of_bin = np.bincount(one.bins.of, weights=seen, minlength=one.bins.count)
                width = np.bincount(one.bins.of, minlength=one.bins.count)
                inside = 1 / width[one.bins.of]
                split = np.stack([inside, 1 - inside], axis=1)
                tests.append((np.stack([seen, of_bin[one.bins.of] - seen], axis=1), split))
        doubt = math.log(2 * sum(counts.size for counts, _ in tests) / false_alarms)
        for counts, shares in tests:
            total = counts.sum(axis=1, keepdims=True)
            often = exceeds(counts, total, np.minimum(shares * (1 + FLOOR) + FLOOR, 1.0), doubt)
            seldom = exceeds(total - counts, total, np.minimum(1 - shares + FLOOR, 1.0), doubt)
            if often.any() or seldom.any():
                raise TableError(OTHER_ROWS)


def _is_told(one: ModelColumn) -> bool:
    """Whole numbers of a wide range are rounded over the edges of their cells, and so are numbers of a narrow range far
    from zero."""
    column = one.fine.group.column
    if one.fine.is_whole or column.kind != "numeric":
        return one.fine.is_whole
    low, high = column.bounds
    return float(np.spacing(max(abs(low), abs(high)))) < FINE_ENOUGH * (high - low)
