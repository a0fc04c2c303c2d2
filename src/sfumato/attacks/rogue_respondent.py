"""A respondent who learns what another one sent by watching the guidance change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.guidance.guidance import SurveyCounts
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import UsageError


@dataclass(frozen=True)
class Watched:
    """What was learned about one victim's sent bits.

    `bits`: the guess, NaN where nothing is known. `certain`: whether it is read, not guessed. `scores`: higher where a
    one is likelier.
    """

    bits: Matrix
    certain: bool
    scores: Matrix


class RogueRespondent:
    """A respondent (not the collector) wants to know what somebody else sent [guided-survey, 4.1].

    The collector publishes guidance, and here also the counts behind it, so that anybody can check it. Between two
    versions the counts grow by the rows of one batch. If that was one row, its bits are the diagonal of the growth. If
    the rogue itself sent all the other rows of the batch under false names (Sybils), it takes them away first.
    Somebody who sees only the guidance looks at where the directions moved: (I - V V') W has, for one new row r,
    columns along
    (I - V V') r.

    Batches of many honest people stop both. What is read are perturbed bits, and the floor bounds what they say about
    the answers, whoever reads them.
    """

    name: ClassVar[str] = "rogue-respondent"

    def from_counts(
        self, before: SurveyCounts, after: SurveyCounts, own: ArrayLike | None = None, own_labels: ArrayLike = ()
    ) -> Watched:
        """From the published counts of two versions; `own` are the rows that the rogue itself sent in between."""
        mine = SurveyCounts.empty(after.width) if own is None else SurveyCounts.of(own, own_labels, after.width)
        grown = _growth(before, after, mine)
        if sum(n for n, _ in grown) != 1:
            total = sum((ones for _, ones in grown), np.zeros(after.width))
            rows = sum(n for n, _ in grown)
            if rows < 1:
                raise UsageError("No other person answered between these versions.")
            share = total / rows
            return Watched(np.full(after.width, np.nan), False, share)
        bits = next(ones for n, ones in grown if n == 1).astype(np.float64)
        return Watched(bits, True, bits)

    def from_guidance(self, before: Matrix, after: Matrix) -> Watched:
        """From two versions of V alone: the direction in which the space of the first was left.

        One new row turns every direction towards its own part outside V. The sign is unknown; a row has fewer ones than
        zeros, so that the side with fewer and larger entries (positive skew) is taken.
        """
        outside = after - before @ (before.T @ after)
        left = np.linalg.svd(outside, full_matrices=False)[0][:, 0]
        score = left if (left**3).sum() > 0 else -left
        return Watched((score > 0.5 * score.max()).astype(np.float64), False, score)


def _growth(before: SurveyCounts, after: SurveyCounts, mine: SurveyCounts) -> list[tuple[int, Codes]]:
    """Per class, how many rows came from others and how often each of their bits was 1."""
    grown = []
    for label in after:
        n = after.rows[label] - before.rows.get(label, 0) - mine.rows.get(label, 0)
        ones = after.ones(label).astype(np.int64)
        for earlier in (before, mine):
            if label in earlier.rows:
                ones = ones - earlier.ones(label)
        if n < 0 or (ones < 0).any():
            raise UsageError("These are not two versions of one survey in order, or your own rows are not in it.")
        grown.append((n, ones))
    return grown
