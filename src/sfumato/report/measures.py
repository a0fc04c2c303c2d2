"""The papers' own measures, each with the sentence that says what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.report.markup import Section, drawn
from sfumato.report.wording import DASH, figure

AVERAGE = (
    "Average privacy",
    "Width of the interval that holds 95% of the errors of the strongest attacker on numbers, over the column's range, "
    "averaged over columns. Wider is safer. It is an average: a single person may be guessed much better.",
)
LOSS = (
    "Privacy loss",
    "1 - 2^-I, I being the bits that a released value tells of its own source, averaged over columns. Lower is safer. "
    "Each column is taken alone; together they tell more.",
)
UNIFIED = (
    "Multi-column guarantee",
    "Standard deviation of the error on the column guessed best, the lowest over all attackers tried here. Larger is "
    "safer. The paper calls it a guarantee; it is a measurement, and an attacker who was not tried may leave less.",
)
UNIFIED_AVERAGE = (
    "The same on average",
    "Over all columns, for the attacker who leaves least. Larger is safer.",
)
DENSITY_GAP = (
    "Gap of two density estimates",
    "Half the distance between the density that rows were drawn from and the same estimate from the people held apart. "
    "Both err, so it is not the paper's DAPL, which knows the true density; with eight columns or more it is near 1 "
    "whatever is done. It says nothing about the privacy of a person.",
)
FEW_COLUMNS = 12
"""A table of so many columns stands open."""


@dataclass(frozen=True)
class Measure:
    """One figure, what it is read against, and its sentence."""

    name: str
    value: str
    below: str
    sentence: str


@dataclass(frozen=True)
class Measures:
    """What the page shows; `columns` has name, average privacy, that of guessing the mean, bits and privacy loss."""

    figures: list[Measure]
    columns: list[tuple[str, str, str, str, str]]
    has_mean: bool
    open: bool
    density_gap: Measure | None


def measures_section(audit: Mapping[str, Any]) -> Section:
    """What the papers compare methods by."""
    found = shown_measures(audit.get("measures"))
    title = "The papers' measures"
    if not found.figures and found.density_gap is None:
        return Section("measures", title, why="none of them could be measured here")
    return drawn("measures", title, measures=found)


def shown_measures(found: Mapping[str, Any] | None) -> Measures:
    """Nothing where the audit holds none."""
    found = found or {}
    average, unified, channels = found.get("average_privacy"), found.get("unified"), found.get("channels") or ()
    figures = []
    if average:
        figures.append(Measure(AVERAGE[0], figure(average["width"]), _beside(average), AVERAGE[1]))
    losses = [one["privacy_loss"] for one in channels if one.get("privacy_loss") is not None]
    if losses:
        below = f"{figure(min(losses))} to {figure(max(losses))}" if len(losses) > 1 else ""
        figures.append(Measure(LOSS[0], figure(sum(losses) / len(losses)), below, LOSS[1]))
    if unified:
        below = f"{unified['sigma_min_attack']}; variance, weighted and capped: {figure(unified['minimum'])}"
        figures.append(Measure(UNIFIED[0], figure(unified["sigma_min"]), below, UNIFIED[1]))
        below = f"{unified['sigma_avg_attack']}; variance, weighted and capped: {figure(unified['average'])}"
        figures.append(Measure(UNIFIED_AVERAGE[0], figure(unified["sigma_avg"]), below, UNIFIED_AVERAGE[1]))
    columns = _columns(average, channels)
    return Measures(
        figures,
        columns,
        has_mean=any(row[2] != DASH for row in columns),
        open=len(columns) <= FEW_COLUMNS,
        density_gap=_density_gap(found.get("density_gap") or found.get("dapl")),  # version 0.2 called it so
    )


def _beside(average: Mapping[str, Any]) -> str:
    parts = [f"{average['attack']} leaves least"]
    if average.get("filtered") is not None and average["attack"] != "principal-filter":
        parts.append(f"{figure(average['filtered'])} after filtering as in the paper")
    if average.get("width_of_mean") is not None:
        parts.append(f"{figure(average['width_of_mean'])} by the mean alone")
    return "; ".join(parts)


def _columns(
    average: Mapping[str, Any] | None, channels: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str, str, str]]:
    """Source columns first, then the release's own, where it mixes them."""
    widths = {one["name"]: one for one in (average or {}).get("columns", ())}
    told = {one["name"]: one for one in channels}
    return [
        (
            name,
            figure(widths.get(name, {}).get("width")),
            figure(widths.get(name, {}).get("width_of_mean")),
            figure(told.get(name, {}).get("bits")),
            figure(told.get(name, {}).get("privacy_loss")),
        )
        for name in [*widths, *[name for name in told if name not in widths]]
    ]


def _density_gap(found: Mapping[str, Any] | None) -> Measure | None:
    if not found:
        return None
    return Measure(DENSITY_GAP[0], figure(found["loss"]), f"standard error {figure(found['error'])}", DENSITY_GAP[1])
