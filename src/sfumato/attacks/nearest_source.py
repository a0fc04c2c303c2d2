"""Linkage the other way round: from whose record was this released row drawn?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.attacks.base import LINKABILITY, Abstain, Attack, Guess, Knowledge, KnownNoise, Sources
from sfumato.attacks.like_people import label_likelihood
from sfumato.attacks.likelihood import Suspects, embed, first_of_largest, visit_likelihoods
from sfumato.attacks.observation import noise_weights
from sfumato.attacks.row_ratios import has_law
from sfumato.attacks.support import nearest_reported
from sfumato.core.array_types import Codes, Matrix
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.statistics import NO_CLASS

MOST_PAIRS_WITH_GAPS = 20_000_000_000
"""Rows times people up to which distances are measured where cells are left out: minutes of a processor."""


class NearestSource(Attack):
    """The adversary holds a register of everybody in the table and asks whose row each released row was.

    Where the law of the channels is known, he takes the likeliest person of the released class by that class's own law.
    Else, and where no one is possible, he takes the person whose record lies nearest, counting a column for less the
    more noise it has. Where rows are drawn (kernel resampling) this is the source-hit rate: positions in the release
    say nothing, and the record still reveals the source. People who were never drawn are in the register too.
    """

    name = "nearest-source"
    risk = LINKABILITY
    reads_gaps = True
    knows = frozenset({"release", "register"})
    helps = frozenset({"transform", "noise", "noise_covariance", "labels", "register_labels", "guided"})

    def guess(self, known: Knowledge) -> Guess:
        """The likeliest or nearest person of every release row."""
        assert known.register is not None
        lawful = has_law(known, len(known.register))
        if known.guided is not None and not lawful:
            return Abstain("the release has no distances, and is too large for likelihoods")
        gaps = bool(np.isnan(known.release).any())
        if gaps and not lawful and len(known.release) * len(known.register) > MOST_PAIRS_WITH_GAPS:
            return Abstain("rows leave cells out and are too many to compare with everybody: audit fewer (--max-rows)")
        index = np.empty(len(known.release), dtype=np.int64)
        doubt = np.empty(len(index))
        for code, rows, people, told in _classes(known):
            if lawful:
                index[rows], doubt[rows] = _likeliest(known, code, rows, people, told)
            else:
                index[rows], doubt[rows] = _nearest(known, rows, people)
        return Sources(index, doubt)


def _classes(known: Knowledge) -> Iterator[tuple[int, Codes, Codes, Matrix]]:
    """Rows of each released class, the people of the register who may be behind them, and what the label says of them.

    An exact label leaves people of its class; one told by randomized response weighs everybody by its likelihood.
    """
    assert known.register is not None
    everybody = np.arange(len(known.register))
    if known.labels is None:
        yield NO_CLASS, np.arange(len(known.release)), everybody, np.zeros(len(everybody))
        return
    for code in np.unique(known.labels).tolist():
        told = np.zeros(len(everybody))
        if known.register_labels is not None:
            same = known.register_labels == code
            told = label_likelihood(same, known.label_keep, max(len(known.encoding.classes), 2))
        mine = everybody[np.isfinite(told)]
        if not len(mine):
            mine, told = everybody, np.zeros(len(everybody))
        yield code, np.flatnonzero(known.labels == code), mine, told[mine]


def _nearest(known: Knowledge, rows: Codes, people: Codes) -> tuple[Codes, Matrix]:
    assert known.register is not None
    weights = noise_weights(known)
    placed = embed(known, known.register[people]) * weights
    distance, index = nearest_reported(known.release[rows] * weights, placed)
    return people[index[:, 0]], distance[:, 0]


def _likeliest(known: Knowledge, code: int, rows: Codes, people: Codes, told: Matrix) -> tuple[Codes, Matrix]:
    """Whom each row is taken for, and how doubtful: minus the log of the person's share of the likelihood."""
    assert known.register is not None
    assert known.noise is not None
    suspects, noise = Suspects.of(known, known.register[people]), known.noise.of_class(code)
    place, doubt = _top(known, rows, suspects, noise, told)
    found = people[place]
    none_fit = ~np.isfinite(doubt)
    if none_fit.any():
        worst = float(doubt[~none_fit].max(initial=0.0))
        doubt[none_fit] = worst + 1.0
        if known.guided is None:
            found[none_fit], distance = _nearest(known, rows[none_fit], people)
            doubt[none_fit] += distance
    return found, doubt


def _top(known: Knowledge, rows: Codes, suspects: Suspects, noise: KnownNoise, told: Matrix) -> tuple[Codes, Matrix]:
    """Of every row the place of the likeliest person, the first of equals, and minus the log of their share."""
    place, doubt = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))

    def visit(block: slice, log: Any, arrays: Arrays) -> None:
        first, top = first_of_largest(arrays, log, axis=1)
        share = arrays.namespace.log(arrays.namespace.exp(log - top[:, None]).sum(axis=1))
        place[block], doubt[block] = arrays.get(first), arrays.get(share)

    with np.errstate(invalid="ignore"):
        visit_likelihoods(known, rows, suspects, noise, told, visit, 2_000_000)
    return place, doubt
