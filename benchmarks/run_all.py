"""Run every benchmark, one after the other, each in a process of its own: `make bench`.

SFUMATO_PEERS names an interpreter whose environment holds the tools that cannot live beside us.

Run: python benchmarks/run_all.py [names...]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = {"http_load", "run_all", "side_by_side"}
ALL = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SHARED)


def main() -> int:
    names = sys.argv[1:] or ALL
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"There is no benchmark {', '.join(unknown)}. Choose from: {', '.join(ALL)}.", file=sys.stderr)
        return 2
    environment = dict(os.environ)
    if peers := environment.get("SFUMATO_PEERS"):
        environment.setdefault("SFUMATO_ANONYMETER_PYTHON", peers)
    failed = []
    for name in names:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False, env=environment).returncode:
            failed.append(name)
    if failed:
        print(f"\nFailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
