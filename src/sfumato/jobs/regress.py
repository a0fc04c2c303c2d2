"""Releases in, a linear model between plain columns out: coefficients.csv, regression.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import UsageError
from sfumato.files import new_folder, write_whole
from sfumato.jobs.cluster import parts_of
from sfumato.jobs.number_learners import held_out_errors
from sfumato.jobs.release import Release
from sfumato.jobs.train import check_one_space
from sfumato.mining.linear import WEAK, Linear, fit_linear
from sfumato.mining.unbiased import unbiased
from sfumato.table import Encoding, Group, write_table


@dataclass(frozen=True, repr=False)
class Regression:
    """How a plain column depends on others, in raw units, from releases that hold neither without noise.

    Attributes
    ----------
    coefficients : pyarrow.Table
        Term, coefficient, interval, and what least squares on the released values would have said.
    about : dict
        Target, rows, share of the variance explained, how well learners predict released rows, and warnings.
    """

    coefficients: pa.Table
    about: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Regression of {self.about['target']!r} on {self.coefficients.num_rows - 1} terms>"

    @property
    def warnings(self) -> list[str]:
        """What not to read into it."""
        return list(self.about["warnings"])

    def save(self, out: Path | str, *, force: bool = False) -> Path:
        """Write coefficients.csv and regression.json into a folder."""
        with new_folder(Path(out), force=force) as folder:
            write_table(self.coefficients, folder / "coefficients.csv")
            write_whole(folder / "regression.json", json.dumps(self.about, indent=1))
        return Path(out)


def regress_releases(
    releases: Sequence[Release],
    target: str,
    *,
    columns: Sequence[str] = (),
    confidence: float = 0.95,
    seed: int = 0,
) -> Regression:
    """A linear model of a released number; noise is taken out of both sides by what the cards say of it."""
    if not 0 < confidence < 1:
        raise UsageError(f"The 'confidence' parameter must lie between 0 and 1. Got {confidence} instead.")
    if not releases:
        raise UsageError("Give at least one release.")
    check_one_space([one.card for one in releases], [one.where for one in releases])
    encoding = releases[0].card.source_encoding()
    groups = {group.column.name: group for group in encoding.groups}
    goal = _goal(groups, target)
    chosen = _chosen(groups, target, columns)
    places, terms, scales, lows = _terms(chosen)
    parts = [unbiased(part) for release in releases for part in parts_of(release)]
    found = fit_linear(parts, np.array(places), goal.start, confidence=confidence, seed=seed)
    table = _in_raw_units(found, goal, terms, np.array(scales), np.array(lows))
    about: dict[str, Any] = {
        "target": target,
        "rows": sum(len(release) for release in releases),
        "confidence": confidence,
        "explained": found.explained,
        "firmness": float(min(found.firmness, 1e6)),
        "reference": {group.column.name: group.slots[0] for group in chosen if group.is_onehot},
    }
    low, high = goal.column.bounds
    about["as_released"] = held_out_errors(releases, goal.start, np.array(places), high - low, seed)
    about["warnings"] = _warnings(found, releases, encoding)
    return Regression(table, about)


def _goal(groups: dict[str, Group], target: str) -> Group:
    if target not in groups:
        raise UsageError(f"The release has no column {target!r}. It has: {', '.join(groups)}.")
    if groups[target].is_onehot or groups[target].is_constant:
        raise UsageError(f"Column {target!r} is no number that varies. For classes use `sfumato train`.")
    return groups[target]


def _chosen(groups: dict[str, Group], target: str, columns: Sequence[str]) -> list[Group]:
    if unknown := [name for name in columns if name not in groups or name == target]:
        raise UsageError(f"Column {unknown[0]!r} cannot explain {target!r}: it is not there, or is the same.")
    wanted = [groups[name] for name in columns or groups if name != target]
    found = [group for group in wanted if group.is_onehot or not group.is_constant]
    if not found:
        raise UsageError("There is no other column to explain it with.")
    return found


def _terms(chosen: Sequence[Group]) -> tuple[list[int], list[str], list[float], list[float]]:
    """Places in the matrix, names, raw units per encoded unit and raw value at 0. The first category of a column is
    what the others are compared with."""
    places, terms, scales, lows = [], [], [], []
    for group in chosen:
        if group.is_onehot:
            for place, slot in list(enumerate(group.slots))[1:]:
                places.append(group.start + place)
                terms.append(f"{group.column.name}={slot}")
                scales.append(1.0)
                lows.append(0.0)
        else:
            low, high = group.column.bounds
            places.append(group.start)
            terms.append(group.column.name)
            scales.append(high - low)
            lows.append(low)
    return places, terms, scales, lows


def _in_raw_units(found: Linear, goal: Group, terms: list[str], scales: Any, lows: Any) -> pa.Table:
    low, high = goal.column.bounds
    unit = (high - low) / np.concatenate([[1.0], scales])

    def raw(b: Any) -> Any:
        slopes = b[1:] * unit[1:]
        return np.concatenate([[low + (high - low) * b[0] - slopes @ lows], slopes])

    return pa.table(
        {
            "term": ["(intercept)", *terms],
            "coefficient": raw(found.coefficients),
            "low": [None, *(found.low * unit)[1:].tolist()],  # where all columns are 0 is often nowhere
            "high": [None, *(found.high * unit)[1:].tolist()],
            "as_released": raw(found.naive),
        }
    )


def _warnings(found: Linear, releases: Sequence[Release], encoding: Encoding) -> list[str]:
    told = []
    if found.firmness < WEAK:
        told.append(
            f"Some direction of the columns is weakly known: what is left of its variance is {found.firmness:.1f} "
            f"standard errors, and below {WEAK:g} intervals can be too narrow. Use fewer columns or more rows."
        )
    if any(release.card.made_by().rows != "perturbed" for release in releases):
        told.append("Released rows were drawn, so several can come from one person: intervals are too narrow.")
    if encoding.learned:
        told.append(
            "Bounds were learned from the table; cells outside them would have been clipped, which bends a line."
        )
    return told
