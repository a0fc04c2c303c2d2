"""Principal components with Laplace noise: a worst-case guarantee for distance-based learning [principal-laplace]."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Matrix
from sfumato.channels import Affine, Recipe, laplace_channels
from sfumato.channels.affine_bound import affine_epsilons, component_ranges
from sfumato.errors import UsageError
from sfumato.guarantee import Key
from sfumato.guarantee.borrowed import is_reason
from sfumato.guarantee.proved import BORROWED_BASIS, LEARNED_BASIS
from sfumato.mechanisms.base import Mechanism, as_matrix, count_of
from sfumato.mechanisms.basis import LEARNED, NAMES, Basis, given_basis, principal_components
from sfumato.mechanisms.columnwise import epsilon_shares
from sfumato.statistics import Statistics
from sfumato.table import Encoding

NARROWEST = 1e-9
"""A component that varies by less than this part of what its coefficients allow does not vary at all: its width would
be a rounding error, and noise in proportion to it would drown in others."""

FROM_BELOW = 1 + 1e-12
"""Products and quotients are rounded; the derived b is larger by more than that, so that epsilon is never exceeded."""


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
    components : how many to keep: a count, or a fraction of the encoded columns; by default half of the principal
        components (as in the paper's experiments), all of another basis.
    basis : "learned", a built-in one ("identity", "dct", "haar"; the last two follow the order of the columns), or a
        matrix (rows are components), or the path of a JSON file that holds one (another release's card serves: sites
        that share a basis share a space).
    basis_reason : why a given basis is public, in the owner's words. Without it, and with a basis that a card or the
        owner's ledger says was learned, the claim stays conditional: rows that shaped a basis are in it.
    component_bounds : "public" or "data".
    noise : "exact" (discrete Laplace on a grid) or "float" (for experiments).
    epsilon_record : target epsilon of the record; b is then derived.
    """

    name = "principal-laplace"
    proves = True
    column_choices = frozenset({"epsilon_share"})
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

    def __init__(
        self,
        b: float = 0.3,
        components: int | float | None = None,
        basis: str | ArrayLike | Basis = "learned",
        component_bounds: str = "public",
        noise: str = "exact",
        epsilon_record: float | None = None,
        basis_reason: str | None = None,
    ):
        self.b = b
        self.components = components
        self.basis = basis
        self.component_bounds = component_bounds
        self.noise = noise
        self.epsilon_record = epsilon_record
        self.basis_reason = basis_reason

    @property
    def _learns_basis(self) -> bool:
        return isinstance(self.basis, str) and self.basis == LEARNED

    @property
    def _hand_given(self) -> bool:
        return not (isinstance(self.basis, str) and self.basis in NAMES)

    @property
    def _declared_public(self) -> bool:
        return self._hand_given and not self.borrowed_ and is_reason(self.basis_reason)

    @property
    def needs_statistics(self) -> bool:
        return self._learns_basis

    @property
    def needs_second_pass(self) -> bool:
        return self.component_bounds == "data"

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_positive(b=self.b, epsilon_record=self.epsilon_record)
        self._check_choice(("public", "data"), component_bounds=self.component_bounds)
        self._check_choice(("exact", "float"), noise=self.noise)
        self.encoding_ = encoding
        found = (
            principal_components(statistics.total) if self._learns_basis else given_basis(self.basis, encoding.width)
        )
        self.variances_, self.borrowed_ = found.variances, found.learned
        wanted = 0.5 if self.components is None and found.variances is not None else self.components
        self.matrix_ = np.ascontiguousarray(found.matrix[: count_of(wanted, len(found.matrix), type(self).__name__)])
        low, high = component_ranges(self.matrix_, encoding.groups)
        self.offset_ = -(low + high) / 2
        self._half_ = self._widened(high - low) / 2
        if not self.needs_second_pass:
            self._set_interval(-self._half_, self._half_)
        return self

    def _widened(self, widths: Matrix) -> Matrix:
        """Widths, where components that cannot vary (constant columns, slots that add up to one) get a usual one."""
        usual = np.abs(self.matrix_).sum(axis=1)
        usual[usual == 0] = 1.0
        return np.where(widths > NARROWEST * usual, widths, usual)

    def fit_second(self, statistics: Statistics) -> Self:
        """Widths from the scores themselves, as published: D_P's own maximum and minimum [Fig. 2, line 3]."""
        scores = statistics.total
        varies = scores.high - scores.low > NARROWEST * self._half_
        self._set_interval(np.where(varies, scores.low, -self._half_), np.where(varies, scores.high, self._half_))
        return self

    def _set_interval(self, low: Matrix, high: Matrix) -> None:
        exact = self.noise == "exact"
        widths = high - low
        b = float(self.b)
        if self.epsilon_record is not None:
            b = self._b_for(float(self.epsilon_record), low, high)
        self.b_ = b
        channels = laplace_channels(low, high, b * widths * self._effort(), exact=exact)
        reason = self.basis_reason if self._declared_public else None
        self.recipe_ = Recipe(self.encoding_, Affine(self.matrix_, self.offset_, self.variances_, reason), channels)

    def _effort(self) -> Matrix:
        """How much more noise than usual each component gets: the mean of what its columns deserve."""
        groups, loads = self.encoding_.groups, np.abs(self.matrix_)
        deserved = np.repeat([1.0 / share for share in epsilon_shares(groups)], [group.width for group in groups])
        loaded = loads.any(axis=1)
        if (deserved == 1.0).all():
            return np.ones(len(loads))
        return np.where(loaded, (loads @ deserved) / np.where(loaded, loads.sum(axis=1), 1.0), 1.0)

    def _b_for(self, wanted: float, low: Matrix, high: Matrix) -> float:
        """The b whose record epsilon is the wanted one, rounding included, approached from the safe side."""
        widths = high - low
        at_one = affine_epsilons(self.matrix_, widths * self._effort(), widths, self.encoding_.groups).record
        if at_one == 0:  # no two records differ: any noise will do
            return float(self.b)
        exact = self.noise == "exact"
        channels = laplace_channels(low, high, at_one / wanted * widths * self._effort(), exact=exact)
        rounding = math.fsum(channel.rounding for channel in channels)
        if rounding > wanted / 2:
            raise UsageError(
                f"The 'epsilon_record' parameter of {type(self).__name__} must be at least {2 * rounding:.1e}: below "
                f"that, rounding to the grid alone costs more. Got {wanted:g} instead."
            )
        return at_one / (wanted - rounding) * FROM_BELOW

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
        return (*self.rests_on, *declared)

    def learned(self) -> list[str]:
        learned = super().learned()
        if self._learns_basis:
            learned.append(LEARNED_BASIS)
        elif self.borrowed_:
            learned.append(BORROWED_BASIS)
        if self.component_bounds == "data":
            learned.append("ranges of the components")
        return learned

    @property
    def learns_directions(self) -> bool:
        return self._learns_basis or self.borrowed_

    def directions(self) -> Matrix | None:
        return self.matrix_

    def parameters_used(self) -> dict[str, Any]:
        basis = "given" if self._hand_given else self.basis
        return {**super().parameters_used(), "b": self.b_, "components": len(self.matrix_), "basis": basis}
