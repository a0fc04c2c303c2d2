"""Rotations: drawn from the Haar law, checked, and applied to rows."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Matrix
from sfumato.noise import Streams

ORTHOGONAL = 1e-12
"""How far an entry of R R' may be from the identity's; drawn rotations miss it by some 1e-15."""


def secret_generator() -> np.random.Generator:
    """A generator of its own from the operating system's entropy, for keys."""
    return Streams().generator(0, b"key", b"")


def haar_rotation(width: int, rng: np.random.Generator) -> Matrix:
    """An orthogonal matrix of the Haar law: QR of a Gaussian matrix with the signs of R's diagonal [Stewart 1980].

    Without the signs the law would be that of LAPACK's convention, not the uniform one. Both determinants occur.
    """
    q, r = np.linalg.qr(rng.standard_normal((width, width)))
    return np.ascontiguousarray(q * np.where(np.diagonal(r) < 0, -1.0, 1.0))


def is_orthogonal(matrix: Matrix) -> bool:
    """Whether R R' is the identity up to `ORTHOGONAL` (NaN is not)."""
    return bool(np.abs(matrix @ matrix.T - np.eye(len(matrix))).max() <= ORTHOGONAL)


def rotate(X: Matrix, matrix: Matrix, offset: Matrix) -> Matrix:
    """``A x + c`` for every row x; columns lie together, as noise is drawn and files are written."""
    columns = matrix @ X.T
    columns += offset[:, None]
    rotated: Matrix = columns.T
    return rotated
