"""Channels: what happened to a value on its way out, and recipes: a map and its channels."""

from sfumato.channels.additive import Additive, laplace_channels
from sfumato.channels.base import EXACT_PATHS, FLOAT_NOISE, NO_NOISE, Channel, Line, NotApplicableError, OnLine
from sfumato.channels.exact import Carried, Exact, Mixed, Unstated, apart
from sfumato.channels.maps import Affine, Guided, Identity, Secret
from sfumato.channels.recipe import Recipe, draw
from sfumato.channels.response import Bit, HidesMissing, OrMissing, RandomizedResponse
from sfumato.channels.sampled import Sampled
from sfumato.channels.staged import Staged, UnitVector
from sfumato.channels.windowed import Hybrid, Piecewise, SquareWave

__all__ = ["EXACT_PATHS", "FLOAT_NOISE", "NO_NOISE", "Channel", "Line", "NotApplicableError", "OnLine"]
__all__ += ["Additive", "Carried", "Exact", "Mixed", "Unstated", "apart", "laplace_channels"]
__all__ += ["Bit", "HidesMissing", "Hybrid", "OrMissing", "Piecewise", "RandomizedResponse", "Sampled", "SquareWave"]
__all__ += ["Affine", "Guided", "Identity", "Recipe", "Secret", "Staged", "UnitVector", "draw"]
