"""How a release row comes about, as every adversary who knows the transform sees it: z = A x + c + noise.

Every channel has such a line (`Channel.line`). That of a number belongs to the transform. That of categories and of
"missing" depends on how frequent they are, and is put in where the mean is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sfumato.attacks.base import Knowledge, Transform
from sfumato.attacks.support import patterns, reported_mean
from sfumato.channels import Line
from sfumato.core.array_types import Codes, Matrix


class Observation(NamedTuple):
    """z = `matrix` x + `offset` + noise of covariance `noise`."""

    matrix: Matrix
    offset: Matrix
    noise: Matrix

    def reverse(self, Z: Matrix, centre: Matrix) -> Matrix:
        """Least squares solution of A x + c = z that is nearest to `centre`: centre + A^+ (z - c - A centre).

        Of a row that leaves cells out, from those that it reports.
        """
        found = np.empty((len(Z), self.matrix.shape[1]))
        for rows, columns in patterns(Z):
            part = self.of(columns)
            shown = Z[np.ix_(rows, columns)]
            found[rows] = centre + (shown - part.offset - part.matrix @ centre) @ part.inverse.T
        return found

    def of(self, columns: Codes) -> Observation:
        """Of some release columns alone."""
        if len(columns) == len(self.offset):
            return self
        return Observation(self.matrix[columns], self.offset[columns], self.noise[np.ix_(columns, columns)])

    @property
    def inverse(self) -> Matrix:
        """A^+."""
        return np.asarray(np.linalg.pinv(self.matrix, rcond=1e-10))


def transform_of(known: Knowledge) -> Transform:
    """The transform, or the identity for a column-wise release that came without one."""
    if known.transform is not None:
        return known.transform
    return Transform.identity(known.release.shape[1])


def observe(known: Knowledge, mean: Matrix, transform: Transform | None = None) -> Observation:
    """The model of a release whose source columns have this `mean`; reads `noise` and `noise_covariance`.

    The transform is the one given, else the known one. It speaks of numbers; what the channels make of categories and
    of "missing" depends on how frequent they are.
    """
    matrix, offset = (np.array(part, dtype=np.float64) for part in transform or transform_of(known))
    s = len(offset)
    noise = np.zeros((s, s)) if known.noise_covariance is None else np.array(known.noise_covariance, dtype=np.float64)
    noise = np.nan_to_num(noise, posinf=1e6)  # heavy tails without a variance: a linear estimate can do nothing
    for slots, line in answers(known, mean):
        matrix[slots] = line.gain @ matrix[slots]
        offset[slots] = line.gain @ offset[slots] + line.offset
        noise[slots, slots] = line.covariance
    return Observation(matrix, offset, noise)


def answers(known: Knowledge, mean: Matrix) -> Iterator[tuple[slice, Line]]:
    """The slots of a column-wise release that were answered at random, and the line of each group of them."""
    if known.noise is None or not known.columnwise:
        return
    for place, channel in zip(known.noise.places, known.noise.channels, strict=True):
        first = channel.numbers
        if first < channel.width and not channel.is_exact:
            gain, offset, covariance = channel.line(mean[None, place])
            yield (
                slice(place.start + first, place.stop),
                Line(gain[first:, first:], offset[first:], covariance[first:, first:]),
            )


def own_columns(known: Knowledge) -> Transform:
    """The map of a column-wise release as its noise tells it: every number's line in the population; reads `noise`."""
    plain = Transform.identity(known.release.shape[1])
    return plain if known.noise is None else known.noise.on_average(*plain)


def observed_with_mean(known: Knowledge, use_moments: bool = True) -> tuple[Observation, Matrix]:
    """The model of the release, and the mean of the source columns: known, or read off the release.

    Two steps in the second case: the gain gives the mean, and the mean gives the spread of randomized response.
    """
    if use_moments and known.column_moments is not None:
        mean = known.column_moments.mean
    else:
        first = observe(known, np.zeros(transform_of(known).matrix.shape[1]))
        mean = into_domain(centre_of(known, first))
    return observe(known, mean), mean


def centre_of(known: Knowledge, model: Observation) -> Matrix:
    """Where the source rows lie on average, read off the release: the shortest correction to the middle of the cube."""
    middle = np.full(model.matrix.shape[1], 0.5)
    gap = reported_mean(known.release) - model.offset - model.matrix @ middle
    return np.asarray(middle + model.inverse @ gap)


def reversed_release(known: Knowledge) -> Matrix:
    """The release with its transform turned back (n x d), unclipped; reads `transform` and `column_moments`."""
    matrix, offset = transform_of(known)
    model = Observation(matrix, offset, np.zeros((len(offset),) * 2))
    centre = centre_of(known, model) if known.column_moments is None else known.column_moments.mean
    return model.reverse(known.release, centre)


def noise_weights(known: Knowledge, floor: float = 0.01) -> Matrix:
    """One over the noise's standard deviation per release column: how much a difference in that column says.

    `floor` stands for the noise of an exact column, which would otherwise silence all the others. Without noise, or
    when nothing is known of it, all columns weigh the same. Reads `transform`, `noise` and `noise_covariance`.
    """
    mean = into_domain(reported_mean(known.release)) if known.columnwise else np.zeros(known.encoding.width)
    variance = np.diag(observe(known, mean).noise)
    return np.asarray(1.0 / np.sqrt(np.maximum(variance, floor**2)))


def into_domain(X: Matrix) -> Matrix:
    """Clipped to the unit cube: every encoded source value lies there, and the adversary knows it."""
    return np.clip(X, 0.0, 1.0)


def positive_part(covariance: Matrix) -> Matrix:
    """The nearest positive semidefinite matrix (negative eigenvalues set to 0)."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def covariance_of(X: Matrix) -> Matrix:
    """Covariance of the columns, d x d also for one column and all zero for one row; over the rows that report both."""
    if len(X) < 2:
        return np.zeros((X.shape[1],) * 2)
    there = ~np.isnan(X)
    if there.all():
        return np.atleast_2d(np.cov(X, rowvar=False))
    centred, pairs = np.where(there, X - reported_mean(X), 0.0), there.astype(np.float64)
    return np.asarray(centred.T @ centred / np.maximum(pairs.T @ pairs - 1.0, 1.0))
