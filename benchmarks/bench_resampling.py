"""Kernel resampling beside drawing that many normals, scikit-learn's KernelDensity and SDV's GaussianCopula.

SDV runs in an environment of its own (peers.py), without torch, which its copula does not need. Its licence is
BUSL-1.1: we compare with it, and nothing of ours depends on it.

Run: python benchmarks/bench_resampling.py [normals] [kernel-density] [copula] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from peers import python_with
from side_by_side import Rounds, in_turns, ratio
from sklearn.neighbors import KernelDensity

from sfumato.mechanisms import KernelResampling
from sfumato.noise import Streams

COPULA = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import logging
logging.disable(logging.WARNING)
import pandas as pd
from sdv.metadata import Metadata
from sdv.single_table import GaussianCopulaSynthesizer
frame = pd.read_parquet(sys.argv[1])
metadata = Metadata.detect_from_dataframes({"t": frame})
wall, cpu = time.perf_counter(), time.process_time()
model = GaussianCopulaSynthesizer(metadata)
model.fit({"t": frame})
drawn = model.sample(len(frame))
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


def table(rows: int, columns: int) -> np.ndarray:
    """Correlated columns in the unit cube."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 5)) @ rng.standard_normal((5, columns)) + 0.5 * rng.standard_normal((rows, columns))
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


def beside_normals(repeats: int, rows: int) -> None:
    X = table(rows, 20)
    y = np.random.default_rng(1).integers(2, size=len(X))
    by_column = np.asfortranarray(X)  # as the engines hand blocks over
    streams = Streams.seeded(0)
    fits = {kernel: KernelResampling(kernel).fit(X, y) for kernel in ("epanechnikov", "gaussian")}
    print(f"Resampling {rows:,} x 20 in two classes, one thread, the product's AES streams")
    rounds, answers = in_turns(
        {
            "standard_normal of that shape": lambda: streams.generator(0).standard_normal(X.shape),
            "Epanechnikov, rows together": lambda: fits["epanechnikov"].perturb(X, y, streams.generator(1)),
            "Epanechnikov, columns together": lambda: fits["epanechnikov"].perturb(by_column, y, streams.generator(1)),
            "Gaussian, columns together": lambda: fits["gaussian"].perturb(by_column, y, streams.generator(1)),
            "fit and Epanechnikov, columns together": lambda: (
                KernelResampling().fit(by_column, y).perturb(by_column, y, streams.generator(1))
            ),
        },
        repeats,
    )
    normals = rounds["standard_normal of that shape"]
    for name, found in rounds.items():
        if found is not normals:
            ratio(f"{name} / normals", found, normals, "3" if "fit" not in name else "")
    if len(answers["Epanechnikov, rows together"].X) != len(X):
        sys.exit("a row was lost")


def beside_kernel_density(repeats: int, rows: int) -> None:
    """The same estimate, one class: scikit-learn's bandwidth is one number for all columns."""
    X = table(rows // 10, 20)
    ours = KernelResampling("gaussian", bandwidth=0.05, rows=rows).fit(X)
    theirs = KernelDensity(bandwidth=0.05).fit(X)
    print(f"{rows:,} rows from a Gaussian kernel estimate of {len(X):,} x 20, NumPy's own generators")
    rounds, answers = in_turns(
        {
            "KernelDensity.sample": lambda: theirs.sample(rows, random_state=0),
            "KernelResampling.perturb": lambda: ours.perturb(X, None, np.random.default_rng(0)).X,
        },
        repeats,
    )
    ratio("ours / scikit-learn", rounds["KernelResampling.perturb"], rounds["KernelDensity.sample"], "1")
    sd = [answers[name].std(axis=0) for name in rounds]
    if not np.allclose(*sd, rtol=0.02):
        sys.exit("the two do not draw from the same estimate")


def beside_copula(repeats: int, rows: int) -> None:
    X = table(rows // 10, 20)
    y = np.zeros(len(X), dtype=np.int64)
    print(f"Fit and draw {len(X):,} x 20")

    def fit_and_draw() -> int:
        return len(KernelResampling().fit(X, y).perturb(X, y, Streams.seeded(0).generator(0)).X)

    rounds, _ = in_turns({"KernelResampling, fit and draw": fit_and_draw}, repeats)
    if not (python := python_with("sdv")):
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pd.DataFrame(X, columns=[f"x{j}" for j in range(20)]).to_parquet(path)
        done = subprocess.run([python, "-c", COPULA, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  SDV is left out: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        return
    wall, cpu = json.loads(done.stdout.splitlines()[-1])
    print(f"  {'SDV GaussianCopula, fit and sample':46s} {wall:8.3f} s on the clock {cpu:8.3f} s of processors")
    copula = Rounds((wall,), (cpu,))
    ratio("SDV / ours (times faster)", copula, rounds["KernelResampling, fit and draw"], "at least 100")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = {"normals": beside_normals, "kernel-density": beside_kernel_density, "copula": beside_copula}
    options.add_argument("parts", nargs="*", default=[], help=f"some of {', '.join(parts)}; all by default")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--rows", type=int, default=1_000_000, help="drawn; a tenth of them is fitted")
    chosen = options.parse_args()
    for name in chosen.parts or parts:
        parts[name](chosen.repeats, chosen.rows)


if __name__ == "__main__":
    main()
