"""Bayes' rule over people of the released class, and the guess that the score rewards."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Protocol

import numpy as np

from sfumato.accepted import Whole
from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values
from sfumato.attacks.column_beliefs import ColumnBeliefs
from sfumato.attacks.device_columns import DeviceColumns
from sfumato.attacks.like_people import Likely, likely_people
from sfumato.attacks.likelihood import blocks
from sfumato.attacks.listed_beliefs import ListedBeliefs
from sfumato.attacks.mixed_beliefs import MixedBeliefs
from sfumato.attacks.people_posterior import CELLS
from sfumato.attacks.shared_beliefs import SharedBeliefs
from sfumato.channels import apart
from sfumato.neighbours import chosen, in_blocks
from sfumato.table import Encoding

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
