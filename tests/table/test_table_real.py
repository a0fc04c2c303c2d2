"""Real mixed tables, end to end: learn, encode, decode."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from sfumato.table import Encoding, IdentifierWarning, Schema, open_table

SHAPES = {
    "credit_g": (1000, 61),
    "credit_a_crx": (690, 53),
    "votes": (435, 48),
    "hepatitis": (155, 34),
    "breast_cancer_libsvm": (683, 10),
    "pima": (768, 8),
    "wine": (178, 13),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("form", ["csv", "pandas"])
def test_there_and_back(data_folder, name, form):
    source = data_folder / f"{name}.csv"
    if form == "pandas":
        import pandas as pd

        source = pd.read_csv(source, keep_default_na=False, na_values=[""])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = Schema.infer(source, "label")
    encoding = Encoding(schema)
    table = open_table(source).read()
    X, clipped, *_ = encoding.encode(table, out_of_bounds="refuse")
    assert X.shape == SHAPES[name]
    assert clipped == {}
    back = encoding.decode(X, like_original=True)
    for column in schema.private:
        original, found = table[column.name].to_pylist(), back[column.name].to_pylist()
        if column.kind == "numeric":
            as_numbers = [np.array([np.nan if v is None else v for v in cells]) for cells in (original, found)]
            np.testing.assert_allclose(*as_numbers, rtol=1e-12, atol=1e-12)
        else:
            assert original == found, column.name
    labels = encoding.decode_label(encoding.encode_label(table))
    assert labels.to_pylist() == table["label"].to_pylist()


def test_the_sample_number_of_a_patient_is_named(data_folder):
    with pytest.warns(IdentifierWarning, match="sample_code_number") as caught:
        Schema.infer(data_folder / "breast_cancer_libsvm.csv", "label")
    message = str(next(w.message for w in caught if w.category is IdentifierWarning))
    assert message.count("Column ") == 1


@pytest.mark.parametrize("name", ["credit_g", "hepatitis", "wine", "pima"])
def test_nothing_else_is_called_an_identifier(data_folder, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", IdentifierWarning)
        Schema.infer(data_folder / f"{name}.csv", "label")


def test_yes_and_no_are_categories_and_empty_cells_one_more(data_folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = Schema.infer(data_folder / "votes.csv", "label")
    assert {c.categories for c in schema.private} == {("n", "y")}
    assert all(c.missing for c in schema.private)
