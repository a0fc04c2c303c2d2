"""Find the tools that we measure ourselves against. They live in an environment of their own.

`make bench` makes it in .venv/peers, and `make peers-central` one in .venv/peers-central for those that cannot live
beside the others. SFUMATO_PEERS names another interpreter.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

ENVIRONMENTS = Path(__file__).resolve().parent.parent / ".venv"
APART = {"dpmm": "peers-central"}
"""Packages that ask for older versions than the other peers do, and the environment (and target) they have."""


@cache
def python_with(package: str) -> str | None:
    """An interpreter that can import the package; None, after one line that says why, where there is none."""
    folder = APART.get(package, "peers")
    named = os.environ.get("SFUMATO_PEERS") or str(ENVIRONMENTS / folder / "bin" / "python")
    if not Path(named).exists():
        target = APART.get(package, "bench")
        print(f"  {package} is left out: there is no {named}; `make {target}` makes one, SFUMATO_PEERS names another")
        return None
    tried = subprocess.run([named, "-c", f"import {package}"], capture_output=True, text=True, check=False)
    if tried.returncode:
        why = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"  {package} is left out: {named} cannot import it ({why})")
        return None
    return named
