"""A real server in a process of its own, to be stopped and killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx

SCRIPT = """
import json, sys
from pathlib import Path
from sfumato.study.server.app import serve
from sfumato.study.server.settings import Rate, Settings
given = json.loads(sys.argv[1])
given |= {name: Rate(*value) for name, value in given.items() if name.endswith("_rate")}
serve(Settings(Path(given.pop("data")), **given), port=0, ready=lambda address: print(address, flush=True))
"""


class Served:
    """`python -c serve`, with its address and what it logged."""

    def __init__(self, data: Path, **settings) -> None:
        given = {"data": str(data), "worker": False, **settings}
        self._log = (data.parent / f"{data.name}.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, json.dumps(given)], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(Path(self._log.name).read_text())

    def kill(self) -> None:
        """As a power cut does it: no handler runs."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, timeout=300) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()
        self._log.close()

    def client(self, token: str, **more) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=600, trust_env=False, **more)

    def peaks(self) -> dict[int, int]:
        """Most bytes that the process and each of its children have ever held."""
        return {pid: _peak(pid) for pid in (self.process.pid, *_children(self.process.pid))}


def _children(pid: int) -> list[int]:
    """Every thread has children of its own."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text().split()]


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def is_root() -> bool:
    return os.getuid() == 0
