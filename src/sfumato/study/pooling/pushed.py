"""Releases as sites pushed them: one Parquet file each, its card inside, read block by block."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, TableError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.training import Part, part_of_card
from sfumato.release.release import card_inside, matrix_of
from sfumato.table import Table, open_table

BLOCK_ROWS = 65_536


@dataclass(frozen=True)
class Pushed:
    """One release file, the site that pushed it, and the hash of its content."""

    path: Path
    site: str
    sha256: str

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"The release {self.sha256.removeprefix('sha256:')[:12]} of the site {self.site!r}"


def embedded_card(pushed: Pushed) -> Card:
    """The card that a pushed release carries."""
    if not pushed.path.is_file():
        raise TableError(f"{pushed.name} is no longer there: it was withdrawn. Train again without it.")
    try:
        with pq.ParquetFile(pushed.path) as file:
            text = card_inside(file)
        if text is None:
            raise CardError(f"{pushed.name} contains no card.")
        stated = json.loads(text)
    except (pa.ArrowException, OSError, ValueError):
        raise CardError(f"{pushed.name} cannot be read as Parquet with a card: it is damaged.") from None
    return Card.from_dict(stated, where=f"The card of {pushed.name[0].lower()}{pushed.name[1:]}")


def read_part(pushed: Pushed, card: Card, rows: int, rng: np.random.Generator) -> Part:
    """At most `rows` of its rows, a random sample where it holds more; memory is that of the sample and a block."""
    table = open_table(pushed.path)
    if table.rows != card.rows:
        raise CardError(f"{pushed.name} has {table.rows} rows, but its card states {card.rows}.")
    Z, y = [], []
    for picked in picked_blocks(table, chosen_rows(card.rows, rows, rng)):
        matrix, codes = matrix_of(picked, card)
        assert codes is not None
        Z.append(matrix)
        y.append(codes)
    return part_of_card(stacked(Z, card.made_by().width), joined_codes(y), card)


def picked_blocks(table: Table, chosen: Codes) -> Iterator[pa.Table]:
    """The chosen rows (ascending numbers), block by block."""
    first = 0
    for block in table.blocks(BLOCK_ROWS):
        start, stop = np.searchsorted(chosen, [first, first + block.num_rows])
        if stop > start:
            yield pa.Table.from_batches([block]).take(pa.array(chosen[start:stop] - first))
        first += block.num_rows


def chosen_rows(there: int, wanted: int, rng: np.random.Generator) -> Codes:
    """Numbers of rows in ascending order: all of them, or a random choice without repetition."""
    if wanted >= there:
        return np.arange(there, dtype=np.int64)
    return np.sort(rng.choice(there, wanted, replace=False)).astype(np.int64)


def thinned_part(part: Part, share: float, rng: np.random.Generator) -> Part:
    """A random share of its rows, and at least one."""
    return sampled_part(part, max(1, round(share * len(part.y))), rng)


def sampled_part(part: Part, rows: int, rng: np.random.Generator) -> Part:
    """So many of its rows, chosen at random."""
    chosen = chosen_rows(len(part.y), rows, rng)
    return part if len(chosen) == len(part.y) else replace(part, Z=part.Z[chosen], y=part.y[chosen])


def stacked(blocks: Sequence[Matrix], width: int) -> Matrix:
    return np.concatenate(blocks) if blocks else np.empty((0, width))


def joined_codes(blocks: Sequence[Codes]) -> Codes:
    return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.int64)
