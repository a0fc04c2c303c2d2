"""The whole road on a table that ships with scikit-learn: sanitize, audit, train, predict, report."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.errors import PrivacyLeakWarning
from sfumato.files import new_folder
from sfumato.guarantee import Card, Ledger
from sfumato.jobs.advising.recommendation import Recommendation
from sfumato.jobs.advising.wish import Wish
from sfumato.jobs.audit import audit
from sfumato.jobs.auditing.request import Audit, AuditRequest
from sfumato.jobs.predict import predict
from sfumato.jobs.progress import Progress, silent
from sfumato.jobs.recommend import recommend
from sfumato.jobs.sanitize import Options, sanitize
from sfumato.jobs.train import train
from sfumato.table import write_table

LABEL = "diagnosis"
CLASSIFIER = "auto"
RISK, SECONDS = 0.2, 0.0
"""What the strongest adversary may gain in the demonstration, and the time to look: none, so that only the first
mechanism is searched and the demonstration is the same on every machine."""


@dataclass(frozen=True)
class Demonstration:
    """What the demo found, for printing."""

    folder: Path
    card: Card
    audit: Audit
    accuracy: float
    commonest: float
    advice: Recommendation


def demonstrate(
    out: Path, *, force: bool = False, progress: Progress = silent, report: Callable[..., None]
) -> Demonstration:
    """Run the road into the folder `out`; `report` turns an audit into a page."""
    with new_folder(out, force=force) as folder:
        patients, others = folder / "patients.csv", folder / "others.csv"
        _write_tables(patients, others)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)  # the demo says so itself
            advice = recommend(
                patients, Wish(max_risk=RISK), label=LABEL, seconds=SECONDS, workers=1, progress=progress
            )
            # A demonstration table is not a person's: it stays out of the owner's ledger.
            options = Options(label=LABEL, config=advice.config, ledger=folder / "ledger.json")
            done = sanitize(patients, folder / "release", options, progress)
            found = audit(AuditRequest(folder=folder / "release", original=patients, holdout=others), progress=progress)
        Ledger(folder / "ledger.json").discard()
        report(found.data, folder / "release" / "report.html")
        model = folder / "model.skops"
        train([folder / "release"], CLASSIFIER, model)
        predicted = predict(model, others, folder / "predicted.csv")
        assert predicted.accuracy is not None  # the other patients have their labels
        assert predicted.commonest is not None
    return Demonstration(out, done.card, found, predicted.accuracy, predicted.commonest, advice)


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
