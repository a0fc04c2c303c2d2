"""The papers' data sets by name: a folder first, then scikit-learn's bundled copies, then (if asked) OpenML.

The folder is named by SFUMATO_DATA (default: `../shared/data` beside the repository) and holds one CSV file per data
set, the class in its last column `label`. No data are kept in the repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from sfumato.table import open_table

ROOT = Path(__file__).resolve().parent.parent

SHAPES: dict[str, tuple[int, int, int]] = {
    "wine": (13, 178, 3),
    "pendigits": (16, 7494, 10),
    "wdbc": (30, 569, 2),
    "magic04": (10, 19020, 2),
    "ionosphere": (34, 351, 2),
    "iris": (4, 150, 3),
    "waveform": (21, 5000, 3),
}
"""Attributes, records and classes [principal-laplace, Table 2]."""

SHAPES |= {
    "breast_cancer_wisconsin": (9, 699, 2),
    "credit_a_australian": (14, 690, 2),
    "credit_g_numeric": (24, 1000, 2),
    "pima": (8, 768, 2),
    "ecoli": (7, 336, 8),
    "heart_statlog": (13, 270, 2),
    "hepatitis": (19, 155, 2),
    "tic_tac_toe": (9, 958, 2),
    "votes": (16, 435, 2),
}
"""The same of [random-rotation, Table 1], which gives Breast-w 10 attributes: it must have counted the sample's id."""

SHAPES |= {
    "svmguide1_train": (4, 3089, 2),
    "svmguide1_test": (4, 4000, 2),
    "breast_cancer_libsvm": (10, 683, 2),
}
"""The same of [kernel-resampling, Table 1]. The tenth column of Breast-Cancer is the sample's id."""

SHAPES |= {"pendigits_test": (16, 3498, 10)}
"""What `papers/frontier` needs beyond: the part of Pendigits that principal-laplace leaves out."""

CODED = {"breast_cancer_wisconsin", "hepatitis", "tic_tac_toe", "votes"}
"""Sets with categories or missing cells: sorted categories become 0, 1, ..., a missing cell the middle of the range."""

FILES = {"pendigits": "pendigits_train.csv"}
"""Where the file has another name: the paper's 7,494 records are the training part of Pendigits."""

BUNDLED: dict[str, Callable[..., Any]] = {
    "wine": datasets.load_wine,
    "wdbc": datasets.load_breast_cancer,
    "iris": datasets.load_iris,
}
OPENML = {"pendigits": 32, "magic04": 1120, "ionosphere": 59}
"""Numbers of data sets at OpenML. Waveform is not among them: its copy there has 19 columns of noise more."""


class DataMissingError(LookupError):
    """A data set that is in none of the places looked at; the message says what to do."""


@dataclass(frozen=True)
class DataSet:
    """Rows in raw units, class codes 0, 1, ..., and where they came from."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    source: str

    def unit(self) -> NDArray[np.float64]:
        """Every column scaled to [0, 1] by its own smallest and largest value, constant ones set to .5."""
        low, span = self.X.min(axis=0), np.ptp(self.X, axis=0)
        return np.where(span > 0, (self.X - low) / np.where(span > 0, span, 1.0), 0.5)


def data_folder() -> Path:
    """SFUMATO_DATA, or the folder beside the repository."""
    return Path(os.environ.get("SFUMATO_DATA") or ROOT.parent / "shared" / "data")


def load(name: str, *, folder: Path | None = None, online: bool = False) -> DataSet:
    """A data set of the paper, its shape checked against Table 2."""
    if name not in SHAPES:
        raise DataMissingError(f"There is no data set {name!r} here. Known are: {', '.join(SHAPES)}.")
    path = (folder or data_folder()) / FILES.get(name, f"{name}.csv")
    if path.is_file():
        found = _from_file(name, path)
    elif name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
        found = DataSet(name, np.asarray(X, dtype=np.float64), codes(y), "scikit-learn")
    elif online and name in OPENML:
        found = _from_openml(name)
    else:
        raise DataMissingError(
            f"{name}: there is no {path.name} in the data folder. Name a folder that has it in SFUMATO_DATA"
            + (", or let run.py fetch it with --online." if name in OPENML else ".")
        )
    return _checked(found)


def codes(labels: Any) -> NDArray[np.int64]:
    """Class codes in the order of the sorted labels."""
    return np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)


def _from_file(name: str, path: Path) -> DataSet:
    table = open_table(path).read()
    columns = [column for column in table.column_names if column != "label"]
    if name in CODED:
        X = np.column_stack([_coded(table[column].to_pylist()) for column in columns])
    else:
        X = np.column_stack([np.asarray(table[column].to_numpy(), dtype=np.float64) for column in columns])
    return DataSet(name, X, codes([str(value) for value in table["label"].to_pylist()]), path.name)


def _coded(values: list[Any]) -> NDArray[np.float64]:
    """A column with categories or missing cells as numbers."""
    if any(isinstance(value, str) for value in values):
        order = {value: float(code) for code, value in enumerate(sorted({value for value in values if value}))}
        values = [order.get(value) for value in values]
    found = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isnan(found), (np.nanmin(found) + np.nanmax(found)) / 2, found)


def _from_openml(name: str) -> DataSet:
    try:
        fetched = datasets.fetch_openml(data_id=OPENML[name], as_frame=True)
    except Exception as error:  # whatever goes wrong on the way there, this data set cannot be had now
        raise DataMissingError(f"{name}: OpenML did not answer ({type(error).__name__}).") from error
    attributes, records, _ = SHAPES[name]
    frame = fetched.data[[column for column in fetched.data.columns if str(column).strip(":").lower() != "id"]]
    # OpenML joins training and test part, in this order; a surplus column shows up in the check of the shape.
    X = np.asarray(frame, dtype=np.float64)[:records]
    return DataSet(name, X, codes(fetched.target)[: len(X)], f"OpenML {OPENML[name]} ({attributes} columns)")


def _checked(data: DataSet) -> DataSet:
    attributes, records, classes = SHAPES[data.name]
    shape = (data.X.shape[1], len(data.X), len(np.unique(data.y)))
    if shape != SHAPES[data.name] or len(data.y) != records or not np.isfinite(data.X).all():
        raise DataMissingError(
            f"{data.name} from {data.source} has (attributes, records, classes) {shape}, or cells without a number. "
            f"The paper used {(attributes, records, classes)}."
        )
    return data
