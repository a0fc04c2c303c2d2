"""Condensation: groups of k near rows are replaced by new rows with the group's moments [Aggarwal & Yu 2004]."""

from __future__ import annotations

import math
import warnings
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from sfumato.channels import Identity, Recipe, Unstated
from sfumato.core.array_types import Codes, Matrix
from sfumato.guarantee import Key
from sfumato.mechanisms.base import Block, Mechanism
from sfumato.mechanisms.parameters import Knob, is_count
from sfumato.table import Encoding
from sfumato.table.statistics import Statistics

# Groups of near rows: a random row with its k - 1 nearest, again and again; leftovers join the nearest group.


CANDIDATES = 4
"""Neighbours looked up at once, as a multiple of k."""
ENOUGH = 256
"""Centres looked up at once, at least."""


def nearest(X: Matrix, Y: Matrix, k: int = 1) -> tuple[Matrix, Codes]:
    from sfumato.table.neighbours.nearest import nearest as found  # which no other method needs

    return found(X, Y, k)


def nearest_groups(X: Matrix, k: int, rng: np.random.Generator) -> list[Codes]:
    """Positions of the rows of each group; every group has at least k rows if there are k rows at all."""
    count = len(X) // k
    if count < 2:
        return [np.arange(len(X))]
    groups = _full_groups(X, k, count, rng)
    left = np.setdiff1d(np.arange(len(X)), np.concatenate(groups))
    if len(left):
        centres = np.array([X[group].mean(axis=0) for group in groups])
        _, home = nearest(X[left], centres)
        for row, group in zip(left, home[:, 0], strict=True):
            groups[group] = np.append(groups[group], row)
    return groups


def _full_groups(X: Matrix, k: int, count: int, rng: np.random.Generator) -> list[Codes]:
    """Static condensation: the free rows in random order, each taking its k - 1 nearest free rows with it.

    The nearest rows of many centres are looked up at once, among the rows that are free by then. Groups taken in the
    meantime only shorten such a list, so its first k free rows are still the k nearest; a centre whose list was
    used up is looked up again, alone. The groups are those of one search after another.
    """
    free = np.ones(len(X), dtype=bool)
    order = rng.permutation(len(X))
    groups: list[Codes] = []
    while len(groups) < count:
        rows = np.flatnonzero(free)
        order = order[free[order]]
        batch = order[: max(ENOUGH, len(rows) // (CANDIDATES * k))]
        _, found = nearest(X[batch], X[rows], k=min(len(rows), CANDIDATES * k))
        for centre, line in zip(batch, rows[found], strict=True):
            if len(groups) == count or not free[centre]:
                continue
            usable = line[free[line]][:k]
            if len(usable) < k:
                rest = np.flatnonzero(free)
                usable = rest[nearest(X[centre : centre + 1], X[rest], k=k)[1][0]]
            if centre not in usable:  # rows equal to the centre may crowd it out
                usable[-1] = centre
            free[usable] = False
            groups.append(usable)
    return groups


NEITHER = (
    "Condensation is neither k-anonymity nor differential privacy: every new row is drawn inside a small group of "
    "neighbours, so it lies near a real person's row."
)


class CondensationWarning(UserWarning):
    """Groups too small to hide anybody, or too small to vary in every direction."""


class Condensation(Mechanism):
    """Within each class, group every row with its k - 1 nearest rows and redraw the group from its moments.

    A group's covariance has eigenvalues lambda_j and eigenvectors e_j; new rows are the group's mean plus, along each
    e_j independently, a uniform variable of variance lambda_j, that is on ``[-sqrt(3 lambda_j), sqrt(3 lambda_j)]``.
    Rows left over join the nearest group. It needs the whole table at once. A group of k <= d rows spans fewer
    directions than there are columns: its new rows lie in the plane of the old ones (`degenerate_groups_`). A class of
    fewer than k rows is one group, and a class of one row is released unchanged.

    Parameters
    ----------
    k : rows in a group.
    """

    name = "condensation"
    learns = False
    columnwise = True
    whole_table = True
    papers = ("random-rotation",)
    published = MappingProxyType({})
    own_knob = Knob("k", 2, 300, protects=True, whole=True)
    not_protected = (
        "Every released row lies inside a group of neighbours; the nearest original row is often a close guess.",
    )

    k: int = 10

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check("a whole number above 1", lambda one: is_count(one) and one > 1, k=self.k)
        self.encoding_ = encoding
        self.groups_, self.smallest_group_, self.degenerate_groups_ = 0, 0, 0
        # A group of rows in [0,1] with mean m has a variance of at most m (1 - m), so that new values lie within
        # sqrt(3 d m (1 - m)) of m (by Cauchy and Schwarz over the d directions).
        half = 0.5 * math.sqrt(1.0 + 3.0 * encoding.width)
        channels = tuple(Unstated(group.width, 0.5 - half, 0.5 + half) for group in encoding.groups)
        self.recipe_ = Recipe(encoding, Identity(encoding.width), channels, rows="drawn")
        return self

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        codes = np.zeros(len(X), dtype=np.int64) if y is None else y
        rows, sources = [X[:0]], [np.empty(0, dtype=np.int64)]
        for code in np.unique(codes):
            members = np.flatnonzero(codes == code)
            for group in nearest_groups(X[members], self.k, rng):
                redrawn = redraw(X[members[group]], rng)
                rows.append(redrawn)
                # New rows have no source of their own: each is traced to the member it is nearest to.
                squares = ((redrawn[:, None] - X[members[group]][None]) ** 2).sum(axis=2)
                sources.append(members[group][squares.argmin(axis=1)])
        self._note([len(part) for part in rows[1:]], X.shape[1])
        source = np.concatenate(sources)
        return Block(np.concatenate(rows), None if y is None else y[source], source)

    def _note(self, sizes: list[int], width: int) -> None:
        """Keep for the owner how large the groups were, and warn where they protect even less than usual."""
        self.groups_ = len(sizes)
        self.smallest_group_ = min(sizes, default=0)
        self.degenerate_groups_ = sum(size <= width for size in sizes)
        told = []
        if self.smallest_group_ < self.k:
            alone = sizes.count(1)
            exact = f" {alone} of them have one row, which is released unchanged." if alone else ""
            told.append(
                f"{sum(size < self.k for size in sizes)} of {len(sizes)} groups have fewer than k = {self.k} rows, "
                f"because their class has no more.{exact} Merge rare classes, or leave them out."
            )
        if self.degenerate_groups_:
            told.append(
                f"{self.degenerate_groups_} of {len(sizes)} groups have no more rows than the {width} encoded "
                "columns: their new rows lie in the plane of the old ones. Choose a larger k."
            )
        for words in told:
            warnings.warn(words, CondensationWarning, stacklevel=3)

    def notes(self) -> dict[str, Any]:
        return {name: getattr(self, f"{name}_") for name in ("groups", "smallest_group", "degenerate_groups")}

    def sentence(self) -> str:
        return NEITHER

    def learned(self) -> list[str]:
        return [*super().learned(), "means and covariances of groups of neighbours"]


def redraw(group: Matrix, rng: np.random.Generator) -> Matrix:
    """As many new rows as the group has, with its mean and, on average, its covariance."""
    mean = group.mean(axis=0)
    centred = group - mean
    # Singular vectors of the centred group are the eigenvectors of its covariance, at a cost of k^2 d.
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    spread = singular / np.sqrt(len(group))
    uniform = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size=(len(group), len(spread)))
    redrawn: Matrix = mean + (uniform * spread) @ axes
    return redrawn
