"""Studies that ask for rows which hide who is in the table: what they may say, and which releases they take."""

import copy

import pytest

from sfumato.core.errors import SchemaError
from sfumato.guarantee import Card
from sfumato.guarantee.all_releases import hidden_presence
from sfumato.release.asked import Presence, Terms
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.study_file import objections, rehearse

PUBLIC = {"source": "public", "reason": "the form says so"}
DEFINITION = {
    "kind": "pool",
    "name": "Two hospitals",
    "schema": {
        "version": 1,
        "columns": [
            {"name": "age", "kind": "integer", "low": 0, "high": 120, **PUBLIC},
            {"name": "ill", "kind": "categorical", "role": "label", "categories": ["no", "yes"], **PUBLIC},
        ],
    },
    "mechanism": {"name": "tree-resampling"},
    "guarantee": {"epsilon": 1.0, "delta": 1e-6},
}
PEOPLE = {"age": list(range(100)) * 4, "ill": ["no", "yes"] * 200}


def study(**changes):
    return PoolStudy.from_dict({**copy.deepcopy(DEFINITION), **changes})


def card_of(study, folder, **options):
    terms = Terms("s", "h", study.schema, study.mechanism, study.parameters, study.epsilon_record, study.presence)
    ledger = folder.parent / "ledger.json"
    return sanitize(PEOPLE, folder, Options(study=terms, ledger=ledger, **options)).card


def test_a_study_settles_epsilon_and_delta_and_takes_what_was_made_so(tmp_path):
    asked = study()
    rehearse(asked)
    assert asked.presence == Presence(1.0, 1e-6)
    assert PoolStudy.from_dict(asked.to_dict()).hash == asked.hash
    first = card_of(asked, tmp_path / "first")
    assert first.mechanism["parameters"]["epsilon"] == 1.0
    assert objections(asked, first) == []
    generous = study(guarantee={"epsilon": 1.5, "delta": 1e-6})
    weaker = card_of(generous, tmp_path / "weaker")
    assert ["presence" in line and "1.5" in line for line in objections(asked, weaker)] == [True]
    assert objections(generous, weaker) == []
    # at a smaller delta the same noise has a larger epsilon
    assert len(objections(study(guarantee={"epsilon": 1.0, "delta": 1e-9}), first)) == 1
    local = study(mechanism={"name": "additive-noise"}, guarantee={"epsilon_record": 8.0})
    assert any("another mechanism" in line for line in objections(asked, card_of(local, tmp_path / "local")))
    seeded = card_of(asked, tmp_path / "seeded", seed=1)
    assert any("hide who is in the table" in line for line in objections(asked, seeded))


def test_presence_is_told_with_earlier_releases_and_not_where_records_were_perturbed(tmp_path):
    first = hidden_presence(card_of(study(), tmp_path / "first").to_dict())
    pure = card_of(study(guarantee={"epsilon": 0.5, "delta": 0}), tmp_path / "pure")
    together = hidden_presence(Card.load(tmp_path / "pure").to_dict())
    assert first.epsilon == pytest.approx(1.0, rel=1e-3)
    assert pure.guarantee["central"]["epsilon"] == pytest.approx(0.5, rel=1e-3)
    assert 1.0 < together.epsilon <= 1.5
    perturbed = {**pure.to_dict(), "earlier_releases": {"count": 1, "total_epsilon_record": 8.0}}
    assert hidden_presence(perturbed) is None
    assert hidden_presence({}) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"guarantee": {"epsilon_record": 1.0}}, "guarantee: {epsilon: 1.0"),
        ({"mechanism": {"name": "additive-noise"}}, "blurs records one by one"),
        ({"mechanism": {"name": "tree-resampling", "parameters": {"epsilon": 2.0}}}, "come to an epsilon of 2"),
        (
            {
                "guarantee": {"epsilon": 1.0, "delta": 0.0},
                "mechanism": DEFINITION["mechanism"] | {"parameters": {"delta": 1e-6}},
            },
            "no epsilon at all",
        ),
        ({"guarantee": {"epsilon": "1", "delta": 1e-6}}, "YAML needs the points"),
        ({"guarantee": {"epsilon": 1.0, "delta": 1.0}}, "must be"),
        ({"guarantee": {"epsilon": True, "delta": 1e-6}}, "must be"),
        ({"guarantee": {"epsilon": 1.0}}, "must be"),
    ],
)
def test_a_study_that_nobody_could_follow_is_refused(changes, why):
    with pytest.raises(SchemaError, match=why):
        rehearse(study(**changes))


def test_nothing_is_reconstructed_where_rows_are_drawn():
    assert study().reconstructible() == ()
