"""The channel of one source column where every column goes its own way."""

from __future__ import annotations

from sfumato.channels import Channel, Exact, OrMissing, RandomizedResponse
from sfumato.table import Group


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
