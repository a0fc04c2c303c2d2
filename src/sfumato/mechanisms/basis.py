"""Where the basis of a projection comes from: learned, the columns themselves, or given by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Matrix
from sfumato.errors import TableError, UsageError
from sfumato.guarantee.card import check_version
from sfumato.guarantee.proved import BORROWED_BASIS, LEARNED_BASIS
from sfumato.statistics import Statistics

LEARNED, IDENTITY = "learned", "identity"


@dataclass(frozen=True)
class GivenBasis:
    """A matrix whose rows are components, and whether it is known to have been learned from people's rows."""

    matrix: Matrix
    learned: bool = False


def principal_components(statistics: Statistics) -> tuple[Matrix, Matrix]:
    """All eigenvectors of the covariance (rows, largest variance first), and their variances."""
    moments = statistics.total
    if moments.n < 2:
        raise TableError("A basis cannot be learned from fewer than two rows.")
    values, vectors = np.linalg.eigh(moments.covariance())
    vectors = vectors[:, ::-1].T
    # Eigenvectors have no sign of their own: fix it, so that merged and one-pass fits give the same space.
    largest = np.abs(vectors).argmax(axis=1)
    vectors = vectors * np.sign(vectors[np.arange(len(vectors)), largest])[:, None]
    return vectors, np.maximum(values[::-1], 0.0)


def given_basis(basis: str | ArrayLike, width: int) -> GivenBasis:
    """The identity, a matrix, or the path of a JSON file that holds a matrix or a card with one."""
    if isinstance(basis, str):
        given = GivenBasis(np.eye(width)) if basis == IDENTITY else _read_basis(Path(basis))
    else:
        given = GivenBasis(_as_matrix(basis))
    matrix = given.matrix
    if matrix.ndim != 2 or matrix.shape[1] != width or not np.isfinite(matrix).all() or not len(matrix):
        raise UsageError(
            f"The 'basis' parameter of PrincipalLaplace must be 'learned', 'identity' or a finite matrix with {width} "
            f"columns, one for each encoded column of this table. Got shape {matrix.shape} instead."
        )
    return given


def _as_matrix(given: ArrayLike) -> Matrix:
    try:
        return np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise UsageError(
            "The 'basis' parameter of PrincipalLaplace must be 'learned', 'identity', a path or a matrix of numbers. "
            f"Got a {type(given).__name__} of other things instead."
        ) from error


def _read_basis(path: Path) -> GivenBasis:
    """A basis that a card says was learned stays learned, whoever uses it."""
    try:
        data = json.loads(path.read_text())
        if not isinstance(data, dict):
            return GivenBasis(np.array(data, dtype=np.float64))
        check_version(data, f"The card {path}")
        told = data["learned_from_data"]
        return GivenBasis(
            np.array(data["transform"]["matrix"], dtype=np.float64), LEARNED_BASIS in told or BORROWED_BASIS in told
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"The 'basis' parameter of PrincipalLaplace must be 'learned', 'identity' or the path of a JSON file "
            f"that holds a matrix or a card with one. {path} is none of these."
        ) from error
