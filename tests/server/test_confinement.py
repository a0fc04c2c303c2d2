"""The process that checks files: no network, no programs, and no file but those that it is to check."""

import json
import subprocess
import sys

import consortium
import pytest
from fastapi.testclient import TestClient

from sfumato.study.server.app import create_app
from sfumato.study.server.child_process import FILES, NETWORK
from sfumato.study.server.validation.checker_pool import Limits, ValidationPool

TRIES = """
import json, os, socket, subprocess, sys, threading
from pathlib import Path
from sfumato.study.server.child_process import confine

mine, other = Path(sys.argv[1]), Path(sys.argv[2])
found = {"held": confine([mine])}
def attempt(name, call):
    try:
        call()
        found[name] = "done"
    except OSError as error:
        found[name] = type(error).__name__
attempt("own file", lambda: (mine / "a").read_text())
attempt("other file", lambda: (other / "a").read_text())
attempt("other folder", lambda: list(other.iterdir()))
attempt("write", lambda: (mine / "b").write_text("x"))
attempt("remove", lambda: (mine / "a").unlink())
attempt("socket", lambda: socket.socket())
attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
attempt("program", lambda: os.execv(sys.executable, [sys.executable, "-c", ""]))
attempt("secrets", lambda: Path("/proc/1/environ").read_bytes())
import pyarrow.parquet, numpy.random
thread = threading.Thread(target=attempt, args=("thread", lambda: (other / "a").read_text()))
thread.start(); thread.join()
print(json.dumps(found))
"""


@pytest.fixture
def places(tmp_path):
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("x")
    return str(tmp_path / "mine"), str(tmp_path / "other")


@pytest.fixture
def tried(places):
    done = subprocess.run([sys.executable, "-c", TRIES, *places], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_files_and_network_are_given_up_for_good(tried):
    assert tried["own file"] == "done"
    if FILES in tried["held"]:
        for name in ("other file", "other folder", "write", "remove", "secrets", "thread"):
            assert tried[name] == "PermissionError", name
    if NETWORK in tried["held"]:
        for name in ("socket", "unix socket", "program"):
            assert tried[name] == "PermissionError", name
    if not tried["held"]:
        pytest.skip("This system has neither Landlock nor seccomp; the server says so when it starts.")


def test_a_child_reads_what_was_received_and_nothing_beside_it(tmp_path):
    (tmp_path / "incoming").mkdir()
    table = "age,weight,sex,ill\n30,70,f,no\n"
    held = []
    pool = ValidationPool(1, Limits(), tmp_path / "incoming", held.extend)
    for folder in ("incoming", "."):
        (tmp_path / folder / "t.csv").write_text(table)
    definition = consortium.study().to_dict()
    try:
        assert pool.check("table", tmp_path / "incoming" / "t.csv", definition).rows == 1
        if FILES not in held:
            pytest.skip("This system has no Landlock.")
        beside = pool.check("table", tmp_path / "t.csv", definition)
        assert beside.objections
        assert beside.rows == 0
    finally:
        pool.close()


def test_metrics_say_what_holds(tmp_path):
    with TestClient(create_app(consortium.settings(tmp_path))) as client:
        study = consortium.Study(client, *client.app.state.store.studies.create(consortium.study()))
        (tmp_path / "t.csv").write_text("age,weight,sex,ill\n30,70,f,no\n")
        assert study.call("PUT", "/test", content=(tmp_path / "t.csv").read_bytes()).status_code == 200
        text = client.get("/metrics").text
        assert 'sfumato_checks_confined{what="files"}' in text
        assert 'sfumato_checks{state="waiting"} 0.0' in text
