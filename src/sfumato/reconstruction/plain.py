"""A reconstruction as plain JSON, there and back: what a coordinator keeps of it, and tells its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import CardError
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.kernel import Cells
from sfumato.reconstruction.shares import Shares


def to_plain(found: Density | Shares) -> dict[str, Any]:
    """Names, cells or categories, probabilities and their band."""
    told = {
        "column": found.name,
        "mass": found.mass.tolist(),
        "low": None if found.low is None else found.low.tolist(),
        "high": None if found.high is None else found.high.tolist(),
        "confidence": found.confidence,
        "rows": found.rows,
    }
    if isinstance(found, Shares):
        return {**told, "categories": list(found.categories)}
    cells = {"edges": found.cells.edges.tolist(), "atoms": found.cells.atoms}
    return {**told, **cells, "missing": found.missing, "about": dict(found.about)}


def from_plain(told: Mapping[str, Any]) -> Density | Shares:
    """What `to_plain` told; refused where it is something else."""
    try:
        mass, low, high = (_numbers(told[name]) for name in ("mass", "low", "high"))
        assert mass is not None
        common = {"confidence": float(told["confidence"]), "rows": int(told["rows"])}
        if "categories" in told:
            categories = tuple(str(one) for one in told["categories"])
            _check(len(categories), mass, low, high)
            return Shares(str(told["column"]), categories, mass, low, high, **common)  # type: ignore[arg-type]
        edges = _numbers(told["edges"])
        assert edges is not None
        _check(len(edges) - 1, mass, low, high)
        if not (np.diff(edges) > 0).all():
            raise ValueError("edges")
        cells, about = Cells(edges, bool(told["atoms"])), dict(told["about"])
        return Density(
            str(told["column"]),
            cells,
            mass,
            low,
            high,
            missing=float(told["missing"]),
            about=about,
            **common,  # type: ignore[arg-type]
        )
    except (AssertionError, KeyError, TypeError, ValueError):
        raise CardError("This is not a density or shares as a coordinator tells them.") from None


def _numbers(told: Any) -> Floats | None:
    if told is None:
        return None
    found = np.asarray(told, dtype=np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ValueError("numbers")
    return found


def _check(count: int, mass: Floats, *band: Floats | None) -> None:
    if count < 1 or any(len(one) != count for one in (mass, *band) if one is not None):
        raise ValueError("lengths")
