"""Counts of several columns, against adding up one row at a time."""

import numpy as np

from sfumato.table.statistics import Counts

SIZES = {0: 3, 1: 4, 2: 2, 3: 5}
WANTED = [(0,), (0, 1), (0, 2), (1, 2, 3), (1, 2), (1,), (3, 1, 0), (3, 1, 2), (0, 3), (), (2,)]


def test_sets_of_columns_in_any_order_are_counted_as_row_by_row():
    """Sets that begin alike share work; none may get another's."""
    rng = np.random.default_rng(0)
    codes = {column: rng.integers(0, size, 300) for column, size in SIZES.items()}
    classes = rng.integers(0, 2, 300)
    found = Counts.of(codes, SIZES, classes, 2, WANTED).tables
    for key in WANTED:
        table = np.zeros((2, *(SIZES[column] for column in key)), dtype=np.int64)
        np.add.at(table, (classes, *(codes[column] for column in key)), 1)
        np.testing.assert_array_equal(found[key], table)
