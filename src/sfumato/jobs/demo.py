"""The whole road on a table that ships with scikit-learn: sanitize, audit, train, predict, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.files import new_folder
from sfumato.guarantee import Card, Ledger
from sfumato.jobs.advising.advice import Advice, advise
from sfumato.jobs.advising.wish import Wish
from sfumato.jobs.audit import audit
from sfumato.jobs.auditing.request import Audit, AuditRequest
from sfumato.jobs.predict import predict
from sfumato.jobs.progress import Progress, silent
from sfumato.jobs.sanitize import Options, sanitize
from sfumato.jobs.train import train
from sfumato.table import Column, Schema, open_table, write_table

LABEL = "diagnosis"
CLASSIFIER = "auto"
EPSILON = 1.0
REASON = "what the imaging program can measure"
RANGES = {
    "radius": (0, 40, 5), "texture": (0, 60, 8), "perimeter": (0, 300, 40), "area": (0, 6_000, 1_000),
    "smoothness": (0, 0.4, 0.06), "compactness": (0, 2, 0.3), "concavity": (0, 2, 0.6),
    "concave_points": (0, 0.5, 0.1), "symmetry": (0, 1, 0.15), "fractal_dimension": (0, 0.4, 0.06),
}  # fmt: skip
"""Limits of each measurement, and of its standard error: from what the program can tell, not from these patients."""


@dataclass(frozen=True)
class Demonstration:
    """What the demo found, for printing."""

    folder: Path
    card: Card
    audit: Audit
    accuracy: float
    commonest: float
    advice: Advice
    before: pa.Table
    after: pa.Table


def demonstrate(
    out: Path, *, force: bool = False, progress: Progress = silent, report: Callable[..., None]
) -> Demonstration:
    """Run the road into the folder `out`; `report` turns an audit into a page."""
    with new_folder(out, force=force) as folder:
        patients, others = folder / "patients.csv", folder / "others.csv"
        _write_tables(patients, others)
        table = open_table(patients).read()
        schema = declared(table.column_names)
        schema.save(folder / "schema.yaml")
        advice = advise(Wish(epsilon=EPSILON), LABEL, counted=table.num_rows)
        # A demonstration table is not a person's: it stays out of the owner's ledger.
        options = Options(schema=schema, epsilon=EPSILON, ledger=folder / "ledger.json")
        done = sanitize(patients, folder / "release", options, progress)
        found = audit(AuditRequest(folder=folder / "release", original=patients, holdout=others), progress=progress)
        released = open_table(folder / "release" / "release.parquet").read()
        Ledger(folder / "ledger.json").discard()
        report(found.data, folder / "release" / "report.html")
        model = folder / "model.skops"
        train([folder / "release"], CLASSIFIER, model)
        predicted = predict(model, others, folder / "predicted.csv")
        assert predicted.accuracy is not None  # the other patients have their labels
        assert predicted.commonest is not None
    return Demonstration(out, done.card, found, predicted.accuracy, predicted.commonest, advice, table, released)


def declared(names: Sequence[str]) -> Schema:
    """The ranges that an owner would declare, each with its reason."""
    known: dict[str, Any] = {"source": "public", "reason": REASON}
    columns = []
    for name in names:
        if name == LABEL:
            columns.append(Column(name, "categorical", role="label", categories=("benign", "malignant"), **known))
            continue
        stem = name.removeprefix("mean_").removeprefix("worst_").removesuffix("_error")
        low, high, error = RANGES[stem]
        top = error if name.endswith("_error") else high
        columns.append(Column(name, "numeric", low=float(low), high=float(top), **known))
    return Schema(tuple(columns))


def _write_tables(patients: Path, others: Path) -> None:
    """Three quarters of the patients are in the table, the others are the control."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.data))
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    columns = {name: pa.array(data.data[order, j]) for j, name in enumerate(names)}
    columns[LABEL] = pa.array([str(data.target_names[code]) for code in data.target[order]])
    table = pa.table(columns)
    cut = int(0.75 * table.num_rows)
    write_table(table.slice(0, cut), patients)
    write_table(table.slice(cut), others)
