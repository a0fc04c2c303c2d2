"""The unified multi-column privacy of [random-rotation, 4.1-4.4]: variance of difference (VoD), weights, guarantees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.metrics.privacy import variance_of_difference
from sfumato.core.array_types import Matrix
from sfumato.table import Encoding
from sfumato.table.neighbours.nearest import nearest


class Unified(NamedTuple):
    """Minimum and average privacy guarantee over the columns; larger is safer."""

    minimum: float
    average: float


def unified_privacy(column_privacy: ArrayLike, weights: ArrayLike | None = None, *, published: bool = False) -> Unified:
    """Phi_1 = min p_i / w_i and Phi_2 = mean p_i / w_i; larger is safer.

    p is the VoD per column, or its root sigma, as in the paper's Table 1. Weights w (a column that matters more needs
    more privacy for the same guarantee) are scaled to the mean 1, so that equal weights change nothing; `published`
    scales them to the sum 1, which multiplies every figure by the number of columns. NaN columns are left out.
    """
    p = np.asarray(column_privacy, dtype=np.float64)
    w = np.ones(len(p)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights is not None:
        w = w / (w.sum() if published else w.mean())
    there = ~np.isnan(p)
    if not there.any():
        return Unified(float("nan"), float("nan"))
    weighted = p[there] / w[there]
    return Unified(float(weighted.min()), float(weighted.mean()))


def column_privacy(original: Matrix, guess: Matrix, encoding: Encoding, *, cap: bool = True) -> Matrix:
    """VoD of every private source column (encoded units); larger is safer, up to what guessing the mean gives.

    A category counts with half the sum over its slots, so that mistaking it for another weighs like a number's whole
    range. A missing number is no difference. Constant columns are NaN: there is nothing in them to hide. `cap=False`
    does not cap, as published.
    """
    found = np.full(len(encoding.groups), np.nan)
    for number, group in enumerate(encoding.groups):
        x, y = original[:, group.start : group.stop], guess[:, group.start : group.stop]
        factor = 0.5 if group.is_onehot else 1.0
        if group.has_indicator:
            there = x[:, 1] < 0.5
            x, y = x[there, :1], y[there, :1]
        if len(x) and np.ptp(x, axis=0).any():
            vod = factor * float(variance_of_difference(x, y, cap=False).sum())
            found[number] = min(vod, factor * float(x.var(axis=0).sum())) if cap else vod
    return found


def component_privacy(
    original: Matrix, components: Matrix, weights: ArrayLike | None = None, *, published: bool = False
) -> Unified:
    """Minimum and average sigma over the orderings of ICA components (n x r); larger is safer.

    Over the d! orderings the lowest minimum is the smallest entry of the VoD matrix, and the lowest average a linear
    assignment: the worst case of both. The attacker rescales by the known mean and deviation,
    VoD_ij = var_i (2 - 2 |rho_ij|), no more than var_i, which also stands for columns without a component; constant
    columns, which hide nothing, are left out. Signs are the better ones.

    `published`: components of variance 1 are held against columns on [0, 1], so that a column which is recovered
    perfectly scores 1 - sd, and columns in excess of the components are left out. The average is that of the ordering
    with the lowest minimum [random-rotation, 4.4], not the lowest one. Every ordering with the smallest entry has that
    minimum, (d - 1)! of them, and the paper does not say which it takes: this is their mean.
    """
    x = original - original.mean(axis=0)
    c = components - components.mean(axis=0)
    c = c / np.where(c.std(axis=0) > 0, c.std(axis=0), 1.0)
    variance = x.var(axis=0)
    shared = np.abs(x.T @ c) / len(x)
    w = np.ones(len(variance)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights is not None:
        w = w / (w.sum() if published else w.mean())
    if published:
        sigma = np.sqrt(np.maximum(variance[:, None] + 1.0 - 2 * shared, 0.0)) / w[:, None]
        return _likeliest_ordering(sigma)
    varies = variance > 0
    if not varies.any():
        return Unified(float("nan"), float("nan"))
    deviation = np.sqrt(variance[varies])
    rho = np.minimum(shared[varies] / deviation[:, None], 1.0)
    vod = np.minimum(2 - 2 * rho, 1.0) * deviation[:, None] ** 2
    # Guessing the mean is open to every column, beside the components.
    vod = np.hstack([vod, np.broadcast_to(deviation[:, None] ** 2, (len(deviation), len(deviation)))])
    sigma = np.sqrt(vod) / w[varies][:, None]
    return Unified(float(sigma.min()), float(sigma[linear_sum_assignment(sigma)].mean()))


def _likeliest_ordering(sigma: Matrix) -> Unified:
    """The smallest entry, and the mean average of all assignments with it: the other pairs are equally frequent."""
    column, component = np.unravel_index(sigma.argmin(), sigma.shape)
    rest = np.delete(np.delete(sigma, column, axis=0), component, axis=1)
    pairs, lowest = min(sigma.shape), float(sigma[column, component])
    return Unified(lowest, (lowest + (pairs - 1) * float(rest.mean())) / pairs if rest.size else lowest)


def nearest_row_privacy(original: Matrix, perturbed: Matrix, weights: ArrayLike | None = None) -> Unified:
    """Minimum and average sigma between perturbed rows and the original row nearest to each; larger is safer.

    How the paper measures condensation [random-rotation, 5.3, Figs 5-8]: sigma_i = sd of the difference in column i
    (encoded). Constant columns count with 0, as published.
    """
    _, index = nearest(np.ascontiguousarray(perturbed), np.ascontiguousarray(original), k=1)
    sigma = np.sqrt(variance_of_difference(original[index[:, 0]], perturbed, cap=False))
    return unified_privacy(sigma, weights)
