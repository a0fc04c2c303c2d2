"""How a release row comes about, as every adversary who knows the transform sees it: z = A x + c + noise.

Randomized response fits the same form: its reported slots have mean `other` + (keep - `other`) x, so that the gain goes
into A, the floor into c and the spread into the covariance of the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.base import Knowledge, Matrix, Response, Transform
from sfumato.attacks.carried_noise import CarriedNoise


class Observation(NamedTuple):
    """z = `matrix` x + `offset` + noise of covariance `noise`."""

    matrix: Matrix
    offset: Matrix
    noise: Matrix

    def reverse(self, Z: Matrix, centre: Matrix) -> Matrix:
        """Least squares solution of A x + c = z that is nearest to `centre`: centre + A^+ (z - c - A centre)."""
        return np.asarray(centre + (Z - self.offset - self.matrix @ centre) @ self.inverse.T)

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

    The transform is the one given, else the known one.

    For slots x of mean mu, reported with P(1 | x) = q + g x, the covariance of the report given x is on average
    diag(q + g mu) - (q q' + q g (1 mu' + mu 1') + g^2 diag(mu)).
    """
    matrix, offset = (np.array(part, dtype=np.float64) for part in transform or transform_of(known))
    s = len(offset)
    offset += noise_mean(known)
    noise = np.zeros((s, s)) if known.noise_covariance is None else np.array(known.noise_covariance, dtype=np.float64)
    noise = np.nan_to_num(noise, posinf=1e6)  # heavy tails without a variance: a linear estimate can do nothing
    for slots, law in responses(known):
        gain, floor, mu = law.keep - law.other, law.other, mean[slots]
        matrix[slots] *= gain
        offset[slots] += floor
        cross = np.add.outer(mu, mu)
        noise[slots, slots] = np.diag(floor + gain * mu) - (floor**2 + floor * gain * cross + gain**2 * np.diag(mu))
    return Observation(matrix, offset, noise)


def noise_mean(known: Knowledge) -> Matrix:
    """What the noise adds on average, per release column: 0 unless a law says otherwise; reads `noise`.

    Of noise that an operator carries in, the transform says it.
    """
    mean = np.zeros(known.release.shape[1])
    for column, law in enumerate(known.noise or ()):
        if law is not None and not isinstance(law, Response | CarriedNoise):
            mean[column] = law.mean
    return mean


def own_columns(known: Knowledge) -> Transform:
    """The map of a column-wise release as its noise tells it: the identity, but for carried noise; reads `noise`."""
    slopes, offset = np.ones(known.release.shape[1]), np.zeros(known.release.shape[1])
    for column, law in enumerate(known.noise or ()):
        if isinstance(law, CarriedNoise):
            slopes[column], offset[column] = law.slope, law.offset
    return Transform(np.diag(slopes), offset)


def empty_cells(known: Knowledge, Z: Matrix, slot: int) -> NDArray[np.bool_]:
    """Rows of Z in which the number at `slot` was reported missing, truly or by randomized response; reads `noise`.

    Their cells are empty, and what stands for them in the matrix says nothing about the number.
    """
    noise = known.noise
    if noise is not None and known.columnwise:
        for group in known.encoding.groups:
            if group.start == slot and group.has_indicator and isinstance(noise[group.stop - 1], Response):
                return np.asarray(Z[:, group.stop - 1] > 0.5)
    return np.zeros(len(Z), dtype=bool)


def responses(known: Knowledge) -> Iterator[tuple[slice, Response]]:
    """The slots that were answered by randomized response: a whole one-hot column, or one 0/1 indicator."""
    if known.noise is None or not known.columnwise:
        return
    for group in known.encoding.groups:
        step = group.stop - group.start if group.is_onehot else 1
        for start in range(group.start, group.stop, step):
            law = known.noise[start]
            if isinstance(law, Response):
                yield slice(start, start + step), law


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
    gap = known.release.mean(axis=0) - model.offset - model.matrix @ middle
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
    mean = into_domain(known.release.mean(axis=0)) if known.columnwise else np.zeros(known.encoding.width)
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
    """Covariance of the columns, d x d also for one column and all zero for one row."""
    if len(X) < 2:
        return np.zeros((X.shape[1],) * 2)
    return np.atleast_2d(np.cov(X, rowvar=False))
