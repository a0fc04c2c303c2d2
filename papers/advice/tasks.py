"""One release of so many rows of one table, by one method at one epsilon, and what it was good for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from frames import EXPERIENCE, GENERATED, JUDGING, LABEL, rows_to_release, split
from threadpoolctl import threadpool_limits

import sfumato as sf
from sfumato.central.budget import replacing_costs
from sfumato.classifiers.auto import AutoClassifier
from sfumato.guarantee.concentrated import epsilon_of, rho_for
from sfumato.table import Encoding

DELTA = 1e-6
TREE, SQUARE, PIECEWISE = "tree-resampling", "square-wave", "piecewise-noise"
OTHERS = ("staged-release", "additive-noise", "principal-laplace")
ORIGINAL = "originals"
EPSILONS = (0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
COMPARED = (1.0, 2.0, 4.0, 8.0)
SIZES = (60, 120, 250, 500, 1_000, 2_500, 6_000, 15_000, 40_000)
BINS, PAIR_BINS, MOST_PAIRS = 8, 4, 30


@dataclass(frozen=True)
class Task:
    """`epsilon` bounds what the release tells about anybody's values: one record replaced by any other."""

    data: str
    rows: int
    method: str
    epsilon: float
    number: int

    @property
    def key(self) -> str:
        return f"{self.data}|{self.rows}|{self.method}|{self.epsilon:g}|{self.number}"

    def do(self) -> dict[str, Any]:
        with threadpool_limits(1):
            return self._done()

    def _done(self) -> dict[str, Any]:
        train, test, schema = split(self.data, self.rows, self.number)
        encoding = Encoding(schema)
        X, y = _encoded(encoding, train)
        tested, truth = _encoded(encoding, test)
        commonest = float((truth == np.bincount(y).argmax()).mean())
        if self.method == ORIGINAL:
            if len(np.unique(y)) < 2:
                return {"right": commonest, "commonest": commonest}
            model = AutoClassifier().fit(X, y)
            return {"right": float((model.predict(tested) == truth).mean()), "commonest": commonest}
        with tempfile.TemporaryDirectory() as folder:
            release = sf.sanitize(
                train, schema=schema, mechanism=self.method, ledger=Path(folder) / "ledger.json", **self._strength()
            )
            found = {"right": self._right(release, test, commonest), "commonest": commonest}
            if self.method == TREE:
                found |= share_errors(encoding, X, release.Z)
            return found

    def _right(self, release: Any, test: Any, commonest: float) -> float:
        if len(np.unique(release.y)) < 2:
            return commonest
        model = sf.train(release)
        told = [str(value) for value in model.predict(test.drop(columns=LABEL))]
        return float((np.array(told) == test[LABEL].astype(str).to_numpy()).mean())

    def _strength(self) -> dict[str, Any]:
        if self.method == TREE:
            return {"parameters": {"epsilon": presence_for(self.epsilon), "delta": DELTA}}
        return {"epsilon_record": self.epsilon}


def presence_for(epsilon: float) -> float:
    """The epsilon for presence of a release whose epsilon for values is this one."""
    return epsilon_of(rho_for(epsilon, DELTA) / replacing_costs(parents=2), DELTA)


def share_errors(encoding: Any, X: Any, Z: Any) -> dict[str, float]:
    """Mean total variation between the shares of single columns, and of pairs of columns, in `BINS` or `PAIR_BINS`."""
    both = [_codes(encoding, rows, BINS) for rows in (X, Z)]
    rough = [_codes(encoding, rows, PAIR_BINS) for rows in (X, Z)]
    one = [_apart(both[0][j], both[1][j]) for j in range(len(both[0]))]
    pairs = list(combinations(range(len(one)), 2))
    chosen = np.random.default_rng(0).permutation(len(pairs))[:MOST_PAIRS]
    two = [_apart(*(some[pairs[k][0]] * 1_000 + some[pairs[k][1]] for some in rough)) for k in chosen]
    return {"one_column": float(np.mean(one)), "two_columns": float(np.mean(two)) if two else float(np.mean(one))}


def _codes(encoding: Any, rows: Any, bins: int) -> list[Any]:
    found = []
    for group in encoding.groups:
        cells = rows[:, group.slice]
        number = group.column.kind != "categorical"
        found.append(np.minimum((cells[:, 0] * bins).astype(int), bins - 1) if number else cells.argmax(axis=1))
    return found


def _apart(a: Any, b: Any) -> float:
    values = np.unique(np.concatenate([a, b]))
    shares = [np.bincount(np.searchsorted(values, one), minlength=len(values)) / len(one) for one in (a, b)]
    return float(0.5 * np.abs(shares[0] - shares[1]).sum())


def _encoded(encoding: Any, frame: Any) -> tuple[Any, Any]:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return encoding.encode(table).X, encoding.encode_label(table)


def sizes_of(name: str) -> list[int]:
    whole = rows_to_release(name)
    return [*(size for size in SIZES if size < 0.8 * whole), min(whole, SIZES[-1])]


def all_tasks(fast: bool) -> Iterator[Task]:
    """The largest first, so that no process waits for one that came last."""
    if fast:
        yield Task(GENERATED, 300, ORIGINAL, 0.0, 0)
        yield from (Task(GENERATED, 300, method, 4.0, 0) for method in (TREE, SQUARE, PIECEWISE, *OTHERS))
        return
    found = [task for name in (*EXPERIENCE, *JUDGING) for task in _tasks_of(name)]
    yield from sorted(found, key=lambda task: -task.rows)


def _tasks_of(name: str) -> Iterator[Task]:
    for rows in sizes_of(name):
        whole = rows == sizes_of(name)[-1]
        for number in range(1 if rows > 6_000 else 2 if rows > 2_000 else 3):
            yield Task(name, rows, ORIGINAL, 0.0, number)
            for epsilon in EPSILONS:
                yield Task(name, rows, TREE, epsilon, number)
                if rows > 2_000 and epsilon not in COMPARED and (number or epsilon not in (0.1, 0.5)):
                    continue
                yield Task(name, rows, SQUARE, epsilon, number)
                yield Task(name, rows, PIECEWISE, epsilon, number)
            if whole:
                yield from (Task(name, rows, method, epsilon, number) for method in OTHERS for epsilon in COMPARED)
