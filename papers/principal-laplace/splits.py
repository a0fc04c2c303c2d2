"""The paper's tables, cut as in 6.1.1: columns scaled to [0, 1], 90% of the rows released, 10% asked about."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from papers.data import SHAPES, DataMissingError, DataSet, load

from sfumato.auditing.figures.principal_laplace import Split
from sfumato.auditing.figures.sets import gaussian_clusters, waveform

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]

SYNTHETIC = {"synthetic-2": 2.0, "synthetic-8": 8.0}
TITLES = {
    "wine": "Wine",
    "pendigits": "Pendigits",
    "wdbc": "Cancer (WDBC)",
    "magic04": "Magic04",
    "ionosphere": "Ionosphere",
    "iris": "Iris",
    "waveform": "Waveform",
    "synthetic-2": "Synthetic, sigma 2",
    "synthetic-8": "Synthetic, sigma 8",
}
"""In the order of Table 2 and Figs 5, 8 and 9."""

SEED = 2008
MOST_QUERIES = 1000
"""Queries to the synthetic sets, whose 10% would be 10,000."""


@dataclass(frozen=True)
class Table:
    """A data set in [0, 1], and where it came from."""

    name: str
    X: Matrix
    y: Codes
    source: str

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Which columns have something to hide: Ionosphere's second attribute is constant."""
        return np.asarray(np.ptp(self.X, axis=0) > 0)

    def split(self, run: int) -> Split:
        """The same rows for every method, others in every run."""
        order = generator(self.name, "split", run).permutation(len(self.X))
        tested = round(0.1 * len(order))
        asked, released = order[:tested], order[tested:]
        if self.name in SYNTHETIC:
            asked = asked[:MOST_QUERIES]
        return Split(self.X[released], self.y[released], self.X[asked], self.y[asked], self.varies)


@lru_cache(maxsize=2)
def table(name: str, online: bool = False) -> Table:
    """A table of the paper by name; `DataMissingError` where it cannot be had."""
    if name in SYNTHETIC:
        X, y = gaussian_clusters(generator(name, "rows", 0), sigma=SYNTHETIC[name])
        return Table(name, DataSet(name, X, y, "").unit(), y, "generated: 100,000 x 100, 10 clusters")
    try:
        data = load(name, online=online)
    except DataMissingError:
        if name != "waveform":
            raise
        X, y = waveform(generator(name, "rows", 0), SHAPES[name][1])
        data = DataSet(name, X, y, "generated anew: the UCI sample was not found")
    return Table(name, data.unit(), data.y, data.source)


def generator(*words: str | int) -> np.random.Generator:
    """Repeatable random numbers for one purpose; a fixed seed is for papers, never for a release."""
    return np.random.default_rng([SEED, *(zlib.crc32(str(word).encode()) for word in words)])
