"""A basis that was estimated from the rows under an epsilon of its own: what that epsilon is.

Rows are paired in a public order. The difference u of a pair is stretched to whole numbers q whose products
``|q_j q_k|, j <= k`` add up to at most `pair`. Beside them, the length of u is counted in at most `size` steps. The
sums of q_j q_k and of the lengths over all pairs get independent discrete Laplace noise of scale 2^k, and the basis is
computed from the noisy sums alone. Who changes one record changes one pair, hence the products by at most 2 `pair` and
the length by at most `size`, all sums together by `sensitivity`. The noise hides that with epsilon
``sensitivity / 2^k``, a quotient of integers.

The rows are then released given the basis. For two tables that differ in one record, the likelihood of *all* that is
seen, basis and released rows, differs by at most this epsilon times what the released record itself allows: every other
row depends on that record through the basis alone. So the two epsilons add up, for the record and for its parts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy  # its parts are loaded when one is first used

from sfumato.channels.affine_bound import ROUND_UP, affine_epsilons, component_ranges
from sfumato.channels.base import Channel, Epsilons, NotApplicableError
from sfumato.channels.guidance.epsilon import answer_epsilons, projected_range, record_epsilon, survey_epsilon
from sfumato.channels.guidance.guidance import decode_matrix, encode_matrix
from sfumato.channels.guidance.space import AnswerSpace, projected
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, UsageError
from sfumato.core.records import Record
from sfumato.noise.grid import LARGEST_LOG2_SCALE
from sfumato.table import Encoding, Group

# Bases that owe nothing to anybody's rows: the columns themselves, cosines, and Haar's wavelets.
#
# They are functions of the number of columns alone, the same to the last digit on every machine, so that sites which
# name one share a space. Whoever reads a card recognises them by their entries and asks for no reason. Both follow the
# order of the columns, and pay where neighbours are alike: spectra, time series, dose levels.
SAME = 1e-12
"""How far an entry may lie from the built-in one, which was computed by another program."""
_BITS = 160
_PI = 0x3243F6A8885A308D313198A2E03707344A4093822
"""pi times 2^160."""


def cosines(components: int, width: int) -> Matrix:
    """The slowest of the orthonormal cosines: row k is ``sqrt(2 / d) cos(pi k (2 j + 1) / (2 d))``, row 0 is flat.

    Cosines come from integer arithmetic: libraries differ in the last digit, and a digit would make another space.
    """
    # cos(pi m / (2 d)) for m = 0 .. 2 d, by cos((m+1) t) = 2 cos t cos(m t) - cos((m-1) t) with 160 bits
    one = 1 << _BITS
    angle = _PI // (2 * width)
    term = first = one
    for step in range(2, 80, 2):  # Taylor: the angle is below 1.6, and 1.6^80 / 80! below 2^-160
        term = -((term * angle * angle) >> (2 * _BITS)) // ((step - 1) * step)
        first += term
    table = [one, first]
    for _ in range(2 * width - 1):
        table.append(((2 * first * table[-1]) >> _BITS) - table[-2])
    turns = np.outer(np.arange(components), 2 * np.arange(width) + 1) % (4 * width)
    rows = math.sqrt(2 / width) * np.array([value / one for value in table])[np.minimum(turns, 4 * width - turns)]
    rows[:1] = math.sqrt(1 / width)
    return np.asarray(rows)


def wavelets(components: int, width: int) -> Matrix:
    """Haar's wavelets, widest first: the flat row, then each stretch of columns, one half of it against the other.

    A stretch of an odd number of columns is split into halves that differ by one; rows stay orthonormal.
    """
    rows = np.zeros((min(components, width), width))
    rows[0] = math.sqrt(1 / width)
    stretches, place = [(0, width)], 1
    while stretches and place < len(rows):
        start, stop = stretches.pop(0)
        if stop - start < 2:
            continue
        middle = (start + stop + 1) // 2
        left, right = middle - start, stop - middle
        rows[place, start:middle] = math.sqrt(right / (left * (left + right)))
        rows[place, middle:stop] = -math.sqrt(left / (right * (left + right)))
        place += 1
        stretches += [(start, middle), (middle, stop)]
    return rows


BUILT_IN: dict[str, Callable[[int, int], Matrix]] = {
    "identity": lambda components, width: np.eye(width)[:components],  # no column is mixed with another
    "dct": cosines,
    "haar": wavelets,
}
"""Bases by name; each takes the number of components and of encoded columns."""


def is_built_in(matrix: Matrix) -> bool:
    """Whether the rows are those of a built-in basis, from its first one on, or only pick columns."""
    picks = ((matrix == 0) | (matrix == 1)).all() and ((matrix != 0).sum(axis=1) <= 1).all()
    components, width = matrix.shape
    if picks or components > width:
        return bool(picks)
    return any(np.abs(matrix - make(components, width)).max() <= SAME for make in BUILT_IN.values())


MOST_OF_A_PAIR = (1 << 45) - 1
FINENESS = 32
"""Whole numbers of a pair, per column, on average: truncation is then far below the noise."""


@dataclass(frozen=True)
class NoisyMoments(Record):
    """`pair`, `size`: how much one pair may add to the products and to the length; `log2_scale`: k of the noise."""

    log2_scale: Annotated[int, Whole(0, LARGEST_LOG2_SCALE)]
    pair: Annotated[int, Whole(1, MOST_OF_A_PAIR)]
    size: Annotated[int, Whole(1, MOST_OF_A_PAIR)]
    takes_more = False

    @classmethod
    def of(cls, epsilon: float, width: int) -> Self:
        """For a basis of `width` columns: the finest whole numbers of use whose epsilon is at most this one."""
        # products of whole numbers that add up to FINENESS * width, with 9/4 of that as the sensitivity
        products = FINENESS**2 * width**2 // 2
        scale = max(0, math.ceil(math.log2(9 / 4 * products / epsilon)))
        pair = math.floor(Fraction(epsilon) * (1 << scale) * Fraction(4, 9)) if scale <= LARGEST_LOG2_SCALE else 0
        if pair > MOST_OF_A_PAIR or pair < products:
            raise UsageError(
                f"A basis of {width} encoded columns cannot be estimated with an epsilon of {epsilon:g}: the noise "
                "would not fit whole numbers. Give it a larger share, or drop columns."
            )
        return cls(scale, pair, pair // 4)

    @property
    def sensitivity(self) -> int:
        """The most by which one record changes all sums together."""
        return 2 * self.pair + self.size

    @property
    def epsilon(self) -> float:
        """Of the basis; never rounded down."""
        exact = Fraction(self.sensitivity, 1 << self.log2_scale)
        rounded = float(exact)
        return rounded if Fraction(rounded) >= exact else math.nextafter(rounded, math.inf)


UNDECLARED_BASIS = "a given basis whose owner has not said why it is public (basis_reason)"
UNDECLARED_GUIDANCE = "given guidance whose owner has not said why it is public (guidance_reason)"
LEARNED_RANGES = "ranges of the components"
NOTHING = Epsilons(math.inf, math.inf, math.inf)
ARITHMETIC = 2.3e-16


class Map(ABC):
    """Takes encoded rows (n x d) to what the channels are given (n x s)."""

    kind: ClassVar[str]

    @abstractmethod
    def apply(self, X: Matrix) -> Matrix:
        """What the channels are given."""

    @abstractmethod
    def epsilons(self, channels: Sequence[Channel], encoding: Encoding) -> Epsilons:
        """What map and channels prove together; `channels` in the order of the release's columns."""

    @abstractmethod
    def ranges(self, encoding: Encoding, chance: float) -> tuple[Matrix, Matrix]:
        """Lowest and highest value that every channel can be given, but for this chance over the draw of a key."""

    def affine(self) -> tuple[Matrix, Matrix] | None:
        """(A, c) of the map x -> A x + c; None where it is a secret or no such map."""
        return None

    def perturb(self, channels: Sequence[Channel], X: Matrix, rng: np.random.Generator) -> Matrix | None:  # noqa: ARG002
        """Released rows, where the map decides which channels a row goes through; else None."""
        return None

    def check_rows(self, channels: Sequence[Channel], Z: Matrix) -> None:  # noqa: B027 (most have nothing to check)
        """Refuse released rows that report other cells than they should."""

    def in_the_way(self, channels: Sequence[Channel], encoding: Encoding) -> list[str]:  # noqa: ARG002
        """What may have been learned from the rows, where no reason says that it is public."""
        return []

    def undeclared(self) -> Map:
        """The same without the owner's word that it is public."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """The card's `transform`."""
        return {"kind": self.kind}


@dataclass(frozen=True)
class Identity(Map):
    """Every column goes its own way: columns are independent, so their epsilons add up [principal-laplace, Eq. 7]."""

    columns: int
    kind = "identity"

    def apply(self, X: Matrix) -> Matrix:
        return X

    def ranges(self, encoding: Encoding, chance: float) -> tuple[Matrix, Matrix]:  # noqa: ARG002
        return np.zeros(self.columns), np.ones(self.columns)

    def affine(self) -> tuple[Matrix, Matrix]:
        return np.eye(self.columns), np.zeros(self.columns)

    def epsilons(self, channels: Sequence[Channel], encoding: Encoding) -> Epsilons:
        found = [channel.epsilons(groups) for channel, groups in carried_groups(channels, encoding)]
        return Epsilons(
            component=max(one.component for one in found),
            column=max(one.column for one in found),
            record=math.fsum(one.record for one in found),
            exact=all(one.exact for one in found),
        )


def transformed(X: Matrix, matrix: Matrix, offset: Matrix) -> Matrix:
    """``A x + c`` for every row x; columns lie together, as noise is drawn and files are written.

    Whoever releases and whoever checks multiply in the same order, so that both get the same last digits.
    """
    columns = matrix @ X.T
    columns += offset[:, None]
    return np.asarray(columns.T)


@dataclass(frozen=True, eq=False)
class Affine(Map):
    """z = A x + c, public. `variances` are those of all components of a learned basis, kept ones first.

    `reason`: why the matrix owes nothing to the rows, in the owner's words; a built-in one needs none. `estimated`: it
    was estimated from the rows under an epsilon of its own, which is part of every figure (see `noisy_moments`).
    """

    matrix: Matrix
    offset: Matrix
    variances: Matrix | None = None
    reason: str | None = None
    estimated: NoisyMoments | None = None
    kind = "affine"

    def in_the_way(self, channels: Sequence[Channel], encoding: Encoding) -> list[str]:
        found = [] if self.reason or self.estimated or is_built_in(self.matrix) else [UNDECLARED_BASIS]
        low, high = component_ranges(self.matrix, encoding.groups)
        clipped = np.array([channel.interval for channel in channels])
        if np.any(clipped[:, 1] - clipped[:, 0] < (high - low) * (1 - 1e-9)):
            found.append(LEARNED_RANGES)
        return found

    def undeclared(self) -> Map:
        return replace(self, reason=None)

    def apply(self, X: Matrix) -> Matrix:
        return transformed(X, self.matrix, self.offset)

    def ranges(self, encoding: Encoding, chance: float) -> tuple[Matrix, Matrix]:  # noqa: ARG002
        low, high = component_ranges(self.matrix, encoding.groups)
        return low + self.offset, high + self.offset

    def affine(self) -> tuple[Matrix, Matrix]:
        return self.matrix, self.offset

    def epsilons(self, channels: Sequence[Channel], encoding: Encoding) -> Epsilons:
        """Of noise with a bounded steepness on components that are clipped to an interval: see `affine_bound`."""
        steep = np.array([channel.steepness for channel in channels])
        if not np.isfinite(steep).all() or len(channels) != len(self.matrix):
            return NOTHING
        low, high = component_ranges(self.matrix, encoding.groups)
        clipped = np.array([channel.interval for channel in channels])
        # no row moves further than the domain reaches, nor than values are clipped to
        widths = np.minimum(high - low, clipped[:, 1] - clipped[:, 0])
        components = np.array([channel.moved(float(w)) for channel, w in zip(channels, widths, strict=True)])
        rounding = math.fsum(channel.rounding for channel in channels)
        found = affine_epsilons(self.matrix, 1 / steep, widths, encoding.groups)
        basis = 0.0 if self.estimated is None else self.estimated.epsilon
        laplace = all((channel.metric or ("",))[0] == "cityblock" for channel in channels)
        return Epsilons(
            component=basis + float(components.max()),
            column=basis + found.column + rounding,
            record=basis + min(found.record + rounding, float(components.sum())),
            exact=found.exact and laplace and self.estimated is None,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "matrix": self.matrix.tolist(),
            "offset": self.offset.tolist(),
            "variances": None if self.variances is None else self.variances.tolist(),
            "reason": self.reason,
            **({} if self.estimated is None else {"estimated": self.estimated.to_dict()}),
        }


@dataclass(frozen=True, eq=False)
class Guided(Map):
    """x = t V V' for the answers t: the directions in which the classes differ [guided-survey, Eq. 7]."""

    V: Matrix
    reason: str | None = None
    kind = "guided"

    def in_the_way(self, channels: Sequence[Channel], encoding: Encoding) -> list[str]:  # noqa: ARG002
        return [] if self.reason else [UNDECLARED_GUIDANCE]

    def undeclared(self) -> Map:
        return replace(self, reason=None)

    def apply(self, X: Matrix) -> Matrix:
        return projected(np.rint(X), self.V)

    def ranges(self, encoding: Encoding, chance: float) -> tuple[Matrix, Matrix]:  # noqa: ARG002
        low, high, _ = projected_range(self.V, AnswerSpace([group.width for group in encoding.groups]), nearest=False)
        return low, high

    def epsilons(self, channels: Sequence[Channel], encoding: Encoding) -> Epsilons:
        """Of bits with one floor and link (see `guidance.epsilon` and `guidance.worst_pair`)."""
        found = {(getattr(channel, "floor", 0.0), getattr(channel, "link", None)) for channel in channels}
        floor, link = found.pop()
        if found or link is None or floor == 0:
            return NOTHING
        space = AnswerSpace([group.width for group in encoding.groups])
        bits = survey_epsilon(self.V, space, floor, link).bits
        answers = answer_epsilons(self.V, space, floor, link)
        record = record_epsilon(self.V, space, floor, link)
        component, column = (float(min(record.value, part.max())) for part in (bits, answers))
        return Epsilons(component, column, record.value, exact=record.exact)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "guidance": encode_matrix(self.V), "k": self.V.shape[1], "reason": self.reason}


@dataclass(frozen=True, eq=False)
class Secret(Map):
    """A map that only the key knows; the card commits to it. `orthogonal`: it keeps lengths (a rotation).

    With the key (`matrix`, `offset`) it can be applied; without, the guarantee of a rotation can still be computed:
    sum |r_i . delta| / t_i <= |delta|_2 sqrt(sum 1 / t_i^2) for every orthogonal matrix.
    """

    commitment: str
    components: int
    orthogonal: bool = False
    matrix: Matrix | None = None
    offset: Matrix | None = None
    kind = "secret"

    def apply(self, X: Matrix) -> Matrix:
        if self.matrix is None or self.offset is None:
            raise NotApplicableError("needs the transform, which is a secret key that is not in the folder")
        return transformed(X, self.matrix, self.offset)

    def ranges(self, encoding: Encoding, chance: float) -> tuple[Matrix, Matrix]:
        """Of a rotation around a centre in the unit cube, sqrt d. Of a Gaussian projection, the longest row of its
        matrix that the draw of a key gives but for this chance, times the longest record."""
        reach = math.sqrt(encoding.width)
        if not self.orthogonal:
            longest = math.sqrt(sum(float((group.vertices**2).sum(axis=1).max()) for group in encoding.groups))
            squared = float(scipy.special.chdtri(encoding.width, chance / self.components)) / self.components
            reach = longest * math.sqrt(squared)
        return np.full(self.components, -reach), np.full(self.components, reach)

    def affine(self) -> tuple[Matrix, Matrix] | None:
        return None if self.matrix is None or self.offset is None else (self.matrix, self.offset)

    def epsilons(self, channels: Sequence[Channel], encoding: Encoding) -> Epsilons:
        steep = np.array([channel.steepness for channel in channels])
        width = encoding.width
        if not self.orthogonal or not np.isfinite(steep).all() or len(steep) != width:
            return NOTHING
        diameters = np.array([diameter(group) for group in encoding.groups])
        longest, steepest = float(np.sqrt((diameters**2).sum())), float(np.sqrt((steep**2).sum()))
        # A component is a sum of d + 1 products below 1 and errs by less than (d + 3) 2^-52 sqrt(d); two records have
        # d each. A matrix that passes for orthogonal stretches by at most 1 + d 1e-12.
        arithmetic = 4 * ARITHMETIC * width * math.sqrt(width) * (width + 3) * steepest
        slack, rounding = ROUND_UP + width * 1e-12, math.fsum(channel.rounding for channel in channels)
        return Epsilons(
            component=(longest * float(steep.max())) * slack + arithmetic + rounding,
            column=float(diameters.max()) * steepest * slack + arithmetic + rounding,
            record=longest * steepest * slack + arithmetic + rounding,
            exact=False,
        )

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "commitment": self.commitment, "orthogonal": self.orthogonal}


def diameter(group: Group) -> float:
    """The largest distance of two values of one source column."""
    differences = group.vertices[:, None] - group.vertices[None]
    return float(np.sqrt((differences**2).sum(axis=2)).max())


def carried_groups(channels: Sequence[Channel], encoding: Encoding) -> list[tuple[Channel, list[Group]]]:
    """Of a release that keeps the source's columns: every channel with the source columns that it carries."""
    wrong = CardError("The card's channels do not fit its source columns: it was edited or is damaged.")
    found = []
    for place, channel in zip(places(channels), channels, strict=True):
        inside = [group for group in encoding.groups if place.start <= group.start and group.stop <= place.stop]
        if not inside or (inside[0].start, inside[-1].stop) != (place.start, place.stop) or not channel.fits(inside):
            raise wrong
        found.append((channel, inside))
    if sum(channel.width for channel in channels) != encoding.width:
        raise wrong
    return found


def places(channels: Sequence[Channel]) -> list[slice]:
    """The columns of the release matrix that each channel fills."""
    ends: Codes = np.cumsum([channel.width for channel in channels])
    return [slice(int(end) - channel.width, int(end)) for channel, end in zip(channels, ends, strict=True)]


def read_map(transform: Mapping[str, Any], encoding: Encoding, components: int) -> Map:
    """The map from a card's `transform`."""
    kind = transform["kind"]
    if kind == Identity.kind:
        return Identity(encoding.width)
    if kind == Affine.kind:
        matrix, offset = np.array(transform["matrix"], dtype=np.float64), np.array(transform["offset"])
        variances = transform.get("variances")
        shaped = matrix.ndim == 2 and matrix.shape == (components, encoding.width) and offset.shape == (components,)
        if not shaped or not np.isfinite(matrix).all() or not np.isfinite(offset).all():
            raise CardError("The card's transform does not fit its columns: it was edited or is damaged.")
        variances, stated = None if variances is None else np.array(variances), transform.get("estimated")
        try:
            estimated = None if stated is None else NoisyMoments.from_dict(stated)
        except (TypeError, ValueError):
            raise CardError(
                "The card says that its basis was estimated in a way that cannot be: it was edited."
            ) from None
        return Affine(matrix, offset, variances, _reason(transform), estimated)
    if kind == Guided.kind:
        if components != encoding.width or not all(group.is_onehot for group in encoding.groups):
            raise CardError("The card's guidance does not fit its columns: it was edited or is damaged.")
        return Guided(decode_matrix(transform["guidance"], encoding.width, transform["k"]), _reason(transform))
    return Secret(transform["commitment"], components, bool(transform.get("orthogonal", False)))


def _reason(transform: Mapping[str, Any]) -> str | None:
    reason = transform.get("reason")
    return reason if isinstance(reason, str) and reason.strip() else None
