"""A column-wise release read back: the inverse of decode, wherever noise carried the cells."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

from sfumato.core.errors import TableError
from sfumato.table import Column, Encoding, Schema
from sfumato.table.encoding import recode

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


def emptied(name, row, value=None):
    """The rows as they would be released, with one cell taken out."""
    table = ENCODING.decode(ROWS)
    cells = table[name].to_pylist()
    cells[row] = value
    return table.set_column(table.column_names.index(name), name, pa.array(cells, table[name].type))


@pytest.mark.parametrize(("name", "value"), [("age", None), ("age", float("nan")), ("pain", None), ("seen", None)])
def test_a_cell_that_is_empty_although_nobody_said_so_is_refused_by_row(name, value):
    """Read as the middle of its range, every attack and every learner would believe it."""
    with pytest.raises(TableError, match=f"Column '{name}' of the release is empty in row 12 .*card does not say"):
        recode(ENCODING, emptied(name, 1, value), first_row=10)


def test_an_empty_category_that_nobody_announced_is_refused():
    encoding = Encoding(Schema((Column("colour", "categorical", categories=("red", "blue")),)))
    with pytest.raises(TableError, match=r"'colour' of the release is empty in row 2"):
        recode(encoding, pa.table({"colour": ["red", None]}))


def test_cells_that_may_be_missing_are_read_as_missing():
    found = recode(ENCODING, emptied("income", 0))
    assert_allclose(found[0, 6:], [0.5, 1.0])
    assert_allclose(recode(ENCODING, emptied("colour", 0))[0, 3:6], [0, 0, 1])


def test_who_guesses_may_leave_cells_open():
    assert recode(ENCODING, emptied("age", 1), why=None)[1, 0] == 0.5


def test_an_ordinal_cell_that_is_no_category_is_refused_and_not_taken_for_the_middle():
    words = ENCODING.decode(ROWS, like_original=True)
    words = words.set_column(1, "pain", pa.array(["1", "secret", "3"]))
    with pytest.raises(TableError, match=r"'pain' holds a category .* row 2") as caught:
        recode(ENCODING, words)
    assert "secret" not in str(caught.value)


def test_whole_ranks_are_ranks_where_the_card_says_so():
    """A CSV file loses the decimal point: ranks 1 and 2 must not be taken for the categories "1" and "2"."""
    table = ENCODING.decode(ROWS).slice(1)
    table = table.set_column(1, "pain", pa.array([1, 2]))
    assert_allclose(recode(ENCODING, table, ranks=True)[:, 1], [0.5, 1.0])
    assert_allclose(recode(ENCODING, table)[:, 1], [0.0, 0.5])
