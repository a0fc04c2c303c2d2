"""What the adversary is taken to know of the noise: the card's word, or an estimate in the adversary's favour."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.array_types import Matrix
from sfumato.attacks import KnownNoise
from sfumato.channels import Additive, Channel, Exact, OrMissing, RandomizedResponse, Sampled
from sfumato.jobs.auditing.generalised import Generalised, Sets
from sfumato.noise import make_law
from sfumato.table import Encoding, Group

NOTHING = 1e-12


def known_noise(
    channels: tuple[Channel, ...] | None,
    encoding: Encoding,
    Z: Matrix,
    people: Matrix,
    truth: Matrix | None,
    given: Matrix,
    by_class: Mapping[int, tuple[Channel, ...]] | None = None,
    sets: Mapping[int, Sets] | None = None,
) -> KnownNoise:
    """The stated channels, an estimate in the place of each that is not stated; None: nobody states any.

    sets: of the columns whose cells were generalised, by the number of their group.

    `given`: what the channels are given for people like those in the table. How far an operator other than addition
    moves a value depends on the value. `by_class`: the channels of classes that have their own.
    """
    if channels is not None and all(channel.is_stated for channel in channels):
        return KnownNoise.of(channels, given, by_class)
    if channels is None:
        channels = tuple(
            _estimated(group, Z, people, truth)
            if number not in (sets or {})
            else _generalised(group, Z, people, truth, (sets or {})[number])
            for number, group in enumerate(encoding.groups)
        )
    else:
        channels = tuple(
            channel if channel.is_stated else _in_place_of(channel, _estimated(group, Z, people, truth))
            for channel, group in zip(channels, encoding.groups, strict=True)
        )
    return KnownNoise.of(channels, given)


def _generalised(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None, sets: Sets) -> Channel:
    """The sets' own likelihood, and an estimate of what was done to the cells that hold a single value."""
    alone = sets.index < 0
    changed = _estimated(group, Z, people, truth)
    single = _estimated(group, Z[alone], people, None if truth is None else truth[alone]) if alone.any() else changed
    points = np.full((len(sets.low), group.width), np.inf)
    for number in np.unique(sets.index[~alone]):
        points[number] = Z[np.flatnonzero(sets.index == number)[0], group.slice]
    return Generalised(changed, single, sets, points)


def _in_place_of(stated: Channel, estimate: Channel) -> Channel:
    """How many rows report the column is stated even where nothing else is."""
    return Sampled(estimate, stated.reported) if stated.leaves_out else estimate


def _estimated(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None) -> Channel:
    """Of a column whose maker does not tell, or which was rounded and clipped afterwards.

    The adversary is taken to know how strong the change is (Kerckhoffs): normal with the variance of released minus
    original values where it is known which row is whose, else with max(0, var(release) - var(original)); categories as
    randomized response with the share that was kept. A column that was not changed at all is exact.
    """
    slots = group.slice
    if truth is not None:
        somebodys = ~np.isnan(truth[:, group.start])
        Z, truth = Z[somebodys], truth[somebodys]
    if group.is_onehot:
        told = ~np.isnan(Z[:, group.start])
        if truth is None or not told.any():
            return Exact(group.width)
        same = Z[told, slots].argmax(axis=1) == truth[told, slots].argmax(axis=1)
        return _response(float(same.mean()), group.width)
    variance = _variance(group, Z, people, truth)
    law = make_law("normal", scale=float(np.sqrt(variance))) if variance > NOTHING else None
    value: Channel = Exact() if law is None else Additive(law)
    if not group.has_indicator:
        return value
    if truth is None:
        return OrMissing(value, 1.0)
    same = (Z[:, group.stop - 1] > 0.5) == (truth[:, group.stop - 1] > 0.5)
    return OrMissing(value, _kept(float(same.mean())))


def _variance(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None) -> float:
    released, original = _present(group, Z), _present(group, people)
    if truth is None:
        after, before = Z[released, group.start], people[original, group.start]
        return float(max(0.0, after.var() - before.var())) if len(after) and len(before) else 0.0
    both = released & _present(group, truth)
    return float(np.var(Z[both, group.start] - truth[both, group.start])) if both.any() else 0.0


def _present(group: Group, X: Matrix) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    there = ~np.isnan(X[:, group.start])
    return np.asarray(there & (X[:, group.stop - 1] < 0.5) if group.has_indicator else there)


def _response(keep: float, categories: int) -> Channel:
    return Exact(categories) if categories < 2 or keep >= 1.0 else RandomizedResponse(_kept(keep), categories)


def _kept(share: float) -> float:
    """A share that was never kept is still a probability."""
    return min(1.0, max(share, 1e-9))
