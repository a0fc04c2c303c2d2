"""Released columns as values, block by block, and the distribution behind one of them; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.array_types import Floats
from sfumato.errors import CardError, UsageError
from sfumato.jobs.release import Release
from sfumato.noise import OperatorNoise
from sfumato.reconstruction import Density, Shares, reconstruct
from sfumato.reconstruction.described import Described, describe
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.noise_strength import NoiseStrength, estimate_common_strength
from sfumato.table.arrays import day_numbers, numbers, plain

BLOCK = 1 << 18


def reconstruct_from(releases: Sequence[Release], column: str, method: Method, **options: Any) -> Density | Shares:
    """One column of releases that are open, in folders or in memory; nothing is written."""
    check_apart(releases)
    values = [_values(release, describe(release.card, column)) for release in releases]
    return reconstruct(values, [release.card for release in releases], column=column, method=method, **options)


def _values(release: Release, one: Described) -> Iterator[Any]:
    """The released column, block by block."""
    return _blocks(release.blocks(one.name, rows=BLOCK), one, release)


def _blocks(batches: Iterator[pa.RecordBatch], one: Described, release: Release) -> Iterator[Any]:
    met = 0
    for batch in batches:
        met += batch.num_rows
        yield batch.column(0).to_pylist() if one.is_categorical else as_numbers(batch.column(0), one)
    if met != release.card.rows:
        raise CardError(f"The card of {release.folder} states {release.card.rows} rows, but the release has {met}.")


def as_numbers(array: Any, one: Described) -> Floats:
    """Cells as raw numbers, empty ones as NaN; dates as days."""
    read = day_numbers if one.kind == "date" else numbers
    found, empty = read(plain(array), one.name)
    return found if empty is None else np.where(empty, np.nan, found)


def strength_of(releases: Sequence[Release], column: str) -> NoiseStrength:
    """What the released values themselves say about the strength of their noise; 1 is what each card states."""
    check_apart(releases)
    parts, described = [], [describe(release.card, column) for release in releases]
    for release, one in zip(releases, described, strict=True):
        if not isinstance(one.noise, OperatorNoise) or one.missing_keep is not None:
            raise UsageError(
                f"The strength of the noise of column {column!r} cannot be estimated: it has other noise too."
            )
        parts.append((np.concatenate(list(_values(release, one))), one.noise))
    support = min(one.low for one in described), max(one.high for one in described)
    return estimate_common_strength(parts, support)


def check_apart(releases: Sequence[Release]) -> None:
    """At least one, and every release once, whichever way it was named."""
    places = {id(one) if one.folder is None else one.folder.resolve() for one in releases}
    if not releases or len(places) < len(releases):
        raise UsageError("Give at least one release, and each of them once: its rows would count twice.")


def blocks_of(release: Release, described: Sequence[Described]) -> Iterator[list[Any]]:
    """The values of several columns, block by block."""
    for batch in release.blocks(*(one.name for one in described), rows=BLOCK):
        yield [
            batch.column(one.name).to_pylist() if one.is_categorical else as_numbers(batch.column(one.name), one)
            for one in described
        ]
