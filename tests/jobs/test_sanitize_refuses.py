"""Bad tables and options: a clear error, nothing written, and not one cell in any message."""

import errno
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.core import files
from sfumato.core.errors import OutputError, SchemaError, SfumatoError, TableError, UsageError
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, ConstantWarning, Schema

PUBLIC = {"source": "public", "reason": "known from the form"}
MARK, NUMBER = "Quetzalcoatl", 98765.4321


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"age": rng.integers(18, 90, 60), "height": rng.normal(170, 9, 60).round(1), "ill": ["no", "yes"] * 30}
    )


@pytest.fixture
def schema():
    return Schema(
        (
            Column("age", "integer", low=0, high=120, **PUBLIC),
            Column("height", "numeric", low=100, high=250, **PUBLIC),
            Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
        )
    )


@pytest.fixture
def refused(tmp_path, capfd):
    """Sanitize must fail with this error, leave nothing behind, and tell no cell to anybody."""

    def check(error, match, table, **words):
        with (
            warnings.catch_warnings(record=True, action="always") as warned,
            pytest.raises(error, match=match) as caught,
        ):
            sanitize(table, tmp_path / "out", Options(**{"mechanism": "additive-noise", **words}))
        heard = capfd.readouterr()
        told = " ".join([str(caught.value), heard.out, heard.err, *(str(warning.message) for warning in warned)])
        for secret in (MARK, "98765", "9.8765"):
            assert secret not in told
        assert "Traceback" not in told
        assert not (tmp_path / "out").exists()
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
        assert isinstance(caught.value, SfumatoError)
        assert caught.value.exit_code > 1

    return check


def marked(people, column, value, row=7):
    table = people.astype({column: object})
    if value == MARK and column != "ill":
        table[column] = table[column].astype(str)
    table.loc[row, column] = value
    return table


def test_cells_that_do_not_fit_the_schema(people, schema, refused):
    for value in (MARK, np.inf, np.nan, None):
        refused(TableError, "'height'.*row 8", marked(people, "height", value), schema=schema)
    refused(TableError, "'age'", marked(people, "age", MARK), schema=schema)
    refused(TableError, "'ill'.*row 8", marked(people, "ill", MARK), schema=schema)
    refused(TableError, "column to predict 'ill' is missing in row 8", marked(people, "ill", None), schema=schema)


def test_cells_of_mixed_types(people, schema, refused):
    mixed = people.astype({"height": object})
    mixed.loc[7, "height"] = MARK
    refused(TableError, "'height'.*mixes incompatible types", mixed, schema=schema)
    refused(TableError, "'height'.*mixes incompatible types", mixed)


def test_values_outside_the_bounds_are_refused_or_clipped_as_the_user_chooses(people, schema, refused, tmp_path):
    far = marked(people, "height", NUMBER)
    refused(TableError, "'height' in 1 row", far, schema=schema, out_of_bounds="refuse")
    done = sanitize(far, tmp_path / "clipped", Options(mechanism="additive-noise", schema=schema, out_of_bounds="clip"))
    assert done.clipped == {"height": 1}
    for file in (tmp_path / "clipped").iterdir():
        assert b"98765" not in file.read_bytes()
    refused(UsageError, "must be clip or refuse. Got 'ignore'", people, schema=schema, out_of_bounds="ignore")


def test_cells_that_do_not_fit_an_inferred_schema(people, refused):
    refused(SfumatoError, "'height'.*row 8", marked(people, "height", MARK))
    refused(SfumatoError, "'height'", marked(people, "height", np.inf))
    refused(SfumatoError, "'ill'", marked(people, "ill", None), label="ill")


def test_files_that_hold_marks(people, refused, tmp_path):
    """Readers of other libraries like to quote what they could not read."""
    folder = tmp_path / "in"
    folder.mkdir()
    text = marked(people, "height", MARK).to_csv(index=False)
    (folder / "text.csv").write_text(text)
    refused(TableError, "height", folder / "text.csv")
    (folder / "ragged.csv").write_text(people.to_csv(index=False) + f"1,2,no,{MARK}\n")
    refused(TableError, "", folder / "ragged.csv")
    (folder / "latin.csv").write_bytes(people.to_csv(index=False).encode() + f"1,{MARK}\xe9,no\n".encode("latin-1"))
    refused(TableError, "", folder / "latin.csv")


@pytest.mark.parametrize("size", [0, 3, 0.5, 0.98])
def test_truncated_and_unreadable_parquet(people, refused, tmp_path, size):
    path = tmp_path / "cut.parquet"
    pq.write_table(pa.Table.from_pandas(marked(people, "ill", MARK)), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(size * len(whole)) if isinstance(size, float) else size])
    refused(TableError, "cut.parquet", path)


def test_tables_that_are_none(people, schema, refused, tmp_path):
    refused(TableError, "nowhere.csv", tmp_path / "nowhere.csv")
    refused(TableError, "no rows", people[:0])
    refused(TableError, "only one row", people[:1])
    for rows, words in ((0, "has 0 rows"), (1, "has 1 row;")):
        refused(TableError, words, people[:rows], schema=schema)
    refused(SfumatoError, "'empty'", people.assign(empty=np.nan))
    twice = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["age", "age"])
    refused(TableError, "age", twice)
    refused(SchemaError, "no column 'height'", people.drop(columns="height"), schema=schema)


def test_labels_that_are_none(people, schema, refused):
    refused(SchemaError, "no column 'disease'", people, label="disease")
    refused(SchemaError, "no column 'disease'", people, label="disease", schema=schema)
    refused(SchemaError, "the column to predict is not 'age'", people, label="age", schema=schema)
    refused(SchemaError, "only one class.* names every class that can", people.assign(ill=MARK), label="ill")
    refused(UsageError, "--private-label needs a column to predict", people.drop(columns="ill"), private_label=True)
    refused(UsageError, "--label-epsilon must be positive", people, label="ill", private_label=True, label_epsilon=0)


@pytest.mark.parametrize(
    ("error", "match", "words"),
    [
        (UsageError, "no method 'magic'. Choose one of", {"mechanism": "magic"}),
        (UsageError, "has no parameter 'bb'. It has: b,", {"mechanism": "principal-laplace", "parameters": {"bb": 1}}),
        (UsageError, "'b' parameter", {"mechanism": "principal-laplace", "parameters": {"b": 0}}),
        (UsageError, "'b' parameter", {"mechanism": "principal-laplace", "parameters": {"b": -1}}),
        (UsageError, "'components' parameter", {"mechanism": "principal-laplace", "parameters": {"components": 3}}),
        (UsageError, "'components' parameter", {"mechanism": "random-projection", "parameters": {"components": 3}}),
        (UsageError, "'scale' parameter", {"parameters": {"scale": -0.1}}),
        (UsageError, "'law' parameter", {"parameters": {"law": "magic"}}),
        (SchemaError, "works on categories only", {"mechanism": "randomized-response"}),
        (UsageError, "--engine must be memory, stream or spark. Got 'cloud'", {"engine": "cloud"}),
        (UsageError, "--format must be parquet, .* or ods. Got 'pdf'", {"format": "pdf"}),
        (UsageError, "--max-rows-per-person must be at least 1", {"max_rows_per_person": 0}),
        (UsageError, "--max-rows-per-person needs a column", {"max_rows_per_person": 2}),
        (UsageError, "'seed' parameter", {"seed": -1}),
    ],
    ids=str,
)
def test_options_that_are_none(people, schema, refused, error, match, words):
    refused(error, match, people, schema=schema, **words)


def test_nothing_private_to_release(people, schema, refused):
    nothing = Schema(tuple(c if c.role == "label" else replace(c, role="identifier") for c in schema.columns))
    refused(SchemaError, "no private column|nothing to release", people, schema=nothing)


def test_a_constant_column_is_told_and_released(people, tmp_path):
    with pytest.warns(ConstantWarning, match="flat"):
        done = sanitize(people.assign(flat=3.5), tmp_path / "out", Options(mechanism="additive-noise", label="ill"))
    assert set(pd.read_parquet(tmp_path / "out" / "release.parquet")["flat"]) == {3.5}
    assert done.card.made_by().of_columns()[2][0].is_exact


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_a_full_disk(people, schema, refused, monkeypatch, engine):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    refused(OutputError, "is full. Nothing was written", people, schema=schema, engine=engine)


def test_an_interruption_leaves_nothing(people, schema, tmp_path):
    def interrupt(step, _done, _total):
        if step == "Perturbing":
            raise KeyboardInterrupt

    for engine in ("memory", "stream"):
        with pytest.raises(KeyboardInterrupt):
            sanitize(
                people, tmp_path / "out", Options(mechanism="additive-noise", schema=schema, engine=engine), interrupt
            )
        assert list(tmp_path.iterdir()) == []
    done = sanitize(people, tmp_path / "out", Options(mechanism="additive-noise", schema=schema))
    assert done.card.earlier_releases["count"] == 0
