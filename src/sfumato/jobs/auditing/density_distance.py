"""DAPL of one site's release: how far the density that its rows are drawn from lies from that of rows held apart."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sfumato.array_types import Codes
from sfumato.errors import SfumatoError
from sfumato.jobs.auditing.evidence import Evidence
from sfumato.mechanisms import KernelResampling, make_mechanism
from sfumato.metrics import RowDensity, half_l1
from sfumato.statistics import NO_CLASS

MOST_ROWS = 2_000
DRAWS = 400


def density_distance(evidence: Evidence) -> dict[str, Any] | None:
    """Half the L1 distance, weighted over the classes by the table's rows [kernel-resampling, Eq. 18].

    The density that it is held against is the same estimate from the holdout's rows: from the table's own rows it would
    be 0 by construction. None for other mechanisms, without a holdout, and where no class has rows in both.
    """
    card, holdout = evidence.card, evidence.holdout
    if card is None or holdout is None or card.mechanism["name"] != KernelResampling.name:
        return None
    recipe = card.made_by()
    X, y = evidence.register, _classes(evidence)
    other = holdout.y if y is not None else None
    if y is not None and other is None:
        return None
    mechanism = make_mechanism(KernelResampling.name, dict(card.mechanism["parameters"]))
    assert isinstance(mechanism, KernelResampling)
    rng = np.random.default_rng(0)  # fixed: measuring twice gives the same figure
    total, weight, variance = 0.0, 0, 0.0
    for code in [NO_CLASS] if y is None else np.unique(y).tolist():
        mine = X if y is None else X[y == code]
        theirs = holdout.X if other is None else holdout.X[other == code]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                codes = None if y is None else np.full(len(theirs), code)
                apart = mechanism.fit(theirs[:MOST_ROWS], None if codes is None else codes[:MOST_ROWS], recipe.encoding)
        except SfumatoError:  # a class with too few rows
            continue
        f = RowDensity.of(apart, theirs[:MOST_ROWS], None, None if y is None else code)
        g = RowDensity(mine[:MOST_ROWS], recipe.of_class(code))
        found = half_l1(f, g, rng, DRAWS)
        total, variance, weight = (
            total + len(mine) * found.loss,
            variance + (len(mine) * found.error) ** 2,
            weight + len(mine),
        )
    if not weight:
        return None
    return {"loss": total / weight, "error": float(np.sqrt(variance)) / weight, "rows": weight}


def _classes(evidence: Evidence) -> Codes | None:
    parts = [part.y for part in (evidence.people, evidence.undrawn) if part is not None]
    if any(part is None for part in parts):
        return None
    return np.concatenate([part for part in parts if part is not None])
