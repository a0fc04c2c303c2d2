"""Rows of the release that are rows of the original, or lie too near to one, against people who are not in the table.

Exact copies are counted over all rows. Distances are those of a stated sample: distance to the closest record (DCR),
and its ratio to the distance of the second closest (NNDR). What is near by chance is told by the holdout: similar
people lie near each other too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.attacks.metrics import crowds
from sfumato.attacks.metrics.privacy import proportion_interval
from sfumato.auditing.case import Case, sampled
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.table.arrays import is_number, numbers, plain, text
from sfumato.table.column import nearest
from sfumato.table.encoding import MISSING_INSTEAD
from sfumato.table.neighbours.nearest import nearest as nearest_rows
from sfumato.table.tables import PicksRows

Keys = npt.NDArray[np.uint64]
Counter = Callable[[Keys], Codes]
"""How many records of the original have each of these keys."""
MOST_ROWS = 4_000
"""Released rows whose distances are measured, and as many of the holdout."""
MOST_REFERENCE = 50_000
"""People of the original among whom the closest are looked for."""
NEAR = 0.05
"""A near copy lies nearer to a record than this share of the people who are not in the table do."""
HOLDOUT, OTHERS = "holdout", "others"
SECRET = "the release mixes columns by a secret key, so its rows cannot be compared with records"
NOT_REPORTED = "rows leave cells out on purpose, and a gap has no distance"


def copies(case: Case) -> dict[str, Any]:
    """Shares of exact and near copies with their intervals, or why there are none."""
    restored = case.restored(case.whole)
    if restored is None:
        return {"not_applicable": SECRET}
    if np.isnan(restored).any():
        return {"not_applicable": NOT_REPORTED}
    rng = np.random.default_rng((case.options.seed, 2))
    count, reference = _counter(case, sampled(case.people.total, MOST_REFERENCE, rng))
    times = count(row_keys(restored))
    for sets in case.sets.values():  # what stands for a set may happen to be a person's value, and is no copy
        times = np.where(sets.index >= 0, 0, times)
    hits, strangers = int(np.count_nonzero(times)), None if case.holdout is None else case.holdout.X
    exact = {
        "rows": len(times),
        "share": hits / len(times),
        "interval": list(proportion_interval(hits, len(times))),
        "of_unique": float(np.mean(times == 1)),
        "control": None if strangers is None or not len(strangers) else float(np.mean(count(row_keys(strangers)) > 0)),
    }
    return {"exact": exact, "near": _near(restored, reference, case, rng)}


def _counter(case: Case, wanted: npt.NDArray[np.int64]) -> tuple[Counter, Matrix]:
    """What counts the records of the original with given keys, and the records at the wanted places."""
    table, encoding = case.original, case.encoding
    if isinstance(table, PicksRows):  # rows lie in several places: each counts its own, and counts add up
        rows, _ = table.rows_at(wanted)

        def count_there(asked: Keys) -> Codes:
            different, place = np.unique(asked, return_inverse=True)

            def observe(batches: Iterator[pa.RecordBatch]) -> Codes:
                total = np.zeros(len(different), dtype=np.int64)
                for batch in batches:
                    keys = row_keys(encoding.encode(batch, unknown=MISSING_INSTEAD).X)
                    at = np.minimum(np.searchsorted(different, keys), len(different) - 1)
                    total += np.bincount(at[different[at] == keys], minlength=len(different))
                return total

            return np.asarray(table.gather(observe, np.add, lambda found: found)[place])

        return count_there, encoding.encode(rows, unknown=MISSING_INSTEAD).X
    all_keys, records, first = [], [], 0
    for batch in table.blocks():
        X = encoding.encode(batch, unknown=MISSING_INSTEAD, first_row=first).X
        all_keys.append(row_keys(X))
        records.append(X[wanted[(wanted >= first) & (wanted < first + len(X))] - first])
        first += len(X)
    known, times = np.unique(np.concatenate(all_keys), return_counts=True)

    def count(asked: Keys) -> Codes:
        place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return np.where(known[place] == asked, times[place], 0)

    return count, np.vstack(records)


def row_keys(X: Matrix) -> Keys:
    """A 64-bit number for each row, the same for rows that agree to 9 digits; others share one with chance 2^-64."""
    words = np.ascontiguousarray(np.round(X, 9) + 0.0).view(np.uint64)
    key = np.full(len(X), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in words.T:
        key = (key ^ column) * np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(29)
        key *= np.uint64(0x94D049BB133111EB)
        key ^= key >> np.uint64(32)
    return key


def _near(restored: Matrix, reference: Matrix, case: Case, rng: np.random.Generator) -> dict[str, Any] | None:
    """Distances of released rows to records, beside those of people who are no records; None with too few people."""
    scale = np.ones(case.encoding.width)  # a number across its whole range, and another category, lie 1 apart
    for group in case.encoding.groups:
        scale[group.slice] = np.sqrt(0.5) if group.is_onehot else 1.0
    rows, reference = restored[sampled(len(restored), MOST_ROWS, rng)] * scale, reference * scale
    strangers = None if case.holdout is None else case.holdout.X * scale
    if len(reference) < 3 or (strangers is not None and len(strangers) < 2):
        return None
    if strangers is not None:
        control = nearest_rows(strangers[sampled(len(strangers), MOST_ROWS, rng)], reference, k=2)[0]
    else:
        chosen = sampled(len(reference), MOST_ROWS, rng)
        control = _without_self(*nearest_rows(reference[chosen], reference, k=3), chosen)
    found = nearest_rows(rows, reference, k=2)[0]
    limit = float(np.quantile(control[:, 0], NEAR))
    closer = int((found[:, 0] < limit).sum())
    told: dict[str, Any] = {
        "rows": len(rows),
        "reference": len(reference),
        "against": OTHERS if strangers is None else HOLDOUT,
        "dcr": {"release": _quantiles(found[:, 0]), "control": _quantiles(control[:, 0])},
        "nndr": {"release": _quantiles(_ratio(found)), "control": _quantiles(_ratio(control))},
        "share": closer / len(rows),
        "interval": list(proportion_interval(closer, len(rows))),
        "expected": float((control[:, 0] < limit).mean()),
        **dict.fromkeys(("nearer", "nearer_interval", "nearer_at_most")),
    }
    if strangers is not None:
        # Nearer to a record than to one of as many strangers, ties counting half: 0.5 if nothing leaks.
        size = min(len(reference), len(strangers))
        sides = (part[sampled(len(part), size, rng)] for part in (reference, strangers))
        own, other = (nearest_rows(rows, part)[0][:, 0] for part in sides)
        hits = float((own < other).sum() + (own == other).sum() / 2)
        told |= {"nearer": hits / len(rows), "nearer_interval": list(proportion_interval(hits, len(rows)))}
        told["nearer_at_most"] = (1 + size / case.people.total) / 2
    return told


def _without_self(distance: Floats, index: npt.NDArray[np.int64], own: npt.NDArray[np.int64]) -> Floats:
    """Two of the three nearest, without the row itself; it is missing only behind three twins, all at distance 0."""
    mine = index == own[:, None]
    place = np.where(mine.any(axis=1), mine.argmax(axis=1), 2)
    return np.asarray(distance[np.arange(3) != place[:, None]].reshape(-1, 2))


def _ratio(distance: Floats) -> Floats:
    """Closest over second closest; 1 where two records are equally near, even at distance 0: neither is singled out."""
    return np.divide(distance[:, 0], distance[:, 1], out=np.ones(len(distance)), where=distance[:, 1] > 0)


def _quantiles(values: Floats) -> dict[str, float]:
    low, middle = np.quantile(values, [0.05, 0.5])
    return {"p05": float(low), "median": float(middle)}


Numbers = dict[str | None, int]
Cells = tuple[Mapping[str, Codes], Collection[str]]
"""Codes of each column that a table has, and the columns whose codes are ranks of numbers."""


def read_cells(
    blocks: Iterable[pa.RecordBatch | pa.Table], known: Mapping[str, Numbers], quasi: Sequence[str]
) -> Cells:
    """All cells of the `known` columns, block by block; each word gets a number there when it is first seen, the same
    in every table that is read.

    "30-39" and "*" are words too, so that generalised tables are coded as they are. Numbers are spelt alike whatever
    their type, and an empty cell is a value like others. Sensitive columns of numbers (those that are no `quasi`) are
    coded by rank, table by table: they may have millions of values, and are not compared between tables.
    """
    codes: dict[str, list[Codes]] = {}
    values: dict[str, list[Matrix]] = {}
    for block in blocks:
        for name in known.keys() & {*block.schema.names}:
            array = plain(block.column(name))
            if name not in quasi and is_number(array.type):
                found, empty = numbers(array, name)
                values.setdefault(name, []).append(found if empty is None else np.where(empty, np.nan, found))
                continue
            own, words, index = known[name], [None], np.zeros(len(array), dtype=np.int64)
            if not pa.types.is_null(array.type):
                encoded = array.dictionary_encode("encode")
                words = text(encoded.dictionary, name).to_pylist()
                index = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            here = np.array([own.setdefault(word, len(own)) for word in words], dtype=np.int64)
            codes.setdefault(name, []).append(np.asarray(here[index]))
    ranked = {name: _numbered(np.concatenate(parts)) for name, parts in values.items()}  # an empty cell comes last
    return {name: np.concatenate(parts) for name, parts in codes.items()} | ranked, ranked.keys()


def _numbered(values: npt.NDArray[Any]) -> Codes:
    """The rank of each among those that occur."""
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64).reshape(-1)


SMALL = (2, 3, 5, 10)
"""Sizes of crowds below which the share of rows is told."""
MOST_SENSITIVE = 20


def uniqueness(case: Case) -> dict[str, Any] | None:
    """k-anonymity, uniques, l-diversity and t-closeness; None where no quasi-identifier was named."""
    (quasi, sensitive), population = crowd_columns(case), case.options.population
    if not quasi:
        return None
    found: dict[str, Any] = {"quasi_identifiers": list(quasi)}
    if isinstance(case.original, PicksRows):
        return {**found, "not_applicable": "crowds are not counted with --engine spark"}
    released = as_released(case)
    if released is None:
        return {**found, "not_applicable": "the release mixes columns by a secret key"}
    known: dict[str, Numbers] = {name: {} for name in (*quasi, *sensitive)}
    after = read_cells(released, known, quasi)
    asked, left_out = quasi, [name for name in quasi if name not in after[0]]
    quasi = tuple(name for name in quasi if name in after[0])
    if not quasi:
        raise UsageError("The release has none of the columns that --quasi-identifiers names.")
    before = read_cells(case.original.blocks(), known, asked)
    people = len(before[0][quasi[0]])
    if population is not None and population < people:
        raise UsageError(
            f"--population {population} is less than the {people} people of the original. "
            "Give the number of all people that they are a sample of."
        )
    # Who is alone in the original, and whose very cells stand alone in the release too.
    both = crowds.crowd_numbers([np.concatenate([before[0][name], after[0][name]]) for name in quasi])
    alone = [np.bincount(part, minlength=int(both.max()) + 1) == 1 for part in (both[:people], both[people:])]
    return {
        "quasi_identifiers": list(quasi),
        "left_out": left_out,
        "population": population,
        "c": crowds.RECURSIVE_C,
        "release": _told(after, quasi, sensitive, population),
        "original": _told(before, quasi, sensitive, population),
        "still_unique": float((alone[0] & alone[1]).sum() / people),
    }


def as_released(case: Case) -> Iterable[pa.RecordBatch | pa.Table] | None:
    """The cells as they were released; of a release with a card, as anybody could map them back."""
    if case.released is not None:
        return case.released()
    restored, label = case.restored(case.whole), case.encoding.schema.label
    if restored is None:
        return None
    table = case.encoding.decode(restored)
    if label is not None and case.whole_y is not None:
        names = pa.array(label.categories, pa.string())
        table = table.append_column(label.name, names.take(pa.array(case.whole_y)))
    return [table]


def crowd_columns(case: Case) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Quasi-identifiers as asked, else the columns that the schema marks; and sensitive ones as asked, else the label,
    else every other column."""
    schema, options = case.encoding.schema, case.options
    quasi = tuple(column.name for column in schema.columns if column.quasi_identifier)
    if options.quasi_identifiers:
        quasi = tuple(dict.fromkeys(options.quasi_identifiers))
        for name in (*quasi, *(options.sensitive or ())):
            if name not in schema:
                raise UsageError(
                    f"No column {name!r} can be audited, which --quasi-identifiers or --sensitive names."
                    f"{nearest(name, schema.names)}"
                )
    if options.sensitive:
        return quasi, tuple(options.sensitive)
    if schema.label is not None and schema.label.name not in quasi:
        return quasi, (schema.label.name,)
    return quasi, tuple(column.name for column in schema.private if column.name not in quasi)[:MOST_SENSITIVE]


def _told(cells: Cells, quasi: tuple[str, ...], sensitive: tuple[str, ...], population: int | None) -> dict[str, Any]:
    codes, ordered = cells
    columns = [_numbered(codes[name]) for name in quasi]
    crowd = crowds.crowd_numbers(columns)
    sizes, shown = crowds.crowd_sizes(crowd), []
    of_row = sizes[crowd]
    for name in (name for name in sensitive if name in codes):
        ranks = _numbered(codes[name])
        far, diverse = crowds.closeness(crowd, ranks, ordered=name in ordered), crowds.diversity(crowd, ranks)._asdict()
        shown.append({"name": name, "ordered": name in ordered, **diverse, "t": far.largest, "t_mean": far.mean})
    by_size = by_model = None
    if population is not None and population >= len(crowd):
        by_size, by_model = crowds.pitman(sizes, population), crowds.log_linear(columns, population)
    return {
        "rows": len(crowd),
        "crowds": len(sizes),
        "k": int(sizes.min()),
        "unique": float((of_row == 1).mean()),
        "below": {str(size): float((of_row < size).mean()) for size in SMALL},
        "sensitive": shown,
        "pitman": by_size and by_size._asdict(),
        "log_linear": by_model and by_model._asdict(),
    }
