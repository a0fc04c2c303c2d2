"""What a card says about one released column, in the terms that reconstruction needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import CardError, TableError, UsageError
from sfumato.guarantee import RANDOMIZED_RESPONSE, Card
from sfumato.noise import Operator, OperatorNoise
from sfumato.table import Group


@dataclass(frozen=True)
class Described:
    """A column's noise and range. Categorical columns have `categories` and `keep`, others `noise`, `low`, `high`.

    `whole`: only whole numbers occur. `missing_keep`: how often "missing" was told truly, None where nothing can be
    missing. `grid`: step to which released values were rounded. `noise` None: released as it is.
    """

    name: str
    kind: str
    noise: OperatorNoise | None = None
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    missing_keep: float | None = None
    grid: float = 0.0
    categories: tuple[str, ...] = ()
    keep: float = 1.0

    @property
    def is_categorical(self) -> bool:
        return bool(self.categories)


def describe(card: Card, column: str | None = None, operator: Operator | None = None) -> Described:
    """Look a column up; without a name, the only column there is."""
    columns = card.release_schema["columns"]
    names = [stated["name"] for stated in columns]
    if column is None:
        if len(names) != 1:
            raise UsageError(f"Which column? The release has: {', '.join(names)}.")
        column = names[0]
    if column not in names:
        raise UsageError(f"The release has no column {column!r}. It has: {', '.join(names)}.")
    if card.post_processing is not None:
        raise CardError(
            f"The release was rounded and clipped ({card.post_processing}), so its noise is no longer the one that was "
            "drawn, and nothing can be reconstructed. Sanitize without --like-original."
        )
    _check_agreement(card, columns[names.index(column)])
    noise, place = card.operator_noise(operator)[column], names.index(column)
    if card.is_columnwise:
        found = of_group(card.source_encoding().groups[place], columns[place]["noise"], noise)
    else:
        affine = card.affine()
        if affine is None:
            raise CardError(f"The map of {card.mechanism['name']} is a secret key, so no range of {column!r} is known.")
        matrix, offset = affine
        found = of_component(column, matrix[place], float(offset[place]), card.source_encoding().groups, noise)
    if found is None:
        raise TableError(f"Column {column!r} is constant by its bounds: there is nothing to reconstruct.")
    return found


def of_group(group: Group, stated: Mapping[str, Any] | None, noise: OperatorNoise | None) -> Described | None:
    """One source column of a column-wise release, as card or mechanism state it; None for a constant."""
    name, kind, stated = group.column.name, group.column.kind, stated or {}
    if group.is_onehot:
        return Described(name, kind, categories=group.slots, keep=float(stated.get("keep", 1.0)))
    low, high = (float(bound) for bound in group.column.bounds)
    if low == high:
        return None
    keep = float(stated.get("missing_keep", 1.0)) if group.has_indicator else None
    return Described(name, kind, noise, low, high, kind in ("ordinal", "integer"), keep, float(stated.get("grid", 0.0)))


def of_component(
    name: str, row: NDArray[np.float64], offset: float, groups: Sequence[Group], noise: OperatorNoise | None
) -> Described | None:
    """z = v'x + c + noise: its range is that of v'x + c over the domain of the source; None for a constant."""
    reached = [group.vertices @ row[group.slice] for group in groups]
    low, high = offset + sum(r.min() for r in reached), offset + sum(r.max() for r in reached)
    return Described(name, "numeric", noise, float(low), float(high)) if low < high else None


def _check_agreement(card: Card, column: Mapping[str, Any]) -> None:
    """The column's law must be the one that the mechanism's parameters name."""
    noise, law = column["noise"], card.mechanism["parameters"].get("law")
    if noise is None or law is None or noise["law"] == RANDOMIZED_RESPONSE:
        return
    if noise["law"] != law:
        raise CardError(
            f"The card disagrees with itself: the mechanism drew {law} noise, column {column['name']!r} says "
            f"{noise['law']}. It was edited."
        )
    stated = card.mechanism["parameters"].get("operator")
    if stated is not None and stated != noise.get("operator", "additive"):
        raise CardError(f"The card disagrees with itself about the operator of column {column['name']!r}.")


def check_noise(stated: OperatorNoise | None, given: OperatorNoise) -> None:
    """A law that the analyst gives beside the card must be the card's."""
    if stated is None or stated.to_dict().keys() != given.to_dict().keys():
        raise CardError("The noise law that was given is not the one on the card. Leave it out: the card says it.")
    for key, value in stated.to_dict().items():
        other = given.to_dict()[key]
        same = np.isclose(value, other) if isinstance(value, float) and isinstance(other, float) else value == other
        if not same:
            raise CardError(
                f"The noise law that was given is not the one on the card: {key} differs. "
                "Leave it out: the card says it."
            )
