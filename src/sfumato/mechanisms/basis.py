"""Where the basis of a projection comes from: built in, learned, from public rows, or given by hand."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.maps import BUILT_IN, NoisyMoments
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.guarantee.card import check_version
from sfumato.guarantee.guarantee import BORROWED_BASIS, LEARNED_BASIS
from sfumato.noise import discrete_laplace
from sfumato.table.statistics import Moments, Statistics

LEARNED, PRIVATE = "learned", "private"
NAMES = (LEARNED, PRIVATE, *BUILT_IN)
"""Bases that a parameter can name; anything else is a matrix or the path of one."""


@dataclass(frozen=True)
class Basis:
    """A matrix whose rows are components, how much rows vary along each, where that is known, and whether it is known
    to have been learned from people's rows."""

    matrix: Matrix
    variances: Matrix | None = None
    learned: bool = False

    def __repr__(self) -> str:
        return f"<Basis of {self.matrix.shape[0]} x {self.matrix.shape[1]} numbers>"


def principal_components(moments: Moments) -> Basis:
    """All eigenvectors of the covariance (rows, largest variance first), and their variances."""
    if moments.n < 2:
        raise TableError("A basis cannot be learned from fewer than two rows.")
    return leading_directions(moments.covariance())


def leading_directions(spread: Matrix) -> Basis:
    """Eigenvectors of a symmetric matrix, largest eigenvalue first; eigenvalues below 0 count as 0."""
    values, vectors = np.linalg.eigh(spread)
    vectors = vectors[:, ::-1].T
    # Eigenvectors have no sign of their own: fix it, so that merged and one-pass fits give the same space.
    largest = np.abs(vectors).argmax(axis=1)
    vectors = vectors * np.sign(vectors[np.arange(len(vectors)), largest])[:, None]
    return Basis(vectors, np.maximum(values[::-1], 0.0))


def given_basis(basis: str | ArrayLike | Basis, width: int) -> Basis:
    """A built-in basis, a matrix, or the path of a JSON file that contains a matrix, or of a card with one."""
    if isinstance(basis, Basis):
        given = basis
    elif isinstance(basis, str):
        given = Basis(BUILT_IN[basis](width, width)) if basis in BUILT_IN else _read_basis(Path(basis))
    else:
        try:
            given = Basis(np.asarray(basis, dtype=np.float64))
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"{_MUST}, a path or a matrix of numbers. Got a {type(basis).__name__} of something else instead."
            ) from error
    matrix = given.matrix
    if matrix.ndim != 2 or matrix.shape[1] != width or not np.isfinite(matrix).all() or not len(matrix):
        raise UsageError(
            f"{_MUST} or a finite matrix with {width} columns, one for each encoded column of this table. "
            f"Got shape {matrix.shape} instead."
        )
    return given


_MUST = f"The 'basis' parameter of principal-laplace must be {', '.join(map(repr, NAMES))}"


def _read_basis(path: Path) -> Basis:
    """A basis that a card says was learned stays learned, whoever uses it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            return Basis(np.array(data, dtype=np.float64))
        check_version(data, f"The card {path}")
        transform, told = data["transform"], data["learned_from_data"]
        matrix, variances = np.array(transform["matrix"], dtype=np.float64), transform.get("variances")
        return Basis(
            matrix,
            None if variances is None else np.array(variances, dtype=np.float64)[: len(matrix)],
            learned=LEARNED_BASIS in told or BORROWED_BASIS in told,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{_MUST} or the path of a JSON file that contains a matrix, or of a card with one. {path} is none of "
            "these."
        ) from error


# Sums over pairs of rows, in whole numbers: what a basis is estimated from under an epsilon of its own.
#
# Differences of pairs need no mean, which would have to be estimated first: their second moments are twice the
# covariance. Each is stretched to the same size, which bounds what one record can do and leaves directions as they are:
# the second moments of such differences have the eigenvectors of the covariance where rows are spread elliptically
# [spatial sign covariance: Visuri, Koivunen & Oja 2000].


TILE = 1 << 12
"""Pairs multiplied at a time: their sums stay below 2^53 and are exact in floating point."""
SMALLEST = 1e-18
"""Squared size of a difference below which two rows are the same."""


class PairedProducts(Statistics):
    """The sums of q_j q_k (`products`) and of lengths (`size`) over `pairs`, of rows that are paired in each block."""

    def __init__(self, terms: NoisyMoments, pairs: int, products: Codes, size: int, *, noisy: bool = False):
        super().__init__({}, len(products))
        self.terms, self.pairs, self.products, self.size, self.noisy = terms, pairs, products, size, noisy

    @classmethod
    def of_rows(cls, X: Matrix, terms: NoisyMoments) -> PairedProducts:
        """Of one block. Who is paired with whom depends on the number of rows alone; an odd row has no partner."""
        half, width = len(X) // 2, X.shape[1]
        order = np.random.default_rng(len(X)).permutation(len(X))
        products, size = np.zeros((width, width), dtype=np.int64), 0
        for start in range(0, half, TILE):
            one, other = order[start : min(start + TILE, half)], order[half + start : half + min(start + TILE, half)]
            difference = X[one] - X[other]
            q = whole_numbers(difference, terms)
            products += (q.T @ q).astype(np.int64)
            size += int(lengths(difference, terms).sum())
        return cls(terms, half, products, size)

    def __add__(self, other: Statistics) -> PairedProducts:
        assert isinstance(other, PairedProducts)
        assert self.terms == other.terms
        assert not self.noisy
        assert not other.noisy
        return PairedProducts(
            self.terms, self.pairs + other.pairs, self.products + other.products, self.size + other.size
        )

    def blurred(self, rng: np.random.Generator) -> PairedProducts:
        """The same with noise on every sum: from here on nothing but these sums is looked at."""
        rows, columns = np.triu_indices(self.width)
        noise = discrete_laplace(rng, self.terms.log2_scale, len(rows) + 1)
        products = self.products.copy()
        products[rows, columns] += noise[:-1]
        products[columns, rows] = products[rows, columns]
        return PairedProducts(self.terms, self.pairs, products, self.size + int(noise[-1]), noisy=True)

    @property
    def content(self) -> bytes:
        return self.products.tobytes() + self.pairs.to_bytes(8, "big") + self.size.to_bytes(16, "big", signed=True)

    def basis(self) -> Basis:
        """Directions of the noisy sums, and the variances that they leave to be believed.

        Noise alone has eigenvalues up to ``2 s sqrt(d)``, s its standard deviation [Wigner 1958]; what stands out of it
        was raised by it from v to v + s^2 d / v, which is turned back. What does not stand out counts as 0.
        """
        assert self.noisy, "a basis is made of noisy sums alone"
        pairs, width = max(self.pairs, 1), self.width
        found = leading_directions(self.products / pairs)
        assert found.variances is not None
        noise = math.sqrt(2.0) * 2.0**self.terms.log2_scale / pairs
        edge = 2 * noise * math.sqrt(width)
        seen = found.variances
        believed = np.where(seen > edge, (seen + np.sqrt(np.maximum(seen**2 - edge**2, 0.0))) / 2, 0.0)
        whole = max(float(np.trace(self.products)) / pairs, float(believed.sum()), noise)
        longest = width / 2
        length = max(self.size / pairs, noise) / self.terms.size * longest / 2  # differences vary twice as much as rows
        return Basis(found.matrix, min(length, longest / 2) * believed / whole)


def whole_numbers(difference: Matrix, terms: NoisyMoments) -> Matrix:
    """q of every pair: the difference stretched until its products add up to `pair`, and cut to whole numbers.

    ``sum over j <= k of |q_j q_k| = (|q|_1^2 + |q|_2^2) / 2``. The limit is checked in whole numbers, which doubles
    hold exactly; a row that rounding carried beyond it counts as 0.
    """
    size = _products(difference)
    stretch = np.sqrt(terms.pair / np.where(size > SMALLEST, size, np.inf))
    q = np.trunc(difference * stretch[:, None])
    q[_products(q) > terms.pair] = 0.0
    return np.asarray(q)


def lengths(difference: Matrix, terms: NoisyMoments) -> Codes:
    """The squared length of every difference, in steps of which half the number of columns has `size`."""
    share = np.minimum((difference * difference).sum(axis=1) / (difference.shape[1] / 2), 1.0)
    return np.asarray(np.floor(share * terms.size), dtype=np.int64)


def _products(rows: Matrix) -> Matrix:
    return np.asarray((np.abs(rows).sum(axis=1) ** 2 + (rows * rows).sum(axis=1)) / 2)
