"""Numbers that are cut at a schema's edges are categories to everything that follows."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.core.errors import SchemaError, TableError
from sfumato.table import Column, Encoding, Schema

KNOWN = {"source": "public", "reason": "an earlier census"}
AGE = Column("age", "categorical", edges=(30, 60), **KNOWN)


def test_intervals_are_the_categories_and_survive_the_file():
    assert AGE.categories == ("below 30", "30 to 60", "60 or more")
    assert Column.from_dict(AGE.to_dict()) == AGE
    named = Column("age", "ordinal", edges=[30, 60], categories=("young", "middle", "old"))
    assert Column.from_dict(named.to_dict()) == named


@pytest.mark.parametrize("cells", [[29, 30, 60, 59], ["29", "30", "60", "59.9"], [29.9, 30.0, 1e9, 59.9]])
def test_numbers_are_cut_and_an_edge_belongs_to_the_upper_interval(cells):
    X = Encoding(Schema((AGE,))).encode(pa.table({"age": cells})).X
    assert X.argmax(axis=1).tolist() == [0, 1, 2, 1]
    assert (X.sum(axis=1) == 1).all()


def test_a_table_that_was_cut_before_is_read_as_it_is():
    encoding = Encoding(Schema((AGE,)))
    X = np.eye(3)
    table = encoding.decode(X)
    assert table["age"].to_pylist() == list(AGE.categories)
    assert encoding.encode(table).X.tolist() == X.tolist()


def test_an_ordinal_is_the_rank_of_its_interval():
    encoding = Encoding(Schema((Column("age", "ordinal", edges=(30, 60), **KNOWN),)))
    assert encoding.encode(pa.table({"age": [10, 40, 70]})).X.ravel().tolist() == [0, 0.5, 1]


def test_empty_cells_are_missing_or_refused():
    cells = pa.table({"age": [10.0, None, float("nan")]})
    with pytest.raises(TableError, match="row 2"):
        Encoding(Schema((AGE,))).encode(cells)
    missing = Column("age", "categorical", edges=(30, 60), missing=True, **KNOWN)
    assert Encoding(Schema((missing,))).encode(cells).X.argmax(axis=1).tolist() == [0, 3, 3]


def test_mistakes_are_named():
    for words, change in (
        ("kind: categorical", {"kind": "numeric"}),
        ("must increase", {"edges": (2, 1)}),
        ("must be numbers", {"edges": ("a",)}),
        ("a list of numbers", {"edges": ()}),
        ("needs 3 categories", {"categories": ("a", "b")}),
    ):
        with pytest.raises(SchemaError, match=words):
            Column(**{"name": "age", "kind": "categorical", "edges": (1, 2), **change})
    with pytest.raises(TableError, match="does not list"):
        Encoding(Schema((AGE,))).encode(pa.table({"age": ["forty"]}))
    with pytest.raises(SchemaError, match="must hold numbers"):
        Encoding(Schema((AGE,))).encode(pa.table({"age": [True]}))
