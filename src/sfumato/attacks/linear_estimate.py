"""The best linear estimate: the Wiener filter."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

import numpy as np

from sfumato.accepted import Word
from sfumato.array_types import Matrix
from sfumato.attacks.base import Attack, ColumnMoments, Knowledge, Values
from sfumato.attacks.gaps import patterns
from sfumato.attacks.observation import (
    Observation,
    covariance_of,
    into_domain,
    observed_with_mean,
    positive_part,
)


class LinearEstimate(Attack):
    """The adversary knows the transform and how strong the noise is, and weighs what he sees against what is usual.

    Linear minimum mean square error: x = mu + S A' (A S A' + N)^-1 (z - A mu - c) with the mean mu and covariance S of
    the source columns, the transform A, c and the noise covariance N. No linear estimate has a smaller mean square
    error, so none of the filters does. `moments="known"` takes mu and S from what is known of the columns and, where
    nothing is, from the release; `moments="release"` always from the release: S = A^+ (cov(Z) - N) A^+', negative
    eigenvalues set to 0.

    Parameters
    ----------
    moments : {"known", "release"}, default="known"
        Where mean and covariance come from.
    """

    name = "linear-estimate"
    reads_gaps = True
    knows = frozenset({"release", "transform", "noise_covariance"})
    helps = frozenset({"noise", "column_moments"})
    accepts = MappingProxyType({"moments": Word(("known", "release"))})

    def __init__(self, moments: Literal["known", "release"] = "known") -> None:
        self.moments = moments

    def guess(self, known: Knowledge) -> Values:
        """Weigh every release row against the mean."""
        model, (mean, covariance) = self._model(known)
        return Values(into_domain(wiener(known.release, model, mean, covariance)))

    def _model(self, known: Knowledge) -> tuple[Observation, ColumnMoments]:
        use_moments = self.moments == "known"
        model, mean = observed_with_mean(known, use_moments)
        if use_moments and known.column_moments is not None:
            return model, known.column_moments
        signal = covariance_of(known.release) - model.noise
        return model, ColumnMoments(mean, positive_part(model.inverse @ signal @ model.inverse.T))


def wiener(Z: Matrix, model: Observation, mean: Matrix, covariance: Matrix) -> Matrix:
    """Linear MMSE estimate of the rows behind Z, from the cells that each of them reports.

    A speck is added to the source variances: without it, a direction in which the known moments do not vary (a category
    that the adversary's sample lacks) would be held at its mean even where the release shows it without any noise.
    """
    speck = 1e-8 * max(float(np.trace(covariance)) / len(covariance), 1e-3)
    S = covariance + speck * np.eye(len(covariance))
    found = np.empty((len(Z), len(mean)))
    for rows, columns in patterns(Z):
        A, offset, noise = model.of(columns)
        gain = np.linalg.lstsq(A @ S @ A.T + noise, A @ S, rcond=1e-13)[0]
        found[rows] = mean + (Z[np.ix_(rows, columns)] - offset - A @ mean) @ gain
    return found
