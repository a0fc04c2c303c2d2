"""SPSS, Stata, SAS, Excel and ODS: labels and missing codes are honoured, and what is written reads back."""

import datetime
import sys
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.core.errors import OutputError, PrivacyLeakWarning, TableError, UsageError
from sfumato.release.asked import RELEASE_FORMATS
from sfumato.table import open_table, write_table

pyreadstat = pytest.importorskip("pyreadstat")
KINDS = [name for name in RELEASE_FORMATS if name not in ("parquet", "csv")]
DAY = datetime.date(2021, 2, 3)
TABLE = pa.table(
    {
        "age": pa.array([30, 41, None, 55]),
        "bmi": pa.array([21.25, 0.1 + 0.2, 30.0, None]),
        "naïve": pa.array(["ä", None, "=1+1", "c"]),
        "seen": pa.array([DAY, None, DAY, datetime.date(1999, 12, 31)]),
    }
)
LABELLED = pd.DataFrame(
    {
        "sex": [1.0, 2.0, 9.0, 1.0],
        "income": [1000.0, 2500.5, 99.0, 3.0],
        "pain": [1.0, 3.0, 5.0, 2.0],
        "town": ["A", "", "B", "A"],
    }
)
LABELS = {"sex": {1: "male", 2: "female", 9: "no answer"}, "income": {99: "refused"}, "pain": {1: "none", 5: "worst"}}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_reads_back(kind, tmp_path):
    table = TABLE.rename_columns(["age", "bmi", "naive", "seen"]) if kind == "xpt" else TABLE
    path = tmp_path / f"table.{kind}"
    assert write_table(table, path) == 4
    back = open_table(path).read()
    assert back.column_names == table.column_names
    if kind == "xlsx":  # Excel keeps 16 digits, not 17
        assert back["bmi"].to_pylist() == [21.25, pytest.approx(0.3, rel=1e-15), 30.0, None]
        back, table = back.drop_columns(["bmi"]), table.drop_columns(["bmi"])
    assert back.to_pydict() == table.to_pydict()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ["sav", "zsav"])
def test_spss_labels_and_user_missing_codes_are_honoured(ending, tmp_path):
    path = tmp_path / f"survey.{ending}"
    pyreadstat.write_sav(
        LABELLED,
        str(path),
        compress=ending == "zsav",
        variable_value_labels=LABELS,
        missing_ranges={"sex": [9], "income": [{"lo": 90, "hi": 99}]},
    )
    found = open_table(path).read().to_pydict()
    assert found["sex"] == ["male", "female", None, "male"]
    assert found["income"] == [1000.0, 2500.5, None, 3.0]
    assert found["pain"] == [1, 3, 5, 2]  # a scale whose ends alone are labelled is a number
    assert found["town"] == ["A", None, "B", "A"]


def test_stata_labels_and_missing_letters_are_honoured(tmp_path):
    path = tmp_path / "survey.dta"
    frame = LABELLED.assign(sex=[1, 2, "a", 1])
    pyreadstat.write_dta(
        frame, str(path), variable_value_labels={"sex": {1: "male", 2: "female"}}, missing_user_values={"sex": ["a"]}
    )
    assert open_table(path).read()["sex"].to_pylist() == ["male", "female", None, "male"]


def test_a_sheet_with_errors_and_mixed_cells(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["n", "mixed", "flag"], [1, "x", True], ["#N/A", 2.5, False], [3, None, None], [None, None, None]):
        sheet.append(row)
    book.create_sheet("other").append(["nothing"])
    book.save(tmp_path / "book.xlsx")
    found = open_table(tmp_path / "book.xlsx").read().to_pydict()
    assert found == {"n": [1, None, 3], "mixed": ["x", "2.5", None], "flag": [True, False, None]}


def test_an_opendocument_sheet_with_errors_and_times(tmp_path):
    """As LibreOffice writes them: an error states no text and shows one; a time of day has a type of its own."""
    opendocument = pytest.importorskip("odf.opendocument")
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    document, sheet = opendocument.OpenDocumentSpreadsheet(), Table(name="one")
    string, number = {"valuetype": "string"}, {"valuetype": "float", "value": "3"}
    error, time = {**string, "stringvalue": ""}, {"valuetype": "time", "timevalue": "PT10H30M00S"}
    for row in ([(string, "n"), (string, "at")], [(error, "#N/A"), (time, "10:30:00")], [(number, "3"), (string, "")]):
        line = TableRow()
        for about, text in row:
            cell = TableCell(**about)
            cell.addElement(P(text=text))
            line.addElement(cell)
        sheet.addElement(line)
    document.spreadsheet.addElement(sheet)
    document.save(tmp_path / "sheet.ods")
    assert open_table(tmp_path / "sheet.ods").read().to_pydict() == {"n": [None, 3], "at": ["10:30:00", None]}


SPACES = " ".join(
    f'xmlns:{part}="urn:oasis:names:tc:opendocument:xmlns:{part}:1.0"' for part in ("office", "table", "text")
)


def _ods(path, rows, before=""):
    """A sheet of rows (cells, times), each cell (text, times)."""
    cell = '<table:table-cell {kind} table:number-columns-repeated="{times}">{inside}</table:table-cell>'
    lines = [
        f'<table:table-row table:number-rows-repeated="{again}">'
        + "".join(
            cell.format(
                kind='office:value-type="string"' if text else "",
                times=times,
                inside=text and f"<text:p>{text}</text:p>",
            )
            for text, times in cells
        )
        + "</table:table-row>"
        for cells, again in rows
    ]
    sheet = f"<office:spreadsheet><table:table>{''.join(lines)}</table:table></office:spreadsheet>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", f"{before}<office:document-content {SPACES}>{sheet}</office:document-content>")
    return path


def _peak(read, path):
    """The most memory that Python held while it refused a file, in MiB, and what it said."""
    tracemalloc.start()
    try:
        with pytest.raises(TableError) as refused:
            read(path)
        return tracemalloc.get_traced_memory()[1] / 2**20, str(refused.value)
    finally:
        tracemalloc.stop()


def test_empty_rows_that_office_programs_append_are_no_rows(tmp_path):
    head, row = [("a", 1), ("b", 1)], [("x", 1), ("", 1), ("y", 1)]
    path = _ods(tmp_path / "t.ods", [([*head, ("c", 1)], 1), (row, 3), ([("", 16_384)], 1_048_572)])
    assert open_table(path).read().to_pydict() == {"a": ["x"] * 3, "b": [None] * 3, "c": ["y"] * 3}


def test_what_a_cell_says_is_its_paragraphs(tmp_path):
    note = "</text:p><office:annotation><text:p>a note</text:p></office:annotation><text:p>z"
    path = _ods(tmp_path / "t.ods", [([("a", 1)], 1), ([('x<text:s text:c="2"/>y<text:tab/>' + note, 1)], 1)])
    assert open_table(path).read().to_pydict() == {"a": ["x  y\t\nz"]}


@pytest.mark.parametrize(
    "rows",
    [
        [([("a", 1)], 1), ([("x", 600)], 1_000_000)],
        [([("a", 1)], 1), ([("x" * 60_000, 16_000)], 1)],
        [([("a", 1)], 1), ([("x", 16_384)] * 1_000, 1)],
        [([("a", 1)], 1), ([('<text:s text:c="2000000000"/>', 1)], 1)],
        [([("a", 1)], 1), ([("x" * 20_000_000, 1)], 1)],
        [([("a", 1)], 1), ([("", 1)] * 5_000, 1_000_000), *[([("x", 16_384)], 1)] * 1_000],
        [([("a", 1)], 1), ([("x", 1)], 10**30)],
    ],
)
def test_a_small_sheet_that_stands_for_a_large_one_is_refused_before_it_is_one(rows, tmp_path):
    peak, said = _peak(open_table, _ods(tmp_path / "t.ods", rows))
    assert peak < 64
    assert "xx" not in said


def test_a_sheet_with_a_document_type_is_refused(tmp_path):
    path = _ods(tmp_path / "t.ods", [([("a", 1)], 1), ([("&b;", 1)], 1)], '<!DOCTYPE x [<!ENTITY b "bb">]>')
    with pytest.raises(TableError, match="damaged or of another format"):
        open_table(path)


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_one_vast_cell_of_a_workbook_is_refused_before_it_is_read(packed, tmp_path):
    """Packed it is a small file that unpacks to a large one; as it is, a cell that no spreadsheet program holds."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a"], ["there"]):
        book.active.append(row)
    book.save(tmp_path / "small.xlsx")
    with zipfile.ZipFile(tmp_path / "small.xlsx") as small, zipfile.ZipFile(tmp_path / "t.xlsx", "w", packed) as large:
        for name in small.namelist():
            large.writestr(name, small.read(name).replace(b">there<", b">" + b"x" * 50_000_000 + b"<"))
    peak, said = _peak(open_table, tmp_path / "t.xlsx")
    assert peak < 32
    assert "was not read" in said


def test_rows_that_a_workbook_skips_do_not_fill_the_memory(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a"])
    for row in range(2, 1_003):
        book.active.cell(row, 16_384, "x")
    book.save(tmp_path / "t.xlsx")
    peak, said = _peak(open_table, tmp_path / "t.xlsx")
    assert peak < 100
    assert "was not read" in said


def test_a_release_in_kind_is_the_release(tmp_path):
    """Sanitized, written as SPSS or as a sheet, opened again: the same matrix, to the last bit."""
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"x": rng.random(40), "job": rng.choice(["a", "b"], 40), "y": rng.choice(["no", "yes"], 40)})
    with pytest.warns(PrivacyLeakWarning):
        release = sf.sanitize(people, label="y", mechanism="additive-noise", seed=1)
    for kind in ("sav", "ods"):
        release.save(tmp_path / kind, format=kind)
        back = sf.open_release(tmp_path / kind)
        assert np.array_equal(back.Z, release.Z)
        assert np.array_equal(back.y, release.y)


def test_without_the_extra_it_says_what_to_install(monkeypatch, tmp_path):
    path = tmp_path / "t.sav"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(UsageError, match=r"sfumato\[statistics\]"):
        open_table(path)


@pytest.mark.parametrize("ending", ["sav", "dta", "sas7bdat", "xpt", "xlsx", "ods"])
def test_a_damaged_file_is_refused_without_a_word_of_it(ending, tmp_path):
    path = tmp_path / f"t.{ending}"
    path.write_bytes(b"age,sex\n31,secret\n" * 100)
    with pytest.raises(TableError, match="damaged or of another format") as refused:
        open_table(path)
    assert "secret" not in str(refused.value)


def test_a_name_that_the_format_refuses(tmp_path):
    for name, cells in (("t.dta", {"a b": [1]}), ("t.xlsx", {"a": ["bell\a"]})):
        with pytest.raises(OutputError, match="another --format") as refused:
            write_table(pa.table(cells), tmp_path / name)
        assert "bell" not in str(refused.value)
    assert not list(tmp_path.iterdir())
