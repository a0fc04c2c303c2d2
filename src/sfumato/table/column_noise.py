"""What is to happen to one column, where it differs from what the mechanism does to all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sfumato.errors import SchemaError

WORDS = ("law", "operator", "kernel")
POSITIVE = ("scale", "df", "epsilon_share")


@dataclass(frozen=True)
class ColumnNoise:
    """Choices for one column; what is None follows the mechanism.

    Parameters
    ----------
    law : str, optional
        Law of the noise, for `additive-noise`, `multiplicative-noise` and `noisy-operator`.
    scale, low, high, df : float, optional
        Of the law, in the units of the mechanism: relative to the column's range for `additive-noise`, raw ones for an
        additive operator, a factor for a multiplicative one.
    operator : str, optional
        How noise is carried into the column, for `multiplicative-noise` and `noisy-operator`.
    base : float, optional
        Of a multiplicative operator.
    epsilon_share : float, optional
        The column's part of the record's epsilon, relative to others; instead of 1 / weight.
    kernel : str, optional
        For `kernel-resampling`.
    bandwidth : float or str, optional
        For `kernel-resampling`: a share of the column's range, or the name of a rule.
    """

    law: str | None = None
    scale: float | None = None
    low: float | None = None
    high: float | None = None
    df: float | None = None
    operator: str | None = None
    base: float | None = None
    epsilon_share: float | None = None
    kernel: str | None = None
    bandwidth: float | str | None = None

    @property
    def settles_strength(self) -> bool:
        """Whether it says how strong the column's noise is."""
        return self.scale is not None or self.low is not None or self.high is not None

    @property
    def chosen(self) -> dict[str, Any]:
        """The choices that were made, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def of(cls, found: Any, column: str) -> ColumnNoise | None:
        """Read and check what a schema says; laws, operators and kernels are known to the mechanisms."""
        if found is None or isinstance(found, cls):
            return found
        where, known = f"Column {column!r}", [field.name for field in fields(cls)]
        if not isinstance(found, Mapping):
            raise SchemaError(f"{where}: `noise` must be a mapping of some of {', '.join(known)}.")
        for key, value in found.items():
            if key not in known:
                raise SchemaError(f"{where}: `noise` has an unknown key {key!r}. It may have: {', '.join(known)}.")
            if value is not None:
                _check(where, key, value)
        made: dict[str, Any] = {
            key: value if isinstance(value, str) else float(value) for key, value in found.items() if value is not None
        }
        return cls(**made) if made else None


def _check(where: str, key: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if key in WORDS:
        if not isinstance(value, str):
            raise SchemaError(f"{where}: the {key} of `noise` must be a word.")
    elif key == "bandwidth" and isinstance(value, str):
        return
    elif not number or (key in (*POSITIVE, "bandwidth") and not value > 0):
        must = "a finite number" if key not in (*POSITIVE, "bandwidth") else "a number above 0"
        raise SchemaError(f"{where}: the {key} of `noise` must be {must}.")
