"""New rows from a kernel density estimate of each class: one-way sharing between sites [kernel-resampling].

A released row of class c comes from one of the N_c rows of that class, each with probability 1 / N_c, independently
of the other released rows: the numbers of times that rows are drawn are multinomial. A table that is read in blocks
must not change that. Given how many rows n_bc of class c block b holds, the numbers D_bc of draws from the blocks are
multinomial(M_c; n_bc / N_c), which is drawn as a chain of binomials,

    D_bc ~ Binomial(M_c - draws so far, n_bc / (N_c - rows so far)),

and within a block every draw is uniform: together these are M_c independent uniform draws from the whole class.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from sfumato.channels import Additive, Channel, Exact, Identity, Mixed, OrMissing, RandomizedResponse, Recipe
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.core.wording import counted, in_a_row
from sfumato.guarantee import Key
from sfumato.mechanisms.bandwidth import (
    CHOSEN_BY_LIKELIHOOD,
    GIVEN,
    MATRICES,
    POOLING,
    PUBLISHED,
    RULES,
    Bandwidths,
    Choice,
    RowSample,
    best_constant,
    category_mixing,
    correlated_root,
    kernel_named,
    rule_width,
)
from sfumato.mechanisms.base import FIT, MEASURE, Block, Given, Mechanism, Phase, Rows
from sfumato.mechanisms.parameters import Knob, is_number
from sfumato.noise import Streams
from sfumato.noise.law import is_own, own_law
from sfumato.table import Encoding, Group
from sfumato.table.statistics import NO_CLASS, Moments, Statistics

# What a card says of rows that were drawn from kernels, in the place of a guarantee.


NO_GUARANTEE = (
    "Every row lies within {near} of a real person, and there is no guarantee for the record: a released row is "
    "somebody's row with each number moved by {moved}, where h is the bandwidth that this card states for the column "
    "and class. {categories}A person may be drawn several times, or not at all."
)
AT_MOST = "at most h, with certainty"
NORMAL = "normal noise of standard deviation h (within 3 h in 997 of 1,000 cases)"
SPREAD = "noise of a standard deviation of up to {:.2f} h"
SHARED = (
    "Columns share their noise (a bandwidth that is a matrix): a column's h is the length of its weights, and "
    "combinations of columns in which the class varies little are moved little. "
)
PER_DRAW = "Categories and empty cells are kept with the stated probability; the resulting bound holds per draw only. "
LEARNED = (
    (RULES, "bandwidths, from the standard deviation of every column in every class"),
    (MATRICES, "how noise is correlated, from the correlations of the columns in every class"),
    (CHOSEN_BY_LIKELIHOOD, "how wide a kernel fits best, from the distances between the rows of every class"),
)
MOST_NAMED = 8
TILE = 1 << 14
"""Values smoothed at a time, so that noise and rows meet in a core's cache."""


class KernelResamplingWarning(UserWarning):
    """Columns that are released unchanged."""


@dataclass(frozen=True)
class ClassKernel:
    """The kernel of one class: bandwidth per encoded column (0: no smoothing), and how categories are redrawn."""

    widths: Matrix
    responses: dict[int, RandomizedResponse]
    block: Codes
    """Columns that share noise, and how: z = x + root u. Rows of `root` are as long as their columns' widths."""
    root: Matrix


Counts = dict[int, int]
"""Class code -> number of rows."""
MOST_ROWS = 10**12


@dataclass(frozen=True)
class CountedBlocks:
    statistics: Statistics
    blocks: Mapping[int, Counts]

    def __add__(self, other: CountedBlocks) -> CountedBlocks:
        return CountedBlocks(self.statistics + other.statistics, {**self.blocks, **other.blocks})


class KernelResampling(Mechanism):
    """Draw new rows from a product kernel density estimate of the rows of each class [kernel-resampling, Alg. 1].

    A row r of the class is picked at random and h_i u_i is added to its i-th number, where u_i has the kernel's law.
    Eq. 16 gives h_i = (4/(d+2))^(1/(d+4)) N^(-1/(d+4)) sigma_i from the class's N rows and unbiased sigma_i. Integers
    and ordinals are smoothed as numbers. Categories have the Aitchison-Aitken kernel: kept, or with probability m
    redrawn from all of them (lambda = m (c - 1) / c). An empty cell is a category of two, and one that is filled gets a
    value from anywhere in the range. A column that is constant in a class stays as it is there.

    Parameters
    ----------
    kernel : "epanechnikov", "gaussian", "uniform", "triangular", "biweight", or a law as a text with the mean 0, as
        "cosine(scale=1)" of scipy.stats or "table(-1: 0, 0: 1, 1: 0)": its own scale does not matter.
    bandwidth : "pooling" (as spread as the paper's kernel, whichever kernel is used; d counts the columns that vary in
        the class), "scaled" (best for the density of normal rows), "likelihood" (chosen in each class by leave-one-out
        likelihood), "published" (Eq. 16 as it stands), or h itself as a share of the column's range, which then depends
        on no data. "matrix" and "matrix-likelihood" are as wide as "pooling" and "likelihood", with noise that is
        correlated as the class's columns are; a list of lists is the matrix H itself, in shares of the ranges.
        A list or a mapping gives one for each column, ``{"by_class": {...}}`` for each class.
    rows : rows to release: None as many as there are, a count (1000), or a share (0.5).
    category_mixing : m; None lets it follow from N and d, so that categories lose as much correlation as numbers.
    """

    name = "kernel-resampling"
    estimates_density = True
    columnwise = True
    redraws = True
    column_choices = frozenset({"kernel", "bandwidth"})
    own_knob = Knob("bandwidth", 0.005, 2.0, protects=True)
    papers = ("kernel-resampling",)
    published = MappingProxyType({"kernel": "epanechnikov", "bandwidth": "published"})
    not_protected = (
        "Every released row lies near a real person's row, by the bandwidth, and that row is usually the nearest "
        "one: whoever holds the person's record recognises it.",
        "Every further draw narrows a person's values down more.",
        "A column that is constant within a class is released unchanged, for everybody in that class.",
    )

    kernel: str = "epanechnikov"
    bandwidth: Choice | Sequence[Any] | Mapping[str, Any] = POOLING
    rows: float | int | None = None
    category_mixing: float | None = None

    counts_: Counts = field(init=False)
    draws_: Counts = field(init=False)
    shares_: Mapping[int, Counts] = field(init=False)
    """How many rows are drawn from every block of the table, by class."""

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        for kernel in (self.kernel, *map(self._kernel_of, encoding.groups)):
            kernel_named(kernel)  # refuses what is none
        if self.category_mixing is not None:
            below = "a probability below 1"
            self._check(below, lambda one: is_number(one) and 0 <= one < 1, category_mixing=self.category_mixing)
        self.encoding_ = encoding
        self.counts_ = {code: moments.n for code, moments in statistics.items() if moments.n}
        self.draws_ = apportioned(self.counts_, self.wanted(statistics.n))
        named = encoding.classes
        words = {code: named[code] if 0 <= code < len(named) else str(code) for code in self.counts_}
        self.bandwidths_ = Bandwidths.of(self.bandwidth, [group.column for group in self._numbers()], words)
        if alone := sum(count == 1 and self.bandwidths_.ask(RULES, code) for code, count in self.counts_.items()):
            raise TableError(
                f"{alone} of {len(self.counts_)} classes have a single row: its spread is unknown, so it would be "
                "released unchanged. Merge rare classes or leave them out, or give the bandwidth as a number."
            )
        self.moments_ = {code: statistics[code] for code in self.counts_}
        self._settle(dict.fromkeys(self.counts_, 1.0))
        self._warn_of_constants()
        return self

    def _kernel_of(self, group: Group) -> str:
        return group.column.choices.kernel or self.kernel

    def _settle(self, constants: Mapping[int, float]) -> None:
        """The kernels of all classes, and the recipe that says so."""
        self.kernels_ = {code: self._class_kernel(code, constants[code]) for code in self.counts_}
        by_class = {code: self._channels(kernel) for code, kernel in self.kernels_.items()}
        self.recipe_ = Recipe(self.encoding_, Identity(self.encoding_.width), self._widest(), "drawn", by_class)

    def fitting(self, given: Given) -> Iterator[Phase]:
        """The fit, whose end deals the draws to the blocks; a constant that is chosen by likelihood needs rows of each
        class to hold against each other."""

        def observe(rows: Rows) -> CountedBlocks:
            statistics = self.statistics(rows.X, rows.y)
            return CountedBlocks(statistics, {rows.number: {code: one.n for code, one in statistics.items()}})

        def finish(found: CountedBlocks) -> None:
            self.fit_statistics(found.statistics, given.encoding, given.key)
            numbers = sorted(found.blocks)
            rng = given.streams.generator(0, b"", b"draws")
            drawn = self.shares([found.blocks[number] for number in numbers], rng)
            self.shares_ = dict(zip(numbers, drawn, strict=True))

        yield Phase(FIT, observe, finish)
        if self.bandwidths_.ask(CHOSEN_BY_LIKELIHOOD):
            yield Phase(MEASURE, lambda rows: RowSample.among(rows.X, self._codes(rows.X, rows.y)), self._fit_constants)

    def statistics(self, X: Matrix, y: Codes | None) -> Statistics:
        return Statistics.of(X, y)

    def released(self, rows: int) -> int:  # noqa: ARG002 (the fit has counted them)
        return sum(self.draws_.values())

    def wanted(self, there: int) -> int:
        if self.rows is None:
            return there
        must = "a count (1000) or a share of the table (0.5)"
        self._check(must, lambda one: is_number(one) and 0 < one <= MOST_ROWS, rows=self.rows)
        return int(self.rows) if isinstance(self.rows, Integral) else max(1, round(self.rows * there))

    def shares(self, blocks: Sequence[Mapping[int, int]], rng: np.random.Generator) -> list[Counts]:
        """How many rows are drawn from every block, by class, given how many each block holds; jointly multinomial."""
        found: list[Counts] = [{} for _ in blocks]
        for code, wanted in self.draws_.items():
            left, rows = wanted, self.counts_[code]
            for share, block in zip(found, blocks, strict=True):
                here = block.get(code, 0)
                if here:
                    share[code] = int(rng.binomial(left, min(1.0, here / rows)))
                    left, rows = left - share[code], rows - here
        return found

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        """A block alone: its share is drawn as if others held the rest, so that it is right for each block by itself.

        Blocks of one table are right together only with `shares` and `draw`.
        """
        share = {}
        for code, here in zip(*np.unique(self._codes(X, y), return_counts=True), strict=True):
            share[int(code)] = int(rng.binomial(self.draws_[code], min(1.0, here / self.counts_[code])))
        return self.draw(X, y, share, rng)

    def release_block(self, rows: Rows, rng: np.random.Generator, streams: Streams) -> Block:  # noqa: ARG002
        return self.draw(rows.X, rows.y, self.shares_[rows.number], rng)

    def draw(self, X: Matrix, y: Codes | None, share: Mapping[int, int], rng: np.random.Generator) -> Block:
        """Release `share` new rows of every class of this block."""
        codes, chosen = self._codes(X, y), [np.empty(0, dtype=np.int64)]
        wanted = [(code, count) for code, count in sorted(share.items()) if count]
        for code, count in wanted:
            members = np.flatnonzero(codes == code)
            chosen.append(members[rng.integers(len(members), size=count)])
        source = np.concatenate(chosen)
        out, start = gathered(X, source), 0
        for code, count in wanted:
            self.smooth(out[:, start : start + count], code, rng)
            start += count
        return Block(out.T, None if y is None else codes[source], source)

    def _codes(self, X: Matrix, y: Codes | None) -> Codes:
        codes = np.full(len(X), NO_CLASS) if y is None else y
        if set(np.unique(codes).tolist()) - set(self.counts_):
            raise TableError(
                f"{self.name} was fitted on rows with different classes. Fit it on the same table, "
                "with the column to predict or without it."
            )
        return codes

    def _fit_constants(self, sample: RowSample) -> None:
        constants = {}
        for code in self.counts_:
            sigma = self._sigma(self.moments_[code])
            shared = self._shared(code, sigma) if self.bandwidths_.ask(MATRICES, code) else ()
            constants[code] = best_constant(sample.rows.get(code), sigma, *shared)
        self._settle(constants)

    def _widest(self) -> tuple[Channel, ...]:
        """Of the class with the widest kernel, column by column; where columns share noise, of one class as it is."""
        kernels = list(self.kernels_.values())
        if any(len(kernel.block) for kernel in kernels):
            return self._channels(max(kernels, key=lambda kernel: float((kernel.widths**2).sum())))
        places = kernels[0].responses
        loosest = {place: min((k.responses[place] for k in kernels), key=lambda r: r.keep) for place in places}
        widths = np.max([kernel.widths for kernel in kernels], axis=0)
        return self._channels(replace(kernels[0], widths=widths, responses=loosest))

    def _channels(self, kernel: ClassKernel) -> tuple[Channel, ...]:
        found: list[Channel] = []
        weights = dict(zip(kernel.block.tolist(), kernel.root.tolist(), strict=True))
        for place, group in enumerate(self.encoding_.groups):
            width, law = float(kernel.widths[group.start]), kernel_named(self._kernel_of(group)).law
            number: Channel = Additive(law(width)) if width > 0 else Exact()
            if group.is_onehot:
                number = kernel.responses[place]
            elif group.has_indicator:
                number = OrMissing(number, kernel.responses[place].keep, anywhere=not group.is_constant)
            elif group.start in weights:
                number = Mixed(law(1.0), tuple(weights[group.start]))
            found.append(number)
        return tuple(found)

    def _numbers(self) -> list[Group]:
        return [group for group in self.encoding_.groups if not group.is_onehot]

    def _sigma(self, moments: Moments) -> Matrix:
        """Standard deviation of every number in a class; 0 for slots of categories and what is constant there."""
        numbers = [group.start for group in self._numbers()]
        sigma = np.zeros(self.encoding_.width)
        # What is constant must stay so: rounding leaves a speck of variance where there is none.
        varies = moments.high[numbers] > moments.low[numbers]
        sigma[numbers] = np.where(varies, np.sqrt(np.maximum(np.diag(moments.covariance()), 0.0)[numbers]), 0.0)
        return sigma

    def _class_kernel(self, code: int, constant: float) -> ClassKernel:
        moments = self.moments_[code]
        sigma, chosen = self._sigma(moments), self.bandwidths_.choices[code]
        varying = int((sigma > 0).sum())
        widths = np.zeros_like(sigma)
        for group in self._numbers():
            choice = chosen[group.column.name]
            if choice == GIVEN:
                continue
            if isinstance(choice, str):
                columns = len(chosen) if choice == PUBLISHED else varying
                widths[group.start] = sigma[group.start] and sigma[group.start] * rule_width(
                    choice, self._kernel_of(group), moments.n, columns, constant
                )
            elif not group.is_constant:
                widths[group.start] = choice
        block, root = self._shared(code, sigma)
        if code in self.bandwidths_.roots:
            widths[block] = np.linalg.norm(root, axis=1)
        else:
            root = root * (widths[block] / sigma[block])[:, None]  # all by the same factor
        columns = len(chosen) if PUBLISHED in chosen.values() else varying
        mixing = category_mixing(moments.n, columns) if self.category_mixing is None else float(self.category_mixing)
        responses = {}
        for place, group in enumerate(self.encoding_.groups):
            if group.is_onehot or group.has_indicator:
                categories = group.width if group.is_onehot else 2
                # the log-ratio of keeping a category to drawing any other one: the epsilon of one draw
                kept = math.inf if mixing == 0 else math.log1p(categories * (1.0 - mixing) / mixing)
                responses[place] = RandomizedResponse.of_epsilon(kept, categories)
        return ClassKernel(widths, responses, block, root)

    def _shared(self, code: int, sigma: Matrix) -> tuple[Codes, Matrix]:
        """Columns of the class that share noise, and B of one bandwidth. What may be missing keeps to itself, since an
        empty cell would take its part of the noise with it, and so does what is constant."""
        chosen = self.bandwidths_.choices[code]
        numbers = [group for group in self._numbers() if chosen[group.column.name] in (*MATRICES, GIVEN)]
        if code in self.bandwidths_.roots:
            wanted = numbers
        else:
            wanted = [group for group in numbers if not group.has_indicator and sigma[group.start] > 0]
        if len({self._kernel_of(group) for group in wanted}) > 1:
            raise UsageError("Columns that share noise by a matrix have one kernel. Give all of them the same.")
        block: Codes = np.array([group.start for group in wanted], dtype=np.int64)
        if code in self.bandwidths_.roots:
            return block, self.bandwidths_.roots[code]
        covariance = self.moments_[code].covariance()[np.ix_(block, block)]
        return block, correlated_root(covariance, sigma[block]) if len(block) else np.zeros((0, 0))

    def _warn_of_constants(self) -> None:
        wide = [group.start for group in self._numbers() if not group.is_constant]
        self.unsmoothed_ = sum(int((kernel.widths[wide] == 0).sum()) for kernel in self.kernels_.values())
        if self.unsmoothed_:
            warnings.warn(
                f"{counted(self.unsmoothed_, 'time')} a column is constant within a class and is released unchanged, "
                "for everybody in the class. Drop such columns, or give the bandwidth as a number.",
                KernelResamplingWarning,
                stacklevel=4,
            )

    def smooth(self, columns: Matrix, code: int, rng: np.random.Generator) -> None:
        """Perturb drawn rows of one class in place; `columns` has a row for every encoded column."""
        kernel = self.kernels_[code]
        if len(kernel.block):
            first = next(group for group in self._numbers() if group.start == kernel.block[0])
            law, rows = kernel_named(self._kernel_of(first)).law(1.0), columns.shape[1]
            for tile in tiles(rows, max(1, TILE // len(kernel.block))):
                shape = len(kernel.block), tile.stop - tile.start
                columns[kernel.block, tile] += kernel.root @ law.sample(rng, shape)
        for group in self._numbers():
            width = float(kernel.widths[group.start])
            if width > 0 and group.start not in kernel.block:
                law = kernel_named(self._kernel_of(group)).law(width)
                for tile in tiles(columns.shape[1], TILE):
                    columns[group.start, tile] += law.sample(rng, tile.stop - tile.start)
        for place, response in kernel.responses.items():
            group = self.encoding_.groups[place]
            if group.is_onehot:
                columns[group.slice] = response.draw(columns[group.slice].T, rng).T
                continue
            was_empty = columns[group.stop - 1] > 0.5
            columns[group.stop - 1] = response.draw_codes(was_empty.astype(np.int64), rng)
            # A cell that was empty and is now shown has a value from anywhere; one that is empty now has none.
            empty = columns[group.stop - 1] > 0.5
            filled = was_empty & ~empty
            columns[group.start, empty] = 0.5
            columns[group.start, filled] = 0.5 if group.is_constant else rng.random(int(filled.sum()))

    def sentence(self) -> str:
        kernels = self.kernels_.values()
        sharing = {start for kernel in kernels for start in kernel.block.tolist()}
        by_noise: dict[str, list[str]] = {}
        for group in self._numbers():
            shape = kernel_named(self._kernel_of(group))
            moved = AT_MOST if shape.bounded else NORMAL
            if group.start in sharing:  # so that no column's own bandwidth bounds it
                moved = SPREAD.format(math.sqrt(shape.variance))
            by_noise.setdefault(moved, []).append(group.column.name)
        if not by_noise:
            by_noise[AT_MOST if kernel_named(self.kernel).bounded else NORMAL] = []
        each = (f"{noise}, in {in_a_row(names, MOST_NAMED)}" for noise, names in by_noise.items())
        return NO_GUARANTEE.format(
            near="h" if list(by_noise) == [AT_MOST] else "a few h",
            moved=next(iter(by_noise)) if len(by_noise) == 1 else "; ".join(each),
            categories=(SHARED if sharing else "") + (PER_DRAW if any(kernel.responses for kernel in kernels) else ""),
        )

    def learned(self) -> list[str]:
        by_rule = [words for rules, words in LEARNED if self.bandwidths_.ask(rules)]
        return [*super().learned(), "number of rows of every class", *by_rule]

    def parameters_used(self) -> dict[str, Any]:
        used = super().parameters_used()
        if is_own(self.kernel):
            used["kernel"] = str(own_law(self.kernel).to_dict()["law"])  # a file has become its table
        if self.bandwidths_.roots:
            return used | {"bandwidth": _plain(self.bandwidth)}
        if "bandwidth" not in used:  # a list: a card says which column each belongs to
            used["bandwidth"] = next(iter(self.bandwidths_.choices.values()))
        return used

    def notes(self) -> dict[str, Any]:
        return {"unsmoothed_columns": self.unsmoothed_} if self.unsmoothed_ else {}


def _plain(bandwidth: Any) -> Any:
    if isinstance(bandwidth, Mapping):
        return {str(name): _plain(one) for name, one in bandwidth.items()}
    return np.asarray(bandwidth).tolist() if isinstance(bandwidth, np.ndarray | Sequence) else bandwidth


def apportioned(counts: Mapping[int, int], wanted: int) -> Counts:
    """`wanted` rows over the classes in proportion to their counts, by the largest remainders; ties to lower codes."""
    total = sum(counts.values())
    whole = {code: wanted * count // total for code, count in counts.items()}
    remainders = sorted(counts, key=lambda code: (-(wanted * counts[code] % total), code))
    for code in remainders[: wanted - sum(whole.values())]:
        whole[code] += 1
    return whole


GATHERED = 1 << 12
"""Rows gathered at a time where rows lie together: they are turned round in a core's cache."""


def gathered(X: Matrix, source: Codes) -> Matrix:
    """The rows `source` of X, column after column."""
    if X.flags.f_contiguous:
        return np.take(X.T, source, axis=1)
    out = np.empty((X.shape[1], len(source)))
    for tile in tiles(len(source), GATHERED):
        out[:, tile] = X[source[tile]].T
    return out


def tiles(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
