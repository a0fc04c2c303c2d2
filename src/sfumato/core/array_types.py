"""Names for the arrays that everything here is made of: what they hold, whatever their shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
"""Numbers, usually rows x columns."""
Floats = NDArray[np.float64]
"""Numbers in any other shape."""
Codes = NDArray[np.int64]
"""Whole numbers: codes of classes and categories, positions of rows, counts."""
Flags = NDArray[np.bool_]
"""Yes or no."""
Bits = NDArray[np.uint8]
"""Zeros and ones as they are sent."""
Hashes = NDArray[np.bytes_]
"""One 16-byte word per row; they compare and sort like their bytes."""
