"""One task: one way of making rows from one split, and what four ordinary learners make of those rows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from frames import LABEL, LARGE, REPORTED, TINY, table_of
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sfumato as sf
from sfumato.table import Encoding

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
REAL, KERNEL, TREE, ONE, COLUMNS, PURE = "real", "kernel", "tree", "one parent", "columns", "pure"
LOCAL = {"square-wave": EPSILONS, "staged-release": (4.0, 8.0)}
"""Mechanisms that blur every record, and at which epsilons; a staged release needs 3."""
LOCAL_MOST_ROWS = 10_000
"""Of these: the choice of a learner takes minutes on more."""
BINS = 20


@dataclass(frozen=True)
class Piece:
    """`way` of making rows of `data` at `epsilon`, under the split and the noise of `seed`."""

    data: str
    way: str
    epsilon: float
    seed: int

    @property
    def key(self) -> str:
        return f"{self.data} {self.way} {self.epsilon:g} {self.seed}"


class Task(Piece):
    """One way of our own, or real rows."""

    def do(self) -> dict[str, Any]:
        """Accuracy and AUC of every learner, what was kept of the tables, seconds of making the rows."""
        frame, schema = table_of(self.data)
        train, test = train_test_split(frame, test_size=0.3, stratify=frame[LABEL], random_state=self.seed)
        if self.way in LOCAL:
            return self._local(train[:LOCAL_MOST_ROWS], test, schema)
        encoding = Encoding(schema)
        X, y = _encoded(encoding, train)
        started = time.process_time()
        Z, z = (X, y) if self.way == REAL else self._made(train, schema)
        seconds = time.process_time() - started
        return {"seconds": seconds, "learners": scores(Z, z, *_encoded(encoding, test)), **kept(X, Z)}

    def _made(self, train: Any, schema: sf.Schema) -> tuple[Any, Any]:
        if self.way == KERNEL:
            words: dict[str, Any] = {"mechanism": "kernel-resampling"}
        else:
            words = {
                "mechanism": "tree-resampling",
                "epsilon": self.epsilon,
                "delta": 0.0 if self.way == PURE else DELTA,
            }
            words["parameters"] = {"forest": self.way != COLUMNS, "parents": 1 if self.way == ONE else 2}
        with tempfile.TemporaryDirectory() as folder:
            ledger = Path(folder) / "ledger.json"
            release = sf.sanitize(train, schema=schema, ledger=ledger, seed=1_000 + self.seed, **words)
        return release.Z, release.y

    def _local(self, train: Any, test: Any, schema: sf.Schema) -> dict[str, Any]:
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            release = sf.sanitize(
                train, schema=schema, mechanism=self.way, epsilon_record=self.epsilon, seed=self.seed,
                ledger=Path(folder) / "ledger.json",
            )  # fmt: skip
            model = sf.train(release, classifier="auto")
        proba = model.predict_proba(test.drop(columns=LABEL))
        truth = np.array([model.classes.index(str(value)) for value in test[LABEL]])
        found = [float((proba.argmax(axis=1) == truth).mean()), _auc(truth, proba)]
        return {"seconds": time.process_time() - started, "learners": {"auto": found}}


def learners(seed: int = 0) -> dict[str, Any]:
    """Ordinary ones, with few choices and none of them tuned."""
    return {
        "naive Bayes": GaussianNB(var_smoothing=1e-3),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
        "forest": RandomForestClassifier(60, min_samples_leaf=3, random_state=seed),
        "boosting": HistGradientBoostingClassifier(max_iter=60, random_state=seed),
    }


def scores(Z: Any, z: Any, X: Any, y: Any, without: tuple[str, ...] = ()) -> dict[str, list[float]]:
    """Accuracy and AUC on clean rows. Classes that no drawn row has are never answered."""
    found, classes = {}, int(max(z.max(), y.max())) + 1
    for name, learner in learners().items():
        if name in without:
            continue
        if len(np.unique(z)) < 2:
            proba = np.eye(classes)[np.full(len(X), z[0])]
        else:
            learner.fit(Z, z)
            proba = np.zeros((len(X), classes))
            proba[:, learner.classes_] = learner.predict_proba(X)
        found[name] = [float((proba.argmax(axis=1) == y).mean()), _auc(y, proba)]
    return found


def kept(X: Any, Z: Any) -> dict[str, float]:
    """Mean total variation between marginals (in `BINS` bins), and mean absolute difference of pair correlations."""
    apart = [0.5 * np.abs(_shares(X[:, j]) - _shares(Z[:, j])).sum() for j in range(X.shape[1])]
    moving = (X.std(axis=0) > 0) & (Z.std(axis=0) > 0)
    both = [np.corrcoef(rows[:, moving], rowvar=False) for rows in (X, Z)]
    pairs = np.triu_indices(int(moving.sum()), 1)
    return {"marginals": float(np.mean(apart)), "correlations": float(np.abs(both[0] - both[1])[pairs].mean())}


def all_tasks(fast: bool) -> Iterator[Task]:
    """Small sets under three splits, large ones under two, of which the second is for epsilons 1 and 4 alone."""
    for data in (TINY,) if fast else REPORTED:
        for seed in range(1 if fast else 2 if data in LARGE else 3):
            whole = not fast and (seed == 0 or data not in LARGE)
            yield Task(data, REAL, 0.0, seed)
            yield Task(data, TREE, 1.0, seed)
            yield Task(data, COLUMNS, 1.0, seed)
            if not fast:
                yield Task(data, ONE, 1.0, seed)
                yield Task(data, TREE, 4.0, seed)
                yield Task(data, COLUMNS, 4.0, seed)
            if whole:
                yield from (Task(data, TREE, epsilon, seed) for epsilon in EPSILONS if epsilon not in (1.0, 4.0))
                yield Task(data, COLUMNS, 8.0, seed)
                yield Task(data, ONE, 8.0, seed)
                yield Task(data, PURE, 1.0, seed)
                yield Task(data, KERNEL, 0.0, seed)
            if not fast and seed == 0:
                yield from (Task(data, way, epsilon, seed) for way, some in LOCAL.items() for epsilon in some)


def _encoded(encoding: Encoding, frame: Any) -> tuple[Any, Any]:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return encoding.encode(table).X, encoding.encode_label(table)


def _auc(y: Any, proba: Any) -> float:
    there = np.unique(y)
    if proba.shape[1] == 2:
        return float(roc_auc_score(y, proba[:, 1]))
    return float(np.mean([roc_auc_score(y == code, proba[:, code]) for code in there]))


def _shares(values: Any) -> Any:
    return np.histogram(values, bins=BINS, range=(0, 1))[0] / len(values)
