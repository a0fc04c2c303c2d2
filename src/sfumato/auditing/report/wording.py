"""Plain words for what the audit names in one word, and figures as a data steward reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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

DETAILS = {
    "auc": ("Pairs told apart, one of whom is in the table (AUC; 0.5 is a coin toss)", "figure"),
    "median_distance": ("Median distance of a person in the table to the nearest released row", "figure"),
    "median_distance_control": ("The same for a person not in the table", "figure"),
    "median_doubt": ("Median doubt about a person's row: minus the log of its share of the likelihood", "figure"),
    "median_doubt_control": ("The same for a person not in the table", "figure"),
    "chosen_on": ("People on whom it was decided what is compared", "count"),
    "reported_on": ("Other people, on whom it is measured", "count"),
    "choice_auc_likelihood": ("AUC by likelihood where that was decided", "figure"),
    "choice_auc_distance": ("AUC by distance where that was decided", "figure"),
    "strangers_as_near": ("People not in the table who lie as near (0.5: those in it lie no nearer)", "figure"),
    "out_of": ("People among whom the right one is to be found", "count"),
    "source_hits": (
        "Released rows whose likeliest (or nearest) record is their source (source-hit rate)",
        "figure",
    ),
    "never_drawn": ("Share of people in the table without a released row", "figure"),
    "bounds_hold": ("Share of intervals that contain the truth", "figure"),
    "mean_width": ("Mean width of the intervals, as a share of the range", "figure"),
    "eligible": ("Share of records that have a rare property at all", "figure"),
    "rare_prior": ("Prior of the likeliest of the rare properties", "figure"),
    "any_release": (
        "The most that its belief can become, whatever is released (1: nothing bounds it)",
        "figure",
    ),
    "largest_odds_ratio": ("Largest factor by which the release raised the odds of a property", "factor"),
    "collapsed": ("Share of numbers whose interval is right and narrower than what counts as a hit", "figure"),
    "unified_min": (
        "Error left on the column guessed best: variance, weighted, at most that of guessing the mean",
        "figure",
    ),
    "unified_avg": ("The same on average over the columns (unified privacy; larger is safer)", "figure"),
    "sigma_min": ("Error left on the column guessed best, as a standard deviation over its range", "figure"),
    "sigma_avg": ("The same on average over the columns (larger is safer)", "figure"),
    "predicates": ("Predicates tried: each is true of exactly one released row", "count"),
    "people_singled_out": ("People of the table who were singled out", "count"),
    "rows_of_people": ("Released rows that fit a person, on which it is measured", "count"),
    "rows_in_all": ("Released rows in all", "count"),
    "known_rows": ("People whose original and released rows are known", "count"),
    "sample_rows": ("Similar people in the attacker's sample", "count"),
    "mean_axis_certainty": ("How surely the sample's principal axes are those of the table (1: certainly)", "figure"),
    "converged_runs": ("Runs of ICA that settled", "count"),
    "runs": ("Runs of ICA", "count"),
    "stable_components": ("Share of components that another run found too", "figure"),
    "simulated_people": ("People whom the attacker released itself, to learn from", "count"),
    "columns_usual": ("Columns in which it would rather guess", "count"),
    "columns_released": ("Columns read as they were released", "count"),
    "columns_linear": ("Columns read off a line", "count"),
    "columns_forest": ("Columns read off a forest", "count"),
    "mean_sureness": ("How sure the attacker is of its guesses, on average", "figure"),
    "largest_sureness": ("How sure it is of the surest one", "figure"),
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
    if not columns:
        return DASH
    others = [name for name in names if name not in columns]
    if len(columns) + len(others) != len(names):
        return ", ".join(columns)
    count = f"{len(columns)} of {len(names)}"
    if not others:
        return f"{count}: all of them"
    return f"{count}: all but {', '.join(others)}" if len(others) < len(columns) else f"{count}: {', '.join(columns)}"


AS_READ = {one.__name__: one for one in (figure, of_100, quantity, signed, between, told)}
"""How templates write figures, by filter."""


def detail_rows(details: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Each further figure of an attack in words, with its interval where there is one."""
    rows = []
    for key, value in details.items():
        if key.endswith(("_low", "_high")) and key.rpartition("_")[0] in details:
            continue
        words, unit = DETAILS.get(key, (key.replace("_", " "), "figure"))
        if key.startswith(RECOVERED):
            words = f"Values recovered with {key.removeprefix(RECOVERED)} known rows"
        text = {"figure": figure, "count": quantity, "factor": factor}[unit](value)
        rows.append((words, text, between([details.get(f"{key}_low"), details.get(f"{key}_high")])))
    return rows


def factor(value: float | None) -> str:
    if value is None:
        return DASH
    return "without limit" if value > 1e12 else f"{value:,.3g} times"


def setting_rows(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The audit's settings in the order above, those unknown to us last under their own name."""
    order = [*[key for key in SETTINGS if key in settings], *[key for key in settings if key not in SETTINGS]]
    return [(in_words(SETTINGS, key), setting(key, settings[key])) for key in order]


def setting(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "alignment":
        return ALIGNMENT.get(str(value), str(value))
    if key != "seed" and isinstance(value, int):
        return f"{value:,}"
    return DASH if value is None else str(value)
