"""Data that the papers generated: Gaussian clusters and Breiman's waveforms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


def gaussian_clusters(
    rng: np.random.Generator,
    rows: int = 100_000,
    columns: int = 100,
    clusters: int = 10,
    sigma: float = 2.0,
    reach: float = 5.0,
) -> tuple[Matrix, Codes]:
    """Rows around `clusters` centres, and the number of each row's cluster [principal-laplace, 6.1.1].

    Centres are uniform in [-reach, reach] in every column, rows normal around their centre with standard
    deviation `sigma` in every column; clusters are equally likely.
    """
    centres = rng.uniform(-reach, reach, size=(clusters, columns))
    y = rng.integers(clusters, size=rows)
    X = rng.standard_normal((rows, columns))
    X *= sigma
    X += centres[y]
    return X, y


def waveform(rng: np.random.Generator, rows: int = 5000) -> tuple[Matrix, Codes]:
    """Breiman's waveforms, 21 columns and three equally likely classes [Breiman, Friedman, Olshen & Stone 1984].

    ``x_i = u g(i) + (1 - u) h(i) + e_i`` with one u uniform in [0, 1] per row, e normal, and g, h two of the three
    triangles ``max(6 - |i - 11|, 0)`` and the same moved by 4 to either side: (1, 2), (1, 3), (2, 3) for the
    three classes.
    """
    i = np.arange(1, 22)
    triangle = [np.maximum(6.0 - np.abs(i - centre), 0.0) for centre in (11, 15, 7)]
    first, second = np.array([triangle[0], triangle[0], triangle[1]]), np.array([triangle[1], triangle[2], triangle[2]])
    y = rng.integers(3, size=rows)
    u = rng.random((rows, 1))
    return u * first[y] + (1 - u) * second[y] + rng.standard_normal((rows, 21)), y
