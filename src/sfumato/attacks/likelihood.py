"""How likely each person is behind each release row, under the known noise law."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.array_types import Matrix
from sfumato.attacks.base import Knowledge, KnownNoise
from sfumato.attacks.observation import own_columns, transform_of
from sfumato.channels import apart, draw


def embed(known: Knowledge, X: Matrix) -> Matrix:
    """Where the source rows X would lie in the release on average: A x + c, or their own numbers' lines."""
    matrix, offset = own_columns(known) if known.transform is None and known.columnwise else transform_of(known)
    return np.asarray(X @ matrix.T + offset)


def released(known: Knowledge, noise: KnownNoise, X: Matrix, rng: np.random.Generator) -> Matrix:
    """Source rows X released anew under these channels: each goes the way that the map chooses, where it chooses."""
    chosen = None if known.guided is None else known.guided.perturb(noise.channels, X, rng)
    return draw(noise.channels, np.array(Suspects.of(known, X).given), rng) if chosen is None else chosen


class Suspects(NamedTuple):
    """People who may be behind a release row: encoded source rows `X`, `E`, where they would lie on average, and
    `given`, what the channels would be given for them."""

    X: Matrix
    E: Matrix
    given: Matrix

    @classmethod
    def of(cls, known: Knowledge, X: Matrix) -> Suspects:
        if known.guided is not None:
            return cls(X, X, known.guided.apply(X))
        E = embed(known, X)
        if known.columnwise:
            return cls(X, E, X)
        return cls(X, E, E if known.noise is None else known.noise.before(E))


def log_likelihood(
    known: Knowledge, Z: Matrix, people: Suspects, exact_width: float, noise: KnownNoise | None = None
) -> Matrix:
    """log f(z_i | person j), len(Z) x people, up to a constant per row: the sum over all channels.

    A column without noise has a normal kernel of width `exact_width` instead: the adversary's list of people is finite,
    so that nobody on it fits exactly. Without any knowledge of the noise all columns are taken so. `noise`: that of one
    class, where classes differ.
    """
    total = np.zeros((len(Z), len(people.E)))
    noise = known.noise if noise is None else noise
    if noise is None:
        return total - 0.5 * _distances(Z, people.E, dict.fromkeys(range(Z.shape[1]), exact_width), "sqeuclidean")
    given, channels = people.given, noise.channels
    if (shared := apart(channels)) is not None:
        Z, given, channels = shared.white(Z), shared.white(given), shared.channels
    # Some laws are distances, which scipy adds up without a matrix per column.
    added: dict[str, dict[int, float]] = {"cityblock": {}, "sqeuclidean": {}}
    for place, channel in zip(noise.places, channels, strict=True):
        metric = ("sqeuclidean", exact_width) if channel.is_exact else channel.metric
        if metric is None:
            total += channel.blurred(exact_width).log_likelihood(Z[:, place], given[:, place])
        else:
            added[metric[0]].update(dict.fromkeys(range(place.start, place.stop), metric[1]))
    total -= _distances(Z, given, added["cityblock"], "cityblock")
    return np.asarray(total - 0.5 * _distances(Z, given, added["sqeuclidean"], "sqeuclidean"))


def _distances(Z: Matrix, E: Matrix, scales: dict[int, float], metric: str) -> Matrix:
    if not scales:
        return np.zeros((len(Z), len(E)))
    columns, widths = list(scales), np.array(list(scales.values()))
    return np.asarray(cdist(Z[:, columns] / widths, E[:, columns] / widths, metric))


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
