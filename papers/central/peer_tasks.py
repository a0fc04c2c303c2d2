"""MST and AIM of dpmm at equal budget, in an environment of their own (see `benchmarks/peers.py`), and ours beside."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from frames import LABEL, table_of
from sklearn.model_selection import train_test_split
from tasks import DELTA, Piece, _encoded, kept, scores

from sfumato.table import Encoding

ROOT = Path(__file__).resolve().parent.parent.parent
SETS = ("pima", "magic04", "credit_g", "waveform", "wdbc", "pendigits")
OURS = "ours"
WAYS = (OURS, "mst", "mst by class", "aim", "aim by class")
SEEDS = 3
MOST_SECONDS = 900
"""Of processor time: a run that takes longer is ended, and the page says so."""


class PeerTask(Piece):
    """`way`: ours, or mst or aim, of the whole table or by class, with the library's defaults."""

    def do(self) -> dict[str, Any]:
        """The same figures as of our own rows; nothing where the peer is not installed or fails."""
        python = sys.executable if self.way == OURS else _python_of_peers()
        if python is None:
            return {}
        frame, schema = table_of(self.data)
        train, test = train_test_split(frame, test_size=0.3, stratify=frame[LABEL], random_state=self.seed)
        encoding = Encoding(schema)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            train.to_csv(folder / "train.csv", index=False)
            (folder / "domain.json").write_text(json.dumps(domain_of(schema)))
            schema.save(folder / "schema.yaml")
            worker = "own_worker.py" if self.way == OURS else "peer_worker.py"
            words = [python, str(Path(__file__).with_name(worker)), self.way, name]
            words += [str(self.epsilon), str(DELTA), str(self.seed)]
            kept_apart = () if self.way == OURS else ("PYTHONPATH",)
            clean = {key: value for key, value in os.environ.items() if key not in kept_apart}
            done = subprocess.run(words, check=False, capture_output=True, text=True, env=clean, preexec_fn=_limited)
            if not (folder / "cost.json").exists():
                return {"unfinished": _why(done.returncode, done.stderr)}
            drawn = pd.read_csv(folder / "drawn.csv")
            cost = json.loads((folder / "cost.json").read_text())
        X, _ = _encoded(encoding, train)
        drawn = drawn[frame.columns].assign(**{LABEL: drawn[LABEL].astype(frame[LABEL].dtype)})
        Z, z = _encoded(encoding, drawn)
        return {**cost, "learners": scores(Z, z, *_encoded(encoding, test)), **kept(X, Z)}


def domain_of(schema: Any) -> dict[str, Any]:
    """The public bounds and categories, as dpmm reads them; with the label among them, it is aware of it."""
    found: dict[str, Any] = {}
    for column in schema.columns:
        if column.kind == "categorical":
            found[column.name] = {"categories": list(column.categories)}
        else:
            low, high = column.bounds
            found[column.name] = {"lower": low, "upper": high}
    return found


def peer_tasks(fast: bool = False) -> Iterator[PeerTask]:
    """At epsilon 1, quick ones first."""
    for seed in range(1 if fast else SEEDS):
        for data in SETS[:1] if fast else SETS:
            for way in WAYS:
                yield PeerTask(data, way, 1.0, seed)


def _python_of_peers() -> str | None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from peers import python_with

    return python_with("dpmm")


def _why(code: int, said: str) -> str:
    """In a few words: over the limit, or the last line of an error."""
    if code in (-signal.SIGKILL, -signal.SIGXCPU):
        return f"over {MOST_SECONDS} s"
    return (said.strip().splitlines() or [f"ended with {code}"])[-1][:200]


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
