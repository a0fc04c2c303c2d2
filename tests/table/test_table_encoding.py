"""Encoding: the stated map, the stated errors, and nothing about a cell in any message."""

from __future__ import annotations

import datetime
import time

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sfumato.core.errors import SchemaError, TableError
from sfumato.table import Column, Encoding, Schema, open_table
from sfumato.table.cell_sets import one_spelling, person_codes


@pytest.fixture
def encoding() -> Encoding:
    return Encoding(
        Schema(
            (
                Column("age", "integer", low=0, high=100),
                Column("bmi", "numeric", low=10.0, high=50.0, missing=True),
                Column("colour", "categorical", categories=("red", "green")),
                Column("pain", "ordinal", categories=("none", "some", "much")),
                Column("town", "categorical", categories=("a", "b"), missing=True),
                Column("born", "date", low="2000-01-01", high="2000-01-11"),
                Column("site", "integer", low=7, high=7),
                Column("who", "categorical", role="person"),
                Column("code", "categorical", role="identifier"),
                Column("label", "categorical", role="label", categories=("1", "2")),
            )
        )
    )


@pytest.fixture
def table() -> pa.Table:
    return pa.table(
        {
            "age": [25, 100],
            "bmi": [20.0, None],
            "colour": ["green", "red"],
            "pain": ["much", "some"],
            "town": [None, "b"],
            "born": [datetime.date(2000, 1, 1), datetime.date(2000, 1, 6)],
            "site": [7, 7],
            "who": ["p", "q"],
            "label": [2, 1],
        }
    )


def test_the_map(encoding, table):
    encoded = encoding.encode(table)
    assert encoding.names == (
        *("age", "bmi", "bmi?missing", "colour=red", "colour=green", "pain", "town=a", "town=b", "town=(missing)"),
        *("born", "site"),
    )
    assert_array_equal(
        encoded.X,
        [
            [0.25, 0.25, 0, 0, 1, 1, 0, 0, 1, 0, 0.5],
            [1, 0.5, 1, 1, 0, 0.5, 0, 1, 0, 0.5, 0.5],
        ],
    )
    assert encoded.clipped == {}
    assert encoded.X.flags.c_contiguous
    assert_array_equal(encoding.encode_label(table), [1, 0])
    assert encoding.classes == ("1", "2")


def test_groups_and_vertices(encoding):
    groups = {g.column.name: g for g in encoding.groups}
    assert [(g.start, g.stop) for g in encoding.groups] == [(0, 1), (1, 3), (3, 5), (5, 6), (6, 9), (9, 10), (10, 11)]
    assert groups["age"].vertices.tolist() == [[0], [1]]
    assert groups["bmi"].vertices.tolist() == [[0, 0], [1, 0], [0.5, 1]]
    assert_array_equal(groups["colour"].vertices, np.eye(2))
    assert_array_equal(groups["town"].vertices, np.eye(3))
    assert groups["site"].vertices.tolist() == [[0.5]]
    assert [n for n, g in groups.items() if g.is_onehot] == ["colour", "town"]
    assert [n for n, g in groups.items() if g.has_indicator] == ["bmi"]
    assert encoding.scale.tolist() == [100, 40, 1, 1, 1, 2, 1, 1, 1, 10, 0]


def test_raw_units_are_neither_clipped_nor_rounded(encoding):
    X = np.array([[1.255, -0.5, 0.4, 0.2, 0.1, 1.2, 0.1, 0.2, 0.9, 2.05, 0.7]])
    found = encoding.decode(X).to_pylist()[0]
    assert found["age"] == pytest.approx(125.5)
    assert found["bmi"] == pytest.approx(-10)
    assert found["colour"] == "red"
    assert found["pain"] == pytest.approx(2.4)
    assert found["town"] is None
    assert found["born"] == datetime.datetime(2000, 1, 21, 12)
    assert found["site"] == 7
    X[0, 2] = 0.6
    assert encoding.decode(X).to_pylist()[0]["bmi"] is None


def test_like_original_rounds_and_clips(encoding):
    X = np.array([[0.256, -0.5, 0.4, 0.2, 0.1, 1.2, 0.1, 0.2, 0.9, 2.05, 0.7]])
    table = encoding.decode(X, like_original=True)
    assert table.to_pylist()[0] == {
        "age": 26,
        "bmi": 10.0,
        "colour": "red",
        "pain": "much",
        "town": None,
        "born": datetime.date(2000, 1, 11),
        "site": 7,
    }
    assert [str(f.type) for f in table.schema] == [
        "int64",
        "double",
        "string",
        "string",
        "string",
        "date32[day]",
        "int64",
    ]


def test_extreme_noise_still_decodes(encoding):
    X = np.full((1, encoding.width), 1e300)
    assert encoding.decode(X).num_rows == 1
    assert encoding.decode(-X, like_original=True)["age"].to_pylist() == [0]
    assert encoding.decode(np.full((1, encoding.width), np.nan))["age"].to_pylist() == [None]


def test_labels_come_back_as_they_were(encoding):
    assert encoding.decode_label([1, 0]).to_pylist() == [2, 1]
    words = Encoding(
        Schema(
            (Column("a", "numeric", low=0, high=1), Column("y", "categorical", role="label", categories=("01", "2")))
        )
    )
    assert words.decode_label([0, 1]).to_pylist() == ["01", "2"]


def changed(table: pa.Table, name: str, values) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("age", [1, None], "'age' is empty in row 12, but the schema does not allow it"),
        ("age", [np.nan, 1.0], "'age' is empty in row 11"),
        ("age", [1.0, np.inf], "'age' is infinite in row 12"),
        ("age", ["1", "secret"], "'age' contains text that is not a number in row 12"),
        ("age", ["1", "secret"], "If a word there means an empty cell, add --missing WORD"),
        ("age", ["N/A", "secret"], "If 'N/A' there means an empty cell, add --missing \"N/A\""),
        ("born", ["?", "2000-01-01"], "If '\\?' there means an empty cell, add --missing"),
        ("age", [datetime.date(2000, 1, 1)] * 2, "should contain numbers"),
        ("born", ["2000-01-01", "2000-13-01"], "not an ISO date .* in row 12"),
        ("born", [1, 2], "should contain dates"),
        ("colour", ["red", "secret"], "'colour' holds a category that the schema does not list, first in row 12"),
        ("colour", [None, "red"], "'colour' is empty in row 11"),
        ("pain", ["secret", "none"], "'pain' holds a category .* row 11"),
        ("pain", [None, "none"], "'pain' is empty in row 11"),
    ],
)
def test_cells_that_do_not_fit_are_named_by_row_and_never_quoted(encoding, table, name, values, words):
    with pytest.raises(TableError, match=words) as caught:
        encoding.encode(changed(table, name, values), first_row=10)
    assert "secret" not in str(caught.value)


def test_labels_that_do_not_fit(encoding, table):
    with pytest.raises(TableError, match="class that the schema does not list, first in row 2"):
        encoding.encode_label(changed(table, "label", [1, 3]))
    with pytest.raises(TableError, match="column to predict 'label' is missing in row 1"):
        encoding.encode_label(changed(table, "label", [None, 1]))
    with pytest.raises(SchemaError, match="no column to predict"):
        Encoding.unit(2).encode_label(table)


def test_a_table_without_a_column(encoding, table):
    with pytest.raises(SchemaError, match="no column 'age'"):
        encoding.encode(table.drop_columns(["age"]))


def test_values_outside_the_bounds_are_clipped_and_counted_or_refused(encoding, table):
    outside = changed(changed(table, "age", [-5, 300]), "site", [7, 8])
    X, clipped, *_ = encoding.encode(outside)
    assert clipped == {"age": 2, "site": 1}
    assert X[:, 0].tolist() == [0, 1]
    assert X[:, -1].tolist() == [0.5, 0.5]
    with pytest.raises(TableError, match="'age' in 2 rows, 'site' in 1 row") as caught:
        encoding.encode(outside, out_of_bounds="refuse")
    assert "300" not in str(caught.value)
    with pytest.raises(ValueError, match="out_of_bounds"):
        encoding.encode(table, out_of_bounds="ignore")


def test_text_is_read_as_what_the_schema_says(encoding, table):
    spelt = changed(changed(table, "age", [" 25", "1e2"]), "born", ["2000-01-01", "2000-01-06 00:00:00"])
    assert_array_equal(encoding.encode(spelt).X, encoding.encode(table).X)


def test_dictionaries_chunks_and_narrow_types(encoding, table):
    other = changed(table, "colour", table["colour"].combine_chunks().dictionary_encode())
    other = changed(changed(other, "age", pa.array([25, 100], pa.uint8())), "label", [2.0, 1.0])
    other = pa.concat_tables([other.slice(0, 1), other.slice(1, 1)])
    assert_array_equal(encoding.encode(other).X, encoding.encode(table).X)
    assert_array_equal(encoding.encode_label(other), [1, 0])


def test_an_own_matrix_is_filled(encoding, table):
    own = np.full((5, encoding.width), np.nan)
    X = encoding.encode(table, out=own).X
    assert np.shares_memory(X, own)
    assert_array_equal(X, encoding.encode(table).X)


def test_an_empty_block(encoding, table):
    assert encoding.encode(table.slice(0, 0)).X.shape == (0, encoding.width)
    assert encoding.decode(np.empty((0, encoding.width))).num_rows == 0


@pytest.mark.parametrize(
    "spellings",
    [
        ["1", "1.0", " 1", "1 ", "01", "+1", "1e0", "\uff11", "\u200b1", "\u00a01\t"],
        ["Ann Lee", "ANN  LEE", " ann\tlee ", "\uff21nn Lee"],
        ["Stra\u00dfe", "STRASSE"],
        ["caf\u00e9", "cafe\u0301", "CAF\u00c9"],
        ["1" * 40, "0" + "1" * 40, "1" * 40 + ".00"],
        ["1" + "0" * 500, "1e500", "10e499"],
        ["0", "00", "-0", "0.000"],
    ],
    ids=lambda spellings: spellings[0][:8],
)
def test_one_person_has_one_spelling(spellings):
    assert len({one_spelling(word) for word in spellings}) == 1


def test_different_people_stay_different():
    words = ["1", "10", "-1", "1.5", "p1", "p01", "1a", "1" * 40, "1" * 39 + "2", "ann lee", "annlee", "1e9999999999"]
    assert len({one_spelling(word) for word in words}) == len(words)


@pytest.mark.parametrize("blank", ["", "  ", "\u200b\ufeff"], ids=repr)
def test_a_blank_name_is_nobodys(encoding, table, blank):
    with pytest.raises(TableError, match="'who' is empty in row 2"):
        person_codes(*encoding.people(changed(table, "who", ["p", blank])))


def test_persons_are_hashes_that_agree_between_blocks(encoding, table):
    first, second = (person_codes(*encoding.people(rows)) for rows in (table, table.slice(1)))
    assert first.dtype == np.uint64
    assert first[0] != first[1]
    assert second[0] == first[1]
    with pytest.raises(TableError, match="'who' is empty in row 2"):
        person_codes(*encoding.people(changed(table, "who", ["p", None])))
    with pytest.raises(SchemaError, match="no person"):
        Encoding.unit(1).people(table)


def test_what_is_learned_and_what_is_public():
    assert Encoding.unit(2).learned == ("c000", "c001")
    assert Encoding.unit(2).learned
    assert not Encoding.unit(2, public=True).learned


def test_the_fingerprint_is_of_the_map_alone(encoding):
    again = Encoding(Schema.from_dict(encoding.schema.to_dict()))
    assert again == encoding
    assert again.fingerprint() == encoding.fingerprint()
    stated = encoding.schema.with_column("age", source="public", reason="ages", weight=3.0)
    assert Encoding(stated).fingerprint() == encoding.fingerprint()
    assert Encoding(encoding.schema.with_column("age", high=101)).fingerprint() != encoding.fingerprint()
    assert len({Encoding.unit(2).fingerprint(), Encoding.unit(3).fingerprint()}) == 2
    cut = [Schema((Column("age", "ordinal", edges=(at,), categories=("young", "old")),)) for at in (30, 60)]
    assert Encoding(cut[0]).fingerprint() != Encoding(cut[1]).fingerprint(), "names do not tell where ages are cut"


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (Column("a", "numeric"), "has no bounds"),
        (Column("a", "categorical"), "has no categories"),
        (Column("a", "ordinal"), "no categories.*in their order"),
        (Column("a", "numeric", role="identifier"), "no private column"),
    ],
)
def test_an_encoding_needs_a_complete_schema(column, words):
    with pytest.raises(SchemaError, match=words):
        Encoding(Schema((column,)))


def test_blocks_encode_like_the_whole_and_at_speed():
    """About memory speed: a block of plain doubles takes at most a few times what copying it does."""
    d = 40
    rng = np.random.default_rng(0)
    columns = [rng.random(50_000) for _ in range(d)]
    table = pa.table({f"c{j:03d}": columns[j] for j in range(d)})
    encoding = Encoding.unit(d)
    X = encoding.encode(table).X
    assert_array_equal(X, np.stack(columns, axis=1))
    blocks = [encoding.encode(block).X for block in open_table(table).blocks(7_001)]
    assert_array_equal(np.concatenate(blocks), X)

    def fastest(work) -> float:
        times = []
        for _ in range(5):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return min(times)

    ours, bare = fastest(lambda: encoding.encode(table, out=X)), fastest(lambda: np.stack(columns, axis=1, out=X))
    assert ours < 6 * bare + 0.01, (ours, bare)


def test_missing_cells_do_not_count_as_clipped():
    encoding = Encoding(Schema((Column("a", "numeric", low=10, high=20, missing=True),)))
    X, clipped, *_ = encoding.encode(pa.table({"a": [None, 15.0, np.nan, 30.0]}))
    assert clipped == {"a": 1}
    assert_allclose(X, [[0.5, 1], [0.5, 0], [0.5, 1], [1, 0]])
