"""A respondent's program at first contact: the link, the counts, the floor, witnesses of its own choice, its ticket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from survey_examples import example_survey

from sfumato.channels.guidance.guidance import GuidanceError, SurveyCounts
from sfumato.core.errors import CardError, CoordinatorError, UsageError
from sfumato.study.asked import RespondAsked
from sfumato.study.client.connection import RefusedError
from sfumato.study.client.respondent import Device, NotYetError, TicketBox, prepare, send
from sfumato.study.client.survey_server import SurveyServer, verify_survey, witness_survey
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import guidance_for
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Settings

ANSWERS = {"q0": "yes", "q1": "no", "q2": "yes", "q3": None, "ill": "no"}


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return create_app(Settings(data=tmp_path / "data", worker=False))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def reached(client: TestClient, survey: SurveyStudy, more: str = "") -> SurveyServer:
    study = client.app.state.store.studies.create(survey)[0]  # type: ignore[attr-defined]
    return SurveyServer(f"http://127.0.0.1/survey/#survey={study}{more}", transport=client._transport)


def test_another_survey_than_the_link_names_is_refused(client: TestClient) -> None:
    named = f"&hash={example_survey().hash.removeprefix('sha256:')}"
    assert prepare(reached(client, example_survey(), named), ANSWERS, RespondAsked(max_level=9))
    server = reached(client, example_survey(floor=0.01), named)  # everything fits, but it is another survey
    for work in (lambda: prepare(server, ANSWERS, RespondAsked(max_level=9)), lambda: verify_survey(server)):
        with pytest.raises(CardError, match="not the survey that the link names"):
            work()


def test_guidance_that_does_not_follow_from_its_counts_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in the log, with its right hash; only its counts say that it was made up."""

    def made_up(*given: Any) -> Any:
        honest = guidance_for(*given)
        return replace(honest, V=np.eye(10)[:, : honest.k].copy())

    monkeypatch.setattr("sfumato.study.server.survey.desk.guidance_for", made_up)
    with pytest.raises(GuidanceError, match=r"not what its published counts lead to|level"):
        prepare(reached(client, example_survey()), ANSWERS, RespondAsked(max_level=9))


def test_an_infinite_epsilon_is_refused_unless_it_is_asked_for(client: TestClient) -> None:
    server = reached(client, example_survey(floor=0.0))
    with pytest.raises(NotYetError, match="--max-epsilon inf"):
        prepare(server, ANSWERS, RespondAsked(max_level=9))
    assert prepare(server, ANSWERS, RespondAsked(max_level=9, max_epsilon=float("inf"))).epsilon == float("inf")


def test_witnesses_of_ones_own_must_agree(client: TestClient, tmp_path: Path) -> None:
    server, head = reached(client, example_survey()), tmp_path / "head.json"
    assert prepare(server, ANSWERS, RespondAsked(max_level=9)).witnesses == "not witnessed"
    with pytest.raises(GuidanceError, match="cannot be read"):
        prepare(server, ANSWERS, RespondAsked(max_level=9, pinned=[str(head)]))
    witness_survey(server, head)
    assert prepare(server, ANSWERS, RespondAsked(max_level=9, pinned=[str(head)])).witnesses == "1 of 1 witnesses agree"
    assert verify_survey(server, pinned=[str(head)]).witnesses == "1 of 1 witnesses agree"
    for change in ({"hash": "0" * 64}, {"survey": "sha256:" + "0" * 64}, {"version": 9}):
        seen = json.loads(head.read_text())
        (tmp_path / "other.json").write_text(json.dumps({**seen, **change}))
        other = [str(tmp_path / "other.json")]
        with pytest.raises(GuidanceError, match="another survey or another log"):
            prepare(server, ANSWERS, RespondAsked(max_level=9, pinned=other))
        with pytest.raises(GuidanceError, match="another survey or another log"):
            verify_survey(server, pinned=other)


# Start-up rows


ROWS = [[1, 0, 1, 0, 1, 1], [0, 0, 1, 1, 0, 0], [1, 1, 1, 0, 1, 1]]


def test_start_up_rows_are_never_served_and_the_log_can_still_be_verified(client: TestClient) -> None:
    survey = example_survey(start_up=ROWS)
    server = reached(client, survey, f"&hash={survey.hash.removeprefix('sha256:')}")
    told = client.get(f"/api/v1/surveys/{server.link.identity}").json()
    onehot = [[2 * place + choice for place, choice in enumerate(row[:-1])] for row in ROWS]
    bits = np.zeros((3, 10), dtype=int)
    for row, ones in enumerate(onehot):
        bits[row, ones] = 1
    assert SurveyCounts.from_json(json.dumps(told["survey"]["start_up"])) == SurveyCounts.of(bits, [1, 0, 1])
    stored = client.app.state.store.studies.find(server.link.identity).definition  # type: ignore[attr-defined]
    for public in (told["survey"], json.loads(told["file"]), stored):
        assert public["start_up"].keys() == {"width", "classes"}
        assert all(part.keys() == {"n", "upper"} for part in public["start_up"]["classes"].values())
    found = verify_survey(server)
    assert (found.recomputed, found.pinned, found.survey) == (1, True, survey.hash)
    assert prepare(server, ANSWERS, RespondAsked(max_level=9))


# Tickets


def invited(client: TestClient, codes: int = 1) -> tuple[SurveyServer, list[str]]:
    server = reached(client, example_survey(invitations=True))
    return server, client.app.state.store.surveys.codes.add(server.link.identity, codes)  # type: ignore[attr-defined]


def test_a_program_exchanges_its_invitation_first_and_sends_a_ticket(client: TestClient, tmp_path: Path) -> None:
    server, (code,) = invited(client)
    tickets = TicketBox(tmp_path / "ticket.json")
    looked = prepare(server, ANSWERS, RespondAsked(max_level=9))  # a dry run uses nothing up
    assert looked.drawn.ticket is None
    with pytest.raises(UsageError, match="by invitation"):
        prepare(server, ANSWERS, RespondAsked(max_level=9), Device(tickets=tickets))
    prepared = prepare(server, ANSWERS, RespondAsked(max_level=9), Device(tickets=tickets, code=code))
    assert "code" not in prepared.drawn.to_dict()
    assert tickets.path.stat().st_mode & 0o077 == 0
    again = prepare(
        server, ANSWERS, RespondAsked(max_level=9), Device(tickets=tickets)
    )  # the ticket is there: no code is needed any more
    assert (again.drawn.id, again.drawn.ticket) == (prepared.drawn.id, prepared.drawn.ticket)
    assert send(server, prepared.drawn)
    tickets.clear()
    with pytest.raises(RefusedError, match="already used"):
        prepare(server, ANSWERS, RespondAsked(max_level=9), Device(tickets=tickets, code=code))


def test_a_lost_signature_costs_nothing(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, (code,) = invited(client)
    tickets, exchange = TicketBox(tmp_path / "ticket.json"), SurveyServer.exchange

    def lost(self: SurveyServer, *given: str) -> int:
        exchange(self, *given)
        raise CoordinatorError("away")

    with monkeypatch.context() as patch:
        patch.setattr(SurveyServer, "exchange", lost)
        with pytest.raises(CoordinatorError, match="away"):
            prepare(server, ANSWERS, RespondAsked(max_level=9), Device(tickets=tickets, code=code))
    assert send(server, prepare(server, ANSWERS, RespondAsked(max_level=9), Device(tickets=tickets, code=code)).drawn)
