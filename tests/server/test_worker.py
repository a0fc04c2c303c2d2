"""The worker: trains what is queued, once, whatever dies; fails with words, and not with the server."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

import consortium
import pyarrow as pa
import pytest

from sfumato.learn.model import Model
from sfumato.study.server.child_jobs import NO_MEMORY
from sfumato.study.server.settings import DataFolder
from sfumato.study.server.store import Store
from sfumato.study.server.store.release_store import Arrived
from sfumato.study.server.worker import worker as worker_module
from sfumato.study.server.worker.job import Job
from sfumato.study.server.worker.worker import DIED, Training, Worker

LEASE = 3.0


class Place:
    """A store and a data folder with a study, without a server around them."""

    def __init__(self, data, database=None):
        self.settings = consortium.settings(data, database=database)
        self.store, self.folder = Store.open(self.settings), DataFolder(data)
        self.study, self.owner = self.store.studies.create(consortium.study())
        self.events = []

    def add(self, body, site, purpose="train"):
        """As a push that was accepted leaves it."""
        self.store.sites.invite(self.study, site)
        sha256 = consortium.sha(body)
        received = self.folder.incoming()
        received.write_bytes(body)
        self.folder.settle(received, self.folder.release(self.study, sha256))
        self.store.releases.record(Arrived(self.study, site, sha256, purpose, len(body), 60, 8.0, {}))
        return sha256

    def queue(self, classifier="naive-bayes"):
        return self.store.models.queue(self.study, classifier, contains_rows=False).id

    def worker(self, **more):
        made = Worker(self.store, self.folder, self.settings, self.log, **{"lease": LEASE, **more})
        made.niceness = 0
        made.start()
        return made

    def log(self, event, **fields):
        self.events.append((event, fields))

    def wait(self, model, *states, seconds=200):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.store.models.find(self.study, model)
            if found.state in (states or ("done", "failed")):
                return found
            time.sleep(0.02)
        raise AssertionError(f"The model is still {found.state}, {found.step}.")


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    """Noise is not seeded: with 60 rows each, one time in five a site that lies cannot be told from the others."""
    return [consortium.release(tmp_path_factory.mktemp("r"), rows=400, seed=seed) for seed in range(3)]


@pytest.fixture
def place(tmp_path, bodies):
    made = Place(tmp_path / "data")
    made.hashes = [made.add(body, f"site {number}") for number, body in enumerate(bodies[:2])]
    yield made
    made.folder.close()
    made.store.close()


def test_a_queued_model_is_trained_and_names_what_it_used(place, bodies):
    """Also its parameters: here those of naive Bayes."""
    test = place.add(bodies[2], "site 0", purpose="test")
    smoothed = {"pseudo_rows": 3.0}
    model = place.store.models.queue(place.study, "naive-bayes", contains_rows=False, parameters=smoothed).id
    worker = place.worker()
    found = place.wait(model)
    worker.stop()
    assert (found.state, found.progress, found.failure) == ("done", 1.0, None)
    assert found.parameters == found.card["parameters"] == found.results["parameters"] == smoothed
    assert Model.load(place.folder.model(place.study, model)).classifier.pseudo_rows == 3.0
    assert [one["sha256"] for one in found.card["releases"]] == place.hashes
    assert [point["sites"] for point in found.results["by_sites"]["points"]] == [1, 2]
    assert found.results["test"][0]["kind"] == "rows embedded by sites"
    assert test not in json.dumps(found.card)
    file = place.folder.model(place.study, model)
    assert Model.load(file).about == found.card
    assert not list((place.folder.data / "incoming").glob("*/*.skops"))
    assert [event for event, _ in place.events] == ["training-started", "training-ended"]
    assert not found.uses_withdrawn
    place.store.releases.withdraw(place.study, place.hashes[0])
    assert place.store.models.find(place.study, model).uses_withdrawn


def test_a_model_of_the_sites_that_agree_names_and_uses_only_these(place, bodies, tmp_path):
    """A third site with flipped labels and four times the rows: its withdrawal is not the model's business."""

    def flipped(table):
        told = pa.array(["no" if label == "yes" else "yes" for label in table["ill"].to_pylist()])
        return table.set_column(table.schema.get_field_index("ill"), "ill", told)

    hostile = place.add(consortium.rewritten(consortium.release(tmp_path, rows=1600, seed=7), tmp_path, flipped), "x")
    honest = place.add(bodies[2], "site 2")
    model = place.store.models.queue(place.study, "naive-bayes", contains_rows=False, sites="agreeing").id
    worker = place.worker()
    found = place.wait(model)
    worker.stop()
    assert (found.state, found.failure, found.sites) == ("done", None, "agreeing")
    assert [one["sha256"] for one in found.card["releases"]] == [*place.hashes, honest]
    place.store.releases.withdraw(place.study, hostile)
    assert not place.store.models.find(place.study, model).uses_withdrawn
    place.store.releases.withdraw(place.study, honest)
    assert place.store.models.find(place.study, model).uses_withdrawn


def test_what_cannot_be_trained_fails_with_words_and_the_next_is_tried(place):
    for sha256 in place.hashes:
        place.folder.release(place.study, sha256).unlink()
    lost = place.queue()
    worker = place.worker()
    found = place.wait(lost)
    assert found.state == "failed"
    assert "withdrawn" in found.failure
    assert str(place.folder.data) not in found.failure
    for sha256 in place.hashes:
        place.store.releases.withdraw(place.study, sha256)
    assert place.wait(place.queue()).failure == worker_module.NOTHING
    worker.stop()


def test_too_little_memory_fails_the_model_alone(place):
    job = Job.of(place.store, place.folder, place.study, "naive-bayes", memory=220 << 20, niceness=0)
    training = Training(job)
    said = []
    while not said or not {"done", "failed"} & set(said[-1]):
        said += training.messages(5.0)
    training.close()
    assert said[-1]["failed"] in (NO_MEMORY, DIED)


HOLDS_EVERY_THREAD = """
import pathlib, re, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "sfumato.study.pooling.train_pool":
            pathlib.Path(__file__).with_name("held").touch()
            re.match("(a+)+b", 64 * "a")
sys.meta_path.insert(0, Finder())
"""
A_SERVER = """
import os, sys, time
from sfumato.study.server.child_process import Child
child = Child("train", {"PYTHONPATH": sys.argv[1]})
child.tell({"niceness": 0, "memory": 1 << 40})
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child ends when its threads run again")
def test_a_child_that_lets_no_thread_run_ends_with_its_parent(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HOLDS_EVERY_THREAD)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen([sys.executable, "-c", A_SERVER, path], stdout=subprocess.PIPE, text=True) as server:
        child = os.pidfd_open(int(server.stdout.readline()))
        try:
            while not (tmp_path / "held").exists():
                time.sleep(0.05)
            server.kill()
            assert select.select([child], [], []) == ([child], [], [])  # readable once the process has ended
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            os.close(child)


def test_a_killed_child_fails_the_model_and_not_the_worker(place, monkeypatch):
    class Doomed(Training):
        def __init__(self, job):
            super().__init__(job)
            os.kill(self.pid, signal.SIGKILL)

    monkeypatch.setattr(worker_module, "Training", Doomed)
    model = place.queue()
    worker = place.worker()
    assert place.wait(model).failure == DIED
    assert place.wait(place.queue()).failure == DIED
    worker.stop()


class Unfinished(Training):
    """A real child whose last word is never heard, so that its model runs until somebody ends it."""

    def messages(self, seconds):
        return [said for said in super().messages(seconds) if not {"done", "failed"} & set(said)]


def test_a_stopped_worker_puts_its_model_back(place, monkeypatch):
    monkeypatch.setattr(worker_module, "Training", Unfinished)
    model = place.queue()
    worker = place.worker()
    place.wait(model, "running")
    worker.stop()
    assert place.store.models.find(place.study, model).state == "queued"
    assert not worker._thread.is_alive()


KILLED = """
import sys, time
sys.path.insert(0, {tests!r})
import consortium
from pathlib import Path
from sfumato.study.server.settings import DataFolder
from sfumato.study.server.store import Store
from sfumato.study.server.worker import worker as worker_module
from sfumato.study.server.worker.worker import Worker
if {unfinished!r}:
    from test_worker import Unfinished
    worker_module.Training = Unfinished
settings = consortium.settings(Path({data!r}), database={database!r})
place = Store.open(settings), DataFolder(Path({data!r})), settings
Worker(*place, lambda *_, **__: None, lease={lease!r}).start()
time.sleep(600)
"""


def other_process(place, *, lease, unfinished=False):
    code = KILLED.format(
        tests=os.path.dirname(__file__),  # noqa: PTH120
        data=str(place.folder.data),
        database=place.settings.database,
        lease=lease,
        unfinished=unfinished,
    )
    return subprocess.Popen([sys.executable, "-c", code])


@pytest.mark.system
def test_the_job_of_a_killed_server_is_taken_up_again(place):
    model = place.queue()
    process = other_process(place, lease=1.0, unfinished=True)
    try:
        place.wait(model, "running")
    finally:
        process.kill()
        process.wait()
    assert place.store.models.find(place.study, model).state == "running"
    worker = place.worker()
    assert place.wait(model).state == "done"
    worker.stop()


@pytest.mark.system
def test_several_processes_train_each_model_once(tmp_path, bodies, postgres_url):
    place = Place(tmp_path / "data", postgres_url)
    for number, body in enumerate(bodies[:2]):
        place.add(body, f"site {number}")
    models = [place.queue() for _ in range(3)]
    process = other_process(place, lease=60.0)
    worker = place.worker(lease=60.0)
    try:
        assert {place.wait(model).state for model in models} == {"done"}
    finally:
        process.kill()
        process.wait()
        worker.stop()
    mine = [fields["model"] for event, fields in place.events if event == "training-started"]
    assert len(mine) == len(set(mine)) <= 3
    for model in models:
        assert place.folder.model(place.study, model).is_file()
    place.folder.close()
    place.store.close()


def test_a_model_in_other_hands_is_left_alone(place, monkeypatch):
    """A worker that slept past its lease must neither file nor fail what another trains now."""

    class Asleep:
        def __init__(self, _):
            pass

        def messages(self, _):
            awake.wait(200)
            return [{"step": "learning", "progress": 0.5}]

        def close(self):
            ended.set()

    awake, ended = threading.Event(), threading.Event()
    monkeypatch.setattr(worker_module, "Training", Asleep)
    model = place.queue()
    worker = place.worker(lease=1.0)
    place.wait(model, "running")
    while (claimed := place.store.models.claim("another", 1000.0)) is None:
        time.sleep(0.05)
    assert claimed[1].id == model
    awake.set()
    assert ended.wait(200)
    worker.stop()
    assert place.store.models.find(place.study, model).state == "running"
    assert ("training-lost", {"model": model}) in place.events
    assert place.store.models.update(model, "another", 0.7, "still mine")
