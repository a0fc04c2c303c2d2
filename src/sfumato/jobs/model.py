"""Model files: a classifier with what it needs to classify plain rows; skops, never pickle."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from sfumato.array_types import Floats
from sfumato.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.errors import CardError, SfumatoError
from sfumato.files import other_version, write_whole
from sfumato.jobs.model_file import ForeignTypeError, ModelFile, UnsoundModelError
from sfumato.jobs.model_structure import check_structure
from sfumato.table import Encoding
from sfumato.wording import counted

FORMAT, VERSION = "sfumato-model", 1
NOT_OURS = "is not a model that `sfumato train` wrote, or it is damaged"


@dataclass(frozen=True, repr=False)
class Model:
    """A trained classifier, and the public description of the space it works in.

    `about` is plain JSON: format, classifier, space, source_schema, transform, classes, the releases used, and
    whether the model contains released rows.
    """

    classifier: Any
    about: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<Model {self.chosen} from {counted(self.about['rows'], 'released row')}>"

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
        found: list[str | int | float | bool] = (
            self.encoding().decode_label(range(len(self.about["classes"]))).to_pylist()
        )
        return found

    def encoding(self) -> Encoding:
        return Encoding.from_dict(self.about["source_schema"])

    def affine(self) -> tuple[Floats, Floats] | None:
        """The public map of plain rows into the release's space, or None where it is a secret key."""
        transform = self.about["transform"]
        if transform["kind"] == "affine":
            return np.array(transform["matrix"]), np.array(transform["offset"])
        return None

    def save(self, path: Path | str) -> None:
        """Write the model file, whole or not at all."""
        import skops.io

        write_whole(path, skops.io.dumps({"about": json.dumps(self.about), "classifier": self.classifier}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a model. Its sizes, types and structure are checked first: who made it may wish its reader ill."""
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
        except Exception as error:  # whatever a file that somebody else wrote makes of its readers
            raise CardError(f"{path} {NOT_OURS}.") from error

    @classmethod
    def _read(cls, file: BinaryIO) -> Self:
        import skops.io

        checked = ModelFile(file, _check_version)
        file.seek(0)
        model = cls(skops.io.load(file, trusted=checked.types())["classifier"], checked.about)
        model._check()
        return model

    def _check(self) -> None:
        """The description describes a space, and the classifier fits into it."""
        encoding, public = self.encoding(), self.affine()
        label = encoding.schema.label
        if label is None or label.name != self.about["label"] or list(label.categories or ()) != self.about["classes"]:
            raise UnsoundModelError("its classes are not those of its schema")
        if public is not None and (
            public[0].ndim != 2
            or public[0].shape[1] != encoding.width
            or public[1].shape != public[0].shape[:1]
            or not (np.isfinite(public[0]).all() and np.isfinite(public[1]).all())
        ):
            raise UnsoundModelError("its map of rows is not a valid map")
        check_structure(self.classifier, len(self.about["classes"]))

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
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


def _check_version(about: Mapping[str, Any]) -> None:
    if about.get("format") != FORMAT:
        raise CardError(f"{NOT_OURS}.")
    if why := other_version(about.get("version"), VERSION, older="Train it again with this version."):
        raise CardError(why)
