"""Several columns: the product of their marginals, or the density along one direction [density-reconstruction, 3.3].

A density over many columns cannot be had cell by cell. The product of the marginals is right where columns are
independent; a projection keeps what the columns have in common, one direction at a time. Two columns together are in
`pair.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Floats
from sfumato.errors import UsageError
from sfumato.guarantee import Card
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.projection import Projection
from sfumato.reconstruction.reconstruct import reconstruct


@dataclass(frozen=True)
class Product:
    """Columns taken as independent: densities multiply."""

    marginals: tuple[Density, ...]

    def pdf(self, X: ArrayLike) -> Floats:
        """Density at every row of X, whose columns are those of `marginals`."""
        rows = np.atleast_2d(np.asarray(X, dtype=np.float64))
        return np.asarray(np.prod([m.pdf(rows[:, j]) for j, m in enumerate(self.marginals)], axis=0))

    @property
    def mean(self) -> Floats:
        return np.array([marginal.mean for marginal in self.marginals])

    def sample(self, rng: np.random.Generator, rows: int) -> Floats:
        return np.column_stack([marginal.sample(rng, rows) for marginal in self.marginals])


def reconstruct_product(
    columns: Mapping[str, Any], card: Card, *, method: str | Method = "parzen-program", **options: Any
) -> Product:
    """Reconstruct every column by itself; `columns` maps names to released values."""
    found = [reconstruct(values, card, column=name, method=method, **options) for name, values in columns.items()]
    wrong = [one.name for one in found if not isinstance(one, Density)]
    if wrong:
        raise UsageError(f"Column {wrong[0]!r} is categorical; a product density takes numbers only.")
    return Product(tuple(one for one in found if isinstance(one, Density)))


def reconstruct_along(
    columns: Mapping[str, ArrayLike],
    weights: Mapping[str, float],
    card: Card,
    *,
    method: str | Method = "parzen-program",
    **options: Any,
) -> Density:
    """The density of a weighted sum of columns with additive noise: its noise is the weighted sum of theirs."""
    projection = Projection.of(weights)
    noise, low, high = projection.noise(card)
    values = projection.values({name: np.asarray(found, dtype=np.float64) for name, found in columns.items()})
    options = {"support": (low, high), **options}
    found = reconstruct(values, noise, column=projection.title, method=method, **options)
    assert isinstance(found, Density)
    return found
