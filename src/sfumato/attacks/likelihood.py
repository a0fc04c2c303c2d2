"""How likely each person is behind each release row, under the known noise law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.attacks.base import Knowledge, KnownNoise
from sfumato.attacks.observation import own_columns, transform_of
from sfumato.channels import Channel, OnLine, apart, draw
from sfumato.core.array_types import Matrix
from sfumato.table.neighbours.arrays import Arrays


def embed(known: Knowledge, X: Matrix) -> Matrix:
    """Where the source rows X would lie in the release on average: A x + c, or their own numbers' lines."""
    matrix, offset = own_columns(known) if known.transform is None and known.columnwise else transform_of(known)
    return np.asarray(X @ matrix.T + offset)


def released(known: Knowledge, noise: KnownNoise, X: Matrix, rng: np.random.Generator) -> Matrix:
    """Source rows X released anew under these channels: each goes the way that the map chooses, where it chooses."""
    chosen = None if known.guided is None else known.guided.perturb(noise.channels, X, rng)
    return draw(noise.channels, np.array(Suspects.of(known, X).given), rng) if chosen is None else chosen


class Suspects(NamedTuple):
    """People who may be behind a release row: encoded source rows `X`, `E`, where they would lie on average, and
    `given`, what the channels would be given for them."""

    X: Matrix
    E: Matrix
    given: Matrix

    @classmethod
    def of(cls, known: Knowledge, X: Matrix) -> Suspects:
        if known.guided is not None:
            return cls(X, X, known.guided.apply(X))
        E = embed(known, X)
        if known.columnwise:
            return cls(X, E, X)
        return cls(X, E, E if known.noise is None else known.noise.before(E))


def log_likelihood(
    known: Knowledge, Z: Matrix, people: Suspects, exact_width: float, noise: KnownNoise | None = None
) -> Matrix:
    """log f(z_i | person j), len(Z) x people, up to a constant per row: the sum over all channels.

    A column without noise has a normal kernel of width `exact_width` instead: the adversary's list of people is finite,
    so that no one on it fits exactly. Without any knowledge of the noise all columns are taken so. `noise`: that of one
    class, where classes differ.
    """
    total = np.zeros((len(Z), len(people.E)))
    noise = known.noise if noise is None else noise
    if noise is None:
        return total - 0.5 * _distances(Z, people.E, dict.fromkeys(range(Z.shape[1]), exact_width), "sqeuclidean")
    given, channels = people.given, noise.channels
    if (shared := apart(channels)) is not None:
        Z, given, channels = shared.white(Z), shared.white(given), shared.channels
    # Some laws are distances, which scipy adds up without a matrix per column.
    added: dict[str, dict[int, float]] = {"cityblock": {}, "sqeuclidean": {}}
    for place, channel in zip(noise.places, channels, strict=True):
        metric = ("sqeuclidean", exact_width) if channel.is_exact else channel.metric
        if metric is None:
            total += channel.blurred(exact_width).log_likelihood(Z[:, place], given[:, place])
        else:
            added[metric[0]].update(dict.fromkeys(range(place.start, place.stop), metric[1]))
    total -= _distances(Z, given, added["cityblock"], "cityblock")
    return np.asarray(total - 0.5 * _distances(Z, given, added["sqeuclidean"], "sqeuclidean"))


def _distances(Z: Matrix, E: Matrix, scales: dict[int, float], metric: str) -> Matrix:
    if not scales:
        return np.zeros((len(Z), len(E)))
    columns, widths = list(scales), np.array(list(scales.values()))
    return np.asarray(cdist(Z[:, columns] / widths, E[:, columns] / widths, metric))


def normalised(log_weights: Matrix) -> Matrix:
    """Each row's weights made to sum to 1; a row of -inf (no one is possible) gives NaN, for the caller to decide."""
    top = log_weights.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        weights = np.exp(log_weights - top)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def blocks(rows: int, others: int, cells: int = 200_000) -> Iterator[slice]:
    """Slices of `rows` such that a block against all `others` has about `cells` cells."""
    step = max(1, cells // max(others, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


# Likelihoods on a card or another array library, in double precision: the sums of `likelihood`, in the same order.
#
# Sums of the same terms differ by rounding alone. So that this never decides, on a device or on the processor,
# likelihoods within rounding of the largest count as equal to it, and the first of them is taken.


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
