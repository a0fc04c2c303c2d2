"""Independent component analysis by fixed-point iteration [Hyvarinen 1999], given up where it gets no further."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.array_types import Matrix

SETTLED = 1e-6
"""Largest 1 - |cosine| between a component and its successor at which a run counts as settled."""
PATIENCE = 50
"""Rounds without getting nearer to settling (by a tenth) after which a run is given up: on normal columns it would
wander about for ever. A small table costs nothing, and gets all its rounds."""
SMALL = 20_000
"""Cells of a small table."""


def _logcosh(S: Matrix) -> tuple[Matrix, Matrix]:
    G = np.tanh(S)
    return G, 1.0 - np.square(G).mean(axis=1)


def _exp(S: Matrix) -> tuple[Matrix, Matrix]:
    square = np.square(S)
    bell = np.exp(-0.5 * square)
    return S * bell, ((1.0 - square) * bell).mean(axis=1)


def _cube(S: Matrix) -> tuple[Matrix, Matrix]:
    square = np.square(S)
    return square * S, 3.0 * square.mean(axis=1)


CONTRASTS: dict[str, Callable[[Matrix], tuple[Matrix, Matrix]]] = {"logcosh": _logcosh, "exp": _exp, "cube": _cube}
"""Contrast -> derivative G' at every score, and the mean of its own derivative for every component."""


def unmixing_rotation(white: Matrix, contrast: str, start: Matrix, rounds: int) -> Matrix | None:
    """The rotation (components in rows) that unmixes white rows; None if the iteration does not settle.

    All components move at once: w <- E[x G'(w x)] - E[G''(w x)] w, then the rows are made orthonormal.
    """
    X, derivatives = np.ascontiguousarray(white.T), CONTRASTS[contrast]
    W, nearest, since = _orthonormal(start), np.inf, 0
    patience = rounds if white.size < SMALL else PATIENCE
    for _ in range(rounds):
        G, slope = derivatives(W @ X)
        after = _orthonormal(G @ X.T / X.shape[1] - slope[:, None] * W)
        if not np.isfinite(after).all():
            return None
        left = float(np.max(np.abs(np.abs(np.einsum("ij,ij->i", after, W)) - 1.0)))
        W = after
        if left < SETTLED:
            return W
        nearest, since = (left, 0) if left < 0.9 * nearest else (nearest, since + 1)
        if since == patience:
            return None
    return None


def _orthonormal(W: Matrix) -> Matrix:
    """(W W')^(-1/2) W."""
    values, vectors = np.linalg.eigh(W @ W.T)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-300))) @ vectors.T @ W)
