"""Who stands out by what others may know already: crowds of alike rows in the release, and in the original."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.attacks.metrics.crowds import (
    RECURSIVE_C,
    closeness,
    crowd_numbers,
    crowd_sizes,
    diversity,
    log_linear,
    pitman,
)
from sfumato.auditing.case import Case
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import UsageError
from sfumato.table.arrays import is_number, numbers, plain, text
from sfumato.table.column import nearest
from sfumato.table.tables import PicksRows

# Cells of some columns as codes, read block by block: a word is a value, and a number is one too.


@dataclass(frozen=True)
class Cells:
    """Codes of each column that a table has, and the columns whose codes are ranks of numbers."""

    codes: Mapping[str, Codes]
    ordered: frozenset[str]


class CellCodes:
    """Every word of a quasi-identifier gets a number when it is first seen, the same in every table that is read.

    "30-39" and "*" are words too, so that generalised tables are coded as they are. Numbers are spelt alike whatever
    their type, and an empty cell is a value like others. Sensitive columns of numbers are coded by rank, table by
    table: they may have millions of values, and are not compared between tables.
    """

    def __init__(self, quasi: Sequence[str], sensitive: Sequence[str]) -> None:
        self._quasi, self._names = frozenset(quasi), (*quasi, *sensitive)
        self._known: dict[str, dict[str | None, int]] = {name: {} for name in self._names}

    def read(self, blocks: Iterable[pa.RecordBatch | pa.Table]) -> Cells:
        """All cells of the named columns."""
        codes: dict[str, list[Codes]] = {}
        values: dict[str, list[Matrix]] = {}
        for block in blocks:
            for name in self._names:
                if name not in block.schema.names:
                    continue
                array = plain(block.column(name))
                if name not in self._quasi and is_number(array.type):
                    found, empty = numbers(array, name)
                    values.setdefault(name, []).append(found if empty is None else np.where(empty, np.nan, found))
                else:
                    codes.setdefault(name, []).append(self._coded(name, array))
        ranked = {name: _ranks(np.concatenate(parts)) for name, parts in values.items()}
        return Cells({name: np.concatenate(parts) for name, parts in codes.items()} | ranked, frozenset(ranked))

    def _coded(self, name: str, array: pa.Array) -> Codes:
        if pa.types.is_null(array.type):
            return np.full(len(array), self._number(name, None), dtype=np.int64)
        encoded = array.dictionary_encode("encode")
        words = text(encoded.dictionary, name).to_pylist()
        here = np.array([self._number(name, word) for word in words], dtype=np.int64)
        return np.asarray(here[encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)])

    def _number(self, name: str, word: str | None) -> int:
        known = self._known[name]
        return known.setdefault(word, len(known))


def _ranks(values: Matrix) -> Codes:
    """The rank of each number among those that occur; an empty cell comes last."""
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64).reshape(-1)


SMALL = (2, 3, 5, 10)
"""Sizes of crowds below which the share of rows is told."""
MOST_SENSITIVE = 20


def uniqueness(case: Case) -> dict[str, Any] | None:
    """k-anonymity, uniques, l-diversity and t-closeness; None where no quasi-identifier was named."""
    quasi = quasi_identifiers(case)
    if not quasi:
        return None
    if isinstance(case.original, PicksRows):
        return {"quasi_identifiers": list(quasi), "not_applicable": "crowds are not counted with --engine spark"}
    sensitive = _sensitive(case, quasi)
    codes = CellCodes(quasi, sensitive)
    released = _released(case, codes)
    if released is None:
        return {"quasi_identifiers": list(quasi), "not_applicable": "the release mixes columns by a secret key"}
    left_out = [name for name in quasi if name not in released.codes]
    quasi = tuple(name for name in quasi if name in released.codes)
    if not quasi:
        raise UsageError("The release has none of the columns that --quasi-identifiers names.")
    original = codes.read(case.original.blocks())
    people = len(original.codes[quasi[0]])
    if case.options.population is not None and case.options.population < people:
        raise UsageError(
            f"--population {case.options.population} is less than the {people} people of the original. "
            "Give the number of all people that they are a sample of."
        )
    return {
        "quasi_identifiers": list(quasi),
        "left_out": left_out,
        "population": case.options.population,
        "c": RECURSIVE_C,
        "release": _told(released, quasi, sensitive, case.options.population),
        "original": _told(original, quasi, sensitive, case.options.population),
        "still_unique": _still_unique(released.codes, original.codes, quasi),
    }


def quasi_identifiers(case: Case) -> tuple[str, ...]:
    """As asked, else the columns that the schema marks."""
    schema = case.encoding.schema
    if not case.options.quasi_identifiers:
        return tuple(column.name for column in schema.columns if column.quasi_identifier)
    for name in (*case.options.quasi_identifiers, *(case.options.sensitive or ())):
        if name not in schema:
            raise UsageError(
                f"No column {name!r} can be audited, which --quasi-identifiers or --sensitive names."
                f"{nearest(name, schema.names)}"
            )
    return tuple(dict.fromkeys(case.options.quasi_identifiers))


def _sensitive(case: Case, quasi: tuple[str, ...]) -> tuple[str, ...]:
    """As asked, else the label, else every column that is no quasi-identifier."""
    if case.options.sensitive:
        return tuple(case.options.sensitive)
    label = case.encoding.schema.label
    if label is not None and label.name not in quasi:
        return (label.name,)
    names = [column.name for column in case.encoding.schema.private]
    return tuple(name for name in names if name not in quasi)[:MOST_SENSITIVE]


def _released(case: Case, codes: CellCodes) -> Cells | None:
    """The cells as they were released; of a release with a card, as anybody could map them back."""
    if case.released is not None:
        return codes.read(case.released.blocks())
    restored = case.restored(case.whole)
    if restored is None:
        return None
    table = case.encoding.decode(restored)
    label = case.encoding.schema.label
    if label is not None and case.whole_y is not None:
        names = pa.array(label.categories, pa.string())
        table = table.append_column(label.name, names.take(pa.array(case.whole_y)))
    return codes.read([table])


def _told(
    cells: Cells,
    quasi: tuple[str, ...],
    sensitive: tuple[str, ...],
    population: int | None,
) -> dict[str, Any]:
    columns = [np.asarray(np.unique(cells.codes[name], return_inverse=True)[1]).reshape(-1) for name in quasi]
    crowd = crowd_numbers(columns)
    sizes = crowd_sizes(crowd)
    of_row = sizes[crowd]
    found: dict[str, Any] = {
        "rows": len(crowd),
        "crowds": len(sizes),
        "k": int(sizes.min()),
        "unique": float((of_row == 1).mean()),
        "below": {str(size): float((of_row < size).mean()) for size in SMALL},
        "sensitive": [_of_sensitive(name, crowd, cells) for name in sensitive if name in cells.codes],
        "pitman": None,
        "log_linear": None,
    }
    if population is not None and population >= len(crowd):
        by_size, by_model = pitman(sizes, population), log_linear(columns, population)
        found["pitman"] = None if by_size is None else by_size._asdict()
        found["log_linear"] = None if by_model is None else by_model._asdict()
    return found


def _of_sensitive(name: str, crowd: Codes, cells: Cells) -> dict[str, Any]:
    ordered = name in cells.ordered
    shown = np.asarray(np.unique(cells.codes[name], return_inverse=True)[1]).reshape(-1)
    diverse, far = diversity(crowd, shown), closeness(crowd, shown, ordered=ordered)
    return {
        "name": name,
        "ordered": ordered,
        "distinct": diverse.distinct,
        "entropy": diverse.entropy,
        "recursive": diverse.recursive,
        "t": far.largest,
        "t_mean": far.mean,
    }


def _still_unique(released: Mapping[str, Codes], original: Mapping[str, Codes], quasi: tuple[str, ...]) -> float:
    """Share of the original's rows that are alone there, and whose very cells stand alone in the release too."""
    size = len(next(iter(original.values())))
    both = crowd_numbers([np.concatenate([original[name], released[name]]) for name in quasi])
    count = int(both.max()) + 1
    before, after = np.bincount(both[:size], minlength=count), np.bincount(both[size:], minlength=count)
    return float(((before == 1) & (after == 1)).sum() / size)
