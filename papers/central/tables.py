"""The page: accuracy and AUC by way and epsilon, what was kept of the tables, and time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from statistics import mean, stdev
from typing import Any

from frames import LARGE, REPORTED, TINY, table_of
from papers.page import table
from tasks import COLUMNS, EPSILONS, KERNEL, LOCAL, ONE, PURE, REAL, TREE

PEERS = ("mst", "aim", "mst by class", "aim by class")
AHEAD = f"""Each cell: mean accuracy / AUC of four ordinary learners (Gaussian naive Bayes, logistic regression, forest,
boosting), trained on the rows of the way and tested on 30% real rows; after it the half-width of a 95% interval of the
accuracy. It covers the splits where there are several, else the number of test rows. Delta 1e-6. Large sets
({", ".join(LARGE)}) have up to two splits at epsilon 1 and one elsewhere, small ones up to three.

`square-wave` and `staged-release`: at most 10,000 training rows, their learner chosen by `auto`, record epsilon; they
hide values, never presence. Kernel resampling claims nothing. Peers run with their defaults; by class means one model
for the rows of each class. Shares and bins of the tree are those of a prototype, which had seen sets of some of these
names; second parents were chosen on other tables. Nothing was chosen on these runs. An empty cell was not run."""


@dataclass
class Results:
    """Figures by task, and which data sets were not there."""

    found: dict[Any, dict[str, Any]]
    skipped: dict[str, str]

    def of(self, data: str, way: str, epsilon: float) -> list[dict[str, Any]]:
        """All splits that were done."""
        wanted = (data, way, epsilon)
        return [v for t, v in self.found.items() if "learners" in v and (t.data, t.way, t.epsilon) == wanted]

    def to_dict(self) -> dict[str, Any]:
        return {"tasks": {task.key: value for task, value in self.found.items()}, "skipped": self.skipped}


@cache
def rows_of(data: str) -> int:
    return len(table_of(data)[0])


def scored(runs: list[dict[str, Any]], which: int) -> float:
    return mean(mean(pair[which] for pair in run["learners"].values()) for run in runs)


def half_width(runs: list[dict[str, Any]], data: str) -> float:
    """By the splits and by the size of the test part, whichever is larger."""
    accuracies = [mean(pair[0] for pair in run["learners"].values()) for run in runs]
    p, tested = mean(accuracies), 0.3 * rows_of(data)
    drawn = math.sqrt(p * (1 - p) / tested / len(runs))
    between = stdev(accuracies) / math.sqrt(len(runs)) if len(runs) > 1 else 0.0
    return 1.96 * max(drawn, between)


def cell(results: Results, data: str, way: str, epsilon: float) -> str:
    runs = results.of(data, way, epsilon)
    if not runs:
        return ""
    return f"{scored(runs, 0):.3f}/{scored(runs, 1):.3f} ± {half_width(runs, data):.3f}"


def results_text(results: Results, minutes: float, fast: bool) -> str:
    """RESULTS.md."""
    sets = [name for name in ((TINY,) if fast else REPORTED) if name not in results.skipped]
    ways = [("real rows", REAL, 0.0), ("kernel resampling (no guarantee)", KERNEL, 0.0)]
    ways += [(f"tree, epsilon {epsilon:g}", TREE, epsilon) for epsilon in EPSILONS]
    ways += [("tree, pure epsilon 1", PURE, 1.0)]
    ways += [(f"tree with one parent a column, epsilon {epsilon:g}", ONE, epsilon) for epsilon in (1.0, 8.0)]
    ways += [(f"columns alone, epsilon {epsilon:g}", COLUMNS, epsilon) for epsilon in (1.0, 8.0)]
    ways += [(f"{way}, epsilon {epsilon:g}", way, epsilon) for way, some in LOCAL.items() for epsilon in some]
    ways += [(f"dpmm {_name(way)}, epsilon 1", way, 1.0) for way in PEERS]
    parts = [
        "# Rows that belong to nobody: results",
        f"Written by `papers/central/run.py`: {len(results.found):,} tasks, {minutes:.0f} minutes of computing.",
        AHEAD,
        table(["", *sets], ([name, *(cell(results, data, way, e) for data in sets)] for name, way, e in ways)),
        "## How far from real rows at epsilon 1",
        table(["set", "lost accuracy", "lost by columns alone", "the tree gains"], _losses(results, sets)),
        "## What is kept of the tables",
        "Mean total variation between a column's histograms (20 bins), and mean absolute difference of correlations.",
        table(["set", *(f"epsilon {e:g}" for e in EPSILONS), "kernel"], _kept(results, sets)),
        "## Seconds of processor time to make the rows",
        "Peers in brackets: megabytes at most. Ours run inside the process that also trains.",
        table(["set", "tree, epsilon 1", *map(_name, PEERS)], _times(results, sets)),
    ]
    if results.skipped:
        parts += ["## Left out", *(f"- {why}" for why in results.skipped.values())]
    return "\n\n".join(parts) + "\n"


def _losses(results: Results, sets: list[str]) -> Iterable[list[str]]:
    lost: dict[str, float] = {}
    for data in sets:
        real, tree, columns = (results.of(data, way, e) for way, e in ((REAL, 0.0), (TREE, 1.0), (COLUMNS, 1.0)))
        if real and tree and columns:
            base = scored(real, 0)
            lost[data] = base - scored(tree, 0)
            alone = base - scored(columns, 0)
            yield [data, f"{lost[data]:.3f}", f"{alone:.3f}", f"{alone - lost[data]:.3f}"]
    large = [lost[data] for data in LARGE if data in lost]
    if large:
        yield [f"mean of {len(large)} sets with more than 5,000 rows", f"**{mean(large):.3f}**", "", ""]


def _kept(results: Results, sets: list[str]) -> Iterable[list[str]]:
    for data in sets:
        found = [results.of(data, TREE, epsilon) for epsilon in EPSILONS] + [results.of(data, KERNEL, 0.0)]
        yield [data, *("" if not r else f"{_mean(r, 'marginals')} / {_mean(r, 'correlations')}" for r in found)]


def _times(results: Results, sets: list[str]) -> Iterable[list[str]]:
    for data in sets:
        yield [data, *(_cost(results, data, way) for way in (TREE, *PEERS))]


def _cost(results: Results, data: str, way: str) -> str:
    """The least time; what was ended before it was done says so."""
    runs = results.of(data, way, 1.0)
    if runs:
        best = min(runs, key=lambda run: run["seconds"])
        most = f" ({best['megabytes']:.0f})" if "megabytes" in best else ""
        return f"{best['seconds']:.2f}{most}"
    ended = [v["unfinished"] for t, v in results.found.items() if (t.data, t.way) == (data, way) and "unfinished" in v]
    return ended[0] if ended else ""


def _name(way: str) -> str:
    kind, *rest = way.split(" ", 1)
    return " ".join([kind.upper(), *rest])


def _mean(runs: list[dict[str, Any]], name: str) -> str:
    return f"{mean(run[name] for run in runs):.3f}"
