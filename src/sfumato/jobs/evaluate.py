"""How often a model errs on rows whose classes are known: at home, so that neither rows nor counts leave the site."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import OutputError, TableError
from sfumato.files import write_whole
from sfumato.jobs.model import Model
from sfumato.jobs.predict import UNKNOWN, classifier_for, rows_to_classify
from sfumato.metrics import proportion_interval


@dataclass(frozen=True)
class Evaluation:
    """Counts of true class (rows) against answer (columns), and what follows from them.

    `interval` is Wilson's 95% interval of the error; `commonest` is the error of always answering the commonest class.
    """

    classes: tuple[str, ...]
    confusion: NDArray[np.int64]

    @property
    def rows(self) -> int:
        return int(self.confusion.sum())

    @property
    def errors(self) -> int:
        return self.rows - int(np.trace(self.confusion))

    @property
    def error(self) -> float:
        return self.errors / self.rows

    @property
    def interval(self) -> tuple[float, float]:
        low, high = proportion_interval(self.errors, self.rows)
        return float(low), float(high)

    @property
    def commonest(self) -> float:
        return 1.0 - float(self.confusion.sum(axis=1).max()) / self.rows

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "errors": self.errors,
            "error": self.error,
            "interval": list(self.interval),
            "error_of_commonest_class": self.commonest,
            "classes": list(self.classes),
            "confusion": self.confusion.tolist(),
        }


def evaluate(
    model_path: Path, source: Any, *, key: Path | None = None, out: Path | None = None, force: bool = False
) -> Evaluation:
    """Classify the rows of `source` and compare with their label; only with `out` is anything written."""
    if out is not None and out.exists() and not force:
        raise OutputError(f"{out} exists already. Choose another name, or add --force to replace it.")
    model = Model.load(model_path)
    Z, truth = rows_to_classify(model, source, key)
    if truth is None or not len(truth):
        raise TableError(
            f"The table has no rows with the label {model.about['label']!r}, so there is nothing to compare with. "
            "To classify rows without a label: sfumato predict."
        )
    if left := np.count_nonzero(truth == UNKNOWN):
        raise TableError(
            f"The label {model.about['label']!r} is empty in {left} of {len(truth)} rows. "
            "Fill it in, or leave these rows out."
        )
    classifier = classifier_for(model, source)
    confusion = np.zeros((len(model.classes), len(model.classes)), dtype=np.int64)
    with model.answering():
        answers = np.asarray(classifier.predict(Z), dtype=np.int64)
        np.add.at(confusion, (truth, answers), 1)
    found = Evaluation(tuple(model.classes), confusion)
    if out is not None:
        write_whole(out, json.dumps(found.to_dict(), indent=1), private=True)
    return found
