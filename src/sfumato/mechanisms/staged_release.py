"""What later stages of a release take from earlier ones: how columns are spread, found in released rows alone.

The functions here are given `ReleasedRows`, a type that only released matrices are put into. Counts of outcomes add up
over blocks in any order, so a resumed run, another engine and the coordinator find the same guides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Channel, Recipe, Sampled, SquareWave, UnitVector
from sfumato.channels.sampled import tells
from sfumato.channels.staged import CELLS, RANKS, VECTORS, WAVE, Marginals, Staged, cells_of, values_in
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import SchemaError
from sfumato.guarantee import Key
from sfumato.mechanisms.base import GUIDE, Block, Given, Mechanism, Phase, Rows, as_codes, as_matrix
from sfumato.mechanisms.columnwise import epsilon_shares
from sfumato.mechanisms.parameters import RECORD
from sfumato.mechanisms.piecewise_noise import PER_COLUMN, ROUND_DOWN, plan_of, reported_channel
from sfumato.noise import Streams
from sfumato.noise.grid import random_words
from sfumato.noise.streams import keyed_generator
from sfumato.table import Encoding, Group
from sfumato.table.statistics import Statistics

OUTCOMES = 64
"""Cells of a released number."""
PRIOR = 16.0
"""How strongly a column's shares are drawn towards the average of all columns, in rows."""
STEPS = 200
_ROUNDED = 12
"""Digits of a share: sums over blocks come in any order."""


@dataclass(frozen=True)
class ReleasedRows:
    """Rows as they were released; a guide never sees others."""

    Z: Matrix


@dataclass(frozen=True)
class OutcomeCounts:
    """How often every outcome was released, column by column, in the first two stages."""

    counts: tuple[tuple[Floats, ...], ...]

    @classmethod
    def of(cls, staged: Staged, channels: Sequence[Channel], released: ReleasedRows) -> OutcomeCounts:
        found = []
        for stage in (WAVE, RANKS):
            start, columns = staged.parts[stage].start, []
            for group, channel in zip(staged.groups, staged.of_stages(channels)[stage], strict=True):
                cells = released.Z[:, start : start + group.width]
                cells = cells[~np.isnan(cells[:, 0])]
                if group.is_onehot:
                    columns.append(np.asarray(cells[:, : len(group.column.categories or ())].sum(axis=0)))
                else:
                    edges = _edges(channel)
                    told = np.clip(cells[:, 0], edges[0], edges[-1])
                    columns.append(np.histogram(told, edges)[0].astype(np.float64))
                start += group.width
            found.append(tuple(columns))
        return cls(tuple(found))

    def __add__(self, other: OutcomeCounts) -> OutcomeCounts:
        pairs = zip(self.counts, other.counts, strict=True)
        return OutcomeCounts(tuple(tuple(a + b for a, b in zip(*two, strict=True)) for two in pairs))


def guide(staged: Staged, channels: Sequence[Channel], counts: OutcomeCounts, stages: int) -> Marginals:
    """How columns are spread, by the released rows of the first `stages` stages."""
    groups = staged.groups
    by_stage = [staged.of_stages(channels)[stage] for stage in range(stages)]
    known = [
        [
            (_transition(staged, stage, place, group, of_stage[place]), counts.counts[stage][place])
            for stage, of_stage in enumerate(by_stage)
        ]
        for place, group in enumerate(groups)
    ]
    numbers = [place for place, group in enumerate(groups) if not group.is_onehot and cells_of(group) == CELLS]
    average = np.full(CELLS, 1.0 / CELLS)
    if numbers:  # all columns as if they were one
        average = _estimate([part for place in numbers for part in known[place]], CELLS, average)
    shares = []
    for place, group in enumerate(groups):
        size = len(group.column.categories or ()) if group.is_onehot else cells_of(group)
        prior = average if place in numbers else np.full(size, 1.0 / size)
        shares.append(np.round(_estimate(known[place], size, prior), _ROUNDED))
    return Marginals(tuple(shares))


def _edges(channel: Channel) -> Floats:
    low, high, _ = channel.reach(0.0, 1.0, 0.0)
    return np.linspace(low, high, OUTCOMES + 1)


def _transition(staged: Staged, stage: int, place: int, group: Group, channel: Channel) -> Matrix:
    """P(outcome | cell or category of the truth), and last of a missing cell where there are such."""
    if group.is_onehot:
        size = len(group.column.categories or ())
        told = np.eye(group.width)[:size]
        found = np.exp(channel.log_likelihood(told, np.eye(group.width)))
        return np.asarray(found / found.sum(axis=0))  # of those who report it
    values = values_in(cells_of(group))
    values = values if stage == WAVE else staged.ranks.rank(place, values)
    x = np.column_stack([values, *[np.zeros(len(values))] * (group.width - 1)])
    found = channel.transition(_edges(channel), x).reshape(OUTCOMES, cells_of(group), -1).mean(axis=2)
    if group.has_indicator:
        missing = channel.transition(_edges(channel), np.array([[0.5, 1.0]]))
        found = np.hstack([found, missing])
    return np.asarray(found)


def _estimate(parts: Sequence[tuple[Matrix, Floats]], size: int, prior: Floats) -> Floats:
    """Expectation-maximization through the known channels, with a Dirichlet prior; without what is missing."""
    width = max(matrix.shape[1] for matrix, _ in parts)
    shares = np.full(width, 1.0 / width)
    pseudo = np.zeros(width)
    pseudo[:size] = PRIOR * prior
    for _ in range(STEPS):
        gained = pseudo.copy()
        for matrix, counts in parts:
            cells = matrix.shape[1]
            expected = np.maximum(matrix @ shares[:cells], 1e-300)
            gained[:cells] += shares[:cells] * (matrix.T @ (counts / expected))
        shares = gained / gained.sum()
    found = np.maximum(shares[:size], 1e-9)
    return np.asarray(found / found.sum())


# A release in three stages: square wave, square wave on ranks, then whole vectors.


SHARES = (0.10, 0.15, 0.75)
CLIPPED = 0.8
"""Vectors of m features are clipped to a radius of sqrt(.8 m)."""


class StagedRelease(Mechanism):
    """Release a tenth of the rows by the square wave, some more by the square wave on ranks, and most as vectors of
    rank polynomials by PrivUnitG [Asi et al. 2022], each row once.

    Ranks and polynomials are those of the columns as released rows of earlier stages show them. Which stage a row goes
    through depends on its number alone. Every record has the whole epsilon in its one stage. Best from an epsilon of 4
    on; below, the square wave alone leaves more. The schema's weights say how often a column is reported in the first
    two stages, and how long its features are in the third.

    Parameters
    ----------
    epsilon_record : epsilon of the whole record.
    columns : how many columns a record of the first two stages reports; None for epsilon / 2.5, at least 1, and at
        least 2 from an epsilon of 4 on.
    noise : "exact" or "float", for experiments.
    """

    name = "staged-release"
    learns = False
    proves = True
    column_choices = frozenset({"epsilon_share"})
    rounds = 3
    own_knob = replace(RECORD, high=40.0)
    papers = ("Li et al. 2020", "Asi et al. 2022")
    rests_on = (
        "The noise of different rows, columns and stages is independent and secret.",
        "Values outside the bounds were clipped to them, and vectors to their radius, before noise was added.",
        "Which stage a row goes through, and which columns it reports there, is drawn without looking at it. An empty "
        "cell means not reported, and nothing else; a missing cell is released as any value, within the epsilon.",
        "What guides a stage was computed from released rows of the stages before it, and from nothing else.",
    )
    not_protected = (
        "Of each record it is public which stage it went through.",
        "The mechanism spends its whole epsilon: an adversary who knows the likelihood gets all that it allows.",
    )

    epsilon_record: float = 8.0
    columns: int | None = None
    noise: str = "exact"

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        """Without any guidance yet: as if all values of a column were as likely."""
        self._check_choice(("exact", "float"), noise=self.noise)
        self._check_positive(epsilon_record=self.epsilon_record)
        self.encoding_ = encoding
        groups = tuple(group for group in encoding.groups if tells(group))
        if not groups:
            raise SchemaError("All columns are constant by their bounds and categories: there is nothing to release.")
        default = max(int(self.epsilon_record / PER_COLUMN), 2 if self.epsilon_record >= 4 else 1)
        self.columns_ = self._count_of_columns(self.columns, default, len(groups))
        flat = Marginals.flat(groups)
        radius = math.sqrt(CLIPPED * flat.count(groups))
        staged = Staged(groups, flat, flat, self.columns_, radius, SHARES, _stretch(groups, flat))
        self.recipe_ = Recipe(encoding, staged, self._channels(staged))
        return self

    def _channels(self, staged: Staged) -> tuple[Channel, ...]:
        epsilon, exact = float(self.epsilon_record) * ROUND_DOWN, self.noise == "exact"
        plans = plan_of(staged.groups, self.columns_, epsilon)
        told = {plans[group.start].epsilon for group in staged.groups if not group.is_onehot}
        numbers = {one: SquareWave.of_epsilon(one, exact=exact) for one in told}
        inside = [
            (reported_channel(group, plans[group.start].epsilon, numbers.__getitem__), plans[group.start].rate)
            for group in staged.groups
        ]
        found: list[Channel] = [Sampled(one, SHARES[stage] * rate) for stage in (WAVE, RANKS) for one, rate in inside]
        dimension = staged.parts[VECTORS].stop - staged.parts[VECTORS].start
        vector = UnitVector.of_epsilon(epsilon, dimension, staged.radius, exact=exact)
        return (*found, Sampled(vector, SHARES[VECTORS]))

    # Rounds

    def phases(self, given: Given) -> Iterator[Phase]:
        """The fit, then all rounds but the last: what rows of a stage release guides the next one. The last is the
        release itself. The generators of a block are the same in every round, so what a guide sees is what is released
        in the end."""
        yield from super().phases(given)
        name = self.stream_name()

        def release(rows: Rows, only: int) -> Matrix:
            rng = given.streams.generator(rows.number, given.streams.content(rows.X.T, rows.y), name)
            return self.release_stage(rows.X, _numbered(rows, given.streams), rng, only)

        yield from self._guiding(release)

    def _guiding(self, release: Callable[[Rows, int], Matrix]) -> Iterator[Phase]:
        """One phase a round, given what releases one stage of a block."""
        seen: list[OutcomeCounts] = []
        for finished in range(1, self.rounds):

            def observe(rows: Rows, stage: int = finished - 1) -> OutcomeCounts:
                """What a guide needs to know of released rows; it adds up over blocks."""
                released = ReleasedRows(release(rows, stage))
                return OutcomeCounts.of(self._staged, self.recipe_.channels, released)

            def finish(counted: OutcomeCounts, finished: int = finished) -> None:
                """Go on to the next stage, guided by the released rows of the first `finished` stages."""
                seen.append(counted)
                found = guide(self._staged, self.recipe_.channels, reduce(add, seen), finished)
                ranks = found if finished == 1 else self._staged.ranks
                self.recipe_ = replace(self.recipe_, map=replace(self._staged, ranks=ranks, polynomials=found))

            yield Phase(GUIDE, observe, finish)

    @property
    def _staged(self) -> Staged:
        assert isinstance(self.recipe_.map, Staged)
        return self.recipe_.map

    def release_stage(
        self, X: Matrix, numbered: np.random.Generator, rng: np.random.Generator, only: int | None = None
    ) -> Matrix:
        """Released rows of one stage, or of all; `numbered` says of every row which stage it goes through.

        The same generators give the same rows again, so what a guide saw is what is released.
        """
        staged = self._staged
        return staged.release(self.recipe_.channels, X, staged.stages(len(X), numbered), rng, only)

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        """Under the guides that there are."""
        numbered, noise = (keyed_generator(random_words(rng, 2).tobytes()) for _ in range(2))
        return Block(self.release_stage(X, numbered, noise), y, np.arange(len(X)))

    def release_block(self, rows: Rows, rng: np.random.Generator, streams: Streams) -> Block:
        """The stage follows from the row's number, never from its content."""
        return Block(self.release_stage(rows.X, _numbered(rows, streams), rng), rows.y, np.arange(len(rows.X)))

    def release(
        self, X: ArrayLike, y: ArrayLike | None = None, rng: np.random.Generator | None = None, **fit: Any
    ) -> Block:
        X, codes = as_matrix(X), as_codes(y)
        self.fit(X, codes, **fit)
        rng = rng or Streams().generator(0, b"in-memory release", b"")
        keys = [random_words(rng, 2).tobytes() for _ in range(2)]

        def release(rows: Rows, only: int | None) -> Matrix:
            numbered, noise = map(keyed_generator, keys)
            return self.release_stage(rows.X, numbered, noise, only)

        whole = Rows(X, codes)
        for phase in self._guiding(release):
            phase.play(whole)
        block = Block(release(whole, None), codes, np.arange(len(X)))
        self.recipe_.check_gaps(block.X)
        return block

    def parameters_used(self) -> dict[str, Any]:
        return {**super().parameters_used(), "columns": self.columns_}


def _numbered(rows: Rows, streams: Streams) -> np.random.Generator:
    return streams.generator(rows.number, b"", b"stage")


def _stretch(groups: Sequence[Group], flat: Marginals) -> tuple[float, ...]:
    """All features of a vector have the same noise, so those of a column with a share s of the epsilon are stretched by
    the root of s: it tells as much as s times as many rows would. Vectors are as long as before on average."""
    shares, sizes = np.array(epsilon_shares(groups)), np.array(flat.sizes(groups))
    if shares.min() == shares.max():
        return ()
    return tuple(np.sqrt(shares * sizes.sum() / (shares @ sizes)).tolist())


def guides_fit(recipe: Recipe, counts: OutcomeCounts) -> bool:
    """Whether the guides on a card are those that its own released rows give."""
    staged = recipe.map
    assert isinstance(staged, Staged)
    for stages, stated in ((1, staged.ranks), (2, staged.polynomials)):
        found = guide(staged, recipe.channels, counts, stages)
        if not all(np.allclose(one, other, atol=1e-6) for one, other in zip(found.shares, stated.shares, strict=True)):
            return False
    return True
