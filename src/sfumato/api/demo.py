"""The owner's road in one go: sanitize, audit, report; on a table that ships with scikit-learn, or on one's own."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.advising.advice import Advice, Known, advise
from sfumato.advising.asked import DemoAsked
from sfumato.advising.trial import split
from sfumato.advising.wish import Wish
from sfumato.auditing.audit import Audit, audit
from sfumato.auditing.report.page import write_report
from sfumato.core.errors import PrivacyLeakWarning, TableError
from sfumato.core.files import new_folder
from sfumato.core.progress import Progress, silent
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.ledger import Ledger
from sfumato.release.sanitize import Options, sanitize, schema_for
from sfumato.release.sanitize_checks import read_off
from sfumato.table import Column, Schema, open_table, write_table

LABEL = "diagnosis"
EPSILON = 1.0
IN_THE_TABLE = 0.75
FEWEST = 2
"""Rows that an audit needs of each part."""
REASON = "what the imaging program can measure"
RANGES = {
    "radius": (0, 40, 5), "texture": (0, 60, 8), "perimeter": (0, 300, 40), "area": (0, 6_000, 1_000),
    "smoothness": (0, 0.4, 0.06), "compactness": (0, 2, 0.3), "concavity": (0, 2, 0.6),
    "concave_points": (0, 0.5, 0.1), "symmetry": (0, 1, 0.15), "fractal_dimension": (0, 0.4, 0.06),
}  # fmt: skip
"""Limits of each measurement, and of its standard error: from what the program can tell, not from these patients."""


@dataclass(frozen=True)
class Demonstration:
    """What the demo found, for printing. `read`: columns whose ranges were read off the table, so that nothing is
    proved. `others`: rows that are not in the table, and test the release."""

    folder: Path
    schema: Schema
    read: list[str]
    card: Card
    audit: Audit
    advice: Advice
    before: pa.Table
    after: pa.Table
    others: int


def demonstrate(asked: DemoAsked, progress: Progress = silent) -> Demonstration:
    """Run the road into a folder; without a table of one's own, on the example's.

    Three quarters of the rows are released, the others are the control. Nothing is written elsewhere: the ledger is the
    demonstration's own and is thrown away, so what it released of a table of one's own is to look at, not to share.
    """
    own = asked.table is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # told in the first sentence
        rows = open_table(asked.table).read() if own else example_table()
        agreed = schema_for(rows, asked.schema, asked.label) if own else declared(rows.column_names)
        read = read_off(agreed)
        people = None if agreed.person is None else rows[agreed.person.name].to_pylist()
        chosen = split(people, rows.num_rows, (IN_THE_TABLE, 1 - IN_THE_TABLE), np.random.default_rng(0))
        before, others = (rows.take(part) for part in chosen)
        if min(before.num_rows, others.num_rows) < FEWEST:
            raise TableError(
                f"The table has {counted(rows.num_rows, 'row')}, too few for the demo: a quarter is kept aside, and "
                f"both parts need at least {FEWEST} rows. `sfumato sanitize` takes any table."
            )
        with new_folder(asked.out, force=asked.force, private=own) as folder:
            if not own:
                write_table(before, folder / "patients.csv")
                write_table(others, folder / "others.csv")
            agreed.save(folder / "schema.yaml")
            options = Options(
                schema=agreed,
                epsilon=EPSILON,
                measured_only=bool(read),
                max_rows_per_person=asked.max_rows_per_person,
                ledger=folder / "ledger.json",
            )
            done = sanitize(before, folder / "release", options, progress)
            Ledger(folder / "ledger.json").discard()
            found = audit(
                folder / "release", original=before, holdout=others, out=folder / "release", progress=progress
            )
            after = open_table(folder / "release" / "release.parquet").read()
            write_report(found.data, folder / "release" / "report.html")
    predicted = None if agreed.label is None else agreed.label.name
    advice = advise(Wish(epsilon=EPSILON), Known(predicted, counted=before.num_rows))
    return Demonstration(asked.out, agreed, read, done.card, found, advice, before, after, others.num_rows)


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


def example_table() -> pa.Table:
    """The patients whose breast cancer ships with scikit-learn, in a fixed order that tells nothing."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.data))
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    columns = {name: pa.array(data.data[order, j]) for j, name in enumerate(names)}
    return pa.table({**columns, LABEL: pa.array([str(data.target_names[code]) for code in data.target[order]])})
