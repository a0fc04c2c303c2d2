"""The Bayes window on a card or another array library: what is believed of every column, in double precision.

The processor works in single precision, so that windows which hold nearly the same may change places. A row with such a
close call in any column is not settled: the caller asks the processor about it. The others get the processor's guess.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.array_types import Flags, Matrix
from sfumato.attacks.column_beliefs import ColumnBeliefs
from sfumato.attacks.device_likelihood import channel_log
from sfumato.attacks.device_window import device_window
from sfumato.attacks.support import Support
from sfumato.attacks.window import half_width
from sfumato.channels import Channel, Line
from sfumato.neighbours.arrays import Arrays
from sfumato.table import Group

NEARLY = 2e-5
"""Of a mass: what single precision may get wrong after sums over columns and people."""


class DeviceColumns:
    """`ColumnBeliefs` whose people lie on a device."""

    def __init__(self, arrays: Arrays, beliefs: ColumnBeliefs, tolerance: float) -> None:
        self.arrays, self.beliefs, self.tolerance = arrays, beliefs, tolerance
        self.ones = arrays.put(np.asarray(beliefs.placed.ones.toarray(), dtype=np.float64))
        self.log_prior = arrays.put(beliefs.placed.log_prior.astype(np.float64))
        self.smoothing = [arrays.put(S) for S in beliefs.smoothing]
        self.values = [arrays.put(np.ascontiguousarray(one.values)) for one in beliefs.supports]

    @property
    def bytes_of_a_row(self) -> int:
        """What one row takes while it is worked on."""
        people, places = self.ones.shape
        return 8 * (4 * int(people) + 8 * int(places))

    def guess(self, Z: Matrix, out: Matrix, mean: Matrix, sure: Matrix) -> Flags:
        """As `ColumnBeliefs.guess`; returns which rows are settled."""
        settled = np.ones(len(Z), dtype=bool)
        get = self.arrays.get
        for number, belief in enumerate(self._beliefs(Z)):
            group, channel, _ = self.beliefs.parts[number]
            where = group.slice
            found, certain, clear = self._best(belief, number, group)
            out[:, where], sure[:, number] = get(found), get(certain)
            mean[:, where] = get(belief @ self.values[number])
            if channel.is_exact:
                out[:, where], mean[:, where] = Z[:, where], Z[:, where]
            else:
                settled &= get(clear)
        return settled

    def _beliefs(self, Z: Matrix) -> list[Any]:
        xp, beliefs = self.arrays.namespace, self.beliefs
        parts = zip(beliefs.supports, beliefs.parts, strict=True)
        told = [
            _likelihood(self.arrays, support, channel, Z[:, group.slice], line)
            for support, (group, channel, line) in parts
        ]
        smoothed = [part @ S.T for part, S in zip(told, self.smoothing, strict=True)]
        log = xp.log(self.arrays.joined(smoothed)) @ self.ones.T + self.log_prior[None, :]
        log = xp.exp(log - xp.amax(log, axis=1)[:, None])
        at = (log / log.sum(axis=1)[:, None]) @ self.ones
        found, ends = [], beliefs.placed.ends.tolist()
        for number, (one, smooth) in enumerate(zip(told, smoothed, strict=True)):
            here = at[:, ends[number] : ends[number + 1]]
            belief = one * ((here / smooth) @ self.smoothing[number])
            total = belief.sum(axis=1)[:, None]
            found.append(belief / xp.where(total > 0, total, 1.0))
        return found

    def _best(self, belief: Any, number: int, group: Group) -> tuple[Any, Any, Any]:
        """As `column_beliefs.best_guess`, and where it is no close call."""
        xp, support, n = self.arrays.namespace, self.beliefs.supports[number], self.beliefs.supports[number].numbers
        if not n:
            best = xp.argmax(belief, axis=1)
            most = xp.amax(belief, axis=1)
            alone = (belief >= (most * (1.0 - NEARLY))[:, None]).sum(axis=1) == 1
            return self.values[number][best], most, alone
        half = half_width(group, self.tolerance)
        middle, mass, clear = device_window(self.arrays, support.line, belief[:, :n], half, support.extent, NEARLY)
        if not group.has_indicator:
            return middle[:, None], mass, clear
        chance = belief[:, n]
        missing = chance > mass
        clear = clear & (abs(chance - mass) > NEARLY * mass)
        pair = self.arrays.joined([xp.where(missing, 0.5, middle)[:, None], (missing * 1.0)[:, None]])
        return pair, xp.where(missing, chance, mass), clear


def _likelihood(arrays: Arrays, support: Support, channel: Channel, Z: Matrix, line: Line | None) -> Any:
    """As `Support.likelihood`."""
    if channel.is_exact:
        return arrays.put(support.likelihood(channel, Z, line))
    xp, log = arrays.namespace, None
    for values in support.looked_at(line):
        one = channel_log(arrays, channel, Z, values)
        log = one if log is None else xp.logaddexp(log, one)
    top = xp.amax(log, axis=1)
    nobody = ~np.isfinite(arrays.get(top))
    if nobody.any():  # rare, and the processor knows what to make of it
        return arrays.put(support.likelihood(channel, Z, line))
    return xp.exp(log - top[:, None])
