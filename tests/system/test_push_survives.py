"""A server that is killed in the middle of a push: the site's program waits, sends again, and it counts once."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from sfumato.release.sanitize import Options, sanitize
from sfumato.study.client import Coordinator, Parcel
from sfumato.study.client.connection import Patience
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
from sfumato.table import Column, Schema

pytestmark = pytest.mark.system

PUBLIC = {"source": "public", "reason": "range of the instrument"}
SCHEMA = Schema(
    (
        *(Column(f"x{j:02d}", "numeric", low=-6, high=6, **PUBLIC) for j in range(20)),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)
STUDY = {
    "kind": "pool",
    "name": "Killed",
    "schema": SCHEMA.to_dict(),
    "mechanism": {"name": "additive-noise"},
    "guarantee": "empirical-allowed",
}


@pytest.fixture
def servers(tmp_path):
    """Start servers on one data folder, one after the other; whoever is left is killed."""
    started = []

    def start(port=0):
        data = tmp_path / "data"
        (data / "address").unlink(missing_ok=True)
        words = ["serve", "--data", str(data), "--port", str(port), "--quiet"]
        run = [sys.executable, "-c", "from sfumato.api.cli import main; main()", *words]
        with (tmp_path / "log").open("ab") as log:
            started.append(subprocess.Popen(run, stdout=log, stderr=log))
        return started[-1], data / "address"

    yield start
    for process in started:
        process.kill()
        process.wait()


def listening(process, address):
    until = time.monotonic() + 120
    while not address.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    return address.read_text().strip()


def test_killed_in_the_middle_of_a_push(servers, tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    store = Store.open(Settings(data=data))
    identity, owner = store.studies.create(study_from_dict(STUDY))
    token = store.sites.invite(identity, "North").token
    store.close()
    rng = np.random.default_rng(0)
    columns = {f"x{j:02d}": rng.standard_normal(100_000).clip(-6, 6) for j in range(20)}
    people = pa.table({**columns, "ill": np.where(rng.random(100_000) < 0.5, "yes", "no")})
    parameters = {"noise": "float"}
    told = Options(mechanism="additive-noise", parameters=parameters, schema=SCHEMA, unprotected=True)
    sanitize(people, tmp_path / "r", told)
    parcel = Parcel.open(tmp_path / "r")
    assert parcel.bytes > 10 << 20
    first, address = servers()
    url = listening(first, address)
    killed = []

    def kill_half_way(_, done, total):
        if done > total / 2 and not killed:
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
            killed.append(servers(port=int(url.rpartition(":")[2])))

    with Coordinator(url, token, patience=Patience(attempts=80, longest=5.0)) as coordinator:
        receipt = coordinator.push(identity, parcel, progress=kill_half_way)
        assert killed
        assert coordinator.push(identity, parcel) == receipt
        assert [release.sha256 for release in coordinator.releases(identity)] == [parcel.sha256]
    listening(*killed[0])
    left = [path.name for path in (data / "incoming").rglob("*") if path.is_file()]
    assert left == ["in-use"]  # the corner of the server that runs; nothing of the one that died
    assert [path.stem for path in (data / "releases").rglob("*.parquet")] == [parcel.sha256]
    with Coordinator(url, owner) as coordinator:
        assert [(site.name, site.releases, site.rows) for site in coordinator.sites(identity)] == [
            ("North", 1, 100_000)
        ]
