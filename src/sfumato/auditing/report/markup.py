"""Templates, sections of pages, and names that may be broken."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import jinja2
from markupsafe import Markup, escape

from sfumato.auditing.extra import shown_points
from sfumato.core.svg import EMPTY, tag, trimmed

DASH = "–"

KNOWLEDGE = {
    "release": "the whole release",
    "labels": "the labels",
    "transform": "how columns were mixed (the basis or matrix)",
    "noise": "the law of the noise",
    "noise_covariance": "how strong the noise is",
    "guided": "the guidance that the bits were drawn by",
    "column_moments": "averages and correlations of the population",
    "column_distributions": "the distribution of each column in the population",
    "known_rows": "some original records together with their released rows",
    "sample": "records of like people",
    "simulator": "how such releases are made",
    "lineups": "for each released row some people, of whom one is behind it",
    "images": "whose row each released row is",
    "register": "the original records of everybody in the table",
    "candidates": "records of people who may or may not be in the table",
    "targets": "original records of the people attacked",
    "secret": "everything about them but one column, the secret",
}

COUNTS = {
    "chosen_on": "People on whom it was decided what is compared",
    "reported_on": "Other people, on whom it is measured",
    "out_of": "People among whom the right one is to be found",
    "predicates": "Predicates tried: each is true of exactly one released row",
    "people_singled_out": "People of the table who were singled out",
    "rows_of_people": "Released rows that fit a person, on which it is measured",
    "rows_in_all": "Released rows in all",
    "known_rows": "People whose original and released rows are known",
    "sample_rows": "Similar people in the attacker's sample",
    "converged_runs": "Runs of ICA that settled",
    "runs": "Runs of ICA",
    "simulated_people": "People whom the attacker released itself, to learn from",
    "columns_usual": "Columns in which it would rather guess",
    "columns_released": "Columns read as they were released",
    "columns_linear": "Columns read off a line",
    "columns_forest": "Columns read off a forest",
}
"""Further figures of an attack that count something, in words."""
DETAILS = COUNTS | {
    "auc": "Pairs told apart, one of whom is in the table (AUC; 0.5 is a coin toss)",
    "median_distance": "Median distance of a person in the table to the nearest released row",
    "median_distance_control": "The same for a person not in the table",
    "median_doubt": "Median doubt about a person's row: minus the log of its share of the likelihood",
    "median_doubt_control": "The same for a person not in the table",
    "choice_auc_likelihood": "AUC by likelihood where that was decided",
    "choice_auc_distance": "AUC by distance where that was decided",
    "strangers_as_near": "People not in the table who lie as near (0.5: those in it lie no nearer)",
    "source_hits": "Released rows whose likeliest (or nearest) record is their source (source-hit rate)",
    "never_drawn": "Share of people in the table without a released row",
    "bounds_hold": "Share of intervals that contain the truth",
    "mean_width": "Mean width of the intervals, as a share of the range",
    "eligible": "Share of records that have a rare property at all",
    "rare_prior": "Prior of the likeliest of the rare properties",
    "any_release": "The most that its belief can become, whatever is released (1: nothing bounds it)",
    "largest_odds_ratio": "Largest factor by which the release raised the odds of a property",
    "collapsed": "Share of numbers whose interval is right and narrower than what counts as a hit",
    "unified_min": "Error left on the column guessed best: variance, weighted, at most that of guessing the mean",
    "unified_avg": "The same on average over the columns (unified privacy; larger is safer)",
    "sigma_min": "Error left on the column guessed best, as a standard deviation over its range",
    "sigma_avg": "The same on average over the columns (larger is safer)",
    "mean_axis_certainty": "How surely the sample's principal axes are those of the table (1: certainly)",
    "stable_components": "Share of components that another run found too",
    "mean_sureness": "How sure the attacker is of its guesses, on average",
    "largest_sureness": "How sure it is of the surest one",
}
RECOVERED = "recovered_with_"

ALIGNMENT = {
    "trace": "known from the owner's private trace",
    "same-order": "release and original are in the same order",
    "id": "told by a column that both tables carry",
    "mapping": "told by a file of row numbers",
    "identical-rows": "found by identical rows",
    "matched": "found as an attacker would: matched by likelihood",
    "unknown": "unknown",
}

SETTINGS = {
    "rows_used": "Release rows audited",
    "people_used": "People of the original audited",
    "holdout_rows": "People not in the table",
    "sampled": "A sample instead of all rows",
    "targets": "People attacked one by one",
    "candidates": "People whose membership was guessed",
    "tolerance": "A guessed number counts as right within this share of the column's range",
    "repeats": "Random splits for accuracy",
    "alignment": "Whose row each released row is",
    "as_published": "Attackers and classifiers as published",
    "seed": "Seed of the audit's own sampling",
}


def in_words(words: Mapping[str, str], name: str) -> str:
    """What a name stands for; one that is new to us stays as it is."""
    return words.get(name, name.replace("_", " "))


def figure(value: float | None) -> str:
    """A share between 0 and 1 with as many digits as the eye can use; None is a dash, never a zero."""
    if value is None:
        return DASH
    if value and abs(value) < 0.0005:
        return "<0.001" if value > 0 else ">-0.001"
    return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) in (0.0, 1.0) else f"{value:.3f}"


def of_100(share: float | None) -> str:
    """A share as points of 100, with one decimal where it has one."""
    return DASH if share is None else f"{100 * share:.1f}".removesuffix(".0")


def quantity(value: float | None) -> str:
    """A number of any size in three digits, thousands as people write them."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def ends(interval: Sequence[float | None] | None) -> tuple[float, float] | None:
    """Both ends of an interval, or None if the audit does not hold both."""
    low, high = interval if interval is not None and len(interval) == 2 else (None, None)
    return None if low is None or high is None else (low, high)


def between(interval: Sequence[float | None] | None, form: Callable[[float], str] = figure) -> str:
    """Both ends, or nothing where the audit does not hold them."""
    found = ends(interval)
    return "" if found is None else " to ".join(map(form, found))


def signed(value: float | None) -> str:
    return DASH if value is None else f"{value:+.3f}"


def told(columns: Sequence[str], names: Sequence[str]) -> str:
    """The columns that are told, or the others where these are fewer: a list that can be read.

    >>> told(["age", "sex", "zip"], ["age", "sex", "zip", "job"])
    '3 of 4: all but job'
    """
    others = [name for name in names if name not in columns]
    if not columns:
        return DASH
    if len(columns) + len(others) != len(names):
        return ", ".join(columns)
    which = ", ".join(columns)
    if len(others) < len(columns):
        which = f"all but {', '.join(others)}" if others else "all of them"
    return f"{len(columns)} of {len(names)}: {which}"


AS_READ = {one.__name__: one for one in (figure, of_100, quantity, signed, between, told)}
"""How templates write figures, by filter."""


def detail_rows(details: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Each further figure of an attack in words, with its interval where there is one."""
    rows = []
    for key, value in details.items():
        if key.endswith(("_low", "_high")) and key.rpartition("_")[0] in details:
            continue
        words = in_words(DETAILS, key)
        if key.startswith(RECOVERED):
            words = f"Values recovered with {key.removeprefix(RECOVERED)} known rows"
        write = factor if key == "largest_odds_ratio" else quantity if key in COUNTS else figure
        rows.append((words, write(value), between([details.get(f"{key}_low"), details.get(f"{key}_high")])))
    return rows


def factor(value: float | None) -> str:
    if value is None:
        return DASH
    return "without limit" if value > 1e12 else f"{value:,.3g} times"


def setting_rows(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The audit's settings in the order above, those unknown to us last under their own name."""
    rows = []
    for key in sorted(settings, key=lambda key: list(SETTINGS).index(key) if key in SETTINGS else len(SETTINGS)):
        value = settings[key]
        words = DASH if value is None else str(value)
        if isinstance(value, bool):
            words = "yes" if value else "no"
        elif key == "alignment":
            words = ALIGNMENT.get(words, words)
        elif key != "seed" and isinstance(value, int):
            words = f"{value:,}"
        rows.append((in_words(SETTINGS, key), words))
    return rows


LONGEST = 64
"""Characters of a name; the list of all columns has it in full."""


Shown = SimpleNamespace
"""What a template shows, by name: put together where it is drawn."""


@dataclass(frozen=True)
class Section:
    """A part of a page that has drawn itself. Without `html` it does not apply, and `why` is one line."""

    id: str
    title: str
    html: Markup = EMPTY
    why: str = ""


def templates(package: str, **filters: Callable[..., object]) -> jinja2.Environment:
    """The templates of a package. A name that a template does not know is an error, never an empty place."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"breakable": breakable, **filters}
    return environment


@cache
def report_text(name: str) -> str:
    """A style sheet or a script of the report: our own file, so it needs no escaping."""
    return files("sfumato.auditing.report").joinpath(name).read_text(encoding="utf-8")


@cache
def report_template(name: str) -> jinja2.Template:
    """A page of the report; figures are written as its readers know them."""
    return templates("sfumato.auditing.report", short_name=short_name, **AS_READ).get_template(name)


def drawn(name: str, title: str, why: str = "", **parts: object) -> Section:
    """A section by its own template, or `why` it does not apply."""
    html = EMPTY if why else Markup(report_template(f"{name}.html.j2").render(parts))
    return Section(name, title, html, why)


def breakable(text: object) -> Markup:
    """A name that may be broken where a person would break it: behind an underscore, a slash, a full stop."""
    safe = escape(text)
    for sign in "_/.=":
        safe = safe.replace(sign, Markup(f"{sign}<wbr>"))
    return safe


def short_name(text: object) -> Markup:
    """The same, cut in the middle where it would fill a page."""
    name = str(text)
    return breakable(name if len(name) <= LONGEST else f"{name[: LONGEST - 20]}…{name[-16:]}")


def share(value: float) -> str:
    """A position on a scale from 0 to 1 as a percentage of the width."""
    return f"{trimmed(100 * min(1.0, max(0.0, value)))}%"


def at(value: float, *children: object) -> Markup:
    """Children drawn around a position of the scale, in pixels: shapes keep their size whatever the width."""
    return tag("svg", *children, x=share(value), y="50%", overflow="visible")


MIDDLE, HEIGHT = 13, 26


def bar(entry: Mapping[str, Any], state: str) -> Markup:
    """Right as a bar, a whisker for its interval, a line for right without the release, a ring for other people."""
    points, others = shown_points(entry), entry.get("control")
    right, without = points.right / 100, points.without / 100
    words = [f"{entry['name']}: right {of_100(right)} of 100"]
    shapes = [
        tag("rect", x=0, y=5, width="100%", height=16, class_="track"),
        tag("rect", x=0, y=5, width=share(right), height=16, class_=f"bar {state}"),
    ]
    if ends(entry.get("interval")) is not None:
        low, high = without + points.low / 100, without + points.high / 100
        words.append(f"95% interval {of_100(low)} to {of_100(high)}")
        shapes += whisker(low, high)
    if points.pairs or entry.get("baseline") is not None:
        words.append(f"without the release {of_100(without)}")
        shapes.append(at(without, WITHOUT))
    if others is not None:
        words.append(f"about people not in the table {of_100(others)}")
        shapes.append(at(others, OTHERS))
    return chart_row(", ".join(words), *shapes)


def whisker(low: float, high: float) -> list[Markup]:
    """An interval as a thin line with two ends."""
    line = tag("line", x1=share(low), x2=share(high), y1=MIDDLE, y2=MIDDLE, class_="whisker")
    return [line, *[at(end, tag("path", d="M0-4v8", class_="whisker")) for end in (low, high)]]


def chart_row(words: str, *shapes: Markup) -> Markup:
    """A drawing as wide as its place: positions are shares of the width, signs keep their size."""
    return tag("svg", tag("title", words), *shapes, class_="row", role="img", height=HEIGHT, width="100%")


def sign(mark: Markup) -> Markup:
    """A mark in a legend."""
    return tag("svg", mark, viewBox="-12 -12 24 24", width=20, height=20, class_="sign", aria_hidden="true")


WITHOUT = tag("path", d="M0-12v24", class_="baseline")
OTHERS = tag("circle", r=4.5, class_="control")
INTERVAL = tag("path", d="M-8 0h16M-8-4v8M8-4v8", class_="whisker")


def legend(attacks: Iterable[Mapping[str, Any]]) -> Markup:
    """What the signs mean; the ring only where people not in the table are compared."""
    told = [(INTERVAL, "95% interval"), (WITHOUT, "without the release")]
    if any(entry.get("control") is not None for entry in attacks):
        told.append((OTHERS, "about people not in the table"))
    return tag("p", *(tag("span", sign(mark), f" {words}") for mark, words in told), class_="legend")


GAINS, POPULATION, UNCLEAR, NO_GAIN = "gains", "population", "unclear", "no-gain"
SIGNS = {GAINS: "▲", POPULATION: "◆", UNCLEAR: "?", NO_GAIN: "▽"}
IN_SHORT = {
    GAINS: "learns from the release",
    POPULATION: "as much about people not in the table",
    UNCLEAR: "within chance",
    NO_GAIN: "learns nothing",
}
IN_WORDS = {
    GAINS: "More than without the release, beyond chance.",
    POPULATION: "More than without the release, but no more than about people not in the table.",
    UNCLEAR: "More than without the release, but that may be chance.",
    NO_GAIN: "No more than without the release.",
}
COUNTED = {
    GAINS: ("learns from the release", "learn from the release"),
    POPULATION: ("learns as much about people not in the table", "learn as much about people not in the table"),
    UNCLEAR: ("is within chance", "are within chance"),
    NO_GAIN: ("learns nothing", "learn nothing"),
}
ORDER = (GAINS, POPULATION, UNCLEAR, NO_GAIN)
CHANCE = 0.025
"""In all: where the best of many figures is shown, each must pass a stricter test (Bonferroni)."""


def verdict(entry: Mapping[str, Any]) -> str:
    """Compare the lower end of the interval with right without the release, then with that about other people."""
    low = (ends(entry.get("interval")) or (entry["score"], 1.0))[0]
    return _verdict(entry["score"], low, entry.get("baseline"), entry.get("control"))


def column_verdict(column: Mapping[str, Any], people: int, comparisons: int) -> str:
    """The same for one column; its interval follows from the number of people attacked and of figures compared."""
    score = float(column["score"])
    width = NormalDist().inv_cdf(1 - CHANCE / max(comparisons, 1))
    error = math.sqrt(score * (1 - score) / people) if people else math.inf
    return _verdict(score, score - width * error, column.get("baseline"), column.get("control"))


def _verdict(score: float, low: float, baseline: float | None, control: float | None) -> str:
    if score <= (baseline or 0.0):
        return NO_GAIN
    if low <= (baseline or 0.0):
        return UNCLEAR
    return POPULATION if control is not None and low <= control else GAINS


def in_all(verdicts: Iterable[str]) -> str:
    """One sentence: how many attackers learn something.

    >>> in_all([GAINS, GAINS, NO_GAIN])
    'Of 3 attackers, 2 learn from the release and 1 learns nothing.'
    """
    found = Counter(verdicts)
    if len(found) > 1:
        parts = [f"{found[state]} {COUNTED[state][found[state] > 1]}" for state in ORDER if state in found]
        return f"Of {found.total()} attackers, {', '.join(parts[:-1])} and {parts[-1]}."
    for state, count in found.items():
        return f"{f'All {count} attackers' if count > 1 else 'The one attacker'} {COUNTED[state][count > 1]}."
    return ""
