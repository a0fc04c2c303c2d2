"""The data sets as tables with public schemas: bounds and categories are those that the sets were published with."""

from __future__ import annotations

import gzip
from functools import lru_cache

import numpy as np
import pandas as pd
from papers.data import DataMissingError, data_folder, load

from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "as published with the data set"}
LABEL = "label"
REPORTED = ("magic04", "pendigits", "waveform", "wdbc", "pima", "covtype", "credit_g", "mixed")
LARGE = ("magic04", "pendigits", "covtype", "mixed")
"""Sets with more than 5,000 rows, of which the goal speaks."""
TINY = "tiny"
"""A small part of what `mixed` is made of: for the fast run."""
COVTYPE_ROWS = 50_000
SEED = 2026


@lru_cache(maxsize=2)
def table_of(name: str) -> tuple[pd.DataFrame, Schema]:
    """Rows, and what is public about them."""
    if name in ("mixed", TINY):
        frame = generated() if name == "mixed" else generated(1_200)
    elif name == "credit_g":
        frame = pd.read_csv(_file("credit_g.csv"))
    elif name == "covtype":
        with gzip.open(_file("covtype.csv.gz"), "rt") as file:
            frame = pd.read_csv(file).sample(COVTYPE_ROWS, random_state=SEED)
    else:
        found = load(name)
        frame = pd.DataFrame(found.X, columns=[f"x{j}" for j in range(found.X.shape[1])])
        frame[LABEL] = found.y
    return frame.reset_index(drop=True), _schema(frame)


def generated(rows: int = 32_000) -> pd.DataFrame:
    """Numbers, whole numbers, categories and missing cells; the class depends on four columns, two of them together."""
    rng = np.random.default_rng(SEED)
    age = np.clip(rng.gamma(6, 7, rows), 16, 95).astype(int)
    work = rng.choice(["none", "part", "full", "own"], rows, p=[0.25, 0.2, 0.45, 0.1])
    hours = np.clip(rng.normal(np.select([work == "none", work == "part"], [2, 20], 41), 6), 0, 90).round(1)
    study = rng.integers(0, 6, rows)
    income = np.exp(rng.normal(9.2 + 0.015 * hours + 0.12 * study, 0.4)).round(0)
    region = rng.choice([f"r{j}" for j in range(12)], rows, p=np.arange(12, 0, -1) / 78)
    debt = np.where(rng.random(rows) < 0.15, np.nan, np.clip(rng.normal(0.4 * income, 4_000), 0, 90_000).round(0))
    push = 0.9 * np.log(income) - 8.7 + 0.03 * (age - 40) * (study > 2) - 0.4 * (work == "none") + 0.2 * (region < "r3")
    yes = rng.random(rows) < 1 / (1 + np.exp(-2 * push))
    return pd.DataFrame(
        {"age": age, "work": work, "hours": hours, "study": study, "income": np.minimum(income, 200_000),
         "region": region, "debt": debt, "phone": rng.choice(["yes", "no"], rows), LABEL: np.where(yes, "in", "out")}
    )  # fmt: skip


def _file(name: str):
    path = data_folder() / name
    if not path.is_file():
        raise DataMissingError(f"{name}: there is no such file in the data folder (SFUMATO_DATA)")
    return path


def _schema(frame: pd.DataFrame) -> Schema:
    columns = []
    for name in frame.columns:
        cells = frame[name]
        if name == LABEL:
            classes = tuple(sorted(map(str, cells.unique())))
            columns.append(Column(name, "categorical", role="label", categories=classes, **PUBLIC))
        elif not pd.api.types.is_numeric_dtype(cells):
            found = tuple(sorted(map(str, cells.dropna().unique())))
            columns.append(Column(name, "categorical", categories=found, missing=bool(cells.isna().any()), **PUBLIC))
        else:
            whole = bool((cells.dropna() % 1 == 0).all())
            low, high = cells.min(), cells.max()
            bounds = (int(low), int(high)) if whole else (float(low), float(high))
            kind, missing = "integer" if whole else "numeric", bool(cells.isna().any())
            columns.append(Column(name, kind, low=bounds[0], high=bounds[1], missing=missing, **PUBLIC))
    return Schema(tuple(columns))
