"""A table in parts goes through every engine, and mistakes with folders are caught before anything is written."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.core.errors import OutputError, TableError
from sfumato.core.files import sole_writer
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema, open_table

SCHEMA = Schema(tuple(Column(name, "numeric", low=0.0, high=1.0, source="public", reason="shares") for name in "ab"))


@pytest.fixture
def folder(tmp_path):
    """Ninety rows in three parts."""
    rng = np.random.default_rng(3)
    (tmp_path / "in").mkdir()
    for i in range(3):
        pq.write_table(pa.table({"a": rng.random(30), "b": rng.random(30)}), tmp_path / "in" / f"p{i}.parquet")
    return tmp_path / "in"


def options(**words):
    return Options(mechanism="additive-noise", parameters={"epsilon_record": 4.0}, schema=SCHEMA, **words)


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_parts_make_the_release_of_the_whole_table(folder, tmp_path, engine):
    whole = tmp_path / "whole.parquet"
    pq.write_table(open_table(folder).read(), whole)
    rows = []
    for name, table in (("parts", folder), ("whole", whole)):
        sanitize(table, tmp_path / name, options(engine=engine, seed=1))
        rows.append(pq.read_table(tmp_path / name / "release.parquet"))
    assert rows[0].num_rows == 90
    assert rows[0].replace_schema_metadata().equals(rows[1].replace_schema_metadata())


def test_the_release_may_not_lie_in_its_input_nor_replace_it(folder, tmp_path):
    with pytest.raises(OutputError, match="lies inside"):
        sanitize(folder, folder / "release", options())
    sanitize(folder, tmp_path / "release", options())
    with pytest.raises(OutputError, match="holds the table itself"):
        sanitize(tmp_path / "release" / "release.parquet", tmp_path / "release", options(force=True))
    assert (tmp_path / "release" / "release.parquet").exists()


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_a_cell_that_does_not_fit_is_found_in_its_file(folder, tmp_path, engine):
    pq.write_table(pa.table({"a": pa.array([], pa.float64()), "b": pa.array([], pa.float64())}), folder / "p0z.parquet")
    pq.write_table(pa.table({"a": [0.5] * 4, "b": [0.5, 0.5, None, 0.5]}), folder / "p1.parquet")
    with pytest.raises(TableError, match=r"'b' is empty in row 33.*It is row 3 of .*p1\.parquet"):
        sanitize(folder, tmp_path / "out", options(engine=engine))


def test_a_second_run_into_the_same_folder_is_refused(folder, tmp_path):
    out = tmp_path / "out"
    with sole_writer(out), pytest.raises(OutputError, match="Another run is writing to"):
        sanitize(folder, out, options())
    sanitize(folder, out, options())
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_part_that_changes_under_way_leaves_nothing(folder, tmp_path):
    def meddle(step, done, total):
        if step == "Reading" and done == total:
            times = (folder / "p1.parquet").stat()
            pq.write_table(pq.read_table(folder / "p1.parquet").select(["b", "a"]), folder / "p1.parquet")
            os.utime(folder / "p1.parquet", ns=(times.st_atime_ns, times.st_mtime_ns))

    with pytest.raises(TableError, match=r"p1\.parquet changed"):
        sanitize(folder, tmp_path / "out", options(engine="stream"), meddle)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
