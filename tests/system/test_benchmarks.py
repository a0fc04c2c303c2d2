"""Every benchmark runs, at its smallest: what they print is for people, but an import that moved shows here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TINY = {
    "bench_answers": "--seconds 0.3 --rounds 1 --attributes 3",
    "bench_audit_device": "--device processor --rows 1000 --some 200 --mechanism additive-noise",
    "bench_bayes_window": "--rows 200 --people 200",
    "bench_by_class": "--rows 3000 --repeats 1",
    "bench_clusters": "--repeats 1 --rows 150 --sets iris",
    "bench_coverage": "--runs 1 --rows 100 --noise Laplace,\xa010%",
    "bench_empirical_bayes": "--rows 3000 --columns 4 --repeats 1",
    "bench_guidance": "--repeats 1 --respondents 2000",
    "bench_majority": "--generated",
    "bench_nearest_row": "--rows 300 --repeats 1",
    "bench_neighbours_device": "--device cpu --rows 2000 --processor 300",
    "bench_noise": "--draws 100000 --repeats 1",
    "bench_pca_statistics": "--rows 20000 --columns 8 --repeats 1",
    "bench_private_basis": "--runs 1 --data DATA",
    "bench_push": "--megabytes 1 --sites 3 --enrolled 5",
    "bench_radius_vote": "--rows 3000 --repeats 1 --bounds",
    "bench_reconstruction": "--repeats 1 --most 100000",
    "bench_regression": "--repeats 1",
    "bench_resampling": "--repeats 1 --rows 20000",
    "bench_rotation": "--repeats 1 --rows 3000",
    "bench_rules": "--repeats 1 --data DATA",
    "bench_spark": "--rows 3000 6000 --columns 4",
    "bench_square_wave": "--rows 20000 --columns 8 --repeats 1",
    "bench_stream_mechanisms": "--rows 20000 --columns 4 --repeats 1 --only tree-resampling",
    "bench_stream_sanitize": "--rows 20000 --columns 8 --repeats 1 --factor 2",
    "bench_tree": "--rows 5000 --repeats 1",
    "bench_tree_resampling": "--rows 20000 --columns 6 --repeats 1",
    "bench_vectors": "--rows 40000 --columns 8 --repeats 1",
    "cost_curves": "--tiny --into DATA/curves.json --picture DATA/curves.svg",
}
"""DATA is a folder with two tables."""
SPARK = BENCHMARKS.parent / ".venv" / "spark" / "bin" / "python"

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Tables of the names that two benchmarks look for."""
    folder = tmp_path_factory.mktemp("data")
    load_breast_cancer(as_frame=True).frame.rename(columns={"target": "label"}).to_csv(folder / "wdbc.csv", index=False)
    rows = ("y,n,y,y,n,y,y", "n,n,y,n,n,y,n", "y,y,n,y,y,n,y", "n,y,n,n,y,n,n", "y,n,n,y,n,n,y")
    votes = ["a,b,c,d,e,f,label", *rows * 60]
    (folder / "votes.csv").write_text("\n".join(votes) + "\n")
    return folder


@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_runs(name, data, tmp_path):
    given = [one.replace("DATA", str(data)).replace("\xa0", " ") for one in TINY[name].split(" ")]
    done = subprocess.run(
        [str(SPARK if name == "bench_spark" and SPARK.exists() else sys.executable), f"{BENCHMARKS / name}.py", *given],
        capture_output=True,
        text=True,
        timeout=1_200,
        env={**os.environ, "SFUMATO_BENCH_WORK": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    if not done.stdout.strip().splitlines()[-1].startswith("left out"):
        return
    pytest.skip(done.stdout.strip().splitlines()[-1])


def test_every_benchmark_has_a_smallest_size():
    assert set(TINY) == {path.stem for path in BENCHMARKS.glob("bench_*.py")} | {"cost_curves"}
