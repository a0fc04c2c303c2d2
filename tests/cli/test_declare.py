"""The road from a private table to a proof: what was read off it is never declared by accident, and readers are told
on whose word a proof rests."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from sfumato.guarantee import Card
from sfumato.guarantee.words import card_in_words


@pytest.fixture
def table(tmp_path):
    r = np.random.default_rng(3)
    rows = {
        "age": r.integers(17, 94, 200),
        "bmi": r.normal(26, 4, 200).round(3),
        "grade": r.integers(1, 6, 200),
        "day": pd.Timestamp("2003-04-17") + pd.to_timedelta(r.integers(0, 4000, 200), "D"),
        "sex": r.choice(["f", "m"], 200),
        "ill": r.choice(["no", "yes"], 200),
    }
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.fixture
def schema(command, table, tmp_path):
    assert command("schema", table, "--label", "ill", "--out", tmp_path / "s.yaml")[0] == 0
    return tmp_path / "s.yaml"


HONEST = {
    "age": ("--low", "0", "--high", "120"),
    "bmi": ("--low", "5", "--high", "90"),
    "grade": ("--low", "1", "--high", "5"),
    "day": ("--low", "1998-01-01", "--high", "2025-12-31"),
    "sex": ("--categories", "f, m"),
    "ill": ("--categories", "no,yes"),
}


def edit(path, **columns):
    written = yaml.safe_load(path.read_text())
    for column in written["columns"]:
        column |= columns.get(column["name"], {})
    path.write_text(yaml.safe_dump(written, sort_keys=False))


def columns_of(path):
    return {column["name"]: column for column in yaml.safe_load(path.read_text())["columns"]}


def test_the_honest_road_ends_in_a_proof_that_says_on_whose_word(command, table, schema, tmp_path):
    for name, words in HONEST.items():
        code, out, err = command("schema", "declare", schema, "--column", name, *words, "--reason", f"page of {name}")
        assert code == 0, err
    assert "Still learned: none" in out
    release = tmp_path / "r"
    code, out, _ = command(
        "sanitize", table, "--schema", schema, "--mechanism", "additive-noise", "--epsilon-record", 4, "--out", release
    )
    assert code == 0
    assert Card.load(release).guarantee["kind"] == "local-dp"
    assert "grade (lowest and highest)" in out
    assert "age (" not in out
    code, out, _ = command("show", release)
    assert "6 ranges by the owner's word (not checked):" in out
    assert '"page of bmi": bmi' in out
    assert "grade (lowest and highest)" in out
    command("certificate", release)
    page = (release / "certificate.html").read_text()
    assert "6 ranges by the owner&#39;s word" in page
    assert "page of bmi" in page


def test_only_the_owner_is_told_what_ends_where_the_table_does(command, table, tmp_path, monkeypatch):
    known = {"source": "public", "reason": "a form"}
    numbers = pd.read_csv(table)["bmi"]
    by_hand = {
        "version": 1,
        "columns": [{"name": "bmi", "kind": "numeric", "low": float(numbers.min()), "high": 90.0, **known}],
    }
    (tmp_path / "hand.yaml").write_text(yaml.safe_dump(by_hand))
    words = ["--schema", tmp_path / "hand.yaml", "--mechanism", "additive-noise", "--epsilon-record", 4]
    code, out, _ = command("sanitize", table, *words, "--out", tmp_path / "r")
    assert code == 0
    assert "bmi (lowest)" in out
    assert Card.load(tmp_path / "r").guarantee["kind"] == "local-dp"  # it stays the owner's word
    assert "Told to you alone" not in card_in_words(Card.load(tmp_path / "r"))
    assert "alone: these" in command("show", tmp_path / "r")[1]
    said = json.loads(command("sanitize", table, *words, "--dry-run", "--json")[1])
    assert "where your table ends" not in json.dumps(said)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "elsewhere" / "ledger.json"))
    assert "Told to you alone" not in command("show", tmp_path / "r")[1]


@pytest.mark.parametrize("name", list(HONEST))
def test_nothing_that_was_read_is_declared_as_it_stands(command, schema, name):
    before = schema.read_bytes()
    code, _, err = command("schema", "declare", schema, "--column", name, "--reason", "a form")
    assert code == 2
    assert "read off" in err
    assert schema.read_bytes() == before


def test_all_is_refused_where_anything_was_read(command, schema, monkeypatch, tmp_path):
    before = schema.read_bytes()
    assert command("schema", "declare", schema, "--all", "--reason", "a form")[0] == 2
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "elsewhere" / "ledger.json"))
    code, _, err = command(
        "schema", "declare", schema, "--all", "--reason", "a form"
    )  # the file says it, on every machine
    assert code == 2
    assert "--all" in err
    assert schema.read_bytes() == before


def test_the_schema_holds_no_trace_of_what_was_refused(command, schema, tmp_path):
    untouched = tmp_path / "untouched.yaml"
    untouched.write_bytes(schema.read_bytes())
    for one in (["--all"], ["--column", "age"], ["--column", "age", "--low", "15", "--high", "120"]):
        assert command("schema", "declare", schema, *one, "--reason", "a form")[0] == 2
    for path in (schema, untouched):
        assert command("schema", "declare", path, "--column", "age", *HONEST["age"], "--reason", "a form")[0] == 0
    assert schema.read_bytes() == untouched.read_bytes()


def test_a_form_whose_range_is_what_was_read_is_written_by_hand(command, tmp_path):
    """From 20 to 90, as the form has it, and somebody of 20 and somebody of 90 filled it in."""
    table, schema = tmp_path / "round.csv", tmp_path / "round.yaml"
    pd.DataFrame({"age": range(20, 91), "ill": ["no", "yes", "no"] * 23 + ["no", "yes"]}).to_csv(table, index=False)
    assert command("schema", table, "--label", "ill", "--out", schema)[0] == 0
    typed = ("--low", 20, "--high", 90, "--reason", "form 17b")
    code, _, err = command("schema", "declare", schema, "--column", "age", *typed)
    assert code == 2
    assert "write them into" in err
    assert "`source: public`" in err
    public = {"source": "public", "reason": "form 17b"}
    edit(schema, age=public, ill=public)
    noise = ("--mechanism", "additive-noise", "--epsilon-record", 4)
    assert command("sanitize", table, "--schema", schema, *noise, "--out", tmp_path / "r")[0] == 0
    assert Card.load(tmp_path / "r").guarantee["kind"] == "local-dp"
    code, out, _ = command("show", tmp_path / "r")
    assert "by the owner's word (not checked):" in out
    assert "age (lowest and highest)" in out


def test_bounds_that_were_widened_in_the_file_are_taken(command, schema):
    edit(schema, age={"low": -10, "high": 150}, bmi={"low": -100, "high": 400})
    assert command("schema", "declare", schema, "--column", "age", "--column", "bmi", "--reason", "form 17b")[0] == 0
    assert columns_of(schema)["bmi"]["reason"] == "form 17b"


@pytest.mark.parametrize("change", [{"high": 150}, {"low": 0}, {"low": 10, "high": 150}, {"low": 15, "high": 150}])
def test_one_end_that_was_read_or_rounded_is_enough_to_refuse(command, schema, change):
    edit(schema, age=change)
    assert command("schema", "declare", schema, "--column", "age", "--reason", "form 17b")[0] == 2


def test_under_another_ledger_bounds_that_were_read_are_typed(command, schema, tmp_path):
    words = ["schema", "declare", schema, "--column", "bmi", "--ledger", tmp_path / "other.json", "--reason", "a form"]
    code, _, err = command(*words)
    assert code == 2
    assert "not under this ledger" in err
    assert command(*words, *HONEST["bmi"])[0] == 0


def test_a_nudge_that_nobody_writes_is_the_same_value(command, schema, tmp_path, monkeypatch):
    """Typed, or written into the file; and where the file says what was read, under any ledger."""
    read = columns_of(schema)["bmi"]
    low, high = read["low"] - 1e-6, read["high"] + 1e-6
    typed = ("schema", "declare", schema, "--column", "bmi", "--low", low, "--high", high, "--reason", "form")
    assert command(*typed)[0] == 2
    edit(schema, bmi={"low": low, "high": high})
    assert command("schema", "declare", schema, "--column", "bmi", "--reason", "form")[0] == 2
    edit(schema, bmi={"low": read["low"], "high": read["high"]})
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "elsewhere.json"))
    assert command(*typed)[0] == 2
    honest = ("--low", read["low"] - 5, "--high", read["high"] + 5)
    assert command("schema", "declare", schema, "--column", "bmi", *honest, "--reason", "form")[0] == 0


def test_what_nobody_read_is_declared_at_once(command, tmp_path):
    by_hand = tmp_path / "hand.yaml"
    columns = [
        {"name": "age", "kind": "integer", "low": 0, "high": 120},
        {"name": "sex", "kind": "categorical", "categories": ["f", "m"]},
    ]
    by_hand.write_text(yaml.safe_dump({"version": 1, "columns": columns}))
    assert command("schema", "declare", by_hand, "--all", "--reason", "code book, page 3")[0] == 0
    assert {column["reason"] for column in columns_of(by_hand).values()} == {"code book, page 3"}


def test_what_a_release_read_without_a_schema_is_known_too(command, table, tmp_path):
    words = ["sanitize", table, "--label", "ill", "--mechanism", "additive-noise", "--epsilon-record", 4]
    assert command(*words, "--out", tmp_path / "r")[0] == 0
    stated = Card.load(tmp_path / "r").source_schema["columns"]
    copy = [{key: one[key] for key in ("name", "kind", "low", "high")} for one in stated if one["name"] == "bmi"]
    (tmp_path / "hand.yaml").write_text(yaml.safe_dump({"version": 1, "columns": copy}))
    assert command("schema", "declare", tmp_path / "hand.yaml", "--column", "bmi", "--reason", "a form")[0] == 2


def test_a_release_under_an_edited_schema_does_not_spoil_it(command, table, schema, tmp_path):
    """Bounds that the owner wrote are not taken for what was read, though the file still says learned."""
    edit(schema, bmi={"low": -100, "high": 400})
    words = ["--schema", schema, "--mechanism", "additive-noise", "--epsilon-record", 4]
    assert command("sanitize", table, *words, "--out", tmp_path / "r")[0] == 0
    assert command("schema", "declare", schema, "--column", "bmi", "--reason", "form 17b")[0] == 0


def test_an_empirical_release_shows_the_honest_road(command, table, tmp_path):
    words = ["sanitize", table, "--label", "ill", "--mechanism", "additive-noise", "--epsilon-record", 4]
    _, out, _ = command(*words, "--out", tmp_path / "r")
    assert "sfumato schema declare SCHEMA --column COL" in out
    assert "--all" not in out


@pytest.mark.parametrize(
    "words",
    [
        ["--reason", "x"],
        ["--all", "--column", "age", "--reason", "x"],
        ["--column", "age", "--low", "0", "--high", "120", "--reason", " "],
        ["--column", "age", "--column", "bmi", "--low", "0", "--reason", "x"],
        ["--column", "age", "--categories", "a,b", "--reason", "x"],
        ["--column", "sex", "--low", "0", "--reason", "x"],
        ["--column", "age", "--low", "young", "--reason", "x"],
    ],
)
def test_declare_refuses_what_cannot_be_meant(command, schema, words):
    assert command("schema", "declare", schema, *words)[0] == 2


def test_declare_of_a_misspelt_column(command, schema):
    code, _, err = command("schema", "declare", schema, "--column", "aeg", "--reason", "x")
    assert code == 4
    assert "no column 'aeg'" in err


def test_the_worst_news_comes_before_the_rows(command, tmp_path):
    wide = pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (50, 40)).round(4)).add_prefix("x")
    wide.to_csv(tmp_path / "wide.csv", index=False)
    words = ["sanitize", tmp_path / "wide.csv", "--mechanism", "additive-noise", "--out", tmp_path / "r"]
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert "--unprotected" in err
    assert not (tmp_path / "r").exists()
    code, out, _ = command(*words, "--unprotected")
    assert code == 0
    assert out.startswith("Practically unprotected: epsilon ")
    code, out, _ = command(*words[:-3], "random-rotation", "--out", tmp_path / "rotated")
    assert out.startswith("Nothing is proved of")
