"""The first ten minutes, as a new owner meets them."""

import json
import re
from pathlib import Path

import pyarrow.csv
import pytest
from sklearn.datasets import load_iris

from sfumato.api.cli.recommend import side_by_side

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "demo.svg"
RANGES = {"sepal_length": (3, 9), "sepal_width": (1, 6), "petal_length": (0, 8), "petal_width": (0, 4)}


@pytest.fixture
def flowers(tmp_path, monkeypatch):
    """A table of one's own, and nothing else in the folder where the command runs."""
    monkeypatch.chdir(tmp_path)
    data = load_iris()
    often = 4  # the noisy number of 150 rows may come to next to none
    columns = dict(zip(RANGES, (data.data.T.tolist()[k] * often for k in range(4)), strict=True))
    columns["kind"] = [str(data.target_names[code]) for code in data.target] * often
    pyarrow.csv.write_csv(pyarrow.table(columns), tmp_path / "mine.csv")
    return tmp_path


def test_the_demo_proves_on_one_screen(command, tmp_path):
    code, text, error = command("demo", "--out", tmp_path / "out")
    assert code == 0, error
    lines = text.splitlines()
    assert len(lines) <= 25
    assert max(map(len, (line for line in lines if not line.startswith("Report")))) <= 80
    assert "central-dp" in lines[0]
    assert lines[1].startswith("YOUR DECISION      Proved: ")
    assert {"Whose row is it?", "Of use?"} <= {line[:16].strip() for line in lines}
    assert sum(" | " in line for line in lines) == 6  # the columns' names, and five rows
    assert [line.partition(":")[0] for line in lines[-3:]] == ["Report (private)", "Several sites", "A survey"]
    card = json.loads((tmp_path / "out" / "release" / "card.json").read_text())
    assert card["guarantee"]["kind"] == "central-dp"
    columns = card["source_schema"]["columns"]
    assert {column["reason"] for column in columns} == {"what the imaging program can measure"}
    assert not list((tmp_path / "out").rglob("*ledger*"))
    drawn = re.findall("<text[^>]*>(.*)</text>", PICTURE.read_text())[1:]
    assert begins(drawn) == begins(lines), "make picture draws the README's picture again"


def begins(lines):
    """What does not change from draw to draw: the left words, and the lines that frame the figures."""
    return [line[:16] for line in lines if line[:1].isalpha()]


@pytest.mark.system
@pytest.mark.usefixtures("flowers")
def test_a_table_of_ones_own_is_told_what_stands_in_the_way_and_what_to_type(command):
    code, text, error = command("demo", "--table", "mine.csv", "--label", "kind")
    assert code == 0, error
    told = " ".join(text.partition("YOUR DECISION")[0].split())
    assert told.startswith(
        "Nothing is proved, because the ranges of 5 columns (sepal_length, sepal_width, petal_length"
    )
    assert told.count(". ") == 1  # two sentences, and two commands
    assert "To release" not in text
    for name, (low, high) in RANGES.items():
        words = ("--column", name, "--low", low, "--high", high, "--reason", "a flora of the region")
        assert command("schema", "declare", "demo-out/schema.yaml", *words)[0] == 0
    kinds = ("--categories", "setosa,versicolor,virginica", "--reason", "the same flora")
    assert command("schema", "declare", "demo-out/schema.yaml", "--column", "kind", *kinds)[0] == 0
    typed = re.search(r"^  sfumato (demo .*)$", text, re.M).group(1)
    code, text, error = command(*typed.split())
    assert code == 0, error
    assert "mine.csv, 450 of 600 rows: made-up rows, epsilon 1 (central-dp)." in text
    assert "do not share it" in text
    assert "To release: sfumato sanitize mine.csv --schema demo-out/schema.yaml --epsilon 1" in text


def test_nothing_of_ones_own_table_leaves_the_folder(command, flowers, tmp_path_factory, monkeypatch):
    ledger = tmp_path_factory.mktemp("home") / "ledger.json"
    monkeypatch.setenv("SFUMATO_LEDGER", str(ledger))
    assert command("demo", "--table", "mine.csv", "--label", "kind", "--out", "looked")[0] == 0
    assert sorted(path.name for path in flowers.iterdir()) == ["looked", "mine.csv"]
    assert (flowers / "looked").stat().st_mode & 0o077 == 0
    assert not list((flowers / "looked").rglob("*.csv"))  # the rows are not copied
    assert list(ledger.parent.iterdir()) == []


@pytest.mark.parametrize(
    "words", [("--label", "kind"), ("--sites", 3), ("--consortium", "--table", "mine.csv")], ids=lambda words: words[0]
)
def test_options_that_do_not_belong_together(command, words, tmp_path):
    code, text, error = command("demo", *words, "--out", tmp_path / "out")
    assert (code, text) == (2, "")
    assert words[0] in error


def test_rows_side_by_side_fit_a_screen_whatever_the_columns_are():
    before = pyarrow.table({"who": ["a"], "a_very_long_name_of_a_column": ["a very long cell"], "n": [None]})
    after = pyarrow.table({"a_very_long_name_of_a_column": ["b"], "n": [-123456.789]})
    head, row = side_by_side(before, after)
    assert head == "a_very_l        n | the release"
    assert row == "a very l        - |        b -1.2e+05"


def test_a_table_too_small_to_split_says_how_many_rows_it_has(command, tmp_path):
    table = tmp_path / "three.csv"
    table.write_text("x,y\n1,a\n2,b\n3,a\n")
    code, _, said = command("demo", "--table", str(table), "--label", "y", "--out", str(tmp_path / "out"))
    assert code == 3
    assert "has 3 rows, too few for the demo" in " ".join(said.split())
    assert not (tmp_path / "out").exists()
