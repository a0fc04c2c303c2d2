"""Guidance: the directions in which the classes differ most, computed from received rows [guided-survey, 4.1]."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.guidance.space import FLOOR, Link, check_law, checked_bits
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.table.neighbours.tiles import slices

# What a survey adds up: A_c, the sums of r'r over the received rows of each class [guided-survey, Eq. 4].
CHUNK = 1 << 24
"""Cells multiplied at a time: they fit into memory, and sums of so many ones are exact in floating point."""


class SurveyCounts:
    """Per class c the number of rows n_c and the matrix A_c = sum of r'r: whole numbers, so every order adds up alike.

    Sites, processes and batches add their counts with `+`. No row is needed afterwards.

    >>> one = SurveyCounts.of([[1, 0], [1, 1]], [0, 1])
    >>> (one + one).rows
    {0: 2, 1: 2}
    >>> SurveyCounts.from_json(one.to_json()) == one
    True
    """

    def __init__(self, width: int, rows: Mapping[int, int] | None = None, sums: Mapping[int, Codes] | None = None):
        self.width = int(width)
        self.rows: dict[int, int] = dict(sorted((rows or {}).items()))
        self.sums: dict[int, Codes] = {label: (sums or {})[label] for label in self.rows}

    @classmethod
    def of(cls, bits: ArrayLike, y: ArrayLike, width: int | None = None) -> SurveyCounts:
        """Counts of received rows (m x width, zeros and ones) with their class codes."""
        given = np.asarray(bits)
        r = checked_bits(given, given.shape[-1] if width is None else width)
        labels = np.atleast_1d(np.asarray(y))
        if labels.shape != (len(r),) or (labels.size and (labels.dtype.kind not in "iu" or labels.min() < 0)):
            raise TableError("Every row needs one class code, a whole number from 0.")
        rows, sums = {}, {}
        for label in np.unique(labels):
            mine = r[labels == label]
            total = np.zeros((r.shape[1], r.shape[1]), dtype=np.int64)
            for some in slices(len(mine), max(1, CHUNK // r.shape[1])):
                part = mine[some].astype(np.float64)
                total += (part.T @ part).astype(np.int64)
            rows[int(label)], sums[int(label)] = len(mine), total
        return cls(r.shape[1], rows, sums)

    def __add__(self, other: SurveyCounts) -> SurveyCounts:
        if self.width != other.width:
            raise TableError(f"Counts of {self.width} and of {other.width} bits cannot be added.")
        rows, sums = dict(self.rows), dict(self.sums)
        for label in other:
            rows[label] = rows.get(label, 0) + other.rows[label]
            sums[label] = sums[label] + other.sums[label] if label in sums else other.sums[label]
        return SurveyCounts(self.width, rows, sums)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SurveyCounts):
            return NotImplemented
        same = self.width == other.width and self.rows == other.rows
        return same and all(np.array_equal(self.sums[label], other.sums[label]) for label in self)

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    @property
    def n(self) -> int:
        """Rows of all classes."""
        return sum(self.rows.values())

    def ones(self, label: int) -> Codes:
        """How often each bit was 1 in one class: the diagonal of A_c, since a bit is its own square."""
        return np.asarray(self.sums[label].diagonal())

    def to_json(self) -> str:
        """One line: `{"width", "classes": {code: {"n", "upper"}}}`; `upper` is A_c from the diagonal on, row by row."""
        above = np.triu_indices(self.width)
        classes = {str(c): {"n": self.rows[c], "upper": self.sums[c][above].tolist()} for c in self}
        return json.dumps({"width": self.width, "classes": classes}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SurveyCounts:
        """The inverse of `to_json`; counts that no rows can have are refused."""
        try:
            data = json.loads(text)
            made, above = cls(data["width"]), np.triu_indices(int(data["width"]))
            for label, part in sorted((int(label), part) for label, part in data["classes"].items()):
                n, upper, A = part["n"], part["upper"], np.zeros((made.width, made.width), dtype=np.int64)
                if not isinstance(n, int) or not all(type(value) is int for value in upper):
                    raise ValueError("counts are whole numbers")
                A[above] = upper
                A.T[above] = upper
                ones = A.diagonal()
                if n < 0 or (A < 0).any() or (np.minimum.outer(ones, ones) < A).any() or (ones > n).any():
                    raise ValueError("no rows have such counts")
                made.rows[label], made.sums[label] = n, A
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TableError("These are not the counts of a survey, or they are damaged.") from error
        return made


Order = Literal["magnitude", "value"]

ORDERS: tuple[Order, ...] = ("magnitude", "value")
ORTHONORMAL = 1e-9
"""How far V'V may be from the identity."""
MU = 0.15


class GuidanceError(CardError):
    """Guidance that no honest collector sends; nothing must be answered to it."""


BATCH = 100


@dataclass(frozen=True)
class SurveyRules:
    """Everything of a survey but its questions and people; the defaults are those of a survey file.

    `link` and `floor` are those the rows are sent with. `balance` weighs classes alike (see `class_difference`). `k`
    fixes the level (as in Fig. 4) instead of k*. Published: order "value", balance False, floor 0.
    """

    batch: int = BATCH
    mu: float = MU
    order: Order = "magnitude"
    link: Link = "square"
    floor: float = FLOOR
    balance: bool = True
    k: int | None = None


@dataclass(frozen=True, eq=False)
class Guidance:
    """V_k (width x k), with all eigenvalues in their order; the first k belong to V's columns.

    k* is the least k with sigma_(k+1) <= `mu` sigma_1 [Eq. 6]. Eigenvalues are ordered by magnitude, since a direction
    of class 1 has a negative one; `order="value"` is the published order, which drops those.
    """

    V: Matrix
    sigmas: Matrix

    @classmethod
    def from_counts(
        cls, counts: SurveyCounts, rules: SurveyRules | None = None, startup: SurveyCounts | None = None
    ) -> Guidance:
        """Guidance from received rows, and from `startup` rows that were given without perturbation."""
        rules = rules or SurveyRules()
        mu, order, k = rules.mu, rules.order, rules.k
        if not (isinstance(mu, Real) and 0 <= mu < 1):
            raise UsageError(f"The 'mu' parameter must be a number from 0 up to, not including, 1. Got {mu!r}.")
        if order not in ORDERS:
            raise UsageError(f"The 'order' parameter must be one of {', '.join(ORDERS)}. Got {order!r} instead.")
        A = class_difference(counts, link=rules.link, floor=rules.floor, balance=rules.balance, startup=startup)
        values, vectors = np.linalg.eigh(A)
        ranks = np.argsort(-np.abs(values) if order == "magnitude" else -values, kind="stable")
        sigmas = values[ranks]
        level = least_level(np.abs(sigmas) if order == "magnitude" else sigmas, mu) if k is None else k
        if not (isinstance(level, Integral) and 1 <= level <= len(sigmas)):
            raise UsageError(f"The level k must be between 1 and the {len(sigmas)} bits of an answer. Got {level!r}.")
        if not np.abs(sigmas).max() > 0:  # nothing is known: the one direction that tells nothing of anybody
            return cls(np.full((len(sigmas), 1), 1 / np.sqrt(len(sigmas))), sigmas)
        V = vectors[:, ranks[:level]]
        # Each column's largest entry is positive (the first of equally large ones): V V' is the same either way.
        size = np.abs(V)
        leading = np.argmax(size >= size.max(axis=0) * (1 - 1e-9), axis=0)
        return cls(np.ascontiguousarray(V * np.where(V[leading, np.arange(V.shape[1])] < 0, -1.0, 1.0)), sigmas)

    @property
    def k(self) -> int:
        return int(self.V.shape[1])

    @property
    def text(self) -> str:
        """V as it travels: base64 of little-endian float64, row after row."""
        return encode_matrix(self.V)

    @property
    def sha256(self) -> str:
        """Hash over the bytes of V."""
        return hash_matrix(self.V)


def class_difference(
    counts: SurveyCounts,
    *,
    link: Link = "square",
    floor: float = FLOOR,
    balance: bool = True,
    startup: SurveyCounts | None = None,
) -> Matrix:
    """A = A_0 - A_1 for two classes [Eq. 5]; for more, half the sum of |A_c - A_others| (matrix absolute values).

    With `balance` every A_c is divided by the number of its rows: else, where one class is larger, what all people have
    in common comes before what tells the classes apart. Of several others the mean is taken, without `balance` their
    sum. The plain sum of one-vs-rest differences would cancel; for two classes the second form has the eigenvectors of
    the first and the magnitudes of its eigenvalues. What floor and link add to every bit is taken out first
    (`decoded`); with floor 0, the square link and no balance the matrices are those of the paper.
    """
    started = SurveyCounts(counts.width) if startup is None else startup
    labels = sorted({*counts, *started})
    parts = []
    for label in labels:
        part = decoded(counts, label, link=link, floor=floor)
        if label in started.rows:  # these rows were not perturbed
            part = part + started.sums[label].astype(np.float64)
        rows = counts.rows.get(label, 0) + started.rows.get(label, 0)
        parts.append(part / max(rows, 1) if balance else part)
    if not parts:
        return np.zeros((counts.width, counts.width))
    if len(parts) <= 2:
        return np.asarray(parts[0] - parts[1] if len(parts) == 2 else parts[0])
    total, share = np.sum(parts, axis=0), 1 / (len(parts) - 1) if balance else 1.0
    found = np.zeros_like(total)
    for part in parts:
        values, vectors = np.linalg.eigh(part - share * (total - part))
        found += (vectors * np.abs(values)) @ vectors.T
    return np.asarray(found / 2)


def decoded(counts: SurveyCounts, label: int, *, link: Link, floor: float) -> Matrix:
    """A_c with the known part of every bit taken out: a bit of mean q = a + g p becomes (r - a) / g.

    Off the diagonal the mean of r_i r_j is q_i q_j, so that (A - a (s 1' + 1 s') + n a^2) / g^2 has mean p_i p_j: for
    the square link the product of squares (biased as a count of pairs, and nothing that two bits say can repair it),
    for the linear link exactly the product of projected values. On the diagonal r^2 = r gives (s - n a) / g.
    """
    check_law(floor, link)
    if label not in counts.rows:
        return np.zeros((counts.width, counts.width))
    A, n, ones = counts.sums[label].astype(np.float64), counts.rows[label], counts.ones(label).astype(np.float64)
    offset, gain = (floor, 1 - 2 * floor) if link == "square" else (0.5, 0.5 * (1 - 2 * floor))
    out = (A - offset * np.add.outer(ones, ones) + n * offset**2) / gain**2
    np.fill_diagonal(out, (ones - n * offset) / gain)
    return np.asarray(out)


def least_level(sigmas: ArrayLike, mu: float = MU) -> int:
    """k*: the least k with sigma_(k+1) <= mu sigma_1 [Eq. 6]; 1 when sigma_1 <= 0.

    >>> least_level([10.0, 4.0, 1.5, 0.1])
    2
    """
    s = np.asarray(sigmas, dtype=np.float64)
    if not s[0] > 0:
        return 1
    small = np.flatnonzero(s[1:] <= mu * s[0])
    return int(small[0]) + 1 if len(small) else len(s)


def check_guidance(V: ArrayLike, width: int, k: int) -> Matrix:
    """V as a matrix, if it is width x k, finite and orthonormal to 1e-9 [4.2]; else `GuidanceError`.

    This stops mistakes only: a malicious collector's matrix passes it too, and the floor bounds what that one reads.
    """
    try:
        matrix = np.ascontiguousarray(V, dtype=np.float64)
    except (TypeError, ValueError):
        raise GuidanceError("The guidance is not a matrix of numbers. Nothing was answered.") from None
    if matrix.shape != (width, k):
        raise GuidanceError(f"The guidance must be {width} x {k}. Got {matrix.shape} instead; nothing was answered.")
    if not np.isfinite(matrix).all():
        raise GuidanceError("The guidance has entries that are not numbers. Nothing was answered.")
    if not np.abs(matrix.T @ matrix - np.eye(k)).max() <= ORTHONORMAL:
        raise GuidanceError("The columns of the guidance are not orthonormal. Nothing was answered.")
    return matrix


def encode_matrix(V: Matrix) -> str:
    """Base64 of the little-endian float64 of V, row after row."""
    return base64.b64encode(np.ascontiguousarray(V, dtype="<f8").tobytes()).decode("ascii")


def decode_matrix(text: str, width: int, k: int) -> Matrix:
    """The inverse of `encode_matrix`, with all checks of `check_guidance`."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise GuidanceError("The guidance is not base64. Nothing was answered.") from None
    if len(raw) != 8 * width * k:
        raise GuidanceError(f"The guidance must have {width} x {k} numbers. It has {len(raw) / 8:g}.")
    return check_guidance(np.frombuffer(raw, dtype="<f8").reshape(width, k), width, k)


def hash_matrix(V: Matrix) -> str:
    """SHA-256 over the bytes that `encode_matrix` encodes, in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(V, dtype="<f8").tobytes()).hexdigest()
