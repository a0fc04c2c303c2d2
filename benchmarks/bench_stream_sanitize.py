"""Streaming sanitize with principal-laplace, Parquet to Parquet, beside its bare passes and pandas + scikit-learn.

The bare passes read the file twice, form X'X, project, add float noise and write: no checks, no guarantee, no hash, no
shuffle, no fsync. They are run as a plain loop (BLAS takes all cores) and through two threads like our engine.
The release is checked: its basis equals the in-memory fit and scikit-learn's PCA, its noise has the stated variance.
Peak memory is that of a child process, at 1M and at 10M rows.

Run: python benchmarks/bench_stream_sanitize.py [--rows 1000000] [--columns 100] [--repeats 3] [--factor 10]
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from side_by_side import WORK, big_table, in_child, in_turns, peak_megabytes, public_schema, ratio

from sfumato.guarantee import Card
from sfumato.jobs import sanitize as job
from sfumato.jobs import unfinished
from sfumato.jobs.engines import MemoryShuffle, in_order
from sfumato.mechanisms import Block, PrincipalLaplace
from sfumato.noise import Streams
from sfumato.table import Encoding, open_table

READ_ROWS = 1 << 15


def ours(path: Path, columns: int, noise: str, out: str | None = None) -> Path:
    options = job.Options(
        parameters={"noise": noise},
        schema=public_schema(columns),
        engine="stream",
        force=True,
        ledger=WORK / "ledger.json",
    )
    return job.sanitize(path, WORK / (out or f"release-{noise}"), options).folder


class NoShuffle(MemoryShuffle):
    """Rows stay in memory and keep their order: what the shuffle costs is the difference."""

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:  # noqa: ARG002
        yield from self._blocks


def unshuffled(path: Path, columns: int) -> Path:
    with mock.patch.object(unfinished, "DiskShuffle", return_value=NoShuffle()):
        return ours(path, columns, "float", "release-unshuffled")


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


def measure_memory(path: Path, columns: int, noise: str) -> None:
    """In a child: sanitize once, print seconds and megabytes."""
    start = time.perf_counter()
    ours(path, columns, noise)
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": peak_megabytes()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--factor", type=int, default=10, help="how many times longer the second table is, for memory")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--noise", default="float", help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.child:
        measure_memory(given.child, given.columns, given.noise)
        return
    rows, columns = given.rows, given.columns
    path = big_table(rows, columns)
    print(f"Parquet to Parquet, {rows:,} x {columns} float64, half of the components", flush=True)
    best, answers = in_turns(
        {
            "sfumato, float noise": lambda: ours(path, columns, "float"),
            "bare passes, plain loop": lambda: bare(path, columns, map),
            "bare passes, two threads": lambda: bare(path, columns, lambda work, items: in_order(items, work, 2)),
            "sfumato, float noise, without the shuffle": lambda: unshuffled(path, columns),
            "sfumato, exact noise": lambda: ours(path, columns, "exact"),
            "pandas + scikit-learn": lambda: pandas_and_sklearn(path, columns),
        },
        given.repeats,
    )
    product = best["sfumato, float noise"]
    ratio("sfumato / bare passes, plain loop", product, best["bare passes, plain loop"], "at most 2")
    ratio("sfumato / bare passes, two threads", product, best["bare passes, two threads"], "at most 2")
    ratio("pandas + scikit-learn / sfumato", best["pandas + scikit-learn"], product, "at least 3")
    ratio("pandas + scikit-learn / sfumato, exact noise", best["pandas + scikit-learn"], best["sfumato, exact noise"])
    unmixed = best["sfumato, float noise, without the shuffle"]
    ratio("without the shuffle / bare passes, two threads", unmixed, best["bare passes, two threads"])
    ratio("pandas + scikit-learn / without the shuffle", best["pandas + scikit-learn"], unmixed)
    ratio("exact noise / float noise", best["sfumato, exact noise"], product)
    ratio("with / without the shuffle", product, best["sfumato, float noise, without the shuffle"])
    for noise in ("float", "exact"):
        print(f"the release with {noise} noise, checked")
        check(path, columns, answers[f"sfumato, {noise} noise"])
    print("peak memory of a process that sanitizes (target: under 600 MB, flat)", flush=True)
    for count in dict.fromkeys((rows, rows * given.factor)):
        table = big_table(count, columns)
        for noise in ("float", "exact") if count == rows else ("float",):
            found = in_child(__file__, "--child", str(table), "--columns", str(columns), "--noise", noise)
            print(f"  {count:>12,} rows, {noise} noise {found['peak']:20.0f} MB {found['seconds']:8.1f} s", flush=True)
        if count != rows:
            table.unlink()
    for leftover in ("release-float", "release-exact", "release-unshuffled"):
        shutil.rmtree(WORK / leftover, ignore_errors=True)
    for leftover in ("bare.parquet", "pandas.parquet"):
        (WORK / leftover).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
