"""A push: received, checked, durable, acknowledged, repeated without harm, and withdrawn for good."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from types import SimpleNamespace

import consortium
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError

from sfumato.study.server.app import create_app
from sfumato.study.server.routes import studies as study_routes
from sfumato.study.server.settings import DataFolder


def files(study):
    """Everything that lies in the data folder, but for the database."""
    data = study.client.app.state.settings.data
    return {
        str(path.relative_to(data))
        for path in data.rglob("*")
        if path.is_file() and not path.name.startswith(("sfumato.db", ".", "in-use")) and study.id in str(path)
    } | {str(path.name) for path in (data / "incoming").glob("*/*") if path.name != "in-use"}


def refused(answer, status, code):
    assert answer.status_code == status, answer.text
    assert answer.json()["error"] == code
    return answer.json()


def test_a_push_is_acknowledged_and_kept(study, body):
    token = study.invite()
    answer = study.push(body, token)
    assert answer.status_code == 201, answer.text
    receipt = answer.json()
    assert receipt["sha256"] == consortium.sha(body)
    assert (receipt["bytes"], receipt["rows"], receipt["purpose"]) == (len(body), 60, "train")
    assert (receipt["site"], receipt["study"], receipt["assertions"]) == ("St. Mary", study.id, "site-asserted")
    kept = study.client.app.state.context.folder.release(study.id, receipt["sha256"])
    assert kept.read_bytes() == body
    assert kept.stat().st_mode & 0o077 == 0
    assert files(study) == {f"releases/{study.id}/{receipt['sha256']}.parquet"}

    again = study.push(body, token)
    assert (again.status_code, again.json()) == (200, receipt)


def test_owner_and_site_see_counts_and_cards_and_no_rows(study, body):
    token, other = study.invite("A"), study.invite("B")
    sha256 = study.push(body, token, purpose="test").json()["sha256"]
    for caller in (token, study.owner):
        (found,) = study.call("GET", "/releases", caller).json()
        assert found == study.call("GET", f"/releases/{sha256}", caller).json()
        assert (found["rows"], found["purpose"], found["card"]["rows"]) == (60, "test", 60)
        assert found["guarantee"] == "epsilon at most 8 for the record"
    assert study.call("GET", "/releases", other).json() == []
    assert study.call("GET", f"/releases/{sha256}", other).status_code == 404
    (site, _) = study.call("GET", "/sites").json()
    assert (site["releases"], site["rows"]) == (1, 60)


def test_twenty_pushes_at_once_are_one(study, body):
    token, start = study.invite(), threading.Barrier(20)

    def push(_):
        start.wait()
        return study.push(body, token)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(push, range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.text for answer in answers}) == 1
    assert len(files(study)) == 1
    assert len(study.store.releases.all(study.id)) == 1


def test_the_same_content_from_two_sites_is_one_sites(study, body):
    assert study.push(body, study.invite("A")).status_code == 201
    found = refused(study.push(body, study.invite("B")), 409, "pushed-elsewhere")
    assert "A" not in found["message"].split()  # whose it is, is nobody's business
    assert [release.site for release in study.store.releases.all(study.id)] == ["A"]
    assert len(files(study)) == 1


def test_rows_to_train_with_do_not_become_rows_to_test_with(study, body):
    """A receipt that quietly said something else than was asked for would be believed."""
    token = study.invite()
    assert study.push(body, token, purpose="train").status_code == 201
    found = refused(study.push(body, token, purpose="test"), 409, "other-purpose")
    assert "pushed before, to train" in found["message"]
    assert study.push(body, token, purpose="train").status_code == 200
    assert [release.purpose for release in study.store.releases.all(study.id)] == ["train"]


def test_a_withdrawn_release_is_gone_and_stays_away(study, body):
    token, other = study.invite("A"), study.invite("B")
    sha256 = study.push(body, token).json()["sha256"]
    assert study.call("DELETE", f"/releases/{sha256}", other).status_code == 404
    assert len(files(study)) == 1
    assert study.call("DELETE", f"/releases/{sha256}", token).status_code == 204
    assert files(study) == set()
    refused(study.push(body, token), 410, "withdrawn")
    assert files(study) == set()
    assert study.call("GET", f"/releases/{sha256}", token).json()["withdrawn"]
    assert study.call("DELETE", f"/releases/{sha256}").status_code == 204


def test_a_body_that_is_not_what_its_address_says(study, body):
    token = study.invite()
    refused(study.push(body, token, sha256="0" * 64), 400, "hash-mismatch")
    refused(study.push(body[:-1], token, sha256=consortium.sha(body)), 400, "hash-mismatch")
    assert files(study) == set()
    assert study.push(body, token).status_code == 201


@pytest.mark.parametrize("rubbish", [b"", b"PAR1", b"PAR1" + b"\x00" * 100 + b"PAR1", b"a,b\n1,2\n", os.urandom(5000)])
def test_rubbish_is_refused_and_leaves_nothing(study, rubbish):
    found = refused(study.push(rubbish, study.invite()), 422, "refused")
    assert "Parquet" in found["message"]
    assert files(study) == set()


def test_every_objection_is_listed(study, tmp_path):
    weak = consortium.release(tmp_path, parameters={"scale": 0.05}, seed=3)
    found = refused(study.push(weak, study.invite()), 422, "refused")
    assert len(found["objections"]) == 1
    assert "at most 8" in found["objections"][0]
    assert study.store.releases.all(study.id) == []
    assert files(study) == set()


def test_a_wrong_purpose_is_refused(study, body):
    refused(study.push(body, study.invite(), purpose="fun"), 422, "invalid")


@pytest.fixture
def small(tmp_path):
    """An app that takes little."""
    settings = consortium.settings(tmp_path / "data", max_push_bytes=5000, max_test_bytes=2000, max_pushes=1)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield consortium.Study(client, *client.app.state.store.studies.create(consortium.study()))


def test_an_oversized_push_is_refused_announced_or_not(small, body):
    assert len(body) > 5000
    token = small.invite()
    for content in (body, iter([body[:4000], body[4000:]])):
        found = refused(
            small.call("PUT", f"/releases/{consortium.sha(body)}", token, content=content), 413, "too-large"
        )
        assert "5000 bytes" in found["message"]
    huge = {"Content-Length": str(10**15)}  # more than any disk has, and the disk is not to blame
    refused(small.call("PUT", f"/releases/{consortium.sha(body)}", token, content=body, headers=huge), 413, "too-large")
    assert files(small) == set()
    refused(small.call("PUT", "/test", content=b"x" * 3000), 413, "too-large")


def test_more_uploads_than_the_server_takes_wait(small, body):
    small.client.app.state.context.uploads["another"] = 1
    answer = small.push(body[:100], small.invite())
    refused(answer, 429, "too-many")
    assert answer.headers["retry-after"]


def test_a_full_disk_is_said_and_nothing_is_kept(study, body, monkeypatch):
    token = study.invite()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for place in ("write", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr("sfumato.study.server.accept_push.os." + place, full)
            refused(study.push(body, token), 507, "disk-full")
        assert files(study) == set()
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.study.server.settings.DataFolder.settle", full)
        refused(study.push(body, token), 507, "disk-full")
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.study.server.accept_push.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
        refused(study.push(body, token), 507, "disk-full")
    assert files(study) == set()
    assert study.store.releases.all(study.id) == []
    assert study.push(body, token).status_code == 201


def test_a_database_that_goes_away_is_said_and_nothing_is_acknowledged(study, body, monkeypatch):
    token = study.invite()

    def away(*_, **__):
        raise OperationalError("INSERT", {}, Exception("server closed the connection"))

    with monkeypatch.context() as patch:
        patch.setattr(type(study.store.releases), "record", away)
        answer = study.push(body, token)
        refused(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "5"
    assert study.store.releases.all(study.id) == []
    assert study.push(body, token).status_code == 201  # and again is safe


def test_what_died_before_it_was_acknowledged_is_swept_at_the_next_start(study, body):
    context = study.client.app.state.context
    study.push(body, study.invite())
    orphan = context.folder.release(study.id, "f" * 64)
    orphan.write_bytes(b"half")
    dead = context.folder.data / "incoming" / "0123456789abcdef"
    dead.mkdir()
    (dead / "in-use").touch()
    (dead / "half").write_bytes(b"x")
    own = context.folder.incoming()
    own.write_bytes(b"still coming")
    other = copy(context)
    other.folder = type(context.folder)(context.folder.data)
    other.start()  # a second process of the same folder
    assert not orphan.exists()
    assert not dead.exists()
    assert own.exists()  # what a living process receives is left alone
    assert context.folder.release(study.id, consortium.sha(body)).exists()
    own.unlink()
    other.folder.close()


def test_where_locks_cannot_be_told_nothing_of_others_is_removed(tmp_path, monkeypatch):
    first = DataFolder(tmp_path)
    coming = first.incoming()
    coming.write_bytes(b"still coming")

    def no_locks(*_, **__):
        raise OSError(errno.ENOLCK, "no locks available")

    with monkeypatch.context() as changed:
        changed.setattr("sfumato.study.server.settings.locked", no_locks)
        DataFolder(tmp_path).open()
    assert coming.exists()
    first.close()


def test_a_test_table_is_checked_and_kept(study):
    rows = "age,weight,sex,ill\n30,70.5,f,no\n40,,m,yes\n"
    answer = study.call("PUT", "/test", content=rows.encode())
    assert answer.status_code == 200, answer.text
    assert (answer.json()["rows"], answer.json()["format"]) == (2, "csv")
    kept = study.store.releases.test_table(study.id)
    assert study.client.app.state.context.folder.test_table(study.id, kept.sha256, "csv").read_bytes() == rows.encode()
    for wrong in ("age,weight,sex,ill\n", "age,weight,sex,ill\n30,70.5,x,no\n", "a,b\n1,2\n", "PAR1", "\x00"):
        found = refused(study.call("PUT", "/test", content=wrong.encode()), 422, "refused")
        assert "/" not in found["message"]  # no path of the server
    assert study.store.releases.test_table(study.id) == kept


def test_models_are_asked_for_watched_and_downloaded(study):
    refused(study.call("POST", "/models", json={"classifier": "oracle"}), 422, "unknown-classifier")
    wrong = study.call("POST", "/models", json={"classifier": "knn", "parameters": {"k": 0}})
    assert "'k' parameter of knn must be a whole number from 1" in refused(wrong, 422, "invalid")["message"]
    asked = study.call("POST", "/models", json={"classifier": "knn", "parameters": {"k": 5, "weights": "1/d"}})
    assert asked.json()["parameters"] == {"k": 5}
    assert (asked.status_code, asked.json()["state"], asked.json()["contains_rows"]) == (202, "queued", True)
    model, site = asked.json()["id"], study.invite()
    assert study.call("GET", f"/models/{model}", site).json() == study.call("GET", "/models", site).json()[0]
    refused(study.call("GET", f"/models/{model}/file"), 409, "not-ready")
    refused(study.call("GET", f"/models/{model}/file", site), 403, "forbidden")
    refused(study.call("GET", "/models/none"), 404, "not-found")
    store, folder = study.store, study.client.app.state.context.folder
    store.models.claim("w")
    path = folder.model(study.id, model)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"skops")
    store.models.finish(model, "w", results={"error": 0.1}, card={}, used=[], contains_rows=True)
    assert study.call("GET", f"/models/{model}/file").content == b"skops"
    refused(study.call("GET", f"/models/{model}/file", site), 403, "forbidden")


def test_one_owner_does_not_fill_the_queue_of_another(client, study, monkeypatch):
    other = consortium.Study(client, *study.store.studies.create(consortium.study()))
    for _ in range(study_routes.MOST_WAITING):
        assert study.call("POST", "/models", json={"classifier": "knn"}).status_code == 202
    found = refused(study.call("POST", "/models", json={"classifier": "knn"}), 429, "too-many")
    assert "this study" in found["message"]
    assert other.call("POST", "/models", json={"classifier": "knn"}).status_code == 202
    monkeypatch.setattr(study_routes, "MOST_IN_ALL", study.store.models.waiting())
    answer = other.call("POST", "/models", json={"classifier": "knn"})
    assert "other studies" in refused(answer, 429, "too-many")["message"]
    assert answer.headers["retry-after"] == "60"
