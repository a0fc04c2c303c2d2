"""How a release row comes about, as every adversary sees it, and how likely each person is behind it.

With a transform, z = A x + c + noise. Every channel has such a line (`Channel.line`). That of a number belongs to the
transform. That of categories and of "missing" depends on how frequent they are, and is put in where the mean is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.attacks.base import Knowledge, KnownNoise, Transform, promised
from sfumato.attacks.support import HERE, line_log, patterns, reported_mean
from sfumato.channels import Channel, apart, draw
from sfumato.core.array_types import Codes, Matrix
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.neighbours.nearest import chosen, in_blocks
from sfumato.table.neighbours.tiles import slices


class Observation(NamedTuple):
    """z = `matrix` x + `offset` + noise of covariance `noise`."""

    matrix: Matrix
    offset: Matrix
    noise: Matrix

    def reverse(self, Z: Matrix, centre: Matrix) -> Matrix:
        """Least squares solution of A x + c = z that is nearest to `centre`: centre + A^+ (z - c - A centre).

        Of a row that leaves cells out, from those that it reports.
        """
        found = np.empty((len(Z), self.matrix.shape[1]))
        for rows, columns in patterns(Z):
            part = self.of(columns)
            shown = Z[np.ix_(rows, columns)]
            found[rows] = centre + (shown - part.offset - part.matrix @ centre) @ part.inverse.T
        return found

    def of(self, columns: Codes) -> Observation:
        """Of some release columns alone."""
        if len(columns) == len(self.offset):
            return self
        return Observation(self.matrix[columns], self.offset[columns], self.noise[np.ix_(columns, columns)])

    @property
    def inverse(self) -> Matrix:
        """A^+."""
        return np.asarray(np.linalg.pinv(self.matrix, rcond=1e-10))


def transform_of(known: Knowledge) -> Transform:
    """The transform, or the identity for a column-wise release that came without one."""
    return known.transform or Transform.identity(known.release.shape[1])


def observe(known: Knowledge, mean: Matrix, transform: Transform | None = None) -> Observation:
    """The model of a release whose source columns have this `mean`; reads `noise` and `noise_covariance`.

    The transform is the one given, else the known one. It speaks of numbers; what the channels make of categories and
    of "missing" depends on how frequent they are.
    """
    matrix, offset = (np.array(part, dtype=np.float64) for part in transform or transform_of(known))
    s = len(offset)
    noise = np.zeros((s, s)) if known.noise_covariance is None else np.array(known.noise_covariance, dtype=np.float64)
    noise = np.nan_to_num(noise, posinf=1e6)  # heavy tails without a variance: a linear estimate can do nothing
    if known.noise is not None and known.columnwise:
        for place, channel in zip(known.noise.places, known.noise.channels, strict=True):
            first, slots = channel.numbers, slice(place.start + channel.numbers, place.stop)
            if first < channel.width and not channel.is_exact:  # answered at random
                gain, added, covariance = channel.line(mean[None, place])
                matrix[slots] = gain[first:, first:] @ matrix[slots]
                offset[slots] = gain[first:, first:] @ offset[slots] + added[first:]
                noise[slots, slots] = covariance[first:, first:]
    return Observation(matrix, offset, noise)


def own_columns(known: Knowledge) -> Transform:
    """The map of a column-wise release as its noise tells it: every number's line in the population; reads `noise`."""
    plain = Transform.identity(known.release.shape[1])
    return plain if known.noise is None else known.noise.on_average(*plain)


def observed_with_mean(known: Knowledge, use_moments: bool = True) -> tuple[Observation, Matrix]:
    """The model of the release, and the mean of the source columns: known, or read off the release.

    Two steps in the second case: the gain gives the mean, and the mean gives the spread of randomized response.
    """
    if use_moments and known.column_moments is not None:
        mean = known.column_moments.mean
    else:
        mean = into_domain(centre_of(known, observe(known, np.zeros(transform_of(known).matrix.shape[1]))))
    return observe(known, mean), mean


def centre_of(known: Knowledge, model: Observation) -> Matrix:
    """Where the source rows lie on average, read off the release: the shortest correction to the middle of the cube."""
    middle = np.full(model.matrix.shape[1], 0.5)
    gap = reported_mean(known.release) - model.offset - model.matrix @ middle
    return np.asarray(middle + model.inverse @ gap)


def reversed_release(known: Knowledge) -> Matrix:
    """The release with its transform turned back (n x d), unclipped; reads `transform` and `column_moments`."""
    matrix, offset = transform_of(known)
    model = Observation(matrix, offset, np.zeros((len(offset),) * 2))
    centre = centre_of(known, model) if known.column_moments is None else known.column_moments.mean
    return model.reverse(known.release, centre)


def noise_weights(known: Knowledge, floor: float = 0.01) -> Matrix:
    """One over the noise's standard deviation per release column: how much a difference in that column says.

    `floor` stands for the noise of an exact column, which would otherwise silence all the others. Without noise, or
    when nothing is known of it, all columns weigh the same. Reads `transform`, `noise` and `noise_covariance`.
    """
    mean = into_domain(reported_mean(known.release)) if known.columnwise else np.zeros(known.encoding.width)
    variance = np.diag(observe(known, mean).noise)
    return np.asarray(1.0 / np.sqrt(np.maximum(variance, floor**2)))


def into_domain(X: Matrix) -> Matrix:
    """Clipped to the unit cube: every encoded source value lies there, and the adversary knows it."""
    return np.clip(X, 0.0, 1.0)


def covariance_of(X: Matrix) -> Matrix:
    """Covariance of the columns, d x d also for one column and all zero for one row; over the rows that report both."""
    if len(X) < 2:
        return np.zeros((X.shape[1],) * 2)
    there = ~np.isnan(X)
    if there.all():
        return np.atleast_2d(np.cov(X, rowvar=False))
    centred, pairs = np.where(there, X - reported_mean(X), 0.0), there.astype(np.float64)
    return np.asarray(centred.T @ centred / np.maximum(pairs.T @ pairs - 1.0, 1.0))


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


EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""


def log_likelihood(
    known: Knowledge, Z: Matrix, people: Suspects, noise: KnownNoise | None = None, exact_width: float = EXACT_WIDTH
) -> Matrix:
    """log f(z_i | person j), len(Z) x people, up to a constant per row: the sum over all channels.

    A column without noise has a normal kernel of width `exact_width` instead: the adversary's list of people is finite,
    so that no one on it fits exactly. `noise`: that of one class, where classes differ.
    """
    white, given, own, added = _summands(known, people, exact_width, noise)
    Z, total = white(Z), np.zeros((len(Z), len(people.E)))
    for place, channel in own:
        total += channel.log_likelihood(Z[:, place], given[:, place])
    total -= _distances(Z, given, added["cityblock"], "cityblock")
    return np.asarray(total - 0.5 * _distances(Z, given, added["sqeuclidean"], "sqeuclidean"))


def _summands(
    known: Knowledge, people: Suspects, exact_width: float, noise: KnownNoise | None
) -> tuple[Callable[[Matrix], Matrix], Matrix, list[tuple[slice, Channel]], dict[str, dict[int, float]]]:
    """What adds up to a log-likelihood: how rows are prepared, what the channels are given, the channels that are asked
    one by one, and of the others, whose laws are distances, the width of each column by the metric."""
    noise = noise or promised(known.noise)
    added: dict[str, dict[int, float]] = {"cityblock": {}, "sqeuclidean": {}}
    shared, own = apart(noise.channels), []
    for place, channel in zip(noise.places, noise.channels if shared is None else shared.channels, strict=True):
        metric = ("sqeuclidean", exact_width) if channel.is_exact else channel.metric
        if metric is None:
            own.append((place, channel.blurred(exact_width)))
        else:
            added[metric[0]].update(dict.fromkeys(range(place.start, place.stop), metric[1]))
    if shared is None:
        return np.asarray, people.given, own, added
    return shared.white, shared.white(people.given), own, added


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


def blocks(rows: int, others: int, cells: int = 200_000) -> list[slice]:
    """Slices of `rows` such that a block against all `others` has about `cells` cells."""
    return slices(rows, max(1, cells // max(others, 1)))


def left_by_device(count: int, bytes_of_a_row: int, work: Callable[[Codes, Arrays], Any]) -> Codes:
    """Let `work` do the rows 0 .. count on a device, if one is chosen; returns the rows that it did not settle."""
    device = chosen()
    if device is None:
        return np.arange(count)
    arrays, memory = device
    settled = np.zeros(count, dtype=bool)

    def in_part(block: slice, _: int) -> None:
        settled[block] = work(np.arange(block.start, block.stop), arrays)

    in_blocks(arrays, count, bytes_of_a_row, memory, in_part)
    return np.flatnonzero(~settled)


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


def device_law(arrays: Arrays, known: Knowledge, people: Suspects, noise: KnownNoise) -> Term:
    """log f(z_i | person j) as `log_likelihood` has it, for the same people and many blocks of rows."""
    white, given, own, added = _summands(known, people, EXACT_WIDTH, noise)
    terms = [_term(arrays, channel, place, given[:, place]) for place, channel in own]
    terms += [_distance_term(arrays, given, scales, metric) for metric, scales in added.items() if scales]

    def law(Z: Matrix) -> Any:
        Z = white(Z)
        total = arrays.put(np.zeros((len(Z), len(people.E))))
        for term in terms:
            total += term(Z)
        return total

    return law


def _distance_term(arrays: Arrays, given: Matrix, scales: dict[int, float], metric: str) -> Term:
    """All columns whose laws are distances by one metric."""
    columns, widths = list(scales), np.array(list(scales.values()))
    people = arrays.put(np.ascontiguousarray((given[:, columns] / widths).T))

    def term(Z: Matrix) -> Any:
        rows = arrays.put(np.ascontiguousarray((Z[:, columns] / widths).T))
        total: Any = 0.0
        for row, person in zip(rows, people, strict=True):
            apart = row[:, None] - person[None, :]
            total = total - (0.5 * apart * apart if metric == "sqeuclidean" else abs(apart))
        return total

    return term


Visit = Callable[[slice, Any, Arrays], None]
"""Takes a block of rows, the log-likelihoods of everybody, and what the matrix lies on."""


def visit_likelihoods(
    known: Knowledge, rows: Codes, people: Suspects, noise: KnownNoise, prior: Matrix, visit: Visit
) -> None:
    """log f(z | person) + `prior` of these release rows, block by block; on the device where one is chosen.

    A block that does not fit a device is visited again in parts.
    """
    device = chosen()
    if device is None:
        for block in blocks(len(rows), len(prior)):
            log = log_likelihood(known, known.release[rows[block]], people, noise)
            visit(block, log + prior, HERE)
        return
    arrays, memory = device
    law, there = device_law(arrays, known, people, noise), arrays.put(prior)

    def work(block: slice, _: int) -> None:
        visit(block, law(known.release[rows[block]]) + there[None, :], arrays)

    in_blocks(arrays, len(rows), BYTES_OF_A_PAIR * len(prior), memory, work)


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


def first_of_largest(arrays: Arrays, log: Any, axis: int) -> tuple[Any, Any]:
    """Along an axis the largest log-likelihood, and the first place that equals it up to rounding."""
    top = arrays.namespace.amax(log, axis=axis, keepdims=True)
    return arrays.first(log >= below(top), axis), top.squeeze(axis)


def below(top: Any) -> Any:
    """The least log-likelihood that equals this one up to rounding."""
    return top - CLOSE * (abs(top) + LEAST_SIZE)
