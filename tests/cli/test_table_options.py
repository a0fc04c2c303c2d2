"""One block of options for every command that reads a table: --decimal, --encoding and - for standard input."""

import io
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli.app import app
from sfumato.cli.console import run_guarded
from sfumato.table import Schema

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
    assert left <= {"t.csv", "others.csv", "r", "m.skops", "p.csv", "ledger", ".ledger.lock", "ledger.people"}, (
        "nothing piped in is left in a file"
    )


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
    from sfumato.jobs.release import Release

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
