"""All cells of a comparison, added up over the splits, and which settings are worth looking at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.jobs.advising.trial import merged, untried

MOST_EXPOSED = 10
LONG = pa.schema(
    [
        ("mechanism", pa.string()),
        ("parameters", pa.string()),
        ("openness", pa.float64()),
        ("split", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)


def tidy(cells: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One row, one figure. kind: gain (of an adversary), accuracy (of a learner), majority, ceiling, epsilon."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        of = {name: cell[name] for name in ("mechanism", "openness", "split")}
        of["parameters"] = in_words(cell["parameters"])
        if cell["refused"] is not None:
            continue
        for attack, gain in cell["gains"].items():
            low, high = cell["intervals"][attack]
            rows.append({**of, "kind": "gain", "name": attack, "value": gain, "low": low, "high": high})
        rows += [{**of, "kind": "accuracy", "name": name, "value": value} for name, value in cell["learners"].items()]
        for name in ("majority", "ceiling", "epsilon", "conditional_epsilon", "audited_epsilon"):
            if cell.get(name) is not None:
                rows.append({**of, "kind": name, "name": name, "value": cell[name]})
    return pa.Table.from_pylist([{**dict.fromkeys(LONG.names), **row} for row in rows], schema=LONG)


def settings(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for every mechanism and strength: means over its splits, and whether another one beats it in both."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        found.setdefault((cell["mechanism"], in_words(cell["parameters"])), []).append(cell)
    entries = [_entry(name, words, group) for (name, words), group in found.items()]
    measured = [one for one in entries if one["refused"] is None and None not in (one["accuracy"], one["risk"])]
    for one in measured:  # where a kind of adversary was not tried, what is known is the least: it beats nobody
        one["dominated"] = any(
            other["risk"] <= one["risk"]
            and other["accuracy"] >= one["accuracy"]
            and (other["risk"], other["accuracy"]) != (one["risk"], one["accuracy"])
            for other in measured
            if not other["untried"]
        )
    return entries


def not_compared(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Why settings were refused: said once of a mechanism where all its settings have the same reason."""
    return _in_short(entries, [one["refused"] for one in entries])


def no_learner(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Why no learner could be trained on the releases of a setting, which adversaries were tried on all the same."""
    reasons = []
    for one in entries:
        without = one["refused"] is None and one["accuracy"] is None
        told: dict[str, list[str]] = {}
        for name, why in one["untrained"].items() if without else ():
            told.setdefault(why.rstrip("."), []).append(name)
        words = "; ".join(f"{', '.join(names)}: {why}" for why, names in told.items())
        reasons.append((words or "no learner fits such a release") if without else None)
    return _in_short(entries, reasons)


def _in_short(entries: Sequence[Mapping[str, Any]], reasons: Sequence[str | None]) -> dict[str, str]:
    by_mechanism: dict[str, list[tuple[str, str | None]]] = {}
    for one, why in zip(entries, reasons, strict=True):
        by_mechanism.setdefault(one["mechanism"], []).append((one["setting"], why))
    found = {}
    for name, told in by_mechanism.items():
        first = told[0][1]
        if first is not None and all(why == first for _, why in told):
            found[name] = first
        else:
            found |= {f"{name}, {setting}": why for setting, why in told if why is not None}
    return found


def _entry(name: str, words: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    there = [cell for cell in group if cell["refused"] is None]
    entry: dict[str, Any] = {"mechanism": name, "setting": words, "openness": group[0]["openness"], "refused": None}
    if not there:
        return {**entry, "refused": group[0]["refused"]}
    attacks = [attack for attack in there[0]["gains"] if all(attack in cell["gains"] for cell in there)]
    gains = {attack: float(np.mean([cell["gains"][attack] for cell in there])) for attack in attacks}
    ends = {
        attack: [float(np.mean([cell["intervals"][attack][end] for cell in there])) for end in (0, 1)]
        for attack in attacks
    }
    names = [one for one in there[0]["learners"] if all(one in cell["learners"] for cell in there)]
    learners = {one: float(np.mean([cell["learners"][one] for cell in there])) for one in names}
    best = max(learners, key=lambda one: learners[one], default=None)
    # One learner for all splits: the best of each split would be chosen by its own test rows.
    accuracies = [] if best is None else [cell["learners"][best] for cell in there]
    ceiling, majority = (float(np.mean([cell[one] for cell in there])) for one in ("ceiling", "majority"))
    strongest = max(gains, key=lambda one: gains[one], default=None)
    reasons = merged([cell["not_applicable"] for cell in there])
    first = next((cell for cell in there if "audited_epsilon" in cell), {})
    claimed = there[0]["epsilon"] if there[0]["epsilon"] is not None else there[0]["conditional_epsilon"]
    audited = first.get("audited_epsilon")
    return {
        **entry,
        "splits": len(there),
        "gains": gains,
        "intervals": ends,
        "columns": {attack: _column_means([cell["columns"][attack] for cell in there]) for attack in attacks},
        "exposed": {attack: _most_often([cell["exposed"][attack] for cell in there]) for attack in attacks},
        "not_applicable": reasons,
        "untried": untried(gains, reasons),
        "risk": max(0.0, gains[strongest]) if strongest else None,
        "strongest": strongest,
        "learners": learners,
        "best_learner": best,
        "untrained": merged([cell["untrained"] for cell in there]),
        "accuracy": float(np.mean(accuracies)) if accuracies else None,
        "spread": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else None,
        "ceiling": ceiling,
        "majority": majority,
        "kind": there[0]["kind"],
        "epsilon": there[0]["epsilon"],
        "conditional_epsilon": there[0]["conditional_epsilon"],
        "delta": there[0]["delta"],
        "audited_epsilon": audited,
        "not_audited": first.get("not_audited"),
        "audited_mu": first.get("audited_mu"),
        "above_claim": bool(first.get("canaries_above"))
        or (audited is not None and claimed is not None and audited > claimed * (1 + 1e-9)),
        "dominated": False,
    }


def _column_means(splits: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of the columns that an adversary was scored on in every split."""
    names = [name for name in splits[0] if all(name in one for one in splits)]
    return {name: float(np.mean([one[name] for one in splits])) for name in names}


def _most_often(splits: Sequence[Sequence[int]]) -> list[int]:
    """Records that are among the worst of most splits first; then by how bad they are."""
    places: dict[int, list[int]] = {}
    for found in splits:
        for place, record in enumerate(found):
            places.setdefault(record, []).append(place)
    return sorted(places, key=lambda one: (-len(places[one]), min(places[one]), one))[:MOST_EXPOSED]


def in_words(parameters: Mapping[str, Any]) -> str:
    """Parameters in one line."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())
