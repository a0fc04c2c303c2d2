"""Where the basis of a projection comes from: built in, learned, from public rows, or given by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Matrix
from sfumato.channels.built_in_bases import BUILT_IN
from sfumato.errors import TableError, UsageError
from sfumato.guarantee.card import check_version
from sfumato.guarantee.proved import BORROWED_BASIS, LEARNED_BASIS
from sfumato.statistics import Moments

LEARNED, PRIVATE = "learned", "private"
NAMES = (LEARNED, PRIVATE, *BUILT_IN)
"""Bases that a parameter can name; anything else is a matrix or the path of one."""


@dataclass(frozen=True)
class Basis:
    """A matrix whose rows are components, how much rows vary along each, where that is known, and whether it is known
    to have been learned from people's rows."""

    matrix: Matrix
    variances: Matrix | None = None
    learned: bool = False

    def __repr__(self) -> str:
        return f"<Basis of {self.matrix.shape[0]} x {self.matrix.shape[1]} numbers>"


def principal_components(moments: Moments) -> Basis:
    """All eigenvectors of the covariance (rows, largest variance first), and their variances."""
    if moments.n < 2:
        raise TableError("A basis cannot be learned from fewer than two rows.")
    return leading_directions(moments.covariance())


def leading_directions(spread: Matrix) -> Basis:
    """Eigenvectors of a symmetric matrix, largest eigenvalue first; eigenvalues below 0 count as 0."""
    values, vectors = np.linalg.eigh(spread)
    vectors = vectors[:, ::-1].T
    # Eigenvectors have no sign of their own: fix it, so that merged and one-pass fits give the same space.
    largest = np.abs(vectors).argmax(axis=1)
    vectors = vectors * np.sign(vectors[np.arange(len(vectors)), largest])[:, None]
    return Basis(vectors, np.maximum(values[::-1], 0.0))


def given_basis(basis: str | ArrayLike | Basis, width: int) -> Basis:
    """A built-in basis, a matrix, or the path of a JSON file that contains a matrix, or of a card with one."""
    if isinstance(basis, str):
        given = Basis(BUILT_IN[basis](width, width)) if basis in BUILT_IN else _read_basis(Path(basis))
    else:
        given = basis if isinstance(basis, Basis) else Basis(_as_matrix(basis))
    matrix = given.matrix
    if matrix.ndim != 2 or matrix.shape[1] != width or not np.isfinite(matrix).all() or not len(matrix):
        raise UsageError(
            f"{_MUST} or a finite matrix with {width} columns, one for each encoded column of this table. "
            f"Got shape {matrix.shape} instead."
        )
    return given


_MUST = f"The 'basis' parameter of principal-laplace must be {', '.join(map(repr, NAMES))}"


def _as_matrix(given: ArrayLike) -> Matrix:
    try:
        return np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{_MUST}, a path or a matrix of numbers. Got a {type(given).__name__} of something else instead."
        ) from error


def _read_basis(path: Path) -> Basis:
    """A basis that a card says was learned stays learned, whoever uses it."""
    try:
        data = json.loads(path.read_text())
        if not isinstance(data, dict):
            return Basis(np.array(data, dtype=np.float64))
        check_version(data, f"The card {path}")
        transform, told = data["transform"], data["learned_from_data"]
        matrix, variances = np.array(transform["matrix"], dtype=np.float64), transform.get("variances")
        return Basis(
            matrix,
            None if variances is None else np.array(variances, dtype=np.float64)[: len(matrix)],
            learned=LEARNED_BASIS in told or BORROWED_BASIS in told,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{_MUST} or the path of a JSON file that contains a matrix, or of a card with one. {path} is none of "
            "these."
        ) from error
