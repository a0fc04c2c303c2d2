"""A server that is killed at any moment loses nothing that it acknowledged and shows nothing by half."""

import random
import threading
import time
from pathlib import Path

import consortium
import httpx
import pytest
from served import Served

from sfumato.ledger.public_log import LogCopy
from sfumato.study.protocol.messages import Receipt
from sfumato.study.server.store import Store

pytestmark = pytest.mark.system
ROUNDS, SITES = 6, 4


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Different releases, of different sizes, to push."""
    folder = tmp_path_factory.mktemp("releases")
    return [consortium.release(folder, rows=60 + 700 * (number % 7), seed=number) for number in range(40)]


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_kill_at_random_moments(tmp_path, releases, backend, request):
    more = {} if backend == "sqlite" else {"database": request.getfixturevalue("a_database")}
    data = tmp_path / "data"
    store = Store.open(consortium.settings(data, **more))
    study, owner = store.studies.create(consortium.study())
    tokens = {f"site {number}": store.sites.invite(study, f"site {number}").token for number in range(SITES)}
    acknowledged, waiting, lock = {}, list(releases), threading.Lock()
    chance = random.Random(7)

    def push_until_it_dies(address, token):
        with httpx.Client(timeout=300, trust_env=False) as client:
            while True:
                with lock:
                    if not waiting:
                        return
                    body = waiting.pop()
                url = f"{address}/api/v1/studies/{study}/releases/{consortium.sha(body)}"
                try:
                    answer = client.put(url, content=body, headers={"Authorization": f"Bearer {token}"})
                    assert answer.status_code in (200, 201, 409), answer.text  # 409: another site was acknowledged
                    with lock:
                        acknowledged[consortium.sha(body)] = answer.json() if answer.is_success else None
                except httpx.TransportError:
                    with lock:
                        waiting.insert(0, body)
                    return

    copy = None
    for _ in range(ROUNDS):
        server = Served(data, validators=2, **more)
        threads = [
            threading.Thread(target=push_until_it_dies, args=(server.address, token)) for token in tokens.values()
        ]
        for thread in threads:
            thread.start()
        time.sleep(chance.uniform(0.3, 2.5))
        server.kill()
        for thread in threads:
            thread.join()
        _nothing_is_lost_or_half(store, data, study, acknowledged)
        copy = _followed(store.log, copy, acknowledged)
        server.close()

    server = Served(data, validators=2, **more)  # what is left goes through, and the dead have left nothing behind
    corners = list((data / "incoming").iterdir())
    assert len(corners) == 1
    for thread in [threading.Thread(target=push_until_it_dies, args=(server.address, t)) for t in tokens.values()]:
        thread.start()
        thread.join()
    assert len(acknowledged) == len(releases)
    copy = _followed(store.log, copy, acknowledged)
    assert len(copy.entries) == len(releases)  # each is logged once, whoever died how often
    kept = {found.sha256 for found in store.releases.all(study)}
    assert kept == set(acknowledged)
    assert {path.stem for path in (data / "releases" / study).iterdir()} == kept
    assert server.stop() == 0
    server.close()
    store.close()
    assert owner not in Path(f"{data}.log").read_text()


def _followed(log, copy, acknowledged):
    """The log continues what was read before, and holds every receipt that was sent."""

    def fetch(path):
        return log.checkpoint().encode() if path == "checkpoint" else log.bundle(0, int(path.rpartition("/")[2]))

    copy = LogCopy.read(fetch, log.signer.key, copy)
    for answer in filter(None, acknowledged.values()):
        receipt = Receipt.from_dict(answer)
        receipt.check()
        assert receipt.entry() in copy.entries
    return copy


def _nothing_is_lost_or_half(store, data, study, acknowledged):
    visible = {found.sha256: found for found in store.releases.all(study)}
    assert set(acknowledged) <= set(visible), "something acknowledged is gone"
    for sha256, found in visible.items():
        body = (data / "releases" / study / f"{sha256}.parquet").read_bytes()
        assert consortium.sha(body) == sha256
        assert len(body) == found.bytes


def test_a_push_under_way_is_finished_before_the_server_stops(tmp_path, releases):
    data, body = tmp_path / "data", max(releases, key=len)
    store = Store.open(consortium.settings(data))
    study, _ = store.studies.create(consortium.study())
    token = store.sites.invite(study, "A").token
    server = Served(data)
    stopping = threading.Event()

    def slowly():
        yield body[:1000]
        stopping.wait(50)
        time.sleep(1)
        yield body[1000:]

    answers = []

    def push():
        with server.client(token) as client:
            url = f"/api/v1/studies/{study}/releases/{consortium.sha(body)}"
            answers.append(client.put(url, content=slowly()))

    thread = threading.Thread(target=push)
    thread.start()
    while not [path for path in (data / "incoming").glob("*/*") if path.name != "in-use"]:
        assert thread.is_alive()  # the server has not begun to receive yet
        time.sleep(0.02)
    server.process.terminate()
    stopping.set()
    thread.join(300)
    assert answers[0].status_code == 201, answers[0].text
    assert server.process.wait(300) == 0
    assert [found.sha256 for found in store.releases.all(study)] == [consortium.sha(body)]
    assert list((data / "incoming").iterdir()) == []
    server.close()
    store.close()
