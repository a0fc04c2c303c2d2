"""COMPARISON.md from the scores: what knowing the noise gains and loses, set by set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LEARNERS = ("naive Bayes", "tree", "forest", "LDA", "QDA")
NOISE = {"normal": "Gaussian", "uniform": "uniform"}
CLEAR = 0.01
"""Differences below this are called level."""

OPENING = """# Learners that know the noise, against the same learners that do not

Written by `comparison.py`. Additive noise in every column; *privacy* is the width of the noise's 95% interval over the
column's range (Agrawal & Srikant). Trained on noisy rows, tested on plain ones, in percent of correct answers.
*Naive*: the same learner without the card. Naive Bayes, tree and forest know the noise by reconstruction within every
class (tree and forest: values assigned to intervals in order; 15 trees a forest); LDA and QDA by taking the noise out
of the moments. Sets under 1,500 rows: mean of three splits 70/30, others one split. A point or two on one set is
chance; trust what holds over sets and levels. The floor of LDA and QDA (1.5) was chosen on these sets with Gaussian
noise, so those lines flatter it a little; nothing was chosen with uniform noise.
"""


def comparison_text(results: Mapping[Any, Mapping[str, Any]], missing: Sequence[str]) -> str:
    main = {task: value for task, value in results.items() if not task.local}
    parts = [OPENING]
    if missing:
        parts.append(f"Not found, and left out: {', '.join(missing)}.\n")
    parts += [_summary(main), _means(main), _gains(main)]
    parts += [_sets(main, law) for law in NOISE]
    parts += [_ways(main), _local({task: value for task, value in results.items() if task.local})]
    minutes = sum(value["seconds"] for value in results.values()) / 60
    parts.append(f"All of it took {minutes:.0f} minutes of one processor.\n")
    return "\n".join(parts)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _levels(main: Mapping[Any, Any]) -> list[float]:
    return sorted({task.privacy for task in main})


def _summary(main: Mapping[Any, Any]) -> str:
    """Wins and losses over all sets, by learner, noise and level."""
    lines = []
    for learner in LEARNERS:
        for law, words in NOISE.items():
            line = [learner, words]
            for level in _levels(main):
                gains = [
                    value["scores"][learner]["aware"] - value["scores"][learner]["naive"]
                    for task, value in main.items()
                    if task.law == law and task.privacy == level
                ]
                wins, losses = sum(g > CLEAR for g in gains), sum(g < -CLEAR for g in gains)
                line.append(f"{wins} / {losses} ({100 * np.mean(gains):+.1f})")
            lines.append(line)
    head = ["learner", "noise", *(f"{level:.0%}" for level in _levels(main))]
    title = (
        "## Wins / losses (mean gain in points)\n\nOver all sets; differences of up to one point count as neither.\n\n"
    )
    return title + _table(head, lines)


def _means(main: Mapping[Any, Any]) -> str:
    """Mean accuracy over sets: what to choose, not only what to gain."""
    lines = []
    for learner in LEARNERS:
        for how in ("naive", "aware"):
            line = [learner, how]
            for law in NOISE:
                for level in _levels(main):
                    chosen = [value for task, value in main.items() if task.law == law and task.privacy == level]
                    line.append(f"{100 * np.mean([value['scores'][learner][how] for value in chosen]):.1f}")
            lines.append(line)
    head = ["learner", "", *(f"{NOISE[law]} {level:.0%}" for law in NOISE for level in _levels(main))]
    return "## Mean accuracy over all sets\n\n" + _table(head, lines)


def _gains(main: Mapping[Any, Any]) -> str:
    """The largest gains and losses."""
    every = [
        (value["scores"][learner]["aware"] - value["scores"][learner]["naive"], learner, task, value["scores"][learner])
        for task, value in main.items()
        for learner in LEARNERS
    ]
    every.sort(key=lambda entry: entry[0])
    lines = [
        [task.data, learner, NOISE[task.law], f"{task.privacy:.0%}", f"{100 * scores['naive']:.1f}",
         f"{100 * scores['aware']:.1f}", f"{100 * gain:+.1f}"]
        for gain, learner, task, scores in [*every[:8], *every[-8:]]
    ]  # fmt: skip
    title = "## The eight worst losses and the eight best gains\n\n"
    return title + _table(["set", "learner", "noise", "privacy", "naive", "aware", "gain"], lines)


def _sets(main: Mapping[Any, Any], law: str) -> str:
    """Every set and learner: clean, then naive -> aware at every level."""
    lines = []
    for data in dict.fromkeys(task.data for task in main):
        mine = {task.privacy: value for task, value in main.items() if task.data == data and task.law == law}
        rows, columns, classes = next(iter(mine.values()))["shape"]
        commonest = next(iter(mine.values()))["commonest"]
        for learner in LEARNERS:
            scores = {level: value["scores"][learner] for level, value in mine.items()}
            name = f"{data} ({rows:,} x {columns}, {classes} classes; commonest {100 * commonest:.0f})"
            line = [
                name if learner == LEARNERS[0] else "",
                learner,
                f"{100 * next(iter(scores.values()))['clean']:.1f}",
            ]
            line += [
                f"{100 * scores[level]['naive']:.1f} → {100 * scores[level]['aware']:.1f}" for level in sorted(scores)
            ]
            lines.append(line)
    head = ["set", "learner", "clean", *(f"{level:.0%}" for level in _levels(main))]
    return f"## {NOISE[law].capitalize()} noise: naive → aware\n\n" + _table(head, lines)


def _ways(main: Mapping[Any, Any]) -> str:
    """Global against by-class reconstruction, for the tree."""
    lines = []
    for group, made in (("F1 to F5", True), ("real sets", False)):
        line = [group]
        for level in _levels(main):
            chosen = [task for task in main if task.privacy == level and (task.data[0] == "F") == made]
            scores = [main[task]["scores"]["tree"] for task in chosen]
            ways = [np.mean([score[how] for score in scores]) for how in ("naive", "global", "aware")]
            line.append(" / ".join(f"{100 * mean:.1f}" for mean in ways))
        lines.append(line)
    head = ["sets", *(f"{level:.0%}" for level in _levels(main))]
    return "## The tree: naive / global / by-class, means over sets and both noises\n\n" + _table(head, lines)


def _local(local: Mapping[Any, Any]) -> str:
    """Local against by-class, grown by the same code."""
    lines = [
        [task.data, NOISE[task.law], *(f"{100 * value['scores']['tree'][way]:.1f}" for way in ("by-class", "local"))]
        for task, value in local.items()
    ]
    gains = [value["scores"]["tree"]["local"] - value["scores"]["tree"]["by-class"] for value in local.values()]
    if gains:
        lines.append(["mean gain", "", "", f"{100 * np.mean(gains):+.1f}"])
    title = "## Local: reconstruct again in every node\n\nThe same grower, depth 6, privacy 100%.\n\n"
    return title + _table(["set", "noise", "by-class", "local"], lines)
