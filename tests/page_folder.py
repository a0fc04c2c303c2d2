"""What the pages take for granted, small: tables, releases and names under which a page's blocks run as they stand."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.naive_bayes import GaussianNB

import sfumato as sf
from page_blocks import ROOT, blocks

PUBLIC = {"source": "public", "reason": "the limits of the form"}


def patients() -> pd.DataFrame:
    found = load_breast_cancer(as_frame=True).frame.iloc[:, [0, 1, 4, 5, -1]]
    return found.set_axis(["radius", "texture", "smoothness", "compactness", "diagnosis"], axis=1)


def patient_schema() -> sf.Schema:
    bounds = {"radius": (0, 40), "texture": (0, 50), "smoothness": (0, 0.3), "compactness": (0, 0.5)}
    columns = [sf.Column(name, "numeric", low=low, high=high, **PUBLIC) for name, (low, high) in bounds.items()]
    return sf.Schema([*columns, sf.Column("diagnosis", "categorical", role="label", categories=("0", "1"), **PUBLIC)])


def people(rows: int = 400) -> pd.DataFrame:
    """Made up: pay, age, rent, town, two habits."""
    rng = np.random.default_rng(0)
    income = rng.lognormal(10.5, 0.4, rows).round()
    smokes = rng.choice(["no", "yes"], rows, p=[0.6, 0.4])
    return pd.DataFrame(
        {
            "income": income,
            "age": rng.integers(18, 90, rows),
            "rent": (income * rng.uniform(0.2, 0.4, rows)).round(),
            "town": rng.choice(["Aachen", "Bonn"], rows),
            "smokes": smokes,
            "coughs": np.where(rng.random(rows) < 0.8, smokes, "no"),
        }
    )


def people_schema() -> sf.Schema:
    bounds = {"income": (0, 200_000), "age": (0, 120), "rent": (0, 80_000)}
    words = {"town": ("Aachen", "Bonn"), "smokes": ("no", "yes"), "coughs": ("no", "yes")}
    numbers = [sf.Column(name, "numeric", low=low, high=high, **PUBLIC) for name, (low, high) in bounds.items()]
    return sf.Schema(
        [*numbers, *(sf.Column(name, "categorical", categories=of, **PUBLIC) for name, of in words.items())]
    )


def released(table: Any, folder: Path, **how: Any) -> None:
    """`release`, `site-a` and `site-b`, as a page's reader has them."""
    half = len(table) // 2
    for name, rows in (("release", table), ("site-a", table[:half]), ("site-b", table[half:])):
        sf.sanitize(rows, mechanism="additive-noise", **how).save(folder / name)


def medical(folder: Path) -> dict[str, Any]:
    """Patients as a table, as a folder, by months, and the schema of all of them."""
    table = patients()
    table[:300].to_csv(folder / "patients.csv", index=False)
    table[300:].to_csv(folder / "known-patients.csv", index=False)
    for name in ("new-patients.csv", "new.csv"):
        table[300:340].drop(columns="diagnosis").to_csv(folder / name, index=False)
    (folder / "patients" / "year=2025").mkdir(parents=True)
    table[:300].to_parquet(folder / "patients" / "year=2025" / "part.parquet", index=False)
    (folder / "january.csv.gz").write_bytes(gzip.compress(table[:150].to_csv(index=False).encode()))
    with pa.CompressedOutputStream(str(folder / "february.csv.zst"), "zstd") as packed:
        packed.write(table[150:300].to_csv(index=False).encode())
    patient_schema().save(folder / "schema.yaml")
    load_wine(as_frame=True).frame.rename(columns={"target": "label"}).to_csv(folder / "wine.csv", index=False)
    return {}


def learners(folder: Path) -> dict[str, Any]:
    from sfumato.mechanisms import AdditiveNoise

    medical(folder)
    released(patients()[:300], folder, schema=patient_schema(), epsilon_record=20)
    opened = [sf.open_release(folder / name) for name in ("release", "site-a", "site-b")]
    rows = pd.read_parquet(folder / "release" / "release.parquet")
    return {
        "Z": (rows.drop(columns="diagnosis") / [40, 50, 0.3, 0.5]).to_numpy(),  # encoded: shares of the bounds
        "y": rows["diagnosis"].to_numpy(),
        "card": opened[0].card,
        "card_a": opened[1].card,
        "card_b": opened[2].card,
        "part_of_each_row": np.repeat([0, 1], 150),
        "AdditiveNoise": AdditiveNoise,
        "AnyClassifier": GaussianNB,
    }


def populace(folder: Path) -> dict[str, Any]:
    table = people()
    table.to_csv(folder / "people.csv", index=False)
    released(table, folder, schema=people_schema(), parameters={"scale": 0.1})
    load_wine(as_frame=True).frame.drop(columns="target").to_csv(folder / "wine.csv", index=False)
    return {}


def counties(folder: Path) -> dict[str, Any]:
    table = people()[["income", "age", "rent"]]
    for name in ("counties.csv", "table.csv"):
        table.to_csv(folder / name, index=False)
    table[["income"]].rename(columns={"income": "pay"}).to_csv(folder / "pay.csv", index=False)
    pd.DataFrame({"value": [-0.1, 0.0, 0.1], "density": [0.0, 1.0, 0.0]}).to_csv(folder / "noise.csv", index=False)
    return {"values": table["income"].to_numpy() * 2, "rng": np.random.default_rng(0)}


def surveyed(folder: Path) -> dict[str, Any]:
    from sfumato.channels.guidance.guidance import SurveyCounts
    from sfumato.channels.guidance.space import AnswerSpace

    page = ROOT / "docs" / "survey.md"
    described = next(block.text for block in blocks(page) if block.language == "yaml")
    (folder / "survey.yaml").write_text(described, encoding="utf-8")
    rng = np.random.default_rng(0)
    asked = {one["name"] for one in yaml.safe_load(described)["questions"]}
    assert asked == {"nights", "hours", "aid"}
    tired = rng.choice(["no", "yes"], 400)
    earlier = pd.DataFrame(
        {
            "nights": np.where(rng.random(400) < 0.7, tired, "no"),
            "hours": (8 - 2 * (tired == "yes") + rng.normal(0, 1, 400)).round(1),
            "aid": rng.choice(["nothing", "tea", "pills", "alcohol"], 400),
            "tired": tired,
            "age": rng.integers(18, 90, 400),
            "ill": tired,
        }
    )
    earlier.to_csv(folder / "earlier.csv", index=False)
    space = AnswerSpace((2, 3))
    answers = np.column_stack([rng.integers(0, 2, 200), rng.integers(0, 3, 200)])
    bits, labels = space.onehot(answers), answers[:, 0]
    return {"counts": SurveyCounts.of(bits, labels), "bits": bits, "labels": labels, "plain_answers": answers[:5]}


def rotated(folder: Path) -> dict[str, Any]:
    from sfumato.mechanisms import RandomRotation
    from sfumato.table import Encoding

    medical(folder)
    X = np.random.default_rng(0).random((60, 3))
    return {"X": X, "y": np.repeat([0, 1], 30), "encoding": Encoding.unit(3), "RandomRotation": RandomRotation}


PREPARED: dict[str, Callable[[Path], dict[str, Any]]] = {
    "README.md": medical,
    "docs/as-published.md": medical,
    "docs/classifiers.md": learners,
    "docs/clustering.md": populace,
    "docs/compare.md": medical,
    "docs/guided-survey.md": surveyed,
    "docs/invariance.md": medical,
    "docs/large-tables.md": medical,
    "docs/mechanisms.md": rotated,
    "docs/recommend.md": medical,
    "docs/reconstruction.md": counties,
    "docs/regression.md": populace,
    "docs/rules.md": populace,
    "docs/survey.md": surveyed,
    "docs/verify.md": learners,
}
"""What each page needs; a page that is not listed needs nothing."""
