"""Epsilons computed from a card's own parameters: equal to an honest statement, above an edited one."""

import base64
import dataclasses
import json
import math

import numpy as np
import pytest

from domains import any_records
from sfumato.channels import RandomizedResponse
from sfumato.core.errors import CardError
from sfumato.guarantee import Card, Guarantee
from sfumato.guarantee.card import recomputed, understated
from sfumato.mechanisms import MECHANISMS
from sfumato.noise.response import keep_threshold
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "known from the form"}
LABEL = Column("ill", "categorical", role="label", categories=("no", "maybe", "yes"), **PUBLIC)
MIXED = (
    Column("age", "integer", low=0, high=100, **PUBLIC),
    Column("weight", "numeric", low=2, high=6, missing=True, **PUBLIC),
    Column("sex", "categorical", categories=("f", "m"), **PUBLIC),
    Column("town", "categorical", categories=("a", "b", "c"), missing=True, **PUBLIC),
    Column("grade", "ordinal", categories=("low", "middle", "high"), **PUBLIC),
    Column("site", "numeric", low=3, high=3, **PUBLIC),
)
POSITIVE = (
    Column("weight", "numeric", low=2, high=6, missing=True, **PUBLIC),
    Column("sex", "categorical", categories=("f", "m"), **PUBLIC),
)
BASIS = np.linalg.qr(np.random.default_rng(4).normal(size=(11, 11)))[0][:3].tolist()
MANY = np.random.default_rng(4).normal(size=(25, 11)).tolist()
GUIDANCE = base64.b64encode(np.linalg.qr(np.random.default_rng(4).normal(size=(6, 2)))[0].tobytes()).decode()

CASES = [
    ("additive-noise", {}),
    ("additive-noise", {"scale": 2.0, "category_epsilon": 30.0}),
    ("additive-noise", {"epsilon_record": 4.0}),
    ("additive-noise", {"law": "student-t", "df": 3.0}),
    ("additive-noise", {"law": "normal"}),
    ("additive-noise", {"noise": "float"}),
    ("condensation", {"k": 10}),
    ("guided-projection", {"k": 2}),
    ("guided-projection", {"guidance": GUIDANCE, "floor": 0.2}),
    ("guided-projection", {"guidance": GUIDANCE, "floor": 0.1, "link": "linear", "guidance_reason": "drawn by lot"}),
    ("guided-projection", {"guidance": GUIDANCE, "floor": 0.0}),
    ("kernel-resampling", {}),
    ("kernel-resampling", {"kernel": "gaussian"}),
    ("multiplicative-noise", {}),
    ("noisy-operator", {"law": "laplace", "scale": 0.5}),
    ("principal-laplace", {}),
    ("principal-laplace", {"component_bounds": "data"}),
    ("principal-laplace", {"basis": "identity", "b": 2.0}),
    ("principal-laplace", {"basis": "identity", "epsilon_record": 3.0, "components": 4}),
    ("principal-laplace", {"basis": BASIS, "basis_reason": "drawn by lot", "epsilon_record": 6.0}),
    ("principal-laplace", {"basis": BASIS}),
    ("principal-laplace", {"basis": MANY, "basis_reason": "drawn by lot", "epsilon_record": 6.0}),
    ("random-projection", {}),
    ("random-rotation", {}),
    ("random-rotation", {"noise": "laplace", "scale": 0.7}),
    ("piecewise-noise", {}),
    ("square-wave", {}),
    ("staged-release", {}),
    ("staged-release", {"epsilon_record": 3.0, "noise": "float"}),
    ("square-wave", {"epsilon_record": 6.0, "columns": 3}),
    ("square-wave", {"noise": "float"}),
    ("random-rotation", {"epsilon_record": 5.0}),
    ("random-rotation", {"noise": "normal"}),
    ("randomized-response", {"epsilon": 1.5}),
    ("randomized-response", {"epsilon_record": 6.0}),
]
# Made-up rows: tests/jobs/test_nobodys_rows.py.
CASES += [(name, {}) for name, made in MECHANISMS.items() if name not in dict(CASES) and not made.made_up]


def released(folder, mechanism, parameters, columns=MIXED, **options) -> Card:
    if MECHANISMS[mechanism].only_categories:
        columns = tuple(column for column in columns if column.is_categorical)
    if MECHANISMS[mechanism].not_about_zero:
        columns = POSITIVE
    schema = Schema((*columns, LABEL))
    rng = np.random.default_rng(1)
    encoding = Encoding(schema)
    table = encoding.decode(any_records(encoding, rng, 80), like_original=True)
    table = table.append_column("ill", encoding.decode_label(rng.integers(3, size=80)))
    options = {"mechanism": mechanism, "parameters": parameters, "schema": schema, "unprotected": True, **options}
    return sanitize(table, folder, Options(**options)).card


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("private_label", [False, True])
@pytest.mark.parametrize(("mechanism", "parameters"), CASES, ids=str)
def test_an_honest_card_states_what_is_recomputed(tmp_path, mechanism, parameters, private_label):
    card = released(tmp_path / "r", mechanism, parameters, private_label=private_label)
    found, stated = recomputed(card), card.stated_guarantee()
    assert understated(card) == []
    assert found.kind == stated.kind
    assert found.label_epsilon == stated.label_epsilon
    if stated.in_the_way:
        assert math.isinf(found.proved)
    figures = [(found.component, stated.component), (found.column, stated.column), (found.record, stated.record)]
    assert all(again == pytest.approx(said, rel=1e-9) for again, said in figures)


def claiming(card: Card, factor: float) -> Card:
    """The same card with a guarantee that is `factor` times as large, consistent in itself."""
    stated = card.stated_guarantee()
    less = dataclasses.replace(
        stated,
        component=factor * stated.component,
        column=factor * stated.column,
        record=factor * stated.record,
        label_epsilon=stated.label_epsilon and factor * stated.label_epsilon,
    )
    return Card.from_dict({**card.to_dict(), "guarantee": less.to_dict()})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("additive-noise", {}),
        ("principal-laplace", {"basis": "identity", "components": 4}),
        ("principal-laplace", {}),
        ("principal-laplace", {"basis": MANY, "basis_reason": "drawn by lot"}),
        ("random-rotation", {"noise": "laplace"}),
        ("randomized-response", {}),
        ("guided-projection", {"guidance": GUIDANCE}),
    ],
    ids=str,
)
def test_a_consistent_card_that_claims_less_is_found_out(tmp_path, mechanism, parameters):
    card = released(tmp_path / "r", mechanism, parameters, private_label=True)
    for factor in (0.01, 0.7, 0.999):
        edited = claiming(card, factor)
        assert set(understated(edited)) >= {"epsilon_record", "label_epsilon"}
    assert understated(claiming(card, 1.3)) == []  # to claim more harms nobody


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("mechanism", "parameters"), [("condensation", {}), ("random-projection", {}), ("random-rotation", {})], ids=str
)
def test_what_proves_nothing_cannot_claim_a_guarantee(tmp_path, mechanism, parameters):
    card = released(tmp_path / "r", mechanism, parameters)
    claim = Guarantee(1.0, 1.0, 2.0, exact_label=True).to_dict()
    forged = {**card.to_dict(), "guarantee": claim, "learned_from_data": []}
    edited = Card.from_dict(forged)
    assert edited.is_formal
    assert "kind" in understated(edited)


def test_a_learned_column_hidden_from_the_list_is_still_in_the_way(tmp_path):
    card = released(tmp_path / "r", "additive-noise", {})
    data = card.to_dict()
    data["source_schema"]["columns"][0].update(source="learned")
    edited = Card.from_dict(data)
    assert edited.is_formal
    assert recomputed(edited).kind == "empirical-only"
    assert "kind" in understated(edited)


@pytest.mark.parametrize(
    "channel",
    [
        {"channel": "exact", "columns": 2},
        {"channel": "unstated", "columns": 2, "low": 0.0, "high": 1.0},
        {"channel": "randomized-response", "keep": 1.0, "categories": 2},
    ],
    ids=str,
)
def test_a_category_without_its_response_has_no_bound(tmp_path, channel):
    data = released(tmp_path / "r", "additive-noise", {}).to_dict()
    data["recipe"]["channels"][2] = channel
    assert recomputed(Card.from_dict(data)).record == math.inf


@pytest.mark.parametrize(
    "channel",
    [
        {"channel": "randomized-response", "keep": 0.6, "categories": 400},
        {"channel": "randomized-response", "keep": True, "categories": 2},
        {"channel": "additive", "noise": {"law": "laplace", "scale": 9.0}},
        {"channel": "or-missing", "value": {"channel": "exact"}, "keep": 0.6},
    ],
    ids=str,
)
def test_a_channel_that_carries_no_category_is_refused(tmp_path, channel):
    data = released(tmp_path / "r", "additive-noise", {}).to_dict()
    data["recipe"]["channels"][2] = channel
    with pytest.raises(CardError, match="was edited"):
        Card.from_dict(data)


def test_a_coarse_grid_costs_what_it_can_tell(tmp_path):
    data = released(tmp_path / "r", "principal-laplace", {"basis": "identity", "components": 4, "b": 2.0}).to_dict()
    honest = recomputed(Card.from_dict(data)).column
    for channel in data["recipe"]["channels"]:
        channel["grid"] = channel["noise"]["scale"]
    assert recomputed(Card.from_dict(data)).column == pytest.approx(honest + 4)
    for channel in data["recipe"]["channels"]:
        del channel["grid"]
    plain = recomputed(Card.from_dict(data))
    assert plain.column == pytest.approx(honest)
    assert plain.proved == math.inf
    assert "kind" in understated(Card.from_dict(data))
    assert any("floating-point" in reason for reason in plain.in_the_way)


def test_post_processing_proves_nothing_and_accuses_nobody(tmp_path):
    card = released(tmp_path / "r", "additive-noise", {}, like_original=True)
    assert recomputed(card).proved == math.inf
    assert understated(card) == []


@pytest.mark.parametrize("categories", [2, 3, 17])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 5.0, 20.0, 33.0])
def test_a_keep_probability_gives_its_epsilon_back_from_below(epsilon, categories):
    """To the last digit: what the program compares with, what stands on the card, what is computed from it."""
    made = RandomizedResponse.of_epsilon(epsilon, categories)
    read = RandomizedResponse.from_dict(json.loads(json.dumps(made.to_dict())))
    assert read.threshold == made.threshold <= keep_threshold(epsilon, categories)
    assert read.epsilon == made.epsilon <= epsilon
    assert read.epsilon == pytest.approx(epsilon, rel=3e-2 if epsilon > 30 else 1e-6)


@pytest.mark.parametrize("categories", [2, 3, 1000])
def test_no_finite_epsilon_is_called_understated_for_rounding(categories):
    for epsilon in (*range(30, 60), 700, 1e6):
        assert RandomizedResponse.of_epsilon(float(epsilon), categories).epsilon < math.inf
    assert RandomizedResponse(1.0, categories).epsilon == math.inf  # and what is really kept always stays unprotected


def test_what_is_hindered_is_not_proved():
    assert Guarantee(1.0, 1.0, 2.0).proved == 2.0
    assert Guarantee(1.0, 1.0, 2.0, in_the_way=("a fixed seed",)).proved == math.inf
