"""One small made-up table through every mechanism, and every adversary on each release: the site's own figures.

Run anew by each build, so that no page can show what an older version did. The table is always the same. Noise has no
seed, since a release with one proves nothing: figures differ a little from build to build.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.mechanisms import MECHANISMS

PUBLIC = {"source": "public", "reason": "made up"}
EPSILON = 4.0
OWN: dict[str, dict[str, Any]] = {"noisy-operator": {"operator": "x * exp(e)", "law": "normal", "scale": 0.2}}
"""Parameters of mechanisms that do nothing without any."""


@dataclass
class Measured:
    """What a mechanism made of the table: rows before and after, the kind of guarantee (or the refusal), scores."""

    setting: str
    original: pa.Table
    released: pa.Table | None = None
    words: str = ""
    scores: list[dict[str, Any]] = field(default_factory=list)


def made_up(people: int, seed: int, categories: bool) -> pa.Table:
    """Two groups of people, three numbers; or the same cut at quarters, where only categories are taken."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, people)
    first = np.where(group, 0.65, 0.35) + rng.normal(0, 0.08, people)
    second = np.where(group, 0.6, 0.4) + 0.8 * (first - 0.5) * np.where(group, -1, 1) + rng.normal(0, 0.06, people)
    third = 0.5 + 0.5 * (first - 0.5) + rng.normal(0, 0.1, people)
    columns = {name: 1 + np.clip(values, 0, 1) for name, values in zip("abc", (first, second, third), strict=True)}
    if categories:
        columns = {
            name: np.array(list("wxyz"))[np.minimum((values - 1) * 4, 3).astype(int)]
            for name, values in columns.items()
        }
    return pa.table({**columns, "group": np.array(["one", "two"])[group]})


def schema(categories: bool) -> sf.Schema:
    """Limits that everybody knows, away from 0: a factor would leave 0 as it is."""
    one = {"categories": tuple("wxyz")} if categories else {"low": 1.0, "high": 2.0}
    kind = "categorical" if categories else "numeric"
    label = sf.Column("group", "categorical", role="label", categories=("one", "two"), **PUBLIC)
    return sf.Schema([*(sf.Column(name, kind, **one, **PUBLIC) for name in "abc"), label])


def measure() -> dict[str, Measured]:
    """Every mechanism, in its order."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: _one(name, Path(folder)) for name in MECHANISMS}


def _one(name: str, folder: Path) -> Measured:
    """As numbers where the mechanism takes numbers, else as categories; what it refuses, it refuses on the page."""
    knob = MECHANISMS[name].knob()
    asked: dict[str, Any] = {"mechanism": name, "parameters": OWN.get(name, {})}
    if knob is not None:
        asked["parameters"] = {**asked["parameters"], **knob.proved_with}
    if knob is not None and knob.parameter in ("epsilon_record", "epsilon"):
        asked[knob.parameter] = EPSILON if knob.parameter == "epsilon_record" else 1.0
    setting = ", ".join(
        f"{key} {value}" for key, value in {**asked["parameters"], **asked}.items() if key != "parameters"
    )
    for categories in (False, True):
        table, others = made_up(300, 1, categories), made_up(200, 2, categories)
        found = Measured(setting, table)
        try:
            where = folder / f"{name}-{categories}"
            release = sf.sanitize(table, schema=schema(categories), ledger=folder / "ledger.json", out=where, **asked)
            audit = sf.audit(release, original=table, holdout=others, repeats=0)
        except sf.SfumatoError as error:
            found.words = str(error)
            continue
        found.released, found.words = release.arrow, str(release.card.guarantee["kind"])
        found.scores = audit.data["attacks"]
        return found
    return found
