"""The tables of the papers' experiments: scikit-learn's copies, files of a folder, generated rows, or one's own.

`SFUMATO_DATA` names the folder: one CSV file each, the class in its column `label`. A file's shape is held against the
paper's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.auditing.asked import FigureAsked
from sfumato.auditing.case import read_people, schema_of
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.table import Encoding, Schema, open_table


def gaussian_clusters(
    rng: np.random.Generator,
    rows: int = 100_000,
    columns: int = 100,
    clusters: int = 10,
    sigma: float = 2.0,
    reach: float = 5.0,
) -> tuple[Matrix, Codes]:
    """Rows around `clusters` centres, and the number of each row's cluster [principal-laplace, 6.1.1].

    Centres are uniform in [-reach, reach] in every column, rows normal around their centre with standard
    deviation `sigma` in every column; clusters are equally likely.
    """
    centres = rng.uniform(-reach, reach, size=(clusters, columns))
    y = rng.integers(clusters, size=rows)
    X = rng.standard_normal((rows, columns))
    X *= sigma
    X += centres[y]
    return X, y


def waveform(rng: np.random.Generator, rows: int = 5000) -> tuple[Matrix, Codes]:
    """Breiman's waveforms, 21 columns and three equally likely classes [Breiman, Friedman, Olshen & Stone 1984].

    ``x_i = u g(i) + (1 - u) h(i) + e_i`` with one u uniform in [0, 1] per row, e normal, and g, h two of the three
    triangles ``max(6 - |i - 11|, 0)`` and the same moved by 4 to either side: (1, 2), (1, 3), (2, 3) for the
    three classes.
    """
    i = np.arange(1, 22)
    triangle = [np.maximum(6.0 - np.abs(i - centre), 0.0) for centre in (11, 15, 7)]
    first, second = np.array([triangle[0], triangle[0], triangle[1]]), np.array([triangle[1], triangle[2], triangle[2]])
    y = rng.integers(3, size=rows)
    u = rng.random((rows, 1))
    return u * first[y] + (1 - u) * second[y] + rng.standard_normal((rows, 21)), y


def two_lumps(rng: np.random.Generator, rows: int = 3000) -> tuple[Matrix, Codes]:
    """Values in two lumps, cut at 5 and 60: density-reconstruction does not say what Fig. 3 was drawn from."""
    first = round(0.6 * rows)
    x = np.concatenate([rng.normal(20.0, 3.0, first), rng.normal(40.0, 5.0, rows - first)]).clip(5.0, 60.0)
    return x[:, None], (np.arange(rows) >= first).astype(np.int64)


ATTRIBUTES: dict[str, tuple[float, float]] = {
    "salary": (20_000.0, 150_000.0),
    "commission": (0.0, 75_000.0),
    "age": (20.0, 80.0),
    "elevel": (0.0, 4.0),
    "car": (1.0, 20.0),
    "zipcode": (0.0, 8.0),
    "hvalue": (50_000.0, 1_350_000.0),
    "hyears": (1.0, 30.0),
    "loan": (0.0, 500_000.0),
}
"""Columns of the Agrawal-Srikant data with their ranges; `elevel` and `zipcode` are categories."""


def agrawal_srikant(rng: np.random.Generator, rows: int = 100_000, function: int = 1) -> tuple[Matrix, Codes]:
    """People with nine attributes (`ATTRIBUTES`), and 1 for those of group A, 0 for the others.

    The function is one of F1 to F5 of Agrawal & Srikant (2000). The attributes are drawn alike: house values are
    uniform between .5 and 1.5 times k 100,000, where k = 9 - zipcode.
    """
    if not 1 <= function <= 5:
        raise ValueError("The 'function' must be 1 to 5.")
    salary = rng.uniform(*ATTRIBUTES["salary"], rows)
    zipcode = rng.integers(9, size=rows).astype(np.float64)
    person = {
        "salary": salary,
        "commission": np.where(salary >= 75_000, 0.0, rng.uniform(10_000, 75_000, rows)),
        "age": rng.uniform(*ATTRIBUTES["age"], rows),
        "elevel": rng.integers(5, size=rows).astype(np.float64),
        "car": rng.integers(1, 21, size=rows).astype(np.float64),
        "zipcode": zipcode,
        "hvalue": (9 - zipcode) * 100_000 * rng.uniform(0.5, 1.5, rows),
        "hyears": rng.integers(1, 31, size=rows).astype(np.float64),
        "loan": rng.uniform(*ATTRIBUTES["loan"], rows),
    }
    age, e = person["age"], person["elevel"]

    def by_age(young: Any, middle: Any, old: Any) -> Any:
        return np.where(age < 40, young, np.where(age < 60, middle, old))

    low, middle, high = (
        (least * 1000 <= salary) & (salary <= most * 1000) for least, most in ((25, 75), (50, 100), (75, 125))
    )
    young = np.where(e <= 1, low, (e <= 3) & middle)  # people of other levels belong to no group
    adult = np.where((e >= 1) & (e <= 3), middle, (e == 4) & high)
    left = 0.67 * (salary + person["commission"]) - 0.2 * person["loan"]
    equity = 0.1 * person["hvalue"] * np.maximum(person["hyears"] - 20, 0)
    members = (
        (age < 40) | (age >= 60),
        by_age(middle, high, low),
        by_age(young, adult, np.where(e >= 2, middle, (e == 1) & low)),
        left - 20_000 > 0,
        left + 0.2 * equity - 10_000 > 0,
    )
    return np.column_stack([person[name] for name in ATTRIBUTES]), members[function - 1].astype(np.int64)


SHAPES: dict[str, tuple[int, int, int]] = {
    # [principal-laplace, Table 2]
    "wine": (13, 178, 3),
    "pendigits": (16, 7494, 10),
    "wdbc": (30, 569, 2),
    "magic04": (10, 19020, 2),
    "ionosphere": (34, 351, 2),
    "iris": (4, 150, 3),
    "waveform": (21, 5000, 3),
    # [random-rotation, Table 1], which gives Breast-w 10 attributes: it must have counted the sample's id
    "breast_cancer_wisconsin": (9, 699, 2),
    "credit_a_australian": (14, 690, 2),
    "credit_g_numeric": (24, 1000, 2),
    "pima": (8, 768, 2),
    "ecoli": (7, 336, 8),
    "heart_statlog": (13, 270, 2),
    "hepatitis": (19, 155, 2),
    "tic_tac_toe": (9, 958, 2),
    "votes": (16, 435, 2),
    # [kernel-resampling, Table 1]; the tenth column of Breast-Cancer is the sample's id
    "svmguide1_train": (4, 3089, 2),
    "svmguide1_test": (4, 4000, 2),
    "breast_cancer_libsvm": (10, 683, 2),
    "pendigits_test": (16, 3498, 10),  # the part of Pendigits that principal-laplace leaves out
}
"""Attributes, records and classes of the papers' sets."""
CODED = {"breast_cancer_wisconsin", "hepatitis", "tic_tac_toe", "votes"}
"""Sets with categories or missing cells: sorted categories become 0, 1, ..., a missing cell the middle of the range."""
FILES = {"pendigits": "pendigits_train.csv"}
"""Where the file has another name: the paper's 7,494 records are the training part of Pendigits."""
BUNDLED = {"wine": "load_wine", "wdbc": "load_breast_cancer", "iris": "load_iris"}
"""What comes with scikit-learn, and by which function."""
SPLIT = {"svmguide1": ("svmguide1_train", "svmguide1_test")}
"""Sets that were split beforehand."""
COUNTY = "county_income"
"""The 2005 median income of US counties [density-reconstruction, 5.2]: one column, `income`, and no class."""
GENERATED: dict[str, Callable[[np.random.Generator, int], tuple[Matrix, Codes]]] = {
    "synthetic-2": partial(gaussian_clusters, sigma=2.0),
    "synthetic-8": partial(gaussian_clusters, sigma=8.0),
    "waveform": waveform,
    "two-lumps": two_lumps,
    **{f"agrawal-srikant-{number}": partial(agrawal_srikant, function=number) for number in (1, 2, 3, 4, 5)},
}
"""What the papers drew: from a generator, so many rows."""
COLUMNS = {name: tuple(ATTRIBUTES) for name in GENERATED if name.startswith("agrawal-srikant")}
VARIABLE = "SFUMATO_DATA"


class DataMissingError(UsageError):
    """A data set that is in none of the places looked at; the message says what to do."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Rows in raw units, class codes 0, 1, ..., and where they came from. The first `given` rows are for training where
    the split is given; `onehot` are the slots of each category."""

    name: str
    X: Matrix
    y: Codes
    source: str
    given: int = 0
    onehot: tuple[slice, ...] = ()

    def unit(self) -> Matrix:
        """Every column scaled to [0, 1] by its own smallest and largest value, constant ones set to .5."""
        low, span = self.X.min(axis=0), np.ptp(self.X, axis=0)
        return np.where(span > 0, (self.X - low) / np.where(span > 0, span, 1.0), 0.5)

    def sample(self, most: int, seed: int) -> DataSet:
        """At most so many rows, in their own order; of a given split all."""
        if len(self.X) <= most or self.given:
            return self
        some = np.sort(np.random.default_rng(seed).permutation(len(self.X))[:most])
        return DataSet(self.name, self.X[some], self.y[some], self.source, onehot=self.onehot)


def load(name: str, *, folder: Path | None = None) -> DataSet:
    """A set by name as the papers code it: from the folder, else scikit-learn's copy."""
    if name in SPLIT:
        train, test = (load(part, folder=folder) for part in SPLIT[name])
        X, y = np.vstack([train.X, test.X]), np.concatenate([train.y, test.y])
        return DataSet(name, X, y, f"{train.source}, {test.source}", given=len(train.X))
    if name not in SHAPES and name != COUNTY:
        known = ", ".join([*SHAPES, *SPLIT, COUNTY, *GENERATED])
        raise DataMissingError(f"There is no data set {name!r} here. Known are: {known}.")
    folder = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    file = FILES.get(name, f"{name}.csv")
    if folder is not None and (folder / file).is_file():
        return coded(open_table(folder / file), name, source=file)
    if name in BUNDLED:
        from sklearn import datasets  # slow to load

        X, y = getattr(datasets, BUNDLED[name])(return_X_y=True)
        return checked(DataSet(name, np.asarray(X, dtype=np.float64), class_codes(y), "scikit-learn"))
    raise DataMissingError(
        f"{name}: there is no {file} in the data folder. Name a folder that has it in {VARIABLE}, or give the table."
    )


def generated(name: str, rows: int, seed: int = 0) -> DataSet:
    """Rows that a paper drew, drawn anew."""
    X, y = GENERATED[name](np.random.default_rng([seed, 2008]), rows)
    return DataSet(name, X, y, "generated")


def as_table(data: DataSet) -> pa.Table:
    """A set as a table of its own, the class in the last column."""
    names = COLUMNS.get(data.name) or tuple(f"x{number:02d}" for number in range(data.X.shape[1]))
    return pa.table({**dict(zip(names, data.X.T, strict=True)), "label": data.y})


def coded(table: Any, name: str, label: str = "label", source: str = "your table") -> DataSet:
    """A table as the papers code it: numbers as they are, sorted categories as 0, 1, ..."""
    found = table.read()
    if name == COUNTY:
        X = np.asarray(found["income"].to_numpy(), dtype=np.float64)[:, None]
        return DataSet(name, X, np.zeros(len(X), dtype=np.int64), source)
    if label not in found.column_names:
        raise TableError(f"{table.where} has no column {label!r} with the class. Name it with --label.")
    columns = [found[column] for column in found.column_names if column != label]
    if name in CODED:
        X = np.column_stack([_coded(column.to_pylist()) for column in columns])
    else:
        X = np.column_stack([np.asarray(column.to_numpy(), dtype=np.float64) for column in columns])
    return checked(DataSet(name, X, class_codes([str(one) for one in found[label].to_pylist()]), source))


def _coded(values: list[Any]) -> Matrix:
    """A column with categories or missing cells as numbers."""
    if any(isinstance(value, str) for value in values):
        order = {value: float(code) for code, value in enumerate(sorted({value for value in values if value}))}
        values = [order.get(value) for value in values]
    x = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isnan(x), (np.nanmin(x) + np.nanmax(x)) / 2, x)


def encoded(table: Any, schema: Schema, source: str = "") -> DataSet:
    """Numbers in raw units and one slot a category, as the schema has them, and the classes."""
    encoding = Encoding(schema)
    people = read_people(table, encoding)
    X = people.X.copy()
    for group in encoding.groups:
        low, high = getattr(group.column, "low", None), getattr(group.column, "high", None)
        if not group.is_onehot and isinstance(low, int | float) and isinstance(high, int | float) and high > low:
            X[:, group.start] = low + (high - low) * X[:, group.start]
    y = np.zeros(len(X), dtype=np.int64) if people.y is None else people.y
    return DataSet("", X, y, source, onehot=tuple(group.slice for group in encoding.groups if group.is_onehot))


def encoded_rows(table: Any, options: FigureAsked) -> tuple[Matrix, Codes | None]:
    """At most `max_rows` rows, numbers on [0, 1] and one slot a category; and their classes. Nothing is released."""
    opened = open_table(table)
    people = read_people(opened, Encoding(schema_of(opened, options.schema, options.label)))
    some = np.sort(np.random.default_rng(options.seed).permutation(len(people.X))[: options.max_rows])
    X = people.X[some]
    if len(X) < 10 or not np.ptp(X, axis=0).any():
        raise TableError("The table needs at least ten rows, and a column that varies.")
    return X, None if people.y is None else people.y[some]


def class_codes(labels: Any) -> Codes:
    """Class codes in the order of the sorted labels."""
    return np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)


def checked(data: DataSet) -> DataSet:
    """Refuse what is not the paper's table."""
    shape = (data.X.shape[1], len(data.X), len(np.unique(data.y)))
    if data.name in SHAPES and (shape != SHAPES[data.name] or not np.isfinite(data.X).all()):
        raise DataMissingError(
            f"{data.name} from {data.source} has (attributes, records, classes) {shape}, or cells without a number. "
            f"The paper used {SHAPES[data.name]}."
        )
    return data
