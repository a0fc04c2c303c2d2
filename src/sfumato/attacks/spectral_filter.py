"""Filtering noise by random-matrix theory: what pure noise cannot do must be data (Kargupta et al.)."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Literal

import numpy as np

from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values
from sfumato.attacks.observation import covariance_of, into_domain, observed_with_mean
from sfumato.core.accepted import Between, Either, Flag, Whole, Word
from sfumato.core.array_types import Codes, Matrix

# Filtering noise by correlation: keep the principal components in which the data live [HDC05].


class PrincipalFilter(Attack):
    """The adversary knows the transform and the strength of the noise, and that data are correlated while noise is not.

    He turns the transform back, takes the principal components of what he gets and keeps p of them, hoping that the
    data are in these and the noise is in all ([HDC05]; [principal-laplace, 6.1.3 and 6.3]).

    `components="best"` is the paper's attack: p is the number for which the result comes closest to the original,
    which needs the truth. All p are returned as candidates, the score takes the best and is an upper bound. The
    adversary's own choice is their first guess, and `components="own"` returns nothing else: components of cov(R) - N
    (R the reversed release, N the noise carried back) whose variance exceeds the noise's in the same direction, since
    keeping any other adds more noise than data. A whole number keeps that many.

    `clip=False` leaves the guess as it comes out, as published; an adversary who knows the domain clips to it.

    Parameters
    ----------
    components : {"best", "own"} or int, default="best"
        Components that are kept: the best number, the choice of the adversary, or from 1 to 100,000.
    most_candidates : int, default=20
        Numbers that are tried for the best, from 1 to 1,000.
    clip : bool, default=true
        Whether guesses are clipped to the domain; false as published.
    """

    name = "principal-filter"
    published = MappingProxyType({"clip": False})
    knows = frozenset({"release", "transform", "noise_covariance"})
    helps = frozenset({"noise", "column_moments"})
    accepts = MappingProxyType(
        {
            "components": Either((Word(("best", "own")), Whole(1, 100_000))),
            "most_candidates": Whole(1, 1_000),
            "clip": Flag(),
        }
    )

    def __init__(
        self, components: Literal["best", "own"] | int = "best", most_candidates: int = 20, clip: bool = True
    ) -> None:
        self.components, self.most_candidates, self.clip = components, most_candidates, clip

    def guess(self, known: Knowledge) -> Values:
        """Project the reversed release on its first components."""
        model, mean = observed_with_mean(known)
        R = model.reverse(known.release, mean)
        centre = R.mean(axis=0)
        noise = model.inverse @ model.noise @ model.inverse.T
        signal, vectors = np.linalg.eigh(covariance_of(R) - noise)
        keep = signal > np.einsum("ij,ik,kj->j", vectors, noise, vectors)
        own = vectors[:, keep]
        filtered = self._guessed(centre + (R - centre) @ own @ own.T)
        if self.components == "own":
            return Values(filtered)
        # As published: the components of the release itself, from the largest variance down.
        vectors = np.linalg.eigh(covariance_of(R))[1][:, ::-1]
        scores = (R - centre) @ vectors
        if self.components != "best":
            p = int(self.components)
            return Values(self._guessed(centre + scores[:, :p] @ vectors[:, :p].T))
        rank = int(np.linalg.matrix_rank(model.matrix))
        counts = np.unique(np.linspace(1, rank, min(rank, self.most_candidates)).astype(int))
        return Values(filtered, tuple(self._projected(centre, scores, vectors, counts)))

    def _projected(self, centre: Matrix, scores: Matrix, vectors: Matrix, counts: Codes) -> Iterator[Matrix]:
        """The first p components for every p of `counts`: each adds to the one before."""
        X, done = np.tile(centre, (len(scores), 1)), 0
        for p in counts:
            X += scores[:, done:p] @ vectors[:, done:p].T
            done = p
            yield self._guessed(X.copy())

    def _guessed(self, X: Matrix) -> Matrix:
        return into_domain(X) if self.clip else X


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
