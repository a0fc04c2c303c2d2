"""The paper's figures as small SVG files."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib import pyplot as plt
from papers.figures import BLUE, GREEN, GREY, ORANGE, RED, Makers
from published import FUNCTIONS, ORIGINAL, REACHED_AT
from tasks import FIG_5, Results

from sfumato.auditing.figures.guided_survey import SCHEMES


def figures(results: Results) -> Makers:
    """What draws each figure whose data there are."""
    makers = {"fig3": functions} | ({"fig4": levels, "fig5": arriving} if results.get("original") else {})
    return {name: partial(make, results) for name, make in makers.items()}


def functions(results: Results) -> plt.Figure:
    """Accuracy of the scheme and of ByClass."""
    figure, axis = plt.subplots(figsize=(6.4, 2.8))
    series = [
        ("as published, quartiles", GREY, [results.get("guided", f, "quartiles", "published", 9) for f in FUNCTIONS]),
        ("repaired, quartiles", ORANGE, [results.get("guided", f, "quartiles", "repaired", 300) for f in FUNCTIONS]),
        (
            "repaired, supervised edges",
            BLUE,
            [results.get("guided", f, "supervised", "repaired", 300) for f in FUNCTIONS],
        ),
        ("ByClass, Gaussian noise", RED, [results.get("by_class", f) for f in FUNCTIONS]),
    ]
    for place, (title, colour, found) in enumerate(series):
        height = [100 * x["accuracy"] if x else np.nan for x in found]
        axis.bar(np.arange(len(FUNCTIONS)) + 0.2 * (place - 1.5), height, 0.2, color=colour, label=title)
    axis.set(xticks=range(len(FUNCTIONS)), xticklabels=[f"F{f}" for f in FUNCTIONS], ylim=(50, 100))
    axis.set(title="Fig. 3: 25% disclosure", ylabel="accuracy in %")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure


def levels(results: Results) -> plt.Figure:
    """Accuracy against disclosure over nine levels."""
    figure, axis = plt.subplots(figsize=(6.4, 3.0))
    for scheme, colour in (
        ("published", GREY),
        ("magnitude", GREEN),
        ("repaired", ORANGE),
        ("floor 0.1", RED),
        ("default", BLUE),
    ):
        found = results.get("levels", scheme)
        if found:
            share, hit = (np.array(found[name])[:, 0] * 100 for name in ("disclosure", "accuracy"))
            axis.plot(share, hit, color=colour, marker="o", ms=3, lw=0.8, label=SCHEMES[scheme].title)
    axis.plot(*REACHED_AT[::-1], "k*", ms=9, label="published point")
    axis.axhline(ORIGINAL, color="k", ls="--", lw=0.8, label="original data, published")
    axis.set(title="Fig. 4: Votes, naive Bayes, k = 1 to 9", xlabel="disclosure in %", ylabel="accuracy in %")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure


def arriving(results: Results) -> plt.Figure:
    """k* against the number of answers received."""
    figure, axis = plt.subplots(figsize=(6.4, 2.8))
    for (scheme, mu, start), colour in zip(FIG_5, (GREY, RED, GREEN, ORANGE, BLUE), strict=True):
        found = results.get("arriving", scheme, mu, start)
        if found:
            title = f"{SCHEMES[scheme].title}, {mu:.1%}, {start} start"
            axis.plot(found["received"], found["k"], color=colour, lw=1.0, label=title)
    axis.set(title="Fig. 5: k* while answers arrive", xlabel="answers received", ylabel="k*", ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
