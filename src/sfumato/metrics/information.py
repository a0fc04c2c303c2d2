"""How much noise hides of a column on average, and how much reconstruction loses."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def half_distance(first: ArrayLike, second: ArrayLike) -> float:
    """Half the L1 distance of two distributions on the same cells, from 0 to 1; lower is better for use [Eq. 20]."""
    return 0.5 * float(np.sum(np.abs(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))))
