"""Likelihoods on a card or another array library, in double precision: the sums of `likelihood`, in the same order.

Sums of the same terms differ by rounding alone. So that this never decides, on a device or on the processor,
likelihoods within rounding of the largest count as equal to it, and the first of them is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.array_types import Matrix
from sfumato.attacks.base import Knowledge, KnownNoise
from sfumato.attacks.likelihood import Suspects
from sfumato.channels import Channel, OnLine, apart
from sfumato.neighbours.arrays import Arrays

CLOSE, LEAST_SIZE = 1e-12, 1e3
"""Log-likelihoods that differ by no more are equal, as a share of the largest: a thousand times the rounding of such
sums. Terms may cancel, so that no sum counts as smaller than a thousand."""
FEW_VALUES = 2_000
"""Up to so many different truths a channel is asked about each once, and people share the answers."""
BYTES_OF_A_PAIR = 48
"""Of a released row and a person: the sum, a term, and what a reduction makes of them."""

Term = Callable[[Matrix], Any]
"""What some columns of released rows add to the log-likelihoods of everybody."""


class DeviceLikelihood:
    """log f(z_i | person j) as `likelihood.log_likelihood` has it, for the same people and many blocks of rows."""

    def __init__(
        self, arrays: Arrays, known: Knowledge, people: Suspects, exact_width: float, noise: KnownNoise | None = None
    ) -> None:
        self.arrays, self.count = arrays, len(people.E)
        self.white: Callable[[Matrix], Matrix] = lambda Z: Z
        self.terms: list[Term] = []
        noise = known.noise if noise is None else noise
        if noise is None:
            self._add_distances(people.E, dict.fromkeys(range(people.E.shape[1]), exact_width), "sqeuclidean")
            return
        given, channels = people.given, noise.channels
        if (shared := apart(channels)) is not None:
            self.white, given, channels = shared.white, shared.white(given), shared.channels
        added: dict[str, dict[int, float]] = {"cityblock": {}, "sqeuclidean": {}}
        for place, channel in zip(noise.places, channels, strict=True):
            metric = ("sqeuclidean", exact_width) if channel.is_exact else channel.metric
            if metric is None:
                self.terms.append(_term(arrays, channel.blurred(exact_width), place, given[:, place]))
            else:
                added[metric[0]].update(dict.fromkeys(range(place.start, place.stop), metric[1]))
        for name, scales in added.items():
            self._add_distances(given, scales, name)

    def of(self, Z: Matrix) -> Any:
        """The matrix of these rows, on the device."""
        Z = self.white(Z)
        total = self.arrays.put(np.zeros((len(Z), self.count)))
        for term in self.terms:
            total += term(Z)
        return total

    def _add_distances(self, given: Matrix, scales: dict[int, float], metric: str) -> None:
        if not scales:
            return
        arrays, columns, widths = self.arrays, list(scales), np.array(list(scales.values()))
        people = arrays.put(np.ascontiguousarray((given[:, columns] / widths).T))

        def term(Z: Matrix) -> Any:
            rows = arrays.put(np.ascontiguousarray((Z[:, columns] / widths).T))
            total: Any = 0.0
            for row, person in zip(rows, people, strict=True):
                apart = row[:, None] - person[None, :]
                total = total - (0.5 * apart * apart if metric == "sqeuclidean" else abs(apart))
            return total

        self.terms.append(term)


def _term(arrays: Arrays, channel: Channel, place: slice, given: Matrix) -> Term:
    """One channel: by its law of a distance, by the few truths there are, or computed by the processor."""
    if channel.on_line(given[:0], given[:0]) is not None:
        line = channel.on_line(given[:0], given)
        assert line is not None
        people = arrays.put(np.ascontiguousarray(line.given, dtype=np.float64))

        def by_distance(Z: Matrix) -> Any:
            mine = channel.on_line(Z[:, place], given[:0])
            assert mine is not None
            return line_log(arrays, mine, people)

        return by_distance
    values, which = np.unique(given, axis=0, return_inverse=True)
    if len(values) > FEW_VALUES:
        return lambda Z: arrays.put(channel.log_likelihood(Z[:, place], given))
    code = arrays.put(which.reshape(-1))
    return lambda Z: arrays.put(channel.log_likelihood(Z[:, place], values))[:, code]


def line_log(arrays: Arrays, line: OnLine, given: Any) -> Any:
    """Log-likelihoods of all places `given` (on the device) for every place that was seen."""
    xp = arrays.namespace
    seen = arrays.put(np.ascontiguousarray(line.seen, dtype=np.float64))[:, None]
    # Numbers go there as arrays: those that PyTorch makes of them itself would be single.
    high, low, silent, never = (arrays.put(np.array([value])) for value in (line.high, line.low, line.silent, -np.inf))
    apart = abs(seen - given[None, :])
    if line.law == "laplace":
        found = line.high - apart / line.scale
    elif line.law == "normal":
        apart = apart / line.scale
        found = line.high - 0.5 * apart * apart
    else:
        found = xp.where(apart <= line.scale, high, low)
    found = xp.where(seen == seen, found, never)
    return xp.where(xp.isinf(seen), silent, found) if np.isinf(line.seen).any() else found


def first_of_largest(arrays: Arrays, log: Any, axis: int) -> tuple[Any, Any]:
    """Along an axis the largest log-likelihood, and the first place that equals it up to rounding."""
    top = arrays.namespace.amax(log, axis=axis, keepdims=True)
    return arrays.first(log >= below(top), axis), top.squeeze(axis)


def below(top: Any) -> Any:
    """The least log-likelihood that equals this one up to rounding."""
    return top - CLOSE * (abs(top) + LEAST_SIZE)


def channel_log(arrays: Arrays, channel: Channel, Z: Matrix, values: Matrix) -> Any:
    """log f(z_i | value j) of one channel, rows x values, on the device."""
    line = channel.on_line(Z, values)
    if line is None:
        return arrays.put(channel.log_likelihood(Z, values))
    return line_log(arrays, line, arrays.put(np.ascontiguousarray(line.given, dtype=np.float64)))
