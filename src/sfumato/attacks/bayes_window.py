"""Bayes' rule over people of the released class, and the guess that the score rewards."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, KnownNoise, Transform, Values
from sfumato.attacks.column_beliefs import LEAST, ColumnBeliefs, best_guess
from sfumato.attacks.like_people import CELLS, Likely, Placed, likely_people, made_up
from sfumato.attacks.likelihood import Suspects, blocks, channel_log, log_likelihood, normalised, released
from sfumato.attacks.mixed_beliefs import MixedBeliefs
from sfumato.attacks.support import Support
from sfumato.attacks.window import device_window, half_width
from sfumato.channels import Channel, Line, apart
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.table import Encoding, Group
from sfumato.table.neighbours import chosen, in_blocks
from sfumato.table.neighbours.arrays import Arrays

# What is believed of every column where columns share noise: the whitened release is one that mixes columns.


class SharedBeliefs(MixedBeliefs):
    """People of one class behind z = x + B u: B^-1 z = B^-1 x + u is a known map with independent noise."""

    def __init__(self, known: Knowledge, noise: KnownNoise, people: Likely, cells: int) -> None:
        shared = apart(noise.channels)
        assert shared is not None
        self.shared, width = shared, known.encoding.width
        white = Transform(shared.matrix(width), np.zeros(width))
        own = KnownNoise.of(shared.channels, shared.white(people.X))
        super().__init__(known, own, people, cells, white)

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> None:
        super().guess(self.shared.white(Z), tolerance, out, mean, sure)


# What is believed of every column where the map is no line, or where numbers share noise beside categories.
#
# The bits of a survey and a release in stages are of the first kind. A row tells of all columns at once, so smoothed
# people are drawn (`made_up`), and each has its exact likelihood. Smoothing beliefs after taking likelihoods of the
# listed people instead would leave out everybody between them, who may fit a row far better: where a row tells much,
# nobody on the list does.


EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""
MADE_UP = 8_000
"""People drawn of a class, whose numbers stand for others within `ABOUT` of the column's spread."""
ABOUT = 0.1


class ListedBeliefs:
    """People of one class, smoothed by drawing people like them."""

    def __init__(self, known: Knowledge, people: Likely, cells: int, noise: KnownNoise | None = None) -> None:
        """`noise`: that of the class, where classes differ."""
        noise = noise or known.noise
        assert noise is not None
        self.known, self.listed, self.noise = known, people, noise
        self.groups = known.encoding.groups
        self.supports = [Support.of_group(group, cells) for group in self.groups]
        spreads = [float(people.X[:, group.start].std()) for group in self.groups]
        self.smoothing = [one.smoothing(ABOUT * wide, 0.0) for one, wide in zip(self.supports, spreads, strict=True)]
        self.smooth(0.0)

    @property
    def people(self) -> int:
        return len(self.after)

    def smooth(self, share: float) -> None:
        """Set how far a person's numbers stand for others; categories stay as they are."""
        rng = np.random.default_rng(0)  # the adversary's own draws; a guess is a function of what is known
        X, self.after = made_up(self.listed.X, self.groups, share, MADE_UP, rng)
        self.log_prior = self.listed.log_prior[self.after]
        self.suspects = Suspects.of(self.known, X)
        self.placed = Placed.of(self._places(X), [len(one.values) for one in self.supports], self.log_prior)

    def _places(self, X: Matrix) -> list[Codes]:
        return [one.places(X[:, group.slice]) for one, group in zip(self.supports, self.groups, strict=True)]

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released as they would be."""
        return released(self.known, self.noise, self.listed.X[own], rng)

    def fit(self, Z: Matrix, own: Codes) -> float:
        """How much is believed of the truth behind simulated rows, in logarithms, by a list without these people."""
        beliefs, places = self._beliefs(Z, own), self._places(self.listed.X[own])
        found = [belief[np.arange(len(Z)), at] for belief, at in zip(beliefs, places, strict=True)]
        return float(np.log(np.maximum(found, LEAST)).sum())

    def _beliefs(self, Z: Matrix, without: Codes | None = None) -> list[Matrix]:
        """Per column rows x values; `without`: of each row the person who, with all made after it, is left out."""
        log = log_likelihood(self.known, Z, self.suspects, EXACT_WIDTH, self.noise) + self.log_prior
        if without is not None:
            log[without[:, None] == self.after] = -np.inf
        weights = normalised(log)
        nobody = np.isnan(weights[:, 0])
        if nobody.any():
            weights[nobody] = normalised(self.log_prior[None])
        at_places = self.placed.at_places(np.ascontiguousarray(weights.T, dtype=np.float32))
        return [np.asarray(here @ S) for here, S in zip(at_places, self.smoothing, strict=True)]

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> None:
        """Fill `out` with the best guesses, `mean` with posterior means, `sure` with how sure each guess is."""
        for number, belief in enumerate(self._beliefs(Z)):
            group, support = self.groups[number], self.supports[number]
            out[:, group.slice], sure[:, number] = best_guess(belief, support, group, tolerance)
            mean[:, group.slice] = belief @ support.values


# The Bayes window on a card or another array library: what is believed of every column, in double precision.
#
# The processor works in single precision, so that windows which hold nearly the same may change places. A row with such
# a close call in any column is not settled: the caller asks the processor about it. The others get the processor's
# guess.


NEARLY = 2e-5
"""How far a probability may be off in single precision, after sums over columns and people."""


class DeviceColumns:
    """`ColumnBeliefs` whose people lie on a device."""

    def __init__(self, arrays: Arrays, beliefs: ColumnBeliefs, tolerance: float) -> None:
        self.arrays, self.beliefs, self.tolerance = arrays, beliefs, tolerance
        self.ones = arrays.put(np.asarray(beliefs.placed.ones.toarray(), dtype=np.float64))
        self.log_prior = arrays.put(beliefs.placed.log_prior.astype(np.float64))
        self.smoothing = [arrays.put(S) for S in beliefs.smoothing]
        self.values = [arrays.put(np.ascontiguousarray(one.values)) for one in beliefs.supports]

    @property
    def bytes_of_a_row(self) -> int:
        """What one row takes while it is worked on."""
        people, places = self.ones.shape
        return 8 * (4 * int(people) + 8 * int(places))

    def guess(self, Z: Matrix, out: Matrix, mean: Matrix, sure: Matrix) -> Flags:
        """As `ColumnBeliefs.guess`; returns which rows are settled."""
        settled = np.ones(len(Z), dtype=bool)
        get = self.arrays.get
        for number, belief in enumerate(self._beliefs(Z)):
            group, channel, _ = self.beliefs.parts[number]
            where = group.slice
            found, certain, clear = self._best(belief, number, group)
            out[:, where], sure[:, number] = get(found), get(certain)
            mean[:, where] = get(belief @ self.values[number])
            if channel.is_exact:
                out[:, where], mean[:, where] = Z[:, where], Z[:, where]
            else:
                settled &= get(clear)
        return settled

    def _beliefs(self, Z: Matrix) -> list[Any]:
        xp, beliefs = self.arrays.namespace, self.beliefs
        parts = zip(beliefs.supports, beliefs.parts, strict=True)
        told = [
            _likelihood(self.arrays, support, channel, Z[:, group.slice], line)
            for support, (group, channel, line) in parts
        ]
        smoothed = [part @ S.T for part, S in zip(told, self.smoothing, strict=True)]
        log = xp.log(self.arrays.joined(smoothed)) @ self.ones.T + self.log_prior[None, :]
        log = xp.exp(log - xp.amax(log, axis=1)[:, None])
        at = (log / log.sum(axis=1)[:, None]) @ self.ones
        found, ends = [], beliefs.placed.ends.tolist()
        for number, (one, smooth) in enumerate(zip(told, smoothed, strict=True)):
            here = at[:, ends[number] : ends[number + 1]]
            belief = one * ((here / smooth) @ self.smoothing[number])
            total = belief.sum(axis=1)[:, None]
            found.append(belief / xp.where(total > 0, total, 1.0))
        return found

    def _best(self, belief: Any, number: int, group: Group) -> tuple[Any, Any, Any]:
        """As `column_beliefs.best_guess`, and where it is no close call."""
        xp, support, n = self.arrays.namespace, self.beliefs.supports[number], self.beliefs.supports[number].numbers
        if not n:
            best = xp.argmax(belief, axis=1)
            most = xp.amax(belief, axis=1)
            alone = (belief >= (most * (1.0 - NEARLY))[:, None]).sum(axis=1) == 1
            return self.values[number][best], most, alone
        half = half_width(group, self.tolerance)
        middle, mass, clear = device_window(self.arrays, support.line, belief[:, :n], half, support.extent, NEARLY)
        if not group.has_indicator:
            return middle[:, None], mass, clear
        chance = belief[:, n]
        missing = chance > mass
        clear = clear & (abs(chance - mass) > NEARLY * mass)
        pair = self.arrays.joined([xp.where(missing, 0.5, middle)[:, None], (missing * 1.0)[:, None]])
        return pair, xp.where(missing, chance, mass), clear


def _likelihood(arrays: Arrays, support: Support, channel: Channel, Z: Matrix, line: Line | None) -> Any:
    """As `Support.likelihood`."""
    if channel.is_exact:
        return arrays.put(support.likelihood(channel, Z, line))
    xp, log = arrays.namespace, None
    for values in support.looked_at(line):
        one = channel_log(arrays, channel, Z, values)
        log = one if log is None else xp.logaddexp(log, one)
    top = xp.amax(log, axis=1)
    nobody = ~np.isfinite(arrays.get(top))
    if nobody.any():  # rare, and the processor knows what to make of it
        return arrays.put(support.likelihood(channel, Z, line))
    return xp.exp(log - top[:, None])


SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""How far people may stand for others like them, as shares of the spread of their class."""
TRIED = 400
"""People of the list on whom they are tried."""


class Beliefs(Protocol):
    """What is believed of rows of one released class."""

    @property
    def people(self) -> int:
        """How many stand for the population."""

    def smooth(self, share: float) -> None:
        """Let people stand for others like them."""

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """People of the list, released as the channels would."""

    def fit(self, Z: Matrix, own: Codes) -> float:
        """How much is believed of the truth behind simulated rows, by a list without these people."""

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> None:
        """Best guesses, posterior means, and how sure each guess is."""


class BayesWindow(Attack):
    """The adversary knows the law of every channel and other people of the released class, applies Bayes' rule, and
    guesses the value that most of its belief lies within the scoring window of.

    Its prior are `people` of the same class as the released row (all people, weighed by the label's own law, where the
    label is randomized), smoothed by a normal kernel. The kernel's width is the one with which the adversary, who
    releases people of the list anew and leaves each out in turn, believes most in what is true. The weight of a person
    is the product of the likelihoods of all channels on `cells` of each column, exact for the smoothed people where
    columns are released one by one; where the release is no line of the columns, smoothed people are drawn. A category
    is guessed by its highest posterior probability. `details` say how sure the adversary is: if its prior is right, it
    is right so often.

    Parameters
    ----------
    people : int, default=10000
        Most people of a class who stand for the population, from 2 to 1,000,000. In many columns a short list is a
        poor prior: it costs more than all else that this adversary approximates.
    cells : int, default=100
        Cells of a number's range, from 20 to 2,000.
    """

    name = "bayes-window"
    reads_gaps = True
    knows = frozenset({"release", "noise", "sample"})
    helps = frozenset({"labels", "sample_labels", "transform", "guided"})
    accepts = MappingProxyType({"people": Whole(2, 1_000_000), "cells": Whole(20, 2_000)})

    def __init__(self, people: int = 10_000, cells: int = 100) -> None:
        self.people, self.cells = people, cells

    def guess(self, known: Knowledge) -> Guess:
        """Per released row and column, the value of the best window, or the likeliest category."""
        if not known.columnwise and known.transform is None and known.guided is None:
            return Abstain("needs the transform of a release that mixes columns")
        n, encoding = len(known.release), known.encoding
        out, mean = np.empty((n, encoding.width)), np.empty((n, encoding.width))
        sure = np.empty((n, len(encoding.groups)))
        everybody = [(people, self._beliefs(known, people)) for people in likely_people(known, self.people)]
        share = _best_share(everybody)
        for people, beliefs in everybody:
            beliefs.smooth(share)
            left = _by_device(known, people.rows, beliefs, (out, mean, sure))
            for block in blocks(len(left), beliefs.people, CELLS):
                rows = left[block]
                parts = _room(len(rows), encoding)
                beliefs.guess(known.release[rows], known.tolerance, *parts)
                out[rows], mean[rows], sure[rows] = parts
        details = {"mean_sureness": float(sure.mean()), "largest_sureness": float(sure.max(initial=0.0))}
        return Values(mean, details=details, aimed=out)

    def _beliefs(self, known: Knowledge, people: Likely) -> Beliefs:
        assert known.noise is not None
        if known.guided is not None:
            return ListedBeliefs(known, people, self.cells)
        noise = known.noise.of_class(people.code)
        if known.columnwise and apart(noise.channels) is not None:
            if all(channel.width == 1 for channel in noise.channels):
                return SharedBeliefs(known, noise, people, self.cells)
            return ListedBeliefs(known, people, self.cells, noise)
        if known.columnwise:
            return ColumnBeliefs(noise, known.encoding, people, self.cells)
        return MixedBeliefs(known, noise, people, self.cells)


def _room(rows: int, encoding: Encoding) -> tuple[Matrix, Matrix, Matrix]:
    """For the best guesses, posterior means, and how sure each guess is."""
    shapes = ((rows, encoding.width), (rows, encoding.width), (rows, len(encoding.groups)))
    first, second, third = (np.empty(shape) for shape in shapes)
    return first, second, third


def _by_device(known: Knowledge, rows: Codes, beliefs: Beliefs, found: tuple[Matrix, Matrix, Matrix]) -> Codes:
    """Let the device guess, if there is one; returns the rows that are left to the processor."""
    device = chosen()
    if device is None or type(beliefs) is not ColumnBeliefs:
        return rows
    arrays, memory = device
    there, settled = DeviceColumns(arrays, beliefs, known.tolerance), np.zeros(len(rows), dtype=bool)

    def work(block: slice, _: int) -> None:
        parts = _room(block.stop - block.start, known.encoding)
        settled[block] = there.guess(known.release[rows[block]], *parts)
        for whole, part in zip(found, parts, strict=True):
            whole[rows[block]] = part

    in_blocks(arrays, len(rows), there.bytes_of_a_row, memory, work)
    return rows[~settled]


def _best_share(everybody: Sequence[tuple[Likely, Beliefs]]) -> float:
    """How far people should stand for others: tried on people of the list, released anew and left out in turn.

    One share for all classes, so that it rests on many people.
    """
    rng = np.random.default_rng(0)  # the adversary's own draws; a guess is a function of what is known
    total = sum(len(people.rows) for people, _ in everybody)
    found = np.zeros(len(SHARES))
    for people, beliefs in everybody:
        chances = np.exp(people.log_prior - people.log_prior.max())
        some = min(int(np.count_nonzero(chances)), max(1, round(TRIED * len(people.rows) / total)))
        if beliefs.people < 3:
            continue
        own = rng.choice(len(chances), size=some, replace=False, p=chances / chances.sum())
        Z = beliefs.simulated(own, rng)
        for place, share in enumerate(SHARES):
            beliefs.smooth(share)
            found[place] += beliefs.fit(Z, own)
    return SHARES[int(np.argmax(found))]
