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
from peer_tasks import MOST_SECONDS
from tasks import COLUMNS, EPSILONS, KERNEL, LOCAL, ONE, PURE, REAL, TREE

PEERS = ("mst", "mst by class", "aim", "aim by class")
LEARNERS = ("naive Bayes", "logistic", "forest", "boosting")
WITHOUT_BAYES = LEARNERS[1:]
AHEAD = """Each cell: mean accuracy / AUC of four ordinary learners (Gaussian naive Bayes, logistic regression, forest,
boosting), trained on the rows of the way and tested on 30% real rows; after it the half-width of a 95% interval of the
accuracy, and in brackets the number of splits. The half-width is the larger of two: what the number of test rows gives,
and what the splits differ by (two or three splits say little about that). Delta 1e-6.

`square-wave` and `staged-release`: at most 10,000 training rows, record epsilon; they hide values, never presence.
`auto` chooses one learner for each of them, so that they stand beside the rows "forest alone" rather than beside means.
Kernel resampling claims nothing. `tree` is the default of `tree-resampling`: second parents where its rule looks for
them. Shares and bins are those of a prototype, which had seen sets of some of these names; second parents were chosen
on other tables. Nothing was chosen on these runs. What is empty was not run."""
FAR = """Accuracy lost beside real rows, and how much more the columns alone lose, which is what the tree gains. Where a
learner is poor on real rows and by chance better on drawn ones, the mean of all four says too little."""
BESIDE = f"""MST and AIM of dpmm with its defaults, on the same splits as ours, each in its own process, one thread.
"By class" is one model for the rows of each class. Accuracy of each learner, then the means of the four accuracies and
AUCs; processor seconds to fit and to draw as many rows (ours: the second fit in its process); peak memory.
Peers are told the exact number of rows. A run over {MOST_SECONDS} processor seconds was ended."""


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


def scored(runs: list[dict[str, Any]], which: int, by: Iterable[str] = ()) -> float:
    """Mean accuracy (0) or AUC (1) of some learners, or of all."""
    return mean(_of_learners(run, which, by) for run in runs)


def half_width(runs: list[dict[str, Any]], data: str, by: Iterable[str] = ()) -> float:
    """By the splits and by the size of the test part, whichever is larger."""
    accuracies = [_of_learners(run, 0, by) for run in runs]
    p, tested = mean(accuracies), 0.3 * rows_of(data)
    drawn = math.sqrt(p * (1 - p) / tested / len(runs))
    between = stdev(accuracies) / math.sqrt(len(runs)) if len(runs) > 1 else 0.0
    return 1.96 * max(drawn, between)


def _of_learners(run: dict[str, Any], which: int, by: Iterable[str]) -> float:
    return mean(run["learners"][name][which] for name in (tuple(by) or run["learners"]))


def cell(results: Results, data: str, way: str, epsilon: float, by: Iterable[str] = ()) -> str:
    runs = results.of(data, way, epsilon)
    if not runs:
        return ""
    return f"{scored(runs, 0, by):.3f}/{scored(runs, 1, by):.3f} ± {half_width(runs, data, by):.3f} ({len(runs)})"


def results_text(results: Results, done: tuple[int, int], fast: bool) -> str:
    """RESULTS.md; `done` of how many tasks, peers among them."""
    sets = [name for name in ((TINY,) if fast else REPORTED) if name not in results.skipped]
    ways = [("real rows", REAL, 0.0), ("kernel resampling (no guarantee)", KERNEL, 0.0)]
    ways += [(f"tree, epsilon {epsilon:g}", TREE, epsilon) for epsilon in EPSILONS]
    ways += [("tree, pure epsilon 1", PURE, 1.0)]
    ways += [(f"tree with one parent a column, epsilon {epsilon:g}", ONE, epsilon) for epsilon in (1.0, 8.0)]
    ways += [(f"columns alone, epsilon {epsilon:g}", COLUMNS, epsilon) for epsilon in (1.0, 4.0, 8.0)]
    ways += [(f"{way}, epsilon {epsilon:g}", way, epsilon) for way, some in LOCAL.items() for epsilon in some]
    rows = [[name, *(cell(results, data, way, e) for data in sets)] for name, way, e in ways]
    alone = [("real rows", REAL, 0.0), *((f"tree, epsilon {e:g}", TREE, e) for e in (1.0, 4.0, 8.0))]
    rows += [
        [f"{name}, forest alone", *(cell(results, data, way, e, ("forest",)) for data in sets)]
        for name, way, e in alone
    ]
    parts = [
        "# Rows that belong to nobody: results",
        f"Written by `papers/central/run.py`: {done[0]:,} of {done[1]:,} tasks were done.",
        AHEAD,
        table(["", *sets], (row for row in rows if any(row[1:]))),
        *([] if fast else ["![accuracy by epsilon](figures/accuracy.svg)"]),
        *(part for epsilon in (1.0, 4.0) for part in _far(results, sets, epsilon)),
        "## Beside MST and AIM at epsilon 1",
        BESIDE,
        table(["set, split", "way", *LEARNERS, "mean", "AUC", "seconds", "MB"], _beside(results)),
        "## What is kept of the tables",
        "Mean total variation between a column's histograms (20 bins), and mean absolute difference of correlations.",
        table(["set", *(f"epsilon {e:g}" for e in EPSILONS), "kernel"], _kept(results, sets)),
        "## Seconds of processor time to make the rows",
        "At epsilon 1, in the process that also trains; the least of the splits.",
        table(["", *sets], [["tree", *(_seconds(results, data) for data in sets)]]),
    ]
    if results.skipped:
        parts += ["## Left out", *(f"- {why}" for why in results.skipped.values())]
    return "\n\n".join(parts) + "\n"


def _far(results: Results, sets: list[str], epsilon: float) -> list[str]:
    by_learners = {"all four learners": LEARNERS, "without naive Bayes": WITHOUT_BAYES, "a forest": ("forest",)}
    losses = {name: _losses(results, sets, epsilon, by) for name, by in by_learners.items()}
    rows = [[data, *(words for one in losses.values() for words in one[data])] for data in losses["a forest"]]
    if not rows:
        return []
    head = ["set", *(word for name in losses for word in (f"lost: {name}", "the tree gains"))]
    return [f"## How far from real rows at epsilon {epsilon:g}", FAR, table(head, rows)]


def _losses(results: Results, sets: list[str], epsilon: float, by: tuple[str, ...]) -> dict[str, list[str]]:
    """Half-widths as if both ways had met different test rows: too wide rather than too narrow."""
    lost: dict[str, tuple[float, float, float]] = {}
    for data in sets:
        real, tree, columns = (
            results.of(data, way, e) for way, e in ((REAL, 0.0), (TREE, epsilon), (COLUMNS, epsilon))
        )
        if real and tree and columns:
            found = scored(tree, 0, by)
            wide = math.hypot(half_width(real, data, by), half_width(tree, data, by))
            lost[data] = scored(real, 0, by) - found, wide, found - scored(columns, 0, by)
    words = {data: [f"{one:.3f} ± {wide:.3f}", f"{gain:.3f}"] for data, (one, wide, gain) in lost.items()}
    if large := [lost[data] for data in LARGE if data in lost]:
        wide = math.hypot(*(half for _, half, _ in large)) / len(large)
        one, gain = mean(one for one, _, _ in large), mean(gain for _, _, gain in large)
        name = f"mean of {len(large)} sets with more than 5,000 rows"
        words[name] = [f"**{one:.3f}** ± {wide:.3f}", f"{gain:.3f}"]
    return words


def _beside(results: Results) -> Iterable[list[str]]:
    """Ours and every peer, split by split, where a peer was started."""
    tasks = {
        (t.data, t.seed, t.way): v for t, v in results.found.items() if t.way in (*PEERS, "ours") and t.epsilon == 1
    }
    for data, seed in dict.fromkeys((data, seed) for data, seed, way in tasks if way in PEERS):
        for way in ("ours", *PEERS):
            if found := tasks.get((data, seed, way)):
                yield [f"{data}, {seed + 1}", _name(way), *_one(found)]


def _one(found: dict[str, Any]) -> list[str]:
    if "learners" not in found:
        return [*[""] * (len(LEARNERS) + 2), found.get("unfinished", "not installed"), ""]
    accuracies = [found["learners"][name][0] for name in LEARNERS]
    figures = [*accuracies, scored([found], 0), scored([found], 1)]
    return [*(f"{one:.3f}" for one in figures), f"{found['seconds']:.2f}", f"{found['megabytes']:.0f}"]


def _kept(results: Results, sets: list[str]) -> Iterable[list[str]]:
    for data in sets:
        found = [results.of(data, TREE, epsilon) for epsilon in EPSILONS] + [results.of(data, KERNEL, 0.0)]
        yield [data, *("" if not r else f"{_mean(r, 'marginals')} / {_mean(r, 'correlations')}" for r in found)]


def _seconds(results: Results, data: str) -> str:
    runs = results.of(data, TREE, 1.0)
    return f"{min(run['seconds'] for run in runs):.2f}" if runs else ""


def _name(way: str) -> str:
    if way not in PEERS:
        return way
    kind, *rest = way.split(" ", 1)
    return " ".join([kind.upper(), *rest])


def _mean(runs: list[dict[str, Any]], name: str) -> str:
    return f"{mean(run[name] for run in runs):.3f}"
