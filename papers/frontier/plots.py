"""Both axes: accuracy against epsilon, and accuracy against how often two people are told apart."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib import pyplot as plt
from papers.figures import BLUE, GREEN, GREY, ORANGE, RED, Makers
from results import CEILING, MAJORITY, Results
from roads import AUTO, ROADS, TARGETS, Road
from sets import TEN

COLOURS = {
    Road("principal-laplace", AUTO): GREY,
    Road("square-wave", AUTO): BLUE,
    Road("square-wave", "empirical-bayes-naive-bayes"): ORANGE,
    Road("staged-release", AUTO): RED,
}


def figures(results: Results) -> Makers:
    """What draws each figure."""
    return {"both-axes": partial(both_axes, results), "sets": partial(every_set, results)}


def both_axes(results: Results) -> plt.Figure:
    """Means over the sets."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.3), sharey=True)
    names = results.complete()
    ends = [results.mean([results.accuracy(name, end, 0.0) for name in names]) for end in (MAJORITY, CEILING)]
    for axis in (left, right):
        for end, title in zip(ends, (MAJORITY, CEILING), strict=True):
            if end is not None:
                axis.axhline(100 * end.mean, color=GREEN, ls=":", lw=0.9)
                axis.annotate(
                    title, (0.02, 100 * end.mean), xycoords=("axes fraction", "data"), va="bottom", fontsize=7
                )
    for road in ROADS:
        points = []
        for epsilon in results.epsilons():
            accuracy = results.mean([results.accuracy(name, road, epsilon) for name in names])
            pair = results.mean([results.pair(name, road, epsilon) for name in names])
            if accuracy is not None and pair is not None:
                points.append((epsilon, *(100 * np.array([*accuracy, *pair]))))
        if points:
            epsilon, mean, error, pair_mean, pair_error = np.array(points).T
            style = {"color": COLOURS[road], "marker": "o", "ms": 3, "lw": 1.0, "label": road.title}
            left.errorbar(epsilon, mean, 2 * error, **style)
            right.errorbar(pair_mean, mean, 2 * error, 2 * pair_error, **style)
    if len(names) == len(TEN):
        left.plot(list(TARGETS), list(TARGETS.values()), "k_", ms=9, label="aimed at")
    left.set(xscale="log", xlabel="epsilon of the record", ylabel="mean accuracy, %", title="against epsilon")
    left.set_xticks(results.epsilons(), [f"{epsilon:g}" for epsilon in results.epsilons()], minor=False)
    left.minorticks_off()
    right.set(xlabel="two people told apart, % of pairs (a coin: 50)", title="against the adversary's success")
    left.legend(frameon=False, fontsize=6, loc="lower right", bbox_to_anchor=(1.0, 0.06))
    return figure


def every_set(results: Results) -> plt.Figure:
    """Accuracy against the adversary's success, a panel a set."""
    names = results.known()
    rows = -(-len(names) // 5)
    figure, axes = plt.subplots(rows, min(5, len(names)), figsize=(9.4, 2.1 * rows), squeeze=False, sharex=True)
    for axis, name in zip(axes.flat, names, strict=False):
        for end in (MAJORITY, CEILING):
            if (found := results.accuracy(name, end, 0.0)) is not None:
                axis.axhline(100 * found.mean, color=GREEN, ls=":", lw=0.8)
        for road in ROADS:
            at = [(results.pair(name, road, eps), results.accuracy(name, road, eps)) for eps in results.epsilons()]
            points = [(100 * x.mean, 100 * y.mean) for x, y in at if x is not None and y is not None]
            if points:
                axis.plot(*np.array(points).T, color=COLOURS[road], marker="o", ms=2, lw=0.8)
        axis.set_title(name, fontsize=7)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    figure.supxlabel("two people told apart, % of pairs", fontsize=7)
    figure.supylabel("accuracy, %", fontsize=7)
    return figure
