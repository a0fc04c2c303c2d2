"""One release of so many rows of one table, by one method at one epsilon, and what it was good for."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from frames import EXPERIENCE, GENERATED, JUDGING, LABEL, rows_to_release, split
from threadpoolctl import threadpool_limits

import sfumato as sf
from sfumato.core.errors import TableError
from sfumato.guarantee.cost import epsilon_of, rho_for
from sfumato.learn.classifiers.training import AutoClassifier
from sfumato.learn.reconstruct import reconstruct_from
from sfumato.mechanisms.central.column_codes import replacing_costs
from sfumato.reconstruction.reconstruct import make_method
from sfumato.table import Encoding, Schema

DELTA = 1e-6
TREE, SQUARE, PIECEWISE = "tree-resampling", "square-wave", "piecewise-noise"
OTHERS = ("staged-release", "additive-noise", "principal-laplace")
ORIGINAL = "originals"
EPSILONS = (0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
RECONSTRUCTED = (0.1, 0.5, 1.0, 2.0, 4.0, 16.0)
COMPARED = (1.0, 2.0, 4.0, 8.0)
SIZES = (60, 120, 250, 500, 1_000, 2_500, 6_000, 15_000, 40_000)
BINS, MOST_COLUMNS = 8, 6
QUICK = {"bins": BINS, "resamples": 0, "atoms": False}
"""No band and no search for point masses: ten times as fast, and shares of eighths are as near."""


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
            return {"right": self._right(release, test, commonest), "commonest": commonest}

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


@dataclass(frozen=True)
class Shares(Task):
    """How far the shares of one column, and of two together, are off: counted in made-up rows, reconstructed from rows
    that were blurred one by one. Nothing is learned, so that all of them take minutes."""

    @property
    def key(self) -> str:
        return f"shares|{super().key}"

    def _done(self) -> dict[str, Any]:
        train, _, schema = split(self.data, self.rows, self.number)
        schema = _with_whole_numbers(schema, train)
        with tempfile.TemporaryDirectory() as folder:
            release = sf.sanitize(
                train, schema=schema, mechanism=self.method, ledger=Path(folder) / "ledger.json", **self._strength()
            )
        encoding = Encoding(schema)
        chosen = np.random.default_rng(0).permutation(len(encoding.groups))[:MOST_COLUMNS]
        groups = [encoding.groups[place] for place in chosen]
        X = _encoded(encoding, train)[0]
        real, made = ([_codes(group, rows) for group in groups] for rows in (X, release.Z))
        if self.method == TREE:
            told = [_counted(group, codes) for group, codes in zip(groups, made, strict=True)]
        else:
            told = [_reconstructed(release, group) for group in groups]
        one = [_apart(_counted(*of), shares) for of, shares in zip(zip(groups, real, strict=True), told, strict=True)]
        two = []
        for i, k in combinations(range(len(groups)), 2):
            pair = groups[i], groups[k]
            if self.method == TREE:
                both = _together(pair, made[i], made[k])
            else:  # a person reports one column or a few: of two together nothing is known but each of them
                both = np.outer(_rougher(pair[0], told[i]), _rougher(pair[1], told[k])).ravel()
            two.append(_apart(_together(pair, real[i], real[k]), both))
        return {"one_column": float(np.mean(one)), "two_columns": float(np.mean(two or one))}


def _with_whole_numbers(schema: Schema, frame: Any) -> Schema:
    """Columns of whole numbers as such: 0 and 1 are two shares, not a range between them."""
    columns = []
    for column in schema.columns:
        if column.kind == "numeric" and (frame[column.name].dropna() % 1 == 0).all():
            column = replace(column, kind="integer", low=math.ceil(column.low), high=math.floor(column.high))
        columns.append(column)
    return Schema(tuple(columns))


def _cells(group: Any) -> int:
    return len(group.column.categories) if group.is_onehot else BINS


def _codes(group: Any, rows: Any) -> Any:
    """The cell of every row, -1 where it is missing."""
    cells = rows[:, group.slice]
    if group.is_onehot:
        codes = cells.argmax(axis=1)
        return np.where(codes < _cells(group), codes, -1)
    codes = np.clip((np.nan_to_num(cells[:, 0]) * BINS).astype(int), 0, BINS - 1)
    return np.where(cells[:, 1] >= 0.5, -1, codes) if group.has_indicator else codes


def _counted(group: Any, codes: Any) -> Any:
    there = codes[codes >= 0]
    return np.bincount(there, minlength=_cells(group)) / max(1, len(there))


def _together(pair: Any, one: Any, other: Any) -> Any:
    """Shares of two columns, numbers in half as many cells."""
    there = (one >= 0) & (other >= 0)
    table = np.zeros([_cells(group) for group in pair])
    np.add.at(table, (one[there], other[there]), 1.0 / max(1, there.sum()))
    for axis, group in enumerate(pair):
        table = np.apply_along_axis(partial(_rougher, group), axis, table)
    return table.ravel()


def _rougher(group: Any, shares: Any) -> Any:
    return shares if group.is_onehot else shares.reshape(-1, 2).sum(axis=1)


def _reconstructed(release: Any, group: Any) -> Any:
    """In the same cells; all alike where too few people reported the column."""
    column = group.column
    try:
        found = reconstruct_from([release], column.name, make_method("parzen-program"), **QUICK)
    except TableError:
        return np.full(_cells(group), 1.0 / _cells(group))
    if group.is_onehot:
        return np.array(found.mass)
    places = (found.cells.middles - column.low) / (column.high - column.low)
    return np.bincount(np.clip((places * BINS).astype(int), 0, BINS - 1), found.mass, minlength=BINS)


def _apart(one: Any, other: Any) -> float:
    """Total variation: the share of rows that would have to move."""
    return float(0.5 * np.abs(one - other).sum())


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


def all_shares() -> Iterator[Shares]:
    """Of what the shipped file holds, on one split each; fewer epsilons where shares are reconstructed."""
    for name in EXPERIENCE:
        for rows in sizes_of(name):
            yield from (Shares(name, rows, TREE, epsilon, 0) for epsilon in EPSILONS)
            yield from (Shares(name, rows, method, one, 0) for method in (SQUARE, PIECEWISE) for one in RECONSTRUCTED)
