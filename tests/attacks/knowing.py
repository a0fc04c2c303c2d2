"""What an adversary is told of the noise, in a few words."""

import numpy as np

from sfumato.attacks.base import KnownNoise
from sfumato.channels import Additive, Channel, Exact
from sfumato.noise import Law


def told(*channels, given=None):
    """The channels of a release; a law stands for added noise, None for nothing, a list for a law per column.

    `given`: people like those in the table, as the channels are given them.
    """
    found = tuple(one if isinstance(one, Channel) else Exact() if one is None else added(one) for one in channels)
    width = sum(channel.width for channel in found)
    return KnownNoise.of(found, np.full((1, width), 0.5) if given is None else given)


def added(law):
    assert isinstance(law, Law)
    return Additive(law)
