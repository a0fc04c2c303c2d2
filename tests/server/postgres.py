"""A real PostgreSQL server in a folder of its own, for as long as the tests run."""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg


def binaries() -> Path | None:
    """The folder of initdb and postgres: the newest that Debian has, or the one on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """One server; it refuses to run as root, so that root runs it as somebody else."""

    def __init__(self, bin: Path) -> None:
        self._bin = bin
        self._user = _unprivileged() if os.getuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="sfumato-pg-"))
        if self._user:
            shutil.chown(self.folder, self._user)
        initialize = [bin / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "sfumato", "-N", "-E", "UTF8"]
        subprocess.run(initialize, check=True, capture_output=True, user=self._user, cwd="/")
        for attempt in range(5):  # somebody else may take the port before PostgreSQL does
            self.port = free_port()
            try:
                self.start()
                return
            except RuntimeError:
                if attempt == 4:
                    raise

    def start(self) -> None:
        options = ["-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder), "-c", "max_connections=100"]
        self._process = subprocess.Popen(
            [self._bin / "postgres", "-D", self.folder / "data", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._user,
            cwd="/",
        )
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url(), connect_timeout=10):
                return
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.stop()
                raise RuntimeError("PostgreSQL does not start.")
            time.sleep(0.05)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://sfumato@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """An empty database; returns its URL."""
        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def empty(self, url: str) -> str:
        """Remove all rows, which is much quicker than a new database."""
        with psycopg.connect(url) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            connection.execute("SET session_replication_role = replica")  # no foreign keys meanwhile
            for (name,) in tables:
                if name != "alembic_version":
                    connection.execute(f"DELETE FROM {name}")
        return url

    def stop(self) -> None:
        """At once, whatever connections there are, as when its machine goes down."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _unprivileged() -> str:
    known = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
