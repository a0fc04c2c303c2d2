"""Writing: what was given comes back, whole or not at all, and nothing else travels."""

from __future__ import annotations

import os
import stat
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.core.errors import OutputError
from sfumato.table import open_table, table_writer, write_table
from sfumato.table import writers as csv_writer


@pytest.fixture
def table() -> pa.Table:
    numbers = np.random.default_rng(0).normal(size=1000)
    return pa.table({"a": numbers, "b": list(range(1000)), "c": ['x,\n"y"', "z"] * 500})


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "arrow"])
@pytest.mark.parametrize("form", ["table", "blocks"])
def test_round_trip(table, tmp_path, ending, form):
    path = tmp_path / f"t.{ending}"
    blocks = iter(table.to_batches(max_chunksize=300))
    rows = write_table(table if form == "table" else blocks, path)
    assert rows == 1000
    assert open_table(path).read().to_pydict() == table.to_pydict()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.fixture(params=["polars", "arrow"])
def csv_by(request, monkeypatch):
    """The CSV writer: the extra where it is installed, and what a plain install has."""
    if request.param == "polars":
        pytest.importorskip("polars")
    else:
        monkeypatch.setitem(sys.modules, "polars", None)  # importing it fails
    monkeypatch.setattr(csv_writer, "has_polars", lambda: request.param == "polars")


ODD = pa.table(
    {
        "float": [0.1 + 0.2, -0.0, 1e16, 1.5e-300, None, np.pi],
        "whole": [1.0, -2.0, 3.0, 1e22, None, 5.0],  # read as integers if the point were lost
        "single": pa.array([0.1, 1e10, None, 3.0, -2.5, 1e-7], pa.float32()),
        "integer": [1, -2, None, 4, 2**62, 6],
        "text": ["plain", 'a "quoted" word', "com,ma", "line\nbreak", None, " tab\t and space "],
        "factor": pa.array(["u", "v,w", None] * 2).dictionary_encode(),
        'odd "name", with a comma': ["ü", "é", "漢", "\r", "'", "#"],
    }
)


@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.usefixtures("csv_by")
def test_both_csv_writers_keep_every_cell_and_its_type(tmp_path, ending):
    rows = write_table(iter(ODD.to_batches(max_chunksize=4)), tmp_path / f"t.{ending}")
    assert rows == ODD.num_rows
    back = open_table(tmp_path / f"t.{ending}").read()
    assert back.column_names == ODD.column_names
    for name in ODD.column_names:
        wanted = ODD[name].cast(pa.string()) if pa.types.is_dictionary(ODD[name].type) else ODD[name]
        assert back[name].type == (pa.float64() if wanted.type == pa.float32() else wanted.type), name
        assert back[name].cast(wanted.type).to_pylist() == wanted.to_pylist(), name


@pytest.mark.usefixtures("csv_by")
def test_both_csv_writers_print_the_same_bytes(tmp_path):
    """Where the two print alike; they differ in how they write very large and very small floats."""
    when = pa.array([datetime(2020, 1, 2, 3, 4, 5), None], pa.timestamp("us"))
    table = pa.table({"a": [1.0, 0.25], "b": [None, 7], "c": ["", 'x,"y"'], "d": when, "e": [True, None]})
    write_table(table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == (
        'a,b,c,d,e\n1.0,,"",2020-01-02T03:04:05.000000,true\n0.25,7,"x,""y""",,\n'
    )
    write_table(table.slice(0, 0), tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text() == "a,b,c,d,e\n"


def test_metadata_of_the_source_stays_behind_and_ours_is_there(tmp_path):
    frame = pa.Table.from_pandas(pd.DataFrame({"a": [1.5, 2.5]}, index=["Anna", "Bert"]))
    assert b"pandas" in frame.schema.metadata
    write_table(frame, tmp_path / "t.parquet", metadata={"card": '{"x": 1}'})
    meta = pq.read_metadata(tmp_path / "t.parquet").metadata
    assert meta[b"card"] == b'{"x": 1}'
    assert b"pandas" not in meta
    assert pq.read_schema(tmp_path / "t.parquet").metadata == {b"card": b'{"x": 1}'}
    write_table(frame.select(["a"]), tmp_path / "t.arrow", metadata={"card": "1"})
    assert pa.ipc.open_file(tmp_path / "t.arrow").schema.metadata == {b"card": b"1"}


def test_floats_are_plain_in_parquet(table, tmp_path):
    write_table(table, tmp_path / "t.parquet")
    column = pq.read_metadata(tmp_path / "t.parquet").row_group(0).column(0)
    assert column.compression == "UNCOMPRESSED"
    assert not column.has_dictionary_page


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_private_files(table, tmp_path):
    write_table(table, tmp_path / "t.parquet", private=True)
    assert stat.S_IMODE((tmp_path / "t.parquet").stat().st_mode) == 0o600


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_write_leaves_the_old_file(table, tmp_path, ending, interruption):
    path = tmp_path / f"t.{ending}"
    path.write_text("old")

    def blocks():
        yield table.to_batches()[0]
        raise interruption

    with pytest.raises(interruption):
        write_table(blocks(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_a_full_disk(table, tmp_path, ending, monkeypatch):
    opened, native = os.open, pa.OSFile
    monkeypatch.setattr(pa, "OSFile", lambda _path, mode: native("/dev/full", mode))

    def full(path, *flags):
        if not str(path).startswith(str(tmp_path)):
            return opened(path, *flags)
        os.close(opened(path, *flags))
        return opened("/dev/full", os.O_WRONLY)

    monkeypatch.setattr("os.open", full)
    with pytest.raises(OutputError, match="full"):
        write_table(table, tmp_path / f"t.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_wrong_places(table, tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        write_table(table, tmp_path / "t.numbers")
    with pytest.raises(OutputError, match="cannot be written"):
        write_table(table, tmp_path / "none" / "t.csv")
    with pytest.raises(OutputError, match="without blocks"):
        write_table(iter(()), tmp_path / "t.csv")


def test_a_table_without_rows_keeps_its_header(table, tmp_path):
    for ending in ("csv", "parquet"):
        with table_writer(tmp_path / f"t.{ending}", table.schema):
            pass
    assert (tmp_path / "t.csv").read_text() == "a,b,c\n"
    assert open_table(tmp_path / "t.parquet").rows == 0


def test_block_by_block(table, tmp_path):
    with table_writer(tmp_path / "t.parquet", table.schema) as write:
        write(table.slice(0, 500))
        write(table.slice(500).to_batches()[0])
    assert open_table(tmp_path / "t.parquet").read().equals(table)
