"""Principal components with Laplace noise: a worst-case guarantee for distance-based learning [principal-laplace]."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Additive, Affine, Channel, Recipe, laplace_channels
from sfumato.channels.affine_bound import affine_epsilons, component_ranges
from sfumato.channels.maps import NoisyMoments
from sfumato.core.array_types import Matrix
from sfumato.core.errors import UsageError
from sfumato.guarantee import Key
from sfumato.guarantee.guarantee import BORROWED_BASIS, LEARNED_BASIS
from sfumato.guarantee.maps import is_reason
from sfumato.guarantee.rounding import rounded_up
from sfumato.mechanisms.base import FIT, MEASURE, Given, Mechanism, Phase, as_matrix, count_of
from sfumato.mechanisms.basis import LEARNED, NAMES, PRIVATE, Basis, PairedProducts, given_basis, principal_components
from sfumato.mechanisms.columnwise import epsilon_shares
from sfumato.mechanisms.parameters import RECORD, laplace_strength, searched_strength
from sfumato.noise import LAWS, make_law
from sfumato.table import Encoding, Group
from sfumato.table.statistics import Statistics

# How many components to keep: a count, a part of them, a share of the variance, or what noise leaves of them.


NOISE_AWARE = "noise-aware"
PATIENCE = 3
"""Counts in a row that may be worse than the best one before the search ends."""


def component_count(
    wanted: int | float | str | None,
    basis: Basis,
    groups: Sequence[Group],
    effort: Matrix,
    epsilon: float | None,
    rows: int,
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
    def _learns_basis(self) -> bool:
        return isinstance(self.basis, str) and self.basis == LEARNED

    @property
    def estimates(self) -> bool:
        return isinstance(self.basis, str) and self.basis == PRIVATE

    @property
    def _hand_given(self) -> bool:
        return not (isinstance(self.basis, str) and self.basis in NAMES)

    @property
    def _declared_public(self) -> bool:
        return self._hand_given and not self.borrowed_ and is_reason(self.basis_reason)

    @property
    def needs_statistics(self) -> bool:
        """A rule that weighs components against noise needs the number of rows."""
        weighed = self.components == NOISE_AWARE or (self.components is None and isinstance(self.basis, Basis))
        return self._learns_basis or self.estimates or weighed

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
        if self._learns_basis:
            found = principal_components(statistics.total)
        elif isinstance(statistics, PairedProducts):
            found = statistics.basis()
        else:
            found = given_basis(self.basis, encoding.width)
        self.variances_, self.borrowed_ = found.variances, found.learned
        effort = self._effort(found.matrix)
        rows = 2 * statistics.pairs if isinstance(statistics, PairedProducts) else statistics.n
        count = component_count(self._wanted(found), found, encoding.groups, effort, self.left_, rows)
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

    def _wanted(self, found: Basis) -> int | float | str | None:
        public_rows = isinstance(self.basis, Basis) and found.variances is not None
        if self.components is not None or not (self.estimates or self._learns_basis or public_rows):
            return self.components
        return 0.5 if self._learns_basis or self.epsilon_record is None else NOISE_AWARE

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
        """One a component, each clipped to its interval first: Laplace noise (exact, or in floating point), or another
        law, which is drawn in floating point."""
        if self.law == "laplace":
            make_law(self.law, scale=1.0, df=self.df)  # refuses degrees of freedom, which it does not have
            return laplace_channels(low, high, scales, exact=self.noise == "exact")
        places = zip(scales.tolist(), low.tolist(), high.tolist(), strict=True)
        return tuple(Additive(make_law(self.law, scale=b, df=self.df), low=one, high=last) for b, one, last in places)

    def _effort(self, matrix: Matrix) -> Matrix:
        """How much more noise than usual each component gets: the mean of what its columns deserve."""
        groups, loads = self.encoding_.groups, np.abs(matrix)
        deserved = np.repeat([1.0 / share for share in epsilon_shares(groups)], [group.width for group in groups])
        loaded = loads.any(axis=1)
        if (deserved == 1.0).all():
            return np.ones(len(loads))
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
        basis = [LEARNED_BASIS] if self._learns_basis else [BORROWED_BASIS] if self.borrowed_ else []
        ranges = ["ranges of the components"] if self.component_bounds == "data" else []
        return [*super().learned(), *basis, *ranges]

    @property
    def learns_directions(self) -> bool:
        return self._learns_basis or self.borrowed_

    def directions(self) -> Matrix | None:
        return self.matrix_

    def parameters_used(self) -> dict[str, Any]:
        basis = "given" if self._hand_given else self.basis
        return {**super().parameters_used(), "b": self.b_, "components": len(self.matrix_), "basis": basis}
