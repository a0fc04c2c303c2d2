"""What an attack can return: each kind of guess is scored in its own way (see `sfumato.attacks.metrics.score`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.core.array_types import Codes, Flags, Matrix

_BLOCK = 1_024


class Guess:
    """Base of everything that an attack can return."""


@dataclass(frozen=True)
class Values(Guess):
    """Private values: row i of `X` (n x d, encoded source columns) is the person behind release row i.

    `candidates` are further guesses between which the adversary cannot choose by itself. The score takes the best of
    all of them, for which one needs the truth: an upper bound on what the adversary gets. `aimed` is the guess that is
    best for the score ("within the tolerance") where it is another than `X`, which is then best in mean square and
    stands behind all figures about errors. `details` are figures about how the guess came about, for the report.
    """

    X: Matrix
    candidates: tuple[Matrix, ...] = ()
    details: Mapping[str, float] = field(default_factory=dict)
    aimed: Matrix | None = None

    @property
    def scored(self) -> tuple[Matrix, ...]:
        """The guesses of which the best is scored, the adversary's own first."""
        return (self.X if self.aimed is None else self.aimed, *self.candidates)


@dataclass(frozen=True)
class Links(Guess):
    """For each target the release row that the adversary takes for the target's, and how far away it is.

    `by_likelihood`: the distance is a doubt, minus the log of the row's share of what speaks for all rows.
    """

    index: Codes
    distance: Matrix
    by_likelihood: bool = False


@dataclass(frozen=True)
class Sources(Guess):
    """For each release row the person of the register that the adversary takes for its source, and how far away."""

    index: Codes
    distance: Matrix


@dataclass(frozen=True)
class Picks(Guess):
    """Of people in line-ups, how likely each is behind the released row (line-ups x people), for the rows `rows`.

    `out_of` 2: every pair of the right one and another is judged; else the likeliest of all is picked.
    """

    scores: Matrix
    rows: Codes
    out_of: int


@dataclass(frozen=True)
class MembershipScores(Guess):
    """For each candidate a number that is higher the surer the adversary is that the person is in the table.

    `by` says what was compared, `others` the same by other means. Where there are any, the score chooses among all of
    them on one half of the candidates, and is that of the other half.
    """

    scores: Matrix
    by: str = ""
    others: Mapping[str, Matrix] = field(default_factory=dict)


@dataclass(frozen=True)
class Secrets(Guess):
    """For each target the encoded values (t x width of the group) of the source column `secret`."""

    X: Matrix
    secret: int


@dataclass(frozen=True)
class Bounds(Guess):
    """For each target an interval (t x width of the group) in which each encoded slot of the column `secret` lies."""

    low: Matrix
    high: Matrix
    secret: int


@dataclass(frozen=True)
class Property:
    """Something that is true of a record or not: its source column `group` has the encoded `slot` in (low, high].

    For a slot of a categorical column or an indicator, low = .5 and high = inf: "it is this category".
    """

    name: str
    group: int
    slot: int
    low: float
    high: float

    def holds(self, X: Matrix) -> Flags:
        """Of which rows it is true."""
        return self.covers(X[:, self.slot])

    def covers(self, values: Matrix) -> Flags:
        """Of which values of its own slot it is true."""
        return np.asarray((values > self.low) & (values <= self.high))


def truths(properties: Sequence[Property], X: Matrix) -> Flags:
    """Which properties are true of which rows, rows x properties; by blocks that stay in a processor's cache."""
    slots = [one.slot for one in properties]
    low, high = np.array([one.low for one in properties]), np.array([one.high for one in properties])
    found = np.empty((len(X), len(slots)), dtype=bool)
    for start in range(0, len(X), _BLOCK):
        values = X[start : start + _BLOCK, slots]
        np.logical_and(values > low, values <= high, out=found[start : start + _BLOCK])
    return found


@dataclass(frozen=True)
class Posteriors(Guess):
    """What the adversary believes of each record (n x properties) after the release, and before it (properties)."""

    prior: Matrix
    posterior: Matrix
    properties: tuple[Property, ...]
    rare: float = 0.1
    sure: float = 0.5


@dataclass(frozen=True)
class Abstain(Guess):
    """The adversary has nothing to go on, and says why."""

    reason: str
