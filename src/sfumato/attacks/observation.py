"""How a release row comes about, as every adversary who knows the transform sees it: z = A x + c + noise.

Randomized response fits the same form: its reported one-hot slots have mean `other` + (keep - `other`) x, so that the
gain goes into A, the floor into c and the spread into the covariance of the noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.attacks.base import Knowledge, Matrix, Response, Transform


class Observation(NamedTuple):
    """z = `matrix` x + `offset` + noise of covariance `noise`."""

    matrix: Matrix
    offset: Matrix
    noise: Matrix

    def reverse(self, Z: Matrix, centre: Matrix) -> Matrix:
        """Least squares solution of A x + c = z that is nearest to `centre`: centre + A^+ (z - c - A centre)."""
        inverse = np.linalg.pinv(self.matrix, rcond=1e-10)
        return np.asarray(centre + (Z - self.offset - self.matrix @ centre) @ inverse.T)


def transform_of(known: Knowledge) -> Transform:
    """The transform, or the identity for a column-wise release that came without one."""
    if known.transform is not None:
        return known.transform
    return Transform.identity(known.release.shape[1])


def observe(known: Knowledge, noise_covariance: Matrix | None, mean: Matrix) -> Observation:
    """The model of a release whose source columns have this `mean`; reads `transform` and `noise`.

    For one-hot slots x of mean mu, reported with P(1 | x) = q + g x, the covariance of the report given x is on average
    diag(q + g mu) - (q q' + q g (1 mu' + mu 1') + g^2 diag(mu)).
    """
    matrix, offset = (np.array(part, dtype=np.float64) for part in transform_of(known))
    s = len(offset)
    noise = np.zeros((s, s)) if noise_covariance is None else np.array(noise_covariance, dtype=np.float64)
    if known.noise is None or not known.columnwise:
        return Observation(matrix, offset, noise)
    for group in known.encoding.groups:
        law = known.noise[group.start]
        if not isinstance(law, Response):
            continue
        slots = slice(group.start, group.stop)
        gain, floor, mu = law.keep - law.other, law.other, mean[slots]
        matrix[slots] *= gain
        offset[slots] += floor
        cross = np.add.outer(mu, mu)
        noise[slots, slots] = np.diag(floor + gain * mu) - (floor**2 + floor * gain * cross + gain**2 * np.diag(mu))
    return Observation(matrix, offset, noise)


def centre_of(known: Knowledge, matrix: Matrix, offset: Matrix) -> Matrix:
    """Where the source rows lie on average, read off the release: the shortest correction to the middle of the cube."""
    middle = np.full(matrix.shape[1], 0.5)
    gap = known.release.mean(axis=0) - offset - matrix @ middle
    return np.asarray(middle + np.linalg.pinv(matrix, rcond=1e-10) @ gap)


def reversed_release(known: Knowledge) -> Matrix:
    """The release with its transform turned back (n x d), unclipped; reads `column_moments` where the attack may."""
    matrix, offset = transform_of(known)
    centre = centre_of(known, matrix, offset) if known.column_moments is None else known.column_moments.mean
    return Observation(matrix, offset, np.zeros((len(offset),) * 2)).reverse(known.release, centre)


def into_domain(X: Matrix) -> Matrix:
    """Clipped to the unit cube: every encoded source value lies there, and the adversary knows it."""
    return np.clip(X, 0.0, 1.0)


def positive_part(covariance: Matrix) -> Matrix:
    """The nearest positive semidefinite matrix (negative eigenvalues set to 0)."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
