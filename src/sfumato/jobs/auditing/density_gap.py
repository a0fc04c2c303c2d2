"""How far two density estimates lie apart: the one that rows were drawn from, and the same from rows held apart.

It is what DAPL [kernel-resampling, Eq. 18] comes to with an estimate in place of the true density f. Both sides then
err, by how much depends on the rows held apart too, so it is another figure and has another name.
"""

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


def density_gap(evidence: Evidence) -> dict[str, Any] | None:
    """Half the L1 distance, weighted over the classes by the table's rows; `held_apart` rows made the other estimate.

    From the table's own rows it would be 0 by construction. None for other mechanisms, without a holdout, and
    where no class has rows in both.
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
    total, weight, variance, held_apart = 0.0, 0, 0.0, 0
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
        total += len(mine) * found.loss
        variance += (len(mine) * found.error) ** 2
        weight, held_apart = weight + len(mine), held_apart + len(f.rows)
    if not weight:
        return None
    error = float(np.sqrt(variance)) / weight
    return {"loss": total / weight, "error": error, "rows": weight, "held_apart": held_apart}


def _classes(evidence: Evidence) -> Codes | None:
    parts = [part.y for part in (evidence.people, evidence.undrawn) if part is not None]
    if any(part is None for part in parts):
        return None
    return np.concatenate([part for part in parts if part is not None])
