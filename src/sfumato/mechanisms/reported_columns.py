"""Mechanisms whose records report some of their columns, each with its share of the epsilon; one of them in stages."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import (
    Channel,
    Exact,
    HidesMissing,
    Hybrid,
    Identity,
    Piecewise,
    RandomizedResponse,
    Recipe,
    Sampled,
    SquareWave,
    UnitVector,
)
from sfumato.channels.sampled import tells
from sfumato.channels.staged import CELLS, RANKS, VECTORS, WAVE, Marginals, Staged, cells_of, values_in
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import SchemaError
from sfumato.guarantee import Key
from sfumato.mechanisms.base import GUIDE, Block, Given, Mechanism, Phase, Rows, as_codes, as_matrix
from sfumato.mechanisms.columnwise import epsilon_shares, reporting_rates
from sfumato.mechanisms.parameters import RECORD
from sfumato.noise import Streams
from sfumato.noise.grid import random_words
from sfumato.noise.streams import keyed_generator
from sfumato.table import Encoding, Group
from sfumato.table.statistics import Statistics

PER_COLUMN = 2.5
"""The epsilon that a column should have before another one is reported [Wang et al. 2019, Eq. 12]."""
ROUND_DOWN = 1 - 1e-14
"""k times a k-th must not round above the whole."""
SELDOM = 1e-6
"""Nothing can be learned of a column that is reported less often."""


class Plan(NamedTuple):
    """How often a column is reported, and with which epsilon."""

    rate: float
    epsilon: float


def plan_of(groups: Sequence[Group], columns: int, epsilon: float) -> dict[int, Plan]:
    """For records that report so many of these columns, by where a column starts.

    The part of the epsilon that a column has over all records follows its share. As long as columns are drawn, the
    drawing sees to that: every reported column has the same epsilon, so the record has the sum of any `columns` of
    them, whatever the shares. Where all columns are reported, their epsilons follow the shares.
    """
    shares, even = epsilon_shares(groups), epsilon / max(1, columns) * ROUND_DOWN
    if columns >= len(groups):
        return {group.start: Plan(1.0, even * share) for group, share in zip(groups, shares, strict=True)}
    plans = {}
    for group, rate in zip(groups, reporting_rates(shares, columns), strict=True):
        plans[group.start] = Plan(rate, even)
        if rate < SELDOM:
            raise SchemaError(
                f"Column {group.column.name!r} would be reported by less than one record in {1 / SELDOM:,.0f}: its "
                "privacy weight is too large beside the others', or its share too small. Change it, or leave the "
                "column out of the table."
            )
    return plans


def reported_channel(group: Group, epsilon: float, number: Callable[[float], Channel]) -> Channel:
    """Of a column's reported cells; that one is missing is hidden."""
    if group.is_onehot:
        found: Channel = RandomizedResponse.of_epsilon(epsilon, len(group.column.categories or ()))
    else:
        found = number(epsilon)
    return HidesMissing(found) if group.column.missing else found


class ReportsSome(Mechanism):
    """Every record reports exactly k of its d columns, drawn without looking at it, with epsilon / k each.

    Which columns a record reports is public and says nothing of it, so sampling costs nothing; and since the set is
    released, it amplifies nothing either. Constants are no columns to draw from: they are released as they are. The
    schema's weights say how often a column is reported (`plan_of`).
    """

    leaves_cells_out = True
    learns = False
    columnwise = True
    proves = True
    column_choices = frozenset({"epsilon_share"})
    rests_on = (
        "The noise of different rows and columns is independent and secret.",
        "Values outside the bounds were clipped to them before noise was added.",
        "Which columns a record reports is drawn without looking at it. An empty cell means that the record does not "
        "report the column, and nothing else; a missing cell is reported as any value, within the epsilon.",
    )

    not_protected = (
        "Of each record it is public which columns it reports.",
        "The mechanism spends its whole epsilon: an adversary who knows the likelihood gets all that it allows.",
    )

    epsilon_record: float = 4.0
    columns: int | None = None
    noise: str = "exact"

    @abstractmethod
    def number(self, epsilon: float) -> Channel:
        """The channel of a number."""

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_choice(("exact", "float"), noise=self.noise)
        self._check_positive(epsilon_record=self.epsilon_record)
        self.encoding_ = encoding
        free = [group for group in encoding.groups if tells(group)]
        self.columns_ = self._count_of_columns(self.columns, int(self.epsilon_record / PER_COLUMN), len(free))
        plans = plan_of(free, self.columns_, float(self.epsilon_record))
        ways = {False: cache(self.number), True: cache(self.missing_number)}
        channels = tuple(
            self._channel(group, plans.get(group.start), ways[group.has_indicator]) for group in encoding.groups
        )
        always = sum(plan.rate == 1 for plan in plans.values())
        reports = self.columns_ - always if always < len(plans) else None
        self.recipe_ = Recipe(encoding, Identity(encoding.width), channels, reports=reports)
        return self

    def missing_number(self, epsilon: float) -> Channel:
        """The channel of a number that may be missing: one whose outcomes can all be as likely."""
        return self.number(epsilon)

    def _channel(self, group: Group, plan: Plan | None, number: Callable[[float], Channel]) -> Channel:
        if plan is None:
            found: Channel = RandomizedResponse(1.0, 1) if group.is_onehot else Exact()
            return HidesMissing(found) if group.column.missing else found
        found = reported_channel(group, plan.epsilon, number)
        return Sampled(found, plan.rate) if plan.rate < 1 else found

    def parameters_used(self) -> dict[str, Any]:
        return {**super().parameters_used(), "columns": self.columns_}


class SquareWaveColumns(ReportsSome):
    """Report a few columns of every record, numbers by the square wave [Li et al. 2020], categories by randomized
    response, and leave the other cells empty.

    A number is released within b of the truth with density p, elsewhere on [-b, 1 + b] of its range with density
    p e^-eps, where eps is the record's epsilon over the number of columns that it reports. Released numbers are biased
    towards the middle: learners and reconstruction go by the likelihood. A missing cell is released as any value.

    Parameters
    ----------
    epsilon_record : epsilon of the whole record.
    columns : how many columns every record reports; None for epsilon / 2.5, at least 1.
    noise : "exact" (on a grid) or "float", for experiments.
    """

    name = "square-wave"
    papers = ("Li et al. 2020", "Wang et al. 2019")

    def number(self, epsilon: float) -> Channel:
        return SquareWave.of_epsilon(epsilon, exact=self.noise == "exact")


class PiecewiseNoise(ReportsSome):
    """Report a few columns of every record without bias: numbers by the piecewise mechanism [Wang et al. 2019],
    categories by randomized response; the other cells are empty.

    A reported number is right on average, whatever it is, so the mean of a column's reported cells is an unbiased
    estimate of the column's mean. It is at most C / 2 of the range away from the middle, C = (e^(eps/2) + 1) /
    (e^(eps/2) - 1), where eps is the record's epsilon over the number of columns that it reports. For learning, the
    square wave keeps more. A missing cell is released as any value, which is the middle of the range on average.

    Parameters
    ----------
    epsilon_record : epsilon of the whole record.
    columns : how many columns every record reports; None for epsilon / 2.5, at least 1.
    form : "hybrid", which mixes in two far ends and varies least at worst, or "piecewise". A number that may be
        missing is always piecewise.
    noise : "exact" (on a grid) or "float", for experiments.
    """

    name = "piecewise-noise"
    papers = ("Wang et al. 2019",)

    form: str = "hybrid"

    def number(self, epsilon: float) -> Channel:
        self._check_choice(("hybrid", "piecewise"), form=self.form)
        kind = Hybrid if self.form == "hybrid" else Piecewise
        return kind.of_epsilon(epsilon, exact=self.noise == "exact")

    def missing_number(self, epsilon: float) -> Channel:
        return Piecewise.of_epsilon(epsilon, exact=self.noise == "exact")


# What later stages of a release take from earlier ones: how columns are spread, found in released rows alone.
#
# The functions here are given `ReleasedRows`, a type that only released matrices are put into. Counts of outcomes add
# up over blocks in any order, so a resumed run, another engine and the coordinator find the same guides.


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
        told = np.eye(group.width)[: len(group.column.categories or ())]
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
STAGE = b"stage"
"""Of what says through which stage every row of a block goes."""
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
            return self.release_stage(rows.X, given.streams.generator(rows.number, b"", STAGE), rng, only)

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
        numbered = streams.generator(rows.number, b"", STAGE)
        return Block(self.release_stage(rows.X, numbered, rng), rows.y, np.arange(len(rows.X)))

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
