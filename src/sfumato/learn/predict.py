"""Classify plain rows, embedded by what card or key allow, or rows that were themselves released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.attacks.metrics import proportion_interval
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, SchemaError, TableError, UsageError
from sfumato.core.files import check_free
from sfumato.core.wording import counted, than_commonest
from sfumato.guarantee import Card, Key
from sfumato.learn.model import Model
from sfumato.release.release import Release
from sfumato.table import Encoding, open_table, write_table
from sfumato.table.filling import MISSING_INSTEAD, NOT_TOLD, UNKNOWN_WAYS, warn_of_unfit


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
        low, high = proportion_interval(round((1.0 - self.accuracy) * self.told), self.told)
        return than_commonest(low - (1.0 - self.commonest), high - (1.0 - self.commonest))

    def __repr__(self) -> str:
        return f"<Predicted {counted(self.rows, 'row')}>"


def predict(
    model_path: Path,
    source: Any,
    out: Path,
    *,
    key: Path | None = None,
    unknown: str = MISSING_INSTEAD,
    force: bool = False,
) -> Predicted:
    """Write one row per query: `prediction` and, where there is one, its `probability`; nothing of the query itself.

    Categories that training did not see are treated as missing, counted and warned of; or refused (`unknown="refuse"`).
    """
    check_free(out, force=force)
    model = Model.load(model_path)
    predicted = classify(model, source, key=key, unknown=unknown)
    columns = {"prediction": predicted.labels}
    if predicted.probabilities is not None:
        columns["probability"] = pa.array(predicted.probabilities.max(axis=1))
    write_table(pa.table(columns), out)
    return predicted


def classify(model: Model, source: Any, *, key: Path | Key | None = None, unknown: str = MISSING_INSTEAD) -> Predicted:
    """The same with a model that is open, of rows wherever they are; nothing is written."""
    source = opened(source)
    Z, truth, unfit, like = rows_to_classify(model, source, key, unknown)
    if not len(Z):
        raise TableError("The table contains no rows, so there is nothing to classify.")
    classifier = classifier_for(model, source)
    with model.answering():
        codes = np.asarray(classifier.predict(Z), dtype=np.int64)
        probabilities = _probabilities(classifier, Z)
    accuracy = commonest = None
    told = np.zeros(0, dtype=np.int64)
    if truth is not None:
        told = truth[truth != NOT_TOLD]
        accuracy = float(np.mean(told == codes[truth != NOT_TOLD]))
        commonest = float(np.bincount(told[told >= 0], minlength=1).max() / len(told))
    labels = model.encoding().decode_label(codes, like)
    return Predicted(codes, labels, probabilities, accuracy, commonest, len(codes), unfit, len(told))


def opened(source: Any) -> Any:
    """A release where a folder is given; anything else is a table, or a release already."""
    return Release.public(source) if isinstance(source, str | Path) and Path(source).is_dir() else source


@dataclass(frozen=True)
class ForReleased:
    """A classifier of plain rows that can also answer for rows perturbed as a card says."""

    classifier: Any
    card: Card

    def predict(self, Z: Matrix) -> Any:
        return self.classifier.predict_released(Z, self.card)

    def predict_proba(self, Z: Matrix) -> Any:
        return self.classifier.predict_proba_released(Z, self.card)


def classifier_for(model: Model, source: Any) -> Any:
    """What answers for these rows: learners that answer for plain rows must be told when the rows are not."""
    if not isinstance(source, Release) or not model.about.get("answers_plain_rows"):
        return model.classifier
    card = source.card
    if _without_noise(card):
        return model.classifier
    if not hasattr(model.classifier, "predict_released"):
        other = "knn or svm" if card.transform["kind"] == "secret" else "reconstructed-naive-bayes"
        raise UsageError(
            f"{model.about['classifier']} learned the distribution of plain rows and would misjudge blurred ones. "
            f"Give the plain rows, or train {other}, which can classify both."
        )
    return ForReleased(model.classifier, card)


def _without_noise(card: Card) -> bool:
    """Whether released rows are what plain rows would be there: only rotated or projected, or drawn to be like them."""
    return card.post_processing is None and all(channel.is_exact for channel in card.made_by().channels)


class Rows(NamedTuple):
    """Rows in the model's space with their true classes: `NOT_TOLD` where the cell is empty, `UNLISTED` where training
    saw no such class, None where no row tells. `unfit`: cells per column whose category training did not see.
    `label_type`: of the table's own label column, where it has one."""

    Z: Matrix
    truth: Codes | None
    unfit: Mapping[str, int]
    label_type: pa.DataType | None = None


def rows_to_classify(model: Model, source: Any, key: Path | Key | None, unknown: str) -> Rows:
    """The rows of a plain table or of a release in the model's space, and their true classes."""
    if unknown not in UNKNOWN_WAYS:
        raise UsageError(f"--unknown must be {' or '.join(UNKNOWN_WAYS)}. Got {unknown!r} instead.")
    if isinstance(source, Release):
        return _released(model, source)
    return _embedded(model, source, key, unknown)


def _released(model: Model, release: Release) -> Rows:
    """Rows that were released perturbed lie in the model's space already."""
    if release.card.space != model.about["space"]:
        raise CardError(
            f"The release {release.where} does not fit together with the releases that the model learned from."
        )
    return Rows(release.Z, release.y if release.card.label in ("exact", "drawn") else None, {})


def _embedded(model: Model, source: Any, key: Path | Key | None, unknown: str) -> Rows:
    encoding = model.encoding()
    table = open_table(source).read()
    try:
        X, _, unfit, _ = encoding.encode(table, unknown=unknown)
        truth = _classes(encoding, table, unknown)
    except (TableError, SchemaError) as error:
        if "schema" not in str(error):
            raise
        whose = (
            "(The schema is the model's, from the releases it was trained on. To use another, sanitize and train "
            "again.)"
        )
        raise type(error)(f"{error} {whose}") from None
    warn_of_unfit(unfit, "the training data")
    name = model.about["label"]
    like = table.schema.field(name).type if name in table.column_names else None
    if model.about["transform"]["kind"] == "identity":
        return Rows(X, truth, unfit, like)
    matrix, offset = _map(model, key)
    return Rows(X @ matrix.T + offset, truth, unfit, like)


def _classes(encoding: Encoding, table: pa.Table, unknown: str) -> Codes | None:
    """True classes; None where no row tells one."""
    label = encoding.schema.label
    if label is None or label.name not in table.column_names:
        return None
    truth = encoding.encode_label(table, unknown=unknown, may_be_empty=True)
    return truth if (truth != NOT_TOLD).any() else None


def _map(model: Model, key: Path | Key | None) -> tuple[Matrix, Matrix]:
    public = model.affine()
    if public is not None:
        return public
    if model.about["transform"]["kind"] == "unknown":
        raise UsageError(model.about["transform"]["why"])
    if key is None:
        raise CardError(
            "Plain rows can be embedded only with the key of the releases. Give --key key.json, "
            "or classify rows that were released with it (give their folder)."
        )
    loaded = key if isinstance(key, Key) else Key.load(key)
    if loaded.commitment() != model.about["transform"].get("commitment"):
        which = "given" if isinstance(key, Key) else str(key)
        raise CardError(f"The key {which} is not the one used for the training releases.")
    return loaded.affine()


def _probabilities(classifier: Any, Z: Matrix) -> Matrix | None:
    try:
        return np.asarray(classifier.predict_proba(Z), dtype=np.float64)
    except (AttributeError, NotImplementedError):
        return None
