"""What bounded noise gives away with certainty: values that cannot have led to what was released."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Matrix
from sfumato.attacks.base import Abstain, Attack, Bounds, Guess, Knowledge


class HardInterval(Attack):
    """The adversary knows which released row is a person's and how far the noise can reach, and rules values out.

    Uniform noise on [a, b] added to x confines it to [z - b, z - a]; a factor between 1 and 3 confines a positive x to
    [z / 3, z]. Near the ends of the range little is left, and the interval can collapse to a point. This needs no
    population and no probability: what is ruled out is ruled out. Unbounded noise, and categories behind randomized
    response, rule nothing out; a column without noise leaves nothing open.
    """

    name = "hard-interval"
    reads_gaps = True
    knows = frozenset({"release", "noise", "images", "secret"})

    def guess(self, known: Knowledge) -> Guess:
        """An interval for the secret of every target."""
        assert known.noise is not None
        assert known.images is not None
        assert known.secret is not None
        if not known.columnwise:
            return Abstain("the release mixes columns: a component does not confine any single column")
        group = known.encoding.groups[known.secret]
        for place, channel in zip(known.noise.places, known.noise.channels, strict=True):
            if place == group.slice:
                low, high = channel.possible(known.release[known.images, place])
                return Bounds(*_inside(low, high), known.secret)
        return Abstain("the channel of this column covers other columns too")


def _inside(low: Matrix, high: Matrix) -> tuple[Matrix, Matrix]:
    """Within [0, 1]; all of it where nothing fits, since the release was changed then."""
    fits = (low <= 1.0) & (high >= 0.0)
    return np.where(fits, np.clip(low, 0.0, 1.0), 0.0), np.where(fits, np.clip(high, 0.0, 1.0), 1.0)
