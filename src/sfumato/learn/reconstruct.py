"""The distribution of released columns behind their noise: one by one, two together, or a weighted sum; and its files.

Released columns are read block by block: density.parquet, density.csv and density.svg of each are what is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.metrics.information import information_loss
from sfumato.channels import Mixed
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, SchemaError, UsageError
from sfumato.core.files import new_folder, write_whole
from sfumato.core.progress import Progress, silent
from sfumato.learn.releases import check_apart
from sfumato.noise import OperatorNoise
from sfumato.reconstruction import Density, JointDensity, Shares, reconstruct
from sfumato.reconstruction.described import Described, check_published, describe
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.noise_strength import NoiseStrength, estimate_common_strength
from sfumato.reconstruction.pair import Pairs, Side, axis_of, product_of, reconstruct_pairs
from sfumato.reconstruction.projection import Projection
from sfumato.reconstruction.reconstruct import check_same_column, make_method
from sfumato.release.release import Release
from sfumato.table import open_table, write_table
from sfumato.table.arrays import day_numbers, numbers, plain

JOINT_BINS = 25
"""Cells of each of two columns: 75 would be 5,625 pairs, of which most stay empty."""
BLOCK = 1 << 18


def reconstruct_from(releases: Sequence[Release], column: str, method: Method, **options: Any) -> Density | Shares:
    """One column of releases that are open, in folders or in memory; nothing is written."""
    check_apart(releases)
    values = [_values(release, describe(release.card, column)) for release in releases]
    return reconstruct(values, [release.card for release in releases], column=column, method=method, **options)


def blocks_of(release: Release, described: Sequence[Described]) -> Iterator[list[Any]]:
    """The released values of some columns, block by block."""
    met = 0
    for batch in release.blocks(*(one.name for one in described), rows=BLOCK):
        met += batch.num_rows
        yield [
            batch.column(one.name).to_pylist() if one.is_categorical else as_numbers(batch.column(one.name), one)
            for one in described
        ]
    if met != release.card.rows:
        raise CardError(f"The card of {release.folder} states {release.card.rows} rows, but the release has {met}.")


def _values(release: Release, one: Described) -> Iterator[Any]:
    """The same of one column."""
    return (values for (values,) in blocks_of(release, [one]))


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


# Two columns together [density-reconstruction, 3.3], and weighted sums.


def joint_from(
    releases: Sequence[Release],
    columns: tuple[str, str],
    method: Method,
    *,
    bins: int = JOINT_BINS,
    independent: bool = False,
    seed: int = 0,
) -> JointDensity:
    """How two columns are spread together; `independent`: as published, the product of both."""
    check_apart(releases)
    first, second = columns
    if first == second:
        raise UsageError(f"A joint density needs two columns, and {first!r} is one.")
    if not all(release.card.is_columnwise or release.card.made_by().map.affine() is not None for release in releases):
        raise CardError("The map of the release is a secret key, so the ranges of its columns are not known.")
    described = [[describe(release.card, column) for release in releases] for column in columns]
    for one in described:
        check_same_column(one)
    _check_independent(releases, columns)
    axes = axis_of(described[0], bins), axis_of(described[1], bins)
    marginals = [reconstruct_from(releases, column, method, resamples=0, atoms=False, seed=seed) for column in columns]
    pair = marginals[0], marginals[1]
    if independent:
        about = {"method": "product of the marginals"}
        return JointDensity(axes, product_of(axes, pair), sum(release.card.rows for release in releases), about)
    parts = []
    for release, one, other in zip(releases, *described, strict=True):
        blocks = ((first, second) for first, second in blocks_of(release, [one, other]))
        parts.append(Pairs.of(blocks, (Side.of(one, axes[0]), Side.of(other, axes[1]))))
    return reconstruct_pairs(parts, axes, pair)


def _check_independent(releases: Sequence[Release], columns: tuple[str, str]) -> None:
    for recipe in (release.card.made_by() for release in releases):
        places = [recipe.names().index(column) for column in columns]
        if all(isinstance(recipe.channels[place], Mixed) for place in places):
            raise CardError(
                f"Columns {columns[0]!r} and {columns[1]!r} share their noise (a bandwidth that is a matrix), and "
                "joint densities need independent noise. Reconstruct them one by one, or a sum of them (--along)."
            )


def along_from(releases: Sequence[Release], expression: str, method: Method, **options: Any) -> Density:
    """The density of a weighted sum of columns, such as ``a - 2 * b``."""
    check_apart(releases)
    projection = Projection.read(expression, releases[0].card.made_by().names())
    told = [projection.noise(release.card) for release in releases]
    low, high = min(one[1] for one in told), max(one[2] for one in told)
    values = [_sums(release, projection) for release in releases]
    options = {"support": (low, high), **options}
    found = reconstruct(values, [one[0] for one in told], column=projection.title, method=method, **options)
    assert isinstance(found, Density)
    return found


def _sums(release: Release, projection: Projection) -> Iterator[Floats]:
    described = [describe(release.card, name) for name in projection.weights]
    for block in blocks_of(release, described):
        yield projection.values(dict(zip(projection.weights, block, strict=True)))


# As files.


_LONGEST_NAME = 80
Found = Density | Shares | JointDensity


@dataclass(frozen=True)
class Reconstructed:
    """The distribution, the files it was written to, and (for the owner) how far it is from the original."""

    found: Found
    files: tuple[str, ...]
    information_loss: float | None

    def summary(self) -> dict[str, Any]:
        told = {**self.found.summary(), "files": list(self.files)}
        return told if self.information_loss is None else {**told, "information_loss": self.information_loss}


def reconstruct_columns(
    folders: Sequence[Path],
    columns: Sequence[str],
    out: Path,
    *,
    method: str = "parzen-program",
    penalty: float | str | None = None,
    rounds: int | None = None,
    original: Any = None,
    force: bool = False,
    progress: Progress = silent,
    joint: Sequence[tuple[str, str]] = (),
    independent: bool = False,
    along: Sequence[str] = (),
    joint_bins: int = JOINT_BINS,
    published: bool = False,
    **options: Any,
) -> list[Reconstructed]:
    """Reconstruct each of `columns` from the releases in `folders`, each a part with its own noise, read as streams.

    `joint` are pairs of columns (`independent`: as products), `along` weighted sums. `published`: no penalty, no point
    masses, products of pairs, and whatever else the papers have. The files of one wish lie in
    `out`, those of several in a folder for each. All are written, or none.
    """
    names = [*columns, *(f"{one} and {other}" for one, other in joint), *along]
    if not names or len(set(names)) < len(names):
        raise UsageError(
            "Name at least one column (or two with --joint, or a sum with --along), and each of them once."
        )
    releases = [Release.public(folder) for folder in folders]
    check_apart(releases)
    for column in (*columns, *(one for pair in joint for one in pair)):
        one = describe(releases[0].card, column)  # what cannot be had is said before the work, not after
        if published:
            check_published(one)
    chosen = make_method(method, penalty, rounds=rounds, published=published)
    table = _Original(original, releases[0])
    independent = independent or published
    if published:
        options["atoms"] = False
    makers: list[Callable[[], tuple[Found, float | None]]] = [
        *(partial(_column, releases, chosen, table, options, column) for column in columns),
        *(partial(_pair, releases, chosen, table, (pair, joint_bins, independent)) for pair in joint),
        *(partial(_sum, releases, chosen, table, options, expression) for expression in along),
    ]
    places = [""] if len(names) == 1 else folder_names(names)
    done = []
    with new_folder(out, force=force) as folder:  # a place that is taken is found before the work, not after
        for number, (make, place) in enumerate(zip(makers, places, strict=True)):
            found, loss = make()
            done.append(Reconstructed(found, write_found(found, folder, place), loss))
            progress("Columns", number + 1, len(names))
    return done


def _column(
    releases: Sequence[Release], method: Method, table: _Original, options: dict[str, Any], column: str
) -> tuple[Found, float | None]:
    truth = table.values(column)
    found = reconstruct_from(releases, column, method, **options)
    return found, None if truth is None else information_loss(truth, found)


def _pair(
    releases: Sequence[Release], method: Method, table: _Original, wish: tuple[tuple[str, str], int, bool]
) -> tuple[Found, float | None]:
    pair, bins, independent = wish
    truth = [table.values(column) for column in pair]
    found = joint_from(releases, pair, method, bins=bins, independent=independent)
    return found, None if truth[0] is None else found.information_loss(*truth)


def _sum(
    releases: Sequence[Release], method: Method, table: _Original, options: dict[str, Any], expression: str
) -> tuple[Found, float | None]:
    projection = Projection.read(expression, releases[0].card.made_by().names())
    truth = {name: table.values(name) for name in projection.weights}
    found = along_from(releases, expression, method, **options)
    if any(values is None for values in truth.values()):
        return found, None
    return found, information_loss(projection.values(truth), found)


def folder_names(columns: Sequence[str]) -> list[str]:
    """A folder for each column: its name, made fit for a path, with a number where that is not yet its own."""
    names: list[str] = []
    for column in columns:
        plain_name = re.sub(r"[^\w -]", "_", column).strip()[:_LONGEST_NAME] or "_"
        name, number = plain_name, 1
        while name.casefold() in {taken.casefold() for taken in names}:
            number += 1
            name = f"{plain_name}-{number}"
        names.append(name)
    return names


def write_found(found: Found, folder: Path, place: str) -> tuple[str, ...]:
    """The files of one column in `folder`/`place`; returns them as seen from `folder`."""
    inside = folder / place
    inside.mkdir(exist_ok=True)
    table = found.table()
    write_table(table, inside / "density.parquet")
    write_table(table, inside / "density.csv")
    write_whole(inside / "density.svg", found.plot())
    return tuple(sorted(path.relative_to(folder).as_posix() for path in inside.iterdir()))


@dataclass(frozen=True)
class _Original:
    """The owner's table, where it was given, to compare with."""

    table: Any
    release: Release

    def values(self, column: str) -> Any:
        if self.table is None:
            return None
        one = describe(self.release.card, column)
        if one.name not in open_table(self.table).names:
            raise SchemaError(
                f"The original table has no column {one.name!r}. Only source columns can be compared with an original."
            )
        cells = open_table(self.table, columns=[one.name]).read().column(0)
        return cells.to_pylist() if one.is_categorical or one.kind == "ordinal" else as_numbers(cells, one)
