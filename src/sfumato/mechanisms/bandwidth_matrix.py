"""A bandwidth that is a matrix H: noise B u with B B' = H, which follows the columns' correlations.

H = h^2 S, with S the covariance of the class's rows and h the factor of a rule [kernel-resampling, Eq. 16, with a
matrix in the place of its diagonal]. Every column is blurred as much as by the diagonal rule. What differs is which
differences between columns are blurred: the diagonal drowns those in which the class hardly varies, the matrix blurs
every direction by the same share of how much the class varies in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.array_types import Floats, Matrix
from sfumato.errors import UsageError

LEAST_SHARE = 1e-3
"""No direction of the standardised columns has a smaller variance, so that no combination of columns is released
unchanged: not where one follows from others, nor where a class has fewer rows than columns."""


def correlated_root(covariance: Matrix, sigma: Floats) -> Matrix:
    """B of one bandwidth: diag(sigma) R^(1/2), R the correlations; rows have the length sigma_i.

    The root of the correlations, not of the covariance: it does not depend on the columns' units.
    """
    correlations = covariance / np.outer(sigma, sigma)
    values, vectors = np.linalg.eigh((correlations + correlations.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, LEAST_SHARE))) @ vectors.T
    return np.asarray(sigma[:, None] * root / np.linalg.norm(root, axis=1, keepdims=True))


def is_matrix(given: Any) -> bool:
    """Whether somebody gave H itself: a list of lists."""
    if isinstance(given, np.ndarray):
        return given.ndim == 2
    listed = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    return listed and all(isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) for row in given)


def given_root(given: Any, columns: int) -> Matrix:
    """B of a matrix H that somebody gave, in shares of the columns' ranges: its symmetric root."""
    try:
        H = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        H = np.zeros(0)
    if H.shape != (columns, columns):
        raise _wrong(f"there are {columns} numeric columns, and the matrix does not have as many rows and columns")
    if not np.isfinite(H).all() or not np.allclose(H, H.T, rtol=1e-9, atol=0.0):
        raise _wrong("it holds something that is no finite number, or is not symmetric")
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    if not values[0] > 1e-12 * values[-1]:
        raise _wrong("some direction of it has no positive variance, so that combinations of columns stay unchanged")
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)


def given_matrices(bandwidth: Any, by_class: str, classes: Mapping[int, str]) -> dict[int, Any]:
    """The classes for which a matrix is given."""
    if isinstance(bandwidth, Mapping) and set(bandwidth) == {by_class} and isinstance(bandwidth[by_class], Mapping):
        words = {str(name): one for name, one in bandwidth[by_class].items()}
        return {code: words[name] for code, name in classes.items() if is_matrix(words.get(name))}
    return dict.fromkeys(classes, bandwidth) if is_matrix(bandwidth) else {}


def _wrong(what: str) -> UsageError:
    return UsageError(
        f"The 'bandwidth' parameter of kernel-resampling, given as a matrix, must be the covariance H of the kernel's "
        f"argument in shares of the columns' ranges. Here {what}."
    )
