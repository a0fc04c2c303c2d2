"""Find the tools that we measure ourselves against. They live in an environment of their own.

`make bench` makes it in .venv/peers; SFUMATO_PEERS names another interpreter.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

MADE_BY_MAKE = Path(__file__).resolve().parent.parent / ".venv" / "peers" / "bin" / "python"


@cache
def python_with(package: str) -> str | None:
    """An interpreter that can import the package; None, after one line that says why, where there is none."""
    named = os.environ.get("SFUMATO_PEERS") or str(MADE_BY_MAKE)
    if not Path(named).exists():
        print(f"  {package} is left out: there is no {named}; `make bench` makes one, SFUMATO_PEERS names another")
        return None
    tried = subprocess.run([named, "-c", f"import {package}"], capture_output=True, text=True, check=False)
    if tried.returncode:
        why = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"  {package} is left out: {named} cannot import it ({why})")
        return None
    return named
