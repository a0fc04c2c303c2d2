"""Engines differ only in who adds the statistics and who calls `perturb`: here in memory or from a stream."""

from sfumato.release.engines.fit import BlockCounts, fit_on_source
from sfumato.release.engines.release import draw_blocks, perturber, play_rounds, release_blocks
from sfumato.release.engines.shuffle import DiskShuffle, MemoryShuffle, Shuffle
from sfumato.release.engines.workers import in_order

__all__ = [
    "BlockCounts",
    "DiskShuffle",
    "MemoryShuffle",
    "Shuffle",
    "draw_blocks",
    "fit_on_source",
    "in_order",
    "perturber",
    "play_rounds",
    "release_blocks",
]
