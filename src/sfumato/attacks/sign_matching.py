"""Signs of principal axes from the shape of the distribution, without trying all 2^d of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

CLIP = 3.0
"""Deviations beyond which a score counts as this far out: third and fourth moments are at the mercy of the tails."""
MOST_ROWS = 5_000


def matching_signs(first: Matrix, second: Matrix, restarts: int = 20, seed: int = 0) -> Matrix:
    """The signs s for which the rows `first * s` are distributed most like the rows `second`; both standardised.

    The moments of odd order in some axis change sign with it. With C_ijk = E u_i u_j u_k and D_ijk = E u_i^2 u_j u_k of
    either table, flips turn C_ijk into s_i s_j s_k C_ijk and D_ijk into s_j s_k D_ijk, so that the squared distance of
    both tables' moments is least where

        f(s) = sum_ijk C_ijk C'_ijk s_i s_j s_k + sum_jk (sum_i D_ijk D'_ijk) s_j s_k

    is greatest. f is climbed one flip at a time, the best flip first, from the signs of the skewnesses and from random
    ones. A flip costs O(d^2) once the moments are there. Distributions that a flip does not change (a normal law) have
    no sign to be found.
    """
    cubic, quadratic = _agreement(first, second)
    rng = np.random.default_rng(seed)
    d = first.shape[1]
    starts = [np.where(np.einsum("iii->i", cubic) < 0, -1.0, 1.0)]
    starts += [rng.choice([-1.0, 1.0], size=d) for _ in range(restarts)]
    climbed = [_climb(cubic, quadratic, start) for start in starts]
    return max(climbed, key=lambda found: found[0])[1]


def _agreement(first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
    thirds, fourths = [], []
    for U in (first, second):
        U = np.clip(U[np.linspace(0, len(U) - 1, min(len(U), MOST_ROWS)).round().astype(int)], -CLIP, CLIP)
        pairs = (U[:, :, None] * U[:, None, :]).reshape(len(U), -1)
        d = U.shape[1]
        thirds.append((U.T @ pairs / len(U)).reshape(d, d, d))
        fourths.append(((U**2).T @ pairs / len(U)).reshape(d, d, d))
    quadratic = (fourths[0] * fourths[1]).sum(axis=0)
    np.fill_diagonal(quadratic, 0.0)
    return thirds[0] * thirds[1], quadratic


def _climb(cubic: Matrix, quadratic: Matrix, signs: Matrix) -> tuple[float, Matrix]:
    """The top of the hill, and its height."""
    signs = signs.copy()
    own = np.einsum("iii->i", cubic)
    twice = np.einsum("iij->ij", cubic)
    for _ in range(100 * len(signs)):  # every step climbs, so this is never reached
        by_two = np.einsum("ijk,k->ij", cubic, signs) @ signs
        without = by_two - 2 * signs * (twice @ signs) + own  # sum over the pairs without the axis itself
        gain = -2 * signs * (3 * without + own) - 4 * signs * (quadratic @ signs)
        best = int(gain.argmax())
        if gain[best] <= 1e-12:
            break
        signs[best] *= -1
    height = float(np.einsum("ijk,i,j,k", cubic, signs, signs, signs) + signs @ quadratic @ signs)
    return height, signs
