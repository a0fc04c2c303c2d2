"""How likely each person is behind each release row, under the known noise law."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.attacks.base import Knowledge, Matrix, Response
from sfumato.attacks.carried_noise import CarriedNoise
from sfumato.attacks.observation import empty_cells, transform_of
from sfumato.guidance import log_likelihoods
from sfumato.noise import Laplace, Normal


def embed(known: Knowledge, X: Matrix) -> Matrix:
    """Where the source rows X would lie in the release without noise: A x + c."""
    if known.transform is None and (known.columnwise or known.guided is not None):
        return X
    matrix, offset = transform_of(known)
    return np.asarray(X @ matrix.T + offset)


class Suspects(NamedTuple):
    """People who may be behind a release row: encoded source rows `X`, and `E`, where they would lie without noise."""

    X: Matrix
    E: Matrix

    @classmethod
    def of(cls, known: Knowledge, X: Matrix) -> Suspects:
        return cls(X, embed(known, X))


def log_likelihood(known: Knowledge, Z: Matrix, people: Suspects, exact_width: float) -> Matrix:
    """log f(z_i | person j), len(Z) x people, up to a constant.

    Independent noise: the sum over release columns of log f_c(z_c - e_c), or of log f_c(z_c | x_c) where an operator
    carries the noise in (such releases are column-wise). Cells that were reported missing count for nothing. A column
    without noise has a normal kernel of width `exact_width` instead: the adversary's list of people is finite, so that
    nobody on it fits exactly.
    """
    if known.guided is not None:  # bits are independent given the answer
        V, floor, link = known.guided
        return log_likelihoods(Z, np.rint(people.X), V, floor, link)
    noise = known.noise if known.noise is not None else (None,) * Z.shape[1]
    onehot = _onehot_slots(known) if known.columnwise else frozenset()
    E = people.E
    total = np.zeros((len(Z), len(E)))
    shown = {column: ~empty_cells(known, Z, column) for column in range(Z.shape[1])}
    # Two laws are distances, which scipy adds up without a matrix per column.
    whole = [(column, law) for column, law in enumerate(noise) if shown[column].all()]
    laplace = {column: law.scale for column, law in whole if isinstance(law, Laplace)}
    normal = {column: exact_width for column, law in enumerate(noise) if law is None}
    normal |= {column: law.scale for column, law in whole if isinstance(law, Normal)}
    if laplace:
        total -= _scaled_distances(Z, E, laplace, "cityblock")
    if normal:
        total -= 0.5 * _scaled_distances(Z, E, normal, "sqeuclidean")
    for column, law in enumerate(noise):
        z, e = Z[:, column, None], E[None, :, column]
        if isinstance(law, Response):
            same = z * e if column in onehot else z * e + (1 - z) * (1 - e)
            total += np.log(law.keep / max(law.other, 1e-300)) * same
        elif isinstance(law, CarriedNoise):
            total += np.where(shown[column][:, None], law.logpdf(z, people.X[None, :, column]), 0.0)
        elif law is not None and column not in laplace and column not in normal:
            total += np.where(shown[column][:, None], law.logpdf(z - e), 0.0)
    return total


def _scaled_distances(Z: Matrix, E: Matrix, scales: dict[int, float], metric: str) -> Matrix:
    columns, widths = list(scales), np.array(list(scales.values()))
    return np.asarray(cdist(Z[:, columns] / widths, E[:, columns] / widths, metric))


def _onehot_slots(known: Knowledge) -> frozenset[int]:
    groups = (group for group in known.encoding.groups if group.is_onehot)
    return frozenset(slot for group in groups for slot in range(group.start, group.stop))


def normalised(log_weights: Matrix) -> Matrix:
    """Each row's weights made to sum to 1; a row of -inf (nobody is possible) gives NaN, for the caller to decide."""
    top = log_weights.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        weights = np.exp(log_weights - top)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def blocks(rows: int, others: int, cells: int = 200_000) -> Iterator[slice]:
    """Slices of `rows` such that a block against all `others` has about `cells` cells."""
    step = max(1, cells // max(others, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
