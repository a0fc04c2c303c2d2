"""Streaming sanitize with principal-laplace, Parquet to Parquet, beside its bare passes and pandas + scikit-learn.

The bare passes read the file twice, form X'X, project, add float noise and write: no checks, no guarantee, no hash, no
shuffle, no fsync. They are run as a plain loop (BLAS takes all cores) and through two threads like our engine.
Every candidate runs in a fresh process that is warm, in turns with the others (see `stream_runs`).
The release is checked: its basis equals the in-memory fit and scikit-learn's PCA, its noise has the stated variance.
Peak memory and time of such a process are told at 1M and at 10M rows, beside the bare passes: what does not fit the
system's cache is read from the disk, by both.

Run: python benchmarks/bench_stream_sanitize.py [--rows 1000000] [--columns 100] [--repeats 3] [--factor 10]
"""

from __future__ import annotations

import argparse
import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from side_by_side import WORK, big_table, in_child, public_schema, ratio
from stream_runs import forget_ledger, in_rounds, left_out, measured, told_phases

from sfumato.guarantee import Card
from sfumato.mechanisms import PrincipalLaplace
from sfumato.noise import Streams
from sfumato.release import sanitize as job
from sfumato.release.source import in_order
from sfumato.table import Encoding, open_table

READ_ROWS = 1 << 15


def ours(path: Path, columns: int, noise: str) -> Path:
    options = job.Options(
        parameters={"noise": noise},
        schema=public_schema(columns),
        engine="stream",
        force=True,
        unprotected=True,
        ledger=WORK / "ledger.json",
    )
    return job.sanitize(path, WORK / f"release-{noise}", options).folder


def matrices(path: Path) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16).iter_batches(batch_size=READ_ROWS)


def columns_of(batch: pa.RecordBatch) -> np.ndarray:
    return np.stack([column.to_numpy() for column in batch.columns])


def bare(path: Path, columns: int, through: Any) -> Path:
    """Two reads, X'X, the product, noise and the write, and nothing else; `through` is `map`, or our threads."""

    def product(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        X = columns_of(batch)
        return X @ X.T, X.sum(axis=1)

    scatter, total, rows = np.zeros((columns, columns)), np.zeros(columns), pq.ParquetFile(path).metadata.num_rows
    for part, sums in through(product, matrices(path)):
        scatter += part
        total += sums
    V = np.linalg.eigh(scatter / rows - np.outer(total, total) / rows**2)[1][:, ::-1].T[: columns // 2].copy()
    rng = [Streams.seeded(number).generator(0) for number in range(64)]

    def project(batch: pa.RecordBatch) -> pa.Table:
        Z = V @ columns_of(batch)
        generator = rng.pop()
        Z += generator.standard_exponential(Z.shape)
        Z -= generator.standard_exponential(Z.shape)
        rng.append(generator)
        return pa.table(list(Z), names=names)

    names = [f"c{j:03d}" for j in range(len(V))]
    out = WORK / "bare.parquet"
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(out, schema, compression="none", use_dictionary=False, write_statistics=False) as writer:
        for table in through(project, matrices(path)):
            writer.write_table(table)
    return out


def pandas_and_sklearn(path: Path, columns: int) -> Path:
    import pandas as pd
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import MinMaxScaler

    X = MinMaxScaler().fit_transform(pd.read_parquet(path))
    Z = PCA(n_components=columns // 2).fit_transform(X)
    Z += np.random.default_rng().laplace(scale=0.3 * np.ptp(Z, axis=0), size=Z.shape)
    out = WORK / "pandas.parquet"
    pd.DataFrame(Z, columns=[f"c{j:03d}" for j in range(Z.shape[1])]).to_parquet(out)
    return out


def check(path: Path, columns: int, folder: Path) -> None:
    """The streamed fit is the in-memory one and scikit-learn's, rows are a permutation, noise has its variance."""
    from sklearn.decomposition import PCA

    card = Card.load(folder)
    encoding = Encoding(public_schema(columns))
    X = encoding.encode(open_table(path).read()).X
    fitted = PrincipalLaplace(noise="float").fit(X, encoding=encoding)
    matrix = np.array(card.transform["matrix"])
    theirs = PCA(n_components=len(matrix)).fit(X).components_
    cosines = np.abs(np.einsum("ij,ij->i", matrix, theirs))
    order = pq.read_table(folder / "trace.parquet")["source"].to_numpy()
    Z = np.column_stack([column.to_numpy() for column in pq.read_table(folder / "release.parquet").columns])
    noise = Z - fitted.embed(X)[order]
    variance = noise.var(axis=0) / np.array([channel.law.variance for channel in fitted.recipe_.channels])
    print(f"  largest difference from the in-memory basis          {np.abs(matrix - fitted.matrix_).max():.1e}")
    print(f"  smallest |cosine| with scikit-learn's components     {cosines.min():.12f}")
    print(f"  noise variance over the stated one                   {variance.min():.4f} to {variance.max():.4f}")
    assert np.abs(matrix - fitted.matrix_).max() < 1e-7
    assert cosines.min() > 1 - 1e-6
    assert np.array_equal(np.sort(order), np.arange(len(X)))
    assert abs(variance - 1).max() < 20 / np.sqrt(len(X))


CANDIDATES = {
    "sfumato, float noise": ("float", "nothing"),
    "sfumato, float noise, without the ledger": ("float", "ledger"),
    "sfumato, float noise, without ledger and shuffle": ("float", "ledger and shuffle"),
    "sfumato, exact noise": ("exact", "nothing"),
}
PEERS: dict[str, Callable[[Path, int], Path]] = {
    "bare passes, plain loop": lambda path, columns: bare(path, columns, map),
    "bare passes, two threads": lambda path, columns: bare(path, columns, lambda f, items: in_order(items, f, 2)),
    "pandas + scikit-learn": pandas_and_sklearn,
}


def child(given: argparse.Namespace) -> dict[str, Any]:
    """In a child: once on a tenth of the rows, then timed."""
    short, columns = big_table(max(2, given.rows // 10), given.columns), given.columns
    if given.only in PEERS:
        run = PEERS[given.only]
        return measured(lambda: run(given.child, columns), lambda: run(short, columns))
    noise, without = CANDIDATES[given.only]

    def release(path: Path) -> None:
        forget_ledger(WORK)
        ours(path, columns, noise)

    with left_out(without):
        return measured(lambda: release(given.child), lambda: release(short))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--factor", type=int, default=10, help="how many times longer the second table is, for memory")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.child:
        print(json.dumps(child(given)))
        return
    rows, columns = given.rows, given.columns
    path = big_table(rows, columns)

    def arguments(name: str, table: Path = path) -> tuple[str, ...]:
        return ("--child", str(table), "--only", name, "--rows", str(rows), "--columns", str(columns))

    print(f"Parquet to Parquet, {rows:,} x {columns} float64, half of the components", flush=True)
    best, told = in_rounds(__file__, {name: arguments(name) for name in (*CANDIDATES, *PEERS)}, given.repeats)
    for name, found in best.items():
        print(f"  {name:50s} {found.wall:8.2f} s on the clock {found.cpu:8.2f} s of processors")
        if name in CANDIDATES:
            print(f"    {told_phases(told[name]['phases'])}")
    beside = best["bare passes, two threads"]
    for name in CANDIDATES:
        ratio(f"{name} / bare", best[name], beside, "at most 1.4")
        ratio(f"pandas + scikit-learn / {name}", best["pandas + scikit-learn"], best[name], "at least 4")
    for noise in ("float", "exact"):
        print(f"the release with {noise} noise, checked")
        forget_ledger(WORK)
        check(path, columns, ours(path, columns, noise))
    print(
        "by rows: peak memory (target: under 600 MB, flat) and time, beside the bare passes through two threads",
        flush=True,
    )
    clock: dict[str, list[float]] = {"the release": [], "bare": []}
    for count in dict.fromkeys((rows, rows * given.factor)):
        table = big_table(count, columns)
        found, beneath = (
            in_child(__file__, *arguments(name, table)) for name in ("sfumato, float noise", "bare passes, two threads")
        )
        for one, name in ((found, "the release"), (beneath, "bare")):
            clock[name].append(one["wall"])
            told = f"{one['wall']:8.1f} s on the clock {one['cpu']:8.1f} s of processors"
            print(
                f"  {count:>12,} rows  {name:12s} {one['peak']:6.0f} MB {told} {one['read']:6.1f} GB from the disk",
                flush=True,
            )
        if count != rows:
            table.unlink()
    for name, (short, *long) in clock.items():
        print("".join(f"  {given.factor} x the rows, {name:12s} {one / short:6.1f} x on the clock" for one in long))
    for leftover in ("release-float", "release-exact"):
        shutil.rmtree(WORK / leftover, ignore_errors=True)
    for leftover in ("bare.parquet", "pandas.parquet"):
        (WORK / leftover).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
