"""How every paper's figures look, and how they are written: small SVG files whose text stays text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

BLUE, RED, ORANGE, GREEN, GREY = "#1b4965", "#bc4749", "#e09f3e", "#6a994e", "0.6"
STYLE = {
    "svg.fonttype": "none",  # text stays text: small files, and they can be searched
    "svg.hashsalt": "sfumato",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}

Makers = Mapping[str, Callable[[], plt.Figure]]


def write_figures(makers: Makers, folder: Path) -> list[Path]:
    """Every figure under its name in `folder`, the same bytes for the same results; returns the paths."""
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context(STYLE):
        for name, make in makers.items():
            figure = make()
            paths.append(folder / f"{name}.svg")
            figure.savefig(paths[-1], metadata={"Date": None})
            plt.close(figure)
    return paths
