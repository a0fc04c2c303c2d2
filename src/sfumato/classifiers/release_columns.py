"""What learners must know of every column of a release: where it lies in the matrix, and the noise that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import CardError
from sfumato.guarantee import RANDOMIZED_RESPONSE, Card
from sfumato.mechanisms import Mechanism
from sfumato.noise import CUSTOM, Operator, OperatorNoise, make_operator
from sfumato.reconstruction.described import Described, describe, of_component, of_group
from sfumato.table import Group

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


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

    def values(self, Z: Matrix) -> Matrix:
        """Released numbers in raw units; NaN where the cell was reported missing."""
        raw = self.low + self.width * Z[:, self.start]
        return np.where(self.missing(Z), np.nan, raw) if self.has_indicator else np.asarray(raw)

    def missing(self, Z: Matrix) -> NDArray[np.bool_]:
        """Which cells are reported missing."""
        return np.asarray(Z[:, self.stop - 1] > 0.5) if self.has_indicator else np.zeros(len(Z), dtype=bool)

    def codes(self, Z: Matrix) -> Codes:
        """Which category each row reports."""
        return np.asarray(Z[:, self.start : self.stop].argmax(axis=1), dtype=np.int64)

    def encoded(self, raw: Matrix) -> Matrix:
        """Matrix entries of raw values."""
        return np.asarray((raw - self.low) / self.width)


ReleaseColumns = tuple[ReleaseColumn, ...]


def columns_of(source: Card | Mechanism, *, ranges: bool = True) -> ReleaseColumns:
    """The columns of a release, from its card or from the mechanism that made it in memory.

    Refused where the range of a column is unknown (a secret key) or its noise is (rounded afterwards). With
    `ranges=False` only the latter: components behind a key have noise of a known law, but no range.
    """
    if not ranges and _is_secret(source):
        additive = make_operator("additive")
        noises = [OperatorNoise(additive, law) if law is not None else None for law in source.laws()]
        return tuple(
            ReleaseColumn(place, place + 1, Described(f"c{place:03d}", "numeric", noise))
            for place, noise in enumerate(noises)
        )
    if isinstance(source, Card):
        return _of_card(source)
    return _of_mechanism(source)


def _is_secret(source: Card | Mechanism) -> bool:
    transform = source.transform if isinstance(source, Card) else source.transform()
    return bool(transform["kind"] == "secret")


def clean_columns(X: Matrix) -> ReleaseColumns:
    """Numbers without any noise, as they are; constant columns tell nothing."""
    found = []
    for place, (low, high) in enumerate(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True)):
        described = Described(f"x{place}", "numeric", None, low, high) if low < high else None
        found.append(ReleaseColumn(place, place + 1, described))
    return tuple(found)


def _of_card(card: Card) -> ReleaseColumns:
    names = [column["name"] for column in card.release_schema["columns"]]
    if not card.is_columnwise:
        _refuse_unknown(card.mechanism["name"], card.transform["kind"])
        return tuple(ReleaseColumn(place, place + 1, describe(card, name)) for place, name in enumerate(names))
    groups = card.source_encoding().groups
    return tuple(
        _placed(group, None if group.is_constant else describe(card, name))
        for group, name in zip(groups, names, strict=True)
    )


def _of_mechanism(mechanism: Mechanism) -> ReleaseColumns:
    transform = mechanism.transform()
    if not mechanism.columnwise:
        _refuse_unknown(mechanism.name, transform["kind"])
    stated = mechanism.release_columns()
    own = getattr(getattr(mechanism, "noise_", None), "operator", None)
    noises = [_noise(column["noise"], own) for column in stated]
    groups = mechanism.encoding_.groups
    if mechanism.columnwise:
        return tuple(
            _placed(group, None if group.is_constant else of_group(group, column["noise"], noise))
            for group, column, noise in zip(groups, stated, noises, strict=True)
        )
    matrix, offset = np.array(transform["matrix"]), np.array(transform["offset"])
    return tuple(
        ReleaseColumn(
            place, place + 1, of_component(column["name"], matrix[place], float(offset[place]), groups, noises[place])
        )
        for place, column in enumerate(stated)
    )


def _refuse_unknown(name: str, kind: str) -> None:
    if kind == "secret":
        raise CardError(
            f"The map of {name} is a secret key, so the range of its columns is unknown, and nothing can be "
            "reconstructed. Use noise-aware-lda, knn, svm, forest or boosting, which work in the release's own space."
        )
    if kind != "affine":
        raise CardError(
            f"The columns of {name} are answers, not numbers with noise of a known law, and nothing can be "
            "reconstructed from them one by one. Use bernoulli-naive-bayes, forest or boosting."
        )


def _placed(group: Group, described: Described | None) -> ReleaseColumn:
    if described is None or group.is_onehot:
        return ReleaseColumn(group.start, group.stop, described)
    low, high = (float(bound) for bound in group.column.bounds)
    return ReleaseColumn(group.start, group.stop, described, low, high - low)


def _noise(stated: Mapping[str, Any] | None, own: Operator | None) -> OperatorNoise | None:
    if not stated or stated["law"] == RANDOMIZED_RESPONSE:
        return None
    return OperatorNoise.from_dict(stated, own if stated.get("operator") == CUSTOM else None)
