"""What was measured of a table, with which noise, before made-up rows were drawn from the answers.

Every figure of a `central-dp` claim follows from this list. A measurement is a set of counts (one record changes one
count of each by 1) or a choice by scores (one record changes every score by at most 1).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Annotated, Any, Literal, cast, get_args

import numpy as np

from sfumato.channels.additive import Additive, draw_laplace, fineness
from sfumato.channels.base import A_COUNT, EXACT_COUNTS, EXACT_PATHS, FLOAT_NOISE, NO_NOISE, Channel, Epsilons
from sfumato.channels.exact import apart
from sfumato.channels.maps import NOTHING, Identity, Map, carried_groups, places, read_map
from sfumato.channels.response import Bit
from sfumato.channels.sampled import check_counts, choose, draw_chosen, rates_fit
from sfumato.channels.staged import Staged
from sfumato.core.accepted import Positive, Text, Whole
from sfumato.core.array_types import Flags, Matrix
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.records import Record
from sfumato.noise import Operator
from sfumato.table import Encoding, Group

Way = Literal["gaussian", "laplace", "choice"]

COUNTS = frozenset({"rows", "columns", "columns again", "pairs", "pairs again", "triples"})
"""What is known to be tables of counts, in which one record stands in one cell."""


@dataclass(frozen=True)
class Measurement(Record):
    """`times` measurements of one kind. `strength`: variance of discrete Gaussian noise, scale of discrete Laplace
    noise, or epsilon of an exponential mechanism. Measurements of disjoint parts of the table count once."""

    what: Annotated[str, Text(80)]
    way: Way
    times: Annotated[int, Whole(0, 1 << 62)]
    strength: Annotated[float, Positive(math.inf)]

    def __post_init__(self) -> None:
        if self.way not in get_args(Way) or self.times < 0 or not 0 < self.strength < math.inf:
            raise ValueError("measurement")

    @property
    def rho(self) -> float:
        """Of concentrated differential privacy, for one record that is added or removed."""
        if self.way == "gaussian":
            return self.times / (2.0 * self.strength)
        one = self.strength if self.way == "choice" else 1.0 / self.strength
        return self.times * one**2 / (8.0 if self.way == "choice" else 2.0)

    @property
    def rho_replaced(self) -> float:
        """The same for one record that is replaced by any other.

        Of each table of counts two cells change by 1: the squared distance is 2, where one record that comes or goes
        makes it 1. Scores, and whatever else is measured, change by 2: a squared distance of 4.
        """
        counts = self.way == "gaussian" and self.what in COUNTS
        return self.rho * (2.0 if counts else 4.0)

    @property
    def epsilon(self) -> float:
        """Of pure differential privacy."""
        if self.way == "gaussian":
            return math.inf if self.times else 0.0
        return self.times * (self.strength if self.way == "choice" else 1.0 / self.strength)


# How a release came about, as one object: a map and its channels.
#
# The mechanism makes it, the card holds it, and everybody else reads it: the guarantee, the adversaries,
# reconstruction, the learners, the coordinator and the report.
Rows = Literal["perturbed", "drawn", "nobody"]
"""Each released row is one person's ("perturbed"), was drawn from some person's ("drawn"), or is made up."""


@dataclass(frozen=True)
class Recipe:
    """`channels` in the order of the release matrix. `by_class`: a class's own channels, where they differ by class;
    `channels` are then those that blur most. `reports`: of the channels that leave cells out, every row reports exactly
    so many, each with its own rate, whatever the row holds. `measured`: of made-up rows, what was
    measured of the table; `delta` belongs to it, and `model` is the digest of what rows are drawn from."""

    encoding: Encoding
    map: Map
    channels: tuple[Channel, ...]
    rows: Rows = "perturbed"
    by_class: Mapping[int, tuple[Channel, ...]] = field(default_factory=dict)
    reports: int | None = None
    measured: tuple[Measurement, ...] = ()
    delta: float = 0.0
    model: str | None = None

    @property
    def width(self) -> int:
        """Columns of the release matrix."""
        return sum(channel.width for channel in self.channels)

    @property
    def is_columnwise(self) -> bool:
        """Whether the release keeps the source's columns."""
        return isinstance(self.map, Identity)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """The columns of the release matrix that each channel fills."""
        return tuple(places(self.channels))

    @property
    def path(self) -> str:
        """How noise is drawn, by the weakest of all channels."""
        if self.measured:
            return EXACT_COUNTS
        paths = {channel.path for channel in self.channels}
        return next(path for path in (FLOAT_NOISE, *EXACT_PATHS, NO_NOISE) if path in paths)

    @property
    def rounding(self) -> float:
        """What rounding to grids can add to an epsilon that was computed before rounding."""
        return math.fsum(channel.rounding for channel in self.channels)

    def of_class(self, code: int) -> tuple[Channel, ...]:
        """The channels of rows of one class."""
        return self.by_class.get(code, self.channels)

    def of_columns(self) -> list[tuple[Channel, list[Group]]]:
        """Of a release that keeps the source's columns: every channel with the source columns that it carries."""
        return carried_groups(self.channels, self.encoding)

    @cached_property
    def left_out(self) -> frozenset[str]:
        """Names of the written columns that not every row reports."""
        names, told = self.names_of_slots(), zip(self.places, self.channels, strict=True)
        return frozenset(name for place, one in told if one.leaves_out for name in names[place])

    def check_writable(self) -> None:
        """Refuse a table in which an empty cell would mean two things: that it is missing, or that it is left out."""
        if not self.is_columnwise:
            return
        told = [(one, group.column) for one, groups in self.of_columns() for group in groups if one.leaves_out]
        if unclear := sorted(column.name for one, column in told if column.missing and not one.hides_missing):
            raise UsageError(
                f"Cells of column {unclear[0]!r} can be missing, so they cannot also be left out: an empty cell of "
                "the release would mean two things. Make the column categorical with a category for it, or fill it in."
            )

    def check_gaps(self, Z: Matrix) -> None:
        """Refuse released rows with cells that are empty without a word, empty in part, or infinite.

        Whoever reads such rows would have to invent a value.
        """
        for place, channel in zip(self.places, self.channels, strict=True):
            cells = Z[:, place]
            odd = ~np.isfinite(cells)
            if not odd.any():
                continue
            gap = np.isnan(cells)
            whole = (gap == odd).all() and (gap.all(axis=1) == gap.any(axis=1)).all()
            if not (channel.leaves_out and whole):
                name = self.names_of_slots()[place.start]
                raise TableError(
                    f"The release has cells without a value in its column {name!r}, and its "
                    "channels do not say that cells can be left out there. They cannot be trusted, so the rows are "
                    "refused. A mechanism that leaves cells out says so with a Sampled channel."
                )
        self.check_reports(Z)

    def check_reports(self, Z: Matrix) -> None:
        """Refuse rows that report more or fewer columns than they should."""
        if self.reports is not None:
            check_counts(self.places, self.channels, self.reports, Z)
        self.map.check_rows(self.channels, Z)

    def knowing(self, operator: Operator) -> Recipe:
        """The same with the owner's own operator put back, which a card cannot state."""
        return replace(self, channels=tuple(channel.knowing(operator) for channel in self.channels))

    # What happens to rows

    def perturb(self, X: Matrix, rng: np.random.Generator) -> Matrix:
        """Release encoded rows: the map, then every channel."""
        if (released := self.map.perturb(self.channels, X, rng)) is not None:
            return released
        E = self.map.apply(X)
        if self.reports is None:
            return draw(self.channels, E, rng)
        rates = [channel.reported for channel in self.channels if channel.leaves_out]
        return draw_chosen(self.channels, E, choose(len(E), rates, self.reports, rng), rng)

    # What can be said of them

    def log_likelihood(self, Z: Matrix, X: Matrix) -> Matrix:
        """log f(z_i | x_j) of released rows and encoded candidates, len(Z) x len(X), up to a constant per row."""
        E = self.map.apply(X)
        total, channels = np.zeros((len(Z), len(X))), self.channels
        if (shared := apart(channels)) is not None:
            Z, E, channels = shared.white(Z), shared.white(E), shared.channels
        for place, channel in zip(self.places, channels, strict=True):
            total += channel.log_likelihood(Z[:, place], E[:, place])
        return total

    def epsilons(self) -> Epsilons:
        """What map and channels prove for one record; infinite where nothing is, as where noise depends on a class."""
        if self.rows != "perturbed" or self.by_class:
            return NOTHING
        found = self.map.epsilons(self.channels, self.encoding)
        if self.reports is None or not self.is_columnwise:
            return found
        # Of the columns that every row reports, and of those among the others that tell most. Which columns a row
        # reports says nothing of it. Given the set, its columns are independent.
        told = [(one.leaves_out, one.epsilons(groups).record) for one, groups in self.of_columns()]
        chosen = heapq.nlargest(self.reports, (epsilon for sampled, epsilon in told if sampled))
        reported = math.fsum([*(epsilon for sampled, epsilon in told if not sampled), *chosen])
        return found._replace(record=min(found.record, reported))

    # On the card

    def names(self) -> list[str]:
        """Names of the written columns: the source's own, or c000, c001, ..."""
        if self.is_columnwise:
            return [group.column.name for group in self.encoding.groups]
        return [f"c{place:03d}" for place in range(self.width)]

    def names_of_slots(self) -> list[str]:
        """Of every column of the release matrix the written column behind it."""
        if not self.is_columnwise:
            return self.names()
        return [group.column.name for group in self.encoding.groups for _ in range(group.width)]

    def to_dict(self) -> dict[str, Any]:
        """`channels` and `rows` of a card; its `transform` is the map's own."""
        stated = {str(code): [one.to_dict() for one in channels] for code, channels in self.by_class.items()}
        found: dict[str, Any] = {"rows": self.rows, "channels": [channel.to_dict() for channel in self.channels]}
        if self.reports is not None:
            found["reports"] = self.reports
        if stated:
            found["channels_by_class"] = stated
        if self.measured:
            found |= {"measured": [one.to_dict() for one in self.measured], "delta": self.delta}
            if self.model is not None:
                found["model"] = self.model
        return found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], transform: Mapping[str, Any], encoding: Encoding) -> Recipe:
        """The inverse of `to_dict`."""
        channels = tuple(map(Channel.from_dict, found["channels"]))
        width = sum(channel.width for channel in channels)
        try:
            stated = found.get("channels_by_class", {}).items()
            by_class = {int(code): tuple(map(Channel.from_dict, some)) for code, some in stated}
        except ValueError:
            raise CardError("The card names a class without a code: it was edited or is damaged.") from None
        if any(places(some) != places(channels) for some in by_class.values()):
            raise CardError("The card's classes have different columns: it was edited or is damaged.")
        reports: int | None = A_COUNT.read(found["reports"]) if "reports" in found else None
        if reports is not None:
            open_to = [one.reported for one in channels if one.leaves_out]
            if by_class or reports >= len(open_to) or not rates_fit(open_to, reports):
                raise CardError("How many columns a row of the card reports does not fit: it was edited or is damaged.")
        staged = transform["kind"] == Staged.kind
        made_of = Staged.from_dict(transform, encoding, channels) if staged else read_map(transform, encoding, width)
        measured, delta, model = _measured(found), float(found.get("delta", 0.0)), found.get("model")
        made = cls(encoding, made_of, channels, found["rows"], by_class, reports, measured, delta, model)
        made.check_fits()
        return made

    def check_fits(self) -> None:
        """Refuse channels that share noise as none can, or that do not fit the source's columns."""
        for some in (self.channels, *self.by_class.values()):
            apart(some)
            if self.is_columnwise:
                carried_groups(some, self.encoding)
        try:
            self.check_writable()
        except UsageError as error:
            raise CardError(f"{error} The card was edited or is damaged.") from None


def draw(channels: Sequence[Channel], E: Matrix, rng: np.random.Generator) -> Matrix:
    """Send rows through their channels. Laplace noise of neighbouring columns is drawn together, which is quicker."""
    if (shared := apart(channels)) is not None:
        return shared.back(draw(shared.channels, shared.white(E), rng))
    out = np.empty((len(E), sum(channel.width for channel in channels)), order="F")
    pairs = zip(places(channels), channels, strict=True)
    for together, run in groupby(pairs, key=lambda pair: fineness(pair[1])):
        some = list(run)
        if together is None:
            for place, channel in some:
                out[:, place] = channel.draw(np.array(E[:, place]), rng)
        else:
            columns = slice(some[0][0].start, some[-1][0].stop)
            out[:, columns] = E[:, columns]
            draw_laplace(cast(list[Additive], [channel for _, channel in some]), out[:, columns], rng)
    return out


def _measured(found: Mapping[str, Any]) -> tuple[Measurement, ...]:
    try:
        measured = tuple(Measurement.from_dict(one) for one in found.get("measured", ()))
    except (LookupError, TypeError, ValueError):
        raise CardError("The card states a measurement that is impossible: it was edited or is damaged.") from None
    if bool(measured) != (found["rows"] == "nobody"):
        raise CardError("The card's measurements do not fit its rows: it was edited or is damaged.")
    return measured


# How far out a released cell can lie: what the stated channels could have made of any value of the domain.
#
# What lies further out than that was not made by the mechanism, or by a chance of at most `FALSE_ALARMS` for all cells
# of an honest release together: each of its n noised cells may use up ``FALSE_ALARMS / n`` of it, half on each side.
# Bounded noise (uniform, Epanechnikov) gives a hard interval, which an honest cell never leaves; so do mechanisms
# without noise.
#
# Where a law's tail reaches too far to tell honest cells from forged ones (Student's t), cells are not refused. Whoever
# learns from such a release takes them at the end of the interval, as robust statistics does.
FALSE_ALARMS = 1e-9
"""Honest releases in which some cell is called impossible, at most."""
ROUNDING = 1e-6
"""What grids and doubles add to an interval, as a share of its length."""


@dataclass(frozen=True)
class Reach:
    """Lowest and highest possible value of every column of the release matrix, and the written column behind it.

    `checked` is False where a law's tail gives no useful bound; `left_out`: cells may be not reported (NaN); `bits`:
    cells are 0 or 1 and nothing between.
    """

    low: Matrix
    high: Matrix
    names: tuple[str, ...]
    checked: Flags
    left_out: Flags
    bits: bool = False

    @classmethod
    def of(cls, recipe: Recipe, rows: int, false_alarms: float = FALSE_ALARMS) -> Reach:
        """From the recipe alone; what the release was made from is not needed."""
        noised = sum(not channel.is_exact for channel in recipe.channels)
        chance = false_alarms / max(1, rows * noised)
        low, high = recipe.map.ranges(recipe.encoding, false_alarms)
        ends = np.column_stack([np.zeros(recipe.width), np.ones(recipe.width)])  # categories and "missing"
        checked, left_out = np.ones(recipe.width, dtype=bool), np.zeros(recipe.width, dtype=bool)
        for place, channel in zip(recipe.places, recipe.channels, strict=True):
            left_out[place] = channel.leaves_out
            for column in range(place.start, place.start + channel.numbers):
                found = channel.reach(float(low[column]), float(high[column]), chance)
                ends[column], checked[column] = found[:2], found.bounded
        if recipe.is_columnwise:
            for group in recipe.encoding.groups:
                ends[group.start] = _rounded(ends[group.start], group)
        else:
            ends += np.outer(ROUNDING * (ends[:, 1] - ends[:, 0] + 1.0), [-1.0, 1.0])
        bits = all(isinstance(channel, Bit) for channel in recipe.channels)
        return cls(ends[:, 0], ends[:, 1], tuple(recipe.names_of_slots()), checked, left_out, bits)

    def outside(self, matrix: Matrix) -> list[tuple[int, str]]:
        """Row numbers, from 0, and columns of cells that this noise cannot have made."""
        far = ~((matrix >= self.low) & (matrix <= self.high)) & self.checked & ~(np.isnan(matrix) & self.left_out)
        if self.bits:
            far |= (matrix != 0.0) & (matrix != 1.0)
        return [(int(row), self.names[column]) for row, column in np.argwhere(far)]


def _rounded(span: Matrix, group: Group) -> tuple[float, float]:
    """Room for grids, doubles, and whole numbers that were rounded to."""
    if group.is_onehot or group.is_constant or not math.isfinite(span[1] - span[0]):
        return float(span[0]), float(span[1])
    low, high = (float(bound) for bound in group.column.bounds)
    doubles = 8 * float(np.spacing(max(abs(low), abs(high)))) + (0.0 if group.column.kind == "numeric" else 0.5)
    slack = ROUNDING * (span[1] - span[0]) + doubles / (high - low)
    return float(span[0] - slack), float(span[1] + slack)
