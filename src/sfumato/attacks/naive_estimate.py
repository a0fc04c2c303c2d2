"""The adversary who reads the release as if it were the table."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from sfumato.attacks.base import Abstain, Attack, Bounds, Guess, Knowledge, Values
from sfumato.attacks.gaps import reported_mean
from sfumato.attacks.observation import into_domain, reversed_release
from sfumato.core.accepted import Flag
from sfumato.core.array_types import Matrix

# The adversary who got hold of the transform: reverse PCA, the pseudo-inverse of a projection.


class KnownTransform(Attack):
    """The adversary learned the transform (the basis, the projection matrix) and turns it back.

    Noise is ignored: x = m + A^+ (z - c - A m) for a release z ~ A x + c, the least squares solution nearest to the
    column means m where these are known, else to the middle of the unit cube corrected by the release's own mean. For a
    release of s principal components this is the reverse PCA of [principal-laplace, 6.3], "No-Filtering"; for a random
    projection it is the pseudo-inverse of [principal-laplace, 6.1.3].

    `clip=False` leaves the guess as it comes out, as published; an adversary who knows the domain clips to it.

    Parameters
    ----------
    clip : bool, default=true
        Whether guesses are clipped to the domain; false as published.
    """

    name = "known-transform"
    published = MappingProxyType({"clip": False})
    reads_gaps = True
    knows = frozenset({"release", "transform"})
    helps = frozenset({"column_moments"})
    accepts = MappingProxyType({"clip": Flag()})

    def __init__(self, clip: bool = True) -> None:
        self.clip = clip

    def guess(self, known: Knowledge) -> Values:
        """Turn the transform back and clip to the domain."""
        X = reversed_release(known)
        return Values(into_domain(X) if self.clip else X)


# What bounded noise gives away with certainty: values that cannot have led to what was released.


class HardInterval(Attack):
    """The adversary knows which released row is a person's and how far the noise can reach, and rules values out.

    Uniform noise on [a, b] added to x confines it to [z - b, z - a]; a factor between 1 and 3 confines a positive x to
    [z / 3, z]. Near the ends of the range little is left, and the interval can collapse to a point. This needs no
    population and no probability: what is ruled out is ruled out. Unbounded noise, and categories behind randomized
    response, rule nothing out; a column without noise leaves nothing open.
    """

    name = "hard-interval"
    reads_gaps = True
    knows = frozenset({"release", "noise", "images", "secret"})

    def guess(self, known: Knowledge) -> Guess:
        """An interval for the secret of every target."""
        assert known.noise is not None
        assert known.images is not None
        assert known.secret is not None
        if not known.columnwise:
            return Abstain("the release mixes columns: a component does not confine any single column")
        group = known.encoding.groups[known.secret]
        for place, channel in zip(known.noise.places, known.noise.channels, strict=True):
            if place == group.slice:
                low, high = channel.possible(known.release[known.images, place])
                return Bounds(*_inside(low, high), known.secret)
        return Abstain("the channel of this column covers other columns too")


def _inside(low: Matrix, high: Matrix) -> tuple[Matrix, Matrix]:
    """Within [0, 1]; all of it where nothing fits, since the release was changed then."""
    fits = (low <= 1.0) & (high >= 0.0)
    return np.where(fits, np.clip(low, 0.0, 1.0), 0.0), np.where(fits, np.clip(high, 0.0, 1.0), 1.0)


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
