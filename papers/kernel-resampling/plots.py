"""The paper's figures as small SVG files: phi and DAPL against L, with what the paper does not show beside them."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib import pyplot as plt
from papers.figures import BLUE, GREEN, ORANGE, RED, Makers
from published import CLASSIFIERS, SETS, TITLES, WORST_PHI
from tasks import Results

from sfumato.auditing.figures.kernel_resampling import RULES, SITES
from sfumato.noise.laws import Epanechnikov

MARKS = {"ann": ("x", BLUE), "knn": ("o", RED), "nb": ("+", GREEN)}
DRAWN = (-6.0, -4.6, -3.9, 0.2, 1.3, 2.0, 5.1)
"""Seven realizations like those of Fig. 2, which gives no numbers but N = 7 and h = 1.75."""


def figures(results: Results) -> Makers:
    """What draws each figure whose data there are."""
    makers = {"fig2": estimate} | {f"fig{SETS[name].figure}": partial(one_set, results, name) for name in results.data}
    return makers | ({"against-rows": partial(against_rows, results)} if results.dimensions else {})


def estimate() -> plt.Figure:
    """Fig. 2: seven kernels and their mean."""
    figure, axis = plt.subplots(figsize=(4.6, 2.6))
    at, law = np.linspace(-9, 8, 600), Epanechnikov(1.75)
    kernels = law.pdf(at[:, None] - np.array(DRAWN)) / len(DRAWN)
    axis.plot(at, kernels, color=ORANGE, lw=0.8)
    axis.plot(at, kernels.sum(axis=1), color=BLUE, lw=1.6, label="estimate")
    axis.plot(DRAWN, np.zeros(len(DRAWN)), "s", color=RED, ms=4, clip_on=False, label="rows")
    axis.set(title="Fig. 2: seven Epanechnikov kernels, h = 1.75", ylabel="density", ylim=(0, None))
    axis.legend(frameon=False)
    return figure


def one_set(results: Results, name: str) -> plt.Figure:
    """(a) phi, (b) DAPL, (c) source hits and membership, against L; full lines as published, dotted scaled."""
    figure, axes = plt.subplots(1, 3, figsize=(9.4, 2.9))
    where = np.arange(len(SITES))
    for key in CLASSIFIERS:
        mark, colour = MARKS[key]
        for rule, line in zip(RULES, ("-", ":"), strict=True):
            means, errors = zip(*(results.phi(name, rule, count, key) for count in SITES), strict=True)
            label = TITLES[key] if line == "-" else None
            axes[0].errorbar(where, means, errors, marker=mark, ms=4, color=colour, ls=line, lw=0.9, label=label)
    axes[0].axhline(WORST_PHI, color="0.6", ls="--", lw=0.8)
    axes[0].axhline(0, color="0.8", lw=0.6)
    axes[0].set(title=f"Fig. {SETS[name].figure} (a): {SETS[name].title}", ylabel="phi")
    for code, (mark, colour) in enumerate((("x", BLUE), ("o", RED))):
        for rule, line in zip(RULES, ("-", ":"), strict=True):
            losses = [results.dapl(name, rule, count, code) for count in SITES]
            label = f"class {code + 1}" if line == "-" else None
            axes[1].plot(where, losses, marker=mark, ms=4, color=colour, ls=line, lw=0.9, label=label)
    axes[1].set(title="(b) against rows held apart", ylabel="DAPL", ylim=(0, 1.03))
    for key, title, colour in (("hits", "source hits", ORANGE), ("auc", "membership AUC", GREEN)):
        for rule, line in zip(RULES, ("-", ":"), strict=True):
            figures = [results.over_seeds(name, f"{rule}|{count}", key).mean() for count in SITES]
            label = title if line == "-" else None
            axes[2].plot(where, figures, marker="s", ms=3, color=colour, ls=line, lw=0.9, label=label)
    axes[2].axhline(0.5, color="0.8", lw=0.6)
    axes[2].set(title="(c) not in the paper", ylabel="share", ylim=(0, 1.03))
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(low, high + 0.2 * (high - low))  # room for the legend
    for axis in axes:
        axis.set(xticks=where, xticklabels=SITES, xlabel="L   (full: published bandwidth, dotted: scaled)")
        axis.legend(frameon=False, fontsize=7, ncols=3, loc="upper center" if axis is axes[0] else "lower center")
    return figure


def against_rows(results: Results) -> plt.Figure:
    """DAPL and source hits against N, with the truth known."""
    count = len(results.dimensions)
    figure, axes = plt.subplots(1, count, figsize=(3.1 * count, 2.8), sharey=True, squeeze=False)
    for axis, d in zip(axes[0], results.dimensions, strict=True):
        found = results.get("against_rows", d) or {}
        sizes = sorted({int(key.split("|")[1]) for key in found if key != "cpu"})
        for rule, line in zip(RULES, ("-", ":"), strict=True):
            for key, title, colour in (("dapl", "DAPL", BLUE), ("hits", "source hits", ORANGE)):
                figures = [float(np.mean(found[f"{rule}|{n}|{key}"])) for n in sizes]
                axis.plot(sizes, figures, color=colour, ls=line, marker="o", ms=3, lw=0.9, label=f"{title}, {rule}")
        axis.set(title=f"{d} column{'s' if d > 1 else ''}", xscale="log", xlabel="N", ylim=(0, 1))
    axes[0][0].legend(frameon=False, fontsize=7)
    return figure
