"""Width of the Parzen window by leave-one-out cross-validation [density-reconstruction, Eq. 5], from counts.

    E(s) = 1/N^2 sum_ij N(z_i; z_j, sqrt(2) s)  -  2 / (N (N - 1)) sum_{i != j} N(z_i; z_j, s)

Both sums are sums of a normal kernel over the autocorrelation of the sample. On g cells of width d, each value shared
between the two edges of its cell (linear binning), that costs one FFT: with C(w) the transform of the shared counts
(padded to a period P that no kernel reaches round), the sum over pairs i != j of a normal kernel of width s is

    1/P sum_w (|C(w)|^2 - S(w)) / sinc^4(w d / 2) exp(-w^2 s^2 / 2),   S(w) = N - 2 (1 - cos w d) sum_i t_i (1 - t_i).

S are the self-terms of values that lie t_i into their cell. Taking them out exactly matters at small widths, where
they would otherwise be smeared over a cell and spoil the criterion; the self-terms that Eq. 5 keeps are added in
closed form. sinc^4 is what sharing takes from a pair on average. Only frequencies up to about 8 / s count, so a width
costs O(range / s) and the whole search O(N + g log g).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.optimize import minimize_scalar

from sfumato.array_types import Floats
from sfumato.reconstruction.bins import Bins

_REACH = 8.0
_WIDEST = 1.5
"""Largest width that is tried, in standard deviations."""


class LeaveOneOut:
    """The criterion of Eq. 5 for one sample, as a function of the width."""

    def __init__(self, bins: Bins) -> None:
        # A transform is periodic: two values a whole range apart are neighbours round the end. With few values the best
        # width is of the size of the range, and a period of only twice the range made it up to 15% too small.
        self.finest = 2.0 * bins.step
        self.widest = max(_WIDEST * bins.spread(), 2.0 * self.finest)
        reach = 6.0 * math.sqrt(2.0) * self.widest
        size = int(next_fast_len(len(bins.counts) + 1 + math.ceil(reach / bins.step), real=True))
        self.n = int(bins.counts.sum())
        self.period = size * bins.step
        shared = np.zeros(len(bins.counts) + 1)
        shared[:-1] = bins.counts - bins.shift
        shared[1:] += bins.shift
        transform = rfft(shared, size)
        self.frequency: Floats = np.arange(float(len(transform))) * (2.0 * np.pi / self.period)
        angle = self.frequency * bins.step
        selves = self.n - 2.0 * (1.0 - np.cos(angle)) * bins.wobble
        power = transform.real**2 + transform.imag**2 - selves
        self.power: Floats = power / np.sinc(angle / (2.0 * np.pi)) ** 4
        self.power[1:] *= 2.0  # negative frequencies

    def pairs(self, width: float) -> float:
        """Sum of N(z_i; z_j, width) over i != j."""
        last = int(np.searchsorted(self.frequency, _REACH / width)) + 1
        exponent = self.frequency[:last] * (width / math.sqrt(2.0))
        exponent *= -exponent
        return float(self.power[:last] @ np.exp(exponent, out=exponent)) / self.period

    def __call__(self, width: float) -> float:
        """E_LOO."""
        return self._criterion(width, self.pairs(width), self.pairs(math.sqrt(2.0) * width))

    def _criterion(self, width: float, pairs: float, wide: float) -> float:
        n = self.n
        selves = n / (2.0 * width * math.sqrt(math.pi))
        return (wide + selves) / n**2 - 2.0 / (n * (n - 1)) * pairs

    def series(self, first: float, last: float) -> tuple[Floats, Floats]:
        """The criterion at widths from `first` to `last`; in steps of 2^(1/6) all sqrt(2) widths are there already."""
        count = max(6, math.ceil(6.0 * math.log2(last / first)))
        widths = first * 2.0 ** (np.arange(count + 4) / 6.0)
        pairs = [self.pairs(width) for width in widths]
        found = [self._criterion(widths[k], pairs[k], pairs[k + 3]) for k in range(count + 1)]
        return widths[: count + 1], np.array(found)


def leave_one_out_width(bins: Bins) -> float:
    """The width that minimises the criterion: the best of a geometric series, then refined.

    Never below two cells: tied values (a release that was rounded) would draw it to 0.
    """
    criterion = LeaveOneOut(bins)
    widths, values = criterion.series(criterion.finest, criterion.widest)
    best = int(np.argmin(values))
    around = widths[max(0, best - 1)], widths[min(len(widths) - 1, best + 1)]
    found = minimize_scalar(
        lambda log: criterion(math.exp(log)),
        bounds=(math.log(around[0]), math.log(around[1])),
        method="bounded",
        options={"xatol": 1e-5},
    )
    return float(math.exp(found.x))
