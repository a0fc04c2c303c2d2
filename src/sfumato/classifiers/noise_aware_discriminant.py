"""Linear and quadratic discriminants: known noise is taken out of means and covariances."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sfumato.array_types import Floats
from sfumato.channels import Recipe, apart
from sfumato.classifiers.noise_moments import class_moments
from sfumato.classifiers.reads_noise import GivesProbabilities, softmax
from sfumato.classifiers.release_columns import recipe_of
from sfumato.guarantee import Card
from sfumato.mechanisms import Mechanism
from sfumato.reconstruction.shares import onto_simplex

KINDS = ("linear", "quadratic")
_RIDGE = 1e-8


class NoiseAwareDiscriminant(GivesProbabilities):
    """Normal classes with means and covariances of the *plain* rows, estimated from a noisy release and its card.

    Cov(x) = Cov(w) - N, where w are the released rows made unbiased and N is what noise added (`noise_moments`). The
    difference of two estimates need not be a covariance: it is replaced by the nearest matrix C with C >= kappa N
    (negative eigenvalues of Cov(w) - (1 + kappa) N, columns scaled to unit variance, become 0, then kappa N is added
    back). kappa = `floor` sqrt(d / n), at most 1, is about the chance error of the removal in d columns and n rows (for
    "quadratic" rows per class, alike for all classes: else the rarer one would look wider); no direction is trusted to
    have less variance than that. Without noise nothing is changed. Randomized labels are undone in the
    moments themselves, part by part.

    It needs no range, so it also works in the space of a secret rotation with noise.

    Parameters
    ----------
    kind : "linear" (one covariance) or "quadratic" (one for each class).
    floor : factor of kappa, 0 for the nearest positive semidefinite matrix; 1.5 served best over the sets of
        papers/density-reconstruction/COMPARISON.md with Gaussian noise, 1 to 3 nearly as well.
    pooled_rows : for "quadratic", the pooled covariance counts in that of every class as so many rows; None: as many
        as there are columns.

    Attributes
    ----------
    classes_, class_prior_, means_ : labels, shares, means of plain rows.
    covariance_ : (d, d) for linear, (k, d, d) for quadratic.
    coef_, intercept_ : for linear, one row per class: the score is coef x + intercept.
    """

    corrects_labels = True

    def __init__(self, kind: str = "linear", floor: float = 1.5, pooled_rows: float | None = None) -> None:
        self.kind = kind
        self.floor = floor
        self.pooled_rows = pooled_rows

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sources: Any = None, part: Any = None, label_keep: Any = 1.0
    ) -> Self:
        """Estimate the moments; see `ReadsNoise` for the parameters."""
        if self.kind not in KINDS:
            raise ValueError(f"The 'kind' parameter must be one of {', '.join(KINDS)}. Got {self.kind!r} instead.")
        if not self.floor >= 0:
            raise ValueError(f"The 'floor' parameter must be a number >= 0. Got {self.floor!r} instead.")
        parts = self._rows(X, y, sources, part, label_keep)
        found = class_moments(parts, len(self.classes_))
        rows = np.maximum(found.counts, 0.0)
        self.class_prior_ = onto_simplex(found.counts / found.counts.sum())
        share = rows / rows.sum()
        # A class that randomized labels leave with hardly a row has no mean of its own.
        self.means_ = np.where(rows[:, None] >= 1.0, found.means, share @ found.means)
        pooled, noise = (np.tensordot(share, one, axes=1) for one in (found.covariances, found.removed))
        spread = np.sqrt(np.maximum(np.diag(pooled + noise), 0.0))
        spread = np.where(spread > 0, spread, 1.0)
        linear = possible_covariance(pooled, noise, self._kappa(found.seen * rows.sum()), spread)
        if self.kind == "linear":
            self.covariance_ = linear
            self.coef_ = np.linalg.solve(linear, self.means_.T).T
            self.intercept_ = np.log(np.maximum(self.class_prior_, 1e-300)) - 0.5 * np.sum(
                self.coef_ * self.means_, axis=1
            )
            return self
        more = float(self.n_features_in_ if self.pooled_rows is None else self.pooled_rows)
        own = [
            possible_covariance(c, n, self._kappa(rows.sum() / len(rows)), spread)
            for c, n in zip(found.covariances, found.removed, strict=True)
        ]
        trust = np.where(rows >= 2.0, rows, 0.0)
        self.covariance_ = np.array(
            [
                (t * one + more * linear) / (t + more) if t + more > 0 else linear
                for t, one in zip(trust, own, strict=True)
            ]
        )
        return self

    def _kappa(self, rows: float) -> float:
        return float(min(1.0, self.floor * np.sqrt(self.n_features_in_ / max(rows, 1.0))))

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Log-probability of every class up to a constant; for two classes the second's less the first's."""
        scores = self._scores(self._queries(X))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        return softmax(self._scores(self._queries(X)))

    def predict_proba_released(self, Z: npt.ArrayLike, source: Recipe | Card | Mechanism) -> Floats:
        """Probabilities for perturbed rows: normal classes, moved and widened as the channels do to an average row."""
        recipe = recipe_of(source)
        assert recipe is not None
        rows, centre = self._queries(Z), (self.class_prior_ @ self.means_)[None, :]
        gain, added = np.zeros((recipe.width, recipe.width)), np.zeros((recipe.width, recipe.width))
        offset = np.zeros(recipe.width)
        for place, channel in zip(recipe.places, recipe.channels, strict=True):
            gain[place, place], offset[place], added[place, place] = channel.line(centre[:, place])
        if (shared := apart(recipe.channels)) is not None:
            added += shared.between(recipe.width)
        own = self.covariance_ if self.kind == "quadratic" else [self.covariance_] * len(self.classes_)
        scores = np.empty((len(rows), len(self.classes_)))
        for code, (mean, covariance) in enumerate(zip(self.means_, own, strict=True)):
            seen = gain @ covariance @ gain.T + added + _RIDGE * np.eye(recipe.width)
            scores[:, code] = _log_normal(rows, gain @ mean + offset, seen)
        return softmax(scores + np.log(np.maximum(self.class_prior_, 1e-300)))

    def _scores(self, rows: Floats) -> Floats:
        if self.kind == "linear":
            return np.asarray(rows @ self.coef_.T + self.intercept_)
        scores = np.empty((len(rows), len(self.classes_)))
        for code, (mean, covariance) in enumerate(zip(self.means_, self.covariance_, strict=True)):
            scores[:, code] = _log_normal(rows, mean, covariance)
        return np.asarray(scores + np.log(np.maximum(self.class_prior_, 1e-300)))


def _log_normal(rows: Floats, mean: Floats, covariance: Floats) -> Floats:
    """Up to a constant."""
    root = np.linalg.cholesky(covariance)
    away = np.linalg.solve(root, (rows - mean).T)
    return np.asarray(-0.5 * np.sum(away**2, axis=0) - np.log(np.diag(root)).sum())


def possible_covariance(estimate: Floats, noise: Floats, kappa: float, spread: Floats) -> Floats:
    """The estimate, moved as little as needed to be at least kappa times the noise, in units of `spread`."""
    scale = np.outer(spread, spread)
    scaled, least = estimate / scale, kappa * noise / scale
    least = 0.5 * (least + least.T)
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T) - least)
    raised = (vectors * np.maximum(values, 0.0)) @ vectors.T + least
    return np.asarray((raised + _RIDGE * np.eye(len(scaled))) * scale)
