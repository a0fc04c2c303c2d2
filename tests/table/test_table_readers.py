"""Tables from anywhere: the same blocks, no metadata, and clear errors."""

from __future__ import annotations

import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.core.errors import TableError
from sfumato.table import SqlQuery, open_table

CONTENT = {"a": list(range(1000)), "b": [i / 8 for i in range(1000)], "c": [f"w{i % 3}" for i in range(1000)]}


class Frame(pd.DataFrame):
    """A frame of a library that builds on pandas."""


class Speaks:
    """A frame of a library that we have never heard of, known by what it can do."""

    def __init__(self, **abilities):
        self.__dict__.update(abilities)


@pytest.fixture
def table() -> pa.Table:
    return pa.table(CONTENT)


@pytest.fixture(
    params=[
        "csv",
        "csv.gz",
        "tsv",
        "parquet",
        "arrow",
        "stream",
        "folder",
        "pandas",
        "polars",
        "lazy",
        "subclass",
        "stream capsule",
        "to_arrow",
        "dict",
        "batch",
        "reader",
        "sql",
    ]
)
def source(request, table, tmp_path):
    """The same table in every form."""
    kind = request.param
    frame = table.to_pandas()
    if kind in ("csv", "csv.gz", "tsv"):
        frame.to_csv(tmp_path / f"t.{kind}", index=False, sep="\t" if kind == "tsv" else ",")
        return tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(
            pa.Table.from_pandas(frame.set_index("a", drop=False)), tmp_path / "t.parquet", row_group_size=300
        )
        return open_table(tmp_path / "t.parquet", columns=["a", "b", "c"])
    if kind == "folder":
        (tmp_path / "t").mkdir()
        for i in range(4):
            pq.write_table(table.slice(250 * i, 250), tmp_path / "t" / f"{i}.parquet")
        return str(tmp_path / "t")
    if kind in ("arrow", "stream"):
        with (pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream)(
            str(tmp_path / "t.arrow"), table.schema
        ) as writer:
            writer.write_table(table, max_chunksize=170)
        return tmp_path / "t.arrow"
    if kind == "sql":
        url = f"sqlite:///{tmp_path / 't.db'}"
        frame.to_sql("t", url, index=False)
        return SqlQuery(url, "select * from t order by a")
    return {
        "pandas": lambda: frame.set_index(pd.Index(range(5, 1005), name="index")),
        "polars": lambda: pl.DataFrame(CONTENT),
        "lazy": lambda: pl.DataFrame(CONTENT).lazy(),
        "subclass": lambda: Frame(CONTENT),
        "stream capsule": lambda: Speaks(__arrow_c_stream__=table.__arrow_c_stream__),
        "to_arrow": lambda: Speaks(to_arrow=lambda: table),
        "dict": lambda: CONTENT,
        "batch": lambda: table.to_batches()[0],
        "reader": lambda: table.to_reader(),
    }[kind]()


def test_every_source_gives_the_same_blocks_again_and_again(source):
    opened = open_table(source)
    assert opened.names == ("a", "b", "c")
    assert opened.rows in (None, 1000)
    assert not opened.arrow_schema.metadata
    for _ in range(2):
        blocks = list(opened.blocks(rows=128))
        assert [b.num_rows for b in blocks] == [128] * 7 + [104]
        assert pa.Table.from_batches(blocks).to_pydict() == CONTENT
        assert all(not b.schema.metadata for b in blocks)
    assert opened.read().to_pydict() == CONTENT


def test_columns_can_be_chosen(source):
    opened = open_table(source)
    chosen = open_table(opened, columns=["c", "a"])
    assert chosen.names == ("c", "a")
    assert next(iter(chosen.blocks(2))).to_pydict() == {"c": ["w0", "w1"], "a": [0, 1]}
    with pytest.raises(TableError, match="no column 'd'"):
        open_table(opened, columns=["d"])


def test_memory_is_shared_where_it_can_be():
    numbers = np.arange(1000.0)
    block = next(open_table(pd.DataFrame({"a": numbers, "b": numbers}, copy=False)).blocks())
    assert np.shares_memory(block.column(0).to_numpy(), numbers)


def test_importing_the_room_imports_no_data_frames():
    """They take a second, which `--help` should not."""
    code = "import sys, sfumato.table; assert not {'pandas', 'polars', 'sqlalchemy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("zero.csv", "", "no header row"),
        ("twice.csv", "a,a\n1,2\n", "two columns named 'a'"),
        ("nameless.csv", ",a\n0,1\n", "index=False"),
        ("ragged.csv", "a,b\n1,2\n\nsecret\n", "1 cells in line 4, and the header has 2"),
        ("latin.csv", "a,b\n1,é\n".encode("latin-1"), "not UTF-8"),
        ("head.csv", "é,b\n1,2\n".encode("latin-1"), "not UTF-8"),
        ("wide.csv", "a,b\n1,2\n".encode("utf-16"), "not UTF-8"),
        ("nul.csv", b"a\0,b\n1,2\n", "not a CSV"),
        ("cut.csv.gz", gzip.compress(bytes(range(48, 98)) + b"\n1\n2\n" * 999, mtime=0)[:-30], "damaged"),
        ("plain.csv.gz", "a,b\n1,2\n", "damaged"),
        ("noise.parquet", bytes(range(200)), "damaged"),
        ("noise.arrow", bytes(range(200)), "damaged"),
        ("empty.parquet", b"", "damaged"),
        ("t.numbers", b"", "does not know"),
    ],
)
def test_unreadable_files(tmp_path, name, content, words):
    path = write(tmp_path / name, content)
    with pytest.raises(TableError, match=words) as caught:
        open_table(path).read()
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_truncated_parquet_and_arrow(table, tmp_path):
    pq.write_table(table, tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for cut in (len(whole) - 5, len(whole) // 2):
        with pytest.raises(TableError, match="damaged"):
            open_table(write(tmp_path / "cut.parquet", whole[:cut]))
    # The footer is whole, and the pages are not.
    with pytest.raises(TableError, match="damaged"):
        open_table(write(tmp_path / "hole.parquet", whole[:4] + bytes(3000) + whole[3004:])).read()


def test_missing_file_and_folder_without_tables(tmp_path):
    with pytest.raises(TableError, match="does not exist"):
        open_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="without CSV, Parquet or Arrow files"):
        open_table(tmp_path)


def test_files_of_a_folder_must_be_alike(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "2.parquet")
    with pytest.raises(TableError, match="different columns"):
        open_table(tmp_path)


@pytest.mark.parametrize("thing", [42, None, np.zeros((2, 2)), object()])
def test_what_is_no_table(thing):
    with pytest.raises(TableError, match="cannot be read as a table"):
        open_table(thing)


def test_mixed_pandas_columns_are_named():
    with pytest.raises(TableError, match="'a' of the pandas frame mixes") as caught:
        open_table(pd.DataFrame({"a": [1, "secret"]}, dtype=object))
    assert "secret" not in str(caught.value)
    with pytest.raises(TableError, match="two columns named 'a'"):
        open_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))


class TestCsvTypes:
    """Types hold for the whole file, whatever its first rows look like."""

    def types(self, path) -> dict[str, str]:
        opened = open_table(path)
        opened.read()
        return {field.name: str(field.type) for field in opened.arrow_schema}

    def test_late_rows_widen_a_type(self, tmp_path, monkeypatch):
        monkeypatch.setattr("sfumato.table.csv_table.BYTES_PER_READ", 1000)
        rows = "".join(f"{i % 7},,{i % 5},{i}\n" for i in range(5000))
        path = write(tmp_path / "t.csv", "a,b,c,d\n" + rows + "1.5,3,word,4\n")
        assert self.types(path) == {"a": "double", "b": "int64", "c": "string", "d": "int64"}
        assert open_table(path).read().slice(5000).to_pylist() == [{"a": 1.5, "b": 3, "c": "word", "d": 4}]

    def test_empty_cells_quotes_and_line_breaks(self, tmp_path):
        path = write(tmp_path / "t.csv", 'a,b,c\n1,"x, y",NA\n,"z ""q""\nw",\n3,none,nan\n')
        assert open_table(path).read().to_pydict() == {
            "a": [1, None, 3],
            "b": ["x, y", 'z "q"\nw', "none"],
            "c": [None, None, None],
        }

    def test_byte_order_mark_windows_lines_and_semicolons(self, tmp_path):
        path = write(tmp_path / "t.csv", b"\xef\xbb\xbfa;b\r\n1;2.5\r\n3;4.5\r\n")
        assert open_table(path).read().to_pydict() == {"a": [1, 3], "b": [2.5, 4.5]}

    def test_codes_with_leading_zeros_are_text(self, tmp_path):
        assert self.types(write(tmp_path / "t.csv", "a,b,c\n01,0,0.5\n02,1,00.5\n")) == {
            "a": "string",
            "b": "int64",
            "c": "double",
        }

    def test_spaces_around_numbers(self, tmp_path):
        assert open_table(write(tmp_path / "t.csv", "a, b\n 1,2 \n3, 4\n")).read().to_pydict() == {
            "a": [1, 3],
            "b": [2, 4],
        }

    def test_words_of_truth_stay_words(self, tmp_path):
        assert self.types(write(tmp_path / "t.csv", "a,b\nTrue,yes\nFalse,no\n")) == {"a": "string", "b": "string"}

    def test_many_columns(self, tmp_path):
        names = ",".join(f"c{i}" for i in range(3000))
        row = ",".join(str(i) for i in range(3000))
        assert open_table(write(tmp_path / "t.csv", f"{names}\n{row}\n{row}\n")).read().num_columns == 3000


@pytest.mark.parametrize("kind", [pa.ipc.new_file, pa.ipc.new_stream])
def test_an_arrow_file_with_damage_anywhere_is_refused_or_read(tmp_path, kind):
    days = pa.table({"a": range(50), "day": pa.array(range(50), pa.date32()), "word": ["p", "q"] * 25})
    with kind(tmp_path / "whole.arrow", days.schema) as writer:
        writer.write_table(days)
    content, refused = (tmp_path / "whole.arrow").read_bytes(), 0
    for at in range(0, len(content), 8):
        path = tmp_path / f"{at}.arrow"
        path.write_bytes(content[:at] + b"\xff" * 8 + content[at + 8 :])
        try:
            open_table(path).read()
        except TableError:
            refused += 1
    assert refused
