"""Who holds the disk cannot say which invitation an answer came by: not by value, not by transaction, not by order.

The worst case is tested: one respondent after the other exchanges a code and answers before the next one comes.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import text
from starlette.testclient import TestClient
from survey_examples import example_survey, message
from ticket_holder import Holder

from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Rate, Settings
from sfumato.study.server.store.survey_store import Exchange

PEOPLE = 10


def run(app: FastAPI) -> tuple[str, list[Holder]]:
    """A survey by invitation in which people come one after the other; returns them in their order."""
    study = app.state.store.studies.create(example_survey(invitations=True))[0]
    survey = study_from_dict(app.state.store.studies.find(study).definition)
    codes = app.state.store.surveys.codes.add(study, 2 * PEOPLE)[:PEOPLE]
    people = [Holder(survey, code) for code in codes]  # type: ignore[arg-type]
    client = TestClient(app)  # its desks stay open: nothing is tidied up at the end
    for person in people:
        signed = client.post(f"/api/v1/surveys/{study}/tickets", json=person.asks())
        assert signed.status_code == 200, signed.text
        body = message([1, 4], id=person.name, ticket=person.ticket(signed.json()))
        assert client.post(f"/api/v1/surveys/{study}/answers", content=body).status_code == 201
    return study, people


def settings(data: Path, **more: object) -> Settings:
    return Settings(data=data, worker=False, respondent_rate=Rate(1e6, 1e6), **more)  # type: ignore[arg-type]


@pytest.fixture
def on_postgres(tmp_path: Path, postgres_url: str) -> Iterator[FastAPI]:
    app = create_app(settings(tmp_path, database=postgres_url))
    yield app
    app.state.store.close()


def test_no_transaction_of_postgresql_holds_a_code_and_an_answer(on_postgres: FastAPI) -> None:
    run(on_postgres)
    joined = "SELECT count(*) FROM survey_codes c JOIN survey_answers a ON c.xmin = a.xmin WHERE c.used"
    with on_postgres.state.store.database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM survey_codes WHERE used")).scalar() == PEOPLE
        assert connection.execute(text("SELECT count(*) FROM survey_answers")).scalar() == PEOPLE
        assert connection.execute(text(joined)).scalar() == 0


def test_rows_of_postgresql_do_not_tell_in_which_order_codes_were_used(
    on_postgres: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes in the order of their transactions and places, beside the people in the order in which they came."""
    numbers = itertools.count()  # the same codes in every run
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: f"invitation {next(numbers)}")
    _, people = run(on_postgres)
    came = [hashlib.sha256(person.code.encode()).digest() for person in people]
    with on_postgres.state.store.database.reading() as connection:
        codes = connection.execute(
            text("SELECT xmin::text, hash FROM survey_codes WHERE used ORDER BY xmin::text::bigint, ctid")
        ).all()
        answers = connection.execute(text("SELECT DISTINCT xmin::text FROM survey_answers")).all()
    assert len(answers) == PEOPLE  # the answers do have an order
    assert len({xmin for xmin, _ in codes}) == 1  # all codes were written last by one transaction
    assert sum(bytes(name) == first for (_, name), first in zip(codes, came, strict=True)) <= PEOPLE // 3
    assert sum(bytes(name) == first for (_, name), first in zip(codes, came[::-1], strict=True)) <= PEOPLE // 3


def frames(wal: Path) -> list[bytes]:
    """Pages in SQLite's write-ahead log, in the order in which they were written."""
    raw = wal.read_bytes() if wal.exists() else b""
    if not raw:
        return []
    size = struct.unpack(">I", raw[8:12])[0]
    return [raw[at + 24 : at + 24 + size] for at in range(32, len(raw) - 24, 24 + size)]


def places(database: Path, names: list[bytes]) -> list[int]:
    """Where in the file each name lies first."""
    raw = database.read_bytes()
    found = [raw.find(name) for name in names]
    assert all(place > 0 for place in found)
    return found


def hashes(database: Path) -> list[bytes]:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return [row[0] for row in connection.execute("SELECT hash FROM survey_codes ORDER BY hash")]


def test_the_log_of_sqlite_holds_no_code_beside_answers(tmp_path: Path) -> None:
    app = create_app(settings(tmp_path))
    _, people = run(app)
    wal, names = tmp_path / "sfumato.db-wal", hashes(tmp_path / "sfumato.db")
    assert len(names) == 2 * PEOPLE
    seen = [name for page in frames(wal) for name in names if name in page]
    assert seen == []
    assert frames(wal)  # the last answer is there: it was acknowledged before it was moved
    with sqlite3.connect(tmp_path / "sfumato.db") as connection:
        assert connection.execute("SELECT count(*) FROM survey_answers").fetchone() == (PEOPLE,)
    assert len({person.name for person in people}) == PEOPLE
    app.state.store.close()


def test_a_used_code_lies_where_it_lay_before(tmp_path: Path) -> None:
    """Rows that move when they are written would lie in the order of their use."""
    app = create_app(settings(tmp_path))
    store, codes = app.state.store, app.state.store.surveys.codes
    study = store.studies.create(example_survey(invitations=True))[0]
    given = codes.add(study, 300)
    assert codes.forget_order()
    names = hashes(tmp_path / "sfumato.db")
    before = places(tmp_path / "sfumato.db", names)
    for code in given[::7]:
        assert codes.exchange(study, [Exchange(code.encode(), code.encode().ljust(32))]) == [True]
    assert codes.forget_order()
    assert places(tmp_path / "sfumato.db", names) == before
    assert codes.counts(study) == (300, len(given[::7]))
    store.close()


def test_a_reader_in_the_way_only_delays_the_forgetting(tmp_path: Path) -> None:
    app = create_app(settings(tmp_path))
    store, codes = app.state.store, app.state.store.surveys.codes
    study = store.studies.create(example_survey(invitations=True))[0]
    (code,) = codes.add(study, 1)
    with store.database.reading() as reader:
        reader.execute(text("SELECT * FROM survey_codes")).all()
        codes.exchange(study, [Exchange(code.encode(), bytes(32))])
        assert not codes.forget_order()
    assert codes.forget_order()
    assert frames(tmp_path / "sfumato.db-wal") == []
    store.close()
