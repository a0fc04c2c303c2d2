"""The data sets of the comparison, encoded: numbers by the range of the whole set, which is taken to be public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from papers.data import DataMissingError, codes, data_folder, load
from sklearn.model_selection import train_test_split

from sfumato.auditing.figures.sets import waveform
from sfumato.table import Column, Encoding, Schema, open_table

TEN = ("wine", "iris", "wdbc", "pima", "ionosphere", "svmguide1", "waveform", "pendigits", "magic04", "covtype")
"""What mechanisms and learners were made on."""
HELD_OUT = ("breast_cancer_wisconsin", "ecoli", "heart_statlog", "credit_a_australian", "credit_g_numeric")
MIXED = ("credit_g", "credit_a_crx", "hepatitis", "votes", "tic_tac_toe")
"""Held out as well, with their categories and empty cells."""
GENERATED = "generated waveforms"
"""Needs no file: what the tests run on."""
JOINED = {"svmguide1": ("svmguide1_train", "svmguide1_test"), "pendigits": ("pendigits", "pendigits_test")}
COVTYPE_ROWS = 50_000
PUBLIC = {"source": "public", "reason": "range or categories of the whole set, taken to be known"}


@dataclass(frozen=True)
class Encoded:
    """Rows between 0 and 1, class codes, and what the columns are."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    encoding: Encoding
    source: str


@dataclass(frozen=True)
class Split:
    """70% of the rows to release, 30% as they are to be tested on, drawn within classes."""

    train: NDArray[np.float64]
    train_y: NDArray[np.int64]
    test: NDArray[np.float64]
    test_y: NDArray[np.int64]
    encoding: Encoding


@lru_cache(maxsize=2)
def encoded(name: str) -> Encoded:
    """A set by name; raises `DataMissingError` where its file is not there."""
    if name == GENERATED:
        X, y = waveform(np.random.default_rng(11), 900)
        return _numbers(X, y, "generated")
    if name == "covtype":
        return _covtype()
    if name in MIXED:
        return _mixed(name)
    parts = [load(part) for part in JOINED.get(name, (name,))]
    X = np.vstack([part.X for part in parts])
    return _numbers(X, np.concatenate([part.y for part in parts]), ", ".join(part.source for part in parts))


def split(name: str, number: int) -> Split:
    """The split of this number."""
    data = encoded(name)
    places = np.arange(len(data.y))
    train, test = train_test_split(places, test_size=0.3, random_state=number, stratify=data.y)
    return Split(data.X[train], data.y[train], data.X[test], data.y[test], data.encoding)


def _numbers(X: NDArray[np.float64], y: NDArray[np.int64], source: str) -> Encoded:
    low, high = X.min(axis=0), X.max(axis=0)
    kinds = np.where((np.rint(X) == X).all(axis=0), "integer", "numeric")  # as `sfumato schema` tells them apart
    columns = [
        Column(f"x{j:02d}", str(kinds[j]), low=float(low[j]), high=float(high[j]), **PUBLIC) for j in range(X.shape[1])
    ]
    span = np.where(high > low, high - low, 1.0)
    return Encoded(np.where(high > low, (X - low) / span, 0.5), y, Encoding(Schema(tuple(columns))), source)


def _covtype() -> Encoded:
    """Class 2, the commonest, against the rest."""
    table = _table("covtype", "covtype.csv.gz")
    rows = np.sort(np.random.default_rng(0).choice(table.num_rows, COVTYPE_ROWS, replace=False))
    table = table.take(rows)
    columns = [name for name in table.column_names if name != "label"]
    X = np.column_stack([np.asarray(table[name].to_numpy(), dtype=np.float64) for name in columns])
    return _numbers(X, codes([str(value) == "2" for value in table["label"].to_pylist()]), "covtype.csv.gz")


def _mixed(name: str) -> Encoded:
    table = _table(name, f"{name}.csv")
    columns = []
    for column in (one for one in table.column_names if one != "label"):
        values = table[column].to_pylist()
        told = {value for value in values if value is not None and value != ""}
        may_miss = len(told) < len(set(values))
        if len(told) <= 2 or any(isinstance(value, str) for value in told):
            texts = tuple(sorted(map(str, told)))
            columns.append(Column(column, "categorical", categories=texts, missing=may_miss, **PUBLIC))
            place = table.column_names.index(column)
            table = table.set_column(place, column, [[None if v in (None, "") else str(v) for v in values]])
        else:
            low, high = float(min(told)), float(max(told))
            columns.append(Column(column, "numeric", low=low, high=high, missing=may_miss, **PUBLIC))
    encoding = Encoding(Schema(tuple(columns)))
    y = codes([str(value) for value in table["label"].to_pylist()])
    return Encoded(encoding.encode(table.drop_columns(["label"])).X, y, encoding, f"{name}.csv")


def _table(name: str, file: str) -> Any:
    path = data_folder() / file
    if not path.is_file():
        raise DataMissingError(
            f"{name}: there is no {file} in the data folder. Name a folder that has it in SFUMATO_DATA."
        )
    return open_table(path).read()
