"""Where plain rows lie in the space of a column-wise release: x goes to the mean of what it would be released as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.classifiers.factor_noise import MULTIPLICATIVE
from sfumato.errors import UsageError
from sfumato.guarantee import RANDOMIZED_RESPONSE, Card
from sfumato.noise import CUSTOM, OperatorNoise
from sfumato.table import Encoding

Matrix = NDArray[np.float64]
Affine = tuple[Matrix, Matrix]


def public_map(card: Card) -> Affine | None:
    """(A, c) that puts a plain row x at A x + c; None where the map is a secret or there is none (survey bits)."""
    if card.is_columnwise:
        return columnwise_map(card.source_encoding(), card.release_schema["columns"])
    return card.affine()


def columnwise_map(encoding: Encoding, columns: Sequence[Mapping[str, Any]]) -> Affine:
    """The same from columns as a card or a mechanism states them, in encoded units.

    Noise of mean e moves a number by e; a factor of mean m takes low + u w to m (low + u w). Refused for other
    operators: what they make of a value on average is no line, and rows put elsewhere would be answered wrongly.
    """
    slope, offset = np.ones(encoding.width), np.zeros(encoding.width)
    for group, column in zip(encoding.groups, columns, strict=True):
        noise = column["noise"]
        if group.is_onehot or not noise or noise["law"] == RANDOMIZED_RESPONSE:
            continue
        if noise.get("operator") == CUSTOM:
            raise UsageError(_refusal(column["name"], "of its owner's own"))
        carried, place = OperatorNoise.from_dict(noise), group.start
        width = float(encoding.scale[place]) or 1.0
        if carried.operator.is_additive:
            offset[place] = carried.law.mean / width
        elif carried.operator.name == MULTIPLICATIVE and carried.slope != 0.0:
            slope[place] = carried.slope
            offset[place] = (carried.slope - 1.0) * float(group.column.bounds[0]) / width
        else:
            raise UsageError(_refusal(column["name"], carried.operator.name))
    return np.diag(slope), offset


def _refusal(column: str, operator: str) -> str:
    return (
        f"Column {column!r} was released by the operator {operator}, and where a plain value would lie in the release "
        "cannot be said. This classifier answers only for rows that were released likewise; for plain rows train "
        "reconstructed-naive-bayes or reconstructed-tree."
    )
