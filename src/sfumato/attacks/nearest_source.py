"""Linkage the other way round: from whose record was this released row drawn?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Sources
from sfumato.attacks.gaps import nearest_reported
from sfumato.attacks.likelihood import Suspects, blocks, embed, log_likelihood
from sfumato.attacks.observation import noise_weights
from sfumato.statistics import NO_CLASS

MOST_CELLS = 2_000_000_000
"""Rows times people times columns up to which likelihoods are computed; beyond, the nearest record is taken."""
EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""


class NearestSource(Attack):
    """The adversary holds a register of everybody in the table and asks whose row each released row was.

    Where the law of the channels is known, he takes the likeliest person of the released class by that class's own law.
    Else, and where nobody is possible, he takes the person whose record lies nearest, counting a column for less the
    more noise it has. Where rows are drawn (kernel resampling) this is the source-hit rate: positions in the release
    say nothing, and the record still reveals the source. People who were never drawn are in the register too.
    """

    name = "nearest-source"
    reads_gaps = True
    knows = frozenset({"release", "register"})
    helps = frozenset({"transform", "noise", "noise_covariance", "labels", "register_labels", "guided"})

    def guess(self, known: Knowledge) -> Guess:
        """The likeliest or nearest person of every release row."""
        if not known.columnwise and known.transform is None:
            return Abstain("needs the transform of a release that mixes columns")
        assert known.register is not None
        index = np.empty(len(known.release), dtype=np.int64)
        doubt = np.empty(len(index))
        for code, rows, people in _classes(known):
            index[rows], doubt[rows] = _sources(known, code, rows, people)
        return Sources(index, doubt)


def _classes(known: Knowledge) -> Iterator[tuple[int, Codes, Codes]]:
    """Rows of each released class, and the people of the register who may be behind them."""
    assert known.register is not None
    everybody = np.arange(len(known.register))
    if known.labels is None:
        yield NO_CLASS, np.arange(len(known.release)), everybody
        return
    for code in np.unique(known.labels).tolist():
        mine = everybody
        if known.register_labels is not None and known.label_keep == 1.0:
            mine = everybody[known.register_labels == code]
        yield code, np.flatnonzero(known.labels == code), mine if len(mine) else everybody


def _sources(known: Knowledge, code: int, rows: Codes, people: Codes) -> tuple[Codes, Matrix]:
    """Whom each row is taken for, and how doubtful: minus the log of the share of the likelihood, or a distance."""
    assert known.register is not None
    weights, X = noise_weights(known), known.register[people]
    lawful = known.noise is not None and all(channel.is_stated for channel in known.noise.channels)
    too_many = len(rows) * len(people) * X.shape[1] > MOST_CELLS
    if known.noise is None or not lawful or known.noise.is_exact or too_many:
        distance, index = nearest_reported(known.release[rows] * weights, embed(known, X) * weights)
        return people[index[:, 0]], distance[:, 0]
    suspects, noise = Suspects.of(known, X), known.noise.of_class(code)
    found, doubt = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    for block in blocks(len(rows), len(people), 2_000_000):
        log = log_likelihood(known, known.release[rows[block]], suspects, EXACT_WIDTH, noise)
        top = log.max(axis=1)
        found[block] = log.argmax(axis=1)
        with np.errstate(invalid="ignore"):
            doubt[block] = np.log(np.exp(log - top[:, None]).sum(axis=1))
    nobody = ~np.isfinite(doubt)
    if nobody.any():
        distance, index = nearest_reported(known.release[rows[nobody]] * weights, suspects.E * weights)
        worst = float(doubt[~nobody].max(initial=0.0))
        found[nobody], doubt[nobody] = index[:, 0], worst + 1.0 + distance[:, 0]
    return people[found], doubt
