"""Random projection: multiply by a secret random matrix (Rand-P) [Liu, Kargupta & Ryan 2006]."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from sfumato.channels import Exact, Recipe, Secret
from sfumato.core.errors import CardError
from sfumato.guarantee import Key
from sfumato.mechanisms.base import Mechanism, count_of
from sfumato.noise import Streams
from sfumato.table import Encoding
from sfumato.table.statistics import Statistics


class RandomProjection(Mechanism):
    """Release ``z = R x`` with R (k x d) of independent N(0, 1/k) entries, so that E |R x|^2 = |x|^2.

    R is drawn once into the key and is the same for all rows and sites. There is no noise and no guarantee:
    an all-zero row stays all-zero [principal-laplace, Example 4.3], and k + 1 known rows go far towards R.
    """

    name = "random-projection"
    needs_key = True
    papers = ("principal-laplace",)
    published = MappingProxyType({})
    not_protected = (
        "Whoever learns the key, or enough original rows with their images, can undo most of the projection.",
    )

    def __init__(self, components: int | float = 0.5):
        self.components = components

    @property
    def needs_statistics(self) -> bool:
        return False

    def draw_key(self, encoding: Encoding) -> Key:
        count = count_of(self.components, encoding.width, self.name)
        generator = Streams().generator(0, b"random projection", b"")
        matrix = generator.standard_normal((count, encoding.width)) / math.sqrt(count)
        return Key.draw(self.name, encoding.fingerprint(), {"matrix": matrix})

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        count = count_of(self.components, encoding.width, self.name)
        if key is None:
            raise CardError("RandomProjection needs a key: draw one with draw_key, or give --key.")
        key.check(self.name, encoding.fingerprint())
        self.encoding_, self.key_ = encoding, key
        self.matrix_ = key.arrays["matrix"]
        if self.matrix_.shape != (count, encoding.width):
            raise CardError(
                f"This key projects to {len(self.matrix_)} components, but {count} were requested. "
                f"Give --param components={len(self.matrix_)} or another --key."
            )
        secret = Secret(key.commitment(), count, matrix=self.matrix_, offset=np.zeros(count))
        self.recipe_ = Recipe(encoding, secret, (Exact(),) * count)
        return self

    def sentence(self) -> str:
        return (
            "A projection without noise is an exact function of the record: known rows undo it, and a non-zero image "
            "proves a non-zero record."
        )

    def parameters_used(self) -> dict[str, Any]:
        return {"components": len(self.matrix_)}
