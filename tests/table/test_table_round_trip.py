"""Property: whatever a table within its bounds holds comes back from its encoding."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.table import Column, Encoding, Schema

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=6).map(
    lambda w: "w" + w
)
dates = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))


@st.composite
def columns_with_cells(draw: st.DrawFn, name: str, rows: int) -> tuple[Column, list[object]]:
    kind = draw(st.sampled_from(["numeric", "integer", "ordinal", "categorical", "date"]))
    missing = draw(st.booleans())
    low: object = None
    high: object = None
    categories: tuple[str, ...] | None = None
    cell: st.SearchStrategy[object]
    if kind == "numeric":
        low, high = sorted(draw(st.tuples(*[st.floats(-1e9, 1e9, allow_subnormal=False)] * 2)))
        cell = st.floats(low, high, allow_subnormal=False)
    elif kind == "integer":
        low, high = sorted(draw(st.tuples(*[st.integers(-(2**40), 2**40)] * 2)))
        cell = st.integers(low, high)
    elif kind == "date":
        first, last = sorted(draw(st.tuples(dates, dates)))
        low, high = first.isoformat(), last.isoformat()
        cell = st.dates(first, last)
    else:
        categories = tuple(draw(st.lists(words, min_size=1, max_size=5, unique=True)))
        cell = st.sampled_from(categories)
    cells = draw(st.lists(st.none() | cell if missing else cell, min_size=rows, max_size=rows))
    return Column(name, kind, low=low, high=high, categories=categories, missing=missing), cells  # type: ignore[arg-type]


ARROW = {"numeric": pa.float64(), "integer": pa.int64(), "date": pa.date32()}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, pa.Table]:
    rows = draw(st.integers(0, 8))
    drawn = [draw(columns_with_cells(f"c{j}", rows)) for j in range(draw(st.integers(1, 4)))]
    arrays = [pa.array(cells, ARROW.get(column.kind, pa.string())) for column, cells in drawn]
    schema = Schema(tuple(column for column, _ in drawn))
    return schema, pa.Table.from_arrays(arrays, names=list(schema.names))


def assert_same(one: pa.Table, other: pa.Table, schema: Schema) -> None:
    for column in schema.private:
        left, right = one[column.name].to_pylist(), other[column.name].to_pylist()
        if column.kind != "numeric":
            assert left == right
            continue
        low, high = column.bounds
        assert [v is None for v in left] == [v is None for v in right]
        for a, b in zip(left, right, strict=True):
            assert a is None or abs(a - b) <= 1e-14 * max(abs(low), abs(high), high - low)


@settings(max_examples=150, deadline=None)
@given(tables())
def test_decode_inverts_encode(drawn):
    schema, table = drawn
    encoding = Encoding(Schema.from_dict(schema.to_dict()))
    X, clipped, *_ = encoding.encode(table)
    assert clipped == {}
    assert X.shape == (table.num_rows, encoding.width)
    assert ((X >= 0) & (X <= 1)).all()
    assert_same(encoding.decode(X, like_original=True), table, schema)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_every_encoded_cell_lies_within_its_vertices(drawn):
    """Convex combinations: one-hot rows and missing cells are vertices, numbers lie between two."""
    schema, table = drawn
    encoding = Encoding(schema)
    X = encoding.encode(table).X
    for group in encoding.groups:
        part = X[:, group.slice]
        at_vertex = (part[:, None, :] == group.vertices[None]).all(axis=2).any(axis=1)
        if group.is_onehot:
            assert at_vertex.all()
        else:
            between = (part[:, 1:] == 0).all(axis=1)
            assert (at_vertex | between).all()


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(0, 10**6))
def test_anything_decodes_to_the_kinds_of_the_source(drawn, seed):
    schema, table = drawn
    encoding = Encoding(schema)
    X = np.random.default_rng(seed).laplace(0, 10, (table.num_rows, encoding.width))
    found = encoding.decode(X, like_original=True)
    again, clipped, *_ = encoding.encode(found)
    assert clipped == {}
    assert_same(encoding.decode(again, like_original=True), found, schema)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_an_inferred_schema_fits_its_own_table(drawn):
    _, table = drawn
    usable = [name for name in table.column_names if table[name].null_count < table.num_rows]
    if table.num_rows < 2 or not usable:
        return
    table = table.select(usable)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoding = Encoding(Schema.infer(table))
    encoded = encoding.encode(table, out_of_bounds="refuse")
    assert_same(encoding.decode(encoded.X, like_original=True), table, encoding.schema)
