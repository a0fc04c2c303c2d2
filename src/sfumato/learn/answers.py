"""What a model says of rows: their classes, and how often it errs on those whose class is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import UsageError
from sfumato.core.files import write_whole
from sfumato.core.wording import counted, than_commonest
from sfumato.guarantee import Card
from sfumato.release.release import Release
from sfumato.table import write_table


@dataclass(frozen=True, repr=False)
class Predicted:
    """Class codes, what they mean (`labels`: of the label's own type), probabilities where the classifier has them, and
    how often the label, if present, was met.

    Rows without a label do not count; a class that training did not see is missed. `commonest` is what always answering
    the commonest class would have reached: the figure to beat. `unknown`: cells per column whose category training did
    not see.
    """

    codes: Codes
    labels: pa.Array
    probabilities: Matrix | None
    accuracy: float | None
    commonest: float | None
    rows: int
    unknown: Mapping[str, int] = field(default_factory=dict)
    told: int = 0
    """Rows whose label was there."""

    @property
    def than_commonest(self) -> str | None:
        """Whether the interval of the error lies below that of the commonest class, holds it, or lies above."""
        if self.accuracy is None or self.commonest is None:
            return None
        low, high = interval_of(round((1.0 - self.accuracy) * self.told), self.told)
        return than_commonest(low - (1.0 - self.commonest), high - (1.0 - self.commonest))

    def __repr__(self) -> str:
        return f"<Predicted {counted(self.rows, 'row')}>"

    def save(self, path: Path | str) -> None:
        """Write one row per query: `prediction` and, where there is one, its `probability`; nothing of the query."""
        columns = {"prediction": self.labels}
        if self.probabilities is not None:
            columns["probability"] = pa.array(self.probabilities.max(axis=1))
        write_table(pa.table(columns), Path(path))


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
        return interval_of(self.errors, self.rows)

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

    def save(self, path: Path | str) -> None:
        """Write all figures as JSON, for the owner of the rows alone."""
        write_whole(path, json.dumps(self.to_dict(), indent=1), private=True)


def interval_of(errors: int, rows: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share of errors."""
    from sfumato.attacks.metrics import proportion_interval  # whoever only trains does not wait for the attackers

    low, high = proportion_interval(errors, rows)
    return float(low), float(high)


@dataclass(frozen=True)
class ForReleased:
    """A classifier of plain rows that can also answer for rows perturbed as a card says."""

    classifier: Any
    card: Card

    def predict(self, Z: Matrix) -> Any:
        return self.classifier.predict_released(Z, self.card)

    def predict_proba(self, Z: Matrix) -> Any:
        return self.classifier.predict_proba_released(Z, self.card)


def classifier_for(classifier: Any, about: Mapping[str, Any], source: Any) -> Any:
    """What answers for these rows: learners that answer for plain rows must be told when the rows are not."""
    if not isinstance(source, Release) or not about.get("answers_plain_rows"):
        return classifier
    card = source.card
    if card.post_processing is None and all(channel.is_exact for channel in card.made_by().channels):
        return classifier
    if not hasattr(classifier, "predict_released"):
        other = "knn or svm" if card.transform["kind"] == "secret" else "reconstructed-naive-bayes"
        raise UsageError(
            f"{about['classifier']} learned the distribution of plain rows and would misjudge blurred ones. "
            f"Give the plain rows, or train {other}, which can classify both."
        )
    return ForReleased(classifier, card)


def probabilities_of(classifier: Any, Z: Matrix) -> Matrix | None:
    """None where the classifier has none."""
    try:
        return np.asarray(classifier.predict_proba(Z), dtype=np.float64)
    except (AttributeError, NotImplementedError):
        return None
