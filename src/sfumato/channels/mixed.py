"""Noise that several columns share: z = x + B u, with u independent and B a matrix that the card states.

Every column has a channel of its own, whose law is what the column shows by itself. So whoever reads one column at a
time needs to know nothing more. Whoever reads several asks for them `apart`: in the coordinates B^-1 z the noise of
different columns is independent again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np

from sfumato.channels.additive import Additive
from sfumato.channels.base import MOST_COLUMNS, Channel, register
from sfumato.core.accepted import Listed, Number
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError
from sfumato.core.records import APART, Key
from sfumato.noise import A_LAW, Law, make_law
from sfumato.noise.kernel_laws import SumLaw

STEPS = 1 << 12
"""Cells on which the law of one column is computed: a 4000th of the distance between its ends."""
SINGULAR = 1e-9
"""A matrix whose least singular value is so small a share of its largest cannot be turned back."""


@register
@dataclass(frozen=True)
class Mixed(Additive):
    """z_i = x_i + sum over j of B_ij u_j; `weights` is B_i, and all columns of a row share the u_j of law `source`."""

    law: Annotated[Law, APART] = field(init=False)
    grid: Annotated[float, APART] = field(default=0.0, init=False)
    low: Annotated[float, APART] = field(default=-math.inf, init=False)
    high: Annotated[float, APART] = field(default=math.inf, init=False)
    source: Annotated[Law, A_LAW, Key("noise")] = field()
    """The law of every u_j, which is symmetric."""
    weights: Annotated[tuple[float, ...], Listed(Number(), least=1, most=MOST_COLUMNS)] = field()
    tag = "mixed"

    def __post_init__(self) -> None:
        used, source = self.weights, self.source
        if not source.is_symmetric or source.mean != 0 or not any(used) or not np.isfinite(used).all():
            raise ValueError("weights")
        if source.name == "normal":
            law = make_law("normal", scale=math.sqrt(source.variance) * math.hypot(*used))
        else:
            terms = [source.scaled(abs(weight)) for weight in used if weight]
            law = terms[0] if len(terms) == 1 else SumLaw.of(terms, STEPS)
        object.__setattr__(self, "law", law)  # the only door into a frozen dataclass
        super().__post_init__()


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
