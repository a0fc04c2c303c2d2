"""Tickets: a code gives one signature, the signature is RSA-PSS, and what was signed could have been any name."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from survey_double import PAGE
from survey_examples import example_survey, message
from ticket_holder import Holder

from sfumato.core.errors import CardError, SchemaError
from sfumato.study.protocol.agreed import blind, encoded, is_good, read_key, read_number, unblinded, write_number
from sfumato.study.protocol.agreed import message as said
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
from sfumato.study.server.store.survey_store import MIXED, Exchange, TicketKey

CASES = json.loads((Path(__file__).resolve().parent.parent / "vectors" / "tickets.json").read_text())["cases"]
NODE = shutil.which("node")


@pytest.fixture(scope="module")
def key() -> TicketKey:
    return TicketKey.new()


# The signatures


def test_a_ticket_is_what_openssl_calls_a_pss_signature(key: TicketKey) -> None:
    n = read_key(key.public)
    hidden = blind(n, "sha256:s", "name")
    ticket = unblinded(n, "sha256:s", "name", hidden.inverse, key.sign(hidden.hidden))
    assert key.is_good("sha256:s", "name", ticket)
    assert is_good(n, "sha256:s", "name", read_number(ticket))
    for survey, name in (("sha256:s", "other"), ("sha256:t", "name")):
        assert not key.is_good(survey, name, ticket)
        assert not is_good(n, survey, name, read_number(ticket))
    for bad in ("", ticket[:-1], "A" * 342, "_" * 342, ticket[:-1] + "é"):
        assert not key.is_good("sha256:s", "name", bad)


def test_every_name_could_have_been_behind_what_was_signed(key: TicketKey) -> None:
    """For any other name there is a factor that gives the same blinded number: it says nothing about the name."""
    n = read_key(key.public)
    hidden = blind(n, "sha256:s", "mine").hidden
    for other in ("yours", "theirs"):
        ratio = hidden * pow(encoded(said("sha256:s", other)), -1, n) % n
        factor = key.sign(ratio)  # the root that the key's holder can take
        assert blind(n, "sha256:s", other, factor).hidden == hidden


def test_a_server_that_signs_something_else_is_refused(key: TicketKey) -> None:
    n = read_key(key.public)
    hidden = blind(n, "sha256:s", "name")
    with pytest.raises(CardError, match="signed something other"):
        unblinded(n, "sha256:s", "name", hidden.inverse, key.sign(hidden.hidden + 1))
    with pytest.raises(CardError, match="signed something other"):  # a key of its own for one respondent
        unblinded(n, "sha256:s", "name", hidden.inverse, TicketKey.new().sign(hidden.hidden // 2))


@pytest.mark.parametrize("text", ["", "A" * 342, "x" * 341, "!" * 342, 7, write_number(2**2047 + 2)])
def test_what_is_no_key_is_refused(text: object) -> None:
    with pytest.raises(SchemaError, match="ticket_key"):
        example_survey(invitations=True, ticket_key=text)


def test_a_key_without_invitations_is_refused(key: TicketKey) -> None:
    with pytest.raises(SchemaError, match="by invitation"):
        example_survey(ticket_key=key.public)
    assert example_survey(invitations=True, ticket_key=key.public).hash != example_survey(invitations=True).hash


def test_the_vectors_are_those_of_the_library() -> None:
    for case in CASES:
        n = read_key(case["key"])
        made = blind(n, case["survey"], case["name"], read_number(case["factor"]))
        assert (write_number(made.hidden), write_number(made.inverse)) == (case["hidden"], case["inverse"])
        ticket = unblinded(n, case["survey"], case["name"], made.inverse, read_number(case["signature"]))
        assert ticket == case["ticket"]


REPLAY = """
import { blind, unblind } from "file://%s/ticket.js";
let text = "";
for await (const piece of process.stdin) text += piece;
const found = [];
for (const { key, survey, name, factor, signature } of JSON.parse(text)) {
  const bytes = Uint8Array.from(Buffer.from(factor, "base64url"));
  const made = await blind(key, survey, name, () => bytes);
  const ticket = await unblind(key, survey, name, made.inverse, signature);
  const other = await unblind(key, survey, name + "x", made.inverse, signature).catch((error) => error.reason);
  found.push({ ...made, ticket, other });
}
console.log(JSON.stringify(found));
"""


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_page_makes_the_same_tickets() -> None:
    command = [str(NODE), "--input-type=module", "-e", REPLAY % PAGE]
    done = subprocess.run(command, input=json.dumps(CASES), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for case, found in zip(CASES, json.loads(done.stdout), strict=True):
        assert found == {**{name: case[name] for name in ("hidden", "inverse", "ticket")}, "other": "ticket_bad"}


# The exchange


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else None
    store = Store.open(Settings(data=tmp_path, database=url))
    yield store
    store.close()


def test_a_code_is_good_for_one_blinded_name_for_ever(store: Store) -> None:
    codes = store.surveys.codes
    study = store.studies.create(example_survey(invitations=True))[0]
    other = store.studies.create(example_survey(invitations=True))[0]
    one, two, three = (code.encode() for code in codes.add(study, 3))
    a, b, c = (bytes([letter]) * 32 for letter in b"abc")
    assert codes.exchange(study, [Exchange(one, a), Exchange(b"unknown", a)]) == [True, False]
    assert codes.exchange(study, [Exchange(one, a)]) == [True]  # the signature was lost on its way
    assert codes.exchange(study, [Exchange(one, b)]) == [False]
    assert codes.exchange(study, [Exchange(two, b), Exchange(two, c), Exchange(two, b)]) == [True, False, True]
    assert codes.exchange(other, [Exchange(three, a)]) == [False]
    assert codes.counts(study) == (3, 2)
    assert codes.exchange(study, [Exchange(three, bytes(32))]) == [True]


def test_of_many_used_codes_some_are_written_anew(store: Store) -> None:
    codes = store.surveys.codes
    study = store.studies.create(example_survey(invitations=True))[0]
    asked = [Exchange(code.encode(), code.encode().ljust(32)) for code in codes.add(study, 2 * MIXED + 1)]
    assert codes.exchange(study, asked[:-1]) == [True] * (2 * MIXED)
    assert codes.exchange(study, asked[-1:]) == [True]
    assert codes.exchange(study, asked) == [True] * len(asked)  # nothing else changed


# Over HTTP


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return create_app(Settings(data=tmp_path / "data", worker=False))


def test_an_invitation_becomes_one_answer(app: FastAPI) -> None:
    study = app.state.store.studies.create(example_survey(invitations=True))[0]
    where = f"/api/v1/surveys/{study}"
    with TestClient(app) as client:
        survey = SurveyStudy.from_dict(client.get(where).json()["survey"])
        assert survey.ticket_key
        code, spare = app.state.store.surveys.codes.add(study, 2)
        person, thief = Holder(survey, code), Holder(survey, code)
        first = client.post(f"{where}/tickets", json=person.asks())
        assert first.status_code == 200
        assert client.post(f"{where}/tickets", json=person.asks()).json() == first.json()
        refused = client.post(f"{where}/tickets", json=thief.asks())
        assert (refused.status_code, refused.json()["error"]) == (403, "bad-code")
        ticket = person.ticket(first.json())
        for more in ({}, {"ticket": "x"}, {"ticket": ticket}):  # a ticket is good for its own name alone
            refused = client.post(f"{where}/answers", content=message([1], **more))
            assert (refused.status_code, refused.json()["error"]) == (403, "bad-ticket")
        body = message([1], id=person.name, ticket=ticket)
        assert client.post(f"{where}/answers", content=body).status_code == 201
        assert client.post(f"{where}/answers", content=body).status_code == 200
        other = message([2], id=person.name, ticket=ticket)
        assert client.post(f"{where}/answers", content=other).status_code == 409
        for body in (b"{", b'{"code": "a"}', json.dumps({"code": spare, "blinded": "A" * 342}).encode()):
            refused = client.post(f"{where}/tickets", content=body)
            assert (refused.status_code, refused.json()["error"]) == (422, "malformed")
        assert app.state.store.surveys.codes.counts(study) == (2, 1)


def test_a_survey_without_invitations_has_no_tickets_and_a_closed_one_gives_none(app: FastAPI) -> None:
    store = app.state.store
    free = store.studies.create(example_survey())[0]
    over = store.studies.create(example_survey(invitations=True, closes="2020-01-01"))[0]
    with TestClient(app) as client:
        assert client.post(f"/api/v1/surveys/{free}/tickets", json={}).json()["error"] == "no-invitations"
        assert client.post(f"/api/v1/surveys/{over}/tickets", json={}).status_code == 410
    survey = study_from_dict(store.studies.find(free).definition)
    assert survey == example_survey()
