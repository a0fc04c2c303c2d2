"""The coordinator's public log: what was acknowledged is in it, durably, and anybody can follow it."""

from __future__ import annotations

import concurrent.futures
import json
import random

import consortium
import pytest
from fastapi.testclient import TestClient
from survey_examples import example_survey

from sfumato.core.errors import CardError, UsageError
from sfumato.ledger.notes import TILE, LogProof, NoteKey, leaf_hash, nodes_of, opened, root_of, tile_path
from sfumato.ledger.public_log import LogCopy, entry_of
from sfumato.study.protocol.messages import Receipt
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Rate
from sfumato.study.server.store import Store


def fetched(client):
    def fetch(path):
        answer = client.get(f"/log/{path}")
        assert answer.status_code == 200, answer.text
        return answer.content

    return fetch


def copied(client):
    return LogCopy.read(fetched(client), NoteKey.read(client.get("/log/log.vkey").text))


def test_a_receipt_is_in_the_log(study, client, body):
    token = study.invite()
    receipt = Receipt.from_dict(study.push(body, token).json())
    receipt.check()
    copy = copied(client)
    assert receipt.log == copy.key.text
    assert copy.entries[LogProof.read(receipt.proof).index] == receipt.entry()
    assert Receipt.from_dict(study.push(body, token).json()) == receipt
    assert len(copied(client).entries) == len(copy.entries)  # pushed again, logged once
    assert "St. Mary" not in str(copy.entries)
    assert receipt.sha256 not in str(copy.entries)


@pytest.mark.parametrize("change", [{"rows": 61}, {"site": "South"}, {"sha256": "0" * 64}, {"received": "2026-01-01"}])
def test_a_receipt_that_was_changed_is_refused(study, body, change):
    receipt = study.push(body, study.invite()).json()
    with pytest.raises(CardError, match="receipt cannot be believed"):
        Receipt.from_dict({**receipt, **change}).check()
    with pytest.raises(CardError, match="receipt cannot be believed"):
        Receipt.from_dict({**receipt, "log": receipt["log"].replace("/log+", "/lug+")}).check()


@pytest.mark.parametrize("missing", ["log", "proof"])
def test_half_a_proof_is_no_receipt_of_an_earlier_version(study, body, missing):
    """Whoever takes the proof away could otherwise change what it proves."""
    receipt = study.push(body, study.invite()).json()
    with pytest.raises(CardError, match="receipt cannot be believed"):
        Receipt.from_dict({**receipt, "rows": 61, missing: None}).check()


def test_no_random_edit_of_a_receipt_is_believed(study, body):
    """Where log and proof are both gone it is a receipt of 0.2, which proves nothing."""
    receipt = study.push(body, study.invite()).json()
    text, rng, told = json.dumps(receipt), random.Random(3), Receipt.from_dict(receipt)
    for _ in range(2000):
        at, more = rng.randrange(len(text)), rng.choice(["", "x", text[rng.randrange(len(text)) :][:9]])
        edited = text[:at] + more + text[at + rng.randrange(30) :]
        try:
            found = Receipt.from_dict(json.loads(edited))
            found.check()
        except (CardError, ValueError):
            continue
        assert found == told or found.log is found.proof is None, edited


def test_a_push_that_is_refused_is_not_logged(study, body):
    before = study.store.log.size()
    assert study.push(body[:-1], study.invite()).status_code == 422
    assert study.store.log.size() == before


def test_the_log_is_read_by_anybody_in_tiles(client):
    log = client.app.state.store.log
    with client.app.state.store.database.writing() as connection:
        while log.append(connection, b"{}") < 2 * TILE + 3:
            pass
    copy, size = copied(client), log.size()
    leaves = [leaf_hash(one) for one in copy.entries]
    fetch = fetched(client)
    assert fetch("tile/0/000") == b"".join(leaves[:TILE])
    assert fetch(f"tile/0/{tile_path(2, size - 2 * TILE)}") == b"".join(leaves[2 * TILE :])
    assert fetch("tile/0/002.p/1") == leaves[2 * TILE]
    assert fetch("tile/1/000.p/2") == b"".join(root_of(nodes_of(leaves[n : n + TILE]), TILE) for n in (0, TILE))
    assert "immutable" in client.get("/log/tile/0/000").headers["cache-control"]
    assert "no-cache" in client.get("/log/checkpoint").headers["cache-control"]
    assert client.get("/log/checkpoint").headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    [
        *("tile/0/999", "tile/0/000.p/0", "tile/0/0", "tile/5/000", "tile/64/000", "tile/0/002", "tile/1/000"),
        *("tile/entries/x999/x999/x999/x999/999", "tile/entries/..%2f..", "tile/-1/000"),
    ],
)
def test_what_is_not_there(client, path):
    assert client.get(f"/log/{path}").status_code in (404, 422)


def test_strangers_get_their_share(tmp_path):
    with TestClient(create_app(consortium.settings(tmp_path, stranger_rate=Rate(0.01, 3)))) as client:
        assert [client.get("/log/checkpoint").status_code for _ in range(4)] == [200, 200, 200, 429]


class LogContract:
    """What the log keeps on every database."""

    @pytest.fixture
    def settings(self, request, tmp_path):
        return consortium.settings(tmp_path / "data", **self.more(request))

    def test_processes_that_write_at_once_make_one_log(self, settings):
        stores = [Store.open(settings) for _ in range(3)]

        def write(number):
            return stores[number % 3].log.add(entry_of("test", {"number": number}))

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            numbers = list(pool.map(write, range(30)))
        assert sorted(numbers) == list(range(30))
        log = stores[0].log
        copy = LogCopy.read(lambda path: _of(log, path), log.signer.key)
        assert sorted(copy.entries) == sorted(entry_of("test", {"number": number}) for number in range(30))
        assert [copy.entries[place] for place in numbers] == [entry_of("test", {"number": n}) for n in range(30)]
        for place in range(30):
            LogProof.read(log.proof(place)).check(leaf_hash(copy.entries[place]), log.signer.key)
            assert opened(log.checkpoint(place), log.signer.key).root == copy.root(place)
        assert {store.log.signer.key for store in stores} == {log.signer.key}
        for store in stores:
            store.close()

    def test_what_is_rolled_back_was_never_logged(self, settings):
        store = Store.open(settings)
        with pytest.raises(UsageError, match="at most"), store.database.writing() as connection:
            assert [store.log.append(connection, one) for one in (b"{}", b"x" * 20_000)] == []
        assert (store.log.size(), store.log.add(b"{}"), store.log.size()) == (0, 0, 1)
        store.close()

    def test_a_lost_key_is_not_replaced(self, settings):
        store = Store.open(settings)
        store.log.add(b"{}")
        store.close()
        (settings.data / "log.key").unlink()
        store = Store.open(settings)
        with pytest.raises(CardError, match="Take it from the backup"):
            store.log.add(b"{}")
        assert store.log.size() == 1
        store.close()


class TestSqlite(LogContract):
    def more(self, _):
        return {}


class TestPostgresql(LogContract):
    def more(self, request):
        return {"database": request.getfixturevalue("postgres_url")}


def _of(log, path):
    if path == "checkpoint":
        return log.checkpoint().encode()
    return log.bundle(0, int(path.rpartition("/")[2]))


def test_the_name_of_the_log(tmp_path):
    def named(folder, **more):
        store = Store.open(consortium.settings(tmp_path / folder, **more))
        name = store.log.signer.key.name
        store.close()
        return name

    assert named("a", log_name="study.example/x") == "study.example/x"
    assert named("b", hosts="study.example, other") == "study.example/log"
    assert named("c").startswith("sfumato-")
    assert named("a", log_name="another") == "study.example/x"  # from its first entry on


def test_every_version_of_guidance_is_in_the_log(client):
    store = client.app.state.store
    identity, _ = store.studies.create(example_survey())
    client.get(f"/api/v1/surveys/{identity}/inquiry").raise_for_status()
    found = [entry for _, entry in copied(client).told("guidance") if entry["survey"] == identity]
    ((entry, _),) = store.surveys.log(identity)
    assert found == [{"kind": "guidance", "survey": identity, "version": 1, "hash": entry.hash}]
