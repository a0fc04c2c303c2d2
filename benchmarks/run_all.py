"""Run every benchmark, one after the other, each in a process of its own: `make bench`.

Run: python benchmarks/run_all.py [names...]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALL = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> int:
    names = [name.removeprefix("bench_") for name in sys.argv[1:]] or ALL
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"There is no benchmark {', '.join(unknown)}. Choose from: {', '.join(ALL)}.", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"bench_{name}.py")], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nFailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
