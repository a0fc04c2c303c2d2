"""All cells of a comparison, added up over the splits, and which settings are worth looking at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.advising.trial import Outcome, averaged
from sfumato.auditing.extra import Points

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
    """One row, one figure. kind: extra (of an attacker, points of 100; gain as 0.2 had it), accuracy (of a learner),
    majority, ceiling, epsilon (for anybody's values), presence."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        of = {name: cell[name] for name in ("mechanism", "openness", "split")}
        of["parameters"] = in_words(cell["parameters"])
        if cell["refused"] is not None:
            continue
        seen = _outcome(cell)
        told = {
            "extra": {name: (one.extra, one.low, one.high) for name, one in seen.extras.items()},
            "gain": seen.gains,
        }
        for kind, attackers in told.items():
            for name, (value, low, high) in attackers.items():
                rows.append({**of, "kind": kind, "name": name, "value": value, "low": low, "high": high})
        rows += [{**of, "kind": "accuracy", "name": name, "value": value} for name, value in seen.reached.items()]
        single = {
            "majority": seen.majority,
            "ceiling": seen.ceiling,
            "epsilon": seen.epsilon,
            "presence": seen.presence,
        }
        single |= {"conditional_epsilon": seen.conditional, "audited_epsilon": cell.get("audited_epsilon")}
        rows += [
            {**of, "kind": name, "name": name, "value": value} for name, value in single.items() if value is not None
        ]
    return pa.Table.from_pylist([{**dict.fromkeys(LONG.names), **row} for row in rows], schema=LONG)


def settings(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for every mechanism and strength: means over its splits, whether another one beats it in both, and
    whether it is `worth` a look: not beaten, every risk tried, and more right than the commonest class."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        found.setdefault((cell["mechanism"], in_words(cell["parameters"])), []).append(cell)
    entries = [_entry(name, words, group) for (name, words), group in found.items()]
    measured = [one for one in entries if one["refused"] is None and None not in (one["accuracy"], one["extra"])]
    for one in measured:  # where a risk was not tried, what is known is the least: it beats nobody
        one["dominated"] = any(
            other["extra"] <= one["extra"]
            and other["accuracy"] >= one["accuracy"]
            and (other["extra"], other["accuracy"]) != (one["extra"], one["accuracy"])
            for other in measured
            if not other["untried"]
        )
        one["worth"] = not (one["dominated"] or one["untried"]) and one["accuracy"] > one["majority"]
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


def _outcome(cell: Mapping[str, Any]) -> Outcome:
    told = cell["outcome"]
    return Outcome(**{**told, "extras": {name: Points(**one) for name, one in told["extras"].items()}})


def _entry(name: str, words: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    there = [cell for cell in group if cell["refused"] is None]
    given = {"setting": words, "parameters": group[0]["parameters"], "openness": group[0]["openness"]}
    entry: dict[str, Any] = {"mechanism": name, **given, "refused": None}
    if not there:
        return {**entry, "refused": group[0]["refused"]}
    outcomes = [_outcome(cell) for cell in there]
    mean = averaged(outcomes)
    best = mean.best
    accuracies = [] if best is None else [one.reached[best] for one in outcomes]
    return {
        **entry,
        "splits": len(there),
        **_attacked(mean),
        "learners": mean.reached,
        "best_learner": best,
        "untrained": mean.untrained,
        "accuracy": None if best is None else mean.accuracy,
        "spread": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else None,
        "ceiling": mean.ceiling,
        "majority": mean.majority,
        "kind": mean.kind,
        "epsilon": mean.epsilon,
        "presence": mean.presence,
        "conditional_epsilon": mean.conditional,
        "delta": mean.delta,
        **_audited(mean, next((cell for cell in there if "audited_epsilon" in cell), {})),
        "dominated": False,
        "worth": False,
    }


def _attacked(mean: Outcome) -> dict[str, Any]:
    """What attackers got: extra in points of 100, and gains as 0.2 had them."""
    strongest, widest = mean.strongest, mean.widest
    return {
        "extra": None if strongest is None else max(0.0, mean.extras[strongest].extra),
        "extra_high": None if widest is None else mean.extras[widest].high,
        "extras": {attack: {**asdict(one), "extra": one.extra} for attack, one in mean.extras.items()},
        "extra_columns": mean.columns,
        "gains": {attack: told[0] for attack, told in mean.gains.items()},
        "intervals": {attack: list(told[1:]) for attack, told in mean.gains.items()},
        "columns": {attack: {name: one / 100.0 for name, one in own.items()} for attack, own in mean.columns.items()},
        "exposed": mean.exposed,
        "not_applicable": mean.not_applicable,
        "untried": mean.untried,
        "risk": max(0.0, *(told[0] for told in mean.gains.values())) if strongest else None,
        "strongest": strongest,
    }


def _audited(mean: Outcome, cell: Mapping[str, Any]) -> dict[str, Any]:
    """What an experiment proves of epsilon, beside the claim: planted records show that for presence, two records that
    are blurred again and again that for values."""
    claimed, audited = mean.stated if mean.presence is None else mean.presence, cell.get("audited_epsilon")
    above = audited is not None and claimed is not None and audited > claimed * (1 + 1e-9)
    return {
        "audited_epsilon": audited,
        "not_audited": cell.get("not_audited"),
        "audited_mu": cell.get("audited_mu"),
        "above_claim": above or bool(cell.get("canaries_above")),
    }


def in_words(parameters: Mapping[str, Any]) -> str:
    """Parameters in one line."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())
