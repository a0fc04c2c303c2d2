"""How columns hang together, before and after: heat maps, and the pairs that changed most in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.report.bottom_line import is_private
from sfumato.report.markup import Section, drawn, tag
from sfumato.report.wording import figure, signed

LEVELS = 10
"""Shades on either side of zero."""
STRONG = 8
"""Beyond this shade figures are written in the colour of the paper."""
NUMBERED = 14
"""So many columns and no more: the value fits into its cell."""
MOST_COLUMNS = 60
CHANGED = 8

Rows = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Maps:
    """What is shown of the correlations; a map that the audit leaves out is not there."""

    names: list[str]
    maps: list[tuple[str, Markup]]
    changed: list[tuple[str, str, str, str]]
    distance: float | None
    not_applicable: str
    cut: int


def correlations_section(audit: Mapping[str, Any]) -> Section:
    """Heat maps, or why there are none."""
    found = correlation_maps(audit.get("correlations") or {}, private=is_private(audit))
    if found.not_applicable or (not found.maps and found.distance is None):
        why = found.not_applicable or "the audit holds no correlations"
        return Section("correlations", "Correlations", why=why)
    return drawn("correlations", "Correlations", maps=found, distance=figure(found.distance))


def correlation_maps(correlations: Mapping[str, Any], *, private: bool) -> Maps:
    """`private` False leaves the original and the difference out, whatever the audit holds."""
    names = [str(name) for name in correlations.get("names") or ()]
    before = correlations.get("original") if private else None
    after = correlations.get("release")
    shown = len(names) if len(names) <= MOST_COLUMNS else MOST_COLUMNS
    maps = []
    if before is not None:
        maps.append(("Original", heat_map("original", before, shown)))
    if after is not None:
        maps.append(("Release", heat_map("release", after, shown)))
    if before is not None and after is not None:
        maps.append(("Release minus original", heat_map("difference", difference(before, after), shown)))
    return Maps(
        names=names[:shown],
        maps=maps,
        changed=[] if before is None or after is None else changed_most(names, before, after),
        distance=correlations.get("distance"),
        not_applicable=str(correlations.get("not_applicable") or ""),
        cut=len(names) - shown,
    )


def difference(before: Rows, after: Rows) -> Rows:
    return [[b - a for a, b in zip(row, other, strict=True)] for row, other in zip(before, after, strict=True)]


def heat_map(what: str, values: Rows, shown: int) -> Markup:
    """A square of cells, one path a shade: small, and its shades follow the page's colours."""
    cells: dict[int, list[str]] = {}
    numbers = []
    for i, row in enumerate(values[:shown]):
        for j, value in enumerate(row[:shown]):
            level = shade(value)
            cells.setdefault(level, []).append(f"M{j} {i}h1v1h-1z")
            if shown <= NUMBERED and i != j:
                strong = "strong" if abs(level) > STRONG else None
                numbers.append(tag("text", brief(value), x=j + 0.5, y=i + 0.65, class_=strong))
    paths = [tag("path", d="".join(parts), class_=shade_name(level)) for level, parts in sorted(cells.items())]
    every = 1 if shown <= 20 else 5
    axis = [k for k in range(shown) if k % every == every - 1 or every == 1]
    labels = [tag("text", k + 1, x=-0.35, y=k + 0.66, class_="index side") for k in axis]
    labels += [tag("text", k + 1, x=k + 0.5, y=-0.35, class_="index") for k in axis]
    margin = max(1.3, shown * 0.06)
    scale = max(shown / 30, 0.42)
    return tag(
        "svg",
        tag("title", f"Heat map of the correlations, {what}: column numbers as in the list below"),
        tag("g", *paths, shape_rendering="crispEdges"),
        tag("g", *numbers, class_="cells"),
        tag("g", *labels, font_size=scale),
        viewBox=f"{-margin:g} {-margin:g} {shown + margin:g} {shown + margin:g}",
        role="img",
        class_="heat",
        style=f"max-width:{2.6 * (shown + 1.5):.1f}rem",
    )


def shade(value: float) -> int:
    return round(max(-1.0, min(1.0, value)) * LEVELS)


def shade_name(level: int) -> str:
    return f"{'n' if level < 0 else 'p'}{abs(level)}"


def brief(value: float) -> str:
    """-.31, .05, 1: as short as a cell needs."""
    text = f"{value:.2f}".replace("0.", ".", 1)
    return {"-.00": ".00", "1.00": "1", "-1.00": "-1"}.get(text, text)


def changed_most(names: Sequence[str], before: Rows, after: Rows) -> list[tuple[str, str, str, str]]:
    """The pairs of columns whose correlation the release changed most."""
    pairs = [
        (abs(after[i][j] - before[i][j]), names[i], names[j], before[i][j], after[i][j])
        for i in range(len(names))
        for j in range(i + 1, len(names))
        if abs(after[i][j] - before[i][j]) >= 0.005
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    return [(one, other, signed(was), signed(now)) for _, one, other, was, now in pairs[:CHANGED]]
