"""How often a model errs on rows whose classes are known: at home, so that neither rows nor counts leave the site."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.metrics import proportion_interval
from sfumato.core.array_types import Codes
from sfumato.core.errors import TableError
from sfumato.core.files import check_free, write_whole
from sfumato.core.wording import counted, than_commonest
from sfumato.guarantee import Key
from sfumato.learn.model import Model
from sfumato.learn.predict import classifier_for, opened, rows_to_classify
from sfumato.table.filling import MISSING_INSTEAD, NOT_TOLD, UNLISTED, UnknownCategoryWarning


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Counts of true class (rows) against answer (columns), and what follows from them; `classes` are of the label's
    own type.

    `interval` is Wilson's 95% interval of the error; `commonest` is the error of always answering the commonest class.
    `unseen`: rows of classes that training did not see; every answer to them is wrong, and they count as errors.
    `unknown`: cells per column whose category training did not see.
    """

    classes: tuple[str | int | float | bool, ...]
    confusion: Codes
    unseen: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Without the counts, which are the owner's."""
        low, high = self.interval
        return f"<Evaluation: error {self.error:.3f} ({low:.3f} to {high:.3f}) on {counted(self.rows, 'row')}>"

    @property
    def rows(self) -> int:
        return int(self.confusion.sum()) + self.unseen

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

    @property
    def than_commonest(self) -> str:
        """Whether the interval lies below the error of the commonest class, holds it, or lies above: see `metrics`."""
        low, high = self.interval
        return than_commonest(low - self.commonest, high - self.commonest)

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "errors": self.errors,
            "error": self.error,
            "interval": list(self.interval),
            "error_of_commonest_class": self.commonest,
            "than_commonest_class": self.than_commonest,
            "classes": list(self.classes),
            "confusion": self.confusion.tolist(),
            "rows_of_unseen_classes": self.unseen,
            "unknown_categories": dict(self.unknown),
        }


def evaluate(
    model_path: Path,
    source: Any,
    *,
    key: Path | None = None,
    out: Path | None = None,
    unknown: str = MISSING_INSTEAD,
    force: bool = False,
) -> Evaluation:
    """Classify the rows of `source` and compare with their label; only with `out` is anything written.

    Categories that training did not see are treated as missing, and classes as errors; both are counted and warned of,
    or refused with `unknown="refuse"`.
    """
    check_free(out, force=force)
    found = compare(Model.load(model_path), source, key=key, unknown=unknown)
    if out is not None:
        write_whole(out, json.dumps(found.to_dict(), indent=1), private=True)
    return found


def compare(model: Model, source: Any, *, key: Path | Key | None = None, unknown: str = MISSING_INSTEAD) -> Evaluation:
    """The same with a model that is open, of rows wherever they are; nothing is written."""
    source = opened(source)
    Z, truth, unfit, like = rows_to_classify(model, source, key, unknown)
    if truth is None or not len(truth):
        raise TableError(
            f"The table has no rows with the column to predict ({model.about['label']!r}), so there is nothing to "
            "compare with. To classify rows without it: sfumato predict."
        )
    if left := np.count_nonzero(truth == NOT_TOLD):
        raise TableError(
            f"The column to predict {model.about['label']!r} is empty in {left} of {len(truth)} rows. "
            "Fill it in, or leave these rows out."
        )
    classifier = classifier_for(model, source)
    classes = tuple(model.encoding().decode_label(range(len(model.classes)), like).to_pylist())
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    seen = truth != UNLISTED
    with model.answering():
        answers = np.asarray(classifier.predict(Z), dtype=np.int64)
        np.add.at(confusion, (truth[seen], answers[seen]), 1)
    found = Evaluation(classes, confusion, int(np.count_nonzero(~seen)), unfit)
    if found.unseen:
        warnings.warn(
            f"{counted(found.unseen, 'row')} of classes that training did not see: no answer for them can be right, "
            "so they count as errors. To refuse such rows instead: --unknown refuse.",
            UnknownCategoryWarning,
            stacklevel=2,
        )
    return found
