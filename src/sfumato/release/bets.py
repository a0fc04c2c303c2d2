"""Bets against a card: what its rows would show if less noise was added than it says.

A gambler sees the first half of the rows, and then bets on each of the others. What he gets for an outcome is fixed
before; if the card is true no bet is worth more than its stake on average, whatever the table held: the odds are
divided by the most that any true value lets him expect. So he multiplies his stake by 1 / a with probability a at most
[Ville 1939], for every number of rows, and without an assumption about the table. If less noise was added he has seen
outcomes pile up as no table with that noise would, and wins more with every row.

For a column the outcomes are cells between quantiles of the first rows, or the categories; q are the shares of the
first rows, p those that come nearest to q of all that tables with the stated noise can give, and the odds are q / p: no
other bet grows faster [Grunwald, de Heide and Koolen 2024]. Noise of different columns is independent, so winnings of
one column are the stakes of the next; half of the money goes into columns alone, for one that was left without noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import nnls
from scipy.special import logsumexp, ndtr

from sfumato.channels import Channel, Mixed, NotApplicableError, RandomizedResponse, Recipe
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.table.arrays import FIRST_DAY, LAST_DAY

MOST_LEARNED = 1 << 15
"""Rows that are seen before the first bet, at most; else half of them."""
FEWEST_CELLS, MOST_CELLS = 6, 48
NEXT = 1e-12
"""So far from a number begins the next cell, where no grid says it."""
ROUNDING = 8
"""Steps of doubles."""
OUT = (0.3, 0.6, 0.8, 0.9, 0.97)
"""Shares of noise that lie within cells about the middle."""
LEAST_SHARE = 1e-8
"""Odds are no higher than if an outcome had this probability: differences of cumulated ones tell no less apart."""
FINER, FINEST, MANY = 8, 4096, 64
"""What any true value lets the gambler expect is looked for on so many times finer steps, at least; on so many steps in
all where there are not many columns."""
MOST_STEPS = 512
"""Noise that would need more is too narrow to be seen between two steps."""
CLOSE_TO = 1e-7
"""A projection has converged when no truth gains more than this."""


@dataclass(frozen=True)
class Column:
    """What bets on a column know before they see a row: its channels (several where classes have their own), where true
    values lie, and between which ends released ones are cut off."""

    place: slice
    channels: tuple[Channel, ...]
    low: float
    high: float
    ends: tuple[float, float]
    independent: bool = True
    finest: int = FINEST
    rounding: float = 0.0
    """What writing a value in its own units and reading it again may change, at most."""

    def cells(self, z: Matrix) -> Floats:
        """Edges of cells that hold about as many of these rows each, and others as far out as noise alone would carry
        some; where several rows have one value, a cell for it. No edge lies on a value that many rows may have: on
        which side of it they are counted would be a matter of rounding."""
        numbers = np.sort(self.channels[0].sorted_by(z))
        cells = int(np.clip(2 * len(numbers) ** (1 / 3), FEWEST_CELLS, MOST_CELLS))
        some = numbers[(np.arange(1, cells) * len(numbers)) // cells]
        apart = max(NEXT * max(1.0, float(np.abs(numbers).max())), self.rounding)
        half = max(0.5 * self.channels[0].step, apart)
        again = some[np.searchsorted(numbers, some, "right") - np.searchsorted(numbers, some) > 1]
        middle, far = float(np.median(numbers)), np.array([self.channels[0].central(share) for share in OUT])
        edges = np.unique(np.concatenate([some + half, again - half, middle - far + half, middle + far + half]))
        return np.asarray(edges[(edges > self.ends[0]) & (edges < self.ends[1])])

    def chances(self, edges: Floats, steps: int, share: float = 1.0) -> list[Matrix]:
        """P(outcome | truth) for every truth, class by class; raises where a channel's law is not stated."""
        return [one.chances(edges, one.truths(self.low, self.high, steps), share) for one in self.channels]

    @property
    def steps(self) -> int:
        """As many as tell laws of neighbouring truths hardly apart."""
        scale = min((one.central(0.5) for one in self.channels), default=0.0)
        return int(np.clip(8 * (self.high - self.low) / scale, 32, MOST_STEPS)) if scale > 0 else 128


@dataclass(frozen=True)
class Laws:
    """P(outcome | truth): for truths that bets are made with, and class by class for `finer` steps of numbers, `grid`
    of them, behind which single truths may stand. `groups`: outcomes that a bet takes for one; `coarse` is summed over
    them. `narrow`: noise may change much between two steps."""

    coarse: Matrix
    finer: tuple[Matrix, ...]
    grid: int
    narrow: bool
    groups: Codes

    @classmethod
    def of(cls, column: Column, edges: Floats, share: float = 1.0) -> Laws:
        coarse = column.chances(edges, column.steps, share)
        steps = max(column.steps * FINER, column.finest)
        finer = column.chances(edges, steps, share)
        grid = 0 if coarse[0].shape == finer[0].shape else steps + 1
        everyone = np.arange(len(finer[0]))
        if not all(np.isfinite(one).all() for one in (*coarse, *finer)):
            raise NotApplicableError("its law cannot be computed for all values")
        return cls(np.hstack(coarse), tuple(finer), grid, column.steps == MOST_STEPS, everyone)

    def merged(self, groups: Codes) -> Laws:
        """Of outcomes in groups."""
        coarse = np.zeros((int(groups.max()) + 1, self.coarse.shape[1]))
        np.add.at(coarse, groups, self.coarse)
        return replace(self, coarse=coarse, groups=groups)

    def most(self, odds: Floats) -> float:
        """The most that any truth expects of these odds. Between two steps a bend can add no more than half of the
        second differences beside it; where noise is too narrow for that, each cumulated probability lies between those
        of both steps, since it only falls or only rises with the truth."""
        found = []
        odds = odds[self.groups]
        for one in self.finer:
            expected = odds @ one
            found.append(float(expected.max()))
            if self.grid and self.narrow:
                below, more = np.cumsum(one[:-1, : self.grid], axis=0), np.diff(odds)[:, None]
                left, right = more * below[:, :-1], more * below[:, 1:]
                found.append(float((odds[-1] - np.minimum(left, right).sum(axis=0)).max()))
            elif self.grid:
                steps = expected[: self.grid]
                bend = np.abs(np.diff(steps, n=2))
                bend = np.concatenate([bend[:1], bend, bend[-1:]])
                found.append(float((np.maximum(steps[:-1], steps[1:]) + np.maximum(bend[:-1], bend[1:]) / 2).max()))
        return max(found)


@dataclass
class Bet:
    """The logarithm of what each outcome multiplies the stake by; outcomes are `merged` into fewer."""

    column: Column
    edges: Floats
    merged: Codes
    seen: Codes
    gains: Floats
    counts: Codes

    @classmethod
    def after(cls, column: Column, z: Matrix) -> Bet | None:
        """What to bet on a column after these rows; None where nothing can be said of it."""
        try:
            edges = column.cells(z)
            laws = Laws.of(column, edges)
        except NotApplicableError:
            return None
        seen = np.bincount(column.channels[0].shown(z, edges), minlength=len(laws.coarse))
        merged = _merged(seen)
        seen = np.bincount(merged, weights=seen).astype(np.int64)
        return cls(column, edges, merged, seen, gains_after(seen, laws.merged(merged)), np.zeros_like(seen))

    def laws(self, share: float = 1.0) -> Laws:
        """What the bet was made by, with all of the noise or a share of it; not kept, since columns may be many."""
        return Laws.of(self.column, self.edges, share).merged(self.merged)

    def add(self, z: Matrix) -> None:
        """Bet on these rows."""
        shown = self.merged[self.column.channels[0].shown(z, self.edges)]
        self.counts += np.bincount(shown, minlength=len(self.counts))

    @property
    def log_won(self) -> float:
        return float(self.counts @ self.gains)


def gains_after(seen: Codes, laws: Laws) -> Floats:
    """Logarithms of the odds that grow fastest after these counts, divided by the most that any truth expects of them.
    The fewer rows were seen, the nearer to what the card allows are the shares that are bet on."""
    rows, prior = int(seen.sum()), 2 * len(seen)
    near = projected(np.asarray((seen + 0.5) / (rows + 0.5 * len(seen))), laws.coarse)
    q = (seen + prior * near) / (rows + prior)
    odds = q / np.maximum(projected(q, laws.coarse), LEAST_SHARE)
    return np.asarray(np.log(np.maximum(odds, 1e-300)) - math.log(laws.most(odds)))


def projected(q: Floats, laws: Matrix) -> Floats:
    """Of all mixtures of columns of `laws` the one with the least KL(q, mixture). By constrained Newton steps [Wang
    2007]: a quadratic model of the likelihood, a least-squares problem without negative shares, and a line search."""
    shares = np.full(laws.shape[1], 1.0 / laws.shape[1])
    p, root = np.maximum(laws @ shares, 1e-300), np.sqrt(q)
    for _ in range(40):
        ratio = laws / p[:, None]
        slope = q @ ratio
        if slope.max() - 1.0 < CLOSE_TO:
            break
        system = np.vstack([root[:, None] * ratio, np.full((1, len(shares)), 1e3)])
        wanted, _ = nnls(system, np.append(2.0 * root, 1e3), maxiter=50 * len(shares))
        step = wanted / wanted.sum() - shares
        length, before, climb = 1.0, q @ np.log(p), float(slope @ step)
        while length > 1e-10 and q @ np.log(np.maximum(laws @ (shares + length * step), 1e-300)) < (
            before + 1e-4 * length * climb
        ):
            length /= 2
        if length <= 1e-10:
            break
        shares = np.maximum(shares + length * step, 0.0)
        p = np.maximum(laws @ shares, 1e-300)
    return np.asarray(np.maximum(laws @ (shares / shares.sum()), 1e-300))


def _merged(seen: Codes) -> Codes:
    """Which group each outcome is put into, so that there are few: neighbours in how often they were seen."""
    if len(seen) <= 2 * MOST_CELLS:
        return np.arange(len(seen))
    found = np.empty(len(seen), dtype=np.int64)
    found[np.argsort(seen, kind="stable")] = np.arange(len(seen)) * MOST_CELLS // len(seen)
    return found


@dataclass
class Bets:
    """All bets on one release. The first `learning` rows are kept until they are enough."""

    columns: list[Column]
    learning: int
    label: Column | None = None
    placed: list[Bet] = field(default_factory=list, init=False)
    _waiting: list[tuple[Matrix, Codes | None]] = field(default_factory=list, init=False)
    _open: bool = field(default=True, init=False)

    @classmethod
    def of(cls, card: Card) -> Bets:
        recipe, label = card.made_by(), None
        if card.label_keep < 1:
            response = RandomizedResponse(card.label_keep, len(card.classes))
            label = Column(slice(0, 0), (response,), 0.0, 1.0, (-math.inf, math.inf))
        return cls(list(columns_of(recipe)), max(1, min(MOST_LEARNED, card.rows // 2)), label)

    def add(self, matrix: Matrix, codes: Codes | None) -> None:
        """One block of rows."""
        if self._open:
            self._waiting.append((matrix, codes))
            if sum(len(block) for block, _ in self._waiting) <= self.learning:
                return
            matrix = np.concatenate([block for block, _ in self._waiting])
            codes = None if codes is None else np.concatenate([some for _, some in self._waiting if some is not None])
            self._waiting, self._open = [], False
            first, matrix = matrix[: self.learning], matrix[self.learning :]
            learned, codes = (None, None) if codes is None else (codes[: self.learning], codes[self.learning :])
            bets = (Bet.after(column, z) for column, z in self._columns(first, learned))
            self.placed = [bet for bet in bets if bet is not None]
        shown = {id(column): z for column, z in self._columns(matrix, codes)}
        for bet in self.placed:
            if (z := shown.get(id(bet.column))) is not None:
                bet.add(z)

    def _columns(self, matrix: Matrix, codes: Codes | None) -> Iterator[tuple[Column, Matrix]]:
        """Every column with the rows that report it."""
        for column in self.columns:
            z = matrix[:, column.place]
            there = ~np.isnan(z[:, 0])
            if there.any():
                yield column, z[there]
        if self.label is not None and codes is not None and len(codes):
            yield self.label, np.eye(self.label.channels[0].width)[codes]

    @property
    def log_won(self) -> float:
        """The logarithm of what a stake of 1 has become: a half on all columns together, a half on each alone."""
        return together([bet.log_won for bet in self.placed], [bet.column.independent for bet in self.placed])


def together(won: Sequence[float], independent: Sequence[bool]) -> float:
    """A half is staked on one column after the other, as far as their noise is independent, a half on each alone."""
    if not won:
        return 0.0
    chain = math.fsum(one for one, apart in zip(won, independent, strict=True) if apart)
    alone = float(logsumexp(won)) - math.log(len(won))
    return float(np.logaddexp(chain, alone)) - math.log(2.0)


def columns_of(recipe: Recipe) -> Iterator[Column]:
    """Every column, or group of them, that noise was stated for."""
    low, high = recipe.map.ranges(recipe.encoding, 1e-9)
    for number, (place, channel) in enumerate(zip(recipe.places, recipe.channels, strict=True)):
        if channel.is_exact or not channel.is_stated:
            continue
        every = [channel, *(some[number] for some in recipe.by_class.values())]
        channels = tuple(one for at, one in enumerate(every) if one not in every[:at])
        ends, rounding = (-math.inf, math.inf), 0.0
        groups = recipe.encoding.groups if recipe.is_columnwise else ()
        group = next((group for group in groups if group.start <= place.start < group.stop), None)
        if group is not None and not group.is_onehot:
            began, width = group.column.bounds[0], group.column.bounds[1] - group.column.bounds[0]
            if group.column.kind == "date":
                ends = (FIRST_DAY - began) / width, (LAST_DAY - began) / width
            rounding = ROUNDING * float(np.spacing(np.abs(group.column.bounds).max())) / width if width else 1.0
        first, last = float(low[place.start]), float(high[place.start])
        finest = FINEST if len(recipe.channels) <= MANY else 0
        yield Column(place, channels, first, last, ends, not isinstance(channel, Mixed), finest, rounding)


# Which departures from its card the rows of a release would have shown: the power of `bets`, for these very rows.
#
# The table is taken to be what the rows suggest under the stated noise. Outcomes of such a table with a share of that
# noise are drawn again and again, for as many rows, and bet on. What is found in 95 of 100 cases is said to be found;
# what is not might have happened here.

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Of the stated noise."""
NO_NOISE = 1e-6
"""Stands for a share of 0."""
OFTEN = 0.95
DRAWS = 12
"""Per column: winnings of many columns add up, and mean and spread of their sum are what counts."""
SMOOTH = 8
"""Steps of deconvolution."""
MOST_COLUMNS = 16
"""So many columns stand for all, evenly chosen."""


@dataclass(frozen=True)
class Power:
    """`found` is the largest share of the stated noise that is often found in all columns together, with every smaller
    one; None if not even missing noise is. `alone`: in how many of `columns` missing noise is found by itself."""

    found: float | None
    alone: int
    columns: int

    @classmethod
    def of(cls, bets: Bets, false_alarms: float) -> Power:
        """Of bets that were placed; a pure function of them."""
        sure = math.log(4 / false_alarms)  # a half for bets, of which a half for columns that follow one another
        every = max(1, len(bets.placed) / MOST_COLUMNS)
        some = [bets.placed[int(place * every)] for place in range(min(len(bets.placed), MOST_COLUMNS))]
        laws = [bet.laws() for bet in some]
        tables = [_table(bet, law.coarse) for bet, law in zip(some, laws, strict=True)]
        rng = np.random.default_rng(0)

        def winnings(share: float) -> Floats:
            return np.array([_won(*one, share, rng) for one in zip(some, laws, tables, strict=True)])

        none = winnings(NO_NOISE)
        alone = sum(_often(mean, spread, sure + math.log(len(bets.placed))) for mean, spread in none)
        apart = np.array([bet.column.independent for bet in some], dtype=bool)

        def seen(share: float) -> bool:
            means, spreads = (none if share == 0 else winnings(share))[apart].T if apart.any() else np.zeros((2, 1))
            return _often(every * means.sum(), math.sqrt(every * (spreads**2).sum()), sure)

        found, low, high = None, 0, len(SHARES) - 1
        while low <= high:  # what is found is found with less noise too
            middle = (low + high) // 2
            if seen(SHARES[middle]):
                found, low = SHARES[middle], middle + 1
            else:
                high = middle - 1
        if alone and found is None:
            found = 0.0
        return cls(found, round(alone * every), len(bets.placed))

    def in_words(self, rows: int) -> str:
        """One or two sentences."""
        at = f"At {counted(rows, 'row')}"
        if self.found is None:
            return f"{at} less noise than is stated, even none, need not show."
        amount = "missing noise" if self.found == 0 else f"noise of {self.found:g} of what is stated, or less,"
        more = f"from {min(one for one in (*SHARES, 1.0) if one > self.found):g} of it on it need not show"
        return (
            f"{at} {amount} would be found in 95 of 100 cases; {more}. Missing in a single column it would be found in "
            f"{self.alone} of {counted(self.columns, 'column')}."
        )


def _table(bet: Bet, laws: Matrix) -> Floats:
    """How true values may be spread: a few steps of deconvolution from an even table, which stay on the smooth side. A
    table that is spread more widely hides more."""
    shown = bet.seen + bet.counts
    shares = np.full(laws.shape[1], 1.0 / laws.shape[1])
    for _ in range(SMOOTH):
        shares *= (shown / shown.sum() / np.maximum(laws @ shares, 1e-300)) @ laws
    return np.asarray(shares / shares.sum())


def _won(bet: Bet, laws: Laws, table: Floats, share: float, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and spread of what a bet wins where there is so much of the noise."""
    chances = np.maximum(bet.laws(share).coarse @ table, 0.0)
    chances /= chances.sum()
    rows, others = int(bet.seen.sum()), int(bet.counts.sum())
    learned, later = rng.multinomial(rows, chances, DRAWS), rng.multinomial(others, chances, DRAWS)
    won = [float(counts @ gains_after(seen, laws)) for seen, counts in zip(learned, later, strict=True)]
    return float(np.mean(won)), float(np.std(won, ddof=1))


def _often(mean: float, spread: float, needed: float) -> bool:
    """Whether winnings of this mean and spread exceed what is needed often enough."""
    return bool(ndtr((mean - needed) / max(spread, 1e-9)) >= OFTEN)
