"""What bounded noise gives away with certainty: values that cannot have led to what was released."""

from __future__ import annotations

import math

import numpy as np

from sfumato.attacks.base import Abstain, Attack, Bounds, Guess, Knowledge, Matrix, Response
from sfumato.attacks.carried_noise import CarriedNoise
from sfumato.attacks.observation import empty_cells
from sfumato.noise import Law


class HardInterval(Attack):
    """The adversary knows which released row is a person's and how far the noise can reach, and rules values out.

    Uniform noise on [a, b] added to x confines it to [z - b, z - a]; a factor between 1 and 3 confines a positive x to
    [z / 3, z]. Near the ends of the range little is left, and the interval can collapse to a point. This needs no
    population and no probability: what is ruled out is ruled out. Unbounded noise, and categories behind randomized
    response, rule nothing out; a column without noise leaves nothing open.
    """

    name = "hard-interval"
    knows = frozenset({"release", "noise", "images", "secret"})

    def guess(self, known: Knowledge) -> Guess:
        """An interval for the secret of every target."""
        assert known.noise is not None
        assert known.images is not None
        assert known.secret is not None
        if not known.columnwise:
            return Abstain("the release mixes columns: a component confines no single column")
        group = known.encoding.groups[known.secret]
        slots = range(group.start, group.stop)
        ends = [possible(known.release[known.images, slot], known.noise[slot]) for slot in slots]
        low, high = (np.column_stack([pair[side] for pair in ends]) for side in (0, 1))
        if group.has_indicator and isinstance(known.noise[group.stop - 1], Response):
            # A value shown may stand in for a missing one, which lies at the middle; an empty cell says nothing.
            low[:, 0], high[:, 0] = np.minimum(low[:, 0], 0.5), np.maximum(high[:, 0], 0.5)
            empty = empty_cells(known, known.release[known.images], group.start)
            low[empty, 0], high[empty, 0] = 0.0, 1.0
        return Bounds(low, high, known.secret)


def possible(z: Matrix, law: Law | Response | CarriedNoise | None) -> tuple[Matrix, Matrix]:
    """The least and the largest encoded value in [0, 1] that can have been released as z; all of it if none can."""
    if law is None:
        return np.clip(z, 0.0, 1.0), np.clip(z, 0.0, 1.0)
    if isinstance(law, CarriedNoise):
        return law.possible(z)
    nothing = np.zeros_like(z), np.ones_like(z)
    if isinstance(law, Response) or not all(math.isfinite(end) for end in law.support):
        return nothing
    first, last = law.support
    low, high = np.clip(z - last, 0.0, 1.0), np.clip(z - first, 0.0, 1.0)
    fits = (z - last <= 1.0) & (z - first >= 0.0)
    return np.where(fits, low, nothing[0]), np.where(fits, high, nothing[1])
