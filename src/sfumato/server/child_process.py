"""Children of the server: processes that speak JSON, a line at a time, know none of its secrets, and have limits."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import IO, Any

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")

# The parent's end


def start_child(module: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """`python -m module` with pipes at both ends, and of the environment only what every program may know.

    `-P`: the folder in which the server happens to run is no place for modules.
    """
    known = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**known, **environment},
        start_new_session=True,
    )


def tell(process: subprocess.Popen[bytes], job: object) -> None:
    """Write one job."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(job).encode() + b"\n")
    process.stdin.flush()


def end_child(process: subprocess.Popen[bytes]) -> None:
    """End it, whatever it is doing."""
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()


# The child's end


def own_output() -> IO[str]:
    """Where answers go; whatever a library prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def limit(what: int, most: int) -> None:
    """Lower a limit of this process."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def say(answers: IO[str], answer: Any) -> None:
    """One answer a line."""
    answers.write(json.dumps(answer, allow_nan=False) + "\n")
    answers.flush()
