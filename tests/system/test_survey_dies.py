"""A survey under load whose server is killed: nothing acknowledged is lost, nothing is counted twice."""

import base64
import json
import os
import random
import threading
import time

import httpx
import pytest
from served import Served
from survey_examples import example_survey
from ticket_holder import Holder

from sfumato.channels.guidance.guidance import SurveyCounts
from sfumato.study.protocol.agreed import check_chain
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
from sfumato.study.server.store.survey_store import Exchange, unpack

pytestmark = pytest.mark.system
ROUNDS, CLIENTS, PEOPLE = 5, 6, 600


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_kill_under_load(tmp_path, backend, request):
    database = None if backend == "sqlite" else request.getfixturevalue("a_database")
    more = {} if database is None else {"database": database}
    store = Store.open(Settings(data=tmp_path / "data", **more))
    survey = example_survey(batch=50)
    study, _ = store.studies.create(survey)
    surveys = store.surveys
    sent, acknowledged, lock = {}, set(), threading.Lock()
    chance = random.Random(3)

    def answer_until_it_dies(address, seed):
        """Draws once, and sends the same again to the next server if no receipt came."""
        drawn = random.Random(seed)
        with httpx.Client(timeout=300, trust_env=False) as client:
            while True:
                name = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
                bits = sorted(drawn.sample(range(10), 4))
                body = {"id": name, "version": 1, "label": drawn.randrange(2), "bits": bits}
                with lock:
                    sent[name] = body
                try:
                    answer = client.post(f"{address}/api/v1/surveys/{study}/answers", json=body)
                except httpx.TransportError:
                    return
                assert answer.status_code == 201, answer.text
                with lock:
                    acknowledged.add(name)

    for number in range(ROUNDS):
        server = Served(tmp_path / "data", worker=False, respondent_rate=(1e6, 1e6), **more)
        threads = [
            threading.Thread(target=answer_until_it_dies, args=(server.address, 100 * number + client))
            for client in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 30 * (number + 1) and any(thread.is_alive() for thread in threads):
            time.sleep(0.02)  # a busy machine takes its time
        time.sleep(chance.uniform(0.1, 1.5))
        server.kill()
        for thread in threads:
            thread.join()
        server.close()
        assert surveys.count(study) >= len(acknowledged)

    server = Served(tmp_path / "data", worker=False, respondent_rate=(1e6, 1e6), **more)
    with httpx.Client(timeout=300, trust_env=False) as client:
        for name in sorted(set(sent) - acknowledged)[:200]:  # retries: counted now, or before, never twice
            answer = client.post(f"{server.address}/api/v1/surveys/{study}/answers", json=sent[name])
            assert answer.status_code in (200, 201)
            acknowledged.add(name)
        again = client.post(f"{server.address}/api/v1/surveys/{study}/answers", json=sent[min(acknowledged)])
        assert again.status_code == 200
    assert server.stop() == 0
    server.close()
    assert len(acknowledged) > 100
    kept = _everything(surveys, study)
    assert len(kept) == surveys.count(study)
    assert len(acknowledged) <= len(kept) <= len(sent)
    log = [entry for entry, _ in surveys.log(study, limit=100_000)]
    check_chain(log, survey.hash)
    counted = SurveyCounts.from_json(surveys.version(study).inputs)
    waiting = surveys.waiting(study)
    rest = SurveyCounts.of(unpack([a.bits for a in waiting], 10), [a.label for a in waiting]) if waiting else None
    total = SurveyCounts.of(unpack([bits for _, bits in kept], 10), [label for label, _ in kept])
    assert (counted if rest is None else counted + rest) == total
    assert counted.n == log[-1].answers
    store.close()
    print(json.dumps({"sent": len(sent), "acknowledged": len(acknowledged), "kept": len(kept), "versions": len(log)}))


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_kill_while_invitations_are_exchanged(tmp_path, backend, request):
    """A code is never good for two tickets, and none is lost: what was asked for is asked for again, and answered."""
    more = {} if backend == "sqlite" else {"database": request.getfixturevalue("a_database")}
    store = Store.open(Settings(data=tmp_path / "data", **more))
    study, _ = store.studies.create(example_survey(batch=50, invitations=True))
    survey = study_from_dict(store.studies.find(study).definition)
    codes, surveys = store.surveys.codes, store.surveys
    people = [Holder(survey, code) for code in codes.add(study, PEOPLE)]
    signed, answered, lock = {}, set(), threading.Lock()
    waiting, chance = list(people), random.Random(5)

    def take_part(address):
        with httpx.Client(timeout=300, trust_env=False, base_url=f"{address}/api/v1/surveys/{study}") as client:
            while True:
                with lock:
                    if not waiting:
                        return
                    person = waiting.pop()
                try:
                    exchanged = client.post("/tickets", json=person.asks())
                    assert exchanged.status_code == 200, exchanged.text
                    ticket = person.ticket(exchanged.json())
                    with lock:
                        assert signed.setdefault(person.name, ticket) == ticket
                    body = {"id": person.name, "version": 1, "label": 0, "bits": [1], "ticket": ticket}
                    assert client.post("/answers", json=body).status_code in (200, 201)
                    with lock:
                        answered.add(person.name)
                except httpx.TransportError:
                    with lock:
                        waiting.append(person)  # the same code, the same blinded name, the next server
                    return

    killed = 0
    while waiting:
        server = Served(tmp_path / "data", worker=False, respondent_rate=(1e6, 1e6), **more)
        threads = [threading.Thread(target=take_part, args=(server.address,)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        if killed < ROUNDS:
            time.sleep(chance.uniform(0.2, 0.8))
            server.kill()
            killed += 1
        for thread in threads:
            thread.join()
        server.close()
    assert killed == ROUNDS
    assert len(answered) == len(signed) == surveys.count(study) == PEOPLE
    assert codes.counts(study) == (PEOPLE, PEOPLE)
    thieves = [Exchange(person.code.encode(), b"another name".ljust(32)) for person in people]
    assert codes.exchange(study, thieves) == [False] * PEOPLE
    store.close()


def _everything(surveys, study):
    return [pair for version in range(1, surveys.latest(study) + 1) for pair in surveys.answers(study, version)]
