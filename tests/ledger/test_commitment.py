"""Commitments: what an owner says of a release in public, and what several of them come to."""

from __future__ import annotations

import json
import random
import re

import pytest

from sfumato import sanitize
from sfumato.core.errors import CardError, UsageError
from sfumato.guarantee.cost import Central, Values, epsilon_of
from sfumato.guarantee.signer import Signer
from sfumato.ledger.notes import Checkpoint, NoteSigner, leaf_hash, nodes_of, root_of
from sfumato.ledger.public_log import (
    AtLeast,
    Commitment,
    LogCopy,
    Logged,
    commitment_entry,
    commitments,
    in_log,
    read_commitment,
)
from sfumato.table import Column, Schema

KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = Schema(
    (
        Column("age", "integer", low=0, high=120, **KNOWN),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)
PEOPLE = {"age": [number % 100 for number in range(200)], "ill": ["no", "yes"] * 100}
NAME, LOG = "patients of North", NoteSigner.new("study.example/log")


def commitment(card="a" * 64, local=1.0, central=None, person=None, population=NAME):
    values = Values(local, central)
    return Commitment(population=population, card=card, record=values, person=person or values)


def logged(*some):
    return [Logged(number, one, "a-b") for number, one in enumerate(some)]


def copy_of(entries):
    root = root_of(nodes_of([leaf_hash(one) for one in entries]), len(entries))
    return LogCopy(LOG.key, Checkpoint(LOG.key.name, len(entries), root).signed_by(LOG), tuple(entries))


@pytest.fixture
def signer(tmp_path):
    return Signer.at(tmp_path / "signer")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two releases of one table by one owner: a blurred one, then made-up rows."""
    folder = tmp_path_factory.mktemp("committed")
    words = {"schema": SCHEMA, "ledger": folder / "ledger"}
    sanitize(PEOPLE, out=folder / "blurred", mechanism="additive-noise", epsilon_record=4, **words)
    sanitize(PEOPLE, out=folder / "drawn", mechanism="tree-resampling", epsilon=1, **words)
    return folder


def test_a_commitment_comes_back_with_its_signer(signer):
    what = commitment(central=Central(rho=0.1, delta=1e-6, replaced=0.2))
    found, key = read_commitment(what.signed(signer))
    assert found == what
    assert key == signer.public


def test_what_is_committed_to_is_this_release_alone(home):
    """The card of the second release adds up both for its people, by comparing rows: that is never logged."""
    card = json.loads((home / "drawn" / "card.json").read_text())
    assert card["earlier_releases"]["count"] == 1
    found = Commitment.of(home / "drawn", f"  {NAME} ")
    assert found.population == NAME
    assert found.record.local == 0.0
    assert found.record.central == Central.from_dict(card["guarantee"]["central"])
    assert set(found.to_dict()) == {"population", "card", "record", "person"}
    assert not re.search(r"(?<![\w.])200(?![\w.])", json.dumps(found.to_dict()))
    assert Commitment.of(home / "blurred", NAME).record == Values(4.0)


def test_the_sum_is_local_epsilons_and_one_epsilon_of_all_rho():
    """Of made-up rows the rho add up, under replacement, and become epsilon once."""
    one, two = Central(rho=0.01, delta=1e-6, replaced=0.02), Central(rho=0.03, delta=1e-6, replaced=0.05)
    every = logged(commitment("a" * 64, 1.5), commitment("b" * 64, 0.0, one), commitment("c" * 64, 0.25, two))
    total = AtLeast.of(NAME, every)
    assert total.person.epsilon == pytest.approx(1.75 + epsilon_of(0.07, 1e-6), rel=1e-9)
    assert total.person.epsilon < 1.75 + epsilon_of(0.02, 1e-6) + epsilon_of(0.05, 1e-6)
    assert total.in_words().startswith(
        "At least, of what was logged: 3 releases of 'patients of North', in all epsilon"
    )


def test_no_bound_where_one_has_none():
    total = AtLeast.of(NAME, logged(commitment(), commitment("b" * 64, float("inf"))))
    assert not total.person.bounded
    assert "no bound, since nothing is proved of 1 of them" in total.in_words()
    assert total.to_dict()["person"]["epsilon"] is None


def test_a_person_without_a_bound_leaves_the_row():
    total = AtLeast.of(NAME, logged(commitment(person=Values(float("inf")))))
    assert "in all epsilon 1 for one row" in total.in_words()


def test_a_release_counts_once_at_its_worst():
    total = AtLeast.of(NAME, logged(commitment(local=1.0), commitment(local=2.0), commitment(local=0.5)))
    assert (total.releases, total.person.epsilon) == (1, 2.0)


@pytest.mark.parametrize(
    "change",
    [
        {"population": ""},
        {"population": " a"},
        {"population": "a\nb"},
        {"population": "a" * 201},
        {"card": "A" * 64},
        {"card": "a" * 63},
        {"record": {"local": -1.0, "central": None}},
        {"record": {"local": float("nan"), "central": None}},
        {"record": {"local": 0.0, "central": {"pure": -1, "rho": 0, "delta": 0}}},
        {"record": {"local": 0.0, "central": {"pure": 0, "rho": -1, "delta": 0.1}}},
        {"record": {"local": 0.0, "central": {"pure": 0, "rho": 1, "delta": 1.5}}},
        {"record": {"local": "x"}},
        {"record": []},
        {"rows": 200},
    ],
)
def test_what_cannot_be_is_refused_though_it_is_signed(signer, change):
    text = json.dumps({**commitment().to_dict(), **change})
    with pytest.raises(CardError, match="cannot be read"):
        read_commitment({"text": text, "signature": signer.sign(text.encode(), "sfumato-commitment")})


def test_a_signature_of_something_else_is_refused(signer):
    sent = commitment().signed(signer)
    with pytest.raises(CardError):
        read_commitment({**sent, "text": sent["text"].replace("North", "South")})
    with pytest.raises(CardError, match="another purpose"):
        read_commitment({**sent, "signature": signer.sign(sent["text"].encode())})
    for wrong in ({}, {"text": 1, "signature": 2}, {**sent, "signature": ""}):
        with pytest.raises(CardError):
            read_commitment(wrong)


def test_no_edited_commitment_is_believed(signer):
    """A hundred edits of the text or of the signature; an entry that is edited in the log itself breaks its tree."""
    sent, chance = commitment().signed(signer), random.Random(3)
    for _ in range(100):
        name = chance.choice(["text", "signature"])
        at = chance.randrange(len(sent[name]))
        text = sent[name][:at] + chance.choice('0aA9 \n{"') + sent[name][at + chance.randint(0, 2) :]
        if text != sent[name]:
            with pytest.raises(CardError):
                read_commitment({**sent, name: text})


def test_a_name_that_is_too_long_is_the_users_mistake(home):
    with pytest.raises(UsageError, match="one line of at most 200"):
        Commitment.of(home / "blurred", "a" * 300)


def told(home, *entries, folder="drawn", signed_by=None):
    return [(one.state, one.sentence) for one in in_log(home / folder, copy_of(entries), signed_by)]


def test_verify_says_what_the_log_has(home, signer):
    entries = [
        commitment_entry(Commitment.of(home / name, NAME).signed(signer), "2026-01-01") for name in ("blurred", "drawn")
    ]
    (first, second) = told(home, *entries)
    assert first[0] == "ok"
    assert "2 releases of 'patients of North', in all epsilon 4.9" in first[1]
    assert second == ("cannot check", "What was released of these people and not logged, or logged under another name.")
    other = commitment_entry(commitment("f" * 64, population="others").signed(signer), "2026-01-01")
    assert "2 releases" in told(home, *entries, other)[0][1]
    assert told(home, entries[0])[0][0] == "cannot check"
    assert "is not in the log study.example/log" in told(home)[0][1]
    assert "is not in the log" in told(home, *entries, signed_by="another-key")[0][1]
    assert told(home, *entries, signed_by=signer.fingerprint)[0] == first


def test_verify_finds_a_log_that_says_less_than_the_card(home, signer):
    less = Commitment.of(home / "blurred", NAME)
    less = Commitment(population=NAME, card=less.card, record=Values(1.0), person=Values(1.0))
    ((state, sentence),) = told(home, commitment_entry(less.signed(signer), "2026-01-01"), folder="blurred")
    assert (state, "another guarantee than the card" in sentence) == ("wrong", True)


def test_what_is_no_commitment_counts_for_nothing(signer):
    good = commitment_entry(commitment().signed(signer), "2026-01-01")
    bad = json.loads(good)
    bad["text"] = bad["text"].replace("North", "South")
    assert [one.number for one in commitments(copy_of([b"{}", json.dumps(bad).encode(), good]))] == [2]
