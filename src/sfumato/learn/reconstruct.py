"""The distribution of released columns behind their noise: one by one, two together, or a weighted sum; and its files.

Released columns are read block by block: density.parquet, density.csv and density.svg of each are what is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.metrics.information import information_loss
from sfumato.channels import Mixed
from sfumato.core.array_types import Floats
from sfumato.core.asked import asks
from sfumato.core.errors import CardError, SchemaError, UsageError
from sfumato.core.files import write_whole
from sfumato.core.progress import Progress, silent
from sfumato.guarantee import Card
from sfumato.learn.asked import ReconstructAsked
from sfumato.learn.mining.seen import check_apart
from sfumato.noise import Law, OperatorNoise, Uniform, make_operator
from sfumato.noise.expression import parse_expression
from sfumato.noise.laws import SumLaw
from sfumato.reconstruction.density import Density, Shares
from sfumato.reconstruction.evidence import BINS, Method
from sfumato.reconstruction.joint_density import JointDensity, Pairs, Side, axis_of, product_of, reconstruct_pairs
from sfumato.reconstruction.noise_strength import NoiseStrength, estimate_common_strength
from sfumato.reconstruction.reconstruct import Described, check_same_column, describe, make_method
from sfumato.reconstruction.reconstruct import reconstruct as density_behind
from sfumato.release.release import Release, Releases, opened
from sfumato.table import open_table, write_table
from sfumato.table.arrays import day_numbers, numbers, plain

_LONGEST_NAME = 80
Found = Density | Shares | JointDensity
USUAL = ReconstructAsked()
MOST_CELLS = 1_000_000
JOINT_BINS = 25
"""Cells of each of two columns: 75 would be 5,625 pairs, of which most stay empty."""
BLOCK = 1 << 18


def reconstruct_from(releases: Sequence[Release], column: str, method: Method, **options: Any) -> Density | Shares:
    """One column of releases that are open, in folders or in memory; nothing is written."""
    values = [_values(release, describe(release.card, column)) for release in releases]
    return density_behind(values, [release.card for release in releases], column=column, method=method, **options)


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


# A weighted sum of columns, such as ``income - 2 * rent``: what it is read from, and the noise that it has.

_QUOTED = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Projection:
    """`offset` and `weights` times columns; no weight is 0."""

    weights: Mapping[str, float]
    offset: float
    title: str

    @classmethod
    def read(cls, text: str, columns: Sequence[str]) -> Projection:
        """From an expression that is linear in columns; a name that is no word stands between `backticks`."""
        stand_ins = {f"quoted_{number}": name for number, name in enumerate(dict.fromkeys(_QUOTED.findall(text)))}
        for name in stand_ins.values():
            if name not in columns:
                raise UsageError(f"The release has no column {name!r}. It has: {', '.join(columns)}.")
        places = {name: stand_in for stand_in, name in stand_ins.items()}
        plain = _QUOTED.sub(lambda found: places[found[1]], text)
        variables = [*stand_ins, *(name for name in columns if name.isidentifier())]
        expression = parse_expression(plain, variables)
        weights: dict[str, float] = {}
        zeros = [0.0] * len(variables)
        for variable in variables:
            slope = expression.derivative(variable)
            if any(slope.uses(name) for name in variables):
                raise UsageError(
                    f"{text!r} is not a weighted sum of columns. Only a sum such as 'a - 2 * b' has a known noise."
                )
            if weight := float(slope(*zeros)):
                name = stand_ins.get(variable, variable)
                weights[name] = weights.get(name, 0.0) + weight
        offset = float(expression(*zeros))
        if not np.isfinite([offset, *weights.values()]).all():
            raise UsageError(f"{text!r} has weights that are no finite numbers.")
        weights = {name: weight for name, weight in weights.items() if weight}
        if not weights:
            raise UsageError("A projection needs at least one weight that is not 0.")
        return cls(weights, offset, text.strip())

    def noise(self, card: Card) -> tuple[OperatorNoise, float, float]:
        """The noise of the sum, which is the weighted sum of its columns' noises, and the range of the true sum."""
        laws: list[Law] = []
        channels = dict(zip((recipe := card.made_by()).names(), recipe.channels, strict=True))
        shared: dict[Law, Floats] = {}
        low = high = self.offset
        for name, weight in self.weights.items():
            one = describe(card, name)
            if one.is_categorical or not isinstance(one.noise, OperatorNoise) or not one.noise.operator.is_additive:
                raise CardError(
                    f"Column {name!r} has no additive noise, so the noise of its sum with others is unknown."
                )
            if one.missing_keep is not None:
                raise CardError(f"Column {name!r} may be missing; a sum with it is not defined for everybody.")
            channel = channels[name]
            if isinstance(channel, Mixed) and channel.source is not None:  # columns that share noise add it up first
                added = weight * (one.high - one.low) * np.array(channel.weights)
                shared[channel.source] = shared.get(channel.source, np.zeros(len(added))) + added
            else:
                laws.append(reflected(one.noise.law, weight))
            ends = sorted((weight * one.low, weight * one.high))
            low, high = low + ends[0], high + ends[1]
        for source, added in shared.items():
            laws += [source.scaled(abs(weight)) for weight in added.tolist() if weight]
        return OperatorNoise(make_operator("additive"), SumLaw(tuple(laws))), low, high

    def values(self, columns: Mapping[str, Floats]) -> Floats:
        """The sum, row by row."""
        return np.asarray(sum((weight * columns[name] for name, weight in self.weights.items()), self.offset))

    def sums(self, release: Release) -> Iterator[Floats]:
        """Of released values, block by block."""
        for block in blocks_of(release, [describe(release.card, name) for name in self.weights]):
            yield self.values(dict(zip(self.weights, block, strict=True)))


def reflected(law: Law, weight: float) -> Law:
    """The law of `weight` times the noise; all laws but the uniform one are symmetric about 0."""
    if weight < 0 and isinstance(law, Uniform):
        low, high = law.support
        return Uniform(low=weight * high, high=weight * low)
    if weight < 0 and not law.is_symmetric:
        raise CardError("A column with noise of its owner's own law can only be added, not subtracted.")
    return law.scaled(abs(weight))


# Two columns together [density-reconstruction, 3.3], and weighted sums.


def joint_from(
    releases: Sequence[Release], columns: tuple[str, ...], method: Method, *, bins: int, independent: bool, seed: int
) -> JointDensity:
    """How two columns are spread together; `independent`: as published, the product of all."""
    described = [[describe(release.card, column) for release in releases] for column in columns]
    for one in described:
        check_same_column(one)
    for release in releases:
        recipe = release.card.made_by()
        if sum(isinstance(recipe.channels[recipe.names().index(column)], Mixed) for column in columns) > 1:
            raise CardError(
                f"Columns {' and '.join(map(repr, columns))} share their noise (a bandwidth that is a matrix), and "
                "joint densities need independent noise. Reconstruct them one by one, or a sum of them (--along)."
            )
    axes = tuple(axis_of(one, bins) for one in described)
    if (cells := math.prod(axis.count for axis in axes)) > MOST_CELLS:
        raise UsageError(f"The product has {cells:,} cells, and {MOST_CELLS:,} are possible. Give fewer --bins.")
    marginals = [reconstruct_from(releases, column, method, resamples=0, atoms=False, seed=seed) for column in columns]
    if independent:
        about = {"method": "product of the marginals"}
        return JointDensity(axes, product_of(axes, marginals), sum(release.card.rows for release in releases), about)
    parts = []
    for release, one, other in zip(releases, *described, strict=True):
        blocks = ((first, second) for first, second in blocks_of(release, [one, other]))
        parts.append(Pairs.of(blocks, (Side.of(one, axes[0]), Side.of(other, axes[1]))))
    return reconstruct_pairs(parts, (axes[0], axes[1]), (marginals[0], marginals[1]))


def along_from(releases: Sequence[Release], expression: str, method: Method, **options: Any) -> Density:
    """The density of a weighted sum of columns, such as ``a - 2 * b``."""
    projection = Projection.read(expression, releases[0].card.made_by().names())
    told = [projection.noise(release.card) for release in releases]
    support = min(low for _, low, _ in told), max(high for _, _, high in told)
    values = [projection.sums(release) for release in releases]
    how: dict[str, Any] = {"support": support, "column": projection.title, "method": method, **options}
    found = density_behind(values, [noise for noise, _, _ in told], **how)
    assert isinstance(found, Density)
    return found


# What is asked for: several of these, compared with an original where there is one.


@dataclass(frozen=True)
class Wish:
    """What is to be reconstructed: a column, two of them together, or a weighted sum."""

    columns: tuple[str, ...] = ()
    along: str = ""

    @property
    def name(self) -> str:
        return self.along or " and ".join(self.columns)

    def check(self, release: Release, options: ReconstructAsked) -> None:
        """What cannot be had is said before the work, not after."""
        if twice := [name for number, name in enumerate(self.columns) if name in self.columns[:number]]:
            raise UsageError(f"A joint density needs different columns, and {twice[0]!r} is named twice.")
        if len(self.columns) > 2 and not (options.independent or options.published):
            raise UsageError(
                f"How {len(self.columns)} columns are spread together is reconstructed as their product only: add "
                "--independent, or name two."
            )
        for column in self.columns:
            one = describe(release.card, column)
            if options.published and one.is_categorical:  # the operators and programmes of papers are for numbers
                raise UsageError(
                    f"No paper reconstructs categories, and column {one.name!r} has them. Leave it or --as-published "
                    "out."
                )

    def found(self, releases: Sequence[Release], method: Method, options: ReconstructAsked) -> Found:
        """The distribution, by what can be asked of it."""
        how: dict[str, Any] = {"seed": options.seed}
        if len(self.columns) > 1:
            how |= {"bins": options.bins or JOINT_BINS, "independent": options.independent or options.published}
            return joint_from(releases, self.columns, method, **how)
        how |= {"bins": options.bins or BINS, "confidence": options.confidence, "resamples": options.resamples}
        how |= {"atoms": options.atoms and not options.published}
        behind, what = (along_from, self.along) if self.along else (reconstruct_from, self.columns[0])
        return behind(releases, what, method, **how)


@asks(ReconstructAsked)
def reconstruct(releases: Releases, column: str | None = None, options: ReconstructAsked = USUAL) -> Found:
    """The distribution of a column behind its noise. No person's value is recovered, only the distribution.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Parts with different noise give one joint estimate.
    column : str, optional
        A column of the release; give this, `joint` or `along`.
    {options}

    Returns
    -------
    Density, Shares or JointDensity
        A density for numbers and dates, shares for categories, a joint density for several columns; all of them have
        `table()`, `summary()` and `plot()` (SVG).

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 200, "ill": ["no", "yes", "yes", "no", "no"] * 200}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", seed=1)
    >>> found = sf.reconstruct(release, "age", resamples=0)
    >>> bool(abs(found.mean - 44.6) < 5)
    True
    """
    wished = [one for one in (column, options.joint, options.along) if one is not None]
    if len(wished) != 1:
        raise UsageError("Give one of column, joint and along.")
    columns = () if options.along else options.joint or (column or "",)
    return reconstruct_each(releases, [Wish(tuple(columns), options.along or "")], options)[0].found


@dataclass(frozen=True)
class Reconstructed:
    """A distribution, and (for the owner) how far it is from the original."""

    wish: Wish
    found: Found
    information_loss: float | None = None


def reconstruct_each(
    releases: Releases,
    wishes: Sequence[Wish],
    options: ReconstructAsked,
    original: Any = None,
    progress: Progress = silent,
) -> list[Reconstructed]:
    """Reconstruct each of the wishes from releases, each a part with its own noise, read as streams."""
    parts = opened(releases, public=True)
    check_apart(parts)
    for wish in wishes:
        wish.check(parts[0], options)
    method = make_method(options.method, options.given, published=options.published)
    done = []
    for number, wish in enumerate(wishes, start=1):
        truth = None if original is None else _compared(original, parts[0], wish)
        found = wish.found(parts, method, options)
        done.append(Reconstructed(wish, found, None if truth is None else truth(found)))
        progress("Columns", number, len(wishes))
    return done


# As files.


def save_each(found: Sequence[tuple[str, Found]], folder: Path) -> list[list[str]]:
    """The files of named distributions: of one alone in the folder itself, of several in a folder for each.

    Returns their paths as seen from the folder.
    """
    places = [""] if len(found) == 1 else folder_names([name for name, _ in found])
    written = []
    for (_, one), place in zip(found, places, strict=True):
        inside = folder / place
        inside.mkdir(exist_ok=True)
        table = one.table()
        write_table(table, inside / "density.parquet")
        write_table(table, inside / "density.csv")
        write_whole(inside / "density.svg", one.plot())
        written.append(sorted(path.relative_to(folder).as_posix() for path in inside.iterdir()))
    return written


def folder_names(columns: Sequence[str]) -> list[str]:
    """A folder for each column: its name, made fit for a path, with a number where that is not yet its own."""
    names: list[str] = []
    for column in columns:
        plain_name = re.sub(r"[^\w -]", "_", column).strip()[:_LONGEST_NAME] or "_"
        taken, tried = {name.casefold() for name in names}, (f"{plain_name}-{number}" for number in count(2))
        names.append(next(name for name in chain([plain_name], tried) if name.casefold() not in taken))
    return names


def _compared(table: Any, release: Release, wish: Wish) -> Callable[[Any], float]:
    """How far a distribution is from the values of the owner's table; read before the work is done."""

    def values(column: str) -> Any:
        one = describe(release.card, column)
        if one.name not in open_table(table).names:
            raise SchemaError(
                f"The original table has no column {one.name!r}. Only source columns can be compared with an original."
            )
        cells = open_table(table, columns=[one.name]).read().column(0)
        return cells.to_pylist() if one.is_categorical or one.kind == "ordinal" else as_numbers(cells, one)

    if wish.along:
        projection = Projection.read(wish.along, release.card.made_by().names())
        told = [projection.values({name: values(name) for name in projection.weights})]
    else:
        told = [values(column) for column in wish.columns]
    if len(told) > 1:
        return lambda found: float(found.information_loss(*told))
    return lambda found: information_loss(told[0], found)
