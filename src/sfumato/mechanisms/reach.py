"""How far out a released cell can lie: what the stated noise could have made of any value of the domain.

Every column of the release matrix has an interval before noise (the range of a column, of a component, of a rotated
row) and a law. What lies further out than that interval and the law's tail was not made by the mechanism, or by a
chance of at most `FALSE_ALARMS` for all cells of an honest release together: each of its n noised cells may use up
``FALSE_ALARMS / n`` of it, half on each side. Bounded noise (uniform, Epanechnikov) gives a hard interval, which an
honest cell never leaves; so do mechanisms without noise.

Student's t has a polynomial tail: honest cells lie thousands of scales out, and no interval tells them from forged
ones. Where the tail reaches further than `FURTHEST` distances of the law's quartile, cells are not refused. Whoever
learns from such a release takes them at that distance (`clipped`), as robust statistics does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sfumato.guarantee import Card
from sfumato.guarantee.affine import component_ranges
from sfumato.mechanisms.condensation import Condensation
from sfumato.mechanisms.random_projection import RandomProjection
from sfumato.noise import CUSTOM, Law, OperatorNoise
from sfumato.table import Group

Matrix = NDArray[np.float64]
Span = tuple[float, float]

FALSE_ALARMS = 1e-9
"""Honest releases in which some cell is called impossible, at most."""
FURTHEST = 100.0
"""Distances of a law's quartile from its middle. Laplace noise needs 65 of them for fifty billion cells."""
ROUNDING = 1e-6
"""What grids and doubles add to an interval, as a share of its length."""
GRID = 1025
"""Values of the domain at which an operator is looked at; intervals are widened by the largest step between two."""


@dataclass(frozen=True)
class Reach:
    """Lowest and highest possible value of every column of the release matrix, and the written column behind it.

    `checked` is False where a law's tail gives no useful bound; `bits`: cells are 0 or 1 and nothing between.
    """

    low: Matrix
    high: Matrix
    names: tuple[str, ...]
    checked: NDArray[np.bool_]
    bits: bool = False

    @classmethod
    def of(cls, card: Card, false_alarms: float = FALSE_ALARMS) -> Reach:
        """From the card alone; what the release was made from is not needed."""
        if card.is_columnwise:
            return _columnwise(card, false_alarms)
        names = tuple(column["name"] for column in card.release_schema["columns"])
        if card.transform["kind"] == "guided":
            width = len(names)
            return cls(np.zeros(width), np.ones(width), names, np.ones(width, dtype=bool), bits=True)
        return _mixed(card, names, false_alarms)

    def outside(self, matrix: Matrix) -> list[tuple[int, str]]:
        """Row numbers, from 0, and columns of cells that this noise cannot have made."""
        far = ~((matrix >= self.low) & (matrix <= self.high)) & self.checked
        if self.bits:
            far |= (matrix != 0.0) & (matrix != 1.0)
        return [(int(row), self.names[column]) for row, column in np.argwhere(far)]


def _columnwise(card: Card, false_alarms: float) -> Reach:
    groups, columns = card.source_encoding().groups, card.release_schema["columns"]
    carried = card.operator_noise() if all(not _is_custom(column) for column in columns) else None
    share = _share(card, sum(not group.is_onehot for group in groups), false_alarms)
    condensed = card.mechanism["name"] == Condensation.name and card.post_processing is None
    spans, checked, names = [], [], []
    for group, column in zip(groups, columns, strict=True):
        names += [group.column.name] * group.width
        spans += [(0.0, 1.0)] * group.width  # categories and "missing"
        checked += [True] * group.width
        if group.is_onehot or group.is_constant:
            continue
        noise = None if carried is None else carried[column["name"]]
        if noise is not None:
            spans[group.start], checked[group.start] = _carried(group, noise, share)
        elif carried is None and column["noise"] is not None:  # only who made such an operator knows what it does
            spans[group.start], checked[group.start] = (-math.inf, math.inf), False
        elif condensed:
            spans[group.start] = _condensed(sum(one.width for one in groups))
        spans[group.start] = _rounded(spans[group.start], group)
    low, high = np.array(spans, dtype=np.float64).reshape(-1, 2).T
    return Reach(low, high, tuple(names), np.array(checked, dtype=bool))


def _is_custom(column: dict[str, object]) -> bool:
    noise = column["noise"]
    return isinstance(noise, dict) and noise.get("operator") == CUSTOM


def _mixed(card: Card, names: tuple[str, ...], false_alarms: float) -> Reach:
    """Components of a public map, or of a secret one of which only the kind is known."""
    groups, laws = card.source_encoding().groups, card.laws()
    affine = card.affine()
    if affine is not None:
        ends = [end + affine[1] for end in component_ranges(affine[0], groups)]
    else:
        reach = _secret_reach(card, groups, len(names), false_alarms)
        ends = [np.full(len(names), -reach), np.full(len(names), reach)]
    share = _share(card, len(names), false_alarms)
    tails = [((0.0, 0.0), True) if law is None else _tail(law, share) for law in laws]
    low = ends[0] + [span[0] for span, _ in tails]
    high = ends[1] + [span[1] for span, _ in tails]
    slack = ROUNDING * (high - low + 1.0)
    return Reach(low - slack, high + slack, names, np.array([bounded for _, bounded in tails], dtype=bool))


def _secret_reach(card: Card, groups: tuple[Group, ...], components: int, false_alarms: float) -> float:
    """Of a rotation around a centre in the unit cube, sqrt d. Of a Gaussian projection, the longest row of its matrix
    that the draw of a key gives but for a chance of `false_alarms`, times the longest record."""
    width = sum(group.width for group in groups)
    if card.mechanism["name"] != RandomProjection.name:
        return math.sqrt(width)
    longest = math.sqrt(sum(float((group.vertices**2).sum(axis=1).max()) for group in groups))
    squared = float(special.chdtri(width, false_alarms / components)) / components
    return longest * math.sqrt(squared)


def _share(card: Card, columns: int, false_alarms: float) -> float:
    """What one cell may use up of the false alarms."""
    return false_alarms / max(1, card.rows * columns)


def _tail(law: Law, share: float) -> tuple[Span, bool]:
    """The interval that noise leaves with probability `share`, and whether it is short enough to hold cells against.

    Laws are symmetric about their mean, and their lower tail is the one that doubles can tell.
    """
    least = max(law.support[0], float(law.ppf(share / 2))) - law.mean
    furthest = FURTHEST * (float(law.ppf(0.25)) - law.mean)
    bounded = least >= furthest
    half = -max(least, furthest)
    return (law.mean - half, law.mean + half), bounded


def _carried(group: Group, noise: OperatorNoise, share: float) -> tuple[Span, bool]:
    """What noise makes of the values of one column, in encoded units."""
    low, high = (float(bound) for bound in group.column.bounds)
    (first, last), bounded = _tail(noise.law, share)
    if noise.operator.is_additive:
        return (first / (high - low), 1.0 + last / (high - low)), bounded
    x = np.linspace(low, high, GRID)
    found = []
    for branch in noise.operator.branches:  # monotone in the noise between its ends
        for limit, end in ((branch.low, first), (branch.high, last)):
            e = np.full(GRID, end) if limit is None else np.clip(limit(x), first, last)
            found.append(noise.operator.forward(e, x))
    z = np.array(found)
    step = float(np.abs(np.diff(z, axis=1)).max())
    return ((z.min() - step - low) / (high - low), (z.max() + step - low) / (high - low)), bounded


def _condensed(width: int) -> Span:
    """A group of rows in [0,1] with mean m has a variance of at most m (1 - m), so that new values lie within
    ``sqrt(3 d m (1 - m))`` of m (by Cauchy and Schwarz over the d directions): at most this far out."""
    half = 0.5 * math.sqrt(1.0 + 3.0 * width)
    return 0.5 - half, 0.5 + half


def _rounded(span: Span, group: Group) -> Span:
    """Room for grids, doubles, and whole numbers that were rounded to."""
    low, high = (float(bound) for bound in group.column.bounds)
    doubles = 8 * float(np.spacing(max(abs(low), abs(high)))) + (0.0 if group.column.kind == "numeric" else 0.5)
    slack = ROUNDING * (span[1] - span[0]) + doubles / (high - low)
    return span[0] - slack, span[1] + slack
