"""Laplace variables in floating point, by inversion: one random word each, and steps that run through whole arrays."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Floats
from sfumato.noise.grid import Shape, random_words

_TILE = 1 << 16
"""Draws that are made at a time: few enough for the cache, and so many that threads seldom wait for the interpreter."""


def standard_laplace(rng: np.random.Generator, shape: Shape) -> Floats:
    """Draws of density exp(-|z|) / 2: the logarithm of a uniform variable, with a random sign.

    A word with its last bit set is an odd number of 64 bits with a sign, and -2^63 < w < 2^63. Its size over 2^63 is
    uniform on the middles of 2^62 equal cells of (0, 1), never 0, and its sign is independent of that. Values up to
    63 log 2 = 43.7 occur; a Laplace variable exceeds that once in 2^63.
    """
    noise = np.empty(shape)
    flat = noise.reshape(-1)
    size = np.empty(min(_TILE, flat.size))
    for start in range(0, flat.size, _TILE):
        signed = flat[start : start + _TILE]
        part = size[: signed.size]
        words = random_words(rng, signed.size).view(np.int64)
        words |= 1
        np.copyto(signed, words)
        np.abs(signed, out=part)
        part *= 2.0**-63
        np.log(part, out=part)
        np.copysign(part, signed, out=signed)
    return noise
