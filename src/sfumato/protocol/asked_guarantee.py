"""The weakest guarantee that a study takes: none, an epsilon for a record, or epsilon and delta for its presence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import SchemaError
from sfumato.jobs.strength import Presence
from sfumato.table import Schema

EMPIRICAL_ALLOWED = "empirical-allowed"


@dataclass(frozen=True)
class Asked:
    """Both None: releases without a formal guarantee are allowed."""

    epsilon_record: float | None = None
    presence: Presence | None = None

    def to_dict(self) -> Any:
        if self.presence is not None:
            return self.presence._asdict()
        return EMPIRICAL_ALLOWED if self.epsilon_record is None else {"epsilon_record": self.epsilon_record}


def asked_guarantee(found: Any, schema: Schema) -> Asked:
    """Read the study's `guarantee`."""
    if found == EMPIRICAL_ALLOWED:
        return Asked()
    keys = set(found) if isinstance(found, Mapping) else set()
    if keys == {"epsilon_record"} and _number(found["epsilon_record"], 0, 1e6):
        asked = Asked(float(found["epsilon_record"]))
    elif keys == {"epsilon", "delta"} and _number(found["epsilon"], 0, 1e6) and _delta(found["delta"]):
        asked = Asked(presence=Presence(float(found["epsilon"]), float(found["delta"])))
    else:
        raise SchemaError(
            "The study's `guarantee` must be `epsilon_record: NUMBER`, the weakest guarantee for a record that a "
            "release can have; `{epsilon: NUMBER, delta: NUMBER}` for its presence in the table, such as "
            f"{{epsilon: 1.0, delta: 1.0e-6}} (YAML needs the points); or {EMPIRICAL_ALLOWED}."
        )
    if schema.learned:
        raise SchemaError(
            f"The study asks for a formal guarantee, and column {schema.learned[0]!r} is not `source: public`: no "
            "release could have one. Give bounds and categories that everybody may know, with a `reason`."
        )
    return asked


def _number(found: Any, low: float, high: float) -> bool:
    return not isinstance(found, bool) and isinstance(found, int | float) and low < found < high


def _delta(found: Any) -> bool:
    return found == 0 or _number(found, 0, 1)
