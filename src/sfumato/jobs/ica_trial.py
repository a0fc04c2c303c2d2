"""One ICA attack on one rotation, and how near its components come to the columns [random-rotation, 4.4]."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from sfumato.array_types import Matrix
from sfumato.mechanisms.haar import haar_rotation
from sfumato.metrics.unified import Unified, component_privacy

STARTS = 2
"""Random starts before a rotation's ICA counts as not converged."""
ITERATIONS = 200
FLAT = 1e-10
"""Part of the largest variance below which a direction does not vary: ICA needs a full rank."""


@dataclass(frozen=True)
class Sample:
    """What a search sees of a table: encoded rows (all, or a random part), the covariance of all, column weights."""

    rows: Matrix
    covariance: Matrix
    weights: Matrix
    names: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.covariance)

    @property
    def deviations(self) -> Matrix:
        """Standard deviation of every column; NaN for a constant one, in which there is nothing to hide."""
        found = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return np.where(found > 0, found, np.nan)


@dataclass(frozen=True)
class Trial:
    """What ICA made of a rotation: the lowest guarantees over all orders, the error left in every column, its starts.

    A run that did not converge tells what it found by then, which may be much; that it found little tells nothing.
    """

    privacy: Unified
    sigma: Matrix
    converged: bool
    runs: int


def ica_trial(sample: Sample, rotation: Matrix, rng: np.random.Generator, *, published: bool = False) -> Trial:
    """Unmix the rotated rows by FastICA and score the components against the columns."""
    white = whitened(sample.rows @ rotation.T)
    components, converged, runs = white, white.shape[1] == 1, 1
    while not converged and runs <= STARTS:
        components, converged = _unmix(white, rng)
        runs += 1
    privacy = component_privacy(sample.rows, components, sample.weights, published=published)
    if published:  # whose weights add up to 1: back to the mean 1, with which equal weights change nothing
        privacy = Unified(privacy.minimum / sample.width, privacy.average / sample.width)
    return Trial(privacy, _sigma(sample, components), converged, max(1, runs - 1))


def whitened(Z: Matrix) -> Matrix:
    """Uncorrelated scores of variance 1 in the directions that vary (constant and dependent columns have none)."""
    centred = Z - Z.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(Z))
    varies = values > FLAT * values[-1]
    return np.asarray(centred @ (vectors[:, varies] / np.sqrt(values[varies])))


def _unmix(white: Matrix, rng: np.random.Generator) -> tuple[Matrix, bool]:
    start = haar_rotation(white.shape[1], rng)
    ica = FastICA(whiten=False, w_init=start, max_iter=ITERATIONS)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            ica.fit(white)
            unmixing = np.asarray(ica.components_)
        except (np.linalg.LinAlgError, ValueError):
            return white, False
    settled = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    if not np.isfinite(unmixing).all():
        return white, False
    return white @ unmixing.T, settled


def _sigma(sample: Sample, components: Matrix) -> Matrix:
    """Error left in every column by the component nearest to it, rescaled to the column's mean and deviation.

    With correlation rho, Var(error) = var (2 - 2 |rho|), and var itself where guessing the mean is better.
    """
    centred = sample.rows - sample.rows.mean(axis=0)
    spread = centred.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = np.abs(centred.T @ components) / len(centred) / (spread[:, None] * components.std(axis=0))
    nearest = np.nan_to_num(np.minimum(rho, 1.0)).max(axis=1)
    return np.asarray(sample.deviations * np.sqrt(np.minimum(2 - 2 * nearest, 1.0)))
