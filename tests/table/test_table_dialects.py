"""Files as they come: decimal commas, other encodings, dates with times, standard input, and addresses."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sfumato.core.errors import SchemaError, TableError, UsageError
from sfumato.table import Column, Encoding, Schema, open_table
from sfumato.table.arrays import day_numbers
from sfumato.table.column import nearest
from sfumato.table.csv_table import Dialect
from sfumato.table.readers import table_from

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")

COMMA = Dialect(decimal=",")


def written(path, cells, encoding="utf-8"):
    """A semicolon table of the cells, a number and a label."""
    lines = [f"{cell};{number % 9};{'xy'[number % 2]}\n" for number, cell in enumerate(cells)]
    path.write_bytes(("größe;b;label\n" + "".join(lines)).encode(encoding))
    return path


class TestDecimalCommas:
    @pytest.mark.parametrize(
        "cells",
        [
            [f"{n % 5},5" for n in range(40)],
            [f"{n},25" for n in range(40)],
            [f"-{n},5e3" for n in range(40)],
            [*["7"] * 30, *["1,5"] * 10],
            [*["1,5"] * 30, *["unknown"] * 5],
            [f"1.{100 + n},5" for n in range(40)],
            [f"1,{100 + n}.5" for n in range(40)],
            [f"1'{100 + n}" for n in range(40)],
        ],
    )
    def test_they_never_become_categories(self, tmp_path, cells):
        """They did, and the exact values of everybody stood on the card."""
        path = written(tmp_path / "t.csv", cells)
        with pytest.raises(
            TableError, match="'größe' looks numeric, but its numbers are written with commas"
        ) as caught:
            Schema.infer(path, "label", refuse=False)
        assert "--decimal ," in str(caught.value)
        assert "1,5" not in str(caught.value)

    def test_they_are_numbers_once_they_are_said_to_be(self, tmp_path):
        path = written(tmp_path / "t.csv", ["1,5", "-2", "", "0,25e1"] * 5)
        table = open_table(path, dialect=COMMA)
        assert table.arrow_schema.field("größe").type == pa.float64()
        assert table.read()["größe"].to_pylist()[:4] == [1.5, -2.0, None, 2.5]
        assert Schema.infer(table, "label")["größe"].bounds == (-2.0, 2.5)

    @pytest.mark.parametrize("cells", [["1.234", "2,5"] * 5, ["1.234"] * 10, ["1.234,5"] * 10, ["0.5", "7"] * 5])
    def test_a_point_is_then_no_decimal_mark(self, tmp_path, cells):
        path = written(tmp_path / "t.csv", cells)
        table = open_table(path, columns=["größe"], dialect=COMMA)
        with pytest.raises(TableError, match="'größe' has numbers with a point, but the decimal mark is a comma"):
            table.read()

    def test_other_columns_may_have_points(self, tmp_path):
        path = written(tmp_path / "t.csv", ["10.0.0.1", "v1.2"] * 5)
        assert open_table(path, columns=["größe"], dialect=COMMA).read()["größe"].to_pylist()[0] == "10.0.0.1"

    def test_a_declared_number_says_what_may_be_wrong(self, tmp_path):
        path = written(tmp_path / "t.csv", ["1,5", "2"])
        encoding = Encoding(Schema((Column("größe", "numeric", low=0, high=9),)))
        with pytest.raises(TableError, match=r"not a number in row 1.* --decimal ,"):
            encoding.encode(open_table(path).read())
        assert encoding.encode(open_table(path, dialect=COMMA).read()).X[0, 0] == pytest.approx(1.5 / 9)

    def test_only_two_marks_are_known(self):
        with pytest.raises(UsageError, match="--decimal must be"):
            Dialect(decimal=";")

    def test_the_delimiter_is_the_headers_commonest_unless_it_is_named(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("height, in cm;weight\n" + "1;2\n" * 4)
        assert open_table(path).names == ("height", "in cm;weight")
        assert open_table(path, dialect=Dialect(delimiter=";")).names == ("height, in cm", "weight")
        with pytest.raises(UsageError, match="--delimiter must be"):
            Dialect(delimiter="|")


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-8-sig"])
    def test_letters_are_read(self, tmp_path, encoding):
        path = written(tmp_path / "t.csv", ["grün", "süß"] * 3, encoding)
        table = open_table(path, dialect=Dialect(encoding=encoding))
        assert table.names[0] == "größe"
        assert table.read()["größe"].to_pylist() == ["grün", "süß"] * 3

    def test_a_long_file_is_transcoded_in_pieces(self, tmp_path):
        path = written(tmp_path / "t.csv", ["größer"] * 60_000, "utf-16")
        found = open_table(path, columns=["größe"], dialect=Dialect(encoding="utf-16")).read()["größe"]
        assert pc.value_counts(found).to_pylist() == [{"values": "größer", "counts": 60_000}]

    @pytest.mark.parametrize(("encoding", "hint"), [("cp1252", "cp1252"), ("utf-16", "utf-16")])
    def test_another_encoding_is_named_as_the_way_out(self, tmp_path, encoding, hint):
        path = written(tmp_path / "t.csv", ["grün"] * 3, encoding)
        with pytest.raises(TableError, match=f"not UTF-8 text.*--encoding {hint}"):
            open_table(path).read()

    def test_the_wrong_encoding_quotes_nothing(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_bytes(b"a,b\n" + b"\xff\xfe secret,1\n")
        with pytest.raises(TableError, match="is not text in the encoding ascii") as caught:
            open_table(path, dialect=Dialect(encoding="ascii")).read()
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("name", ["nope", "rot13", "base64"])
    def test_no_encoding_of_text(self, name):
        with pytest.raises(UsageError, match="There is no text encoding"):
            Dialect(encoding=name)


class TestDatesWithTimes:
    @pytest.mark.parametrize(
        ("cell", "hours"),
        [
            ("2020-01-02T12:00:00Z", 12),
            ("2020-01-02 12:00:00+02:00", 10),
            ("2020-01-02 12:00:00 -0130", 13.5),
            ("2020-01-02T12:00:00.500000000", 12 + 0.5 / 3600),
            ("2020-01-02 12:30", 12.5),
            ("2020-01-02", 0),
        ],
    )
    def test_zones_and_fractions(self, cell, hours):
        days = (datetime.date(2020, 1, 2) - datetime.date(1970, 1, 1)).days
        found = day_numbers(pa.array([cell, "2020-01-01"]), "when").numbers
        assert found[0] == pytest.approx(days + hours / 24, abs=1e-9)
        damaged = day_numbers(pa.array([cell, None]), "when")
        assert damaged.empty.tolist() == [False, True]

    def test_days_that_do_not_exist_are_refused_whatever_their_zone(self):
        with pytest.raises(TableError, match=r"not an ISO date .* in row 2"):
            day_numbers(pa.array(["2020-01-01T00:00:00Z", "2020-02-31T00:00:00Z"]), "when")

    def test_a_column_of_them_is_a_date(self, tmp_path):
        path = written(tmp_path / "t.csv", [f"2021-03-{1 + n % 28:02d}T10:00:00+01:00" for n in range(40)])
        column = Schema.infer(path, "label")["größe"]
        assert (column.kind, column.low, column.high) == ("date", "2021-03-01", "2021-03-29")

    @pytest.mark.parametrize(("cell", "low"), [("31.12.{}", "2000-12-31"), ("1.2.{} 10:30", "2000-02-01")])
    @pytest.mark.parametrize("decimal", [".", ","])
    def test_with_points_the_day_comes_first(self, tmp_path, cell, low, decimal):
        path = written(tmp_path / "t.csv", [cell.format(2000 + n % 9) for n in range(40)])
        column = Schema.infer(open_table(path, dialect=Dialect(decimal=decimal)), "label")["größe"]
        assert (column.kind, column.low) == ("date", low)

    @pytest.mark.parametrize("cell", ["12/31/{}", "12.31.{}", "{}/12/31"])
    def test_dates_of_other_forms_never_become_categories(self, tmp_path, cell):
        path = written(tmp_path / "t.csv", [cell.format(2000 + n % 9) for n in range(40)])
        with pytest.raises(SchemaError, match="'größe' looks like dates"):
            Schema.infer(path, "label")


class TestStandardInput:
    TABLE = pa.table({"a": [1, 2], "b": ["x", "y"]})

    def contents(self):
        parquet, ipc, stream = io.BytesIO(), io.BytesIO(), io.BytesIO()
        pq.write_table(self.TABLE, parquet)
        with pa.ipc.new_file(ipc, self.TABLE.schema) as writer:
            writer.write_table(self.TABLE)
        with pa.ipc.new_stream(stream, self.TABLE.schema) as writer:
            writer.write_table(self.TABLE)
        csv = b"a,b\n1,x\n2,y\n"
        zstd = pa.compress(csv, "zstd", asbytes=True)
        return [parquet.getvalue(), ipc.getvalue(), stream.getvalue(), csv, gzip.compress(csv), bz2.compress(csv), zstd]

    def test_every_format_is_read_as_often_as_needed(self):
        for content in self.contents():
            table = table_from(io.BytesIO(content))
            for _ in range(2):
                assert table.read().to_pydict() == self.TABLE.to_pydict()
            assert open_table(table, columns=["b"]).read().column_names == ["b"]

    @pytest.mark.parametrize(
        ("content", "words"),
        [(b"", "is empty"), (b"PAR1 damaged", "damaged"), (b"a,b\n1\n", "Standard input has 1 cell")],
    )
    def test_what_is_no_table(self, content, words):
        with pytest.raises(TableError, match=words):
            table_from(io.BytesIO(content)).read()


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        ["https://host/t.csv?token=secret", "HTTP://user:secret@host/t.csv", "s3://key:secret@bucket/t.parquet"],
    )
    def test_they_get_their_own_line_and_are_not_repeated(self, address):
        with pytest.raises(TableError, match=r"This is an address .* pipe it in") as caught:
            open_table(address)
        assert "secret" not in str(caught.value)

    def test_others(self, tmp_path):
        with pytest.raises(TableError, match="Give the path alone"):
            open_table("file:///tmp/t.csv")
        with pytest.raises(UsageError, match="database URL needs --query"):
            open_table("postgresql+psycopg://user:secret@host/base")
        with pytest.raises(TableError, match="does not exist"):
            open_table(tmp_path / "a:b.csv")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("nope", None),
        ("incme", "income"),
        ("INCOME", "income"),
        ("aeg", "age"),
        ("x", None),
        ("sexx", "sex"),
    ],
)
def test_only_a_near_column_is_suggested(word, hint):
    found = nearest(word, ["income", "age", "sex", "label"])
    assert (f"Did you mean {hint!r}?" in found) if hint else ("Known are: income, age" in found)
