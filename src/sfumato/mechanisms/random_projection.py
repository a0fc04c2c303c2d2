"""Random projection: multiply by a secret random matrix (Rand-P) [Liu, Kargupta & Ryan 2006]."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import CardError
from sfumato.guarantee import Guarantee, Key
from sfumato.mechanisms.base import Block, Codes, Matrix, Mechanism, as_matrix, count_of
from sfumato.noise import Law, Streams
from sfumato.statistics import Statistics
from sfumato.table import Encoding


class RandomProjection(Mechanism):
    """Release ``z = R x`` with R (k x d) of independent N(0, 1/k) entries, so that E |R x|^2 = |x|^2.

    R is drawn once into the key and is the same for all rows and sites. There is no noise and no guarantee:
    an all-zero row stays all-zero [principal-laplace, Example 4.3], and k + 1 known rows go far towards R.
    """

    name = "random-projection"
    needs_key = True
    papers = ("principal-laplace",)
    not_protected = (
        "Whoever learns the key, or enough original rows with their images, can undo most of the projection.",
    )

    def __init__(self, components: int | float = 0.5):
        self.components = components

    @property
    def needs_statistics(self) -> bool:
        return False

    def draw_key(self, encoding: Encoding) -> Key:
        count = count_of(self.components, encoding.width, type(self).__name__)
        generator = Streams().generator(0, b"random projection", b"")
        matrix = generator.standard_normal((count, encoding.width)) / math.sqrt(count)
        return Key.draw(self.name, encoding.fingerprint(), {"matrix": matrix})

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        count = count_of(self.components, encoding.width, type(self).__name__)
        if key is None:
            raise CardError("RandomProjection needs a key: draw one with draw_key, or give --key.")
        key.check(self.name, encoding.fingerprint())
        self.encoding_, self.key_ = encoding, key
        self.matrix_ = key.arrays["matrix"]
        if self.matrix_.shape != (count, encoding.width):
            raise CardError(
                f"This key projects to {len(self.matrix_)} components, and {count} are asked for. "
                f"Give --param components={len(self.matrix_)} or another --key."
            )
        return self

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:  # noqa: ARG002
        return Block(self.embed(X), y, np.arange(len(X)))

    def embed(self, X: ArrayLike) -> Matrix:
        projected: Matrix = as_matrix(X) @ self.matrix_.T
        return projected

    def guarantee(self) -> Guarantee:
        return Guarantee.none(
            "A projection without noise is an exact function of the record: known rows undo it, and a non-zero image "
            "proves a non-zero record."
        )

    def laws(self) -> list[Law | None]:
        return [None] * len(self.matrix_)

    def release_columns(self) -> list[dict[str, Any]]:
        return [
            {"name": f"c{number:03d}", "kind": "numeric", "units": "encoded", "noise": None}
            for number in range(len(self.matrix_))
        ]

    def transform(self) -> dict[str, Any]:
        return {"kind": "secret", "commitment": self.key_.commitment()}

    def noise_path(self) -> str:
        return "none"

    def parameters_used(self) -> dict[str, Any]:
        return {"components": len(self.matrix_)}
