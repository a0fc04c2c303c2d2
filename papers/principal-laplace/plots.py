"""The paper's figures as small SVG files."""

from __future__ import annotations

from functools import partial

import numpy as np
from claims import OTHERS, regression
from matplotlib import pyplot as plt
from papers.figures import BLUE, GREEN, ORANGE, RED, Makers
from splits import TITLES
from tasks import B_FINE, B, Results

LOOK = {
    "pca-radius": ("PCA-Radius", "o", BLUE),
    "rand-p": ("Rand-P", "^", RED),
    "rand-u": ("Rand-U", "s", ORANGE),
    "rand-n": ("Rand-N", "D", GREEN),
}


def figures(results: Results) -> Makers:
    """What draws each figure."""
    makers = {"fig5": trade_off, "fig6": amplification, "fig8": filtering, "fig9": accuracy, "fig10-11": times}
    return {name: partial(make, results) for name, make in makers.items()}


def panels(results: Results, height: float = 2.3) -> tuple[plt.Figure, list[plt.Axes]]:
    """One panel for each data set, three in a row."""
    count = len(results.data)
    rows = -(-count // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(8.4, height * rows + 0.5), squeeze=False)
    for unused in axes.flat[count:]:
        unused.set_axis_off()
    for axis, name in zip(axes.flat, results.data, strict=False):
        axis.set_title(TITLES[name], fontsize=9, loc="left")
    return figure, list(axes.flat[:count])


def trade_off(results: Results) -> plt.Figure:
    """Average privacy against accuracy, with PCA-Radius' regression line."""
    figure, axes = panels(results)
    for axis, name in zip(axes, results.data, strict=True):
        x = np.array([results.get("pca-radius", name, b, "filtered") for b in B])
        title, marker, colour = LOOK["pca-radius"]
        axis.plot(x, [results.get("pca-radius", name, b, "radius") for b in B], marker, color=colour, label=title)
        corrected = [results.get("pca-radius", name, b, "corrected") for b in B]
        axis.plot(x, corrected, marker, color=colour, fillstyle="none", label="PCA-Radius, votes over priors")
        points = [x]
        for method, settings in OTHERS.items():
            title, marker, colour = LOOK[method]
            privacy, right = (
                np.array([results.get(method, name, setting, key) for setting in settings])
                for key in ("filtered", "best_k")
            )
            axis.plot(privacy, right, marker, color=colour, markersize=5, label=title)
            points.append(privacy)
        line = regression(results, name)
        ends = np.array([min(p.min() for p in points), max(p.max() for p in points)])
        axis.plot(ends, line.intercept + line.slope * ends, "-", color=LOOK["pca-radius"][2], linewidth=1)
        axis.set_ylim(0.25, 1.12)
        axis.set_xlim(left=0)
        axis.locator_params(axis="x", nbins=4)
    finish(figure, axes, "average privacy", "accuracy")
    return figure


def amplification(results: Results) -> plt.Figure:
    """Amplification and rho_2 against b."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.5))
    for axis, key, title in zip(
        axes, ("amplification", "rho_2"), ("amplification", "rho_2 at rho_1 = .001"), strict=True
    ):
        axis.plot(B_FINE, [results.get("amplification", "all", b, key) for b in B_FINE], "o-", color=BLUE)
        axis.set_yscale("log")
        axis.set_xlabel("b")
        axis.set_ylabel(title)
    axes[0].set_title("(a) one component", loc="left", fontsize=9)
    axes[1].set_title("(b) posterior of a rare property", loc="left", fontsize=9)
    return figure


def filtering(results: Results) -> plt.Figure:
    """Average privacy in the three scenarios, with the linear estimate and the mean."""
    figure, axes = panels(results)
    bars = (
        ("pca-radius", "reversed", "No-Filtering", BLUE),
        ("pca-radius", "filtered", "PCA + Filtering", "#62b6cb"),
        ("laplace", "filtered", "No-PCA + Filtering", ORANGE),
        ("pca-radius", "linear", "linear estimate", RED),
    )
    for axis, name in zip(axes, results.data, strict=True):
        for number, (method, key, title, colour) in enumerate(bars):
            height = [results.get(method, name, b, key) for b in B]
            axis.bar(np.arange(3) + 0.2 * (number - 1.5), height, 0.2, color=colour, label=title)
        mean = results.get("pca-radius", name, B[0], "mean")
        axis.axhline(mean, color="black", linewidth=1, linestyle="--", label="guess the mean")
        axis.set_xticks(range(3), [f"{b}" for b in B])
    finish(figure, axes, "b", "average privacy")
    return figure


def accuracy(results: Results) -> plt.Figure:
    """Accuracy of the classifiers against b."""
    figure, axes = panels(results)
    lines = (
        ("radius", "radius", "o-", BLUE),
        ("corrected", "radius, votes over priors", "o--", "#62b6cb"),
        ("best_k", "best k", "^-", GREEN),
        ("k5", "k = 5", "s-", RED),
    )
    for axis, name in zip(axes, results.data, strict=True):
        for key, title, style, colour in lines:
            start = results.get("original", name, 0, "best_k" if key == "best_k" else "k5")
            right = [start, *(results.get("pca-radius", name, b, key) for b in B)]
            axis.plot((0, *B), right, style, color=colour, markersize=4, linewidth=1.2, label=title)
        axis.set_ylim(0.15, 1.04)
        axis.set_xticks((0, *B))
    finish(figure, axes, "b (0: original data)", "accuracy")
    return figure


def times(results: Results) -> plt.Figure:
    """Sanitizing and mining time against columns and rows."""
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 5))
    most = max(results.sizes)
    series = (
        ("attributes", [size for size in results.sizes if size[0] == most[0]], lambda size: size[1]),
        ("thousand records", [size for size in results.sizes if size[1] == most[1]], lambda size: size[0] / 1000),
    )
    parts = (
        ("load_csv", "load CSV", "#cad2c5"),
        ("pca", "components", BLUE),
        ("noise", "noise", RED),
        ("save_csv", "save CSV", "#84a98c"),
    )
    for column, (what, sizes, count) in enumerate(series):
        x = [count(size) for size in sizes]
        stack = [[results.get("time", "clusters", size, key) for size in sizes] for key, _, _ in parts]
        axes[0, column].stackplot(x, stack, labels=[title for _, title, _ in parts], colors=[c for _, _, c in parts])
        axes[0, column].set(xlabel=what, ylabel="core seconds to sanitize", ylim=(0, None), xlim=(min(x), max(x)))
        for key, title, style in (("radius", "radius vote", "o-"), ("k5", "k = 5", "s-")):
            y = [1000 * results.get("time", "clusters", size, key) for size in sizes]
            axes[1, column].plot(x, y, style, color=BLUE if key == "radius" else RED, label=title)
        axes[1, column].set(xlabel=what, ylabel="core ms per query", ylim=(0, None), xlim=(0, None))
    for axis in axes[:, 0]:
        axis.legend(frameon=False, loc="upper left")
    return figure


def finish(figure: plt.Figure, axes: list[plt.Axes], xlabel: str, ylabel: str) -> None:
    """One legend for all panels, labels at the edges only."""
    for number, axis in enumerate(axes):
        axis.locator_params(axis="y", nbins=4)
        if number % 3 == 0:
            axis.set_ylabel(ylabel)
        if number >= len(axes) - 3:
            axis.set_xlabel(xlabel)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
