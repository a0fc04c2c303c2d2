"""The paper's figures as small SVG files."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib import pyplot as plt
from papers.figures import BLUE, GREEN, ORANGE, RED, Makers
from published import TABLE_1
from tasks import SIZE, SWEPT, Results

ITERATED = ("breast_cancer_wisconsin", "votes")


def figures(results: Results) -> Makers:
    """What draws each figure whose data there are."""
    makers = {"fig3-4": (over_iterations, ITERATED), "fig5-6": (by_group_size, SWEPT), "fig7-8": (compared, ())}
    return {name: partial(make, results) for name, (make, needed) in makers.items() if set(needed) <= set(results.data)}


def over_iterations(results: Results) -> plt.Figure:
    """LOP, ICA as published and ICA as measured, for every rotation."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.0), sharey=True)
    for number, (axis, name) in enumerate(zip(axes, ITERATED, strict=True)):
        x = np.arange(1, len(results.trace(name, "lop_min")) + 1)
        axis.plot(
            x, results.trace(name, "ica_min"), color=ORANGE, marker="s", ms=2.5, lw=0.8, label="ICA, as published"
        )
        axis.plot(x, results.trace(name, "lop_min"), color=BLUE, marker="o", ms=2.5, lw=0.8, label="LOP, as published")
        axis.plot(x, np.maximum.accumulate(results.trace(name, "lop_min")), color=BLUE, ls=":", label="best LOP so far")
        axis.plot(x, results.trace(name, "true_min"), color=RED, marker="^", ms=2.5, lw=0.8, label="ICA, measured")
        axis.axhline(
            results.get("iterations", name)["mean_guess"][0], color="0.5", ls="--", lw=0.8, label="guessing the mean"
        )
        axis.set(title=f"Fig. {3 + number}: {TABLE_1[name].title}", xlabel="iteration", ylim=(0, 1))
    axes[0].set_ylabel("minimum privacy (sigma)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def by_group_size(results: Results) -> plt.Figure:
    """Minimum and average privacy of condensation against the size of its groups."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.7), sharey=True)
    for number, (axis, name) in enumerate(zip(axes, SWEPT, strict=True)):
        sizes = results.get("condensation", name)["by size"]
        x = [int(size) for size in sizes]
        axis.plot(x, [pair[1] for pair in sizes.values()], color=GREEN, marker="s", ms=3, label="average")
        axis.plot(x, [pair[0] for pair in sizes.values()], color=BLUE, marker="o", ms=3, label="minimum")
        axis.set(title=f"Fig. {5 + number}: {TABLE_1[name].title}", xlabel="rows in a group", ylim=(0, 0.1))
    axes[0].set_ylabel("privacy (sigma)")
    axes[0].legend(frameon=False)
    return figure


def compared(results: Results) -> plt.Figure:
    """Rotation as published, condensation, and what ICA really leaves of the rotation, for every set."""
    figure, axes = plt.subplots(2, 1, figsize=(8.4, 5.0), sharex=True)
    x = np.arange(len(results.data))
    privacy = [results.privacy(name) for name in results.data]
    for number, (axis, kept, true) in enumerate(zip(axes, ("kept", "kept_avg"), ("true_min", "true_avg"), strict=True)):
        condensed = [results.condensed(name)[number] for name in results.data]
        axis.bar(x - 0.27, [one[kept] for one in privacy], 0.26, color=BLUE, label="rotation, as published")
        axis.bar(x, condensed, 0.26, color=GREEN, label=f"condensation, groups of {SIZE}")
        axis.bar(x + 0.27, [one[true] for one in privacy], 0.26, color=RED, label="rotation, ICA measured")
        axis.set(title=f"Fig. {7 + number}: {('minimum', 'average')[number]} privacy", ylabel="sigma")
    axes[1].set_xticks(x, [TABLE_1[name].title for name in results.data], rotation=30, ha="right")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure
