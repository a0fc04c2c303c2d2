"""The best window on a card or another array library, and where rounding could have chosen another."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.array_types import Matrix
from sfumato.attacks.window import AS_GOOD, window_ends
from sfumato.neighbours.arrays import Arrays


def device_window(
    arrays: Arrays, values: Matrix, mass: Any, half: float, extent: float, nearly: float
) -> tuple[Any, Any, Any]:
    """As `window.best_window`, and where no other window holds as much but for a share `nearly`."""
    xp = arrays.namespace
    last = window_ends(values, half, extent)
    total = xp.cumsum(mass, axis=1)
    held = total[:, arrays.put(last)] - total + mass
    middles = arrays.put(0.5 * (values + values[last]))
    most = xp.amax(held, axis=1)
    mean = mass @ arrays.put(values) / xp.where(total[:, -1] > 0, total[:, -1], 1e-300)
    away = xp.where(held >= (most * (1.0 - AS_GOOD))[:, None], abs(middles[None, :] - mean[:, None]), np.inf)
    clear = (held >= (most * (1.0 - nearly))[:, None]).sum(axis=1) == 1
    return middles[xp.argmin(away, axis=1)], most, clear
