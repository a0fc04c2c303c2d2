"""Public tables with the ranges that a code book would give: rounded outward, wider than what the rows hold."""

from __future__ import annotations

import gzip
import math
from functools import lru_cache

import numpy as np
import pandas as pd
from papers.data import DataMissingError, data_folder

from sfumato.table import Column, Schema

LABEL = "label"
EXPERIENCE = (
    "wine", "iris", "wdbc", "pima", "ionosphere", "svmguide1_train", "waveform", "pendigits_train", "magic04",
    "covtype", "votes", "tic_tac_toe", "ecoli", "credit_g",
)  # fmt: skip
"""What the shipped file is made from."""
JUDGING = ("heart_statlog", "hepatitis", "credit_a_crx", "breast_cancer_wisconsin")
"""What it is judged on, and never made from."""
GENERATED = "generated"
"""Needs no file: what the tests run on."""
TEST_SHARE, MOST_TESTED = 0.3, 3_000
COVTYPE_ROWS = 57_000
SEED = 2026


@lru_cache(maxsize=2)
def table_of(name: str) -> tuple[pd.DataFrame, Schema]:
    """Rows in an order of chance, and what is public about them."""
    frame = _generated() if name == GENERATED else _read(name)
    return frame.sample(frac=1.0, random_state=SEED).reset_index(drop=True), _schema(frame)


def split(name: str, rows: int, number: int) -> tuple[pd.DataFrame, pd.DataFrame, Schema]:
    """So many rows to release, and others to be tested on; other rows with every number."""
    frame, schema = table_of(name)
    order = np.random.default_rng(number).permutation(len(frame))
    tested = min(MOST_TESTED, round(TEST_SHARE * len(frame)))
    return frame.iloc[order[tested : tested + rows]], frame.iloc[order[:tested]], schema


def rows_to_release(name: str) -> int:
    """All that are not tested on."""
    rows = len(table_of(name)[0])
    return rows - min(MOST_TESTED, round(TEST_SHARE * rows))


def _read(name: str) -> pd.DataFrame:
    plain, packed = (data_folder() / f"{name}.csv{ending}" for ending in ("", ".gz"))
    if packed.is_file():
        with gzip.open(packed, "rt") as file:
            frame = pd.read_csv(file)
        return frame.sample(min(COVTYPE_ROWS, len(frame)), random_state=SEED)
    if plain.is_file():
        return pd.read_csv(plain)
    raise DataMissingError(f"{name}: there is no such file in the data folder. Name one that has it in SFUMATO_DATA.")


def _generated(rows: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(SEED)
    ill = rng.random(rows) < 0.4
    return pd.DataFrame(
        {
            "age": np.clip(rng.normal(45 + 20 * ill, 12), 18, 95).round(),
            "pressure": rng.normal(120 + 15 * ill, 10).round(1),
            "smokes": np.where(rng.random(rows) < 0.2 + 0.4 * ill, "yes", "no"),
            LABEL: np.where(ill, "ill", "well"),
        }
    )


def _schema(frame: pd.DataFrame) -> Schema:
    known = {"source": "public", "reason": "as a code book would have it"}
    columns = []
    for name in frame.columns:
        cells, missing = frame[name], bool(frame[name].isna().any())
        if name == LABEL or not pd.api.types.is_numeric_dtype(cells):
            words = tuple(sorted(map(str, cells.dropna().unique())))
            role = "label" if name == LABEL else "private"
            columns.append(Column(name, "categorical", role=role, categories=words, missing=missing, **known))
            continue
        low, high = float(cells.min()), float(cells.max())
        unit = 10.0 ** math.floor(math.log10((high - low or 1.0) / 5.0))
        ends = math.floor(low / unit - 0.01) * unit, math.ceil(high / unit + 0.01) * unit
        columns.append(Column(name, "numeric", low=round(ends[0], 9), high=round(ends[1], 9), missing=missing, **known))
    return Schema(tuple(columns))
