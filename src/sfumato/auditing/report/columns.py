"""Original against release, column by column: small pictures of the same size, the most distorted first."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from markupsafe import Markup

from sfumato.auditing.report import markup
from sfumato.auditing.report.bottom_line import asked_about, is_private, use
from sfumato.auditing.report.markup import Section, Shown, drawn
from sfumato.core.svg import tag, trimmed
from sfumato.core.wording import NO_BETTER, WORSE
from sfumato.table.column import iso_date

LEVELS = 10
"""Shades on either side of zero."""
NUMBERED = 14
"""So many columns and no more: the value fits into its cell."""
MOST_IN_A_MAP = 60
CHANGED = 8

Rows = Sequence[Sequence[float]]


def correlations_section(audit: Mapping[str, Any]) -> Section:
    """Heat maps, or why there are none."""
    told = audit.get("correlations") or {}
    found = correlation_maps(told, private=is_private(audit))
    missing = "" if found.maps or found.distance is not None else "the audit holds no correlations"
    why, distance = str(told.get("not_applicable") or missing), markup.figure(found.distance)
    return drawn("correlations", "Correlations", why, maps=found, distance=distance)


def correlation_maps(correlations: Mapping[str, Any], *, private: bool) -> Shown:
    """What is shown of the correlations; `private` False leaves the original and the difference out, whatever the audit
    holds."""
    names = [str(name) for name in correlations.get("names") or ()]
    before = correlations.get("original") if private else None
    after = correlations.get("release")
    shown = min(len(names), MOST_IN_A_MAP)
    told = [("Original", "original", before), ("Release", "release", after)]
    if before is not None and after is not None:
        pairs = zip(before, after, strict=True)
        both = [[b - a for a, b in zip(row, other, strict=True)] for row, other in pairs]
        told.append(("Release minus original", "difference", both))
    maps = [(title, heat_map(what, values, shown)) for title, what, values in told if values is not None]
    return Shown(
        names=names[:shown],
        maps=maps,
        changed=[] if before is None or after is None else changed_most(names, before, after),
        distance=correlations.get("distance"),
        cut=len(names) - shown,
    )


def heat_map(what: str, values: Rows, shown: int) -> Markup:
    """A square of cells, one path a shade: small, and its shades follow the page's colours."""
    cells: dict[int, list[str]] = {}
    numbers = []
    for i, row in enumerate(values[:shown]):
        for j, value in enumerate(row[:shown]):
            cells.setdefault(shade(value), []).append(f"M{j} {i}h1v1h-1z")
            if shown <= NUMBERED and i != j:
                numbers.append(tag("text", brief(value), x=j + 0.5, y=i + 0.65))
    paths = [
        tag("path", d="".join(parts), class_=f"{'n' if level < 0 else 'p'}{abs(level)}")
        for level, parts in sorted(cells.items())
    ]
    axis = range(shown) if shown <= 20 else range(4, shown, 5)
    labels = [tag("text", k + 1, x=-0.35, y=k + 0.66, class_="index side") for k in axis]
    labels += [tag("text", k + 1, x=k + 0.5, y=-0.35, class_="index") for k in axis]
    margin = max(1.3, shown * 0.06)
    return tag(
        "svg",
        tag("title", f"Heat map of the correlations, {what}: column numbers as in the list below"),
        tag("g", *paths, shape_rendering="crispEdges"),
        tag("g", *numbers, class_="cells"),
        tag("g", *labels, font_size=max(shown / 30, 0.42)),
        viewBox=f"{-margin:g} {-margin:g} {shown + margin:g} {shown + margin:g}",
        role="img",
        class_="heat",
        style=f"max-width:{2.6 * (shown + 1.5):.1f}rem",
    )


def shade(value: float) -> int:
    return round(max(-1.0, min(1.0, value)) * LEVELS)


def brief(value: float) -> str:
    """-.31, .05, 1: as short as a cell needs."""
    text = f"{value:.2f}".replace("0.", ".", 1)
    return {"-.00": ".00", "1.00": "1", "-1.00": "-1"}.get(text, text)


def changed_most(names: Sequence[str], before: Rows, after: Rows) -> list[tuple[str, str, str, str]]:
    """The pairs of columns whose correlation the release changed most."""
    pairs = [
        (-abs(after[i][j] - before[i][j]), names[i], names[j], before[i][j], after[i][j])
        for i, j in combinations(range(len(names)), 2)
        if abs(after[i][j] - before[i][j]) >= 0.005
    ]
    return [(one, other, markup.signed(was), markup.signed(now)) for _, one, other, was, now in sorted(pairs)[:CHANGED]]


MOST_COLUMNS = 24
MOST_CATEGORIES = 8
WIDTH, HEIGHT = 240.0, 80.0


def columns_section(audit: Mapping[str, Any]) -> Section:
    """The most distorted columns as small pictures."""
    found = list(audit.get("distributions") or ())
    private = is_private(audit)
    has_original = private and any(entry.get("original") is not None for entry in found)
    none_applies = all(entry.get("not_applicable") for entry in found)
    return drawn(
        "columns",
        f"{'Original against release' if has_original else 'The release'}, column by column",
        (found[0]["not_applicable"] if found else "the audit holds no columns") if none_applies else "",
        pictures=pictures(found, private=private),
        columns_in_all=len(found),
        has_original=has_original,
        has_distance=any(entry.get("distance") is not None for entry in found),
        columnwise=(audit.get("release") or {}).get("columnwise"),
    )


def pictures(distributions: Sequence[Mapping[str, Any]], *, private: bool) -> list[Shown]:
    """At most 24 columns by distance, a histogram with its two ends or bars of categories; columns without a distance
    come last. `private` False leaves the original out, whatever the audit holds."""
    order = sorted(distributions, key=lambda entry: -(-1.0 if entry.get("distance") is None else entry["distance"]))
    found = []
    for entry in order[:MOST_COLUMNS]:
        before, after = shares(entry.get("original")) if private else None, shares(entry.get("release"))
        shown = Shown(
            name=entry["name"],
            kind=entry.get("kind", ""),
            distance=markup.figure(entry.get("distance")),
            missing=_missing(entry, private),
            not_applicable=entry.get("not_applicable", ""),
            **{"histogram": None, "ends": None, "categories": [], "left_out": 0},
        )
        found.append(shown)
        if before is None and after is None:
            continue
        if entry.get("categories") is not None:
            shown.categories, shown.left_out = categories(entry["categories"], before, after)
        else:
            shown.histogram = histogram(entry["name"], before, after)
            if edges := entry.get("edges"):
                shown.ends = _end(entry, edges[0]), _end(entry, edges[-1])
    return found


def _end(entry: Mapping[str, Any], edge: float) -> str:
    """An edge in the column's own units; far-off noise has no date of its own."""
    if entry.get("kind") == "date":
        with contextlib.suppress(OverflowError):
            return iso_date(edge)
    return f"rank {markup.quantity(edge)}" if entry.get("kind") == "ordinal" else markup.quantity(edge)


def shares(counts: Sequence[int] | None) -> list[float] | None:
    """Counts as shares of their sum: release and original may differ in size."""
    if counts is None:
        return None
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]


def histogram(name: str, before: list[float] | None, after: list[float] | None) -> Markup:
    """The original as a filled shape, the release as a line over it: told apart by shape, not by colour alone."""
    top, floor = max([*(before or ()), *(after or ()), 1e-12]), trimmed(HEIGHT)
    shapes = [tag("title", f"Histogram of {name}")]
    if before is not None:
        shapes.append(tag("path", d=f"{steps(before, top)}V{floor}H0z", class_="original"))
    if after is not None:
        shapes.append(tag("path", d=steps(after, top), class_="release"))
    shapes.append(tag("path", d=f"M0 {floor}h{trimmed(WIDTH)}", class_="axis"))
    size = f"0 -2 {WIDTH:g} {HEIGHT + 3:g}"
    return tag("svg", *shapes, viewBox=size, preserveAspectRatio="none", role="img", class_="hist")


def steps(values: list[float], top: float) -> str:
    """The outline of a histogram."""
    width = trimmed(WIDTH / max(len(values), 1))
    path = "".join(f"V{trimmed(HEIGHT * (1 - value / top))}h{width}" for value in values)
    return f"M0 {trimmed(HEIGHT)}{path}V{trimmed(HEIGHT)}"


def categories(
    names: Sequence[str], before: list[float] | None, after: list[float] | None
) -> tuple[list[tuple[str, Markup, str]], int]:
    """The commonest categories, each with a bar for the original above one for the release."""
    main = before if before is not None else after or []
    order = sorted(range(len(names)), key=lambda k: (-main[k], k))[:MOST_CATEGORIES]
    rows = []
    for k in order:
        was, now = (None if values is None else values[k] for values in (before, after))
        words = " → ".join(percent(value) for value in (was, now) if value is not None)
        rows.append((str(names[k]), category_bars(was, now), words))
    return rows, len(names) - len(order)


def category_bars(before: float | None, after: float | None) -> Markup:
    shapes = [tag("rect", x=0, y=0, width="100%", height=14, class_="track")]
    if before is not None:
        shapes.append(tag("rect", x=0, y=1, width=markup.share(before), height=6, class_="original"))
    if after is not None:
        shapes.append(tag("rect", x=0, y=8, width=markup.share(after), height=5, class_="release"))
    return tag("svg", *shapes, width="100%", height=14, class_="pair", aria_hidden="true")


def percent(value: float) -> str:
    return f"{100 * value:.0f}%" if value >= 0.01 or value == 0 else "<1%"


def _missing(entry: Mapping[str, Any], private: bool) -> str:
    missing = entry.get("missing") or {}
    if entry.get("reported") is not None:
        return f"reported by {percent(entry['reported'])} of the rows"
    if missing.get("release") is None:
        return ""
    if private and missing.get("original") is not None:
        return f"missing: {percent(missing['original'])} → {percent(missing['release'])}"
    return f"missing in the release: {percent(missing['release'])}"


VERDICTS = {NO_BETTER: "no better than the commonest class", WORSE: "worse than the commonest class"}
COMMONEST = tag("path", d="M0-10v20", class_="commonest")
ORIGINAL = tag("circle", r=5, class_="ring")
RELEASE = tag("path", d="M0-6l6 6l-6 6l-6-6z", class_="diamond")
MARKS = [
    (markup.sign(ORIGINAL), "learned from the original"),
    (markup.sign(RELEASE), "learned from the release"),
    (markup.sign(markup.INTERVAL), "95% interval of the loss"),
    (markup.sign(COMMONEST), "always the commonest class"),
]
MOST_SHOWN = 5
SHARES = {"marginals": "Shares of one column", "pairs": "Shares of two columns together"}


def use_section(audit: Mapping[str, Any]) -> Section:
    """What is left: learners where there is a column to predict, and how far shares of columns are off."""
    found = audit.get("fidelity") or {}
    off = [
        (words, markup.of_100(found[part]["release"]), markup.of_100(found[part].get("original")))
        for part, words in SHARES.items()
        if (found.get(part) or {}).get("release") is not None
    ]
    classifiers = learned(audit.get("utility") or ())
    return drawn(
        "use",
        "Of use?",
        words=use(audit),
        tested=asked_about((audit.get("utility") or [{}])[0]),
        learned=[(entry, dots(entry)) for entry in classifiers[:MOST_SHOWN]],
        verdicts=VERDICTS,
        more=len(classifiers[MOST_SHOWN:]),
        marks=MARKS,
        off=off,
        against=found.get("against") or "",
    )


def accuracy_section(audit: Mapping[str, Any]) -> Section:
    """The same classifiers, figure by figure."""
    found = learned(audit.get("utility") or ())
    why = "" if found else "accuracy was not measured; the notes say why"
    return drawn("accuracy", "Accuracy before and after", why, learned=found, verdicts=VERDICTS, signed=markup.signed)


def learned(utility: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The most accurate with the release first; classifiers that failed come last."""
    return sorted(utility, key=lambda entry: -1.0 if entry.get("release") is None else entry["release"], reverse=True)


def dots(entry: Mapping[str, Any]) -> Markup | None:
    """A ring for the original, a filled diamond for the release; the whisker is phi's interval seen from the ring."""
    before, after = entry.get("original"), entry.get("release")
    if before is None or after is None:
        return None
    interval = markup.ends(entry.get("interval"))
    shapes = [
        tag("line", x1=0, x2="100%", y1=markup.MIDDLE, y2=markup.MIDDLE, class_="rail"),
        tag(
            "line",
            x1=markup.share(min(before, after)),
            x2=markup.share(max(before, after)),
            y1=markup.MIDDLE,
            y2=markup.MIDDLE,
            class_="join",
        ),
    ]
    if interval is not None:
        shapes += markup.whisker(before - interval[1], before - interval[0])
    now, was = markup.of_100(after), markup.of_100(before)
    words = f"{entry['classifier']}: right {now} of 100 with the release, {was} with the original"
    if (commonest := entry.get("commonest")) is not None:
        shapes.append(markup.at(commonest, COMMONEST))
        words += f", {markup.of_100(commonest)} by always answering the commonest class"
    shapes += [markup.at(before, ORIGINAL), markup.at(after, RELEASE)]
    return markup.chart_row(words, *shapes)
