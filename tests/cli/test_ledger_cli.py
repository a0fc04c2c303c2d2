"""sfumato ledger: what was released, a budget, retention, an export."""

import json

import pytest

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,größe,ill\n" + "".join(f"{20 + i},{150.5 + i * i % 50},{'yn'[i % 2]}\n" for i in range(40)))
    return path


def call(capsys, *words):
    code = run_guarded(app, [str(word) for word in words])
    return code, *capsys.readouterr()


def test_what_was_released_and_what_is_left(table, tmp_path, capsys):
    book = tmp_path / "book.json"
    assert call(capsys, "ledger", "show", "--ledger", book)[1].startswith(f"{book}: 0 releases.")
    assert not book.exists()
    sanitize = ["sanitize", table, "--label", "ill", "--mechanism", "additive-noise", "--ledger", book]
    assert call(capsys, *sanitize, "--seed", 3, "--out", tmp_path / "a")[0] == 0
    assert call(capsys, *sanitize, "--dry-run")[0] == 0
    code, out, _ = call(capsys, "ledger", "show", "--people", "--json", "--ledger", book)
    (seen,) = json.loads(out)["releases"]
    assert code == 0
    assert (seen["kind"], seen["epsilon"], seen["people"]) == ("empirical-only", None, 40)
    assert seen["totals"]["unproved_releases"] == {"worst": 1, "median": 1}
    assert call(capsys, "ledger", "budget", "--epsilon", 8, "--ledger", book)[0] == 0
    assert "epsilon 8" in call(capsys, "ledger", "budget", "--ledger", book)[1]
    code, _, told = call(capsys, *sanitize, "--out", tmp_path / "b")
    assert code == 10
    assert "Nothing was released" in told.splitlines()[-1]
    assert not (tmp_path / "b").exists()
    assert call(capsys, "ledger", "keep", "--days", 30, "--ledger", book)[0] == 0
    assert call(capsys, "ledger", "export", "--out", tmp_path / "e.json", "--ledger", book)[0] == 0
    exported, kept = (tmp_path / "e.json").read_text(), json.loads(book.read_text())
    assert json.loads(exported)["keep_days"] == 30
    assert not any(secret in exported for secret in (kept["key"], *kept["tables"]))
    assert call(capsys, "ledger", "budget", "--none", "--ledger", book)[0] == 0
    assert call(capsys, *sanitize, "--out", tmp_path / "b")[0] == 0
    assert "This is release 2" in call(capsys, "show", tmp_path / "b")[1]


def test_a_new_ledger_is_told_once(table, tmp_path, capsys):
    book = tmp_path / "book.json"
    words = ["sanitize", table, "--label", "ill", "--mechanism", "additive-noise", "--ledger"]
    assert f"New ledger begun at {book}:" in call(capsys, *words, book, "--out", tmp_path / "a")[1]
    assert "ledger begun" not in call(capsys, *words, book, "--out", tmp_path / "b")[1]
    told = json.loads(call(capsys, *words, tmp_path / "c.json", "--json", "--out", tmp_path / "c")[1])
    assert told["new_ledger"] == str(tmp_path / "c.json")
    assert "ledger begun" not in call(capsys, *words, tmp_path / "d.json", "--quiet", "--out", tmp_path / "d")[1]
    assert "younger than the table's first release" in call(capsys, "show", tmp_path / "d")[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["budget", "--epsilon", "-1"], "--epsilon must be a positive number"),
        (["budget", "--epsilon", "nan"], "--epsilon must be a positive number"),
        (["budget", "--epsilon", "1", "--delta", "2"], "--delta must be at least 0 and below 1"),
        (["budget", "--delta", "0.1"], "Add --epsilon"),
        (["budget", "--none", "--epsilon", "1"], "leave out --none"),
        (["keep"], "--days N, or --always"),
        (["keep", "--days", "0"], "--days must be at least 1"),
        (["keep", "--days", "3000000"], "at most 36,500"),
    ],
)
def test_wrong_options(words, told, capsys):
    code, _, error = call(capsys, "ledger", *words)
    assert code == 2
    assert told in error


def test_a_person_column_must_not_be_released(table, tmp_path, capsys):
    call(capsys, "schema", table, "--label", "ill", "--out", tmp_path / "s.yaml")
    given = ["sanitize", table, "--schema", tmp_path / "s.yaml", "--out", tmp_path / "r", "--person"]
    assert "no column 'who'" in call(capsys, *given, "who")[2]
    assert call(capsys, *given, "age")[0] == 0
    assert "age" not in (tmp_path / "r" / "card.json").read_text()
