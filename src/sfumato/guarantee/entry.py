"""A release as it stands in the ledger."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.guarantee.concentrated import Central
from sfumato.guarantee.roll import Roll


def entry_of(note: Mapping[str, Any]) -> dict[str, Any]:
    """A release as it stands in the ledger, from what `record` is told."""
    words = dict.fromkeys(("exact_label", "central", "columns", "roll", "run"), None) | {
        "tags": (),
        "rows_per_person": 1,
    }
    return make_entry(
        **{**words, **{name: value for name, value in note.items() if name not in ("fingerprint", "people")}}
    )


def new_roll_name(roll: Roll) -> dict[str, Any]:
    """Where a roll will be kept, and what of."""
    return {"name": secrets.token_hex(8), "tags": list(roll.tags), "people": roll.people is not None}


def make_entry(
    mechanism: str,
    epsilon: float | None,
    when: str,
    exact_label: bool | None,
    central: Central | None,
    columns: str | None,
    tags: Sequence[str],
    rows_per_person: int | None,
    roll: Mapping[str, Any] | None,
    run: str | None,
) -> dict[str, Any]:
    finite = epsilon if epsilon is not None and math.isfinite(epsilon) else None
    label = {} if exact_label is None else {"exact_label": exact_label}
    drawn = {} if central is None else {"central": central.to_dict()}  # an older version reads no epsilon: no bound
    of = {} if columns is None else {"columns": columns}
    named = {"tags": list(tags)} if tags else {}
    rows = {} if rows_per_person == 1 else {"rows_per_person": rows_per_person}
    kept = {} if roll is None else {"roll": dict(roll)}
    mark = {} if run is None else {"run": run}  # of a run that can be killed and go on
    entry = {"when": when, "mechanism": mechanism, "epsilon_record": finite, **label, **drawn, **of}
    return {**entry, **named, **rows, **kept, **mark}
