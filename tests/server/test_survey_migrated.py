"""Surveys that version 0.1.0 made: rows leave the public file, invitations get a key, and the log goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from first_version import first_version
from sqlalchemy import text
from starlette.testclient import TestClient
from survey_examples import example_survey, some_answer

from sfumato.study.client.survey_server import SurveyServer, verify_survey
from sfumato.study.protocol.spelling import hash_of
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
from sfumato.study.server.store.log_store import LogStore
from sfumato.study.server.store.token_store import Exchange
from sfumato.study.server.survey.desk import SurveyDesk

ROWS = [[1, 0, 1, 0, 1, 1], [0, 0, 1, 1, 0, 0], [1, 1, 1, 0, 1, 1]]
CASES = {
    "rows": {"start_up": ROWS},
    "invitations": {"invitations": True},
    "both": {"start_up": ROWS, "invitations": True},
    "neither": {},
}


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    url = request.getfixturevalue("cluster").new_database() if request.param == "postgresql" else None
    return Settings(data=tmp_path / "data", database=url, worker=False)


def as_it_was(store: Store, name: str, changes: dict[str, Any]) -> str:
    """A survey with a log of two versions and two codes, one of them used, as the older version kept them."""
    found = {**example_survey(**{**changes, "invitations": False}).to_dict(), **changes}
    before = hash_of(found)
    # The old guidance followed from the old hash, and knew no tickets.
    survey = replace(SurveyStudy.from_dict({**found, "invitations": False}), origin=before)
    with store.database.writing() as connection:
        connection.execute(
            text("INSERT INTO studies VALUES (:id, 'survey', 'Habits', :hash, :definition, '2026-11-20', 'open')"),
            {"id": name, "hash": before, "definition": json.dumps(found)},
        )
        for code, used in (("fresh", False), ("gone", True)):
            digest = hashlib.sha256(f"{name} {code}".encode()).digest()
            kept = text("INSERT INTO survey_codes (study, hash, used) VALUES (:study, :hash, :used)")
            connection.execute(kept, {"study": name, "hash": digest, "used": used})
    surveys = store.surveys
    desk, rng = SurveyDesk(surveys, name, survey), np.random.default_rng(1)
    surveys.add(name, [some_answer(rng) for _ in range(25)])
    assert desk.close_batches() == 1
    return before


def test_older_surveys_are_brought_up_to_date(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(LogStore, "append", lambda *_: None)  # which that version had not
        settings.data.mkdir()
        store = first_version(settings)
        hashes = {name: as_it_was(store, name, changes) for name, changes in CASES.items()}
        heads = {name: store.surveys.version(name).entry.hash for name in CASES}  # type: ignore[union-attr]
        store.close()
    app = create_app(settings)
    with TestClient(app) as client:
        for name, changes in CASES.items():
            told = client.get(f"/api/v1/surveys/{name}").json()
            survey = SurveyStudy.from_dict(told["survey"])
            assert survey.root == hashes[name]
            assert (survey.hash == hashes[name]) is (name == "neither")
            assert (survey.ticket_key is not None) is ("invitations" in changes)
            assert isinstance(told["survey"]["start_up"], dict) is ("start_up" in changes)
            pinned = survey.hash.removeprefix("sha256:")
            server = SurveyServer(f"http://127.0.0.1/survey/#survey={name}&hash={pinned}", transport=client._transport)
            found = verify_survey(server)  # the old log, from its beginning
            assert (found.entries, found.answers, found.head) == (2, 20, heads[name])
        asked = [Exchange(f"both {code}".encode(), bytes([7]) * 32) for code in ("fresh", "gone", "other")]
        assert app.state.store.surveys.codes.exchange("both", asked) == [True, False, False]
        assert app.state.store.studies.find("rows").hash != hashes["rows"]
    app.state.store.close()
