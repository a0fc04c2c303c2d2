"""Shares of answers behind the bits of guided surveys, unbiased.

Every bit depends on all answers of a person, t V V', so no column stands alone: what can be estimated is how many
people give each whole answer t. Of bits R that were sent under guidance v with known law P_v(R | t), let

    l(t) = P_v(R | t) / P_v(R),  K = sum over v of share_v sum over R of P_v(R | t) P_v(R | t') / P_v(R),

where P_v(R) is any positive function of R. Then K^-1 l has the mean e_t over the bits of a person who answered t, with
v drawn like its share of the rows: it is an unbiased row of whole answers, and the sum of its entries over the answers
with `smokes=yes` and `coughs=yes` an unbiased count of both. What lies outside K's range has the same law whatever
people answer, and no estimate. With P_v(R) a product over bits of their mean probability m, K is a product as well:
q q' / m + (1 - q)(1 - q') / (1 - m) over all bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.channels.guidance.space import IMPOSSIBLE, AnswerSpace
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.learn.mining.seen import Part

MOST_ANSWERS = 256
"""Different answers of a person; the work grows with the square of their number."""
MOST_CELLS = 1 << 27
"""Rows times different answers that are held at a time: one gibibyte."""
TOLD = 1e-10
"""Directions of K below this part of its largest are taken for none."""
OUTSIDE = 1e-8
"""A set of answers is not estimated where more of it than this, by squares, lies outside K's range."""


@dataclass(frozen=True, eq=False)
class WholeAnswers:
    """`rows`: of each part what K^-1 is applied to, distinct bits x answers; `which`: the place of each row in it.

    `inverse` is that of K, and `inside` the projection to its range. `items`: which answers have each item.
    """

    rows: tuple[Matrix, ...]
    which: tuple[Codes, ...]
    inverse: Matrix
    inside: Matrix
    items: dict[tuple[str, str], Flags]

    @classmethod
    def of(cls, parts: Sequence[Part], columns: Sequence[str] = ()) -> WholeAnswers:
        """Of parts that went through guided maps, all with the same questions; with the items of all or these."""
        encoding = parts[0].recipe.encoding
        space = AnswerSpace([group.width for group in encoding.groups])
        if len(space) > MOST_ANSWERS:
            raise UsageError(
                f"Not applicable: {len(space):,} different answers are possible. Every bit of a guided survey depends "
                f"on all answers of a person, so rules are found only where at most {MOST_ANSWERS} are possible. Train "
                "a classifier on the bits instead (bernoulli-naive-bayes, id3)."
            )
        T = space.onehot(space.every()).astype(np.float64)
        total, ratios, which = np.zeros((len(T), len(T))), [], []
        for part in parts:
            x, one = part.recipe.map.apply(T), np.ones((1, 1))  # q: P(1) of every bit, for every answer
            bits = [bit.log_likelihood(one, x[:, [j]])[0] for j, bit in enumerate(part.channels)]
            q = np.exp(np.column_stack(bits))
            mean = q.mean(axis=0)
            yes, no = q / np.maximum(mean, IMPOSSIBLE), (1.0 - q) / np.maximum(1.0 - mean, IMPOSSIBLE)
            K = np.ones_like(total)
            for bit in range(q.shape[1]):
                K *= np.outer(yes[:, bit], q[:, bit]) + np.outer(no[:, bit], 1.0 - q[:, bit])
            total += len(part.Z) * K
            distinct, back = np.unique(part.Z > 0.5, axis=0, return_inverse=True)
            ratio = np.ones((len(distinct), len(T)))
            for bit in range(q.shape[1]):
                ratio *= np.where(distinct[:, bit, None], yes[:, bit], no[:, bit])
            ratios.append(ratio)
            which.append(np.asarray(back).ravel())
            if sum(map(np.size, ratios)) > MOST_CELLS:
                raise UsageError("There are too many different rows for the memory. Give fewer releases at a time.")
        values, vectors = np.linalg.eigh(total / sum(len(part.Z) for part in parts))
        kept = values > TOLD * values[-1]
        inside = vectors[:, kept] @ vectors[:, kept].T
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        items = {
            (group.column.name, slot): T[:, group.start + place] > 0.5
            for group in encoding.groups
            for place, slot in enumerate(group.slots)
            if len(group.slots) > 1 and (not columns or group.column.name in columns)
        }
        return cls(tuple(ratios), tuple(which), inverse, inside, items)

    def counts(self, part: int, items: Sequence[tuple[str, str]]) -> Floats:
        """For every row of a part an unbiased count of its person among those who gave all of these answers; NaN where
        the bits do not tell."""
        among = np.all([self.items[item] for item in items], axis=0).astype(np.float64)
        if np.sum((among - self.inside @ among) ** 2) > OUTSIDE * np.sum(among**2):
            return np.full(len(self.which[part]), np.nan)
        return np.asarray((self.rows[part] @ (self.inverse @ among))[self.which[part]])
