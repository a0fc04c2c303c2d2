"""The L-site experiment through the server: sites push, the coordinator pools and trains; for `run.py --server`.

One configuration: Diabetes, L = 4, bandwidth as published, naive Bayes and kNN of `sfumato train`, five splits. Every
site sanitizes its own rows, pushes its release over HTTP, and the server's worker trains on the pool and tests on rows
that no site has. Beside it the same classifiers on rows that were pooled in memory.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sites import split

from sfumato.api.demo import serving
from sfumato.auditing.figures.kernel_resampling import Split, dealt, resampled
from sfumato.core.array_types import Codes, Matrix
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.client import Coordinator, carry_out, plan_push
from sfumato.study.client.coordinator import until_done
from sfumato.study.client.private_notes import Agreements
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.table import Column, Schema, write_table

DATA, SITES, SEEDS = "pima", 4, 5
CLASSIFIERS = ("naive-bayes", "knn")
REASON = "rows are scaled to [0, 1] beforehand, as in the paper"


def compare() -> dict[str, Any]:
    """Errors through the server and in memory, as the results show them."""
    found: dict[str, Any] = {name: {"server": [], "memory": [], "original": []} for name in CLASSIFIERS}
    for seed in range(SEEDS):
        held = split(DATA, seed)
        members = dealt(held.train_y, SITES, np.random.default_rng([seed, SITES]))
        for name, error in _through_server(held, members).items():
            found[name]["server"].append(error)
        pooled = resampled(held.train, held.train_y, SITES, np.random.default_rng([seed, SITES]))
        for name in CLASSIFIERS:
            found[name]["memory"].append(_error(name, pooled.X, pooled.y, held))
            found[name]["original"].append(_error(name, held.train, held.train_y, held))
    return {
        "words": f"Diabetes, L = {SITES}, mean error over {SEEDS} splits; noise is drawn anew on both ways, so that "
        "they differ by chance.",
        "columns": ["original rows", "pooled in memory", "pooled through the server"],
        "rows": {
            name: [float(np.mean(each[way])) for way in ("original", "memory", "server")]
            for name, each in found.items()
        },
    }


def _error(name: str, X: Matrix, y: Codes, held: Split) -> float:
    return float((make_classifier(name).fit(X, y).predict(held.test) != held.test_y).mean())


def _table(X: Matrix, y: Codes) -> pa.Table:
    columns = {f"c{place}": pa.array(column) for place, column in enumerate(X.T)}
    return pa.table({**columns, "class": pa.array([str(code) for code in y])})


def _schema(width: int) -> Schema:
    public = {"source": "public", "reason": REASON}
    numbers = [Column(f"c{place}", "numeric", low=0.0, high=1.0, **public) for place in range(width)]
    return Schema((*numbers, Column("class", "categorical", role="label", categories=("0", "1"), **public)))


def _through_server(held: Split, members: list[Codes]) -> dict[str, float]:
    schema = _schema(held.train.shape[1])
    mechanism = {"name": "kernel-resampling", "parameters": {"bandwidth": "published"}}
    study = study_from_dict(
        {
            "kind": "pool",
            "name": "Diabetes",
            "schema": schema.to_dict(),
            "mechanism": mechanism,
            "guarantee": "empirical-allowed",
        }
    )
    with tempfile.TemporaryDirectory() as place, serving(Path(place) / "server") as (url, store):
        folder = Path(place)
        identity, owner = store.studies.create(study)
        with Coordinator(url, owner) as coordinator:
            for number, rows in enumerate(members):
                home = folder / f"site-{number}"
                options = Options(
                    mechanism="kernel-resampling",
                    parameters={"bandwidth": "published"},
                    schema=schema,
                    ledger=folder / "ledger.json",
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    sanitize(_table(held.train[rows], held.train_y[rows]), home, options)
                token = coordinator.invite(identity, f"site {number}").token
                agreements = Agreements(folder / f"agreements-{number}.json")
                with Coordinator(url, token) as site:
                    plan = plan_push(site, home, identity, study_hash=study.hash, agreements=agreements)
                    carry_out(plan, site, agreements=agreements)
            test = folder / "test.parquet"
            write_table(_table(held.test, held.test_y), test)
            coordinator.put_test(identity, test)
            wanted = [coordinator.train(identity, name) for name in CLASSIFIERS]
            models = until_done(
                lambda: [coordinator.model(identity, one) for one in wanted], "Training", lambda *_: None
            )
    return {model.classifier: float(model.results["test"][0]["error"]) for model in models if model.results}
