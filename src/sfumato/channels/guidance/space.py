"""The answers that a respondent can give: questions with choices, one bit for each choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Bits, Codes, Matrix
from sfumato.core.errors import TableError, UsageError

BLANK = -1
"""Code of a question that was left out: none of its bits is set."""


@dataclass(frozen=True)
class AnswerSpace:
    """Questions by their numbers of choices s_1, ..., s_n; with `blank`, each may also be left out.

    The bits of question a are `starts[a]` to `starts[a] + sizes[a] - 1` [guided-survey, Eq. 3].

    >>> space = AnswerSpace((2, 3))
    >>> space.onehot([[1, 0]])
    array([[0, 1, 1, 0, 0]], dtype=uint8)
    >>> space.codes([[0, 1, 1, 0, 0]])
    array([[1, 0]])
    """

    sizes: tuple[int, ...]
    blank: bool = False

    def __init__(self, sizes: Iterable[int], blank: bool = False) -> None:
        object.__setattr__(self, "sizes", tuple(int(size) for size in sizes))
        object.__setattr__(self, "blank", bool(blank))
        if not self.sizes or min(self.sizes) < 1:
            raise UsageError("A survey needs at least one question, and every question at least one choice.")

    @cached_property
    def starts(self) -> Codes:
        """Number of the first bit of each question."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    @property
    def width(self) -> int:
        """Number of bits of one answer (2n in the paper, where all questions are binary)."""
        return sum(self.sizes)

    def slices(self) -> list[slice]:
        """The bits of each question."""
        return [slice(int(start), int(start) + size) for start, size in zip(self.starts, self.sizes, strict=True)]

    def onehot(self, codes: ArrayLike) -> Bits:
        """Rows of choices (m x n, `BLANK` where left out) as bits (m x width)."""
        chosen = np.atleast_2d(np.asarray(codes))
        if chosen.ndim != 2 or chosen.shape[1] != len(self.sizes) or (chosen.size and chosen.dtype.kind not in "iu"):
            raise TableError(f"Answers must be whole numbers, one for each of the {len(self.sizes)} questions.")
        least = BLANK if self.blank else 0
        if chosen.size and ((chosen < least) | (chosen >= np.array(self.sizes))).any():
            raise TableError("An answer is not among the choices of its question.")
        bits = np.zeros((len(chosen), self.width), dtype=np.uint8)
        row, question = np.nonzero(chosen >= 0)
        bits[row, self.starts[question] + chosen[row, question]] = 1
        return bits

    def codes(self, bits: ArrayLike) -> Codes:
        """The inverse of `onehot`; a row that no respondent can have is refused."""
        t = self.checked(bits)
        ones = np.add.reduceat(t, self.starts, axis=1, dtype=np.int64)
        if (ones > 1).any() or (not self.blank and (ones == 0).any()):
            raise TableError("Exactly one choice of every question must be set.")
        chosen = np.column_stack([t[:, part].argmax(axis=1) for part in self.slices()])
        return np.where(ones > 0, chosen, BLANK).astype(np.int64)

    def checked(self, bits: ArrayLike) -> Bits:
        """Rows of 0 and 1 of this width, one-hot or not: what a respondent sends."""
        return checked_bits(bits, self.width)

    def __len__(self) -> int:
        """Number of different answers, blanks included."""
        return math.prod(size + self.blank for size in self.sizes)

    def every(self) -> Codes:
        """All different answers as codes; the caller makes sure that there are few."""
        least = BLANK if self.blank else 0
        choices: Sequence[Codes] = [np.arange(least, size, dtype=np.int64) for size in self.sizes]
        return np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(self.sizes))


def checked_bits(bits: ArrayLike, width: int) -> Bits:
    """Rows of `width` zeros and ones, as bytes; one row may come flat."""
    rows = np.atleast_2d(np.asarray(bits))
    if rows.ndim != 2 or rows.shape[1] != width:
        raise TableError(f"A row of this survey has {width} bits. Got rows of {rows.shape[-1]} instead.")
    if rows.dtype.kind not in "biuf" or (rows.size and not ((rows == 0) | (rows == 1)).all()):
        raise TableError("Rows of this survey consist of zeros and ones. Got something else.")
    return rows.astype(np.uint8)


# Numbers as choices: where a number is cut, by public edges.
#
# Quartiles are what the paper uses. They know nothing of the classes: on its own F1, where the classes change at 40 and
# 60 years of age, they cap every classifier near 83%. Finer cuts, or cuts chosen where the classes change, do not.
# Edges that were learned from rows are not public: learn them from other people's rows, or declare them.
@dataclass(frozen=True)
class Binning:
    """Per column its edges, or for a column of categories 0, 1, ... their number.

    A value lies in the interval whose number is how many edges it reaches: ``value >= edge``.

    >>> Binning(((30.0, 50.0), 2)).codes([[30, 1], [29.9, 0]])
    array([[1, 1],
           [0, 0]])
    """

    columns: tuple[tuple[float, ...] | int, ...]

    def __init__(self, columns: Sequence[Sequence[float] | int]) -> None:
        read = tuple(c if isinstance(c, int) else tuple(float(edge) for edge in c) for c in columns)
        for column in read:
            if isinstance(column, tuple) and not (np.isfinite(column).all() and (np.diff(column) > 0).all()):
                raise UsageError("The edges of a column must be increasing numbers.")
        object.__setattr__(self, "columns", read)

    @property
    def space(self) -> AnswerSpace:
        """The answers that binned rows are."""
        return AnswerSpace([column if isinstance(column, int) else len(column) + 1 for column in self.columns])

    def codes(self, X: ArrayLike) -> Codes:
        """Rows of numbers (m x columns) as rows of choices."""
        rows = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if rows.shape[1] != len(self.columns) or np.isnan(rows).any():
            raise TableError(f"Rows of {len(self.columns)} numbers without empty cells are needed.")
        out = np.empty(rows.shape, dtype=np.int64)
        for number, column in enumerate(self.columns):
            if isinstance(column, int):
                out[:, number] = rows[:, number]
                if ((out[:, number] < 0) | (out[:, number] >= column) | (out[:, number] != rows[:, number])).any():
                    raise TableError(f"Column {number + 1} must hold the numbers 0 to {column - 1} of its categories.")
            else:
                out[:, number] = np.searchsorted(column, rows[:, number], side="right")
        return out


def quantile_edges(values: ArrayLike, parts: int = 4) -> tuple[float, ...]:
    """Edges that cut the values into equally many, `parts` = 4: quartiles, as published [guided-survey, 6]."""
    x = np.asarray(values, dtype=np.float64)
    edges = np.unique(np.quantile(x, np.arange(1, parts) / parts))
    return tuple(edges[edges > x.min()].tolist())


def supervised_edges(values: ArrayLike, y: ArrayLike, parts: int = 8, least: float = 0.002) -> tuple[float, ...]:
    """Edges where the classes change: the interval whose best cut gains most information is cut next.

    It ends at `parts` intervals, or when no cut gains `least` bits per row.
    """
    x = np.asarray(values, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    x, labels = x[order], np.unique(np.asarray(y), return_inverse=True)[1][order]
    counts = np.zeros((len(x) + 1, labels.max(initial=0) + 1))
    np.cumsum(np.eye(counts.shape[1])[labels], axis=0, out=counts[1:])
    pieces = [_best_cut(x, counts, 0, len(x))]
    edges: list[float] = []
    while len(pieces) < parts:
        number = int(np.argmax([piece[0] for piece in pieces]))
        gain, cut, first, last = pieces[number]
        if gain < least * len(x):
            break
        edges.append(float((x[cut - 1] + x[cut]) / 2))
        pieces[number : number + 1] = [_best_cut(x, counts, first, cut), _best_cut(x, counts, cut, last)]
    return tuple(sorted(edges))


def _best_cut(x: Matrix, counts: Matrix, first: int, last: int) -> tuple[float, int, int, int]:
    """(information gained in bits times rows, position) of the best cut between two different values; both ends."""
    cuts = np.arange(first + 1, last)
    cuts = cuts[x[cuts] > x[cuts - 1]]
    if not len(cuts):
        return 0.0, first, first, last
    whole = _entropy(counts[last] - counts[first])
    gains = whole - _entropy(counts[cuts] - counts[first]) - _entropy(counts[last] - counts[cuts])
    best = int(np.argmax(gains))
    return float(gains[best]), int(cuts[best]), first, last


def _entropy(n: Matrix) -> Matrix:
    """Entropy of class counts times their number, in bits."""
    total = n.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(n > 0, n * np.log2(n), 0.0).sum(axis=-1)
        return np.asarray(np.where(total > 0, total * np.log2(total), 0.0) - terms)


# How a respondent's device turns an answer into the bits it sends, to the last binary digit [guided-survey, 4.2].
#
# All numbers are IEEE doubles; every product and every sum is rounded once, in this order and no other, so that a
# browser computes the same bits from the same random numbers:
#
# 1. ``u[c] = 0``; for j = 0, 1, ..., width - 1, where t[j] is 1: ``u[c] = u[c] + V[j][c]`` (for every column c) 2.
# ``x[j] = 0``; for c = 0, 1, ..., k - 1: ``x[j] = x[j] + u[c] * V[j][c]`` (for every bit j): Eq. 7, t V V' 3. square
# link (published, Eq. 8): ``p = x[j] * x[j]``, at most 1; linear link: ``p = 0.5 + 0.5 * x[j]``, from 0 to 1 4. ``q[j]
# = floor + (1 - 2 * floor) * p`` 5. ``R[j] = 1`` if and only if ``uniform[j] < q[j]``
#
# A uniform is eight random bytes, read as a little-endian unsigned number, shifted right by 11 and times 2^-53.
Link = Literal["square", "linear"]

LINKS: tuple[Link, ...] = ("square", "linear")
FLOOR = 0.25
"""The default floor eta: no bit is ever surer than three to one, whatever the guidance (docs/guided-survey.md)."""
ROWS = 4096
"""Answers that are computed at a time: the working rows stay in a core's cache."""


def bit_probabilities(t: ArrayLike, V: Matrix, floor: float = FLOOR, link: Link = "square") -> Matrix:
    """P(R_j = 1) of every bit, for one answer (width) or several (m x width); see above for the order of all steps.

    >>> V = np.array([[0.6], [0.8]])
    >>> bit_probabilities([1, 0], V, floor=0.0)
    array([0.1296, 0.2304])
    """
    check_law(floor, link)
    q = floored(projected(t, V), floor, link)
    return np.asarray(q[0]) if np.ndim(t) == 1 else q


def perturb_bits(t: ArrayLike, V: Matrix, uniforms: ArrayLike, floor: float = FLOOR, link: Link = "square") -> Bits:
    """The bits that are sent: 1 where the uniform is below its probability; one answer or several."""
    q = bit_probabilities(t, V, floor, link)
    drawn = np.asarray(uniforms, dtype=np.float64)
    if drawn.shape != q.shape:
        raise UsageError(f"Every bit needs its own uniform number: {q.shape} are needed, {drawn.shape} were given.")
    return np.asarray(drawn < q).astype(np.uint8)


def uniforms_from_bytes(data: bytes) -> Matrix:
    """Numbers in [0, 1) of eight bytes each, as `crypto.getRandomValues` gives them.

    >>> uniforms_from_bytes(bytes([0, 0, 0, 0, 0, 0, 0, 128]))
    array([0.5])
    """
    return np.asarray((np.frombuffer(data, dtype="<u8") >> np.uint64(11)) * 2.0**-53)


def check_law(floor: float, link: str) -> None:
    """Refuse a floor that would leave nothing of the answer, and a link that there is not."""
    if isinstance(floor, bool) or not isinstance(floor, int | float | np.floating) or not 0 <= floor < 0.5:
        raise UsageError(f"The 'floor' parameter must be a number from 0 up to, not including, 0.5. Got {floor!r}.")
    if link not in LINKS:
        raise UsageError(f"The 'link' parameter must be one of {', '.join(LINKS)}. Got {link!r} instead.")


def projected(t: ArrayLike, V: Matrix) -> Matrix:
    """x = t V V' of several answers (m x width): steps 1 and 2."""
    every = checked_bits(t, len(V))
    x = np.zeros((len(every), len(V)))
    for start in range(0, len(every), ROWS):
        answers, out = every[start : start + ROWS], x[start : start + ROWS]
        u = np.zeros((len(answers), V.shape[1]))
        for j, row in enumerate(V):
            chosen = np.flatnonzero(answers[:, j])
            if len(chosen):
                u[chosen] += row
        for c in range(V.shape[1]):  # not a matrix product: those add in an order of their own
            out += u[:, c, None] * V[:, c]
    return x


def floored(x: Matrix, floor: float, link: Link) -> Matrix:
    """From projected values t V V' to probabilities: steps 3 and 4."""
    p = np.minimum(x * x, 1.0) if link == "square" else np.clip(0.5 + 0.5 * x, 0.0, 1.0)
    return np.asarray(floor + (1.0 - 2.0 * floor) * p)


IMPOSSIBLE = 1e-300
"""Stands for a probability of 0 where no floor keeps bits from being certain: its logarithm is finite."""


def score_bits(R: Matrix, q: Matrix) -> Matrix:
    """log P(R = bits[i] | t = answers[j]) from bit probabilities (answers x width): bits are independent given t."""
    one, zero = np.log(np.maximum(q, IMPOSSIBLE)), np.log(np.maximum(1.0 - q, IMPOSSIBLE))
    return np.asarray(R @ (one - zero).T + zero.sum(axis=1))


def answer_posteriors(
    bits: ArrayLike, codes: ArrayLike, space: AnswerSpace, V: Matrix, floor: float = FLOOR, link: Link = "square"
) -> list[Matrix]:
    """Per question, P(choice | R) of every row by Bayes' rule, for an attacker who takes the population to be the rows
    `codes`."""
    people, weights = np.unique(np.atleast_2d(codes), axis=0, return_counts=True)
    chosen = space.onehot(people)
    log = score_bits(space.checked(bits).astype(np.float64), bit_probabilities(chosen, V, floor, link))
    log += np.log(weights / weights.sum())
    p = np.exp(log - log.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return [np.asarray(p @ chosen[:, part].astype(np.float64)) for part in space.slices()]
