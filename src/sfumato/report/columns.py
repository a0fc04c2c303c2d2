"""Original against release, column by column: small pictures of the same size, the most distorted first."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.report.bottom_line import is_private
from sfumato.report.markup import Section, drawn, share, tag, trimmed
from sfumato.report.wording import figure, quantity
from sfumato.table.column import iso_date

MOST_COLUMNS = 24
MOST_CATEGORIES = 8
WIDTH, HEIGHT = 240.0, 80.0


@dataclass(frozen=True)
class Picture:
    """One column: a histogram with its two ends, or bars of categories."""

    name: str
    kind: str
    distance: str
    histogram: Markup | None = None
    ends: tuple[str, str] | None = None
    categories: tuple[tuple[str, Markup, str], ...] = ()
    left_out: int = 0
    missing: str = ""
    not_applicable: str = ""


def columns_section(audit: Mapping[str, Any]) -> Section:
    """The most distorted columns as small pictures."""
    found = list(audit.get("distributions") or ())
    private = is_private(audit)
    has_original = private and any(entry.get("original") is not None for entry in found)
    title = f"{'Original against release' if has_original else 'The release'}, column by column"
    if not found or all(entry.get("not_applicable") for entry in found):
        return Section("columns", title, why=found[0]["not_applicable"] if found else "the audit holds no columns")
    return drawn(
        "columns",
        title,
        pictures=pictures(found, private=private),
        columns_in_all=len(found),
        has_original=has_original,
        has_distance=any(entry.get("distance") is not None for entry in found),
        columnwise=(audit.get("release") or {}).get("columnwise"),
    )


def pictures(distributions: Sequence[Mapping[str, Any]], *, private: bool) -> list[Picture]:
    """At most 24 columns by distance; columns without one come last."""
    order = sorted(distributions, key=lambda entry: -(-1.0 if entry.get("distance") is None else entry["distance"]))
    return [picture(entry, private=private) for entry in order[:MOST_COLUMNS]]


def picture(entry: Mapping[str, Any], *, private: bool) -> Picture:
    """`private` False leaves the original out, whatever the audit holds."""
    before = shares(entry.get("original")) if private else None
    after = shares(entry.get("release"))
    shown: dict[str, Any] = {
        "name": entry["name"],
        "kind": entry.get("kind", ""),
        "distance": figure(entry.get("distance")),
        "missing": _missing(entry, private),
        "not_applicable": entry.get("not_applicable", ""),
    }
    if before is None and after is None:
        return Picture(**shown)
    if entry.get("categories") is not None:
        rows, left_out = categories(entry["categories"], before, after)
        return Picture(**shown, categories=tuple(rows), left_out=left_out)
    edges = entry.get("edges") or []
    ends = (_end(entry, edges[0]), _end(entry, edges[-1])) if edges else None
    return Picture(**shown, histogram=histogram(entry["name"], before, after), ends=ends)


def _end(entry: Mapping[str, Any], edge: float) -> str:
    """An edge in the column's own units; far-off noise has no date of its own."""
    if entry.get("kind") == "date":
        with contextlib.suppress(OverflowError):
            return iso_date(edge)
    return f"rank {quantity(edge)}" if entry.get("kind") == "ordinal" else quantity(edge)


def shares(counts: Sequence[int] | None) -> list[float] | None:
    """Counts as shares of their sum: release and original may differ in size."""
    if counts is None:
        return None
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]


def histogram(name: str, before: list[float] | None, after: list[float] | None) -> Markup:
    """The original as a filled shape, the release as a line over it: told apart by shape, not by colour alone."""
    top = max([*(before or ()), *(after or ()), 1e-12])
    shapes = [tag("title", f"Histogram of {name}")]
    if before is not None:
        shapes.append(tag("path", d=f"{steps(before, top)}V{trimmed(HEIGHT)}H0z", class_="original"))
    if after is not None:
        shapes.append(tag("path", d=steps(after, top), class_="release"))
    shapes.append(tag("path", d=f"M0 {trimmed(HEIGHT)}h{trimmed(WIDTH)}", class_="axis"))
    return tag(
        "svg", *shapes, viewBox=f"0 -2 {WIDTH:g} {HEIGHT + 3:g}", preserveAspectRatio="none", role="img", class_="hist"
    )


def steps(values: list[float], top: float) -> str:
    """The outline of a histogram."""
    width = WIDTH / max(len(values), 1)
    path = f"M0 {trimmed(HEIGHT)}"
    for value in values:
        path += f"V{trimmed(HEIGHT * (1 - value / top))}h{trimmed(width)}"
    return path + f"V{trimmed(HEIGHT)}"


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
        shapes.append(tag("rect", x=0, y=1, width=share(before), height=6, class_="original"))
    if after is not None:
        shapes.append(tag("rect", x=0, y=8, width=share(after), height=5, class_="release"))
    return tag("svg", *shapes, width="100%", height=14, class_="pair", aria_hidden="true")


def percent(value: float) -> str:
    return f"{100 * value:.0f}%" if value >= 0.01 or value == 0 else "<1%"


def _missing(entry: Mapping[str, Any], private: bool) -> str:
    missing = entry.get("missing")
    if entry.get("reported") is not None:
        return f"reported by {percent(entry['reported'])} of the rows"
    if not missing or missing.get("release") is None:
        return ""
    if private and missing.get("original") is not None:
        return f"missing: {percent(missing['original'])} → {percent(missing['release'])}"
    return f"missing in the release: {percent(missing['release'])}"
