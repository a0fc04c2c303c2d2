"""The adversary who reads the release as if it were the table."""

from __future__ import annotations

import numpy as np

from sfumato.attacks.base import Attack, Knowledge, Matrix, Values
from sfumato.attacks.observation import into_domain


class NaiveEstimate(Attack):
    """The adversary takes the release at its word: what stands in a column is the person's value.

    A column-wise release is read as it stands. A release that mixes columns is read as in [random-rotation]: release
    column j for source column j, stretched to that column's mean and standard deviation where they are known, else to
    [0, 1]; source columns beyond the last release column are guessed by their mean.
    """

    name = "naive-estimate"
    knows = frozenset({"release"})
    helps = frozenset({"column_moments"})

    def guess(self, known: Knowledge) -> Values:
        """The release itself, or its columns stretched over the source columns."""
        if known.columnwise:
            return Values(into_domain(known.release))
        d = known.encoding.width
        s = min(known.release.shape[1], d)
        X = np.full((len(known.release), d), 0.5)
        if known.column_moments is not None:
            mean, covariance = known.column_moments
            X[:] = mean
            X[:, :s] = mean[:s] + _standardised(known.release[:, :s]) * np.sqrt(np.diag(covariance)[:s])
        else:
            low, high = known.release.min(axis=0)[:s], known.release.max(axis=0)[:s]
            X[:, :s] = (known.release[:, :s] - low) / np.where(high > low, high - low, 1.0)
        return Values(into_domain(X))


def _standardised(Z: Matrix) -> Matrix:
    deviation = Z.std(axis=0)
    return np.asarray((Z - Z.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))
