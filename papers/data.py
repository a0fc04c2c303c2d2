"""The papers' data sets by name: a folder first, then scikit-learn's bundled copies, then (if asked) OpenML.

The folder is named by SFUMATO_DATA (default: `../shared/data` beside the repository) and holds one CSV file per data
set, the class in its last column `label`. No data are kept in the repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn import datasets

from sfumato.auditing.figures import sets
from sfumato.auditing.figures.sets import SHAPES, DataMissingError, DataSet
from sfumato.auditing.figures.sets import class_codes as codes

__all__ = ["SHAPES", "DataMissingError", "DataSet", "codes", "data_folder", "load"]

ROOT = Path(__file__).resolve().parent.parent
OPENML = {"pendigits": 32, "magic04": 1120, "ionosphere": 59}
"""Numbers of data sets at OpenML. Waveform is not among them: its copy there has 19 columns of noise more."""


def data_folder() -> Path:
    """SFUMATO_DATA, or the folder beside the repository."""
    return Path(os.environ.get(sets.VARIABLE) or ROOT.parent / "shared" / "data")


def load(name: str, *, folder: Path | None = None, online: bool = False) -> DataSet:
    """A data set of a paper, its shape checked against the paper's table."""
    try:
        return sets.load(name, folder=folder or data_folder())
    except DataMissingError as error:
        if not (online and name in OPENML and "there is no" in str(error)):
            raise
    return _from_openml(name)


def _from_openml(name: str) -> DataSet:
    try:
        fetched = datasets.fetch_openml(data_id=OPENML[name], as_frame=True)
    except Exception as error:  # whatever goes wrong on the way there, this data set cannot be had now
        raise DataMissingError(f"{name}: OpenML did not answer ({type(error).__name__}).") from error
    attributes, records, _ = SHAPES[name]
    frame = fetched.data[[column for column in fetched.data.columns if str(column).strip(":").lower() != "id"]]
    # OpenML joins training and test part, in this order; a surplus column shows up in the check of the shape.
    X = np.asarray(frame, dtype=np.float64)[:records]
    y = codes(fetched.target)[: len(X)]
    return sets.checked(DataSet(name, X, y, f"OpenML {OPENML[name]} ({attributes} columns)"))
