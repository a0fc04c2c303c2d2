"""Runs in a process of its own, as the peers do: fit `tree-resampling` on a CSV file with a public schema, draw rows.

The second fit is timed: the first also imports and warms up.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from peer_worker import most_megabytes

import sfumato as sf


def main(folder: Path, epsilon: float, delta: float, seed: int) -> None:
    """Read the table and the schema of `folder`; leave rows and costs there."""
    frame, schema = pd.read_csv(folder / "train.csv"), sf.Schema.load(folder / "schema.yaml")

    def rows_like() -> pd.DataFrame:
        with tempfile.TemporaryDirectory() as name:
            release = sf.sanitize(
                frame, schema=schema, mechanism="tree-resampling", epsilon=epsilon, delta=delta, seed=1_000 + seed,
                ledger=Path(name) / "ledger.json",
            )  # fmt: skip
        return release.table

    rows_like()
    started = time.process_time()
    drawn = rows_like()
    seconds = time.process_time() - started
    drawn.to_csv(folder / "drawn.csv", index=False)
    (folder / "cost.json").write_text(json.dumps({"seconds": seconds, "megabytes": most_megabytes()}))


if __name__ == "__main__":
    main(Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
