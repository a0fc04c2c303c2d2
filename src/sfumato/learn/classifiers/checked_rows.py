"""Rows as users of scikit-learn have them, checked without a word of what stands in them.

scikit-learn's own messages quote cells ("could not convert string to float: 'Mary'") or print whole arrays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from sfumato.core.array_types import Matrix

WITHOUT_CELLS = (
    "Complex data not supported",
    "Expected 2D array, got",
    "Expected a 2-dimensional container",
    "Found array with",
    "Found input variables with inconsistent",
    "Input X contains",
    "Input contains",
    "Input y contains",
    "Sparse data was passed",
    "The feature names should match",
    "Unknown label type",
    "X has ",
    "X does not have valid feature names",
    "float() argument must be a string or",
    "y should be a 1d array",
)
"""Beginnings of scikit-learn's messages that name shapes, columns and types only. No other message is shown."""


def matrix_of_rows(
    estimator: Any, X: Any, *, reset: bool = False, accept_sparse: bool = False, gaps: bool = False
) -> Matrix:
    """Numbers (n x d); a sparse matrix is made dense, as noise would make it. `gaps`: cells may be left out (NaN)."""
    with no_cells_in_errors(X):
        found = validate_data(
            estimator,
            X,
            dtype=np.float64,
            reset=reset,
            accept_sparse="csr" if accept_sparse else False,
            ensure_all_finite="allow-nan" if gaps else True,
        )
    return np.asarray(found.toarray() if issparse(found) else found, dtype=np.float64)


def rows_and_targets(
    estimator: Any, X: Any, y: Any, *, accept_sparse: bool = False, gaps: bool = False
) -> tuple[Matrix, NDArray[Any]]:
    """The same with a class for every row."""
    with no_cells_in_errors(X):
        sparse = "csr" if accept_sparse else False
        finite = "allow-nan" if gaps else True
        found, targets = validate_data(
            estimator, X, y, dtype=np.float64, accept_sparse=sparse, ensure_all_finite=finite
        )
        check_classification_targets(targets)
    return np.asarray(found.toarray() if issparse(found) else found, dtype=np.float64), targets


def rows_and_numbers(estimator: Any, X: Any, y: Any) -> tuple[Matrix, Matrix]:
    """Rows with a number for each of them."""
    with no_cells_in_errors(X):
        found, targets = validate_data(estimator, X, y, dtype=np.float64, y_numeric=True)
    return np.asarray(found, dtype=np.float64), np.asarray(targets, dtype=np.float64)


def check_columns(estimator: Any, X: Any, *, reset: bool = False) -> None:
    """Names and number of a data frame's columns, noted or compared; their content is the encoding's business."""
    with no_cells_in_errors(None):
        validate_data(estimator, X, reset=reset, skip_check_array=True)


def targets_beside(X: Any, y: Any) -> NDArray[Any]:
    """A class for every row of a data frame."""
    with no_cells_in_errors(None):
        if y is None:
            raise ValueError("Found input variables with inconsistent numbers of samples: y is None.")
        targets = column_or_1d(y, warn=True)
        if any(value is None or value != value for value in targets.tolist()):
            raise ValueError("Input y contains NaN.")
        check_consistent_length(X, targets)
        check_classification_targets(targets)
    return np.asarray(targets)


@contextlib.contextmanager
def no_cells_in_errors(X: Any) -> Iterator[None]:
    """Let scikit-learn's errors pass that quote nothing; word all others anew."""
    try:
        yield
    except (ValueError, TypeError) as error:
        words, kind = str(error), type(error)
        if words.startswith("The feature names") or "requires y to be passed" in words:
            raise
        if not words.startswith(WITHOUT_CELLS):
            raise kind(_reworded(X)) from None
        first = words.partition("\n")[0].rstrip(":")
        if first.startswith("Expected 2D array"):
            first += ". Reshape your data: a table has rows and columns."
        raise kind(first) from None


def _reworded(X: Any) -> str:
    """Which columns are no numbers, as far as that can be told."""
    try:
        cells = np.asarray(X, dtype=object)
        wrong = [place for place in range(cells.shape[1]) if not _are_numbers(cells[:, place])]
    except (ValueError, TypeError, IndexError):
        return "The rows cannot be read as a table of numbers. Give an array of numbers, or a DataFrame."
    if not wrong:
        return "The rows or their classes cannot be read. Give numbers or a DataFrame, and one class per row."
    names = list(X.columns) if hasattr(X, "columns") else []
    shown = ", ".join(repr(names[place]) if names else str(place) for place in wrong[:10])
    return (
        f"These columns hold values that are not numbers: {shown}. PerturbedClassifier takes them in a DataFrame; "
        "other classifiers need numbers."
    )


def _are_numbers(cells: NDArray[Any]) -> bool:
    try:
        cells.astype(np.float64)
    except (ValueError, TypeError):
        return False
    return True
