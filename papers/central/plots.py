"""Accuracy against epsilon, one panel for each set."""

from __future__ import annotations

from functools import partial

from frames import REPORTED, TINY
from matplotlib import pyplot as plt
from papers.figures import BLUE, GREEN, GREY, ORANGE, RED, Makers
from tables import PEERS, Results, half_width, scored
from tasks import COLUMNS, EPSILONS, ONE, REAL, TREE

LINES = {TREE: (BLUE, "o"), ONE: (GREEN, "^"), COLUMNS: (ORANGE, "s"), "square-wave": (GREY, "v")}
NAMES = {TREE: "tree", ONE: "one parent a column", COLUMNS: "columns alone", "square-wave": "square wave, auto"}
PEER_MARKS = dict(zip(PEERS, ("x", "+", "1", "2"), strict=True))
ACROSS = 4


def figures(results: Results) -> Makers:
    """What draws each figure."""
    return {"accuracy": partial(accuracy, results)}


def accuracy(results: Results) -> plt.Figure:
    """Mean over the learners, with the intervals of the page; real rows are the dotted line."""
    sets = [name for name in (*REPORTED, TINY) if results.of(name, REAL, 0.0)]
    down = max(1, -(-len(sets) // ACROSS))
    figure, axes = plt.subplots(down, ACROSS, figsize=(8.4, 0.4 + 2.1 * down), squeeze=False)
    for axis, data in zip(axes.flat, sets, strict=False):
        axis.axhline(100 * scored(results.of(data, REAL, 0.0), 0), color="0.3", ls=":", lw=1.0, label="real rows")
        for way, (colour, mark) in LINES.items():
            found = [(epsilon, runs) for epsilon in EPSILONS if (runs := results.of(data, way, epsilon))]
            if found:
                means = [100 * scored(runs, 0) for _, runs in found]
                errors = [100 * half_width(runs, data) for _, runs in found]
                style = {"color": colour, "marker": mark, "ms": 3, "lw": 1.0, "elinewidth": 0.6}
                axis.errorbar([epsilon for epsilon, _ in found], means, errors, label=NAMES[way], **style)
        for way, mark in PEER_MARKS.items():
            if runs := results.of(data, way, 1.0):
                axis.plot(1.0, 100 * scored(runs, 0), mark, color=RED, ms=6, label=f"dpmm {way}")
        axis.set(xscale="log", xlim=(0.4, 10.0), title=data)
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
    for axis in axes.flat[len(sets) :]:
        axis.set_axis_off()
    for row in axes:
        row[0].set_ylabel("accuracy, %")
    for axis in axes[-1]:
        axis.set_xlabel("epsilon")
    handles: dict[str, object] = {}
    for axis in axes.flat:
        handles.update({name: handle for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)})
    figure.legend(handles.values(), handles.keys(), frameon=False, fontsize=7, loc="outside lower center", ncols=5)
    return figure
