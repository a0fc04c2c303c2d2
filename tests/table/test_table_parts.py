"""Tables in parts: folders, globs, lists and hive partitions are one table, and parts that do not fit are refused."""

from __future__ import annotations

import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.core.errors import TableError
from sfumato.table import open_table

ROWS = 90
CONTENT = pa.table({"a": list(range(ROWS)), "b": [i / 8 for i in range(ROWS)], "c": [f"w{i % 3}" for i in range(ROWS)]})


def write(path, table):
    """A part, as its ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".parquet"):
        pq.write_table(table, path)
        return path
    text = table.to_pandas().to_csv(index=False).encode()
    if path.name.endswith(".gz"):
        text = gzip.compress(text)
    if path.name.endswith(".zst"):
        text = pa.compress(text, "zstd", asbytes=True)
    path.write_bytes(text)
    return path


@pytest.fixture(params=["csv", "csv.gz", "csv.zst", "parquet"])
def folder(request, tmp_path):
    """The table in three parts."""
    for i in range(3):
        write(tmp_path / "in" / f"p{i}.{request.param}", CONTENT.slice(30 * i, 30))
    return tmp_path / "in"


def test_a_folder_a_glob_and_a_list_are_the_same_table(folder):
    (folder / "_SUCCESS").touch()
    (folder / ".p0.crc").write_text("x")
    for given in (folder, str(folder), str(folder / "p*"), sorted(folder.glob("p*")), [str(folder / "*.*")]):
        table = open_table(given)
        assert table.read().equals(CONTENT), given
        assert [block.num_rows for block in table.blocks(40)] == [40, 40, 10]


def test_columns_in_another_order_and_some_of_them(tmp_path):
    write(tmp_path / "p0.parquet", CONTENT.slice(0, 30))
    write(tmp_path / "p1.parquet", CONTENT.slice(30).select(["c", "a", "b"]))
    assert open_table(tmp_path).read().equals(CONTENT)
    assert open_table(tmp_path, columns=["b"]).read().equals(CONTENT.select(["b"]))


def test_hive_partitions_become_columns(tmp_path):
    write(tmp_path / "year=2023" / "site=a%2Fb" / "p.parquet", CONTENT.slice(0, 30))
    write(tmp_path / "year=2024" / "site=__HIVE_DEFAULT_PARTITION__" / "p.parquet", CONTENT.slice(30))
    for given in (tmp_path, str(tmp_path / "year=*" / "**" / "*.parquet"), sorted(tmp_path.glob("**/*.parquet"))):
        table = open_table(given)
        assert table.names == ("a", "b", "c", "year", "site")
        assert table.read()["year"].to_pylist() == [2023] * 30 + [2024] * 60
        assert table.read()["site"].to_pylist() == ["a/b"] * 30 + [None] * 60
        assert table.rows == 90


def test_codes_in_paths_keep_their_zeros(tmp_path):
    write(tmp_path / "zip=01234" / "p.csv", CONTENT)
    write(tmp_path / "zip=99999" / "p.csv", CONTENT)
    assert set(open_table(tmp_path).read()["zip"].to_pylist()) == {"01234", "99999"}


def test_empty_parts_count_for_nothing_unless_they_have_no_header(tmp_path):
    write(tmp_path / "p0.csv", CONTENT)
    (tmp_path / "p1.csv").write_text("a,b,c\n")
    assert open_table(tmp_path).read().equals(CONTENT)
    (tmp_path / "p2.csv").touch()
    with pytest.raises(TableError, match=r"p2\.csv is empty: it has no header row"):
        open_table(tmp_path)
    write(tmp_path / "q" / "p0.parquet", CONTENT.slice(0, 0))
    write(tmp_path / "q" / "p1.parquet", CONTENT)
    assert open_table(tmp_path / "q").read().equals(CONTENT)


def test_csv_parts_share_the_widest_type(tmp_path):
    (tmp_path / "p0.csv").write_text("code,n\n12,1\n")
    (tmp_path / "p1.csv").write_text("code,n\n012,1.5\n")
    assert open_table(tmp_path).read().to_pydict() == {"code": ["12", "012"], "n": [1.0, 1.5]}


def test_whole_numbers_may_become_wider(tmp_path):
    write(tmp_path / "p0.parquet", pa.table({"n": pa.array([1], pa.int32())}))
    write(tmp_path / "p1.parquet", pa.table({"n": pa.array([2**40], pa.int64())}))
    write(tmp_path / "p2.parquet", pa.table({"n": pa.array([None], pa.null())}))
    assert open_table(tmp_path).read()["n"].to_pylist() == [1, 2**40, None]


def test_a_column_that_changes_its_type_is_named_with_both_files(tmp_path):
    write(tmp_path / "p0.parquet", CONTENT)
    write(tmp_path / "p1.parquet", CONTENT.set_column(1, "b", pa.array(["secret"] * ROWS)))
    with pytest.raises(TableError, match=r"'b' changes its type: it is double in .*p0.* and string in .*p1") as raised:
        open_table(tmp_path).read()
    assert "secret" not in str(raised.value)


def test_other_columns_mixed_kinds_and_a_part_named_twice(tmp_path):
    write(tmp_path / "p0.parquet", CONTENT)
    write(tmp_path / "p1.parquet", CONTENT.drop_columns(["b"]))
    with pytest.raises(TableError, match=r"p1\.parquet has different columns from .*p0\.parquet: it has no column 'b'"):
        open_table(tmp_path)
    with pytest.raises(TableError, match="named 2 times"):
        open_table([tmp_path / "p0.parquet", tmp_path / "p0.parquet"])
    with pytest.raises(TableError, match="No file matches"):
        open_table(str(tmp_path / "*.csv"))
    write(tmp_path / "p2.csv", CONTENT)
    with pytest.raises(TableError, match="several kinds"):
        open_table(tmp_path)


def test_a_part_that_vanishes_or_changes_is_noticed(folder):
    table = open_table(folder)
    last = max(folder.glob("p*"))
    assert table.read().num_rows == ROWS
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(TableError, match=f"{last.name} vanished"):
        table.read()
    last.write_bytes(content)
    os.utime(last, ns=(1, 1))
    with pytest.raises(TableError, match=f"{last.name} changed"):
        table.read()


def test_a_truncated_part_is_refused(folder):
    last = max(folder.glob("p*"))
    if last.suffix == ".csv":
        last.write_bytes(last.read_bytes()[:-8])  # in the middle of a line
    else:
        last.write_bytes(last.read_bytes()[:-20])
    with pytest.raises(TableError, match=last.name):
        open_table(folder).read()


def test_a_partition_that_the_file_states_as_well(tmp_path):
    write(tmp_path / "a=1" / "p.parquet", CONTENT)
    with pytest.raises(TableError, match="states one as well"):
        open_table(tmp_path)
