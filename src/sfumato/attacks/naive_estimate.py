"""The adversary who reads the release as if it were the table."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Matrix
from sfumato.attacks.base import Attack, Knowledge, Values
from sfumato.attacks.gaps import reported_mean
from sfumato.attacks.observation import into_domain


class NaiveEstimate(Attack):
    """The adversary takes the release at face value: what is in a column is the person's value.

    A column-wise release is read as it is. A release that mixes columns is read as in [random-rotation]: release
    column j for source column j, stretched to that column's mean and standard deviation where they are known, else to
    [0, 1]; source columns beyond the last release column, and cells that are not reported, are guessed by their mean.
    """

    name = "naive-estimate"
    reads_gaps = True
    knows = frozenset({"release"})
    helps = frozenset({"column_moments"})

    def guess(self, known: Knowledge) -> Values:
        """The release itself, or its columns stretched over the source columns."""
        Z, usual = known.release, reported_mean(known.release)
        if known.columnwise:
            if known.column_moments is not None:
                usual = known.column_moments.mean
            return Values(into_domain(np.where(np.isnan(Z), usual, Z)))
        Z = np.where(np.isnan(Z), usual, Z)
        d = known.encoding.width
        s = min(Z.shape[1], d)
        X = np.full((len(Z), d), 0.5)
        if known.column_moments is not None:
            mean, covariance = known.column_moments
            X[:] = mean
            X[:, :s] = mean[:s] + _standardised(Z[:, :s]) * np.sqrt(np.diag(covariance)[:s])
        else:
            low, high = Z.min(axis=0)[:s], Z.max(axis=0)[:s]
            X[:, :s] = (Z[:, :s] - low) / np.where(high > low, high - low, 1.0)
        return Values(into_domain(X))


def _standardised(Z: Matrix) -> Matrix:
    deviation = Z.std(axis=0)
    return np.asarray((Z - Z.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))
