"""What is believed of every column of a release that keeps the source's columns: exact for smoothed people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.attacks.base import KnownNoise
from sfumato.attacks.like_people import Likely, Placed, believed
from sfumato.attacks.support import Support
from sfumato.attacks.window import best_window, half_width
from sfumato.channels import Channel, Exact, Line, NotApplicableError, draw
from sfumato.channels.maps import carried_groups
from sfumato.core.array_types import Codes, Matrix
from sfumato.table import Encoding, Group

LEAST = 1e-6
"""No belief is held to be smaller, so that one person of whom it is does not decide."""


class ColumnBeliefs:
    """People of one class, smoothed by `smooth` of each column's spread among them, behind known channels."""

    def __init__(self, noise: KnownNoise, encoding: Encoding, people: Likely, cells: int) -> None:
        self.noise, self.X = noise, people.X
        self.parts = channels_of_groups(noise, encoding)
        self.supports = [Support.of_group(group, cells) for group, _, _ in self.parts]
        self.spreads = [float(people.X[:, group.start].std()) for group, _, _ in self.parts]
        places = [
            support.places(people.X[:, group.slice])
            for support, (group, _, _) in zip(self.supports, self.parts, strict=True)
        ]
        self.placed = Placed.of(places, [len(one.values) for one in self.supports], people.log_prior)
        self.smoothing: list[Matrix] = []

    @property
    def people(self) -> int:
        return self.placed.people

    def smooth(self, share: float) -> None:
        """Set how far people stand for others like them: a share of each column's spread."""
        pairs = zip(self.supports, self.spreads, strict=True)
        self.smoothing = [support.smoothing(share * spread, 0.5 * share) for support, spread in pairs]

    def told(self, Z: Matrix) -> list[Any]:
        """What the channels say of every column's values, given these rows."""
        return [
            support.likelihood(channel, Z[:, group.slice], line).astype(np.float32)
            for support, (group, channel, line) in zip(self.supports, self.parts, strict=True)
        ]

    def _smoothed(self, told: Sequence[Any]) -> list[Any]:
        return [part @ S.T.astype(np.float32) for part, S in zip(told, self.smoothing, strict=True)]

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released as the channels would."""
        return draw(self.noise.channels, np.array(self.X[own]), rng)

    def fit(self, Z: Matrix, own: Codes) -> float:
        """How much is believed of the truth behind simulated rows, in logarithms, by a list without these people."""
        beliefs = self._beliefs(self.told(Z), own)
        truths = [self.X[own][:, group.slice] for group, _, _ in self.parts]
        places = [support.places(truth) for support, truth in zip(self.supports, truths, strict=True)]
        found = [belief[np.arange(len(Z)), place] for belief, place in zip(beliefs, places, strict=True)]
        return float(np.log(np.maximum(found, LEAST)).sum())

    def _beliefs(self, told: Sequence[Any], without: Codes | None = None) -> list[Matrix]:
        smoothed = self._smoothed(told)
        weights = self.placed.at_places(self.placed.weights(smoothed, without))
        return [believed(*parts) for parts in zip(told, smoothed, self.smoothing, weights, strict=True)]

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> None:
        """Fill `out` with the best guesses, `mean` with posterior means, `sure` with how sure each guess is."""
        for number, belief in enumerate(self._beliefs(self.told(Z))):
            group = self.parts[number][0]
            where = group.slice
            out[:, where], sure[:, number] = best_guess(belief, self.supports[number], group, tolerance)
            mean[:, where] = belief @ self.supports[number].values
            if self.copied(number):
                out[:, where], mean[:, where] = Z[:, where], Z[:, where]

    def copied(self, number: int) -> bool:
        """Whether a column was released as it is, so that there is nothing to guess."""
        return self.parts[number][1].is_exact


def best_guess(belief: Matrix, support: Support, group: Group, tolerance: float) -> tuple[Matrix, Matrix]:
    """Per row of `belief` the encoded value that is right with the highest probability, and that probability."""
    n = support.numbers
    if not n:
        best = belief.argmax(axis=1)
        return support.values[best], belief[np.arange(len(belief)), best]
    middle, mass = best_window(support.line, belief[:, :n], half_width(group, tolerance), support.extent)
    if not group.has_indicator:
        return middle[:, None], mass
    missing = belief[:, n] > mass
    found = np.column_stack([np.where(missing, 0.5, middle), missing])
    return found, np.where(missing, belief[:, n], mass)


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
