"""Neighbours: exact distances, nearest rows and radius votes by blocked matrix products."""

from sfumato.table.neighbours.arrays import NumpyArrays
from sfumato.table.neighbours.nearest import DeviceMemoryWarning, chosen, in_blocks, nearest, on_device
from sfumato.table.neighbours.tiles import Frame, distance_blocks, error_bound, pair_squares
from sfumato.table.neighbours.votes import Circle, Votes, radius_votes

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
