"""The kernels that rows may be drawn from: each is a density, so that Eq. 12 of [kernel-resampling] holds.

A kernel of bandwidth h is a law of noise. h is half the width of a bounded kernel and the standard deviation of the
Gaussian one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from sfumato.noise import Biweight, Epanechnikov, Law, Normal, Triangular, Uniform


class Kernel(NamedTuple):
    """`law` of a bandwidth; R(K), the integral of K^2, and mu_2(K), the variance, both at h = 1."""

    law: Callable[[float], Law]
    roughness: float
    variance: float
    bounded: bool = True


KERNELS: dict[str, Kernel] = {
    "epanechnikov": Kernel(Epanechnikov, 3 / 5, 1 / 5),
    "gaussian": Kernel(Normal, 1 / (2 * math.sqrt(math.pi)), 1.0, bounded=False),
    "uniform": Kernel(lambda h: Uniform(low=-h, high=h), 1 / 2, 1 / 3),
    "triangular": Kernel(Triangular, 2 / 3, 1 / 6),
    "biweight": Kernel(Biweight, 5 / 7, 1 / 7),
}


def equal_smoothing(kernel: str, columns: int) -> float:
    """By how much a kernel must be wider than a Gaussian one to smooth as much in d columns.

    The best h^(d+4) is proportional to R(K)^d / mu_2(K)^2 (see `bandwidth`). For the Epanechnikov kernel this is
    (25 (6 sqrt(pi) / 5)^d)^(1/(d+4)): 2.214 for one column, 2.181 for four, 2.127 in the limit.
    """
    shape, normal = KERNELS[kernel], KERNELS["gaussian"]
    # by logarithms: a wide table would overflow the power
    rough = columns * math.log(shape.roughness / normal.roughness)
    return math.exp((rough - 2 * math.log(shape.variance)) / (columns + 4))


def as_spread_as_published(kernel: str) -> float:
    """h of a kernel that has the standard deviation of an Epanechnikov kernel of h = 1."""
    return math.sqrt(KERNELS["epanechnikov"].variance / KERNELS[kernel].variance)
