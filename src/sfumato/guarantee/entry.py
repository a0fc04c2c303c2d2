"""A release as it stands in the ledger."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from typing import Any

from sfumato.guarantee.concentrated import Central
from sfumato.guarantee.roll import Roll


def new_roll_name(roll: Roll) -> dict[str, Any]:
    """Where a roll will be kept, and what of."""
    return {"name": secrets.token_hex(8), "tags": list(roll.tags), "people": roll.has_people}


def make_entry(
    *,
    mechanism: str,
    epsilon: float | None,
    when: str,
    exact_label: bool | None = None,
    central: Central | None = None,
    rows_per_person: int | None = 1,
    named: bool = False,
    cohort: str | None = None,
    roll: Mapping[str, Any] | None = None,
    run: str | None = None,
    memory: str | None = None,
) -> dict[str, Any]:
    """What is usual is not written down: an entry of an earlier version lacks it too.

    `named`: a column says whose row each is. `cohort`: the owner's name for these people, of whom nobody is in another
    cohort. `roll` says where their fingerprints are kept, `run` names a run that can be killed and go on, `memory` what
    `--only-new` remembers of it.
    """
    finite = epsilon if epsilon is not None and math.isfinite(epsilon) else None
    entry: dict[str, Any] = {"when": when, "mechanism": mechanism, "epsilon_record": finite}
    if central is not None:  # an older version reads no epsilon: no bound
        entry["central"] = central.to_dict()
    if rows_per_person != 1:
        entry["rows_per_person"] = rows_per_person
    if named:
        entry["named"] = True
    others = {"exact_label": exact_label, "cohort": cohort, "roll": roll and dict(roll), "run": run, "memory": memory}
    return entry | {name: value for name, value in others.items() if value is not None}
