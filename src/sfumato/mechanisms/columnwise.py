"""What columns choose for themselves: their channel where each goes its own way, and their share of the epsilon."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sfumato.channels import Channel, Exact, OrMissing, RandomizedResponse
from sfumato.channels.sampled import CERTAIN
from sfumato.core.errors import SchemaError
from sfumato.table import Encoding, Group


def columnwise_channel(group: Group, number: Channel, response_epsilon: float) -> Channel:
    """Numbers go through `number`; categories and "missing" are told by randomized response of this epsilon.

    A constant says nothing and is released as it is.
    """
    if group.is_onehot:
        return RandomizedResponse.of_epsilon(response_epsilon, group.width)
    value = Exact() if group.is_constant else number
    if not group.has_indicator:
        return value
    return OrMissing(value, RandomizedResponse.of_epsilon(response_epsilon, 2).keep)


def epsilon_shares(groups: Sequence[Group]) -> tuple[float, ...]:
    """Every column's part of the epsilon, 1 on average: as the schema says, else in proportion to 1 / weight.

    A column that can have one value only gets 1 and counts for nothing.
    """
    asked = [group.column.choices.epsilon_share or 1.0 / group.column.weight for group in groups]
    counted = [share for share, group in zip(asked, groups, strict=True) if len(group.vertices) > 1]
    if not counted or min(counted) == max(counted):
        return (1.0,) * len(groups)
    mean = sum(counted) / len(counted)
    pairs = zip(asked, groups, strict=True)
    return tuple(share / mean if len(group.vertices) > 1 else 1.0 for share, group in pairs)


def reporting_rates(shares: Sequence[float], wanted: int) -> tuple[float, ...]:
    """How often each column is reported by rows that report `wanted` of them: as shares say, as far as 1 allows."""
    rates = [1.0] * len(shares)
    open_to, left = list(range(len(shares))), wanted
    while open_to:
        total = sum(shares[place] for place in open_to)
        for place in open_to:
            rates[place] = left * shares[place] / total
        full = [place for place in open_to if rates[place] >= CERTAIN]
        if not full:
            break
        for place in full:
            rates[place] = 1.0
        open_to, left = [place for place in open_to if place not in full], left - len(full)
    return tuple(rates)


def check_choices(mechanism: str, able: Collection[str], encoding: Encoding) -> None:
    """Refuse what a column asks for and the mechanism cannot do, or the owner would believe that it was done."""
    for group in encoding.groups:
        for choice in group.column.choices.chosen:
            if choice not in able:
                can = f"It knows: {', '.join(sorted(able))}." if able else "It perturbs all columns alike."
                raise SchemaError(
                    f"Column {group.column.name!r} asks for its own {choice} (`noise` in the schema), which "
                    f"{mechanism} cannot give it. {can} Remove it from the schema, or choose another method."
                )
