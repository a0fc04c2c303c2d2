"""What learners must know of every column of a release: where it lies in the matrix, and the noise that made it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sfumato.channels import Recipe, Secret
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import CardError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.reads_noise import Part, recipe_of
from sfumato.mechanisms import Mechanism
from sfumato.reconstruction.reconstruct import Described, described
from sfumato.table import Group


@dataclass(frozen=True)
class ReleaseColumn:
    """Columns `start:stop` of the release matrix: one source column, or one component of a mixing release.

    `described` holds noise and range in raw units, which are `low + width * matrix entry`; None for a column that is
    constant and tells nothing.
    """

    start: int
    stop: int
    described: Described | None
    low: float = 0.0
    width: float = 1.0

    @property
    def is_categorical(self) -> bool:
        return self.described is not None and self.described.is_categorical

    @property
    def is_noisy(self) -> bool:
        """Whether anything was done to it: noise, or answers at random."""
        one = self.described
        if one is None:
            return False
        missing = one.missing_keep is not None and one.missing_keep < 1.0
        return one.noise is not None or (one.is_categorical and one.keep < 1.0) or missing

    @property
    def has_indicator(self) -> bool:
        """Whether a second matrix column says that the cell is empty."""
        return self.described is not None and self.described.missing_keep is not None

    def without_noise(self) -> ReleaseColumn:
        """The same column, released as it is."""
        if self.described is None:
            return self
        keep = None if self.described.missing_keep is None else 1.0
        return replace(self, described=replace(self.described, noise=None, keep=1.0, missing_keep=keep, grid=0.0))

    def reported(self, Z: Matrix) -> Flags:
        """Which rows report it at all."""
        return np.asarray(~np.isnan(Z[:, self.start]))

    def values(self, Z: Matrix) -> Matrix:
        """Released numbers in raw units; NaN where the cell was reported missing."""
        raw = self.low + self.width * Z[:, self.start]
        return np.where(self.missing(Z), np.nan, raw) if self.has_indicator else np.asarray(raw)

    def missing(self, Z: Matrix) -> Flags:
        """Which cells are reported missing."""
        return np.asarray(Z[:, self.stop - 1] > 0.5) if self.has_indicator else np.zeros(len(Z), dtype=bool)

    def codes(self, Z: Matrix) -> Codes:
        """Which category each row reports."""
        return np.asarray(Z[:, self.start : self.stop].argmax(axis=1), dtype=np.int64)

    def encoded(self, raw: Matrix) -> Matrix:
        """Matrix entries of raw values."""
        return np.asarray((raw - self.low) / self.width)


ReleaseColumns = tuple[ReleaseColumn, ...]


def columns_of(source: Recipe | Card | Mechanism, *, ranges: bool = True) -> ReleaseColumns:
    """The columns of a release.

    Refused where the range of a column is unknown (a secret key) or its noise is (rounded afterwards). With
    `ranges=False` only the latter: components behind a key have noise of a known law, but no range.
    """
    recipe = recipe_of(source)
    assert recipe is not None
    if isinstance(recipe.map, Secret):
        if ranges:
            raise CardError(
                "The map of this release is a secret key, so the range of its columns is unknown, and nothing can be "
                "reconstructed. Use noise-aware-lda, knn, svm, forest or boosting: they work in its own space."
            )
        return tuple(
            ReleaseColumn(place, place + 1, Described(f"c{place:03d}", "numeric", channel.raw_noise(1.0)))
            for place, channel in enumerate(recipe.channels)
        )
    if not recipe.is_columnwise and not all(channel.numbers for channel in recipe.channels):
        raise CardError(
            "The columns of this release are answers, not numbers with noise of a known law, and nothing can be "
            "reconstructed from them one by one. Use bernoulli-naive-bayes, forest or boosting."
        )
    found = [described(recipe, place) for place in range(len(recipe.channels))]
    if not recipe.is_columnwise:
        return tuple(ReleaseColumn(place, place + 1, one) for place, one in enumerate(found))
    return tuple(
        _placed(group, one, group.stop - channel.hides_missing)
        for one, (channel, (group,)) in zip(found, recipe.of_columns(), strict=True)
    )


def columns_of_part(part: Part, *, ranges: bool = True) -> ReleaseColumns:
    """The columns that the rows of a part have; refused where their card tells of others."""
    recipe = recipe_of(part.source)
    if recipe is None:  # numbers without any noise, as they are; constant columns tell nothing
        found = []
        for place, (low, high) in enumerate(zip(part.Z.min(axis=0).tolist(), part.Z.max(axis=0).tolist(), strict=True)):
            one = Described(f"x{place}", "numeric", None, low, high) if low < high else None
            found.append(ReleaseColumn(place, place + 1, one))
        return tuple(found)
    columns = columns_of(recipe, ranges=ranges)
    if recipe.width != part.Z.shape[1]:
        raise CardError(
            f"The card describes {recipe.width} columns, but the rows have {part.Z.shape[1]}. Card and release do not "
            "belong together."
        )
    return columns


def _placed(group: Group, described: Described | None, stop: int) -> ReleaseColumn:
    """Up to `stop`: a slot or indicator for "missing" that no row reports is no part of the column."""
    if described is None or group.is_onehot:
        return ReleaseColumn(group.start, stop, described)
    low, high = (float(bound) for bound in group.column.bounds)
    return ReleaseColumn(group.start, stop, described, low, high - low)
