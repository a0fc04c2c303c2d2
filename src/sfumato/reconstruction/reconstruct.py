"""One door to reconstruction: released values and their card in, the distribution of the original values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.core.accepted import as_published, check_accepted
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.guarantee import Card
from sfumato.noise import Operator, OperatorNoise
from sfumato.reconstruction.atoms import Column, understand
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import FEWEST, Bins, Cells, Evidence, Method, Part, Solver, z_cells
from sfumato.reconstruction.expectation_maximization import ExpectationMaximization
from sfumato.reconstruction.noise_strength import (
    Described,
    cells_of,
    check_empty,
    check_noise,
    count_values,
    describe,
    missing_share,
    part_of,
    possible_range,
    rows_of,
)
from sfumato.reconstruction.parzen_program import ParzenProgram
from sfumato.reconstruction.shares import Resampling, Shares, band_of, counts_of, reconstruct_shares

METHODS: dict[str, type[ParzenProgram] | type[ExpectationMaximization]] = {
    method.name: method for method in (ParzenProgram, ExpectationMaximization)
}
BINS = 75
POINTS = 200
"""Cells of z from which point masses and band are learned."""
MOST_BINS = 1_000
MOST_RESAMPLES = 10_000
"""The programme is dense: memory grows with the square of the cells, time with their cube."""


@dataclass(frozen=True)
class Options:
    """How to reconstruct: cells of x, its range if not the card's, whether point masses are looked for, and the band.

    `resamples` is the number of draws that the band is made of, for every column that is likely; 0: no band.
    """

    bins: int = BINS
    support: tuple[float, float] | None = None
    atoms: bool = True
    confidence: float = 0.9
    resamples: int = 400
    seed: int = 0

    @property
    def band(self) -> Resampling:
        """How the band is drawn."""
        return Resampling(self.confidence, self.resamples, self.seed)

    def __post_init__(self) -> None:
        for name, least, most in (("bins", 2, MOST_BINS), ("resamples", 0, MOST_RESAMPLES)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
                raise UsageError(
                    f"The {name!r} parameter must be a whole number between {least} and {most}. Got {value!r} instead."
                )
        if not 0 < self.confidence < 1:
            raise UsageError(f"The 'confidence' parameter must lie between 0 and 1. Got {self.confidence} instead.")
        if self.support is not None and not (np.isfinite(self.support).all() and self.support[0] < self.support[1]):
            raise UsageError(f"The 'support' parameter must be (low, high) with low < high. Got {self.support}.")


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
    noise: OperatorNoise | None = None,
    **options: Any,
) -> Density | Shares:
    """The distribution behind a released column.

    `values` are the released values (raw units, NaN or None for empty cells), or an iterator over blocks of them, which
    is read once in constant memory. `card` is the release's card, or the noise itself (then give
    `support=(low, high)`, the range of the original values). Lists of both: parts with different noise, for one joint
    estimate. `operator` is the owner's own one, where the card says "custom". `noise` may be given to be checked
    against the card. Further `options` are those of `Options`.
    """
    chosen = Options(**options)
    cards = card if isinstance(card, Sequence) else [card]
    given = values if isinstance(card, Sequence) else [values]
    if not isinstance(given, Sequence) or len(given) != len(cards) or not cards:
        raise UsageError("Give the values of every part and its card: two lists of the same length.")
    parts = list(zip(given, cards, strict=True))
    described = [_described(source, column, operator, noise, chosen) for _, source in parts]
    check_same_column(described)
    if described[0].is_categorical:
        return _shares(parts, described, chosen)
    with threadpool_limits(1, user_api="blas"):  # many small products: threads would only wait for each other
        return reconstruct_numbers([value for value, _ in parts], described, make_method(method), chosen)


def check_same_column(described: Sequence[Described]) -> None:
    """Parts are of one column, with the same categories where it has any."""
    if len({(one.name, one.kind, one.categories, one.whole) for one in described}) != 1:
        raise CardError("The parts describe different columns, so there is no joint estimate.")


def _described(
    source: Card | OperatorNoise,
    column: str | None,
    operator: Operator | None,
    noise: OperatorNoise | None,
    options: Options,
) -> Described:
    if isinstance(source, Card):
        found = describe(source, column, operator)
        if noise is not None:
            check_noise(found.noise, noise)
        return found
    if options.support is None:
        raise UsageError("Without a card, give the range of the original values: support=(low, high).")
    return Described(column or "x", "numeric", source, *options.support)


def reconstruct_numbers(
    values: Sequence[Any], described: Sequence[Described], method: Method, options: Options
) -> Density:
    """A density from parts; every part's values are an array, an iterator over arrays, or `Bins` on its own grid."""
    low, high = options.support or (min(d.low for d in described), max(d.high for d in described))
    counted = _counted(values, described, low, high)
    if all(one.noise is None for one in described):
        return _as_released(counted, described, cells_of(described[0], low, high, options.bins))
    if any(one.noise is None for one in described):
        raise CardError("Some parts are released without noise, others with noise: reconstruct them separately.")
    parts = [part_of(bins, one) for bins, one in zip(counted, described, strict=True)]
    for part, one in zip(parts, described, strict=True):
        part.check(low, high, tolerance=1e-9 * (high - low) + one.grid)
    if options.support is None:
        low, high = possible_range(parts, low, high)
    cells = cells_of(described[0], low, high, options.bins)
    mass, about, columns = _estimate(parts, cells, method, options)
    lowest = highest = None
    if options.resamples:
        lowest, highest = band_of(columns, cells, options.band)
    missing = [missing_share(bins, one) for bins, one in zip(counted, described, strict=True)]
    rows = np.array([rows_of(bins, one) for bins, one in zip(counted, described, strict=True)])
    return Density(
        described[0].name,
        cells,
        mass,
        lowest,
        highest,
        options.confidence,
        int(rows.sum()),
        float(rows @ np.array(missing) / rows.sum()),
        {"method": method.name, **about, **_unit(described[0])},
    )


def _counted(values: Sequence[Any], described: Sequence[Described], low: float, high: float) -> list[Bins]:
    """Released values of every part as counts; refused where they or the noise cannot be."""
    for one in described:
        if one.noise is not None:
            one.noise.check(low, high, where=f"Column {one.name!r} (range {low:g} to {high:g})")
    counted = [count_values(value, one, low, high) for value, one in zip(values, described, strict=True)]
    for bins, one in zip(counted, described, strict=True):
        check_empty(bins, one)
    return counted


def _estimate(
    parts: Sequence[Part], cells: Cells, method: Method, options: Options
) -> tuple[Floats, dict[str, Any], Sequence[Column]]:
    """Probabilities of the cells; the mean of the estimates with and without point masses, where both are likely."""
    solvers: dict[tuple[float, ...], Solver] = {
        (): method.prepare(parts, cells)
    }  # first of all, so that wrong parameters are refused at once
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
        solver = solvers.get(points) or method.prepare(parts, cells, shares[points])
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


def _as_released(counted: Sequence[Bins], described: Sequence[Described], cells: Cells) -> Density:
    """A column without noise: its own histogram."""
    total = sum(bins.n for bins in counted)
    if total < FEWEST:
        raise TableError(f"There are {total} released values; at least {FEWEST} are needed.")
    mass = np.zeros(cells.count)
    for bins in counted:
        centres = bins.low + bins.step * (np.arange(len(bins.counts)) + 0.5)
        mass += np.histogram(centres, cells.edges, weights=bins.counts)[0]
    if not mass.sum() > 0:
        raise TableError(f"All values of column {described[0].name!r} lie outside its bounds. The release was changed.")
    rows = sum(rows_of(bins, one) for bins, one in zip(counted, described, strict=True))
    return Density(
        described[0].name,
        cells,
        mass / mass.sum(),
        rows=rows,
        missing=1.0 - total / rows,
        about={"method": "as released", **_unit(described[0])},
    )


def _unit(one: Described) -> dict[str, str]:
    return {"unit": "days since 1970-01-01"} if one.kind == "date" else {}


def _shares(parts: Sequence[tuple[Any, Any]], described: Sequence[Described], options: Options) -> Shares:
    one = described[0]
    counts = [
        counts_of(values, one.categories, left_out=other.left_out)
        for (values, _), other in zip(parts, described, strict=True)
    ]
    total = int(np.sum(counts))
    if total < FEWEST:
        raise TableError(f"There are {total} released values; at least {FEWEST} are needed.")
    keeps = [other.keep for other in described]
    return reconstruct_shares(one.name, counts, one.categories, keeps, options.band)
