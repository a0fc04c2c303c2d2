"""From finished pieces to the file that the product ships, and to the page that judges the advice."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from frames import EXPERIENCE, GENERATED, JUDGING, table_of
from tasks import COMPARED, ORIGINAL, OTHERS, PIECEWISE, SQUARE, TREE

from sfumato.advising import advice
from sfumato.release.strength import LARGE_FROM

SHIPPED = Path(advice.__file__).with_name("experience.json")
LOCAL = (SQUARE, PIECEWISE, *OTHERS)
OWNER, NOBODY = "the owner holds the table", "nobody is trusted"
LARGE = 400


class Results:
    """Means over splits, by table, size, method and epsilon."""

    def __init__(self, found: dict[Any, dict[str, Any]], skipped: dict[str, str]) -> None:
        pieces = defaultdict(list)
        for task, value in found.items():
            pieces[task.data, task.rows, task.method, task.epsilon].append(value)
        self.means = {
            key: {name: float(np.mean([one[name] for one in some])) for name in some[0] if name != "cpu"}
            for key, some in pieces.items()
        }
        self.skipped = skipped
        self.whole = {name: max(rows for data, rows, *_ in self.means if data == name) for name, *_ in self.means}

    def to_dict(self) -> dict[str, Any]:
        return {"|".join(map(str, key)): value for key, value in self.means.items()}

    def seen(self, name: str) -> list[dict[str, Any]]:
        """What the shipped file holds of one table: an entry for each size."""
        frame, schema = table_of(name)
        shape = {
            "columns": len(schema.private),
            "numbers": sum(column.kind != "categorical" for column in schema.private),
            "classes": int(frame["label"].nunique()),
        }
        entries = []
        for rows in sorted({rows for data, rows, *_ in self.means if data == name}):
            real = self.means[name, rows, ORIGINAL, 0.0]
            entry = {"table": name, "rows": rows, **shape, "commonest": _short(real["commonest"])}
            entry |= {"originals": _short(real["right"]), "right": {}, "one_column": {}, "two_columns": {}}
            for method in (TREE, SQUARE, PIECEWISE):
                at = {e: v for (d, r, m, e), v in self.means.items() if (d, r, m) == (name, rows, method)}
                entry["right"][method] = {f"{e:g}": _short(v["right"]) for e, v in sorted(at.items())}
            entries.append(entry)
        return entries

    def right(self, name: str, method: str, epsilon: float) -> float:
        return self.means[name, self.whole[name], method, epsilon]["right"]


def results_text(results: Results) -> str:
    """Writes the shipped file where everything it is made from is there, and returns the page."""
    if GENERATED in results.whole:
        return "A fast run: one generated table, nothing is judged.\n"
    there = [name for name in EXPERIENCE if name in results.whole]
    if len(there) == len(EXPERIENCE):
        entries = [entry for name in EXPERIENCE for entry in results.seen(name)]
        _ship(entries)
    judged = [name for name in JUDGING if name in results.whole]
    parts = ["# Advice, judged", "", "Written by `python papers/advice/run.py`. Accuracy in points of 100.", ""]
    parts += _distances(
        results, [name for name in there if results.whole[name] >= LARGE], f"made from, {LARGE} rows on"
    )
    parts += _distances(results, there, "made from, all")
    parts += _distances(results, judged, "held back")
    parts += _coverage(results, there, judged)
    return "\n".join(parts) + "\n"


def put_shares(found: dict[Any, dict[str, Any]]) -> None:
    """Into the shipped file, beside what is there."""
    entries = json.loads(SHIPPED.read_text(encoding="utf-8"))["seen"]
    for entry in entries:
        mine = {one: value for one, value in found.items() if (one.data, one.rows) == (entry["table"], entry["rows"])}
        for figure in ("one_column", "two_columns") if mine else ():
            entry[figure] = defaultdict(dict)
            for one, value in sorted(mine.items(), key=lambda pair: pair[0].epsilon):
                entry[figure][one.method][f"{one.epsilon:g}"] = _short(value[figure])
    _ship(entries)


def _ship(entries: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    SHIPPED.write_text(f'{{"version": 1, "seen": [\n{lines}\n]}}\n', encoding="utf-8")
    advice.everything.cache_clear()


def ruled(trust: str, epsilon: float) -> str:
    return TREE if trust == OWNER else SQUARE if epsilon < LARGE_FROM else PIECEWISE


def _distances(results: Results, names: list[str], which: str) -> list[str]:
    lines = [f"## Distance from the best method: tables the experience is {which} ({len(names)})", ""]
    lines += ["| trust | epsilon | by the rule | best of each | mean distance | farthest | at the commonest class |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for trust in (OWNER, NOBODY):
        methods = (TREE, *LOCAL) if trust == OWNER else LOCAL
        for epsilon in COMPARED:
            chosen = [results.right(name, ruled(trust, epsilon), epsilon) for name in names]
            best = [max(results.right(name, method, epsilon) for method in methods) for name in names]
            apart = np.array(best) - np.array(chosen)
            common = [results.means[name, results.whole[name], ORIGINAL, 0.0]["commonest"] for name in names]
            poor = [n for n, c, b, m in zip(names, chosen, best, common, strict=True) if c <= m + 0.02 and b > m + 0.05]
            far = names[int(apart.argmax())]
            cells = [trust, f"{epsilon:g}", *(f"{100 * np.mean(one):.1f}" for one in (chosen, best, apart))]
            lines.append(f"| {' | '.join(cells)} | {100 * apart.max():.1f} ({far}) | {', '.join(poor) or 'none'} |")
    return [*lines, ""]


def _coverage(results: Results, there: list[str], judged: list[str]) -> list[str]:
    """How often a forecast's interval holds the truth, made without the table that it is for."""
    lines = ["## Forecasts that held", "", "| tables | epsilon | trust | within the interval |", "|---|---|---|---|"]
    for names, which in ((there, "made from, each without itself"), (judged, "held back")):
        for trust in (OWNER, NOBODY):
            for epsilon in COMPARED:
                method, held = ruled(trust, epsilon), []
                for name in names:
                    made = advice.forecast(method, epsilon, results.whole[name], without=name)
                    low, high = made.interval
                    held.append(low <= results.right(name, method, epsilon) <= high)
                lines.append(f"| {which} | {epsilon:g} | {trust} | {sum(held)} of {len(held)} |")
    return [*lines, ""]


def _short(value: float) -> float:
    return round(value, 4)
