"""Random rotation: perturb all columns at once and keep the geometry [random-rotation]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Additive, Channel, Exact, Recipe, Secret, draw, laplace_channels
from sfumato.channels.maps import diameter, transformed
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, UsageError
from sfumato.guarantee import Key
from sfumato.mechanisms.base import Block, Mechanism, as_matrix, count_of
from sfumato.mechanisms.parameters import laplace_strength
from sfumato.noise import LAWS, Streams, make_law
from sfumato.table import Encoding
from sfumato.table.statistics import Statistics

# Rotations: drawn from the Haar law, checked, and applied to rows.


ORTHOGONAL = 1e-12
"""How far an entry of R R' may be from the identity's; drawn rotations miss it by some 1e-15."""


def secret_generator(streams: Streams | None = None) -> np.random.Generator:
    """A generator of its own for keys: from the operating system's entropy, or the streams of a trial."""
    return (streams or Streams()).generator(0, b"key", b"")


def haar_rotation(width: int, rng: np.random.Generator) -> Matrix:
    """An orthogonal matrix of the Haar law: QR of a Gaussian matrix with the signs of R's diagonal [Stewart 1980].

    Without the signs the law would be that of LAPACK's convention, not the uniform one. Both determinants occur.
    """
    q, r = np.linalg.qr(rng.standard_normal((width, width)))
    return np.ascontiguousarray(q * np.where(np.diagonal(r) < 0, -1.0, 1.0))


def is_orthogonal(matrix: Matrix) -> bool:
    """Whether R R' is the identity up to `ORTHOGONAL` (NaN is not)."""
    return bool(np.abs(matrix @ matrix.T - np.eye(len(matrix))).max() <= ORTHOGONAL)


WITHOUT_NOISE = (
    "A rotation without noise preserves every distance: as many known rows as there are columns, plus one, or one "
    "colluding site, undo it for everybody."
)
CENTRES = ("random", "zero")
SEARCHED = "searched"
"""Name under which a key says that its rotation was chosen by looking at data, and among how many."""
GIVEN_CENTRE = "a given centre of the rotation, which may owe something to the rows"
BORROWED = "rotation with directions that were learned from people's rows for another release"


class RandomRotation(Mechanism):
    """Release ``z = R (x - t)`` with a random orthogonal R and a random centre t of the unit cube [4.3, 4.5].

    Distances are exact, so nearest neighbours, kernel methods and linear classifiers lose nothing; for the same reason
    the rotation alone proves nothing. With ``noise="laplace"`` every rotated component gets noise of scale
    ``scale * D``, where D is the diameter of the domain. The guarantee then holds for *every* rotation, even one that
    the adversary knows, since ``|R delta|_1 <= sqrt(d) |delta|_2``: epsilon is at most ``1 / scale`` for a
    component, ``sqrt(d) diam_j / (scale D)`` for source column j and ``sqrt(d) / scale`` for the record. It is
    computed from d and D alone: figures that depended on R would reveal something about it. No smaller figure holds for
    every rotation: one that turns the longest difference into the direction (1, ..., 1) attains it.

    Parameters
    ----------
    centre : "random"; "zero", which also makes polynomial and sigmoid kernels and the perceptron invariant; or one of
        your own, a number from 0 to 1 or a list of one for each encoded column. The card states it.
    noise : None, or a law: "laplace" (exact, with a guarantee), "normal", "uniform", "student-t".
    scale : of the noise, relative to the diameter of the domain.
    epsilon_record : target epsilon of the record; implies Laplace noise, whose scale is then derived.
    """

    name = "random-rotation"
    learns = False
    needs_key = True
    rotates = True
    proves = True
    papers = ("random-rotation",)
    published = MappingProxyType({"centre": "random", "noise": None})
    rests_on = (
        "The noise of different rows and components is independent and secret; the rotation need not be.",
        "Values outside the bounds were clipped to them before the rotation.",
    )
    not_protected = (
        "Distances between rows (with noise: up to the noise) are preserved: outliers stay outliers, and whoever "
        "knows some original rows, the key, or a site that has it, can undo the rotation.",
    )

    centre: str | float | Sequence[float] = "random"
    noise: str | None = None
    scale: float = 0.1
    epsilon_record: float | None = None

    def draw_key(self, encoding: Encoding, streams: Streams | None = None) -> Key:
        rng = secret_generator(streams)
        return self._key(haar_rotation(encoding.width, rng), encoding, rng)

    def key_around(self, rotation: Matrix, encoding: Encoding, searched: int | None = None) -> Key:
        """A key for this rotation with a freshly drawn centre; `searched` is among how many a search chose it."""
        return self._key(rotation, encoding, secret_generator(), searched)

    def _key(self, rotation: Matrix, encoding: Encoding, rng: np.random.Generator, searched: int | None = None) -> Key:
        own, width = self._own_centre(encoding.width), encoding.width
        drawn = rng.random(width) if self.centre == "random" else np.zeros(width)
        arrays = {"matrix": rotation, "centre": drawn if own is None else own}
        if searched is not None:
            arrays[SEARCHED] = np.array([float(searched)])
        return Key.draw(self.name, encoding.fingerprint(), arrays)

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._own_centre(encoding.width)  # refuses what is none
        self._check_positive(scale=self.scale, epsilon_record=self.epsilon_record)
        if self.noise is not None:
            self._check_choice(tuple(LAWS), noise=self.noise)
        if self.epsilon_record is not None and self.noise not in (None, "laplace"):
            raise UsageError(
                "The 'epsilon_record' parameter of random-rotation needs Laplace noise: only that is drawn exactly, "
                f"and {self.noise} noise is not. Use noise=laplace."
            )
        if key is None:
            raise CardError("RandomRotation needs a key: draw one with draw_key, or give --key.")
        key.check(self.name, encoding.fingerprint())
        self._check_key(key, encoding)
        self.encoding_, self.key_, self.borrowed_ = encoding, key, False
        self.matrix_, self.offset_ = key.affine()
        self.diameter_ = math.sqrt(sum(diameter(group) ** 2 for group in encoding.groups)) or 1.0
        self.law_name_ = "laplace" if self.epsilon_record is not None else self.noise
        self.scale_ = float(self.scale) if self.epsilon_record is None else self._scale_for(float(self.epsilon_record))
        self.recipe_ = self._recipe(self.scale_)
        return self

    def _own_centre(self, width: int) -> Matrix | None:
        """A centre that was given as numbers; None where it is drawn, or zero."""
        if isinstance(self.centre, str) and self.centre in CENTRES:
            return None
        try:
            given = np.asarray(self.centre, dtype=np.float64)
        except (TypeError, ValueError):
            given = np.full(width + 1, np.nan)
        if given.shape not in ((), (width,)) or not np.all((given >= 0) & (given <= 1)):
            raise UsageError(
                f"The 'centre' parameter of random-rotation must be one of {', '.join(CENTRES)}, or a number from 0 to "
                f"1, or one for each of the {width} encoded columns. Got {str(self.centre)[:60]!r} instead."
            )
        return np.array(np.broadcast_to(given, (width,)))

    def _check_key(self, key: Key, encoding: Encoding) -> None:
        """The guarantee rests on an orthogonal matrix and a centre inside the cube, which a forged key may lack."""
        matrix, centre = key.arrays.get("matrix"), key.arrays.get("centre")
        width = encoding.width
        if matrix is None or centre is None or matrix.shape != (width, width) or centre.shape != (width,):
            raise CardError(f"This key has no rotation and centre for {width} encoded columns. Give another --key.")
        if not is_orthogonal(matrix) or not np.all((centre >= 0) & (centre <= 1)):
            raise CardError("This key has no orthogonal matrix with a centre between 0 and 1. Give another --key.")
        held = "random" if centre.any() else "zero"
        own = self._own_centre(width)
        if own is not None and not np.array_equal(own, centre):
            raise CardError("This key has another centre than --param centre. Leave --key out, or give its own centre.")
        if own is None and held != self.centre:
            raise CardError(f"This key has a {held} centre. Give --param centre={held} or another --key.")

    def _recipe(self, scale: float) -> Recipe:
        """|z_i| <= |x - t| <= sqrt(d) whatever the key: the interval clips nothing and tells nothing."""
        width = self.encoding_.width
        ones, reach, length = np.ones(width), math.sqrt(width), scale * self.diameter_
        channels: tuple[Channel, ...] = (Exact(),) * width
        if self.law_name_ == "laplace":
            channels = laplace_channels(-reach * ones, reach * ones, length * ones, exact=True)
        elif self.law_name_ is not None:
            channels = (Additive(make_law(self.law_name_, scale=length)),) * width
        secret = Secret(self.key_.commitment(), width, orthogonal=True, matrix=self.matrix_, offset=self.offset_)
        return Recipe(self.encoding_, secret, channels)

    def _scale_for(self, wanted: float) -> float:
        """The scale whose record epsilon is the wanted one, rounding included, approached from the safe side."""
        unit = self._recipe(1.0)
        at_one = unit.epsilons().record - unit.rounding
        return laplace_strength(self.name, at_one, wanted, lambda scale: self._recipe(scale).rounding)

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        return Block(draw(self.recipe_.channels, self.embed(X), rng), y, np.arange(len(X)))

    def embed(self, X: ArrayLike) -> Matrix:
        return transformed(as_matrix(X), self.matrix_, self.offset_)

    def sentence(self) -> str:
        if self.law_name_ is None:
            return WITHOUT_NOISE
        return f"Distances are blurred by {self.noise} noise, which is measured, not proved."

    def learned(self) -> list[str]:
        chosen = ["choice of the rotation, by a search that looked at the data"] if SEARCHED in self.key_.arrays else []
        own = [] if isinstance(self.centre, str) else [GIVEN_CENTRE]
        return [*super().learned(), *chosen, *own, *([BORROWED] if self.borrowed_ else [])]

    @property
    def learns_directions(self) -> bool:
        return SEARCHED in self.key_.arrays or self.borrowed_

    def directions(self) -> Matrix | None:
        return self.matrix_

    def parameters_used(self) -> dict[str, Any]:
        scale = None if self.law_name_ is None else self.scale_
        centre = self.centre if isinstance(self.centre, str) else np.asarray(self.centre, dtype=np.float64).tolist()
        return {**super().parameters_used(), "centre": centre, "noise": self.law_name_, "scale": scale}


# Random projection: multiply by a secret random matrix (Rand-P) [Liu, Kargupta & Ryan 2006].


class RandomProjection(Mechanism):
    """Release ``z = R x`` with R (k x d) of independent N(0, 1/k) entries, so that E |R x|^2 = |x|^2.

    R is drawn once into the key and is the same for all rows and sites. There is no noise and no guarantee:
    an all-zero row stays all-zero [principal-laplace, Example 4.3], and k + 1 known rows go far towards R.
    """

    name = "random-projection"
    learns = False
    needs_key = True
    papers = ("principal-laplace",)
    published = MappingProxyType({})
    not_protected = (
        "Whoever learns the key, or enough original rows with their images, can undo most of the projection.",
    )

    components: int | float = 0.5

    def draw_key(self, encoding: Encoding, streams: Streams | None = None) -> Key:
        count = count_of(self.components, encoding.width, self.name)
        generator = (streams or Streams()).generator(0, b"random projection", b"")
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
