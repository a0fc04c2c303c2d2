"""Neighbours: exact distances, nearest rows and radius votes by blocked matrix products."""

from sfumato.table.neighbours.arrays import NumpyArrays
from sfumato.table.neighbours.circle import Circle, Votes
from sfumato.table.neighbours.device import DeviceMemoryWarning, chosen, in_blocks, on_device
from sfumato.table.neighbours.frame import Frame, error_bound, pair_squares
from sfumato.table.neighbours.nearest import nearest
from sfumato.table.neighbours.tiles import distance_blocks
from sfumato.table.neighbours.votes import radius_votes

__all__ = [
    "Circle",
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
