"""The drill of docs/operations.md: back up a running server, lose it, restore, and go on."""

import shutil
import sqlite3
import subprocess

import consortium
import httpx
import postgres
import pytest
from served import Served

from sfumato.core.errors import SfumatoError
from sfumato.study.server.app import create_app
from sfumato.study.server.store import Store

pytestmark = pytest.mark.system
PARTS = ("releases", "tests", "models")


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_back_up_lose_restore(tmp_path, backend, request):
    cluster = request.getfixturevalue("a_cluster") if backend == "postgresql" else None
    database = None if cluster is None else cluster.new_database()
    data, backup = tmp_path / "data", tmp_path / "backup"
    more = {} if database is None else {"database": database}
    store = Store.open(consortium.settings(data, **more))
    study, _ = store.studies.create(consortium.study())
    token = store.sites.invite(study, "north").token
    bodies = [consortium.release(tmp_path, seed=seed) for seed in range(3)]
    server = Served(data, **more)
    assert [push(server, study, token, body) for body in bodies[:2]] == [201, 201]
    backup.mkdir(mode=0o700)
    dump(data, database, backup)  # the database first, while the server runs
    for part in PARTS:
        shutil.copytree(data / part, backup / part)
    shutil.copy(data / "log.key", backup)
    assert push(server, study, token, bodies[2]) == 201  # acknowledged after the backup
    server.stop()
    shutil.rmtree(data)
    restored = tmp_path / "restored"
    shutil.copytree(backup, restored)
    restored.chmod(0o700)
    if cluster is None:
        without = shutil.copytree(restored, tmp_path / "without", ignore=shutil.ignore_patterns("log.key"))
        with pytest.raises(SfumatoError, match="Take it from the backup"):
            create_app(consortium.settings(without))
    again = {} if cluster is None else {"database": load(cluster, restored)}
    server = Served(restored, **again)
    try:
        assert [push(server, study, token, body) for body in bodies[:2]] == [200, 200]  # still there: nothing new
        assert push(server, study, token, bodies[2]) == 201  # gone with the disk, and safe to push again
    finally:
        server.stop()


def push(server, study, token, body):
    url = f"{server.address}/api/v1/studies/{study}/releases/{consortium.sha(body)}"
    return httpx.put(url, content=body, headers={"Authorization": f"Bearer {token}"}, timeout=120).status_code


def dump(data, database, backup):
    if database is None:
        with sqlite3.connect(data / "sfumato.db") as live:
            live.execute("VACUUM INTO ?", (str(backup / "sfumato.db"),))
    else:
        command = [str(postgres.binaries() / "pg_dump"), "--dbname", database, "--file", str(backup / "dump.sql")]
        subprocess.run(command, check=True)


def load(cluster, folder):
    database = cluster.new_database()
    command = [str(postgres.binaries() / "psql"), "-q", "--dbname", database, "--file", str(folder / "dump.sql")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return database
