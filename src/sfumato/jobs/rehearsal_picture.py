"""What sharing costs and shows against the number of sites, as a picture [kernel-resampling, Figs 3-7]."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.jobs.rehearse_sites import AtSites
from sfumato.reconstruction.picture import BOTTOM, LEFT, TOP, Size, framed, text, ticks

COLOURS = ("#1f5f8b", "#b35900", "#5b5b5b")
DASHES = ("", "7 4", "2 3")
SIZE = Size(720, 330, 5)
NAMES_WIDTH = 150
"""Room at the right for the names of the lines, so that no legend is needed."""


def rehearsal_picture(found: Sequence[AtSites]) -> str:
    """Errors above, exposure below, as one SVG."""
    errors = {
        "pooled releases": [one.pooled for one in found],
        "one site's own rows": [one.alone for one in found],
        "all original rows": [one.original for one in found],
    }
    shown = {"membership": [one.membership for one in found], "source hits": [one.hits for one in found]}
    if all(one.density_gap is not None for one in found):
        shown["density gap"] = [one.density_gap or 0.0 for one in found]
    sites = [one.sites for one in found]
    upper = _panel("What it costs: error on other people", "error", sites, errors)
    lower = _panel("What it shows: exposure, and the gap of densities", "share", sites, shown)
    width, height = SIZE.width, SIZE.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{2 * height}" '
        f'viewBox="0 0 {width} {2 * height}">\n{upper}<g transform="translate(0 {height})">\n{lower}</g>\n</svg>\n'
    )


def _panel(title: str, measure: str, sites: Sequence[int], lines: dict[str, list[float]]) -> str:
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
        style = f'stroke="{COLOURS[number]}" stroke-width="2" stroke-dasharray="{DASHES[number]}"'
        shapes.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at)}" fill="none" {style}/>')
        shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[number]}"/>' for x, y in at]
        lowest = min(at[-1][1] + 4, lowest - 15)
        shapes.append(f'<g fill="{COLOURS[number]}">{text(right + 10, lowest, name, "start")}</g>')
    return framed(title, measure, shapes, base, SIZE)
