"""Runs inside the peers' environment: fit MST or AIM of dpmm on a CSV file with a public domain, and draw rows."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    import pandas as pd
    from dpmm.pipelines import AIMPipeline, MSTPipeline

    way, folder, epsilon, delta, seed = sys.argv[1], Path(sys.argv[2]), *map(float, sys.argv[3:6])
    domain = json.loads((folder / "domain.json").read_text())
    frame = pd.read_csv(folder / "train.csv")
    for name, one in domain.items():
        if "categories" in one:
            frame[name] = frame[name].astype(str)
    made_by = {"mst": MSTPipeline, "aim": AIMPipeline}[way]
    started = time.process_time()
    # A tenth of the budget goes to dpmm's own binning, as its defaults have it.
    pipeline = made_by(epsilon=0.9 * epsilon, delta=delta, proc_epsilon=0.1 * epsilon, n_jobs=1)
    pipeline.fit(frame, domain, random_state=int(seed))
    drawn = pipeline.generate(n_records=len(frame), random_state=int(seed))
    drawn.to_csv(folder / "drawn.csv", index=False)
    (folder / "seconds.json").write_text(json.dumps(time.process_time() - started))
