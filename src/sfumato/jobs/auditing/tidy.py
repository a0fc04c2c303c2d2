"""Every result of an audit as one tidy table: one row, one figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sfumato.jobs.auditing.tidy_comparison import comparison_rows

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("attack", pa.string()),
        ("column", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("baseline", pa.float64()),
        ("control", pa.float64()),
    ]
)
BESIDE = ("name", "baseline", "control")


def tidy_table(audit: dict[str, Any]) -> pa.Table:
    """kind: attack, measure, utility, distribution, correlation, copies, uniqueness or fidelity; attack: its name (of a
    utility: the classifier)."""
    rows = [*_attacks(audit), *_measures(audit), *_utility(audit), *_distances(audit), *comparison_rows(audit)]
    return pa.Table.from_pylist([{**dict.fromkeys(SCHEMA.names), **row} for row in rows], schema=SCHEMA)


def _attacks(audit: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for attack in audit["attacks"]:
        here = {"kind": "attack", "attack": attack["name"]}
        if attack["score"] is not None:
            low, high = attack["interval"]
            beside = {"baseline": attack["baseline"], "control": attack["control"]}
            yield {**here, "metric": "score", "value": attack["score"], "low": low, "high": high, **beside}
            yield {**here, "metric": "worst", "value": attack["worst"]}
        if attack.get("extra") is not None:
            yield {**here, "metric": "extra", "value": attack["extra"]}
        for name, value in attack["details"].items():
            yield {**here, "metric": name, "value": value}
        for column in attack["columns"]:
            beside = {"column": column["name"], "baseline": column.get("baseline"), "control": column.get("control")}
            for name, value in column.items():
                if name in BESIDE or value is None:
                    continue
                yield {
                    **here,
                    "metric": name,
                    "value": value,
                    **(beside if name == "score" else {"column": column["name"]}),
                }


def _measures(audit: dict[str, Any]) -> Iterator[dict[str, Any]]:
    found = audit.get("measures") or {}
    average, unified, gap = (found.get(name) for name in ("average_privacy", "unified", "density_gap"))
    if average:
        yield {"kind": "measure", "attack": average["attack"], "metric": "average-privacy", "value": average["width"]}
        for column in average["columns"]:
            yield {
                "kind": "measure",
                "column": column["name"],
                "metric": "average-privacy",
                "value": column["width"],
                "baseline": column.get("width_of_mean"),
            }
    if unified:
        for name in ("minimum", "average", "sigma_min", "sigma_avg"):
            here = {"kind": "measure", "attack": unified[f"{name}_attack"]}
            yield {**here, "metric": f"unified-{name.replace('_', '-')}", "value": unified[name]}
    for column in found.get("channels") or ():
        if column["privacy_loss"] is not None:
            here = {"kind": "measure", "column": column["name"]}
            yield {**here, "metric": "privacy-loss", "value": column["privacy_loss"]}
    if gap:
        yield {"kind": "measure", "metric": "density-gap", "value": gap["loss"]}


def _utility(audit: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in audit["utility"]:
        here = {"kind": "utility", "attack": entry["classifier"]}
        if entry["phi"] is None:
            continue
        low, high = entry["interval"]
        yield {**here, "metric": "accuracy-original", "value": entry["original"]}
        yield {**here, "metric": "accuracy-release", "value": entry["release"], "baseline": entry["original"]}
        if entry.get("commonest") is not None:
            yield {**here, "metric": "accuracy-commonest-class", "value": entry["commonest"]}
        yield {**here, "metric": "phi", "value": entry["phi"], "low": low, "high": high}


def _distances(audit: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in audit["distributions"]:
        for name in ("ks", "wasserstein", "total_variation"):
            if entry.get(name) is not None:
                yield {"kind": "distribution", "column": entry["name"], "metric": name, "value": entry[name]}
    if audit["correlations"]["distance"] is not None:
        yield {"kind": "correlation", "metric": "distance", "value": audit["correlations"]["distance"]}
