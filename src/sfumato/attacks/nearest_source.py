"""Linkage the other way round: from whose record was this released row drawn?"""

from __future__ import annotations

import numpy as np

from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Sources
from sfumato.attacks.gaps import nearest_reported
from sfumato.attacks.likelihood import embed
from sfumato.attacks.observation import noise_weights


class NearestSource(Attack):
    """The adversary holds a register of everybody in the table and asks whose row each released row was.

    He takes the person whose record lies nearest, counting a column for less the more noise it has. Where rows are
    drawn (kernel resampling) this is the source-hit rate: positions in the release say nothing, and the nearest record
    still reveals the source. People who were never drawn are in the register too.
    """

    name = "nearest-source"
    reads_gaps = True
    knows = frozenset({"release", "register"})
    helps = frozenset({"transform", "noise", "noise_covariance"})

    def guess(self, known: Knowledge) -> Guess:
        """The nearest person of every release row."""
        if not known.columnwise and known.transform is None:
            return Abstain("needs the transform of a release that mixes columns")
        assert known.register is not None
        weights = noise_weights(known)
        people = embed(known, known.register) * weights
        distance, index = nearest_reported(known.release * weights, people)
        return Sources(index[:, 0].astype(np.int64), distance[:, 0])
