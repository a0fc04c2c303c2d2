"""Neighbours: exact distances, nearest rows and radius votes by blocked matrix products."""

from sfumato.neighbours.arrays import NumpyArrays
from sfumato.neighbours.circle import Votes
from sfumato.neighbours.device import DeviceMemoryWarning, chosen, in_blocks, on_device
from sfumato.neighbours.frame import Frame, error_bound, pair_squares
from sfumato.neighbours.nearest import nearest
from sfumato.neighbours.tiles import distance_blocks
from sfumato.neighbours.votes import radius_votes

__all__ = [
    "DeviceMemoryWarning",
    "Frame",
    "NumpyArrays",
    "Votes",
    "chosen",
    "distance_blocks",
    "error_bound",
    "in_blocks",
    "nearest",
    "on_device",
    "pair_squares",
    "radius_votes",
]
