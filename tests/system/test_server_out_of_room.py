"""A disk that is really full, a database that really goes away, and a push of a gigabyte."""

import contextlib
import hashlib
import json
import shutil
import subprocess
import time

import consortium
import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from served import Served, is_root

from sfumato.release.sanitize import Options, sanitize
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.server.store import Store
from sfumato.table import Schema

pytestmark = pytest.mark.system


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of eight megabytes."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = shutil.which("mount")
    mounted = mount and is_root() and subprocess.run([mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", place]).returncode
    if mounted != 0:
        pytest.skip("Only root can mount a small file system.")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_said_and_does_no_harm(tiny_disk, tmp_path):
    data = tiny_disk / "data"
    store = Store.open(consortium.settings(data))
    study, _ = store.studies.create(consortium.study())
    token = store.sites.invite(study, "A").token
    small = consortium.release(tmp_path, rows=100)
    large = consortium.release(tmp_path, rows=300_000)
    assert len(large) > 4 << 20
    server = Served(data, spare_disk_bytes=1 << 10)
    with server.client(token) as client:

        def push(body, content):
            return client.put(f"/api/v1/studies/{study}/releases/{consortium.sha(body)}", content=content)

        for _ in range(3):
            for content in (large + large, iter([large, large])):  # announced, and not
                answer = push(large + large, content)
                assert (answer.status_code, answer.json()["error"]) == (507, "disk-full")
        assert push(small, small).status_code == 201
        assert client.get("/healthz").status_code == 200
    assert [path.name for path in (data / "incoming").glob("*/*")] == ["in-use"]
    assert len(store.releases.all(study)) == 1
    assert server.stop() == 0
    server.close()
    store.close()


def test_a_database_goes_away_and_comes_back(tmp_path, a_cluster):
    url = a_cluster.new_database()
    store = Store.open(consortium.settings(tmp_path / "data", database=url))
    study, owner = store.studies.create(consortium.study())
    token, body = store.sites.invite(study, "A").token, consortium.release(tmp_path)
    store.close()
    server = Served(tmp_path / "data", database=url)
    path = f"/api/v1/studies/{study}/releases/{consortium.sha(body)}"
    with server.client(token) as client:
        assert client.get("/healthz").status_code == 200
        a_cluster.stop()
        for method, where in (("GET", "/healthz"), ("PUT", path), ("GET", f"/api/v1/studies/{study}")):
            answer = client.request(method, where, content=body if method == "PUT" else None)
            assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
            assert "sfumato@" not in answer.text
        a_cluster.start()
        deadline = time.monotonic() + 300
        while client.get("/healthz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert client.put(path, content=body).status_code == 201
        assert client.put(path, content=body).status_code == 200
    assert server.stop() == 0
    server.close()
    assert owner not in (tmp_path / "data.log").read_text()


def test_a_gigabyte_in_constant_memory(tmp_path):
    """Nine columns of fourteen million rows: neither the server nor its child may hold more than a small part."""
    definition, path = _large_release(tmp_path, rows=14_000_000)
    store = Store.open(consortium.settings(tmp_path / "data"))
    study, _ = store.studies.create(study_from_dict(definition))
    token = store.sites.invite(study, "A").token
    size = path.stat().st_size
    assert size > 1_000_000_000
    server = Served(tmp_path / "data", validators=1)
    with server.client(token) as client:
        small = consortium.release(tmp_path, rows=100)  # warms up server and child; another study's, so refused
        client.put(f"/api/v1/studies/{study}/releases/{consortium.sha(small)}", content=small)
        before, started = server.peaks(), time.monotonic()
        sha256 = _sha256(path)
        answer = httpx.put(
            f"{server.address}/api/v1/studies/{study}/releases/{sha256}",
            content=_pieces(path),
            headers={"Authorization": f"Bearer {token}", "Content-Length": str(size)},
            timeout=600,
            trust_env=False,
        )
        assert answer.status_code == 201, answer.text
        after = server.peaks()
    assert len(before) == len(after) == 2
    grown = max(after[process] - before[process] for process in before)
    print(f"{size / 1e9:.2f} GB pushed in {time.monotonic() - started:.0f} s; memory grew by {grown / 1e6:.0f} MB")
    assert grown < 150 << 20
    assert server.stop() == 0
    server.close()
    store.close()


def _large_release(folder, rows):
    """A study of nine numbers, and a release of very many rows written with the card of a small one."""
    public = {"source": "public", "reason": "made up"}
    columns = [{"name": f"x{number}", "kind": "numeric", "low": 0, "high": 1, **public} for number in range(9)]
    columns.append({"name": "y", "kind": "categorical", "role": "label", "categories": ["0", "1"], **public})
    definition = {**consortium.DEFINITION, "schema": {"columns": columns}, "guarantee": {"epsilon_record": 9.0}}
    schema = Schema.from_dict({"columns": columns})
    rng = np.random.default_rng(0)
    small = {f"x{number}": rng.random(50) for number in range(9)} | {"y": rng.integers(2, size=50)}
    options = Options(mechanism="additive-noise", parameters={"scale": 1.0}, schema=schema)
    sanitize(pa.table(small), folder / "small", options)
    with contextlib.closing(pq.ParquetFile(folder / "small" / "release.parquet")) as file:
        card = json.loads(file.metadata.metadata[b"sfumato.card"])
        arrow = file.schema_arrow
    metadata = {b"sfumato.card": json.dumps({**card, "rows": rows}).encode()}
    path, block = folder / "large.parquet", 500_000
    noise = rng.laplace(0, 1, (9, block)) + rng.random((9, block))
    label = pa.array(rng.integers(2, size=block)).cast(arrow.field("y").type)
    with pq.ParquetWriter(path, arrow.with_metadata(metadata), compression="none", use_dictionary=False) as writer:
        for number in range(rows // block):
            rolled = [pa.array(np.roll(column, 31 * number)) for column in noise]
            writer.write_table(pa.table([*rolled, label], schema=arrow.with_metadata(metadata)))
    return definition, path


def _pieces(path):
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def _sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
