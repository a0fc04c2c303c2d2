"""What a card says about one released column, in the terms that reconstruction needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.channels import Channel, NotApplicableError, Recipe, Staged
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.guarantee import Card
from sfumato.noise import NumberNoise, Operator, OperatorNoise
from sfumato.table import Group


@dataclass(frozen=True)
class Described:
    """A column's noise and range. Categorical columns have `categories` and `keep`, others `noise`, `low`, `high`.

    `whole`: only whole numbers occur. `missing_keep`: how often "missing" was told truly, None where nothing can be
    missing. `grid`: step to which released values were rounded. `noise` None: released as it is. `left_out`: not every
    row reports it, so that an empty cell is nobody's value.
    """

    name: str
    kind: str
    noise: NumberNoise | None = None
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    missing_keep: float | None = None
    grid: float = 0.0
    categories: tuple[str, ...] = ()
    keep: float = 1.0
    left_out: bool = False

    @property
    def is_categorical(self) -> bool:
        return bool(self.categories)


def describe(card: Card, column: str | None = None, operator: Operator | None = None) -> Described:
    """Look a column up; without a name, the only column there is. `operator`: the owner's own, if the card has none."""
    recipe = card.made_by()
    names = recipe.names()
    if column is None:
        if len(names) != 1:
            raise UsageError(f"Which column? The release has: {', '.join(names)}.")
        column = names[0]
    if column not in names:
        raise UsageError(f"The release has no column {column!r}. It has: {', '.join(names)}.")
    if card.post_processing is not None:
        raise CardError(
            f"The release was rounded and clipped ({card.post_processing}), so its noise is no longer what was "
            "drawn, and nothing can be reconstructed. Release without --like-original."
        )
    found = described(recipe if operator is None else recipe.knowing(operator), names.index(column))
    if found is None:
        raise TableError(f"Column {column!r} is constant by its bounds: there is nothing to reconstruct.")
    return found


def described(recipe: Recipe, place: int) -> Described | None:
    """The column that one channel carries; None for a constant. Refused where its range or its law is unknown."""
    channel, name = recipe.channels[place], recipe.names()[place]
    try:
        if recipe.is_columnwise:
            _, (group,) = recipe.of_columns()[place]
            return _of_group(group, channel)
        if isinstance(recipe.map, Staged):
            raise CardError(
                f"The rows were released in stages, so {name!r} is no column of the table. "
                "Train private-discriminant, or auto, on this release."
            )
        if recipe.map.affine() is None:
            raise CardError(f"The map of the release is a secret key, so no range of {name!r} is known.")
        low, high = (float(end[place]) for end in recipe.map.ranges(recipe.encoding, 0.0))
        if low == high:
            return None
        return Described(name, "numeric", channel.raw_noise(1.0), low, high, left_out=channel.leaves_out)
    except NotApplicableError as error:
        raise CardError(f"Nothing can be reconstructed from column {name!r}: {error}.") from None


def _of_group(group: Group, channel: Channel) -> Described | None:
    name, kind = group.column.name, group.column.kind
    if group.is_onehot:
        # where "missing" is hidden, it counts as every category alike
        slots = group.slots[:-1] if channel.hides_missing else group.slots
        return Described(name, kind, categories=slots, keep=channel.kept, left_out=channel.leaves_out)
    low, high = (float(bound) for bound in group.column.bounds)
    if low == high:
        return None
    keep = channel.kept if group.has_indicator and not channel.hides_missing else None
    whole, noise = kind in ("ordinal", "integer"), channel.raw_noise(high - low, low)
    grid = channel.step * (high - low)
    return Described(name, kind, noise, low, high, whole, keep, grid, left_out=channel.leaves_out)


def check_published(one: Described) -> None:
    """Refuse what no paper reconstructs: its operators and programmes are for numbers."""
    if one.is_categorical:
        raise UsageError(
            f"No paper reconstructs categories, and column {one.name!r} has them. Leave it or --as-published out."
        )


def check_noise(stated: NumberNoise | None, given: OperatorNoise) -> None:
    """A law that the analyst gives beside the card must be the card's."""
    if stated is None or stated.to_dict().keys() != given.to_dict().keys():
        raise CardError("The noise law that was given is not the one on the card. Leave it out: the card states it.")
    for key, value in stated.to_dict().items():
        other = given.to_dict()[key]
        same = np.isclose(value, other) if isinstance(value, float) and isinstance(other, float) else value == other
        if not same:
            raise CardError(
                f"The noise law that was given is not the one on the card: {key} differs. "
                "Leave it out: the card states it."
            )
