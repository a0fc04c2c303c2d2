"""Copies, uniqueness and fidelity of an audit, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def comparison_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What is copied, who is alone, and how like real rows the release is."""
    yield from copy_lines(found.get("copies") or {})
    yield from crowd_lines(found.get("uniqueness") or {})
    yield from fidelity_lines(found.get("fidelity") or {})


def copy_lines(copies: Mapping[str, Any]) -> Iterator[str]:
    if exact := copies.get("exact"):
        control = "" if exact["control"] is None else f", {exact['control']:.1%} of the holdout"
        yield f"exact copies {exact['share']:.1%} of the release{control} (lower is safer)"
    if near := copies.get("near"):
        beside = "the holdout" if near["against"] == "holdout" else "other people of the table"
        yield (
            f"near copies {near['share']:.1%}, {near['expected']:.1%} of {beside}; "
            "median distance to the closest record "
            f"{near['dcr']['release']['median']:.3f}, {near['dcr']['control']['median']:.3f}"
        )


def crowd_lines(uniqueness: Mapping[str, Any]) -> Iterator[str]:
    if release := uniqueness.get("release"):
        yield f"k-anonymity k = {release['k']}; {release['unique']:.1%} of the released rows are alone"
        for one in release["sensitive"][:3]:
            diverse = f"l = {one['distinct']} distinct, {one['entropy']:.2f} by entropy"
            yield f"  {one['name']}: {diverse}; t = {one['t']:.3f}"
        for name in ("pitman", "log_linear"):
            if release[name]:
                words = name.replace("_", "-")
                yield f"  of these {release[name]['uniques']:.1%} are alone in the population ({words} estimate)"


def fidelity_lines(fidelity: Mapping[str, Any]) -> Iterator[str]:
    if "marginals" not in fidelity:
        return
    parts = []
    for name, words in (("marginals", "columns"), ("pairs", "pairs"), ("correlations", "correlations")):
        figures = fidelity[name]
        if figures["release"] is not None:
            was = "" if figures.get("original") is None else f" ({figures['original']:.3f} for the original)"
            parts.append(f"{words} {figures['release']:.3f}{was}")
    yield f"distance from the {fidelity['against']}: {', '.join(parts)} (lower is better for use)"
    if told := (fidelity.get("discriminator") or {}).get("release"):
        yield f"a learner tells released from real rows with AUC {told['auc']:.3f} (0.5: it cannot)"
