"""Signs of principal axes from the shape of the distribution, without trying all 2^d of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.core.array_types import Matrix

FREQUENCIES = (0.3, 0.7, 1.2)
"""At which characteristic functions are compared, per standard deviation: bounded, so that tails do not decide."""
MIDDLE = 1.0
MOST_ROWS = 5_000
MOST_CELLS = 20_000_000
"""Rows used, and products of two axes over all of them."""


class Agreement(NamedTuple):
    """Coefficients of f(s) = sum a_i s_i + sum B_ij s_i s_j + sum C_ijk s_i s_j s_k, the agreement of two tables."""

    single: Matrix
    double: Matrix
    triple: Matrix

    def climb(self, signs: Matrix) -> tuple[float, Matrix]:
        """The top of the hill above these signs, one flip at a time, the best first; and its height."""
        signs = signs.copy()
        own = np.einsum("iii->i", self.triple)
        twice = np.einsum("iij->ij", self.triple)
        for _ in range(100 * len(signs)):  # every step climbs, so this many are never made
            pairs = np.einsum("ijk,k->ij", self.triple, signs) @ signs
            others = pairs - 2 * signs * (twice @ signs) + own  # sum over the pairs without the axis itself
            gain = -2 * signs * (self.single + 2 * (self.double @ signs) + 3 * others + own)
            best = int(gain.argmax())
            if gain[best] <= 1e-12:
                break
            signs[best] *= -1
        return self.height(signs), signs

    def height(self, signs: Matrix) -> float:
        """f(s)."""
        cubic = np.einsum("ijk,i,j,k", self.triple, signs, signs, signs, optimize=True)
        return float(self.single @ signs + signs @ self.double @ signs + cubic)


def matching_signs(
    first: Matrix, second: Matrix, weights: Matrix | None = None, restarts: int = 20, seed: int = 0
) -> Matrix:
    """The signs s for which the rows `first * s` are distributed most like the rows `second`; both standardised.

    Compared are joint characteristic functions of one, two and three axes: E sin(a u_i) cos(b u_j) changes sign with
    s_i, E sin(a u_i) sin(b u_j) with s_i s_j and E sin(u_i) sin(u_j) sin(u_k) with s_i s_j s_k, so that the squared
    distance between both tables is least where f(s) of `Agreement` is greatest. f is climbed from the signs that the
    single axes suggest and from `restarts` random ones; a step costs O(d^3). `weights` say how sure each axis is.
    A distribution that a flip does not change (a normal law) has no sign to be found.
    """
    agreement = agreement_of(first, second, np.ones(first.shape[1]) if weights is None else weights)
    rng = np.random.default_rng(seed)
    starts = [np.where(agreement.single < 0, -1.0, 1.0)]
    starts += [rng.choice([-1.0, 1.0], size=first.shape[1]) for _ in range(restarts)]
    return max((agreement.climb(start) for start in starts), key=lambda found: found[0])[1]


def agreement_of(first: Matrix, second: Matrix, weights: Matrix) -> Agreement:
    """Products of both tables' characteristic functions, by the signs that they change with."""
    one, two = (_functions(U) for U in (first, second))
    d = first.shape[1]
    single = (one[0] * two[0]).sum(axis=0) + np.einsum("aibj,j->i", one[1] * two[1], weights)
    double = np.einsum("aibj->ij", one[2] * two[2]) + np.einsum("ijk,i->jk", one[4] * two[4], weights)
    double = double * np.outer(weights, weights)
    double[np.arange(d), np.arange(d)] = 0.0  # s_i^2 = 1
    cube = weights[:, None, None] * weights[:, None] * weights
    return Agreement(single * weights, double, one[3] * two[3] * cube)


def _functions(U: Matrix) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
    """Means of sin; sin cos; sin sin (at all pairs of frequencies); sin sin sin; cos sin sin (at the middle one)."""
    n, d = min(len(U), MOST_ROWS, max(MOST_CELLS // U.shape[1] ** 2, 100)), U.shape[1]
    U = U[np.linspace(0, len(U) - 1, n).round().astype(int)]
    count = len(FREQUENCIES)
    odd = np.hstack([np.sin(frequency * U) for frequency in FREQUENCIES])
    even = np.hstack([np.cos(frequency * U) for frequency in FREQUENCIES])
    middle = np.sin(MIDDLE * U)
    pairs = (middle[:, :, None] * middle[:, None, :]).reshape(n, -1)
    return (
        odd.mean(axis=0).reshape(count, d),
        (odd.T @ even / n).reshape(count, d, count, d),
        (odd.T @ odd / n).reshape(count, d, count, d),
        (middle.T @ pairs / n).reshape(d, d, d),
        (np.cos(MIDDLE * U).T @ pairs / n).reshape(d, d, d),
    )
