"""One door to reconstruction: released values and their card in, the distribution of the original values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.channels import NotApplicableError, Recipe, Staged
from sfumato.core.accepted import as_published, check_accepted
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.noise import NumberNoise, Operator, OperatorNoise
from sfumato.reconstruction.atoms import Column, understand
from sfumato.reconstruction.density import Density, Shares, band_of, counts_of, reconstruct_shares
from sfumato.reconstruction.evidence import FEWEST, TAIL, Bins, Cells, Evidence, Method, Options, Part, z_cells
from sfumato.reconstruction.expectation_maximization import ExpectationMaximization
from sfumato.reconstruction.parzen_program import ParzenProgram

METHODS: dict[str, type[ParzenProgram] | type[ExpectationMaximization]] = {
    method.name: method for method in (ParzenProgram, ExpectationMaximization)
}
POINTS = 200
"""Cells of z from which point masses and band are learned."""


def make_method(name: str | Method, parameters: Mapping[str, Any] | None = None, *, published: bool = False) -> Method:
    """A method by its name and parameters (`rounds`: the iteration's `stopping` as a number), or as its paper has it.

    [density-reconstruction] compares with Agrawal & Aggarwal's EM and does not say where it stopped; the rule that
    others stop by, Agrawal & Srikant's, gives another figure than the printed one.
    """
    if not isinstance(name, str):
        return name
    if name not in METHODS:
        raise UsageError(f"There is no method {name!r}. Choose one of: {', '.join(METHODS)}.")
    method, given = METHODS[name], {key.replace("-", "_"): value for key, value in (parameters or {}).items()}
    if method is ExpectationMaximization and "rounds" in given:
        rounds = given.pop("rounds")
        if given.setdefault("stopping", rounds) != rounds or isinstance(rounds, str):
            raise UsageError("The rounds are a whole number, and in place of a rule of stopping. Give one of the two.")
    if published:
        given = as_published(name, method.published, given)
        if method is ExpectationMaximization and not isinstance(given.get("stopping"), int):
            raise UsageError(
                f"As published, {name} has no stopping rule: the paper does not say where it stopped. Name the rounds, "
                "as in --rounds 50, or leave --as-published out."
            )
    check_accepted(name, method.accepts, given)
    return method(**given)


def reconstruct(
    values: Any,
    card: Card | OperatorNoise | Sequence[Card | OperatorNoise],
    *,
    column: str | None = None,
    method: str | Method = "parzen-program",
    operator: Operator | None = None,
    **options: Any,
) -> Density | Shares:
    """The distribution behind a released column.

    `values` are the released values (raw units, NaN or None for empty cells), or an iterator over blocks of them, which
    is read once in constant memory. `card` is the release's card, or the noise itself (then give
    `support=(low, high)`, the range of the original values). Lists of both: parts with different noise, for one joint
    estimate. `operator` is the owner's own one, where the card says "custom". Further `options` are those of `Options`.
    """
    chosen = Options(**options)
    cards = card if isinstance(card, Sequence) else [card]
    given = values if isinstance(card, Sequence) else [values]
    if not isinstance(given, Sequence) or len(given) != len(cards) or not cards:
        raise UsageError("Give the values of every part and its card: two lists of the same length.")
    known = []
    for source in cards:
        if isinstance(source, Card):
            known.append(describe(source, column, operator))
        elif chosen.support is not None:
            known.append(Described(column or "x", "numeric", source, *chosen.support))
        else:
            raise UsageError("Without a card, give the range of the original values: support=(low, high).")
    check_same_column(known)
    first = known[0]
    if first.is_categorical:
        counts = [
            counts_of(values, first.categories, left_out=one.left_out) for values, one in zip(given, known, strict=True)
        ]
        _check_enough(int(np.sum(counts)))
        return reconstruct_shares(first.name, counts, first.categories, [one.keep for one in known], chosen)
    with threadpool_limits(1, user_api="blas"):  # many small products: threads would only wait for each other
        return reconstruct_numbers(given, known, make_method(method), chosen)


def check_same_column(described: Sequence[Described]) -> None:
    """Parts are of one column, with the same categories where it has any."""
    if len({(one.name, one.kind, one.categories, one.whole) for one in described}) != 1:
        raise CardError("The parts describe different columns, so there is no joint estimate.")


def _check_enough(values: int) -> None:
    if values < FEWEST:
        raise TableError(f"There are {values} released values; at least {FEWEST} are needed.")


def reconstruct_numbers(values: Sequence[Any], known: Sequence[Described], method: Method, options: Options) -> Density:
    """A density from parts; every part's values are an array, an iterator over arrays, or `Bins` on its own grid."""
    low, high = options.support or (min(one.low for one in known), max(one.high for one in known))
    first = known[0]
    unit = {"unit": "days since 1970-01-01"} if first.kind == "date" else {}
    counts = _counted(values, known, low, high)
    both = list(zip(counts, known, strict=True))
    rows = np.array([rows_of(bins, one) for bins, one in both])
    if all(one.noise is None for one in known):  # its own histogram
        return _as_released(counts, first, cells_of(first, low, high, options.bins), int(rows.sum()), unit)
    if any(one.noise is None for one in known):
        raise CardError("Some parts are released without noise, others with noise: reconstruct them separately.")
    parts = [part_of(bins, one) for bins, one in both]
    for part, one in zip(parts, known, strict=True):
        part.check(low, high, tolerance=1e-9 * (high - low) + one.grid)
    if options.support is None:
        low, high = possible_range(parts, low, high)
    cells = cells_of(first, low, high, options.bins)
    mass, found, columns = _estimate(parts, cells, method, options)
    lowest, highest = band_of(columns, cells, options) if options.resamples else (None, None)
    missing = float(rows @ np.array([missing_share(bins, one) for bins, one in both]) / rows.sum())
    about = {"method": method.name, **found, **unit}
    return Density(first.name, cells, mass, lowest, highest, options.confidence, int(rows.sum()), missing, about)


def _as_released(counts: Sequence[Bins], one: Described, cells: Cells, rows: int, unit: dict[str, str]) -> Density:
    told, mass = sum(bins.n for bins in counts), np.zeros(cells.count)
    _check_enough(told)
    for bins in counts:
        mass += np.histogram(bins.centres, cells.edges, weights=bins.counts)[0]
    if not mass.sum() > 0:
        raise TableError(f"All values of column {one.name!r} lie outside its bounds. The release was changed.")
    about = {"method": "as released", **unit}
    return Density(one.name, cells, mass / mass.sum(), rows=rows, missing=1.0 - told / rows, about=about)


def _counted(values: Sequence[Any], described: Sequence[Described], low: float, high: float) -> list[Bins]:
    """Released values of every part as counts; refused where they or the noise cannot be."""
    for one in described:
        if one.noise is not None:
            one.noise.check(low, high, where=f"Column {one.name!r} (range {low:g} to {high:g})")
    told = [count_values(value, one, low, high) for value, one in zip(values, described, strict=True)]
    for bins, one in zip(told, described, strict=True):
        # Empty cells are a kind of answer only where something says so; else they were made by whoever changed it.
        if bins.empty and one.missing_keep is None and not one.left_out:
            raise TableError(
                f"Column {one.name!r} of the release has {counted(bins.empty, 'empty cell')}, and its card does "
                "not say that cells can be missing there: the release was changed or damaged. Get it again from "
                "whoever made it."
            )
    return told


def _estimate(
    parts: Sequence[Part], cells: Cells, method: Method, options: Options
) -> tuple[Floats, dict[str, Any], Sequence[Column]]:
    """Probabilities of the cells; the mean of the estimates with and without point masses, where both are likely."""
    smooth = method.prepare(parts, cells)  # first of all, so that wrong parameters are refused at once
    columns: list[tuple[Column, float]] = []
    if options.atoms or options.resamples:
        evidence = [Evidence.of(part, cells, z_cells(POINTS, cells), margin=0.0) for part in parts]
        columns = understand(evidence, cells, atoms=options.atoms)
    chances: dict[tuple[float, ...], float] = {}
    shares: dict[tuple[float, ...], dict[float, float]] = {}
    for column, chance in columns:
        points = tuple(column.points)
        chances[points] = chances.get(points, 0.0) + chance
        shares.setdefault(points, column.points)
    mass, about, told = np.zeros(cells.count), dict[str, Any](), dict[int, dict[str, float]]()
    for points, chance in sorted(chances.items(), key=lambda item: -item[1]) or [((), 1.0)]:
        solver = method.prepare(parts, cells, shares[points]) if points else smooth
        found = solver.solve(solver.evidence)
        mass += chance * found[: cells.count]
        for value, share in zip(points, found[cells.count :].tolist(), strict=True):
            cell = int(cells.holding(np.array([value]))[0])
            mass[cell] += chance * share
            atom = told.setdefault(cell, {"value": value, "share": share, "probability": 0.0})
            atom["probability"] += chance
        about = about or dict(solver.about)  # of the likeliest
    if told:
        about["atoms"] = [told[cell] for cell in sorted(told)]
    return mass, about, [column for column, _ in columns]


# From released values and what the card says of them to the parts and cells that a method works on.


def z_range(one: Described, low: float, high: float) -> tuple[float, float]:
    """Where released values are placed: all that bounded noise can reach, all but the tails of unbounded noise."""
    if one.noise is None:
        return low, high
    x = np.linspace(low, high, 513)
    (lows, highs), tails = one.noise.span(x), one.noise.span(x, TAIL)
    first = lows.min() if np.isfinite(lows.min()) else tails[0].min()
    last = highs.max() if np.isfinite(highs.max()) else tails[1].max()
    return float(first) - one.grid, float(last) + one.grid


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
