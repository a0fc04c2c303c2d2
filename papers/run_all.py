"""Every paper, one after another: `make papers`. Each can be interrupted and goes on where it was."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(arguments: list[str]) -> int:
    """Run every papers/*/run.py with the same arguments; go on after a failure and report it at the end."""
    failed = []
    for run in sorted(HERE.glob("*/run.py")):
        print(f"== {run.parent.name}", flush=True)
        started = time.monotonic()
        if subprocess.run([sys.executable, str(run), *arguments], check=False).returncode:
            failed.append(run.parent.name)
        print(f"== {run.parent.name}: {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    if failed:
        print(f"Not finished: {', '.join(failed)}. Start it again; it goes on where it was.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
