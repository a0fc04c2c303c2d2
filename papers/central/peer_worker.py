"""Runs inside the peers' environment: fit MST or AIM of dpmm on a CSV file with a public domain, and draw rows.

`by class`: one model for each class, on its rows alone. A person is in one class, so the budget is the same, and the
model knows the label in everything it does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

LABEL = "label"


def most_megabytes() -> float:
    """The most memory this program had; what `getrusage` says would include that of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    import pandas as pd
    from dpmm.pipelines import AIMPipeline, MSTPipeline

    way, folder, epsilon, delta, seed = sys.argv[1], Path(sys.argv[2]), *map(float, sys.argv[3:6])
    domain = json.loads((folder / "domain.json").read_text())
    frame = pd.read_csv(folder / "train.csv")
    for name, one in domain.items():
        if "categories" in one:
            frame[name] = frame[name].astype(str)
    kind, by_class = way.split()[0], way.endswith("by class")
    made_by = {"mst": MSTPipeline, "aim": AIMPipeline}[kind]
    started = time.process_time()

    def rows_like(part, part_domain):
        # A tenth of the budget goes to dpmm's own binning, as its defaults have it.
        pipeline = made_by(epsilon=0.9 * epsilon, delta=delta, proc_epsilon=0.1 * epsilon, n_jobs=1)
        pipeline.fit(part, part_domain, random_state=int(seed))
        return pipeline.generate(n_records=len(part), random_state=int(seed))

    if by_class:
        others = {name: one for name, one in domain.items() if name != LABEL}
        parts = [(label, part.drop(columns=LABEL).reset_index(drop=True)) for label, part in frame.groupby(LABEL)]
        drawn = pd.concat([rows_like(part, others).assign(**{LABEL: label}) for label, part in parts])
    else:
        drawn = rows_like(frame, domain)
    seconds = time.process_time() - started
    drawn.to_csv(folder / "drawn.csv", index=False)
    (folder / "cost.json").write_text(json.dumps({"seconds": seconds, "megabytes": most_megabytes()}))
