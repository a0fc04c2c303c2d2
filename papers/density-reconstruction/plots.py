"""The paper's figures, and what the result depends on, as small SVG files."""

from __future__ import annotations

from functools import partial

import numpy as np
from dependence import MULTIPLES, PENALTIES, RATIOS, ROUNDS, X_BINS
from experiments import NOISES
from literal import parzen
from matplotlib import pyplot as plt
from papers.figures import BLUE, ORANGE, RED, Makers
from published import PRIVACY_LOSS, TABLE_1
from tasks import TITLES, Results

COLOURS = {"Mul": BLUE, "Add": RED}


def figures(results: Results) -> Makers:
    """What draws each figure."""
    makers = {"fig1": seven_values, "fig3": trade_off, "fig4": histograms, "dependence": dependence, "width": widths}
    return {name: partial(make, results) for name, make in makers.items()}


def seven_values(results: Results) -> plt.Figure:
    """Fig. 1: kernels about seven values and their sum, with the leave-one-out width and (Remark 1) two others."""
    found = results.get("figure_1")
    z, width = np.array(found["values"]), found["width"]
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 2.4), sharey=True)
    at = np.linspace(-5, 5, 200)
    names = ("leave-one-out width", "a third: too much chance", "three times: too smooth")
    for axis, factor, title in zip(axes, (1, 1 / 3, 3), names, strict=True):
        for value in z:
            axis.plot(at, parzen(np.array([value]), at, factor * width) / len(z), color="0.6", lw=0.7)
        axis.plot(at, parzen(z, at, factor * width), color=BLUE, lw=1.8)
        axis.plot(z, np.zeros(len(z)), "s", color=RED, ms=4, clip_on=False)
        axis.set(title=f"{title} ({factor * width:.2f})", xlabel="z")
    axes[0].set(ylabel="density", ylim=(0, None))
    return figure


def trade_off(results: Results) -> plt.Figure:
    """Fig. 3, as published above, ours below."""
    rows = (("PQP", "EM, 50", "as published"), ("PQP, ours", "EM, ours", "ours"))
    figure, axes = plt.subplots(2, len(results.data), figsize=(8.4, 5.0), sharey=True, squeeze=False)
    for column, data in enumerate(results.data):
        levels = results.levels(data)
        for row, (pqp, em, words) in enumerate(rows):
            axis = axes[row, column]
            lines = (("Mul", pqp, BLUE, "o"), ("Add", pqp, RED, "s"), ("Add", em, ORANGE, "^"))
            for shift, (noise, method, colour, mark) in enumerate(lines):
                loss = np.array([found[noise][method]["loss"] for found in levels.values()])
                axis.errorbar(
                    np.array(list(levels)) + 0.004 * (shift - 1),
                    loss[:, 0],
                    loss[:, 1],
                    color=colour,
                    marker=mark,
                    ms=3,
                    lw=1,
                    elinewidth=0.6,
                    label=f"{noise} + {method}",
                )
            axis.set(title=f"{TITLES[data]}, {words}")
            axis.axvline(PRIVACY_LOSS, color="0.8", lw=0.8, zorder=0)
            if row:
                axis.set_xlabel("privacy loss P(X|Z)")
    for axis in axes[:, 0]:
        axis.set_ylabel("information loss")
        axis.legend(frameon=False)
    axes[0, 0].set_ylim(bottom=0)
    return figure


def histograms(results: Results) -> plt.Figure:
    """Fig. 4: (a) the original, (b-d) as published; below, ours over the original."""
    found = results.get("figure_4")
    edges = np.array(found["edges"]) / (1000 if found["edges"][-1] > 1000 else 1)
    unit = "thousand dollars" if found["edges"][-1] > 1000 else "x"
    panels = [
        ("(a) original", None),
        ("(b) Mul + PQP", "Mul + PQP"),
        ("(c) Add + PQP", "Add + PQP"),
        ("(d) Add + EM, 50 rounds", "Add + EM, 50"),
        ("ours: Mul + PQP", "Mul + PQP, ours"),
        ("ours: Add + PQP", "Add + PQP, ours"),
        ("ours: Mul + EM", "Mul + EM, ours"),
        ("ours: Add + EM", "Add + EM, ours"),
    ]
    figure, axes = plt.subplots(2, 4, figsize=(8.4, 3.8), sharex=True, sharey=True)
    for axis, (title, key) in zip(axes.ravel(), panels, strict=True):
        if key is None:
            axis.stairs(found["original"], edges, fill=True, color="0.6")
        else:
            axis.stairs(found["original"], edges, fill=True, color="0.88")
            axis.stairs(found[key]["mass"], edges, color=BLUE if "Mul" in key else RED, lw=1)
            title += f": {found[key]['loss']:.3f}"
        axis.set_title(title, fontsize=7.5)
    for axis in axes[1]:
        axis.set_xlabel(unit)
    for axis in axes[:, 0]:
        axis.set_ylabel("share of counties" if unit != "x" else "share")
    return figure


def dependence(results: Results) -> plt.Figure:
    """Loss against cells of x, points of z, penalty, and rounds of EM."""
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 5.0))
    _grid(results, axes[0, 0], axes[0, 1])
    penalty, stopping = results.get("penalty"), results.get("stopping")
    places = np.arange(len(PENALTIES))
    for noise in NOISES:
        for kind, style in (("published", "--"), ("ours", "-")):
            loss = [penalty[noise][f"{kind}|{weight:g}"]["loss"][0] for weight in PENALTIES]
            axes[1, 0].plot(places, loss, style, color=COLOURS[noise], marker="o", ms=3, lw=1, label=f"{noise}, {kind}")
        axes[1, 0].axhline(
            penalty[noise]["auto"]["loss"][0], color=COLOURS[noise], ls=":", lw=1, label=f"{noise}, automatic"
        )
        loss = [stopping[noise][str(count)]["loss"][0] for count in ROUNDS]
        axes[1, 1].plot(ROUNDS, loss, color=COLOURS[noise], marker="o", ms=3, lw=1, label=f"{noise} + EM")
        for rule, mark in (("EM, ours", "*"), ("EM, discrepancy", "X"), ("EM, successive", "P")):
            one = stopping[noise][rule]
            axes[1, 1].plot(
                one["rounds"][0],
                one["loss"][0],
                mark,
                color=COLOURS[noise],
                mec="k",
                mew=0.4,
                ms=8,
                label=rule.replace("EM, ", "stopped: ") if noise == "Add" else None,
            )
    axes[1, 0].set_xticks(places, [f"{weight:g}" for weight in PENALTIES])
    axes[1, 0].set(title="penalty", xlabel="weight", ylabel="information loss", ylim=(0, None))
    axes[1, 1].axhline(TABLE_1["Add + EM"], color="0.7", ls="--", lw=0.8, label="published Add + EM")
    axes[1, 1].set(title="rounds of EM", xlabel="rounds", xscale="log", ylim=(0, None))
    axes[1, 1].set_xticks(ROUNDS, [str(count) for count in ROUNDS])
    axes[1, 1].minorticks_off()
    for axis in axes[0]:
        axis.set_ylim(0, 1.45 * axis.dataLim.y1)
        axis.legend(frameon=False, fontsize=6.5, ncols=2, loc="upper center")
    for axis in axes[1]:
        axis.legend(frameon=False, fontsize=6.5)
    return figure


def _grid(results: Results, by_cells: plt.Axes, by_points: plt.Axes) -> None:
    found = results.get("grid")
    for noise in NOISES:
        for key, style in (("2.5", "--"), ("ours", "-")):
            loss = [found[f"{noise}|{count}"][key][0] for count in X_BINS]
            label = f"{noise}, {'ours' if key == 'ours' else 'published, 2.5 z-points each'}"
            by_cells.plot(X_BINS, loss, style, color=COLOURS[noise], marker="o", ms=3, lw=1, label=label)
        for count, style in ((X_BINS[1], ":"), (X_BINS[2], "-"), (X_BINS[4], "--")):
            loss = [found[f"{noise}|{count}"][str(ratio)][0] for ratio in RATIOS]
            by_points.plot(
                RATIOS, loss, style, color=COLOURS[noise], marker="o", ms=3, lw=1, label=f"{noise}, {count} cells"
            )
    by_cells.set(title="cells of x", xlabel="cells", ylabel="information loss", ylim=(0, None))
    by_points.set(title="points of z (published)", xlabel="points for each cell of x", ylim=(0, None))


def widths(results: Results) -> plt.Figure:
    """Integrated squared error of the window against its width."""
    found = results.get("width")
    figure, axis = plt.subplots(figsize=(4.6, 2.7))
    for noise in NOISES:
        axis.plot(MULTIPLES, found[noise]["multiples"], color=COLOURS[noise], marker="o", ms=3, lw=1, label=noise)
    axis.axhline(1, color="0.7", ls="--", lw=0.8)
    axis.set(xscale="log", yscale="log", xlabel="width / leave-one-out width", ylabel="squared error / least possible")
    axis.set_xticks(MULTIPLES, [f"{multiple:g}" for multiple in MULTIPLES])
    axis.minorticks_off()
    axis.legend(frameon=False)
    return figure
