"""Noise of a wanted privacy loss for every column: 1 - 2^-I(X; Z) [density-reconstruction, Eq. 19].

How much a column's noise tells depends on how its values are spread, so its strength is learned from them. What is
learned is no public bound: the columns count as learned, and no formal guarantee rests on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.attacks.metrics.information import calibrate
from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.mechanisms import Mechanism
from sfumato.noise import OperatorNoise, Uniform
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import Cells
from sfumato.reconstruction.reconstruct import described
from sfumato.table import Encoding, Schema
from sfumato.table.statistics import Statistics

BINS, POINTS = 50, 400


def with_privacy_loss(table: Any, schema: Schema, mechanism: Mechanism, wanted: float) -> Schema:
    """The schema in which every number asks for noise of this privacy loss, of the mechanism's own law and operator."""
    if not 0 < wanted < 1:
        raise UsageError(f"A privacy loss lies between 0 and 1: 0 tells nothing, 1 tells the value. Got {wanted!r}.")
    if not {"scale", "low", "high"} <= mechanism.column_choices or not mechanism.columnwise:
        raise UsageError(
            f"--privacy-loss fits the noise of each column, and {mechanism.name} has none of that kind. Use "
            "additive-noise, multiplicative-noise or noisy-operator."
        )
    encoding = Encoding(schema)
    mechanism.fit_statistics(Statistics.empty(encoding.width), encoding)
    chosen = dict(_chosen(table, encoding, mechanism, wanted))
    if not chosen:
        raise UsageError("No column is a number, so no noise has a privacy loss to be fitted.")
    for name, noise in chosen.items():
        noise = {**schema[name].choices.chosen, **noise}
        schema = schema.with_column(name, noise=noise, source="learned", reason="")
    return schema


Chosen = tuple[str, dict[str, Any]]
"""What a column chooses, by its name."""


def _chosen(table: Any, encoding: Encoding, mechanism: Mechanism, wanted: float) -> Iterator[Chosen]:
    shares, recipe = _shares(table, encoding), mechanism.recipe_
    for place, group in enumerate(encoding.groups):
        if group.is_onehot or group.is_constant:
            continue
        name, (low, high) = group.column.name, group.column.bounds
        told = described(recipe, place)
        counts = shares[group.start]
        if told is None or not isinstance(told.noise, OperatorNoise) or np.count_nonzero(counts) < 2:
            raise UsageError(f"Column {name!r} has no noise, or too few different values, to fit a privacy loss to.")
        spread = Density(name, Cells.even(low, high, BINS), counts / counts.sum())
        try:
            fitted = calibrate(told.noise, spread, wanted, points=POINTS, between=(1e-2, 1e2))
        except UsageError as error:
            raise UsageError(f"Column {name!r}: {error}") from None
        # As a column of the schema asks for it, in the mechanism's units.
        unit = high - low if mechanism.name == "additive-noise" else 1.0
        law, stated = fitted.law, fitted.law.to_dict()
        also = {key: stated[key] for key in ("df",) if key in stated}
        also |= {key: value for key, value in fitted.operator.parameters.items() if key == "base"}
        if isinstance(law, Uniform):
            low, high = law.support
            yield name, {"law": law.name, "low": low / unit, "high": high / unit, **also}
        else:
            yield name, {"law": law.name, "scale": float(stated["scale"]) / unit, **also}


def _shares(table: Any, encoding: Encoding) -> dict[int, Floats]:
    """How often every cell of every number occurs; empty cells count nowhere."""
    found = {group.start: np.zeros(BINS) for group in encoding.groups if not group.is_onehot}
    rows = 0
    for block in table.blocks():
        X = encoding.encode(block, first_row=rows).X
        rows += len(X)
        for group in encoding.groups:
            if group.start in found:
                there = X[:, group.start] if not group.has_indicator else X[X[:, group.stop - 1] == 0, group.start]
                found[group.start] += np.histogram(there, BINS, (0.0, 1.0))[0]
    return found
