"""How strong the noise was, estimated together with the density [density-reconstruction, Section 6].

z = Z(e(psi), x; psi) with psi unknown: for every psi the density that explains the released values best is found, and
the likelihood of the values under it is compared. Here psi is the factor by which a noise is stretched. Values alone
often cannot tell: weaker noise with a broader density explains them as well, as long as the density stays within the
known range. A density fitted to the same values would favour weak noise, which lets it follow chance: so it is fitted
to one half of the values, and judged on the other. The answer is an interval of what explains them about as well. It
is rough and no confidence interval; `told` says whether it ends on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Channel, NotApplicableError, Recipe, Staged
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.noise import NumberNoise, Operator, OperatorNoise
from sfumato.reconstruction.evidence import FEWEST, TAIL, Bins, Cells, Evidence, Part, cell_probabilities
from sfumato.reconstruction.expectation_maximization import EmSolver, ExpectationMaximization
from sfumato.reconstruction.parzen_program import ConvergenceError
from sfumato.table import Group

FACTORS = tuple(float(factor) for factor in np.geomspace(0.25, 4.0, 25))
POINTS, ROUNDS = 100, 300
_DROP = 3.0
"""By how much a log-likelihood may fall behind the best and still count as explaining the values."""


@dataclass(frozen=True)
class NoiseStrength:
    """`best` factor of the noise that was given, and the interval of those that explain the values nearly as well."""

    best: float
    low: float
    high: float
    told: bool

    def in_words(self) -> str:
        if not self.told:
            return (
                f"Noise of {self.low:.2g} to {self.high:.2g} times this strength explains the values equally well: "
                "they do not tell how strong it was."
            )
        return f"The values suggest noise of {self.best:.2g} times this strength ({self.low:.2g} to {self.high:.2g})."


def estimate_common_strength(
    parts: Sequence[tuple[ArrayLike, OperatorNoise]],
    support: tuple[float, float],
    *,
    factors: Sequence[float] = FACTORS,
    bins: int = 150,
) -> NoiseStrength:
    """The factor by which the noise of each release of a column must be stretched to explain its values, of originals
    within `support`: one density lies behind all of them, and their log-likelihoods are added."""
    if len(factors) < 3 or min(factors) <= 0:
        raise UsageError("Give at least three factors above 0 to choose among.")
    released = [_Released.of(values, noise) for values, noise in parts]
    z = np.concatenate([one.z for one in released])
    if len(z) < FEWEST or z.min() == z.max():
        raise UsageError(f"At least {FEWEST} different released values are needed to tell how strong the noise was.")
    cells, found = _cells_near(z, support, bins), []
    for factor in factors:
        pairs = [one.halves(factor, support, cells) for one in released if len(one.z)]
        found.append(_held_out([a for a, _ in pairs], [b for _, b in pairs]))
        found[-1] += _held_out([b for _, b in pairs], [a for a, _ in pairs])
    likely = np.array(found)
    near = np.flatnonzero(likely >= likely.max() - _DROP)
    first, last = int(near[0]), int(near[-1])
    told = first > 0 and last < len(factors) - 1
    return NoiseStrength(float(factors[int(likely.argmax())]), float(factors[first]), float(factors[last]), told)


def _cells_near(z: Floats, support: tuple[float, float], bins: int) -> Cells:
    """Cells wider than the noise would tell its strength by their own shape: only where values lie are there any."""
    reach = max(float(np.ptp(z)), 1e-12)
    ends = max(support[0], float(z.min()) - 0.25 * reach), min(support[1], float(z.max()) + 0.25 * reach)
    return Cells.even(*(ends if ends[0] < ends[1] else support), bins)


@dataclass(frozen=True, eq=False)
class _Released:
    """Values of one release, and cells for them: the same for every strength, so that their likelihoods compare."""

    z: Floats
    noise: OperatorNoise
    edges: Floats

    @classmethod
    def of(cls, values: ArrayLike, noise: OperatorNoise) -> _Released:
        z = np.asarray(values, dtype=np.float64).ravel()
        z = z[np.isfinite(z)]
        return cls(z, noise, np.histogram_bin_edges(z, POINTS))

    def halves(self, factor: float, support: tuple[float, float], cells: Cells) -> tuple[Evidence, Evidence]:
        """What each half of the values says if the noise is so many times as strong."""
        noise = self.noise.stretched(factor)
        one = Described("x", "numeric", noise, *support)
        part = part_of(count_values(self.z, one, *support), one)
        spread = cell_probabilities(noise, self.edges, cells)
        counted = (np.histogram(half, self.edges)[0] for half in (self.z[::2], self.z[1::2]))
        counts = [np.concatenate([[0], half, [0]]) for half in counted]
        first, second = (Evidence(part, self.edges, half, spread, np.zeros(len(half))) for half in counts)
        return first, second


def _held_out(fitted: Sequence[Evidence], judged: Sequence[Evidence]) -> float:
    """Log-likelihood of the one half under the density of the other; a small share goes to where that has none."""
    try:
        mass = EmSolver(fitted, ExpectationMaximization(stopping=ROUNDS), rounds=ROUNDS).solve(fitted)
    except ConvergenceError:  # noise so weak cannot have led so far
        return -np.inf
    found = 0.0
    for evidence in judged:
        expected = evidence.expected(0.99 * mass + 0.01 / len(mass))
        shown = evidence.counts > 0
        with np.errstate(divide="ignore"):
            found += float(np.sum(evidence.counts[shown] * np.log(expected[shown])))
    return found


# From released values and what the card says of them to the parts and cells that a method works on.


def z_range(one: Described, low: float, high: float) -> tuple[float, float]:
    """Where released values are placed: all that bounded noise can reach, all but the tails of unbounded noise."""
    if one.noise is None:
        return low, high
    x = np.linspace(low, high, 513)
    lows, highs = one.noise.span(x)
    tails = one.noise.span(x, TAIL)
    first = float(lows.min()) if np.isfinite(lows.min()) else float(tails[0].min())
    last = float(highs.max()) if np.isfinite(highs.max()) else float(tails[1].max())
    return first - one.grid, last + one.grid


def count_values(values: Any, one: Described, low: float, high: float) -> Bins:
    """Counts of an array, of an iterator over arrays (read once), or counts that were made already."""
    if isinstance(values, Bins):
        return values
    first, last = z_range(one, low, high)
    if isinstance(values, Iterator):
        return Bins.over(first, last).of(values)
    try:
        array = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise TableError(f"Column {one.name!r} is numeric, but its values are not. The release was changed.") from None
    shown = array[np.isfinite(array)]  # infinite ones are refused once they are counted
    if len(shown) >= FEWEST and shown.min() < shown.max():  # a finer grid than the noise's whole reach
        middle = np.clip([shown.min(), shown.max()], first, last)
        first, last = (float(middle[0]), float(middle[1])) if middle[0] < middle[1] else (first, last)
    return Bins.over(first, last).of(array)


def check_empty(bins: Bins, one: Described) -> None:
    """Empty cells are a kind of answer only where something says so; else they were made by whoever changed it."""
    if bins.empty and one.missing_keep is None and not one.left_out:
        raise TableError(
            f"Column {one.name!r} of the release has {counted(bins.empty, 'empty cell')}, and its card does not "
            "say that cells can be missing there: the release was changed or damaged. Get it again from whoever made "
            "it."
        )


def part_of(bins: Bins, one: Described) -> Part:
    """The counts with their noise, and how many of them stand in for missing values."""
    assert one.noise is not None
    missing = missing_share(bins, one)
    shown = bins.n / max(1, bins.n + bins.empty)
    hidden = (1.0 - (one.missing_keep or 1.0)) * missing / shown if shown > 0 else 0.0
    return Part(bins, one.noise, min(hidden, 0.95), 0.5 * (one.low + one.high), one.name)


def rows_of(bins: Bins, one: Described) -> int:
    """Rows that say something of the column: all, or those that report it."""
    return bins.n if one.left_out else bins.n + bins.empty


def missing_share(bins: Bins, one: Described) -> float:
    """Of the people, by the inverse of the randomized "missing": told = keep m + (1 - keep) (1 - m)."""
    if one.missing_keep is None or bins.n + bins.empty == 0:
        return 0.0
    told = bins.empty / (bins.n + bins.empty)
    if one.missing_keep >= 1.0:
        return told
    return float(np.clip((told - (1.0 - one.missing_keep)) / (2.0 * one.missing_keep - 1.0), 0.0, 1.0))


def possible_range(parts: Iterable[Part], low: float, high: float) -> tuple[float, float]:
    """The part of the declared range from which some released value can have come."""
    x = np.linspace(low, high, 2001)
    met = np.zeros(len(x), dtype=bool)
    for part in parts:
        ends = part.noise.span(x, TAIL)
        met |= (ends[0] <= part.bins.most) & (ends[1] >= part.bins.least)
    found = np.flatnonzero(met)
    return (float(x[found[0]]), float(x[found[-1]])) if len(found) > 1 else (low, high)


def cells_of(one: Described, low: float, high: float, bins: int) -> Cells:
    """Even cells; one per whole number where those are few, and cells of equally many where they are not many more."""
    if not one.whole:
        return Cells.even(low, high, bins)
    first, last = int(np.ceil(low - 1e-9)), int(np.floor(high + 1e-9))
    numbers = last - first + 1
    if 1 < numbers <= bins:
        return Cells.whole(first, last)
    if numbers < 20 * bins:
        fitting = [count for count in range(bins // 2, bins + bins // 2 + 1) if numbers % count == 0]
        if fitting:
            return Cells.even(first - 0.5, last + 0.5, min(fitting, key=lambda count: abs(count - bins)))
    return Cells.even(low, high, bins)


# What a card says about one released column, in the terms that reconstruction needs.


@dataclass(frozen=True)
class Described:
    """A column's noise and range. Categorical columns have `categories` and `keep`, others `noise`, `low`, `high`.

    `whole`: only whole numbers occur. `missing_keep`: how often "missing" was told truly, None where nothing can be
    missing. `grid`: step to which released values were rounded. `noise` None: released as it is. `left_out`: not every
    row reports it, so that an empty cell is no value.
    """

    name: str
    kind: str
    noise: NumberNoise | None = None
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    missing_keep: float | None = None
    grid: float = 0.0
    categories: tuple[str, ...] = ()
    keep: float = 1.0
    left_out: bool = False

    @property
    def is_categorical(self) -> bool:
        return bool(self.categories)


def describe(card: Card, column: str | None = None, operator: Operator | None = None) -> Described:
    """Look a column up; without a name, the only column there is. `operator`: the owner's own, if the card has none."""
    recipe = card.made_by()
    names = recipe.names()
    if column is None:
        if len(names) != 1:
            raise UsageError(f"Which column? The release has: {', '.join(names)}.")
        column = names[0]
    if column not in names:
        raise UsageError(f"The release has no column {column!r}. It has: {', '.join(names)}.")
    if card.post_processing is not None:
        raise CardError(
            f"The release was rounded and clipped ({card.post_processing}), so its noise is no longer what was "
            "drawn, and nothing can be reconstructed. Release without --like-original."
        )
    found = described(recipe if operator is None else recipe.knowing(operator), names.index(column))
    if found is None:
        raise TableError(f"Column {column!r} is constant by its bounds: there is nothing to reconstruct.")
    return found


def described(recipe: Recipe, place: int) -> Described | None:
    """The column that one channel carries; None for a constant. Refused where its range or its law is unknown."""
    channel, name = recipe.channels[place], recipe.names()[place]
    try:
        if recipe.is_columnwise:
            _, (group,) = recipe.of_columns()[place]
            return _of_group(group, channel)
        if isinstance(recipe.map, Staged):
            raise CardError(
                f"The rows were released in stages, so {name!r} is no column of the table. "
                "Train private-discriminant, or auto, on this release."
            )
        if recipe.map.affine() is None:
            raise CardError(f"The map of the release is a secret key, so no range of {name!r} is known.")
        low, high = (float(end[place]) for end in recipe.map.ranges(recipe.encoding, 0.0))
        if low == high:
            return None
        return Described(name, "numeric", channel.raw_noise(1.0), low, high, left_out=channel.leaves_out)
    except NotApplicableError as error:
        raise CardError(f"Nothing can be reconstructed from column {name!r}: {error}.") from None


def _of_group(group: Group, channel: Channel) -> Described | None:
    name, kind = group.column.name, group.column.kind
    if group.is_onehot:
        # where "missing" is hidden, it counts as every category alike
        slots = group.slots[:-1] if channel.hides_missing else group.slots
        return Described(name, kind, categories=slots, keep=channel.kept, left_out=channel.leaves_out)
    low, high = (float(bound) for bound in group.column.bounds)
    if low == high:
        return None
    keep = channel.kept if group.has_indicator and not channel.hides_missing else None
    whole, noise = kind in ("ordinal", "integer"), channel.raw_noise(high - low, low)
    grid = channel.step * (high - low)
    return Described(name, kind, noise, low, high, whole, keep, grid, left_out=channel.leaves_out)


def check_published(one: Described) -> None:
    """Refuse what no paper reconstructs: its operators and programmes are for numbers."""
    if one.is_categorical:
        raise UsageError(
            f"No paper reconstructs categories, and column {one.name!r} has them. Leave it or --as-published out."
        )


def check_noise(stated: NumberNoise | None, given: OperatorNoise) -> None:
    """A law that the analyst gives beside the card must be the card's."""
    if stated is None or stated.to_dict().keys() != given.to_dict().keys():
        raise CardError("The noise law that was given is not the one on the card. Leave it out: the card states it.")
    for key, value in stated.to_dict().items():
        other = given.to_dict()[key]
        same = np.isclose(value, other) if isinstance(value, float) and isinstance(other, float) else value == other
        if not same:
            raise CardError(
                f"The noise law that was given is not the one on the card: {key} differs. "
                "Leave it out: the card states it."
            )
