"""Principal components with Laplace noise: a worst-case guarantee for distance-based learning [principal-laplace]."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Additive, Affine, Channel, Recipe, laplace_channels
from sfumato.channels.affine_bound import affine_epsilons, component_ranges
from sfumato.channels.maps import BUILT_IN, NoisyMoments
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.guarantee import Key
from sfumato.guarantee.card import check_version
from sfumato.guarantee.guarantee import BORROWED_BASIS, LEARNED_BASIS
from sfumato.guarantee.maps import is_reason
from sfumato.guarantee.rounding import rounded_up
from sfumato.mechanisms.base import FIT, MEASURE, Given, Mechanism, Phase, as_matrix, count_of
from sfumato.mechanisms.columnwise import epsilon_shares
from sfumato.mechanisms.parameters import RECORD, laplace_strength, searched_strength
from sfumato.noise import LAWS, discrete_laplace, make_law
from sfumato.table import Encoding, Group
from sfumato.table.statistics import Moments, Statistics

# Where the basis of a projection comes from: built in, learned, from public rows, or given by hand.


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
    try:
        if isinstance(basis, str):
            given = Basis(BUILT_IN[basis](width, width)) if basis in BUILT_IN else _read_basis(Path(basis))
        else:
            given = basis if isinstance(basis, Basis) else Basis(np.asarray(basis, dtype=np.float64))
    except (ValueError, TypeError) as error:
        told = f"a path or a matrix of numbers. Got a {type(basis).__name__} of something else instead."
        raise UsageError(f"{_MUST}, {told}") from error
    shape = given.matrix.shape
    if len(shape) != 2 or shape[1] != width or not np.isfinite(given.matrix).all() or not shape[0]:
        raise UsageError(
            f"{_MUST} or a finite matrix with {width} columns, one for each encoded column of this table. "
            f"Got shape {shape} instead."
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
        known = None if variances is None else np.array(variances, dtype=np.float64)[: len(matrix)]
        return Basis(matrix, known, learned=LEARNED_BASIS in told or BORROWED_BASIS in told)
    except (OSError, ValueError, KeyError, TypeError) as error:
        must = f"{_MUST} or the path of a JSON file that contains a matrix, or of a card with one."
        raise UsageError(f"{must} {path} is none of these.") from error


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
        assert (self.terms, self.noisy, other.noisy) == (other.terms, False, False)
        pairs, products = self.pairs + other.pairs, self.products + other.products
        return PairedProducts(self.terms, pairs, products, self.size + other.size)

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


# How many components to keep: a count, a part of them, a share of the variance, or what noise leaves of them.


NOISE_AWARE = "noise-aware"
PATIENCE = 3
"""Counts in a row that may be worse than the best one before the search ends."""


def component_count(
    wanted: float | str | None, basis: Basis, groups: Sequence[Group], effort: Matrix, epsilon: float | None, rows: int
) -> int:
    """The count that `wanted` means for this basis; `epsilon` is what the components may spend together."""
    if not isinstance(wanted, str):
        return count_of(wanted, len(basis.matrix), "principal-laplace")
    percent = math.nan
    with contextlib.suppress(ValueError):
        percent = float(wanted[:-1]) if wanted.endswith("%") else math.nan
    if wanted != NOISE_AWARE and not 0 < percent <= 100:
        raise UsageError(
            "The 'components' parameter of principal-laplace must be a count (2), a fraction in (0, 1] (0.5), a share "
            f"of the variance (90%) or {NOISE_AWARE}. Got {wanted!r} instead."
        )
    if basis.variances is None:
        raise UsageError(
            f"components={wanted} needs to know how much rows vary along each component, and this basis does not say. "
            "Take the principal components of public rows (--basis-from), basis=private, or give a count."
        )
    if not basis.variances.any():
        return 1  # nothing stands out: the leading direction is as good as any
    if wanted == NOISE_AWARE:
        if epsilon is None:
            raise UsageError(f"components={NOISE_AWARE} weighs components against a wanted epsilon. Give one.")
        return noise_aware(basis.matrix, basis.variances, groups, effort, epsilon, rows)
    shares = np.cumsum(basis.variances) / basis.variances.sum()
    return int(np.searchsorted(shares, percent / 100 - 1e-12) + 1)


def noise_aware(
    matrix: Matrix, variances: Matrix, groups: Sequence[Group], effort: Matrix, epsilon: float, rows: int
) -> int:
    """The count with which so many rows together tell most of the variance.

    Of a component of variance v under noise of variance n, N rows tell the variance up to a standard error of
    ``e = (v + n) sqrt(2 / N)``; it counts for ``v^2 / (v + e)``. Every further component takes epsilon from the others,
    whose noise grows. Only what stands on the card is looked at.
    """
    best, most, error = 1, -1.0, math.sqrt(2.0 / max(rows, 2))
    for count in range(1, len(matrix) + 1):
        if count - best > PATIENCE or (count > 1 and variances[count - 1] <= 0):
            break
        kept = matrix[:count]
        low, high = component_ranges(kept, groups)
        widths = np.where(high > low, high - low, 1.0)
        b = affine_epsilons(kept, widths * effort[:count], widths, groups).record / epsilon
        spread = variances[:count] + 2.0 * (b * widths * effort[:count]) ** 2
        told = float((variances[:count] ** 2 / np.maximum(variances[:count] + error * spread, 1e-300)).sum())
        if told > most:
            best, most = count, told
    return best


NARROWEST = 1e-9
"""A component that varies by less than this part of what its coefficients allow does not vary at all: its width would
be a rounding error, and noise in proportion to it would drown in others."""
ESTIMATED = (
    "The basis was estimated from these rows with exact noise of its own. It costs epsilon {}, which is part of the "
    "record's: the figure holds against anybody who sees the basis and all released rows. It is "
    "about tables that differ in one record, and the number of rows is public."
)


class PrincipalLaplace(Mechanism):
    """Project onto principal components and add Laplace noise of scale b_i = b w_i to each [Fig. 2].

    ``z = V x + c + noise``: V holds the leading eigenvectors of the covariance (rows v_i), c centres the domain at 0.
    Widths: ``component_bounds="public"`` takes ``w_i = sum_j |v_ij| (U_j - L_j)``, the range over the declared domain;
    ``"data"`` takes the scores' own range, as published (Eq. 8 then gives e^(1/b) per component, but the range
    is itself learned). Scores are clipped to their interval, so the record's epsilon is at most s / b; with public
    widths the figure is smaller, exact up to 18 components and certified beyond (see `sfumato.channels.affine_bound`).
    Where the schema gives columns weights, a component's noise is multiplied by the mean weight of its columns.

    Parameters
    ----------
    b : noise scale relative to a component's width.
    components : how many to keep: a count (5), a fraction of the encoded columns (0.5), a share of the variance
        ("90%"), or "noise-aware": as many as let all rows tell most, under the noise of a wanted epsilon. By default
        noise-aware for a private basis and for public rows with a wanted epsilon, half of other principal components
        (as in the paper's experiments), all of another basis.
    basis : "learned"; "private", estimated under its own part of `epsilon_record`; a built-in one ("identity", "dct",
        "haar"; the last two follow the order of the columns); or a matrix (rows are components), or the path of a JSON
        file that holds one (another release's card serves: sites that share a basis share a space).
    basis_reason : why a given basis is public, in the owner's words. Without it, and with a basis that a card or the
        owner's ledger says was learned, the claim stays conditional: rows that shaped a basis are in it.
    component_bounds : "public" or "data".
    noise : "exact" (discrete Laplace on a grid) or "float" (for experiments).
    epsilon_record : target epsilon of the record; b is then derived.
    basis_share : the part of `epsilon_record` that a private basis is estimated with.
    law : "laplace", or another law of the noise ("student-t" has a bound too), which is drawn in floating point.
    df : degrees of freedom of Student's t.
    """

    name = "principal-laplace"
    proves = True
    column_choices = frozenset({"epsilon_share"})
    own_knob = replace(RECORD, proved_with={"basis": "private"})
    papers = ("principal-laplace",)
    published = MappingProxyType({"basis": "learned", "component_bounds": "data", "noise": "float"})
    rests_on = (
        "The noise of different rows and components is independent and secret.",
        "Values outside the bounds were clipped to them before the projection.",
    )
    not_protected = (
        "Dropped components are not released, but a column can still show in the kept ones: the guarantee is for the "
        "record, not for one column alone.",
    )

    b: float = 0.3
    components: int | float | str | None = None
    basis: str | ArrayLike | Basis = "learned"
    component_bounds: str = "public"
    noise: str = "exact"
    epsilon_record: float | None = None
    basis_reason: str | None = None
    basis_share: float = 0.25
    law: str = "laplace"
    df: float | None = None

    @property
    def _named(self) -> str | None:
        """The basis, where it is one of `NAMES`; None for one that was given by hand."""
        return self.basis if isinstance(self.basis, str) and self.basis in NAMES else None

    @property
    def estimates(self) -> bool:
        return self._named == PRIVATE

    @property
    def _declared_public(self) -> bool:
        return self._named is None and not self.borrowed_ and is_reason(self.basis_reason)

    @property
    def needs_statistics(self) -> bool:
        """A rule that weighs components against noise needs the number of rows."""
        weighed = self.components == NOISE_AWARE or (self.components is None and isinstance(self.basis, Basis))
        return self._named in (LEARNED, PRIVATE) or weighed

    def fitting(self, given: Given) -> Iterator[Phase]:
        """The fit. A private basis is made of sums with noise, which is added once, after all blocks; widths from the
        data need the scores that the fit gives."""
        if self.estimates:
            terms = self._terms(given.encoding.width)

            def finish(sums: PairedProducts) -> None:
                noisy = sums.blurred(given.streams.generator(0, sums.content, b"basis"))
                self.fit_statistics(noisy, given.encoding, given.key)

            yield Phase(FIT, lambda rows: PairedProducts.of_rows(rows.X, terms), finish)
        else:
            yield from super().fitting(given)
        if self.component_bounds == "data":
            yield Phase(MEASURE, lambda rows: Statistics.of(self.embed(rows.X)), self.fit_scores)

    def _terms(self, width: int) -> NoisyMoments:
        """How the basis is estimated under its part of the epsilon; without a wanted one there is nothing to part."""
        self._check_positive(epsilon_record=self.epsilon_record, basis_share=self.basis_share)
        if self.epsilon_record is None or not self.basis_share < 1:
            raise UsageError(
                "A private basis takes a part of a wanted epsilon: give epsilon_record (--epsilon-record), and a "
                f"'basis_share' of {self.name} below 1. Got {self.basis_share:g} instead."
            )
        return NoisyMoments.of(float(self.epsilon_record) * float(self.basis_share), width)

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_positive(b=self.b, epsilon_record=self.epsilon_record, df=self.df, basis_share=self.basis_share)
        self._check("a sentence", lambda one: isinstance(one, str | None), basis_reason=self.basis_reason)
        self._check_choice(("public", "data"), component_bounds=self.component_bounds)
        self._check_choice(("exact", "float"), noise=self.noise)
        self._check_choice(tuple(LAWS), law=self.law)
        self.encoding_ = encoding
        self.estimated_ = self._terms(encoding.width) if self.estimates else None
        spent = 0.0 if self.estimated_ is None else self.estimated_.epsilon
        self.left_ = None if self.epsilon_record is None else float(self.epsilon_record) - spent
        if self._named == LEARNED:
            found = principal_components(statistics.total)
        elif isinstance(statistics, PairedProducts):
            found = statistics.basis()
        else:
            found = given_basis(self.basis, encoding.width)
        self.variances_, self.borrowed_ = found.variances, found.learned
        effort = self._effort(found.matrix)
        rows = 2 * statistics.pairs if isinstance(statistics, PairedProducts) else statistics.n
        wanted, public_rows = self.components, isinstance(self.basis, Basis) and found.variances is not None
        if wanted is None and (self._named in (LEARNED, PRIVATE) or public_rows):
            wanted = 0.5 if self._named == LEARNED or self.epsilon_record is None else NOISE_AWARE
        count = component_count(wanted, found, encoding.groups, effort, self.left_, rows)
        self.matrix_, self.effort_ = np.ascontiguousarray(found.matrix[:count]), effort[:count]
        low, high = component_ranges(self.matrix_, encoding.groups)
        self.offset_ = -(low + high) / 2
        widths = high - low
        usual = np.abs(self.matrix_).sum(axis=1)
        usual[usual == 0] = 1.0
        self._half_ = np.where(widths > NARROWEST * usual, widths, usual) / 2
        if self.component_bounds == "public":
            self._set_interval(-self._half_, self._half_)
        return self

    def fit_scores(self, statistics: Statistics) -> Self:
        """Widths from the scores themselves, as published: D_P's own maximum and minimum [Fig. 2, line 3]."""
        scores = statistics.total
        varies = scores.high - scores.low > NARROWEST * self._half_
        self._set_interval(np.where(varies, scores.low, -self._half_), np.where(varies, scores.high, self._half_))
        return self

    def _set_interval(self, low: Matrix, high: Matrix) -> None:
        self.b_ = float(self.b) if self.left_ is None else self._b_for(self.left_, low, high)
        channels = self._channels(low, high, self.b_ * (high - low) * self.effort_)
        reason = self.basis_reason if self._declared_public else None
        made = Affine(self.matrix_, self.offset_, self.variances_, reason, self.estimated_)
        self.recipe_ = Recipe(self.encoding_, made, channels)

    def _channels(self, low: Matrix, high: Matrix, scales: Matrix) -> tuple[Channel, ...]:
        """One a component, each clipped to its interval first; laws other than Laplace are drawn in floats."""
        if self.law == "laplace":
            make_law(self.law, scale=1.0, df=self.df)  # refuses degrees of freedom, which it does not have
            return laplace_channels(low, high, scales, exact=self.noise == "exact")
        places = zip(scales.tolist(), low.tolist(), high.tolist(), strict=True)
        return tuple(Additive(make_law(self.law, scale=b, df=self.df), low=one, high=last) for b, one, last in places)

    def _effort(self, matrix: Matrix) -> Matrix:
        """How much more noise than usual each component gets: the mean of what its columns deserve."""
        groups, loads = self.encoding_.groups, np.abs(matrix)
        deserved = np.repeat([1.0 / share for share in epsilon_shares(groups)], [group.width for group in groups])
        if (deserved == 1.0).all():
            return np.ones(len(loads))
        loaded = loads.any(axis=1)
        return np.where(loaded, (loads @ deserved) / np.where(loaded, loads.sum(axis=1), 1.0), 1.0)

    def _b_for(self, wanted: float, low: Matrix, high: Matrix) -> float:
        """The b whose record epsilon is the wanted one, rounding included, approached from the safe side."""
        groups, widths = self.encoding_.groups, high - low
        at_one = affine_epsilons(self.matrix_, widths * self.effort_, widths, groups).record
        if at_one == 0:  # no two records differ: any noise will do
            return float(self.b)

        def recipe(b: float) -> Recipe:
            channels = self._channels(low, high, b * widths * self.effort_)
            return Recipe(self.encoding_, Affine(self.matrix_, self.offset_), channels)

        if self.law != "laplace":
            if not math.isfinite(recipe(1.0).epsilons().record):
                raise UsageError(
                    f"No strength of {self.law} noise gives a record epsilon: what it tells has no bound "
                    "[principal-laplace, Theorem 4]. Use law=laplace, or student-t."
                )
            named = f" with {self.law} noise."
            return searched_strength(lambda b: recipe(b).epsilons().record, wanted, named, named)
        return laplace_strength(self.name, at_one, wanted, lambda b: recipe(b).rounding)

    def embed(self, X: ArrayLike) -> Matrix:
        """Also before the second pass has found the ranges of the scores."""
        return Affine(self.matrix_, self.offset_).apply(as_matrix(X))

    def restore(self, Z: Matrix) -> Matrix:
        """Reverse the projection around the middle of the domain: the least-norm row that has these scores."""
        middle = np.concatenate([group.vertices.mean(axis=0) for group in self.encoding_.groups])
        restored: Matrix = middle + (Z - self.embed(middle[None])) @ np.linalg.pinv(self.matrix_).T
        return restored

    def assumptions(self) -> tuple[str, ...]:
        declared = [f"The basis is public: {self.basis_reason}"] if self._declared_public else []
        if self.estimated_ is not None:
            declared = [ESTIMATED.format(rounded_up(self.estimated_.epsilon, 4))]
        return (*self.rests_on, *declared)

    def sentence(self) -> str:
        return f"{self.law.capitalize()} noise has no bounded amplification [principal-laplace, Theorem 4]."

    def learned(self) -> list[str]:
        basis = [LEARNED_BASIS] if self._named == LEARNED else [BORROWED_BASIS] if self.borrowed_ else []
        ranges = ["ranges of the components"] if self.component_bounds == "data" else []
        return [*super().learned(), *basis, *ranges]

    @property
    def learns_directions(self) -> bool:
        return self._named == LEARNED or self.borrowed_

    def directions(self) -> Matrix | None:
        return self.matrix_

    def parameters_used(self) -> dict[str, Any]:
        basis = self._named or "given"
        return {**super().parameters_used(), "b": self.b_, "components": len(self.matrix_), "basis": basis}
