"""How likely everybody in a line-up is behind a released row, by the law of the row's own class."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from sfumato.array_types import Matrix
from sfumato.attacks.base import LINKABILITY, Attack, Guess, Knowledge, Picks
from sfumato.attacks.likelihood import Suspects, log_likelihood
from sfumato.channels import NotApplicableError
from sfumato.statistics import NO_CLASS

EXACT_WIDTH = 1e-4
"""What stands for the noise of an exact column, in encoded units: the right one is on the list, and fits."""


class _Latest:
    """The scores that were computed last, for as long as all that they rest on is there: two adversaries ask for the
    same ones. It keeps no row alive."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.of: list[Callable[[], object]] = []
        self.scores = np.empty((0, 0))

    def scored(self, known: Knowledge) -> Matrix:
        assert known.lineups is not None
        matrix = None if known.transform is None else known.transform.matrix
        rest = [known.release, known.lineups.X, known.noise, known.labels, matrix, known.guided]
        with self.lock:
            if len(self.of) != len(rest) or any(one() is not now for one, now in zip(self.of, rest, strict=True)):
                self.scores = _computed(known)
                self.of = [_nothing if one is None else weakref.ref(one) for one in rest]
            return self.scores


def _nothing() -> None:
    """Stands for a reference to None."""


_LATEST = _Latest()


def lineup_scores(known: Knowledge) -> Matrix:
    """Line-ups x people; reads `noise`, `labels`, `transform` and `guided`."""
    return _LATEST.scored(known)


def _computed(known: Knowledge) -> Matrix:
    assert known.lineups is not None
    assert known.noise is not None
    if not known.columnwise and known.transform is None and known.guided is None:
        raise NotApplicableError("needs the transform of a release that mixes columns")
    rows, X = known.lineups
    count, people, d = X.shape
    everybody = Suspects.of(known, X.reshape(-1, d))
    found = np.empty((count, people))
    for number, row in enumerate(rows):
        here = slice(number * people, (number + 1) * people)
        some = Suspects(*(part[here] for part in everybody))
        noise = known.noise.of_class(NO_CLASS if known.labels is None else int(known.labels[row]))
        found[number] = log_likelihood(known, known.release[[row]], some, EXACT_WIDTH, noise)[0]
    return found


class LineUp(Attack):
    """Picks people out of line-ups by the exact likelihood of all channels; a child says of how many."""

    risk = LINKABILITY
    reads_gaps = True
    knows = frozenset({"release", "noise", "lineups"})
    helps = frozenset({"transform", "labels", "guided"})
    people: ClassVar[int | None] = None
    """How many stand in a line-up; None for all there are."""

    def guess(self, known: Knowledge) -> Guess:
        """How likely everybody in each line-up is."""
        assert known.lineups is not None
        found = lineup_scores(known)
        return Picks(found, known.lineups.rows, self.people or found.shape[1])
