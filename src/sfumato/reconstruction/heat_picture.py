"""A joint density as an SVG picture: cells that are the darker, the more people lie in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.array_types import Floats
from sfumato.reconstruction.picture import BOTTOM, LEFT, RIGHT, TOP, Size, fitting, framed, text, ticks

SIZE = Size(560, 560, 5)
_LIGHT, _DARK = np.array([247, 250, 252]), np.array([23, 66, 100])
_LONGEST = 11


def heat_picture(title: str, names: Sequence[str], places: Sequence[Sequence[str] | Floats], mass: Floats) -> str:
    """The first column across, the second upwards; `places` are edges of cells, or categories."""
    width, height = SIZE.width - LEFT - RIGHT, SIZE.height - TOP - BOTTOM
    area = np.outer(_sizes(places[0]), _sizes(places[1]))
    density = mass / area
    shade = np.sqrt(density / (density.max() or 1.0))  # the eye tells small shares apart better so
    x, y = LEFT + width * _ends(places[0]), TOP + height * (1.0 - _ends(places[1]))
    shapes = []
    for i in range(mass.shape[0]):
        for j in range(mass.shape[1]):
            colour = "".join(f"{int(c):02x}" for c in _LIGHT + shade[i, j] * (_DARK - _LIGHT))
            shapes.append(
                f'<rect x="{x[i]:.1f}" y="{y[j + 1]:.1f}" width="{x[i + 1] - x[i] + 0.3:.1f}" '
                f'height="{y[j] - y[j + 1] + 0.3:.1f}" fill="#{colour}"/>'
            )
    for at, words in _marks(places[0]):
        shapes.append(text(LEFT + width * at, SIZE.height - BOTTOM + 18, words, "middle"))
    for at, words in _marks(places[1]):
        shapes.append(text(LEFT - 6, TOP + height * (1.0 - at) + 4, words, "end"))
    shapes.append(text(LEFT + 0.5 * width, SIZE.height - 10, fitting(names[0], 60), "middle"))
    shapes.append(text(LEFT, 48, "the darker, the more people (square root of the density)", "start"))
    return framed(title, fitting(names[1], _LONGEST), shapes, SIZE.height - BOTTOM, SIZE)


def _is_words(places: Sequence[str] | Floats) -> bool:
    return not isinstance(places, np.ndarray)


def _ends(places: Sequence[str] | Floats) -> Floats:
    """Ends of the cells between 0 and 1."""
    if _is_words(places):
        return np.asarray(np.linspace(0.0, 1.0, len(places) + 1))
    edges = np.asarray(places, dtype=np.float64)
    return np.asarray((edges - edges[0]) / (edges[-1] - edges[0]))


def _sizes(places: Sequence[str] | Floats) -> Floats:
    return np.diff(_ends(places))


def _marks(places: Sequence[str] | Floats) -> list[tuple[float, str]]:
    if _is_words(places):
        every = 1 + len(places) // 12  # names of hundreds of categories: the table has them all
        shown = [(number, str(name)) for number, name in enumerate(places) if number % every == 0]
        return [((number + 0.5) / len(places), fitting(name, _LONGEST)) for number, name in shown]
    low, high = float(places[0]), float(places[-1])
    return [((mark - low) / (high - low), words) for mark, words in ticks(low, high, SIZE.marks)]
