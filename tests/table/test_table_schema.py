"""Columns and schemas: what they refuse, and that a file says what was meant."""

from __future__ import annotations

import json
import re
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

import sfumato
from sfumato.api.cli.console import parse_parameters
from sfumato.api.cli.survey import read_answers
from sfumato.core.errors import SchemaError, SfumatoError
from sfumato.release.strength import Config
from sfumato.study.protocol.study_file import load_study
from sfumato.table import Column, Schema


@pytest.fixture
def schema() -> Schema:
    return Schema(
        (
            Column("id", "categorical", role="identifier"),
            Column("who", "categorical", role="person"),
            Column("age", "integer", low=0, high=120, source="public", reason="human ages", weight=2.0),
            Column("height", "numeric", low=0.5, high=2.5, missing=True),
            Column("vote", "categorical", categories=("yes", "no", "1", "null"), missing=True),
            Column("pain", "ordinal", categories=("none", "some", "much")),
            Column("born", "date", low="1900-01-01", high="2020-12-31"),
            Column("label", "categorical", role="label", categories=("1", "2")),
        )
    )


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_saving_and_loading_gives_the_same_schema(schema, tmp_path, ending):
    path = tmp_path / f"schema.{ending}"
    schema.save(path)
    assert Schema.load(path) == schema


def test_the_file_explains_itself(schema, tmp_path):
    schema.save(tmp_path / "schema.yaml")
    text = (tmp_path / "schema.yaml").read_text()
    assert text.startswith("#")
    for word in ("learned", "public", "reason", "identifier", "person", "weight"):
        assert word in text.split("columns:")[0]


def test_to_dict_is_plain_json(schema):
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_roles(schema):
    assert [c.name for c in schema.private] == ["age", "height", "vote", "pain", "born"]
    assert schema.label is not None
    assert schema.label.name == "label"
    assert schema.person is not None
    assert schema.person.name == "who"
    assert schema.dropped == ("id",)
    assert schema.learned == ("height", "vote", "pain", "born")


def test_words_that_yaml_takes_for_truth_values_stay_words(tmp_path):
    path = tmp_path / "schema.yaml"
    path.write_text(
        "columns:\n- {name: v, kind: categorical, categories: [yes, no, on, 1, 2020-01-01], missing: yes}\n"
        "- {name: d, kind: date, low: 2001-01-01, high: 2002-01-01}\n"
    )
    found = Schema.load(path)
    assert found["v"].categories == ("yes", "no", "on", "1", "2020-01-01")
    assert found["v"].missing
    assert found["d"].low == "2001-01-01"
    assert found["d"].bounds == (11323.0, 11688.0)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"kind": "numeric"}, "lacks the key 'name'"),
        ({"name": "a"}, "lacks the key 'kind'"),
        ({"name": "a", "kind": "numeric", "hihg": 3}, "Did you mean 'high'?"),
        ({"name": "a", "kind": "number"}, "kind must be one of"),
        ({"name": "a", "kind": "numeric", "role": "secret"}, "role must be one of"),
        ({"name": "a", "kind": "numeric", "low": 0, "high": 1, "source": "public"}, "without a `reason`"),
        (
            {"name": "a", "kind": "numeric", "low": 0, "high": 1, "source": "public", "reason": " "},
            "without a `reason`",
        ),
        ({"name": "a", "kind": "numeric", "low": 2, "high": 1}, "low is above high"),
        ({"name": "a", "kind": "numeric", "low": "x", "high": 1}, "must be a number"),
        ({"name": "a", "kind": "numeric", "low": float("nan"), "high": 1}, "finite"),
        ({"name": "a", "kind": "numeric", "low": -1.7e308, "high": 1.7e308}, "too wide"),
        ({"name": "a", "kind": "integer", "low": 0.5, "high": 1}, "must be integers"),
        ({"name": "a", "kind": "date", "low": "yesterday", "high": "2001-01-01"}, "ISO dates"),
        ({"name": "a", "kind": "numeric", "low": 0, "high": 1, "weight": 0}, "above 0"),
        ({"name": "a", "kind": "numeric", "categories": ["x"]}, "bounds, not categories"),
        ({"name": "a", "kind": "categorical", "categories": []}, "empty"),
        ({"name": "a", "kind": "categorical", "categories": "abc"}, "must be a list"),
        ({"name": "a", "kind": "categorical", "categories": ["x", "x"]}, "twice"),
        ({"name": "a", "kind": "categorical", "categories": ["(missing)"], "missing": True}, "automatically"),
        ({"name": "a", "kind": "categorical", "missing": "perhaps"}, "true or false"),
        ({"name": "a", "kind": "categorical", "missing": "true"}, "true or false"),
        ("age", "must be a mapping"),
    ],
)
def test_a_wrong_column_is_refused_with_advice(entry, words):
    with pytest.raises(SchemaError, match=words.replace("?", r"\?").replace("(", r"\(")):
        Schema.from_dict({"columns": [entry]})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("columns: {a: 1}", "list under the key"),
        ("colums: []", "list under the key"),
        ("columns: []\nrows: 3", "unknown key 'rows'"),
        ("version: 9\ncolumns: []", "a newer sfumato wrote it"),
        ("columns: [", "not valid YAML"),
        ("columns: " + "[" * 5000, "nested too deeply"),
        ("columns: " + "x" * (17 << 20), "more than 16 MiB"),
        ("columns:\n- {name: a, kind: numeric}\n- {name: a, kind: numeric}", "twice"),
        ("columns:\n- {name: a, kind: numeric, role: label}", "must be categorical"),
        ("columns:\n- {name: a, kind: categorical, role: label, categories: [x]}", "one class"),
        ("columns:\n- {name: a, kind: date, role: person}\n- {name: b, kind: date, role: person}", "Only one column"),
    ],
    ids=lambda text: text[:40],
)
def test_a_wrong_file_is_refused_with_its_path(tmp_path, text, words):
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=words) as caught:
        Schema.load(path)
    assert str(path) in str(caught.value)


def test_json_is_read_as_json_and_whatever_else_as_yaml(schema, tmp_path, monkeypatch):
    path = tmp_path / "schema.json"
    path.write_text('{columns: [{name: a, kind: numeric, "low": 0, "high": NaN}]}')  # no JSON, but YAML
    with pytest.raises(SchemaError, match="'a'"):
        Schema.load(path)
    path.write_text('{"columns": ' + "[" * 100_000)
    with pytest.raises(SchemaError, match="nested too deeply"):
        Schema.load(path)
    path.write_text(json.dumps(schema.to_dict()))
    slow = Schema.load(path)
    monkeypatch.setattr("sfumato.table.schema.yaml.load", None)  # the slow reader is not needed
    assert Schema.load(path) == slow == schema


BOMB = "[&a [" + "x," * 10 + "]" + "".join(f", &{new} [{f'*{old},' * 10}]" for old, new in pairwise("abcdefgh")) + "]"
"""A hundred million words in 300 bytes."""


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (Schema.load, f"version: 1\ncolumns:\n- {{name: a, kind: categorical, categories: {BOMB}}}\n"),
        (Config.load, f"format: sfumato-config\nversion: 1\nmechanism: additive-noise\nparameters: {{law: {BOMB}}}\n"),
        (load_study, f"kind: survey\nname: s\nlanguages: {BOMB}\n"),
        (load_study, f"kind: pool\nname: s\nschema: {BOMB}\n"),
        (read_answers, f"smokes: {BOMB}\n"),
        (lambda path: parse_parameters([f"law={path.read_text()}"]), BOMB),
    ],
    ids=["schema", "config", "survey", "study", "answers", "parameter"],
)
def test_aliases_that_stand_for_a_hundred_million_values_are_refused(read, text, tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(SfumatoError, match=r"repeat more than 100,000 values|cannot be read"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_aliases_that_spare_typing_are_read(tmp_path):
    path = tmp_path / "schema.yaml"
    path.write_text(
        "columns:\n- &first {name: a, kind: categorical, role: private, categories: &words [no, yes]}\n"
        "- {<<: *first, name: b}\n- {name: c, kind: categorical, role: private, categories: *words}\n"
    )
    assert [column.categories for column in Schema.load(path).columns] == [("no", "yes")] * 3
    path.write_text("columns: &all [*all]\n")
    with pytest.raises(SchemaError, match="contains it"):
        Schema.load(path)


def test_yaml_is_read_in_one_place():
    root = Path(sfumato.__file__).parent
    readers = {p.name for p in root.rglob("*.py") if re.search(r"yaml\.(safe_load|load|full_load)\b", p.read_text())}
    assert readers == {"schema.py"}


def test_a_missing_file(tmp_path):
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path / "none.yaml")


def test_unknown_column(schema):
    with pytest.raises(SchemaError, match="Did you mean 'age'"):
        schema["aeg"]
    assert schema.with_column("age", high=130)["age"].high == 130
