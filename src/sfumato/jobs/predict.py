"""Classify plain rows, embedded by what card or key allow, or rows that were themselves released."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import CardError, OutputError, SchemaError, TableError, UsageError
from sfumato.guarantee import Card, Key
from sfumato.jobs.model import Model
from sfumato.jobs.release import matrix_of, read_release
from sfumato.table import Encoding, open_table, write_table

Matrix = NDArray[np.float64]

UNKNOWN = -1
"""Code of a class that the table does not tell."""


@dataclass(frozen=True)
class Predicted:
    """Class codes, probabilities where the classifier has them, and how often the label, if present, was met.

    Rows without a label do not count. `commonest` is what always answering the commonest class would have reached: the
    figure to beat.
    """

    codes: NDArray[np.int64]
    probabilities: Matrix | None
    accuracy: float | None
    commonest: float | None
    rows: int


def predict(model_path: Path, source: Any, out: Path, *, key: Path | None = None, force: bool = False) -> Predicted:
    """Write one row per query: `prediction` and, where there is one, its `probability`; nothing of the query itself."""
    if out.exists() and not force:
        raise OutputError(f"{out} exists already. Choose another name, or add --force to replace it.")
    model = Model.load(model_path)
    Z, truth = rows_to_classify(model, source, key)
    if not len(Z):
        raise TableError("The table holds no rows, so there is nothing to classify.")
    classifier = classifier_for(model, source)
    with model.answering():
        codes = np.asarray(classifier.predict(Z), dtype=np.int64)
        probabilities = _probabilities(classifier, Z)
    columns = {"prediction": model.encoding().decode_label(codes)}
    if probabilities is not None:
        columns["probability"] = pa.array(probabilities.max(axis=1))
    write_table(pa.table(columns), out)
    accuracy = commonest = None
    if truth is not None:
        told = truth[truth != UNKNOWN]
        accuracy = float(np.mean(told == codes[truth != UNKNOWN]))
        commonest = float(np.bincount(told).max() / len(told))
    return Predicted(codes, probabilities, accuracy, commonest, len(codes))


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
    released = isinstance(source, str | Path) and Path(source).is_dir()
    if not released or not model.about.get("answers_plain_rows"):
        return model.classifier
    card = Card.load(source)
    if _without_noise(card):
        return model.classifier
    if not hasattr(model.classifier, "predict_released"):
        other = "knn or svm" if card.transform["kind"] == "secret" else "reconstructed-naive-bayes"
        raise UsageError(
            f"{model.about['classifier']} learned what plain rows are like, and would mistake perturbed ones. Give the "
            f"plain rows, or train {other}, which can classify both."
        )
    return ForReleased(model.classifier, card)


def _without_noise(card: Card) -> bool:
    """Whether released rows are what plain rows would be there: only rotated or projected, or drawn to be like them."""
    return card.post_processing is None and all(column["noise"] is None for column in card.release_schema["columns"])


def rows_to_classify(model: Model, source: Any, key: Path | None) -> tuple[Matrix, NDArray[np.int64] | None]:
    """The rows of a plain table or of a release's folder in the model's space, and their true classes.

    A class that is not known is `UNKNOWN`; None where none is.
    """
    if isinstance(source, str | Path) and Path(source).is_dir():
        return _released(model, Path(source))
    return _embedded(model, source, key)


def _released(model: Model, folder: Path) -> tuple[Matrix, NDArray[np.int64] | None]:
    """Rows that were released perturbed lie in the model's space already."""
    card = Card.load(folder)
    if card.space != model.about["space"]:
        raise CardError(f"The release in {folder} lies in another space than the model's training data.")
    Z, truth = matrix_of(read_release(folder), card)
    return Z, truth if card.label == "exact" else None


def _embedded(model: Model, source: Any, key: Path | None) -> tuple[Matrix, NDArray[np.int64] | None]:
    encoding = model.encoding()
    table = open_table(source).read()
    try:
        X = encoding.encode(table).X
        truth = _classes(encoding, table)
    except (TableError, SchemaError) as error:
        if "schema" not in str(error):
            raise
        whose = (
            "(The schema is the model's, from the releases it was trained on. For another, sanitize and train again.)"
        )
        raise type(error)(f"{error} {whose}") from None
    if model.about["transform"]["kind"] == "identity":
        return X, truth
    matrix, offset = _map(model, key)
    return X @ matrix.T + offset, truth


def _classes(encoding: Encoding, table: pa.Table) -> NDArray[np.int64] | None:
    """True classes, `UNKNOWN` where the cell is empty; None where no row has one."""
    label = encoding.schema.label
    if label is None or label.name not in table.column_names:
        return None
    known = table[label.name].is_valid().to_numpy()
    if known.all():
        return encoding.encode_label(table) if len(known) else None
    truth = np.full(len(known), UNKNOWN, dtype=np.int64)
    truth[known] = encoding.encode_label(table.filter(pa.array(known)))
    return truth if known.any() else None


def _map(model: Model, key: Path | None) -> tuple[Matrix, Matrix]:
    public = model.affine()
    if public is not None:
        return public
    if model.about["transform"]["kind"] == "unknown":
        raise UsageError(model.about["transform"]["why"])
    if key is None:
        raise CardError(
            "Plain rows can be embedded only with the key of the releases. Give --key key.json, "
            "or classify rows that were sanitized with it (give their folder)."
        )
    loaded = Key.load(key)
    if loaded.commitment() != model.about["transform"].get("commitment"):
        raise CardError(f"The key {key} is not the one that the training releases were made with.")
    return loaded.affine()


def _probabilities(classifier: Any, Z: Matrix) -> Matrix | None:
    try:
        return np.asarray(classifier.predict_proba(Z), dtype=np.float64)
    except (AttributeError, NotImplementedError):
        return None
