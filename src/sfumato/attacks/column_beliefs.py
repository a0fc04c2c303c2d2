"""What is believed of every column of a release that keeps the source's columns: exact for smoothed people."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sfumato.attacks.base import KnownNoise
from sfumato.attacks.like_people import Likely, Placed
from sfumato.attacks.support import HERE, Support, best_window, half_width
from sfumato.channels import Channel, Exact, Line, NotApplicableError, draw
from sfumato.channels.maps import carried_groups
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.table import Encoding, Group
from sfumato.table.neighbours.arrays import Arrays

NEARLY = 2e-5
"""How far a probability may be off in single precision, after sums over columns and people."""
LEAST = 1e-6
"""No belief is held to be smaller, so that one person of whom it is does not decide."""


class Beliefs(ABC):
    """What is believed of rows of one released class, by people `X` who stand for the population."""

    noise: KnownNoise
    X: Matrix
    groups: Sequence[Group]
    supports: list[Support]
    placed: Placed
    smoothing: list[Matrix]
    seen: list[tuple[slice, Channel, Line | None]]
    """Which columns of the release tell of each support, and their channel."""
    device: Arrays | None = None
    """Where beliefs are computed, if not by the processor."""

    @abstractmethod
    def smooth(self, share: float) -> None:
        """Let people stand for others like them: a share of the spread of all."""

    def told(self, Z: Matrix) -> list[Any]:
        """What the channels say of every column's values, given these rows."""
        parts = zip(self.supports, self.seen, strict=True)
        found = [one.likelihood(channel, Z[:, place], line, self.device) for one, (place, channel, line) in parts]
        return found if self.device else [one.astype(np.float32) for one in found]

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released as the channels would."""
        return draw(self.noise.channels, np.array(self.X[own]), rng)

    def _beliefs(self, Z: Matrix, without: Codes | None = None) -> list[Any]:
        """Per column rows x values; `without`: of each row the person who is left out."""
        return self.placed.believed(self.told(Z), self.smoothing, without)

    def _places(self, X: Matrix) -> list[Codes]:
        """Where people lie in the supports of the source columns."""
        return [one.places(X[:, group.slice]) for one, group in zip(self.supports, self.groups, strict=True)]

    def fit(self, Z: Matrix, own: Codes) -> float:
        """How much is believed of the truth behind simulated rows, in logarithms, by a list without these people."""
        pairs = zip(self._beliefs(Z, own), self._places(self.X[own]), strict=True)
        return float(np.log(np.maximum([belief[np.arange(len(Z)), at] for belief, at in pairs], LEAST)).sum())

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> Flags:
        """Fill `out` with the best guesses, `mean` with posterior means, `sure` with how sure each guess is.

        Returns which rows are settled: on the processor all of them.
        """
        settled, arrays = np.ones(len(Z), dtype=bool), self.device or HERE
        parts = zip(self._beliefs(Z), self.supports, self.groups, strict=True)
        for number, (belief, support, group) in enumerate(parts):
            where = group.slice
            found, chance, clear = best_guess(belief, support, group, tolerance, self.device)
            out[:, where], sure[:, number] = arrays.get(found), arrays.get(chance)
            mean[:, where] = arrays.get(belief @ arrays.put(support.values))
            if self.copied(number):
                out[:, where], mean[:, where] = Z[:, where], Z[:, where]
            elif clear is not None:
                settled &= arrays.get(clear)
        return settled

    def copied(self, number: int) -> bool:  # noqa: ARG002 (a subclass looks at it)
        """Whether a column was released as it is, so that there is nothing to guess."""
        return False


class ColumnBeliefs(Beliefs):
    """People of one class, smoothed by `smooth` of each column's spread among them, behind known channels."""

    def __init__(self, noise: KnownNoise, encoding: Encoding, people: Likely, cells: int) -> None:
        self.noise, self.X = noise, people.X
        self.parts = channels_of_groups(noise, encoding)
        self.groups = [group for group, _, _ in self.parts]
        self.seen = [(group.slice, channel, line) for group, channel, line in self.parts]
        self.supports = [Support.of_group(group, cells) for group in self.groups]
        self.spreads = [float(people.X[:, group.start].std()) for group in self.groups]
        self.placed = Placed.of(self._places(people.X), [len(one.values) for one in self.supports], people.log_prior)

    def smooth(self, share: float) -> None:
        pairs = zip(self.supports, self.spreads, strict=True)
        self.smoothing = [support.smoothing(share * spread, 0.5 * share) for support, spread in pairs]

    def copied(self, number: int) -> bool:
        return self.parts[number][1].is_exact

    def on(self, device: Arrays) -> ColumnBeliefs:
        """The same on a card or another array library, in double precision.

        The processor works in single precision, so that windows which hold nearly the same may change places. A row
        with such a close call in any column is not settled: the caller asks the processor about it.
        """
        there = copy.copy(self)
        there.device, there.placed = device, self.placed.on(device)
        there.smoothing = [device.put(S) for S in self.smoothing]
        return there


def best_guess(
    belief: Any, support: Support, group: Group, tolerance: float, device: Arrays | None = None
) -> tuple[Any, Any, Any]:
    """Per row of `belief` the encoded value that is right with the highest probability, and that probability.

    On a device also where it is no close call.
    """
    arrays, n, nearly = device or HERE, support.numbers, NEARLY if device else 0.0
    xp, clear = arrays.namespace, None
    if not n:
        most = xp.amax(belief, axis=1)
        if device:
            clear = (belief >= (most * (1.0 - NEARLY))[:, None]).sum(axis=1) == 1
        return arrays.put(support.values)[xp.argmax(belief, axis=1)], most, clear
    half = half_width(group, tolerance)
    middle, mass, clear = best_window(support.line, belief[:, :n], half, support.extent, arrays, nearly)
    if not group.has_indicator:
        return middle[:, None], mass, clear
    chance = belief[:, n]
    missing = chance > mass
    if device:
        clear = clear & (abs(chance - mass) > NEARLY * mass)
    pair = arrays.joined([xp.where(missing, 0.5, middle)[:, None], (missing * 1.0)[:, None]])
    return pair, xp.where(missing, chance, mass), clear


def channels_of_groups(noise: KnownNoise, encoding: Encoding) -> list[tuple[Group, Channel, Line | None]]:
    """Every source column with the channel that carries it alone."""
    found: list[tuple[Group, Channel, Line | None]] = []
    for (channel, groups), line in zip(carried_groups(noise.channels, encoding), noise.lines, strict=True):
        if len(groups) == 1:
            found.append((groups[0], channel, line))
        elif channel.is_exact:
            found += [(group, Exact(group.width), None) for group in groups]
        else:
            raise NotApplicableError("some columns of the release were blurred together, not one by one")
    return found


TINY = 1e-300


class JointBeliefs(ColumnBeliefs):
    """Rows are those of the first release with those of the second beside them: [Z1 | Z2].

    `translate` says how people's rows look to the second release, which may have other columns and bounds: an encoded
    row of the first becomes one of the second, where columns that the first lacks are anything. Without `first_tells`
    only the second release is listened to: what it says alone, about the same columns and with the same prior.
    """

    def __init__(
        self,
        noises: tuple[KnownNoise, KnownNoise],
        encodings: tuple[Encoding, Encoding],
        people: Likely,
        cells: int,
        translate: Callable[[Matrix], Matrix],
        first_tells: bool = True,
    ) -> None:
        first, second = encodings
        self.first_tells = first_tells
        super().__init__(noises[0], first, people, cells)
        self.width, self.translate = first.width, translate
        self.other = ColumnBeliefs(noises[1], second, people._replace(X=translate(people.X)), cells)
        theirs = {group.column.name: number for number, (group, _, _) in enumerate(self.other.parts)}
        middle = np.concatenate([group.vertices.mean(axis=0) for group in first.groups])
        self.same: dict[int, tuple[int, Codes]] = {}
        for number, (group, _, _) in enumerate(self.parts):
            if group.column.name in theirs:
                rows = np.tile(middle, (len(self.supports[number].values), 1))
                rows[:, group.slice] = self.supports[number].values
                place = theirs[group.column.name]
                seen = translate(rows)[:, self.other.parts[place][0].slice]
                self.same[number] = place, self.other.supports[place].places(seen)

    def told(self, Z: Matrix) -> list[Any]:
        """What both channels say of every column's values."""
        found, others = super().told(Z[:, : self.width]), self.other.told(Z[:, self.width :])
        if not self.first_tells:
            found = [np.ones_like(one) for one in found]
        for number, (place, values) in self.same.items():
            found[number] = found[number] * others[place][:, values]
        return found

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released twice."""
        return np.hstack([super().simulated(own, rng), self.other.simulated(own, rng)])

    def copied(self, number: int) -> bool:
        """Only where the first release is listened to, whose column it is."""
        return self.first_tells and super().copied(number)

    def same_person(self, first: Matrix, second: Matrix) -> Matrix:
        """log of how much likelier each row of the first release (n) and each of the second (m) are of one person than
        of two: n x m. Columns are taken as independent, each with its spread among the people on the list."""
        mine, theirs = super().told(first), self.other.told(second)
        found = np.zeros((len(first), len(second)))
        for number, (place, values) in self.same.items():
            group, support = self.parts[number][0], self.supports[number]
            spread = np.bincount(support.places(self.X[:, group.slice]), minlength=len(support.values)) + 1.0
            spread /= spread.sum()
            one, two = mine[number].astype(np.float64), theirs[place][:, values].astype(np.float64)
            apart = np.outer(one @ spread, two @ spread)
            found += np.log(np.maximum((one * spread) @ two.T, TINY)) - np.log(np.maximum(apart, TINY))
        return found
