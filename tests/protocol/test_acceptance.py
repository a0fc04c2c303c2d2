"""One list of objections, the same at the site and at the server."""

import copy
import dataclasses
import json

import pytest

from sfumato.core.errors import CardError
from sfumato.guarantee import Card, Key
from sfumato.release.check_rows import read_card
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.protocol.study_file import objections, study_from_dict
from sfumato.table import Schema

PUBLIC = {"source": "public", "reason": "the form says so"}
COLUMNS = [
    {"name": "age", "kind": "integer", "low": 0, "high": 120, **PUBLIC},
    {"name": "sex", "kind": "categorical", "categories": ["f", "m"], **PUBLIC},
    {"name": "ill", "kind": "categorical", "role": "label", "categories": ["no", "yes"], **PUBLIC},
]
TABLE = {"age": [10, 20, 30, 40] * 5, "sex": ["f", "m", "m", "m"] * 5, "ill": ["no", "yes"] * 10}


def study(columns=COLUMNS, mechanism="additive-noise", parameters=None, guarantee=None, **more):
    return study_from_dict(
        {
            "kind": "pool",
            "name": "test",
            "schema": {"columns": copy.deepcopy(columns)},
            "mechanism": {"name": mechanism, "parameters": parameters or {}},
            "guarantee": guarantee or {"epsilon_record": 6.0},
            **more,
        }
    )


@pytest.fixture
def release(tmp_path):
    def make(columns=COLUMNS, mechanism="additive-noise", parameters=None, table=TABLE, **options) -> Card:
        schema = Schema.from_dict({"columns": copy.deepcopy(columns)})
        parameters = {"epsilon_record": 6.0} if parameters is None else parameters
        chosen = Options(mechanism=mechanism, parameters=parameters, schema=schema, **options)
        return sanitize(table, tmp_path / f"r{len(list(tmp_path.iterdir()))}", chosen).card

    return make


def changed(column, **changes):
    columns = copy.deepcopy(COLUMNS)
    columns[column].update(changes)
    return columns


def test_what_the_study_asks_for_is_taken(release):
    assert objections(study(), release()) == []
    assert objections(study(parameters={"epsilon_record": 6}), release()) == []
    assert objections(study(), release(parameters={"scale": 1.0})) == []
    assert objections(study(guarantee={"epsilon_record": 8.0}), release(private_label=True)) == []


def test_reasons_and_weights_may_differ_between_sites(release):
    assert objections(study(), release(changed(0, reason="our own words"))) == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (changed(0, low=1), "'age': 'low' differs"),
        (changed(0, high=100), "'age': 'high' differs"),
        (changed(0, missing=True), "'age': 'missing' differs"),
        (changed(0, kind="numeric"), "'age': 'kind' differs"),
        (changed(1, categories=["m", "f"]), "'sex': 'categories' differs"),
        (changed(2, categories=["yes", "no"]), "'ill': 'categories' differs"),
        ([COLUMNS[1], COLUMNS[0], COLUMNS[2]], "columns are not the study's"),
        (COLUMNS[1:], "columns are not the study's"),
    ],
)
def test_another_schema_is_refused(release, columns, words):
    found = objections(study(), release(columns))
    assert any(words in reason for reason in found), found


def test_rows_without_labels_are_refused(release):
    assert "no label" in " ".join(objections(study(), release(unlabelled=True)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mechanism": "condensation", "parameters": {"k": 5}}, "asks for additive-noise"),
        ({"parameters": {"epsilon_record": 6.5}}, "at most 6 for the record"),
        ({"parameters": {"scale": 0.3}}, "at most 6 for the record"),
        ({"parameters": {"noise": "float"}}, "floating-point noise"),
        ({"parameters": {"law": "normal"}}, "has none"),
        ({"seed": 3}, "fixed seed"),
        ({"experiment": True}, "without --experiment"),
        ({"like_original": True}, "another space"),
        ({"columns": changed(0, source="learned", reason=None)}, "bounds or categories of column 'age'"),
    ],
    ids=str,
)
def test_a_weaker_release_is_refused(release, options, words):
    found = objections(study(), release(**options))
    assert any(words in reason for reason in found), found


def test_given_parameters_are_binding(release):
    fixed = study(parameters={"law": "laplace", "scale": 2.0})
    assert objections(fixed, release(parameters={"scale": 2.0})) == []
    assert "scale=2.0" in " ".join(objections(fixed, release(parameters={"scale": 2.1})))


def test_a_fraction_of_components_is_what_it_comes_to(release):
    parameters = {"basis": "identity", "components": 0.5}
    asked = study(mechanism="principal-laplace", parameters=parameters, guarantee="empirical-allowed")
    assert objections(asked, release(mechanism="principal-laplace", parameters=parameters)) == []
    other = release(mechanism="principal-laplace", parameters={"basis": "identity", "components": 3})
    assert "components=2" in " ".join(objections(asked, other))


def test_a_rotation_by_another_key_lies_elsewhere(release, tmp_path):
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    card = release(mechanism="random-rotation", key=ours)
    asked = study(mechanism="random-rotation", space=card.space)
    assert objections(asked, release(mechanism="random-rotation", key=ours)) == []
    assert Key.load(ours)
    assert "another space" in " ".join(objections(asked, release(mechanism="random-rotation", key=theirs)))


def test_a_card_that_claims_less_than_it_did_is_refused(release):
    card = release(parameters={"scale": 0.1})
    claim = dataclasses.replace(card.stated_guarantee(), component=1.0, column=1.0, record=2.0)
    edited = Card.from_dict({**card.to_dict(), "guarantee": claim.to_dict()})
    found = objections(study(), edited)
    assert any("states less" in reason for reason in found)
    assert any("at most 6" in reason for reason in found)
    assert any("states less" in reason for reason in objections(study(guarantee="empirical-allowed"), edited))


@pytest.mark.parametrize(
    "damage",
    [
        {"source_schema": {"columns": []}},
        {"source_schema": {"columns": [{"name": "age", "kind": "wild"}]}},
        {"mechanism": {"name": "additive-noise", "parameters": {"scale": {"a": 1}}}},
    ],
    ids=str,
)
def test_a_damaged_card_is_an_objection_and_no_crash(release, damage):
    card = dataclasses.replace(release(), **damage)
    assert isinstance(objections(study(parameters={"scale": 1.0}), card), list)
    assert objections(study(parameters={"scale": 1.0}), card) != []


def test_a_card_with_strange_noise_is_an_objection(release):
    for noise in ({"law": "laplace", "scale": -1}, {"law": "laplace"}, {"law": "tidal"}, {"law": "laplace", "x": []}):
        data = release().to_dict()
        data["recipe"]["channels"][0]["noise"] = noise
        with pytest.raises(CardError, match="is impossible"):
            read_card(json.dumps(data))
        assert objections(study(), dataclasses.replace(release(), recipe=data["recipe"])) != []


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe", b"[]", b"{}", b'{"rows": NaN}', b"null", b"[" * 100_000, b'{"version": 9}']
)
def test_text_that_is_no_card_is_refused(text):
    with pytest.raises(CardError):
        read_card(text)


def test_an_embedded_card_is_read_back(release):
    card = release()
    assert read_card(card.to_json()).to_dict() == json.loads(card.to_json())
