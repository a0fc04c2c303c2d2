"""The distributed setting of Fig. 1: a table split into training and test rows, the training rows dealt to L sites."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from papers.data import load
from published import SETS
from sklearn.model_selection import train_test_split

from sfumato.mechanisms import KernelResampling
from sfumato.mechanisms.kernel_resampling import KernelResamplingWarning
from sfumato.table import Encoding

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Rows scaled to [0, 1] by the whole table's range (the paper's [-1, 1] is twice that, minus 1), and classes."""

    train: Matrix
    train_y: Codes
    test: Matrix
    test_y: Codes


@dataclass(frozen=True)
class Pooled:
    """What the server holds, with what only the sites know: sources (positions among all training rows) and widths."""

    X: Matrix
    y: Codes
    source: Codes
    widths: Matrix
    sites: list[tuple[Codes, KernelResampling]]


def names_of(name: str) -> tuple[str, ...]:
    """The files of a data set: SVMGuide1 was split beforehand."""
    return ("svmguide1_train", "svmguide1_test") if name == "svmguide1" else (name,)


def split(name: str, seed: int, online: bool = False) -> Split:
    """The paper's numbers of training and test rows (Table 1), drawn within classes."""
    parts = [load(part, online=online) for part in names_of(name)]
    X = np.vstack([part.X for part in parts])
    y = np.concatenate([part.y for part in parts])
    if name == "iris":
        y = (y == 2).astype(np.int64)  # Setosa and Versicolour are one class
    span = np.ptp(X, axis=0)
    X = np.where(span > 0, (X - X.min(axis=0)) / np.where(span > 0, span, 1.0), 0.5)
    if name == "svmguide1":
        first = len(parts[0].X)
        return Split(X[:first], y[:first], X[first:], y[first:])
    kept = SETS[name]
    train, test, train_y, test_y = train_test_split(
        X, y, train_size=kept.training, test_size=len(X) - kept.training, random_state=seed, stratify=y
    )
    return Split(train, train_y, test, test_y)


def dealt(y: Codes, sites: int, rng: np.random.Generator) -> list[Codes]:
    """Training rows dealt to sites at random, class by class, as evenly as can be."""
    order = np.concatenate([rng.permutation(np.flatnonzero(y == code)) for code in np.unique(y)])
    return [np.sort(order[start::sites]) for start in range(sites)]


def resampled(
    X: Matrix, y: Codes, sites: int, rng: np.random.Generator, bandwidth: str = "published", rows: float | None = None
) -> Pooled:
    """Every site fits and draws alone; the server pools what they send."""
    encoding = Encoding.unit(X.shape[1])
    blocks, widths, sources, fitted = [], [], [], []
    for members in dealt(y, sites, rng):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KernelResamplingWarning)
            mechanism = KernelResampling(bandwidth=bandwidth, rows=rows).fit(X[members], y[members], encoding)
        block = mechanism.perturb(X[members], y[members], rng)
        blocks.append(block)
        sources.append(members[block.source])
        table = np.array([mechanism.kernels_[code].widths for code in sorted(mechanism.kernels_)])
        widths.append(table[np.searchsorted(sorted(mechanism.kernels_), block.y)])
        fitted.append((members, mechanism))
    return Pooled(
        np.vstack([block.X for block in blocks]),
        np.concatenate([block.y for block in blocks]),
        np.concatenate(sources),
        np.vstack(widths),
        fitted,
    )
