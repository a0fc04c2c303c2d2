"""Neighbours: exact distances, nearest rows and radius votes by blocked matrix products."""

from sfumato.neighbours.arrays import NumpyArrays
from sfumato.neighbours.device import DeviceMemoryWarning, on_device
from sfumato.neighbours.frame import Frame, error_bound, pair_squares
from sfumato.neighbours.nearest import nearest
from sfumato.neighbours.tiles import distance_blocks
from sfumato.neighbours.votes import Votes, radius_votes

__all__ = [
    "DeviceMemoryWarning",
    "Frame",
    "NumpyArrays",
    "Votes",
    "distance_blocks",
    "error_bound",
    "nearest",
    "on_device",
    "pair_squares",
    "radius_votes",
]
