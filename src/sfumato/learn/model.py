"""A trained model: a classifier with what it needs to answer for plain rows, its file (skops, never pickle), and what
it says of rows that are plain, embedded by what card or key allow, or that were themselves released."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import CardError, SchemaError, SfumatoError, TableError, UsageError
from sfumato.core.files import other_version, write_whole
from sfumato.core.wording import counted, than_commonest
from sfumato.guarantee import Key
from sfumato.learn.asked import PredictAsked
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.learn.model_file import TRUSTED, ForeignTypeError, ModelFile, UnsoundModelError, check_structure
from sfumato.release.release import Release
from sfumato.table import Encoding, Schema, open_table, write_table
from sfumato.table.encoding import (
    MISSING_INSTEAD,
    NOT_TOLD,
    UNKNOWN_WAYS,
    UNLISTED,
    UnknownCategoryWarning,
    warn_of_unfit,
)

FORMAT, VERSION = "sfumato-model", 1
ANSWERS = ("predict", "predict_proba")
NOT_OURS = "is not a model that `sfumato train` wrote, or it is damaged"


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
    from sfumato.attacks.metrics.privacy import proportion_interval  # who only trains does not wait for the attackers

    low, high = proportion_interval(errors, rows)
    return float(low), float(high)


class Rows(NamedTuple):
    """Rows in the model's space with their true classes: `NOT_TOLD` where the cell is empty, `UNLISTED` where training
    saw no such class, None where no row tells. `unfit`: cells per column whose category training did not see.
    `label_type`: of the table's own label column, where it has one."""

    Z: Matrix
    truth: Codes | None
    unfit: Mapping[str, int]
    label_type: pa.DataType | None = None


@dataclass(frozen=True, repr=False)
class Model:
    """A classifier that was trained on releases, with what it needs to answer for plain rows.

    `sfumato.train` and `sfumato.load_model` return one; `model.save("model.skops")` writes it, never as a pickle.

    Attributes
    ----------
    about : mapping
        Plain JSON: classifier, space, schema, classes, and the releases that were used.
    classes : list
        The classes in the order of the columns of `predict_proba`: integers, numbers or truth values where all of them
        are spelt so, else text.
    """

    classifier: Any
    about: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<Model {self.chosen} from {counted(self.about['rows'], 'released row')}>"

    def _repr_html_(self) -> str:
        """In a notebook: what it is, what it answers, and the figure to beat."""
        beat = self.about.get("commonest")  # a model of 0.2 may not say it
        known = "" if beat is None else f"; always answering the commonest class is right for {beat:.1%} of its rows"
        return f"<p>{escape(repr(self))}</p><p>Predicts {escape(str(self.about['label']))}{known}.</p>"

    @property
    def chosen(self) -> str:
        """The classifier and those of its parameters that are not the default, in one line."""
        name = str(self.about["classifier"])
        if name not in CLASSIFIERS:  # of a later version
            return name
        return choose_classifier(name, self.about.get("parameters")).text

    @property
    def classes(self) -> list[str | int | float | bool]:
        """In the order of codes and probabilities, as integers, numbers or truth values where all are spelt so."""
        labels = self.encoding().decode_label(range(len(self.about["classes"])))
        found: list[str | int | float | bool] = labels.to_pylist()
        return found

    def encoding(self) -> Encoding:
        return Encoding(Schema.from_dict(self.about["source_schema"]))

    def affine(self) -> tuple[Floats, Floats] | None:
        """The public map of plain rows into the release's space, or None where it is a secret key."""
        transform = self.about["transform"]
        known = transform["kind"] == "affine"
        return (np.array(transform["matrix"]), np.array(transform["offset"])) if known else None

    def save(self, path: Path | str) -> None:
        """Write the model file, whole or not at all."""
        import skops.io

        write_whole(path, skops.io.dumps({"about": json.dumps(self.about), "classifier": self.classifier}))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a model. Its sizes, types and structure are checked first: who made it may wish its reader ill."""
        path = Path(path)
        if not path.is_file():
            raise CardError(f"There is no model {path}.")
        try:
            with path.open("rb") as file:
                return cls._read(file)
        except CardError as error:
            raise CardError(f"{path} {error}") from None
        except ForeignTypeError as error:
            raise CardError(f"{path} {error}. It was not loaded.") from None
        except UnsoundModelError as error:
            raise CardError(f"{path} {NOT_OURS}: {error}. It was not used.") from None
        except Exception as error:  # whatever a file that a stranger wrote makes of its readers
            raise CardError(f"{path} {NOT_OURS}.") from error

    @classmethod
    def _read(cls, file: BinaryIO) -> Self:
        import skops.io

        checked = ModelFile(file, _check_version)
        trusted = sorted(frozenset().union(*TRUSTED.values()))
        model = cls(skops.io.load(checked.readable(file), trusted=trusted)["classifier"], checked.about)
        # The description describes a space, and the classifier fits into it.
        encoding, public, about = model.encoding(), model.affine(), model.about
        label = encoding.schema.label
        if label is None or label.name != about["label"] or list(label.categories or ()) != about["classes"]:
            raise UnsoundModelError("its classes are not those of its schema")
        if public is not None and (
            public[0].ndim != 2
            or public[0].shape[1] != encoding.width
            or public[1].shape != public[0].shape[:1]
            or not (np.isfinite(public[0]).all() and np.isfinite(public[1]).all())
        ):
            raise UnsoundModelError("its map of rows is not a valid map")
        check_structure(model.classifier, len(about["classes"]))
        return model

    def predict(
        self, table: Any, *, key: Key | Path | str | None = None, unknown: str = MISSING_INSTEAD
    ) -> NDArray[Any]:
        """The class of every row, as the label has it; see `sfumato.predict`."""
        return np.asarray(self.classify(table, key=key, unknown=unknown).labels)

    def predict_proba(
        self, table: Any, *, key: Key | Path | str | None = None, unknown: str = MISSING_INSTEAD
    ) -> Floats:
        """The probability of every class for every row; the parameters are those of `predict`."""
        found = self.classify(table, key=key, unknown=unknown).probabilities
        if found is None:
            raise UsageError(f"{self.about['classifier']} gives no probabilities. Use predict, or train another.")
        return found

    def classify(self, table: Any, *, key: Key | Path | str | None = None, unknown: str = MISSING_INSTEAD) -> Predicted:
        """Classes, probabilities and, where the rows tell their class, how often it was met."""
        classifier, (Z, truth, unfit, like) = self._asked(table, key, unknown)
        if not len(Z):
            raise TableError("The table contains no rows, so there is nothing to classify.")
        probabilities = None
        with self._answering():
            codes = np.asarray(classifier.predict(Z), dtype=np.int64)
            with contextlib.suppress(AttributeError, NotImplementedError):
                probabilities = np.asarray(classifier.predict_proba(Z), dtype=np.float64)
        accuracy = commonest = None
        told = np.zeros(0, dtype=np.int64)
        if truth is not None:
            told = truth[truth != NOT_TOLD]
            accuracy = float(np.mean(told == codes[truth != NOT_TOLD]))
            commonest = float(np.bincount(told[told >= 0], minlength=1).max() / len(told))
        labels = self.encoding().decode_label(codes, like)
        return Predicted(codes, labels, probabilities, accuracy, commonest, len(codes), unfit, len(told))

    def evaluate(
        self, table: Any, *, key: Key | Path | str | None = None, unknown: str = MISSING_INSTEAD
    ) -> Evaluation:
        """How often the model errs on rows with their label; see `sfumato.evaluate`."""
        classifier, (Z, truth, unfit, like) = self._asked(table, key, unknown)
        if truth is None or not len(truth):
            raise TableError(
                f"The table has no rows with the column to predict ({self.about['label']!r}), so there is nothing to "
                "compare with. To classify rows without it: sfumato predict."
            )
        if left := np.count_nonzero(truth == NOT_TOLD):
            raise TableError(
                f"The column to predict {self.about['label']!r} is empty in {left} of {len(truth)} rows. "
                "Fill it in, or leave these rows out."
            )
        classes = tuple(self.encoding().decode_label(range(len(self.classes)), like).to_pylist())
        confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
        seen = truth != UNLISTED
        with self._answering():
            answers = np.asarray(classifier.predict(Z), dtype=np.int64)
            np.add.at(confusion, (truth[seen], answers[seen]), 1)
        found = Evaluation(classes, confusion, int(np.count_nonzero(~seen)), unfit)
        if found.unseen:
            warnings.warn(
                f"{counted(found.unseen, 'row')} of classes that training did not see: no answer for them can be "
                "right, so they count as errors. To refuse such rows instead: --unknown refuse.",
                UnknownCategoryWarning,
                stacklevel=2,
            )
        return found

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """Around questions to the classifier: parts that do not fit each other are a damaged model, in one line."""
        try:
            yield
        except SfumatoError:
            raise
        except Exception as error:  # what learners raise when their parts contradict each other, whichever it is
            raise CardError(
                f"The model's {self.about['classifier']} cannot answer ({type(error).__name__}): it is damaged, or was "
                "made by another version. Train it again."
            ) from error

    def _asked(self, table: Any, key: Key | Path | str | None, unknown: str) -> tuple[Any, Rows]:
        """Rows of a plain table or of a release in the model's space, their true classes, and what answers for them."""
        if unknown not in UNKNOWN_WAYS:
            raise UsageError(f"--unknown must be {' or '.join(UNKNOWN_WAYS)}. Got {unknown!r} instead.")
        source = Release.public(table) if isinstance(table, str | Path) and Path(table).is_dir() else table
        if not isinstance(source, Release):
            return self.classifier, self._embedded(source, key, unknown)
        card = source.card
        if card.space != self.about["space"]:
            raise CardError(
                f"The release {source.where} does not fit together with the releases that the model learned from."
            )
        rows = Rows(source.Z, source.y if card.label in ("exact", "drawn") else None, {})
        exact = card.post_processing is None and all(channel.is_exact for channel in card.made_by().channels)
        if exact or not self.about.get("answers_plain_rows"):
            return self.classifier, rows
        # Learners that answer for plain rows must be told when the rows are not.
        if not hasattr(self.classifier, "predict_released"):
            other = "knn or svm" if card.transform["kind"] == "secret" else "reconstructed-naive-bayes"
            raise UsageError(
                f"{self.about['classifier']} learned the distribution of plain rows and would misjudge blurred ones. "
                f"Give the plain rows, or train {other}, which can classify both."
            )
        answers = {name: partial(getattr(self.classifier, f"{name}_released"), source=card) for name in ANSWERS}
        return SimpleNamespace(**answers), rows

    def _embedded(self, source: Any, key: Key | Path | str | None, unknown: str) -> Rows:
        """Plain rows where the releases lie, with their true classes; without these where no row tells one."""
        encoding, name = self.encoding(), self.about["label"]
        table, truth = open_table(source).read(), None
        try:
            X, _, unfit, _ = encoding.encode(table, unknown=unknown)
            if name in table.column_names:
                truth = encoding.encode_label(table, unknown=unknown, may_be_empty=True)
        except (TableError, SchemaError) as error:
            if "schema" not in str(error):
                raise
            whose = (
                "(The schema is the model's, from the releases it was trained on. To use another, sanitize and train "
                "again.)"
            )
            raise type(error)(f"{error} {whose}") from None
        warn_of_unfit(unfit, "the training data")
        like = table.schema.field(name).type if name in table.column_names else None
        truth = None if truth is None or (truth == NOT_TOLD).all() else truth
        transform, public = self.about["transform"], self.affine()
        if transform["kind"] == "identity":
            return Rows(X, truth, unfit, like)
        if transform["kind"] == "unknown":
            raise UsageError(transform["why"])
        if public is None:
            if key is None:
                raise CardError(
                    "Plain rows can be embedded only with the key of the releases. Give --key key.json, "
                    "or classify rows that were released with it (give their folder)."
                )
            loaded = key if isinstance(key, Key) else Key.load(Path(key))
            if loaded.commitment() != transform.get("commitment"):
                which = "given" if isinstance(key, Key) else str(key)
                raise CardError(f"The key {which} is not the one used for the training releases.")
            public = loaded.affine()
        matrix, offset = public
        return Rows(X @ matrix.T + offset, truth, unfit, like)


def _check_version(about: Mapping[str, Any]) -> None:
    if about.get("format") != FORMAT:
        raise CardError(f"{NOT_OURS}.")
    if why := other_version(about.get("version"), VERSION, older="Train it again with this version."):
        raise CardError(why)


def load_model(path: Path | str) -> Model:
    """Read a model file. Its sizes, types and structure are checked before anything is built from it.

    Parameters
    ----------
    path : path
        File that `Model.save`, `sfumato train` or a coordinator wrote.

    Returns
    -------
    Model
    """
    return Model.load(path)


@asks(PredictAsked)
def predict(model: Model | Path | str, table: Any, options: PredictAsked) -> NDArray[Any]:
    """Classify plain rows, or rows that were released.

    Parameters
    ----------
    model : Model or path
        What `train` returned, or its file.
    table : DataFrame, Arrow table, path or Release
        Rows with the columns of the source; or a release of the same space.
    {options}

    Returns
    -------
    numpy.ndarray
        One class for each row, of the label's type: integers, numbers or truth values where all classes are spelt so,
        else text; text also where the table has the label as text.
    """
    found = model if isinstance(model, Model) else load_model(model)
    return found.predict(table, key=options.key, unknown=options.unknown)


@asks(PredictAsked)
def evaluate(model: Model | Path | str, table: Any, options: PredictAsked) -> Evaluation:
    """Measure how often a model errs on rows whose label is known; nothing is written or sent.

    Parameters
    ----------
    model : Model or path
        What `train` returned, or its file.
    table : DataFrame, Arrow table, path or Release
        Rows with their label.
    {options}

    Returns
    -------
    Evaluation
        `error`, its 95% `interval`, the error of always answering the `commonest` class, and `confusion`.
    """
    found = model if isinstance(model, Model) else load_model(model)
    return found.evaluate(table, key=options.key, unknown=options.unknown)
