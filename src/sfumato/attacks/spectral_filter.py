"""Filtering noise by random-matrix theory: what pure noise cannot do must be data (Kargupta et al.)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from sfumato.accepted import Between, Flag
from sfumato.array_types import Matrix
from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values
from sfumato.attacks.observation import covariance_of, into_domain, observed_with_mean


class SpectralFilter(Attack):
    """The adversary knows how large the eigenvalues of pure noise can be, and keeps every direction that exceeds them.

    In the release's own space, after whitening by the known noise covariance, n rows of s columns of pure noise have
    eigenvalues up to the Marchenko-Pastur edge (1 + sqrt(s/n))^2. Directions above it are kept, the others are set to
    the mean; then the transform is turned back.

    `log=True` is for multiplicative noise z = x e on positive data: the same on logarithms, with `noise_covariance`
    that of log e and `noise_mean` the mean of log e. It abstains where a released value is not positive.

    Parameters
    ----------
    log : bool, default=false
        Whether to work on logarithms, for multiplicative noise on positive values.
    noise_mean : float, default=0.0
        Mean of the logarithm of that noise, from -1e6 to 1e6.
    """

    name = "spectral-filter"
    knows = frozenset({"release", "transform", "noise_covariance"})
    helps = frozenset({"noise", "column_moments"})
    accepts = MappingProxyType({"log": Flag(), "noise_mean": Between(-1e6, 1e6)})

    def __init__(self, log: bool = False, noise_mean: float = 0.0) -> None:
        self.log, self.noise_mean = log, noise_mean

    def guess(self, known: Knowledge) -> Guess:
        """Keep the directions above the edge and turn the transform back."""
        model, mean = observed_with_mean(known)
        if not self.log:
            return Values(into_domain(model.reverse(above_edge(known.release, model.noise), mean)))
        if np.any(known.release <= 0):
            return Abstain("logarithms need a release with positive values only")
        cleaned = np.exp(above_edge(np.log(known.release), model.noise) - self.noise_mean)
        return Values(into_domain(model.reverse(cleaned, mean)))


def marchenko_pastur_edge(rows: int, columns: int) -> float:
    """Largest eigenvalue of the sample covariance of white noise of variance 1, as rows and columns grow."""
    return float((1.0 + np.sqrt(columns / max(rows, 1))) ** 2)


def above_edge(Z: Matrix, noise: Matrix) -> Matrix:
    """Z with every direction set to its mean in which it varies no more than noise of this covariance could.

    A speck of variance is added to the noise, so that an exact column is whitened to an enormous one and kept.
    """
    values, vectors = np.linalg.eigh(noise)
    deviations = np.sqrt(np.maximum(values, 0.0) + 1e-12)
    centre = Z.mean(axis=0)
    white = (Z - centre) @ vectors / deviations
    strength, directions = np.linalg.eigh(covariance_of(white))
    signal = directions[:, strength > marchenko_pastur_edge(*Z.shape)]
    return np.asarray(centre + (white @ signal @ signal.T * deviations) @ vectors.T)
