"""A numbered table or figure of a paper: declared once, found by its name, computed in repeats, printed beside reached.

An item is a function of one repeat: rows and a generator in, figures by name out. A figure's name is a word, or a word
and a place along the item's axis. `item` declares what the paper prints of it, and the modules of this folder are
looked through for all of them.
"""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from sfumato.auditing.asked import ItemAsked
from sfumato.auditing.case import schema_of
from sfumato.auditing.figures import sets
from sfumato.auditing.figures.sets import DataSet
from sfumato.core.asked import asks
from sfumato.core.errors import TableError, UsageError
from sfumato.core.registry import NotDeclaredError, modules_of
from sfumato.core.svg import tag
from sfumato.reconstruction import picture
from sfumato.reconstruction.picture import text
from sfumato.table import open_table

Mark = tuple[float, str]
Name = str | tuple[str, float]
"""Of a figure: a word, or a word and where it stands along the axis."""
WIDTH, ROW = 860, 20
LINES = picture.Size(WIDTH, 440, 6)
NAMES = 420
"""Where the names of single values end."""


@dataclass(frozen=True)
class Value:
    """One figure: what the paper prints, and what was reached here with the standard error over repeats."""

    what: str
    printed: float | None
    reached: float
    standard_error: float | None
    name: Name

    @property
    def ends(self) -> tuple[float, float]:
        """One standard error to both sides."""
        error = self.standard_error or 0.0
        return self.reached - error, self.reached + error


def _heights(values: Sequence[Value]) -> list[float]:
    """All that has to find room."""
    return [end for one in values for end in (*one.ends, one.reached if one.printed is None else one.printed)]


def _scale(values: Sequence[float], start: float, end: float) -> tuple[Callable[[float], float], list[Mark]]:
    """Where in pixels a value stands between the least and the largest, with a margin; and marks with their words."""
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or abs(high) or 1.0
    low, high = low - margin if low < 0 else max(0.0, low - margin), high + margin

    def at(value: float) -> float:
        return start + (value - low) / (high - low) * (end - start)

    return at, [(at(tick), words) for tick, words in picture.ticks(low, high)]


def _lines(title: str, axis: str, values: Sequence[Value]) -> str:
    """Lines along the item's axis: names are those of lines."""
    names = list(dict.fromkeys(one.name[0] for one in values))
    tall = LINES.height + 18 * max(0, (len(names) - 1) // 3)
    top, base = picture.TOP + tall - LINES.height, tall - picture.BOTTOM
    up, heights = _scale(_heights(values), base, top)
    across, places = _scale([float(one.name[1]) for one in values], picture.LEFT, WIDTH - picture.RIGHT)
    shapes = []
    for number, name in enumerate(names):
        colour = picture.COLOURS[number % len(picture.COLOURS)]
        dash = picture.DASHES[number // len(picture.COLOURS) % len(picture.DASHES)]
        line = [(across(float(one.name[1])), one) for one in values if one.name[0] == name]
        points = " ".join(f"{x:.1f},{up(one.reached):.1f}" for x, one in line)
        shapes.append(tag("polyline", points=points, fill="none", **picture.stroke(colour, 2, dash)))
        for x, one in line:
            low, high = map(up, one.ends)
            shapes.append(tag("path", d=f"M{x:.1f} {low:.1f}V{high:.1f}", **picture.stroke(colour, 1)))
            shapes += [_cross(x, up(one.printed))] if one.printed is not None else []
        x, y = picture.LEFT + number % 3 * 255, 44 + 18 * (number // 3)
        shapes.append(tag("path", d=f"M{x} {y}H{x + 24}", **picture.stroke(colour, 2, dash)))
        shapes.append(text(x + 30, y + 4, picture.fitting(name, 32), "start"))
    shapes += [text(x, base + 18, words, "middle") for x, words in places]
    shapes += [text(picture.LEFT - 6, y + 4, words, "end") for y, words in heights]
    middle = 0.5 * (picture.LEFT + WIDTH - picture.RIGHT)
    shapes.append(text(middle, tall - 10, f"{axis} (a cross is what the paper prints)", "middle"))
    return picture.framed(title, "", shapes, base, picture.Size(WIDTH, tall, 6))


def _in_rows(title: str, values: Sequence[Value]) -> str:
    """One row a value: a dot is reached, a cross printed."""
    base, shapes = picture.TOP + ROW * len(values), []
    across, places = _scale(_heights(values), NAMES + 10, WIDTH - picture.RIGHT)
    for number, one in enumerate(values):
        y = picture.TOP + ROW * (number + 0.5)
        low, high = map(across, one.ends)
        shapes.append(text(NAMES, y + 4, picture.fitting(one.what, 56), "end"))
        shapes.append(tag("path", d=f"M{low:.1f} {y}H{high:.1f}", **picture.stroke(picture.INK, 1)))
        shapes.append(tag("circle", cx=across(one.reached), cy=y, r=4, fill=picture.COLOURS[0]))
        shapes += [_cross(across(one.printed), y)] if one.printed is not None else []
    shapes += [text(x, base + 18, words, "middle") for x, words in places]
    shapes.append(text(0.5 * WIDTH, base + 40, "a dot is reached, a cross is what the paper prints", "middle"))
    return picture.framed(title, "", shapes, base, picture.Size(WIDTH, base + picture.BOTTOM, 6))


def _cross(x: float, y: float) -> Markup:
    return tag("path", d=f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10", **picture.stroke(picture.COLOURS[1]))


Found = Mapping[Any, float]
"""One repeat: each figure by its `Name`."""
Once = Callable[[DataSet, np.random.Generator], Found]
UNASKED = ItemAsked()
PAPERS = ("kernel-resampling", "density-reconstruction", "random-rotation", "principal-laplace", "guided-survey")
SPLIT_BEFOREHAND = ("kernel-resampling", "principal-laplace")
"""Papers whose items know a given split."""
ANY = ""
"""Printed for whatever table it is computed on."""


@dataclass(frozen=True)
class Item:
    """What one table or figure of a paper is, and how a repeat of it is computed.

    `sets` are the tables that the paper shows it for, the first one the default; without any it needs no table.
    `printed`: by set, then by figure. `repeats`: how often by default; 0 where nothing is drawn. `over`: figures of the
    means over all repeats. `learns`: it needs two classes at least.
    """

    name: str
    shows: str
    once: Once
    sets: tuple[str, ...] = ()
    printed: Mapping[str, Mapping[Name, float]] = field(default_factory=dict)
    axis: str = ""
    repeats: int = 3
    over: Callable[[Found], Found] | None = None
    learns: bool = False

    @property
    def paper(self) -> str:
        """The key of its paper."""
        return self.name.partition("/")[0]

    def in_words(self, figure: Name) -> str:
        """A figure's name with its place along the axis."""
        return figure if isinstance(figure, str) else f"{figure[0]}, {self.axis} = {figure[1]:g}"


@dataclass(frozen=True)
class Reached:
    """An item as it came out: its values, on which rows, in how many repeats."""

    item: Item
    values: tuple[Value, ...]
    set: str
    source: str
    rows: int
    repeats: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        about = {name: getattr(self, name) for name in ("set", "source", "rows", "repeats", "seed")}
        told = {"item": self.item.name, "shows": self.item.shows, **about}
        shown = ("what", "printed", "reached", "standard_error")
        return {**told, "values": [{name: getattr(one, name) for name in shown} for one in self.values]}

    def picture(self) -> str:
        """An SVG: lines along the item's axis where most of the values have a place there, else one row a value."""
        title = f"{self.item.name}{f', {self.set}' if self.set else ''}: {self.item.shows}"
        placed = [one for one in self.values if isinstance(one.name, tuple)]
        lines = 2 * len(placed) > len(self.values)
        return _lines(title, self.item.axis, placed) if lines else _in_rows(title, self.values)


_DECLARED: dict[str, Item] = {}


def item(sets: Sequence[str] = (), *, name: str = "", shows: str = "", **said: Any) -> Callable[[Once], Once]:
    """Declare a function of one repeat as an item: it has the names of its module and of the function, and shows what
    the function's docstring says, unless both are given."""

    def declare(once: Once) -> Once:
        called = name or f"{once.__module__.rpartition('.')[2]}/{once.__name__}".replace("_", "-")
        told = " ".join((once.__doc__ or "").split()).rstrip(".")
        if called in _DECLARED or called.partition("/")[0] not in PAPERS:
            raise NotDeclaredError(f"{called!r} is declared twice, or is of none of the five papers.")
        _DECLARED[called] = Item(called, shows or told, once, tuple(sets), **said)
        return once

    return declare


@cache
def items() -> dict[str, Item]:
    """All items, by paper and then as declared."""
    for _ in modules_of("sfumato.auditing.figures"):
        pass  # an item enters itself when its module is imported
    return dict(sorted(_DECLARED.items(), key=lambda one: PAPERS.index(one[1].paper)))


def find_item(name: str) -> Item:
    """The item of that name; where there is none, the near names are told."""
    known = items()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 4, 0.5) or [one for one in known if one.startswith(name[:6])]
    told = f"Near: {', '.join(near)}." if near else "`sfumato figure` lists all."
    raise UsageError(f"No paper has an item {name[:60]!r}. {told}")


@asks(ItemAsked)
def figure(name: str, table: Any = None, options: ItemAsked = UNASKED) -> Reached:
    """Compute a numbered table or figure of a paper: what is printed beside what is reached here.

    Nothing is released: the figures look at the originals and are their owner's.

    Parameters
    ----------
    name : str
        PAPER/ITEM as the paper numbers it, for example "principal-laplace/figure-9". `sfumato figure` lists all.
    table : DataFrame, Arrow table or path, optional
        A table of your own. Without it one of the paper's sets.
    {options}

    Returns
    -------
    Reached
        `values`, each with `what`, `printed` (None where the paper prints no number), `reached` and `standard_error`;
        `picture()` is an SVG.

    Examples
    --------
    >>> import sfumato as sf
    >>> found = sf.figure("principal-laplace/figure-6")
    >>> [(one.printed, round(one.reached, 2)) for one in found.values if one.what == "amplification, b = 0.3"]
    [(28.0, 28.03)]
    """
    which = find_item(name)
    data = _rows(which, table, options)
    if which.learns and data.name not in sets.GENERATED and len(np.unique(data.y)) < 2:
        raise UsageError(f"{which.name} learns classes, and all rows are of one. Name the column to predict: --label.")
    repeats = 1 if which.repeats == 0 else options.repeats or which.repeats
    found = []
    for number in range(repeats):
        options.progress("Repeating", number, repeats)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ranges that are learned, or small groups: as published
            found.append(which.once(data, np.random.default_rng([options.seed, number])))
    options.progress("Repeating", repeats, repeats)
    values = _values(which, found, {**which.printed.get(ANY, {}), **which.printed.get(data.name, {})})
    return Reached(which, values, data.name, data.source, len(data.X), repeats, options.seed)


def _values(which: Item, found: Sequence[Found], printed: Mapping[Name, float]) -> tuple[Value, ...]:
    """Means over the repeats, in the order of the first, with their standard errors; then what is made of the means."""
    reached: dict[Name, tuple[float, float | None]] = {}
    for name in dict.fromkeys(one for repeat in found for one in repeat):
        drawn = np.array([repeat[name] for repeat in found if math.isfinite(repeat.get(name, math.nan))])
        if len(drawn):
            error = round(float(drawn.std(ddof=1) / math.sqrt(len(drawn))), 12) if len(drawn) > 1 else None
            reached[name] = float(drawn.mean()), error
    if which.over is not None:
        over, errors = which.over({name: mean for name, (mean, _) in reached.items()}), _jackknife(which.over, found)
        reached |= {name: (float(x), errors.get(name)) for name, x in over.items()}
    return tuple(Value(which.in_words(name), printed.get(name), *one, name) for name, one in reached.items())


def over_repeats(
    drawn: Sequence[Mapping[str, Any]], form: Callable[[Any], Any] = float
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Means of the figures that every repeat has, and of several repeats their standard errors."""
    figures = {name: np.array([one[name] for one in drawn]) for name in drawn[0] if all(name in one for one in drawn)}
    means = {name: form(x.mean(axis=0)) for name, x in figures.items()}
    if len(drawn) < 2:
        return means, None
    return means, {name: form(x.std(axis=0, ddof=1) / len(x) ** 0.5) for name, x in figures.items()}


def _jackknife(over: Callable[[Found], Found], found: Sequence[Found]) -> dict[Name, float]:
    """Standard errors of what is computed from means: each repeat left out once."""
    if len(found) < 2:
        return {}
    left = []
    for number in range(len(found)):
        others = [*found[:number], *found[number + 1 :]]
        left.append(over({name: float(np.mean([one[name] for one in others])) for name in others[0]}))
    return {name: float(np.sqrt((len(left) - 1) * np.var([one[name] for one in left]))) for name in left[0]}


def _rows(which: Item, table: Any, options: ItemAsked) -> DataSet:
    """What the item is computed on: a table of one's own, one of the paper's, or nothing."""
    if not which.sets:
        if any(given is not None for given in (table, options.set, options.test)):
            raise UsageError(f"{which.name} is computed from no table. Leave the table and --set out.")
        return DataSet(ANY, np.empty((0, 0)), np.empty(0, dtype=np.int64), "no table")
    if options.test is not None:
        return _with_test_rows(which, table, options)
    # By default the first of its sets that comes with the product.
    at_hand = next(one for one in which.sets if one in {*sets.BUNDLED, *sets.GENERATED})
    name, most = options.set or (ANY if table is not None else at_hand), options.max_rows
    if name and name not in which.sets:
        raise UsageError(f"{which.name} is about {', '.join(which.sets)}. Got --set {name!r} instead.")
    if table is None:
        data = sets.generated(name, most, options.seed) if name in sets.GENERATED else sets.load(name)
    elif name:
        data = sets.coded(open_table(table), name, options.label or "label")
    else:
        opened = open_table(table)
        data = sets.encoded(opened, schema_of(opened, options.schema, options.label), "your table")
    return data.sample(most, options.seed)


def _with_test_rows(which: Item, table: Any, options: ItemAsked) -> DataSet:
    """Rows for training, and others to test on, both encoded by what is said or read off both together."""
    if table is None:
        raise UsageError("--test has the rows to test on. Name the table to train on too.")
    if which.paper not in SPLIT_BEFOREHAND or options.set is not None:
        raise UsageError(
            f"--test gives a split of your own table to items of {' and '.join(SPLIT_BEFOREHAND)}. Leave it out, or "
            "leave out --set."
        )
    train, test = open_table(table).read(), open_table(options.test).read()
    if not test.num_rows:
        raise TableError("The table of --test has no rows.")
    if missing := [name for name in train.column_names if name not in test.column_names]:
        raise UsageError(f"The rows of --test have no column {missing[0]!r}.")
    both = open_table(pa.concat_tables([train, test.select(train.column_names)], promote_options="permissive"))
    data = sets.encoded(both, schema_of(both, options.schema, options.label), "your tables")
    return replace(data, given=train.num_rows)
