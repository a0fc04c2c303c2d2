"""What released rows say of each column, as likelihoods of the values that can have been true.

A column (or component) has *nodes*: an even grid of numbers, the categories, or a grid and "missing". Of every released
value there is a line of likelihoods, one for each node, read from the channel's own law (`Channel.log_likelihood`). So
Laplace noise is taken as Laplace noise, and randomized answers as what they are. Values are rounded to a twentieth of
the noise first, hence many rows share a line.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy import sparse

from sfumato.channels import Channel, Exact, NotApplicableError, Recipe, apart
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import new_folder, write_whole
from sfumato.guarantee import Card
from sfumato.release.release import Release, Releases, opened
from sfumato.table import Group, write_table

FEWEST_NODES, MOST_NODES = 64, 400
PER_NOISE = 20
"""Released values are told apart to this part of the noise's width."""


@dataclass(frozen=True)
class Part:
    """Released rows that went one way: all of a release, or one class's where classes have channels of their own."""

    Z: Matrix
    recipe: Recipe
    channels: tuple[Channel, ...]


def parts_of(release: Release) -> list[Part]:
    """A release, class by class where classes have channels of their own."""
    if release.card.post_processing is not None:
        raise CardError(
            f"The release was rounded and clipped ({release.card.post_processing}), so its noise is no longer the one "
            "that was drawn. Release without --like-original."
        )
    recipe, Z = release.card.made_by(), release.Z
    if not recipe.by_class:
        return [Part(Z, recipe, recipe.channels)]
    assert release.y is not None  # channels differ by class only where there is a label
    return [Part(Z[release.y == code], recipe, recipe.of_class(code)) for code in np.unique(release.y).tolist()]


def file_order(releases: Sequence[Release]) -> Codes:
    """For every row of the parts, its place in the files one after the other."""
    found, first = [], 0
    for release in releases:
        by_class = release.card.made_by().by_class
        rows = np.argsort(np.asarray(release.y), kind="stable") if by_class else np.arange(len(release))
        found.append(rows + first)
        first += len(release)
    return np.concatenate(found)


@dataclass(frozen=True)
class Piece:
    """One source column, or one component, with the channel that it went through."""

    name: str
    place: slice
    channel: Channel
    group: Group | None

    @property
    def is_category(self) -> bool:
        return self.group is not None and self.group.is_onehot


@dataclass(frozen=True, eq=False)
class Seen:
    """`nodes`: m x w values that can be true, the first `numbers` of them an even grid. `lines`: u x m likelihoods up
    to a factor for each line; `codes`: which line is each row's, -1 where it does not report the column."""

    name: str
    place: slice
    nodes: Matrix
    numbers: int
    lines: Matrix
    codes: Codes

    @property
    def grid(self) -> Floats:
        return np.asarray(self.nodes[: self.numbers, 0])

    @property
    def step(self) -> float:
        return float(self.grid[1] - self.grid[0])

    @property
    def reported(self) -> Flags:
        return np.asarray(self.codes >= 0)

    def counts(self, weights: Matrix) -> Matrix:
        """Sums of the rows' weights (n x k) over the rows that share a line (u x k)."""
        return np.asarray(self._rows_of_lines @ weights)

    @cached_property
    def _rows_of_lines(self) -> sparse.csr_matrix:
        """Made once: each step of a fit asks for it."""
        rows = np.flatnonzero(self.reported)
        return sparse.csr_matrix((np.ones(len(rows)), (self.codes[rows], rows)), (len(self.lines), len(self.codes)))

    def take(self, rows: Codes) -> Seen:
        return Seen(self.name, self.place, self.nodes, self.numbers, self.lines, self.codes[rows])


def pieces_of(recipe: Recipe, channels: Sequence[Channel]) -> list[Piece]:
    """Column by column; refused where the law of one is not stated, or where it holds no value of anybody's."""
    where = [one for one in channels for _ in range(one.width)]
    if not all(channel.is_stated for channel in where):
        raise CardError(
            "Not applicable: the law of a released column is not stated (it was rounded, clipped or redrawn "
            "afterwards), so its noise cannot be taken out. Release without --like-original, or with a method "
            "that states its noise."
        )
    if recipe.is_columnwise:
        found = []
        for group in recipe.encoding.groups:
            channel = where[group.start]
            own = channel if channel.width == group.width else Exact(group.width)
            if own is not channel and not channel.is_exact:
                raise CardError(f"Not applicable: column {group.column.name!r} was blurred together with others.")
            found.append(Piece(group.column.name, group.slice, own, group))
        return found
    if not all(channel.numbers for channel in channels):
        raise CardError(
            "Not applicable: the release holds bits of a guided survey, and each depends on all answers, so no column "
            "stands alone. `sfumato mine rules` estimates shares of answers, and learners of bits predict the class."
        )
    names = recipe.names()
    return [
        Piece(names[slot], slice(slot, slot + 1), one if one.width == 1 else Exact(), None)
        for slot, one in enumerate(where)
    ]


def see(parts: Sequence[Part]) -> list[Seen]:
    """All rows of all parts, one after the other. Constant columns tell nothing and are left out."""
    split = [pieces_of(part.recipe, part.channels) for part in parts]
    if any(apart(part.channels) is not None for part in parts):
        raise CardError(
            "Not applicable: columns of the release share their noise (a bandwidth that is a matrix), and clusters are "
            "sought column by column. Use a release with independent noise."
        )
    found = []
    for column in zip(*split, strict=True):
        group = column[0].group
        if group is not None and not group.is_onehot and group.is_constant:
            continue
        cells = [part.Z[:, piece.place] for part, piece in zip(parts, column, strict=True)]
        nodes, numbers, fineness = _nodes(column, cells, parts[0].recipe)
        lines, codes, first = [], [], 0
        for piece, z in zip(column, cells, strict=True):
            own, mine = _lines(piece, z, nodes, numbers, fineness)
            codes.append(np.where(mine >= 0, mine + first, -1))
            lines.append(own)
            first += len(own)
        name, place = column[0].name, column[0].place
        found.append(Seen(name, place, nodes, numbers, np.concatenate(lines), np.concatenate(codes)))
    if not found:
        raise UsageError("All columns of the release are constant: there is nothing to look for.")
    return found


def _nodes(column: Sequence[Piece], cells: Sequence[Matrix], recipe: Recipe) -> tuple[Matrix, int, float]:
    """Nodes, how many are numbers, and to what released numbers are rounded."""
    piece = column[0]
    if piece.is_category:
        return np.eye(piece.place.stop - piece.place.start), 0, 0.0
    ends = recipe.map.ranges(recipe.encoding, 1e-6)
    low, high = float(ends[0][piece.place.start]), float(ends[1][piece.place.start])
    if all(one.channel.adds for one in column):  # noise goes both ways: what was true lies inside what was released
        shown = np.concatenate([z[:, 0] for z in cells])
        if np.isfinite(shown).any():
            low, high = max(low, float(np.nanmin(shown))), min(high, float(np.nanmax(shown)))
    if not low < high:
        low, high = low - 0.5, low + 0.5
    widths = [noise_width(one.channel, low, high) for one in column]
    least = min((width for width in widths if width > 0), default=0.0)
    count = MOST_NODES if least == 0 else math.ceil(2 * (high - low) / least)
    count = min(max(count, FEWEST_NODES), MOST_NODES)
    grid = np.linspace(low, high, count)[:, None]
    fineness = max(least / PER_NOISE, float(grid[1, 0] - grid[0, 0]) / 8)
    group = piece.group
    if group is None or not group.has_indicator:
        return grid, count, fineness
    told = np.column_stack([grid, np.zeros(count)])
    return np.vstack([told, group.not_told[None]]), count, fineness


def noise_width(channel: Channel, low: float, high: float) -> float:
    """About the standard deviation of the noise on numbers that are spread over [low, high]; 0 without noise."""
    if channel.is_exact:
        return 0.0
    spread = np.zeros((64, channel.width))
    spread[:, 0] = np.linspace(low, high, 64)
    try:
        left = float(channel.line(spread).covariance[0, 0])
    except NotApplicableError:
        left = math.inf
    width = math.sqrt(left) if math.isfinite(left) else channel.central(0.68)
    return width if width > 0 else (high - low) / MOST_NODES


def _lines(piece: Piece, z: Matrix, nodes: Matrix, numbers: int, fineness: float) -> tuple[Matrix, Codes]:
    reported = ~np.isnan(z).any(axis=1)
    shown = z[reported]
    if numbers:
        shown = shown.copy()
        shown[:, 0] = np.rint(shown[:, 0] / fineness) * fineness
    values, back = np.unique(shown, axis=0, return_inverse=True)
    codes = np.full(len(z), -1, dtype=np.int64)
    codes[reported] = np.asarray(back).ravel()
    if piece.channel.is_exact and numbers:  # the two nodes beside a number, the nearer one more
        grid = nodes[:numbers, 0]
        place = np.clip((values[:, 0] - grid[0]) / (grid[1] - grid[0]), 0.0, numbers - 1.0)
        below = np.minimum(place.astype(np.int64), numbers - 2)
        rows, found = np.arange(len(values)), np.zeros((len(values), len(nodes)))
        found[rows, below], found[rows, below + 1] = below + 1 - place, place - below
        if len(nodes) > numbers:
            found[values[:, 1] > 0.5] = np.eye(len(nodes))[numbers]
        return found, codes
    try:
        log = piece.channel.log_likelihood(values, nodes)
    except NotApplicableError as error:
        raise CardError(f"Not applicable: column {piece.name!r}: {error}.") from None
    most = log.max(axis=1, keepdims=True, initial=-math.inf)
    impossible = ~np.isfinite(most[:, 0])
    found = np.exp(log - np.where(np.isfinite(most), most, 0.0))
    if impossible.any():  # bounded noise, and rounding took it just outside: the nearest value
        distance = ((values[impossible][:, None, :] - nodes[None]) ** 2).sum(axis=2)
        found[impossible] = np.eye(len(nodes))[distance.argmin(axis=1)]
    return found, codes


# What all jobs that learn from releases begin and end with: releases whose rows are taken together, and findings.


def pooled(given: Releases, *, public: bool = False) -> list[Release]:
    """The releases of a job that takes their rows together: each of them once, and all of one space."""
    releases = opened(given, public=public)
    check_apart(releases)
    names = [str(one.folder or f"release {place}") for place, one in enumerate(releases, start=1)]
    check_one_space([one.card for one in releases], names)
    return releases


def check_apart(releases: Sequence[Release]) -> None:
    """At least one, and every release once, whichever way it was named."""
    places = {id(one) if one.folder is None else one.folder.resolve() for one in releases}
    if not releases or len(places) < len(releases):
        raise UsageError("Give at least one release, and each of them once: its rows would count twice.")


def check_one_space(cards: Sequence[Card], names: Sequence[str]) -> None:
    """Releases of different spaces mean different numbers, and are never trained on together."""
    for card, name in zip(cards, names, strict=True):
        if card.space != cards[0].space:
            raise CardError(
                f"{name} and {names[0]} do not fit together (columns, bounds, basis or key differ), so they "
                "cannot be pooled. Release them with the same --schema and the same basis or --key."
            )


class Mined(ABC):
    """Findings, with all that is to be known of them in `about`."""

    name: ClassVar[str]
    """Of the file that holds `about`."""
    about: dict[str, Any]

    @property
    def warnings(self) -> list[str]:
        """What not to read into it."""
        return list(self.about["warnings"])

    @abstractmethod
    def files(self) -> Mapping[str, pa.Table]:
        """The tables to write, by the names of their files."""

    def save(self, out: Path | str, *, force: bool = False) -> Path:
        """Write the tables and `about`, as JSON, into a folder. Figures of private rows are the owner's alone."""
        with new_folder(Path(out), force=force) as folder:
            for name, table in self.files().items():
                write_table(table, folder / name)
            write_whole(folder / f"{self.name}.json", json.dumps(self.about, indent=1), private="lost" in self.about)
        return Path(out)
