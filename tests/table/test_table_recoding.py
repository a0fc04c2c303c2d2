"""A column-wise release read back: the inverse of decode, wherever noise carried the cells."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sfumato.table import Column, Encoding, Schema
from sfumato.table.recoding import recode

ENCODING = Encoding(
    Schema(
        (
            Column("age", "integer", low=0, high=100),
            Column("pain", "ordinal", categories=("1", "2", "3")),
            Column("seen", "date", low="2020-01-01", high="2024-12-31"),
            Column("colour", "categorical", categories=("red", "blue"), missing=True),
            Column("income", "numeric", low=0.0, high=10.0, missing=True),
        )
    )
)
ROWS = np.array(
    [
        [0.2, 0.0, 0.5, 1, 0, 0, 0.3, 0],
        [0.9, 0.5, 0.1, 0, 1, 0, 0.5, 1],
        [0.5, 1.0, 0.9, 0, 0, 1, 0.8, 0],
    ]
)


def test_noisy_cells_come_back_as_they_were_released():
    noisy = ROWS.copy()
    noisy[:, [0, 1, 2]] += [[-3.7, 2.2, 0.1]]
    noisy[[0, 2], 6] += 5.5
    assert_allclose(recode(ENCODING, ENCODING.decode(noisy)), noisy, atol=1e-9)


def test_a_release_like_the_original_is_read_as_categories_not_ranks():
    assert_allclose(recode(ENCODING, ENCODING.decode(ROWS, like_original=True)), ROWS, atol=1e-3)


@pytest.mark.parametrize("value", [-1e6, 1e6])
def test_nothing_is_clipped(value):
    rows = ROWS.copy()
    rows[:, 0] = value
    assert_allclose(recode(ENCODING, ENCODING.decode(rows))[:, 0], value)
