"""Figs 10 and 11: how long it takes to sanitize a table, and to classify one record, against columns and rows.

Time is that of the cores (all threads added up), not of the clock: on a machine with other work the clock tells little.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.auditing.figures.item import Found, Name, item
from sfumato.auditing.figures.principal_laplace import STRONGEST, as_published, radius_vote
from sfumato.auditing.figures.sets import DataSet, gaussian_clusters
from sfumato.core.array_types import Matrix
from sfumato.mechanisms.principal_laplace import PrincipalLaplace
from sfumato.table import Column, Encoding, Schema, open_table, write_table
from sfumato.table.neighbours.nearest import nearest

REPEATS = 5
QUERIES = 1000
ROWS, COLUMNS = 20_000, 100
"""The default size; the paper's rows are 100,000."""
ALONE = 20
"""Queries that are also asked one at a time, as the paper did."""


def sanitize_times(rows: int, columns: int) -> dict[str, float]:
    """Core seconds to load, learn components, add noise and save, the least of a few repeats [Fig. 10]."""
    X, _ = gaussian_clusters(generator(rows, columns), rows, columns, sigma=2.0)
    names = [f"x{number:03d}" for number in range(columns)]
    bounds = zip(names, X.min(axis=0), X.max(axis=0), strict=True)
    schema = Schema(tuple(Column(name, "numeric", low=float(low), high=float(high)) for name, low, high in bounds))
    encoding = Encoding(schema)

    def read(path: Path) -> Matrix:
        return np.concatenate([encoding.encode(batch).X for batch in open_table(path).blocks()])

    with tempfile.TemporaryDirectory() as folder:
        plain = pa.table(dict(zip(names, X.T, strict=True)))
        paths = {kind: Path(folder) / f"table.{kind}" for kind in ("csv", "parquet")}
        for path in paths.values():
            write_table(plain, path)
        found = {}
        encoded = np.empty(0)
        for kind, path in paths.items():
            found[f"load_{kind}"], encoded = least(partial(read, path))
        found["pca"], mechanism = least(lambda: as_published(STRONGEST).fit(encoded, encoding=encoding))
        rng = generator(1)
        found["noise"], block = least(lambda: mechanism.perturb(encoded, None, rng))
        exact = PrincipalLaplace(b=STRONGEST).fit(encoded, encoding=encoding)
        found["exact_noise"], _ = least(lambda: exact.perturb(encoded, None, rng))
        release = pa.table({f"c{number:03d}": column for number, column in enumerate(block.X.T)})
        for kind in paths:
            target = Path(folder) / f"release.{kind}"
            found[f"save_{kind}"], _ = least(partial(write_table, release, target))
    return found


def mining_times(rows: int, columns: int) -> dict[str, float]:
    """Core seconds per query of the radius vote and of the five nearest rows, b = .3 [Fig. 11]."""
    X, y = gaussian_clusters(generator(rows, columns), rows, columns, sigma=2.0)
    X, mechanism, rng = DataSet("time", X, y, "").unit(), as_published(STRONGEST), generator(3)
    Z = mechanism.release(X, y, generator(2)).X
    near = X[rng.integers(len(X), size=QUERIES)]  # rows of the table, moved a little
    asked = mechanism.embed(np.clip(near + rng.normal(scale=0.02, size=near.shape), 0, 1))
    vote = radius_vote(mechanism, Z, y, asked[:1], False)[0]
    together, five = least(lambda: vote.predict(asked))[0], least(lambda: nearest(asked, Z, 5))[0]
    alone, _ = least(lambda: [vote.predict(asked[i : i + 1]) for i in range(ALONE)])
    return {"radius": together / QUERIES, "k5": five / QUERIES, "alone": alone / ALONE}


def generator(*numbers: int) -> np.random.Generator:
    """The same rows for the same size."""
    return np.random.default_rng([2008, *numbers])


def least(work: Callable[[], Any]) -> tuple[float, Any]:
    """Least core seconds of a few repeats, and the last result."""
    seconds, result = [], None
    for _ in range(REPEATS):
        started = time.process_time()
        result = work()
        seconds.append(time.process_time() - started)
    return min(seconds), result


def _over(number: int, axis: str, data: DataSet, rng: np.random.Generator) -> Found:  # noqa: ARG001 - its own clusters
    found: dict[Name, float] = {}
    for part in (1, 2, 3, 4, 5):
        rows, columns = (ROWS, 20 * part) if axis == "columns" else (ROWS // 5 * part, COLUMNS)
        at = float(columns if axis == "columns" else rows)
        if number == 10:
            times = sanitize_times(rows, columns)
            found["load and save", at] = times["load_csv"] + times["save_csv"]
            found |= {("components", at): times["pca"], ("noise", at): times["noise"]}
        else:
            times = mining_times(rows, columns)
            found |= {("PCA-Radius", at): times["alone"], ("k = 5", at): times["k5"]}
    return found


_SIZE = f"in seconds of the cores; {ROWS:,} rows or {COLUMNS} columns, clusters of standard deviation 2"
for _number, _what in ((10, "Time to sanitize a table"), (11, "Time to classify one record")):
    for _letter, _axis in (("a", "columns"), ("b", "rows")):
        _name = f"principal-laplace/figure-{_number}{_letter}"
        item(name=_name, shows=f"{_what}, {_SIZE}", axis=_axis, repeats=0)(partial(_over, _number, _axis))
