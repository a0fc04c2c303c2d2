"""Noise that several columns share: z = x + B u, with u independent and B a matrix that the card states.

Every column has a channel of its own, whose law is what the column shows by itself. So whoever reads one column at a
time needs to know nothing more. Whoever reads several asks for them `apart`: in the coordinates B^-1 z the noise of
different columns is independent again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.channels.additive import Additive
from sfumato.channels.base import MOST_COLUMNS, Channel, register
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError
from sfumato.noise import Law, law_from_dict, make_law
from sfumato.noise.kernel_laws import SumLaw

STEPS = 1 << 12
"""Cells on which the law of one column is computed: a 4000th of the distance between its ends."""
SINGULAR = 1e-9
"""A matrix whose least singular value is so small a share of its largest cannot be turned back."""


@register
@dataclass(frozen=True)
class Mixed(Additive):
    """z_i = x_i + sum over j of B_ij u_j; `weights` is B_i, and all columns of a row share the u_j of law `source`."""

    source: Law | None = None
    weights: tuple[float, ...] = ()
    tag = "mixed"

    @classmethod
    def of(cls, source: Law, weights: Sequence[float]) -> Self:
        """The channel of one column; `source` is the law of every u_j, which is symmetric."""
        used = tuple(float(weight) for weight in weights)
        if not source.is_symmetric or source.mean != 0 or not any(used) or not np.isfinite(used).all():
            raise ValueError("weights")
        if source.name == "normal":
            return cls(
                make_law("normal", scale=math.sqrt(source.variance) * math.hypot(*used)),
                0.0,
                source=source,
                weights=used,
            )
        terms = [source.scaled(abs(weight)) for weight in used if weight]
        return cls(terms[0] if len(terms) == 1 else SumLaw.of(terms, STEPS), 0.0, source=source, weights=used)

    def to_dict(self) -> dict[str, Any]:
        assert self.source is not None
        return {"noise": self.source.to_dict(), "weights": list(self.weights)}

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any]) -> Self:
        weights = stated["weights"]
        if not isinstance(weights, list) or not 1 <= len(weights) <= MOST_COLUMNS:
            raise ValueError("weights")
        if any(isinstance(one, bool) or not isinstance(one, int | float) for one in weights):
            raise ValueError("weights")
        return cls.of(law_from_dict(stated["noise"]), weights)


class Apart(NamedTuple):
    """`columns` of the release that share noise, B, and the channels of B^-1 z in their place."""

    columns: Codes
    root: Matrix
    source: Law
    channels: tuple[Channel, ...]

    @property
    def log_volume(self) -> float:
        """log |det B|: a density of B^-1 z is so much larger than that of z, in logarithms."""
        return float(np.linalg.slogdet(self.root)[1])

    def white(self, Z: Matrix) -> Matrix:
        """Rows in the coordinates in which noise is independent; other columns stay as they are."""
        found = np.array(Z, dtype=np.float64)
        found[:, self.columns] = np.linalg.solve(self.root, found[:, self.columns].T).T
        return found

    def back(self, Z: Matrix) -> Matrix:
        """The inverse of `white`."""
        found = np.array(Z, dtype=np.float64)
        found[:, self.columns] = found[:, self.columns] @ self.root.T
        return found

    def matrix(self, width: int) -> Matrix:
        """`white` as a matrix."""
        return np.asarray(self.white(np.eye(width)).T)

    def between(self, width: int) -> Matrix:
        """Covariances of the noise of different columns, in released units; 0 on the diagonal."""
        found = np.zeros((width, width))
        found[np.ix_(self.columns, self.columns)] = self.source.variance * (self.root @ self.root.T)
        np.fill_diagonal(found, 0.0)
        return found


def apart(channels: Sequence[Channel]) -> Apart | None:
    """How columns that share noise are told apart; None where none do."""
    mixed = [channel for channel in channels if isinstance(channel, Mixed)]
    if not mixed:
        return None
    source = mixed[0].source
    assert source is not None
    if any(one.source != source or len(one.weights) != len(mixed) for one in mixed):
        raise CardError("The card's channels share noise in a way that cannot be: it was edited or is damaged.")
    root = np.array([one.weights for one in mixed])
    sizes = np.linalg.svd(root, compute_uv=False)
    if not sizes[-1] > SINGULAR * sizes[0]:
        raise CardError("The card's channels share noise by a matrix without an inverse: it was edited or is damaged.")
    ends = np.cumsum([channel.width for channel in channels])
    columns = [int(end) - 1 for end, one in zip(ends, channels, strict=True) if isinstance(one, Mixed)]
    independent = tuple(Additive(source) if isinstance(one, Mixed) else one for one in channels)
    return Apart(np.array(columns), root, source, independent)
