"""Copies, uniqueness and fidelity as rows of the tidy table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def comparison_rows(audit: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row a figure; `control` is the holdout's, `baseline` the original's."""
    yield from _copies(audit.get("copies") or {})
    yield from _uniqueness(audit.get("uniqueness") or {})
    yield from _fidelity(audit.get("fidelity") or {})


def _copies(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if exact := found.get("exact"):
        low, high = exact["interval"]
        here = {"kind": "copies", "metric": "exact-copies"}
        yield {**here, "value": exact["share"], "low": low, "high": high, "control": exact["control"]}
    if near := found.get("near"):
        low, high = near["interval"]
        here = {"kind": "copies", "metric": "near-copies"}
        yield {**here, "value": near["share"], "low": low, "high": high, "control": near["expected"]}
        for measure in ("dcr", "nndr"):
            for name, value in near[measure]["release"].items():
                control = near[measure]["control"][name]
                yield {"kind": "copies", "metric": f"{measure}-{name}", "value": value, "control": control}
        if near["nearer"] is not None:
            low, high = near["nearer_interval"]
            yield {"kind": "copies", "metric": "nearer", "value": near["nearer"], "low": low, "high": high}


def _uniqueness(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    release, original = found.get("release"), found.get("original") or {}
    if not release:
        return
    for name in ("k", "unique"):
        yield {"kind": "uniqueness", "metric": name, "value": release[name], "baseline": original.get(name)}
    for name in ("pitman", "log_linear"):
        if release[name]:
            was = (original.get(name) or {}).get("uniques")
            metric = f"population-unique-{name.replace('_', '-')}"
            yield {"kind": "uniqueness", "metric": metric, "value": release[name]["uniques"], "baseline": was}
    before = {one["name"]: one for one in original.get("sensitive", ())}
    for one in release["sensitive"]:
        was = before.get(one["name"], {})
        for name in ("distinct", "entropy", "recursive", "t", "t_mean"):
            here = {"kind": "uniqueness", "column": one["name"], "metric": name}
            yield {**here, "value": one[name], "baseline": was.get(name)}


def _fidelity(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("marginals", "pairs", "correlations"):
        figures = found.get(name) or {}
        if figures.get("release") is not None:
            here = {"kind": "fidelity", "metric": name}
            yield {**here, "value": figures["release"], "baseline": figures.get("original")}
    told = found.get("discriminator") or {}
    if told.get("release"):
        low, high = told["release"]["interval"]
        was = (told.get("original") or {}).get("auc")
        here = {"kind": "fidelity", "metric": "discriminator-auc"}
        yield {**here, "value": told["release"]["auc"], "low": low, "high": high, "baseline": was}
    for one in found.get("columns", ()):
        here = {"kind": "fidelity", "column": one["name"], "metric": one["measure"]}
        yield {**here, "value": one["release"], "baseline": one.get("original")}
    for one in found.get("targets", ()):
        here = {"kind": "fidelity", "column": one["name"], "metric": f"learned-{one['measure']}"}
        yield {**here, "value": one["release"], "baseline": one["original"]}
