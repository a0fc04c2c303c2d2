"""Learning a schema: kinds, identifiers, and what is refused instead of guessed."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato.core.errors import PrivacyLeakWarning, SchemaError, TableError
from sfumato.table import Column, ConstantWarning, IdentifierWarning, Schema

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")


def infer(table, label="label", **options):
    return Schema.infer(table, label, **options)


def with_label(rows: int, **columns) -> pa.Table:
    return pa.table({**columns, "label": [("x", "y")[i % 2] for i in range(rows)]})


def test_kinds():
    schema = infer(
        with_label(
            4,
            flag=[0, 1, 0, 1],
            number=[0.5, 1.0, None, 2.0],
            truth=[True, False, True, True],
            word=["b", "a", None, "b"],
            day=[datetime.date(2020, 1, i + 1) for i in range(4)],
            moment=[datetime.datetime(2020, 1, 1, 12 + i) for i in range(4)],
            iso=["2001-12-31", "2001-01-01", None, "2002-05-05"],
            coded=["01001", "02002", "01001", "02002"],
            digits=["10", "9", "8", "7"],
        )
    )
    kinds = {c.name: c.kind for c in schema.columns}
    assert kinds == {
        "flag": "integer",
        "number": "numeric",
        "truth": "categorical",
        "word": "categorical",
        "day": "date",
        "moment": "date",
        "iso": "date",
        "coded": "categorical",
        "digits": "integer",
        "label": "categorical",
    }
    assert (schema["flag"].low, schema["flag"].high) == (0, 1)
    assert schema["word"].categories == ("a", "b")
    assert [c.name for c in schema.columns if c.missing] == ["number", "word", "iso"]
    assert (schema["iso"].low, schema["iso"].high) == ("2001-01-01", "2002-05-05")
    assert (schema["moment"].low, schema["moment"].high) == ("2020-01-01", "2020-01-02")
    assert all(c.source == "learned" for c in schema.columns)


def test_learning_bounds_is_said_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        infer(with_label(3, a=[1, 2, 3], b=[1.0, 2.0, 3.0]))
    leaks = [w for w in caught if w.category is PrivacyLeakWarning]
    assert len(leaks) == 1
    assert leaks[0].filename == __file__ or "test_table_infer" in leaks[0].filename


def test_integer_labels_are_classes_in_numeric_order():
    schema = Schema.infer(pa.table({"a": [1, 2, 3, 4], "label": [10, 9, 10, 2]}), "label")
    assert schema["label"].categories == ("2", "9", "10")
    floats = Schema.infer(pd.DataFrame({"a": [1, 2, 3], "label": [1.0, 2.0, 1.0]}), "label")
    assert floats["label"].categories == ("1", "2")


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (pa.table({"a": pa.array([], pa.int64()), "label": pa.array([], pa.string())}), TableError, "no rows"),
        (with_label(1, a=[1]), TableError, "only one row"),
        (with_label(2, a=[None, None]), SchemaError, "'a' is empty in every row. Drop"),
        (with_label(2, a=[np.nan, np.nan]), SchemaError, "'a' is empty in every row. Drop"),
        (with_label(3, a=[1.0, 2.0, np.inf]), TableError, "'a' is infinite in row 3"),
        (with_label(4, b=["secret", "3", "4", "1"]), TableError, "'b' looks numeric, but row 1 holds text"),
        (with_label(2, a=[[1], [2]]), TableError, "type list"),
        (pa.table({"a": [1, 2], "label": ["x", "x"]}), SchemaError, "only one class"),
        (pa.table({"a": [1, 2], "label": ["x", None]}), TableError, "missing in 1 row.*first in row 2"),
        (pa.table({"a": [1] * 300, "label": range(300)}), SchemaError, "more than 100 classes"),
        (pa.table({"a": [1, 2], "lable": ["x", "y"]}), SchemaError, "Did you mean 'lable'.*columns are: a, lable"),
        (with_label(900, a=[f"k{i % 300}" for i in range(900)]), SchemaError, "more than 200 categories"),
        (with_label(300, a=[f"a remark number {i} on somebody" for i in range(300)]), SchemaError, "free text"),
        (with_label(2, a=[-1.7e308, 1.7e308]), TableError, "spans more"),
        (with_label(2, a=["(missing)", None]), SchemaError, "Clear those cells"),
    ],
)
def test_what_cannot_be_used_is_refused_without_quoting_a_cell(table, error, words):
    with pytest.raises(error, match=words) as caught:
        infer(table)
    assert "secret" not in str(caught.value)
    assert "remark number" not in str(caught.value)


def test_text_in_a_late_block_is_found_by_row():
    column = pa.array([*map(str, range(100)), *["7"] * 70_000, "hidden"])
    with pytest.raises(TableError, match="row 70101"):
        infer(with_label(len(column), a=column))


def test_refused_columns_can_be_set_aside_or_named_as_identifiers():
    table = with_label(300, a=[f"a remark number {i} on somebody" for i in range(300)], b=range(300), c=[None] * 300)
    with pytest.warns(IdentifierWarning, match="'a' looks like free text.*'c' is empty"):
        assert infer(table, refuse=False).dropped == ("a", "c")
    with pytest.warns(IdentifierWarning, match="'b'"):
        assert infer(table, identifiers=["a", "c"]).dropped == ("a", "c")
    with pytest.raises(SchemaError, match="no column 'z'"):
        infer(table, identifiers=["z"])


def test_identifiers_are_named():
    numbers = np.random.default_rng(1).integers(10**5, 10**9, 100)
    numbers[:4] = numbers[4]  # a few people have several samples
    table = with_label(
        100,
        sample=numbers,
        running=np.arange(100),
        code=[f"K{i}" for i in range(100)],
        measured=np.linspace(0, 1, 100),
        amount=[i * 7 % 90 for i in range(100)],
    )
    with pytest.warns(IdentifierWarning) as caught:
        schema = infer(table)
    message = str(next(w.message for w in caught if w.category is IdentifierWarning))
    assert {n for n in table.column_names if repr(n) in message} == {"sample", "running", "code"}
    assert schema.dropped == ("code",)
    assert schema["sample"].role == "private"


def test_twenty_rows_are_needed_to_call_a_column_an_identifier():
    with warnings.catch_warnings():
        warnings.simplefilter("error", IdentifierWarning)
        infer(with_label(19, a=range(19)))


def test_constant_columns_are_allowed_and_named():
    with pytest.warns(ConstantWarning, match="a, b"):
        schema = infer(with_label(3, a=[7, 7, 7], b=["k", "k", "k"], c=[1, 2, 3]))
    assert (schema["a"].low, schema["a"].high) == (7, 7)


def test_person_column():
    schema = infer(with_label(4, who=[f"p{i // 2}" for i in range(4)], a=[1, 2, 3, 4]), person="who")
    assert schema.person is not None
    assert [c.name for c in schema.private] == ["a"]


def test_unused_categories_do_not_travel():
    words = pd.Categorical(["u", "v", "u"], categories=["u", "v", "someone else"])
    schema = infer(pd.DataFrame({"a": words, "label": ["x", "y", "x"]}))
    assert schema["a"].categories == ("u", "v")


def test_integers_that_no_double_can_count_become_numbers_where_these_tell_them_apart():
    schema = infer(with_label(2, a=[2**60, 2**61]))
    assert schema["a"].kind == "numeric"


@pytest.mark.parametrize("first", [2**60, 10**24])
def test_long_integers_are_not_called_the_same_value(tmp_path, first):
    """Doubles merge them: they were one constant column, with its value on the card."""
    cells = [first + number % 3 for number in range(60)]
    path = tmp_path / "t.csv"
    path.write_text("a,label\n" + "".join(f"{cell},{number % 2}\n" for number, cell in enumerate(cells)))
    with pytest.raises(SchemaError, match=r"'a' holds integers beyond 2\^53 that lie too close together"):
        infer(path)
    same = tmp_path / "same.csv"
    same.write_text("a,b,label\n" + "".join(f"{first},{number},{number % 2}\n" for number in range(30)))
    with pytest.warns(ConstantWarning, match="same value in every row"):
        Schema.infer(same, "label")


@pytest.mark.parametrize("first", [2**60, 10**24])
def test_long_numbers_of_people_are_identifiers(tmp_path, first):
    path = tmp_path / "t.csv"
    path.write_text("a,b,label\n" + "".join(f"{first + n},{n / 7},{n % 2}\n" for n in range(60)))
    with pytest.warns(IdentifierWarning, match=r"beyond 2\^53 that are unique in nearly every row"):
        schema = Schema.infer(path, "label")
    assert schema["a"].role == "identifier"


def test_bounds_beyond_what_doubles_count_are_refused_where_they_would_merge():
    assert Column("a", "integer", low=2**60, high=2**61).bounds == (2.0**60, 2.0**61)
    with pytest.raises(SchemaError, match=r"beyond 2\^53"):
        Column("a", "integer", low=2**60, high=2**60 + 100)
