"""A rotation undone by a sample of like people: principal axes are matched [Liu, Giannella & Kargupta 2006]."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from sfumato.accepted import Whole
from sfumato.array_types import Matrix
from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values
from sfumato.attacks.observation import covariance_of, into_domain
from sfumato.attacks.sign_matching import matching_signs

NOTHING_MIXED = "every column of the release is a column of the source: there is no mixing to undo"


class Axes(NamedTuple):
    """Mean, variances along the principal axes (largest first) and the axes themselves (columns)."""

    mean: Matrix
    variances: Matrix
    vectors: Matrix


class EigenAlignment(Attack):
    """The adversary holds a sample of like people, none of whom need be in the table, and no row's image.

    A rotation turns the principal axes of the data with it. He takes the axes of his sample (eigenvectors V of its
    covariance) and of the release (W, after taking off the noise he knows of), pairs them by the order of their
    variances, and is left with one sign per axis, which the shape of the distribution decides: see `matching_signs`.
    The rotation is then R = W S V'. A score along an axis counts for as much as the axis is sure (`axis_certainty`)
    and free of noise, which makes the guess a linear estimate.

    Axes whose variances are nearly equal cannot be told apart, and a map that changes lengths (a random projection)
    changes the axes' order: there the attack is weak, which is not the same as the release being safe. A release with
    fewer columns is taken to hold the first axes. `restarts` and `seed` are those of the search for signs,
    which has `most_axes` axes at most, those that vary most.

    Parameters
    ----------
    restarts : int, default=20
        Starts of the search for signs, from 1 to 1,000.
    seed : int, default=0
        Of that search, from 0 to 2**31 - 1.
    most_axes : int, default=100
        Axes that are signed, from 1 to 1,000.
    """

    name = "eigen-alignment"
    knows = frozenset({"release", "sample"})
    helps = frozenset({"noise_covariance"})
    accepts = MappingProxyType({"restarts": Whole(1, 1_000), "seed": Whole(0, 2**31 - 1), "most_axes": Whole(1, 1_000)})

    def __init__(self, restarts: int = 20, seed: int = 0, most_axes: int = 100) -> None:
        self.restarts, self.seed, self.most_axes = restarts, seed, most_axes

    def guess(self, known: Knowledge) -> Guess:
        """Align the axes, find the signs, turn the release back."""
        assert known.sample is not None
        if known.columnwise:
            return Abstain(NOTHING_MIXED)
        s, d = known.release.shape[1], known.sample.shape[1]
        if len(known.sample) < 3 or len(known.release) < 3:
            return Abstain("needs at least three rows of the release and of a sample")
        noise = (
            np.zeros((s, s)) if known.noise_covariance is None else np.nan_to_num(known.noise_covariance, posinf=1e6)
        )
        there = axes_of(known.release, noise)
        here = axes_of(known.sample)
        count = min(s, d, self.most_axes)
        if here.variances[0] <= 0 or there.variances[0] <= 0:
            return Abstain("the release, or the sample, does not vary beyond the noise")
        sure = axis_certainty(here.variances, len(known.release), len(known.sample))[:count]
        signs = matching_signs(
            standardised(known.release, there, count),
            standardised(known.sample, here, count),
            sure,
            self.restarts,
            self.seed,
        )
        along = there.vectors[:, :count]
        kept = here.variances[:count].clip(min=0.0)
        noisy = np.einsum("ij,ik,kj->j", along, noise, along)
        share = kept / np.where(kept + noisy > 0, kept + noisy, 1.0)
        scores = (known.release - there.mean) @ along * (signs * sure * share)
        X = here.mean + scores @ here.vectors[:, :count].T
        details = {"sample_rows": float(len(known.sample)), "mean_axis_certainty": float(sure.mean())}
        return Values(into_domain(X), details=details)


def axes_of(X: Matrix, noise: Matrix | float = 0.0) -> Axes:
    """Principal axes of the rows, or of what is left of them without noise of this covariance."""
    values, vectors = np.linalg.eigh(covariance_of(X) - noise)
    return Axes(X.mean(axis=0), values[::-1], vectors[:, ::-1])


def standardised(X: Matrix, axes: Axes, count: int) -> Matrix:
    """Scores along the first axes, each over its deviation; an axis along which nothing varies gives zeros."""
    scores = (X - axes.mean) @ axes.vectors[:, :count]
    spread = scores.std(axis=0)
    varies = axes.variances[:count] > 1e-10 * max(float(axes.variances[0]), 1e-300)
    return np.asarray(np.where(varies, scores / np.where(spread > 0, spread, 1.0), 0.0))


def axis_certainty(variances: Matrix, rows: int, sample: int) -> Matrix:
    """Cosine to expect between the same principal axis of two tables of one population, per axis, in (0, 1].

    Sampling turns axis i towards axis j by an angle of variance l_i l_j / (l_i - l_j)^2 per row and table, to first
    order: axes of nearly equal variance are as good as random.
    """
    size = np.maximum(variances, 1e-9 * max(float(variances[0]), 1e-300))
    gaps = (size[:, None] - size) ** 2
    np.fill_diagonal(gaps, np.inf)
    turned = size[:, None] * size / np.maximum(gaps, 1e-12 * size[0] ** 2) * (1 / rows + 1 / sample)
    return np.asarray(1.0 / np.sqrt(1.0 + turned.sum(axis=1)))
