"""One block of options for every command that reads a table: --decimal, --encoding and - for standard input."""

import io
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.api.cli.app import app
from sfumato.api.cli.console import Console, run_guarded
from sfumato.table import Schema, write_table

ROWS = 60


def german(first=0):
    """A table as a German spreadsheet saves it."""
    lines = [
        f"{(n * 7) % 40 + 0.5};{'grün' if n % 3 else 'weiß'};{'ja' if n % 2 else 'nein'}"
        for n in range(first, first + ROWS)
    ]
    return ("größe;farbe;krank\n" + "\n".join(lines).replace(".", ",") + "\n").encode("cp1252")


READ = ("--decimal", ",", "--encoding", "cp1252")


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes(german())
    (tmp_path / "others.csv").write_bytes(german(7))

    def command(*words, piped=None):
        if piped is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
        code = run_guarded(app, [str(word) for word in words])
        return code, *capsys.readouterr()

    return command


def test_every_command_that_reads_a_table(run, tmp_path):
    assert run("schema", "t.csv", "--label", "krank", "--out", "s.yaml", *READ)[0] == 0
    assert Schema.load(tmp_path / "s.yaml")["größe"].bounds == (0.5, 39.5)
    noise = ("--mechanism", "additive-noise", "--param", "scale=0.05")
    assert run("sanitize", "t.csv", "--label", "krank", *noise, "--out", "r", *READ)[0] == 0
    assert run("train", "r", "--classifier", "naive-bayes", "--out", "m.skops")[0] == 0
    assert run("predict", "m.skops", "others.csv", "--out", "p.csv", *READ)[0] == 0
    assert run("evaluate", "m.skops", "others.csv", *READ)[0] == 0
    code, out, err = run("reconstruct", "r", "--column", "größe", "--original", "t.csv", "--out", "d", *READ)
    assert (code, err) == (0, "") or "Information loss" in out, err
    code, _, err = run("audit", "r", "--original", "t.csv", "--holdout", "others.csv", "--max-rows", 50, *READ)
    assert code == 0, err


def test_without_them_each_says_what_to_add(run):
    assert "--encoding cp1252" in run("schema", "t.csv")[2]
    assert "--decimal ," in run("schema", "t.csv", "--encoding", "cp1252")[2]
    assert run("schema", "t.csv", "--encoding", "nope")[0] == 2
    assert run("schema", "t.csv", "--decimal", "x")[0] == 2


def test_standard_input(run, tmp_path):
    assert run("sanitize", "-", "--label", "krank", "--param", "b=0.1", "--out", "r", *READ, piped=german())[0] == 0
    code, out, _ = run("schema", "-", *READ, piped=german())
    assert code == 0
    assert "name: größe" in out
    code, _, err = run("audit", "r", "--original", "-", "--holdout", "-", *READ, piped=german())
    assert code == 2
    assert "only one of the tables" in err
    assert run("train", "r", "--classifier", "naive-bayes", "--out", "m.skops")[0] == 0
    assert run("predict", "m.skops", "-", "--out", "p.csv", *READ, piped=german())[0] == 0
    assert run("evaluate", "m.skops", "-", *READ, piped=b"")[0] == 3
    left = {path.name for path in tmp_path.iterdir()}
    kept = {"ledger", ".ledger.lock", "ledger.people", "ledger.read", ".ledger.read.lock"}
    kept |= {"ledger.signer", ".ledger.signer.lock"}
    assert left <= {"t.csv", "others.csv", "r", "m.skops", "p.csv", *kept}, "nothing piped in is left in a file"


def test_addresses_and_misspelt_columns(run):
    code, _, err = run("sanitize", "https://host/t.csv?token=secret", "--out", "r")
    assert (code, "pipe it in" in err, "secret" in err) == (3, True, False)
    assert run("sanitize", "sqlite:///base.db", "--out", "r")[0] == 2
    assert "Did you mean" not in run("schema", "t.csv", "--label", "nope", *READ)[2]
    assert "Did you mean 'krank'?" in run("schema", "t.csv", "--label", "krnak", *READ)[2]


def test_numbers_are_the_same_either_way(run, tmp_path):
    run("sanitize", "t.csv", "--label", "krank", "--seed", 1, "--out", "a", *READ)
    (tmp_path / "plain.csv").write_text(german().decode("cp1252").replace(",", "."), encoding="utf-8")
    run("sanitize", "plain.csv", "--label", "krank", "--seed", 1, "--out", "b")
    from sfumato.release.release import Release

    np.testing.assert_array_equal(Release.open(tmp_path / "a").Z, Release.open(tmp_path / "b").Z)


def test_arrow_goes_in_and_comes_out_through_pipes(run, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.random(ROWS), "y": ["no", "yes"] * (ROWS // 2)})
    words = ("sanitize", "-", "--label", "y", "--mechanism", "additive-noise", "--stdout")
    for name, new in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        piped, out = io.BytesIO(), io.BytesIO()
        with new(piped, table.schema) as writer:
            writer.write_table(table)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", io.TextIOWrapper(out))
            code, _, err = run(*words, "--out", name, piped=piped.getvalue())
            written = out.getvalue()
        assert code == 0
        assert "Released 60 rows" in err
        released = pa.ipc.open_stream(written).read_all()
        assert released.to_pydict() == pq.read_table(tmp_path / name / "release.parquet").to_pydict()
        assert json.loads(released.schema.metadata[b"sfumato.card"]) == json.loads(
            (tmp_path / name / "card.json").read_text()
        )
    code, out, err = run(*words, "--out", "cut", piped=piped.getvalue()[:-400])
    assert (code, out) == (3, "")
    assert "damaged or truncated" in err
    assert "--json" in run(*words, "--out", "json", "--json", piped=piped.getvalue())[2]


GAPPY = {
    "x": [*map(str, range(1, 57)), "-", "n/a", None, "4"],
    "town": [*["a", "b"] * 28, "n/a", "-", "none", "a"],
    "ill": ["no", "yes"] * 30,
}


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "-"])
def test_words_for_missing_values(run, kind, tmp_path):
    """A column of numbers with such words is a column of numbers, in a file of any kind."""
    table = pa.table(GAPPY)
    given, piped = f"gappy.{kind}", None
    if kind == "-":
        sink = io.BytesIO()
        pq.write_table(table, sink)
        given, piped = "-", sink.getvalue()
    else:
        write_table(table, tmp_path / given)
    code, _, err = run("schema", given, "--label", "ill", piped=piped)
    assert (code, '--missing "-,n/a"' in err) == (3, True), "the column looks numeric"
    code, _, err = run("schema", given, "--label", "ill", "--missing", "n/a, -", "--out", "s.yaml", piped=piped)
    assert code == 0, err
    schema = Schema.load(tmp_path / "s.yaml")
    assert (schema["x"].kind, schema["x"].bounds, schema["x"].missing) == ("integer", (1, 56), True)
    assert (schema["town"].categories, schema["town"].missing) == (("a", "b", "none"), True)
    noise = ("--mechanism", "additive-noise", "--param", "scale=0.05", "--missing", "n/a,-")
    code, _, err = run("sanitize", given, "--schema", "s.yaml", *noise, "--out", "r", piped=piped)
    assert code == 0, err
    assert pq.read_table(tmp_path / "r" / "release.parquet")["x"].null_count > 0


def test_missing_needs_words_and_a_file(run):
    code, _, err = run("schema", "t.csv", "--missing", "n/a,,-")
    assert (code, '--missing "n/a,-"' in err) == (2, True)
    code, _, err = run("schema", "sqlite:///t.db", "--query", "select 1", "--missing", "-")
    assert (code, "NULLIF" in err) == (2, True)


def test_a_person_that_the_schema_knows_as_something_else(run, tmp_path):
    """In one step: a schema is written, and then somebody says that one of its columns is the person."""
    rows = {"pid": [n // 2 for n in range(ROWS)], "x": [n % 7 for n in range(ROWS)], "ill": ["no", "yes"] * (ROWS // 2)}
    write_table(pa.table(rows), tmp_path / "people.csv")
    assert run("schema", "people.csv", "--label", "ill", "--out", "s.yaml")[0] == 0
    assert Schema.load(tmp_path / "s.yaml")["pid"].role == "private"
    noise = ("--mechanism", "additive-noise", "--param", "scale=1", "--max-rows-per-person", 2)
    code, _, err = run("sanitize", "people.csv", "--schema", "s.yaml", "--person", "pid", *noise, "--out", "r")
    assert code == 0, err
    assert pq.read_table(tmp_path / "r" / "release.parquet").column_names == ["x", "ill"]
    assert json.loads((tmp_path / "r" / "card.json").read_text())["guarantee"]["rows_per_person"] == 2
    code, _, err = run("sanitize", "people.csv", "--schema", "s.yaml", "--person", "ill", *noise, "--out", "r2")
    assert (code, "cannot say whose rows" in err) == (4, True)
    for schema in (("--schema", "s.yaml"), ("--label", "ill")):
        code, _, err = run("sanitize", "people.csv", *schema, "--person", "pdi", *noise, "--out", "r2")
        assert (code, "--person: people.csv has no column 'pdi'. Did you mean 'pid'?" in err) == (4, True), err


def test_json_has_no_infinity(capsys):
    console = Console(as_json=True)
    console.result({"epsilon": float("inf"), "inner": [{"x": float("nan")}, (1.5, -float("inf"))], "n": 3})
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found == {"epsilon": None, "inner": [{"x": None}, [1.5, None]], "n": 3, "warnings": []}
