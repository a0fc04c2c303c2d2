"""A study file says what every release must be, and its hash is what people compare."""

import copy
import datetime

import pytest
import yaml

from sfumato.core.errors import SfumatoError
from sfumato.study.protocol.agreed import canonical_json, check_name
from sfumato.study.protocol.study_file import load_study, study_from_dict

PUBLIC = {"source": "public", "reason": "the form says so"}
POOL = {
    "kind": "pool",
    "name": "Four hospitals",
    "schema": {
        "version": 1,
        "columns": [
            {"name": "age", "kind": "integer", "low": 0, "high": 120, **PUBLIC},
            {"name": "sex", "kind": "categorical", "categories": ["f", "m"], **PUBLIC},
            {"name": "ill", "kind": "categorical", "role": "label", "categories": ["no", "yes"], **PUBLIC},
        ],
    },
    "mechanism": {"name": "additive-noise", "parameters": {"epsilon_record": 6}},
    "guarantee": {"epsilon_record": 6.0},
}


def study(**changes):
    return study_from_dict({**copy.deepcopy(POOL), **changes})


def test_a_study_survives_writing_and_reading(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(POOL))
    loaded = load_study(path)
    assert loaded == study()
    again = study_from_dict(loaded.to_dict())
    assert again == loaded
    assert again.hash == loaded.hash
    assert loaded.hash.startswith("sha256:")
    assert loaded.kind == "pool"


def test_the_hash_changes_with_every_field():
    changes = [
        {"name": "Five hospitals"},
        {"description": "more"},
        {"guarantee": {"epsilon_record": 7.0}},
        {"guarantee": "empirical-allowed"},
        {"mechanism": {"name": "additive-noise"}},
        {"space": "sha256:" + "0" * 64},
        {"classifiers": ["forest"]},
        {"largest_site_share": 0.4},
        {"largest_site_share": 0.5},
    ]
    assert len({study().hash, *(study(**change).hash for change in changes)}) == len(changes) + 1


def test_a_study_without_a_cap_keeps_its_hash():
    """Sites agreed on hashes before there were caps."""
    assert "largest_site_share" not in study().to_dict()
    assert study(largest_site_share=None).hash == study().hash
    assert study_from_dict(study(largest_site_share=0.4).to_dict()).largest_site_share == 0.4


def test_classifiers_with_parameters_have_one_spelling():
    """However they are written; those without parameters keep the hash that they always had."""
    named = study(classifiers=["naive-bayes", {"name": "svm", "parameters": {"scaled": False, "kernel": "sigmoid"}}])
    assert named.to_dict()["classifiers"] == ["naive-bayes", "svm kernel=sigmoid scaled=false"]
    assert named.hash == study(classifiers=["naive-bayes", "svm kernel=sigmoid scaled=false"]).hash
    assert study(classifiers=["naive-bayes", {"name": "knn", "parameters": {"k": 11}}]).hash == study().hash
    assert study_from_dict(named.to_dict()) == named


def test_the_hash_is_that_of_canonical_json():
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})


def test_the_space_is_computed_where_the_schema_settles_it():
    computed = study(space=None).space
    assert computed == study(mechanism={"name": "condensation"}, guarantee="empirical-allowed").space
    mixed = {"name": "principal-laplace", "parameters": {"basis": "identity"}}
    assert study(mechanism=mixed).space != computed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "poll"}, "kind"),
        ({"kind": ["pool"]}, "kind"),
        ({"colour": 1}, "unknown key 'colour'"),
        ({"name": "two\nlines"}, "one line"),
        ({"name": ""}, "one line"),
        ({"description": ["x"]}, "description"),
        ({"schema": {"columns": POOL["schema"]["columns"][:2]}, "classifiers": ["knn"]}, "no column for them"),
        ({"schema": 4}, "columns"),
        ({"mechanism": "additive-noise"}, "mechanism"),
        ({"mechanism": {"name": "subtractive-noise"}}, "no method"),
        ({"mechanism": {"name": "additive-noise", "parameters": {"loud": 1}}}, "no parameter 'loud'"),
        ({"mechanism": {"name": "additive-noise", "parameters": [1]}}, "parameters"),
        ({"mechanism": {"name": ["additive-noise"]}}, "mechanism"),
        ({"mechanism": {"name": "additive-noise", "parameters": {"scale": float("inf")}}}, "no hash"),
        ({"mechanism": {"name": "additive-noise", "parameters": {"scale": datetime.date(2026, 1, 1)}}}, "no hash"),
        ({"mechanism": {"name": "random-rotation"}}, "needs a `space`"),
        ({"mechanism": {"name": "principal-laplace"}}, "needs a `space`"),
        ({"guarantee": "strong"}, "guarantee"),
        ({"guarantee": {"epsilon_record": 0}}, "guarantee"),
        ({"guarantee": {"epsilon_record": True}}, "guarantee"),
        ({"guarantee": {"epsilon_record": float("nan")}}, "guarantee"),
        ({"guarantee": {"epsilon_column": 1.0}}, "guarantee"),
        ({"space": "sha256:0"}, "space"),
        ({"classifiers": ["oracle"]}, "no classifier"),
        ({"classifiers": "knn"}, "list"),
        ({"classifiers": [["knn"]]}, "must be a name"),
        ({"classifiers": ["knn k=0"]}, "'k' parameter of knn must be a whole number from 1"),
        ({"classifiers": ["knn neighbours=3"]}, "has no parameter 'neighbours'. It has: k, weights"),
        ({"classifiers": [{"parameters": {"k": 3}}]}, "must be a name"),
        ({"classifiers": [{"name": "knn", "parameters": [3]}]}, "names with values"),
        ({"largest_site_share": 0}, "largest_site_share"),
        ({"largest_site_share": 1.0}, "largest_site_share"),
        ({"largest_site_share": True}, "largest_site_share"),
        ({"largest_site_share": "half"}, "largest_site_share"),
    ],
    ids=str,
)
def test_a_wrong_study_is_refused_in_words(changes, words):
    with pytest.raises(SfumatoError, match=words):
        study(**changes)


def test_a_formal_study_needs_public_columns():
    schema = copy.deepcopy(POOL["schema"])
    schema["columns"][0].update(source="learned")
    with pytest.raises(SfumatoError, match="source: public"):
        study(schema=schema)
    assert study(schema=schema, guarantee="empirical-allowed").epsilon_record is None


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SfumatoError, match=r"none\.yaml"):
        load_study(tmp_path / "none.yaml")


@pytest.mark.parametrize("name", ["St. Mary", "Universitätsspital Zürich", "東京", "site_1", "a", "x" * 60])
def test_names_in_any_language(name):
    assert check_name(name, "site") == name


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "..", "../etc", "a/b", "a\\b", "<b>x</b>", "a\n", "a\x00", "x" * 61, "a&b", 'a"b', None, 3]
)
def test_names_that_are_more_than_a_name(name):
    with pytest.raises(SfumatoError, match="name of a site"):
        check_name(name, "site")
