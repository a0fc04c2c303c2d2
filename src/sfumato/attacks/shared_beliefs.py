"""What is believed of every column where columns share noise: the whitened release is one that mixes columns."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Matrix
from sfumato.attacks.base import Knowledge, KnownNoise, Transform
from sfumato.attacks.like_people import Likely
from sfumato.attacks.mixed_beliefs import MixedBeliefs
from sfumato.channels import apart


class SharedBeliefs(MixedBeliefs):
    """People of one class behind z = x + B u: B^-1 z = B^-1 x + u is a known map with independent noise."""

    def __init__(self, known: Knowledge, noise: KnownNoise, people: Likely, cells: int) -> None:
        shared = apart(noise.channels)
        assert shared is not None
        self.shared, width = shared, known.encoding.width
        white = Transform(shared.matrix(width), np.zeros(width))
        own = KnownNoise.of(shared.channels, shared.white(people.X))
        super().__init__(known, own, people, cells, white)

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> None:
        super().guess(self.shared.white(Z), tolerance, out, mean, sure)
