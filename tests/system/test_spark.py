"""A real Spark of several processes: an executor dies, and the release is complete, correct and sealed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp

from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

pytestmark = pytest.mark.system
ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / ".venv" / "spark" / "bin" / "python"
PYTHON = Path(os.environ.get("SFUMATO_SPARK_PYTHON", sys.executable if find_spec("pyspark") else OWN))
PARTS, ROWS = 8, 20_000

JOB = """
import os, signal, sys, threading, time
from pathlib import Path

from sfumato.release.sanitize import Options, sanitize
from sfumato.release.spark import engine
from sfumato.release.spark.engine import running_session

key = os.urandom(32)
Path("run-key").write_text(key.hex())
carried = engine.InSpark.streams
from sfumato.noise import Streams
engine.InSpark.streams = lambda self, streams: carried(self, streams if streams.reproducible else Streams(key))

def executors():
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in words and TOKEN in words:
            found.append(int(folder.name))
    return found

TOKEN = sys.argv[1].encode()

def told(step, done, total):
    if step == "Perturbing":
        def strike():
            time.sleep(3)
            alive = executors()
            if alive:
                os.kill(alive[0], signal.SIGKILL)
                Path("killed").write_text(str(len(alive)))
        threading.Thread(target=strike).start()

MASTER = "local-cluster[2,1,512]"
options = Options(engine="spark", master=MASTER, label="label", mechanism="principal-laplace", parameters={"b": 0.3})
nobodys = Options(engine="spark", master=MASTER, schema="schema.yaml", mechanism="tree-resampling", seed=7,
                  parameters={"epsilon": 1.0, "delta": 1e-6})
with running_session(MASTER):  # both in one: it takes long to start
    sanitize("in", "out", options, told)
    sanitize("in", "nobodys", nobodys)
"""
KNOWN = {"source": "public", "reason": "a form"}
SCHEMA = Schema(
    (
        *(Column(f"c{j}", "numeric", low=0.0, high=1.0, **KNOWN) for j in range(6)),
        Column("label", "categorical", role="label", categories=("0", "1"), **KNOWN),
    )
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One release by Spark, with an executor killed while rows are perturbed."""
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import pyspark"], capture_output=True).returncode:
        pytest.skip("PySpark is not installed (sfumato[spark])")
    if shutil.which("java") is None:
        pytest.skip("there is no Java (default-jre-headless)")
    folder = tmp_path_factory.mktemp("spark")
    rng = np.random.default_rng(0)
    (folder / "in").mkdir()
    for i in range(PARTS):
        columns = {f"c{j}": rng.random(ROWS) for j in range(6)}
        pq.write_table(pa.table({**columns, "label": rng.integers(0, 2, ROWS)}), folder / "in" / f"p{i}.parquet")
    (folder / "schema.yaml").write_text(SCHEMA.to_yaml())
    for name in ("events", "scratch", "conf"):
        (folder / name).mkdir(mode=0o700)
    secret = os.urandom(32).hex()
    (folder / "conf" / "spark-defaults.conf").write_text(
        f"spark.authenticate true\nspark.authenticate.secret {secret}\nspark.network.crypto.enabled true\n"
        f"spark.eventLog.enabled true\nspark.eventLog.dir {(folder / 'events').as_uri()}\n"
        f"spark.executor.extraJavaOptions -Dsfumato.test={folder.name}\nspark.executor.memory 512m\n"
    )
    (folder / "job.py").write_text(JOB)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_WORKER_DIR": str(folder / "scratch"),
        "SFUMATO_LEDGER": str(folder / "ledger.json"),
    }
    done = subprocess.run(
        [PYTHON, "job.py", folder.name], cwd=folder, env=environment, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def test_an_executor_died_and_the_release_is_complete_and_right(run):
    assert (run / "killed").exists()
    release = pq.read_table(run / "out" / "release.parquet").to_pandas()
    trace = pq.read_table(run / "out" / "trace.parquet")["source"].to_numpy()
    assert len(release) == PARTS * ROWS
    assert not release.duplicated().any()
    assert (np.sort(trace) == np.arange(PARTS * ROWS)).all()
    labels = np.concatenate([pq.read_table(part)["label"].to_numpy() for part in sorted((run / "in").iterdir())])
    assert (labels[trace] == release["label"].astype(int)).all()


def test_it_has_the_law_of_the_memory_engine(run):
    words = {"label": "label", "mechanism": "principal-laplace", "parameters": {"b": 0.3}}
    sanitize(run / "in", run / "memory", Options(**words, ledger=run / "other.json"))
    there, here = (pq.read_table(run / name / "release.parquet").to_pandas() for name in ("out", "memory"))
    for name in there.columns[:-1]:
        assert ks_2samp(there[name], here[name]).pvalue > 1e-4
        assert ks_2samp(there[name] * 1.3, here[name]).pvalue < 1e-4
    cards = [json.loads((run / name / "card.json").read_text()) for name in ("out", "memory")]
    assert_allclose(*(card["guarantee"]["epsilon_component"] for card in cards), rtol=1e-9)


def test_counts_are_sums_so_rows_that_belong_to_nobody_are_those_of_the_memory_engine(run):
    words = {"mechanism": "tree-resampling", "schema": SCHEMA, "parameters": {"epsilon": 1.0, "delta": 1e-6}}
    for seed in (7, 8):
        sanitize(run / "in", run / f"{seed}", Options(**words, seed=seed, ledger=run / "other.json"))
    models = [(run / name / "model.json").read_bytes() for name in ("nobodys", "7", "8")]
    assert models[0] == models[1] != models[2]
    there, here = (pq.read_table(run / name / "release.parquet") for name in ("nobodys", "7"))
    assert there.replace_schema_metadata().equals(here.replace_schema_metadata())


def test_the_run_key_stands_nowhere(run):
    key = bytes.fromhex((run / "run-key").read_text())
    looked = 0
    for path in [*(run / "events").rglob("*"), *(run / "scratch").rglob("*"), *(run / "out").rglob("*")]:
        if path.is_file():
            looked += 1
            content = path.read_bytes()
            assert key not in content
            assert key.hex().encode() not in content
    assert looked > 3
