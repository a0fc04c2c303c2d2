"""The answers that a respondent can give: questions with choices, one bit for each choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Bits, Codes
from sfumato.errors import TableError, UsageError

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
        columns = []
        for part in self.slices():
            ones = t[:, part].sum(axis=1)
            if (ones > 1).any() or (not self.blank and (ones == 0).any()):
                raise TableError("Exactly one choice of every question must be set.")
            columns.append(np.where(ones > 0, t[:, part].argmax(axis=1), BLANK))
        return np.column_stack(columns).astype(np.int64)

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
