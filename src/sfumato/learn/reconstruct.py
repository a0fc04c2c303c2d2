"""Folders of releases in, the distribution of columns out: density.parquet, density.csv, density.svg of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.attacks.metrics.information import information_loss
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.files import new_folder, write_whole
from sfumato.core.progress import Progress, silent
from sfumato.learn.reconstruct_together import JOINT_BINS, along_from, joint_from
from sfumato.learn.train import as_numbers, check_apart, reconstruct_from
from sfumato.reconstruction import Density, JointDensity, Shares
from sfumato.reconstruction.described import check_published, describe
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.projection import Projection
from sfumato.reconstruction.reconstruct import make_method
from sfumato.release.release import Release
from sfumato.table import open_table, write_table

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
