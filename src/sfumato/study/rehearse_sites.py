"""Deal one's own table to L sites, and see what sharing would cost and hide [kernel-resampling, Figs 3-7].

A quarter of the rows is held apart. The others are dealt to L sites: at random, class by class; or so that sites differ
in a column; or as a column of the table says. Every site perturbs its own rows, and a classifier learns from all of
them together. Nothing leaves the machine and nothing is released, so nothing is counted in a ledger.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from sfumato.attacks.base import Knowledge, MembershipScores
from sfumato.attacks.metrics.privacy import auc
from sfumato.attacks.metrics.scored import source_hit_rate
from sfumato.attacks.metrics.utility import RowDensity, dapl
from sfumato.attacks.row_ratios import Membership
from sfumato.auditing.figures.kernel_resampling import dealt
from sfumato.core.accepted import as_published
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import SchemaError, TableError, UsageError
from sfumato.core.progress import silent
from sfumato.core.svg import tag
from sfumato.learn.classifiers.factory import choose_classifier, make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts, public_map
from sfumato.mechanisms import Mechanism, find_mechanism, make_mechanism
from sfumato.reconstruction.picture import BOTTOM, LEFT, TOP, Size, framed, stroke, svg, text, ticks
from sfumato.study.asked import RehearseAsked
from sfumato.table import Encoding, Schema, open_table
from sfumato.table.cell_sets import as_frame, kind_of

TEST_SHARE = 0.25
DRAWS = 200
MOST_ROWS = 5_000
"""Rows that are dealt: of a larger table a random part, since distances grow with the square."""


class Split(NamedTuple):
    """Rows to be dealt, and rows held apart."""

    X: Matrix
    y: Codes
    held: Matrix
    held_y: Codes
    encoding: Encoding


@dataclass(frozen=True)
class Dealing:
    """How rows come to sites: as `named` (0 is the largest site), or at random, of which `share` goes by `order`.

    Of each class as many go by order. By the classes themselves, sites differ in their shares of them.
    """

    named: Codes | None = None
    order: Floats | None = None
    share: float = 0.0
    by_class: bool = False

    def sites(self, rows: Codes, y: Codes, count: int, rng: np.random.Generator) -> list[Codes]:
        """Places among these `rows` (numbers in the table, of classes `y`), site by site."""
        if self.named is not None:
            return [np.flatnonzero(self.named[rows] == site) for site in range(count)]
        if self.order is None:
            return dealt(y, count, rng)
        runs, rest = [], []
        for code in np.unique(y):
            members = rng.permutation(np.flatnonzero(y == code))
            first = round(self.share * len(members))
            runs.append(members[:first][np.argsort(self.order[rows[members[:first]]], kind="stable")])
            rest.append(members[first:])
        left = np.concatenate(rest)
        shares = [left[some] for some in dealt(y[left], count, rng)] if len(left) else [left] * count
        for run in [np.concatenate(runs)] if self.by_class else runs:
            shares = [np.concatenate(both) for both in zip(shares, np.array_split(run, count), strict=True)]
        return [np.sort(share) for share in shares]


@dataclass(frozen=True)
class AtSites:
    """Means over the repeats, for one number of sites.

    original: error after training on all original rows; pooled: on what all sites release; alone: on one site's own
    original rows. phi = pooled - original [Eq. 20], with its standard deviation over the repeats. density_gap:
    half the L1 distance of the sites' density estimates to the same estimate from the rows held apart, which is Eq. 18
    with an estimate in place of the truth; None for mechanisms without a density. hits: share of released
    rows that lie nearest to the row they come from. membership: AUC of telling a row that was released from one held
    apart, .5 for a coin toss.
    """

    sites: int
    original: float
    pooled: float
    alone: float
    phi: float
    spread: float
    density_gap: float | None
    hits: float
    membership: float

    @property
    def worth_it(self) -> bool:
        """Whether pooled releases err no more than one site's own rows."""
        return self.pooled <= self.alone

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "worth_it": self.worth_it}


class Rehearsal:
    """What sharing would cost and hide, for each number of sites.

    Attributes
    ----------
    found : list
        One entry for each number of sites: errors, phi, density gap, source hits and membership.
    """

    def __init__(self, found: list[AtSites], kind: str) -> None:
        self.found, self._kind = found, kind

    def __repr__(self) -> str:
        phis = ", ".join(f"{one.sites}: {one.phi:+.3f}" for one in self.found)
        return f"<Rehearsal, phi by sites: {phis}>"

    @property
    def table(self) -> Any:
        """One row for each number of sites; a frame of the kind of the table."""
        return as_frame(pa.Table.from_pylist([one.to_dict() for one in self.found]), self._kind)

    def plot(self) -> str:
        """Errors and exposure against the number of sites, as an SVG picture."""
        found = {name: [getattr(one, name) for one in self.found] for name in AtSites.__dataclass_fields__}
        errors = {
            "pooled releases": found["pooled"],
            "one site's own rows": found["alone"],
            "all original rows": found["original"],
        }
        shown = {"membership": found["membership"], "source hits": found["hits"]}
        if None not in found["density_gap"]:
            shown["density gap"] = found["density_gap"]
        upper = _panel("What it costs: error on other people", "error", found["sites"], errors)
        lower = _panel("What it shows: exposure, and the gap of densities", "share", found["sites"], shown)
        return svg(SIZE.width, 2 * SIZE.height, [upper, tag("g", lower, transform=f"translate(0 {SIZE.height})")])


UNASKED = RehearseAsked()


@asks(RehearseAsked)
def rehearse(table: Any, sites: Sequence[int] = (1, 2, 4, 8), options: RehearseAsked = UNASKED) -> Rehearsal:
    """Deal a table to L sites, let each perturb its rows, and measure loss and exposure against L.

    Nothing is released, written or counted in a ledger. The figures are for the owner of the table: they were measured
    on its rows.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        Rows with their label. A quarter of them is held apart as test rows.
    sites : sequence of int, default (1, 2, 4, 8)
        Numbers of sites to try, each at least 1.
    {options}

    Returns
    -------
    Rehearsal
        `rehearsal.table` has one row for each number of sites.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20 + i % 60 for i in range(240)], "ill": ["no", "no", "yes"] * 80}
    >>> sf.rehearse(people, (1, 2), label="ill", repeats=1).table["sites"].tolist()
    [1, 2]
    """
    if not sites or min(sites) < 1 or len(set(sites)) < len(sites):
        raise UsageError("--sites must be different numbers of sites, each at least 1, such as 1,2,4,8.")
    made, classifier = _chosen(options)
    if not made.columnwise or made.whole_table:
        raise UsageError(
            f"{options.mechanism} does not keep the table's columns, so its sites cannot be compared row by row."
        )
    rows = open_table(table).read()
    dealing = Dealing()
    if options.site is not None:
        dealing, rows = _as_named(rows, options, max(sites))
    encoding = Encoding(_schema(rows, options))
    X, y = encoding.encode(rows).X, encoding.encode_label(rows)
    if options.skew is not None:
        dealing = _skewed(X, y, encoding, options.skew, options.skew_share)
    if options.site is None:
        _check_size(y, max(sites), encoding, dealing)
    trials: dict[int, list[dict[str, float | None]]] = {count: [] for count in sites}
    progress, repeats = options.progress or silent, options.repeats
    for repeat in range(repeats):
        # The same people for every number of sites.
        train, test = _apart(y, np.random.default_rng([options.seed, repeat]))
        for count in sites:
            progress("Rehearsing", repeat * len(sites) + sites.index(count), repeats * len(sites))
            rng = np.random.default_rng([options.seed, repeat, count])
            members = dealing.sites(train, y[train], count, rng)
            used = np.sort(np.concatenate(members))  # of named sites not all take part
            table_of = Split(X[train][used], y[train][used], X[test], y[test], encoding)
            members = [np.searchsorted(used, some) for some in members]
            trials[count].append(_trial(table_of, members, made, classifier, rng))
    return Rehearsal([_mean(count, trials[count]) for count in sites], kind_of(table))


def _chosen(options: RehearseAsked) -> tuple[Mechanism, str]:
    """The method and the classifier, as published where that is wanted."""
    parameters, known = dict(options.parameters or {}), find_mechanism(options.mechanism)
    if options.published and known is not None:
        parameters = as_published(known.name, known.published, parameters)
    made = make_mechanism(options.mechanism, parameters)
    return made, choose_classifier(options.classifier, published=made.papers if options.published else None).text


def _schema(rows: pa.Table, options: RehearseAsked) -> Schema:
    """As it is given, else as the rows show it; with a label."""
    given = Schema.load(Path(options.schema)) if isinstance(options.schema, str | Path) else options.schema
    schema = given or Schema.infer(rows, label=options.label)
    if schema.label is None:
        raise UsageError("A rehearsal needs classes to predict: give --label COL, or a schema with such a column.")
    return schema


def _skewed(X: Matrix, y: Codes, encoding: Encoding, name: str, share: float) -> Dealing:
    """Sites that differ by this column (its numbers, or the places of its categories), or in their shares of the
    classes where it is the label."""
    label = encoding.schema.label
    if label is not None and name == label.name:
        return Dealing(order=y.astype(np.float64), share=share, by_class=True)
    group = next((one for one in encoding.groups if one.column.name == name), None)
    if group is None:
        raise SchemaError(f"The table has no private column {name!r} to deal by.")
    values = X[:, group.slice].argmax(axis=1) if group.is_onehot else X[:, group.start]
    return Dealing(order=np.asarray(values, dtype=np.float64), share=share)


def _as_named(rows: pa.Table, options: RehearseAsked, most: int) -> tuple[Dealing, pa.Table]:
    """The sites that a column names, the largest first, and the table without it."""
    name = str(options.site)
    if name not in rows.column_names:
        raise SchemaError(f"The table has no column {name!r} that says whose site a row is from.")
    if options.skew is not None:
        raise UsageError("--site says whose rows are whose, and --skew deals them. Leave out one of the two.")
    codes = np.asarray(rows[name].combine_chunks().dictionary_encode().indices.fill_null(-1))
    counts = np.bincount(codes[codes >= 0])
    if (codes < 0).any() or len(counts) < most:
        raise TableError(
            f"Column {name!r} must name a site for every row, and at least {most}. It names {len(counts)}."
        )
    place = np.empty(len(counts), dtype=np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return Dealing(named=place[codes]), rows.drop_columns([name])


def _check_size(y: Codes, most: int, encoding: Encoding, dealing: Dealing) -> None:
    counts = np.bincount(y, minlength=len(encoding.classes))
    at_random = 1 - (dealing.share if dealing.by_class else 0.0)
    least = int((counts[counts > 0] * (1 - TEST_SHARE) * at_random).min())
    if least // most < 2:
        raise TableError(
            f"The rarest class has too few rows for {most} sites: each site needs at least two of every class, and a "
            f"quarter of the rows is held apart. At most {max(1, least // 2)} sites are possible."
        )


def _apart(y: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Rows to deal and rows to hold apart, a share of every class."""
    members = [rng.permutation(np.flatnonzero(y == code)) for code in np.unique(y)]
    test = np.concatenate([rows[: max(1, round(TEST_SHARE * len(rows)))] for rows in members])
    return rng.permutation(np.setdiff1d(np.arange(len(y)), test))[:MOST_ROWS], np.sort(test)[:MOST_ROWS]


def _trial(
    split: Split, sites: Sequence[Codes], mechanism: Mechanism, classifier: str, rng: np.random.Generator
) -> dict[str, float | None]:
    X, y, held, held_y, encoding = split
    parts, alone, sources, fits = [], [], [], []
    for members in sites:
        fit = _fitted(mechanism, X[members], y[members], encoding)
        block = fit.perturb(X[members], y[members], rng)
        assert block.y is not None
        parts.append(Part(block.X, block.y, fit.recipe_))
        sources.append(members[block.source])
        fits.append((members, fit))
        alone.append(_error(classifier, [Part(X[members], y[members])], held, held_y))
    released, source = np.vstack([part.Z for part in parts]), np.concatenate(sources)
    original, pooled = (_error(classifier, rows, held, held_y) for rows in ([Part(X, y)], parts))
    member = Membership("distance").run(Knowledge(released, encoding, candidates=np.vstack([X, held])))
    assert isinstance(member, MembershipScores)
    return {
        "original": original,
        "pooled": pooled,
        "alone": float(np.mean(alone)),
        "phi": pooled - original,
        "density_gap": _density_gap(split, fits, rng),
        "hits": source_hit_rate(released, X, source).rate,
        "membership": auc(member.scores[: len(X)], member.scores[len(X) :]),
    }


def _fitted(mechanism: Mechanism, X: Matrix, y: Codes, encoding: Encoding) -> Mechanism:
    with warnings.catch_warnings(action="ignore"):  # a column that is constant at a site is nothing to decide here
        return type(mechanism)(**mechanism.get_params()).fit(X, y, encoding)


def _error(classifier: str, parts: list[Part], X: Matrix, y: Codes) -> float:
    made, source = make_classifier(classifier), parts[0].source
    placed = None if source is None or answers_plain_rows(made) else public_map(source)
    queries = X if placed is None else np.asarray(X @ placed[0].T + placed[1])
    with warnings.catch_warnings(action="ignore"):
        return float((fit_on_parts(made, parts).predict(queries) != y).mean())


def _density_gap(split: Split, fits: list[tuple[Codes, Mechanism]], rng: np.random.Generator) -> float | None:
    """Over the classes, weighted by rows; against the estimate from the rows held apart."""
    X, y, held, held_y, encoding = split
    first = fits[0][1]
    if not first.estimates_density or np.bincount(held_y)[np.unique(held_y)].min() < 2:
        return None
    apart = _fitted(first, held, held_y, encoding)
    losses, weights = [], []
    for code in np.unique(y).tolist():
        densities = [RowDensity.of(fit, X[rows], y[rows], code) for rows, fit in fits]
        counts = [len(density.rows) for density in densities]
        losses.append(dapl(RowDensity.of(apart, held, held_y, code), densities, counts, rng, DRAWS).loss)
        weights.append(sum(counts))
    return float(np.average(losses, weights=weights))


def _mean(sites: int, trials: list[dict[str, float | None]]) -> AtSites:
    found = {name: np.array([trial[name] for trial in trials], dtype=float) for name in trials[0]}
    means: dict[str, Any] = {name: float(column.mean()) for name, column in found.items()}
    if trials[0]["density_gap"] is None:
        means["density_gap"] = None
    return AtSites(sites, **means, spread=float(np.std(found["phi"], ddof=1)) if len(trials) > 1 else 0.0)


# What sharing costs and shows against the number of sites, as a picture [kernel-resampling, Figs 3-7].

COLOURS = ("#1f5f8b", "#b35900", "#5b5b5b")
DASHES = ("", "7 4", "2 3")
SIZE = Size(720, 330, 5)
NAMES_WIDTH = 150  # room at the right for the names of the lines, so that no legend is needed


def _panel(title: str, measure: str, sites: Sequence[int], lines: dict[str, list[float]]) -> Markup:
    base, right = SIZE.height - BOTTOM, SIZE.width - NAMES_WIDTH
    top = max(1e-9, *(max(values) for values in lines.values())) * 1.05
    step = (right - LEFT) / max(1, len(sites) - 1)

    def up(value: float) -> float:
        return base - value / top * (base - TOP)

    shapes = [text(LEFT - 6, up(tick) + 4, words, "end") for tick, words in ticks(0.0, top, SIZE.marks)]
    shapes += [text(LEFT + place * step, base + 18, str(count), "middle") for place, count in enumerate(sites)]
    shapes.append(text(0.5 * (LEFT + right), SIZE.height - 10, "sites", "middle"))
    lowest = float("inf")  # names are put from the bottom up, and none on another
    ordered = sorted(lines.items(), key=lambda line: line[1][-1])
    for number, (name, values) in enumerate(ordered):
        at = [(LEFT + place * step, up(value)) for place, value in enumerate(values)]
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        shapes.append(tag("polyline", points=places, fill="none", **stroke(COLOURS[number], 2, DASHES[number])))
        shapes += [tag("circle", cx=x, cy=y, r=3.5, fill=COLOURS[number]) for x, y in at]
        lowest = min(at[-1][1] + 4, lowest - 15)
        shapes.append(tag("g", text(right + 10, lowest, name, "start"), fill=COLOURS[number]))
    return framed(title, measure, shapes, base, SIZE)
