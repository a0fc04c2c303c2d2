"""A picture for each mechanism (rows before and after) and each adversary (success on every release)."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from measured import Measured

COLOURS = {"one": "#0072b2", "two": "#d55e00"}  # told apart by everybody, also in grey
mpl.rcParams.update({"svg.hashsalt": "sfumato", "font.family": "sans-serif", "axes.spines.top": False})
mpl.rcParams["axes.spines.right"] = False


def draw_mechanism(found: Measured, path: Path) -> bool:
    """The first two columns before and after, by class; False where nothing was released."""
    if found.released is None:
        return False
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2))
    for axis, table, title in zip(axes, (found.original, found.released), ("before", "after"), strict=True):
        names = [name for name in table.column_names if name != "group"][:2]
        groups = np.array(table["group"].to_pylist(), dtype=object)
        across = _numbers(table[names[0]])
        single = np.random.default_rng(0).random(len(across))  # one column only: points side by side
        up = _numbers(table[names[1]]) if len(names) > 1 else single
        for group, colour in COLOURS.items():
            mine = groups == group
            axis.scatter(across[mine], up[mine], s=9, color=colour, alpha=0.6, linewidths=0, label=group)
            _along(axis, across[mine], up[mine], colour)
        for values, limit in ((across, axis.set_xlim), (up, axis.set_ylim)):
            low, high = np.nanmin(values), np.nanmax(values)
            limit(low - 0.05 * (high - low), high + 0.05 * (high - low))
        axis.set(title=title, xlabel=names[0], ylabel=names[1] if len(names) > 1 else "")
    axes[0].legend(title="group", frameon=False, fontsize=8)
    _save(figure, path)
    return True


def _along(axis: plt.Axes, across: np.ndarray, up: np.ndarray, colour: str) -> None:
    """A row that reports only one of the two columns is a mark along that column's axis."""
    band = np.random.default_rng(0)
    look = {"s": 9, "color": colour, "alpha": 0.6, "linewidths": 0}
    lower, left = across[np.isnan(up)], up[np.isnan(across)]
    axis.scatter(lower, band.uniform(0, 0.12, len(lower)), transform=axis.get_xaxis_transform(), **look)
    axis.scatter(band.uniform(0, 0.12, len(left)), left, transform=axis.get_yaxis_transform(), **look)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers as they are, empty cells left out; categories at their place, spread a little to be seen."""
    values = column.to_pylist()
    if any(isinstance(value, str) for value in values):
        kinds = sorted({value for value in values if value is not None})
        spread = np.random.default_rng(0).uniform(-0.3, 0.3, len(values))
        return np.array([np.nan if value is None else kinds.index(value) for value in values]) + spread
    numbers = np.array([np.nan if value is None else float(value) for value in values])
    if len(np.unique(numbers[~np.isnan(numbers)])) <= 4:  # bits
        numbers = numbers + np.random.default_rng(0).uniform(-0.3, 0.3, len(numbers))
    return numbers


def draw_adversary(rows: list[tuple[str, float, float]], path: Path) -> bool:
    """(mechanism, success, baseline), strongest first; False where it could attack nothing."""
    if not rows:
        return False
    figure, axis = plt.subplots(figsize=(7.2, 0.8 + 0.32 * len(rows)))
    places = np.arange(len(rows))[::-1]
    axis.barh(places, [row[1] for row in rows], height=0.6, color="#0072b2")
    axis.scatter(
        [row[2] for row in rows], places, marker="|", s=160, color="black", zorder=3, label="without the release"
    )
    axis.set(yticks=places, yticklabels=[row[0] for row in rows], xlim=(0, 1), xlabel="success (higher is worse)")
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    _save(figure, path)
    return True


def _save(figure: plt.Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
