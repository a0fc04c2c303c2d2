"""Operators z = Z(e, x) that carry noise e into a value x, with their inverses in e [density-reconstruction, Eq. 1].

An operator acts on raw units. For a fixed x it falls into branches on which it is strictly monotone in e; on each
branch the inverse e = E(z, x) and its derivative |dE/dz| are known. The density of z given x is then

    g(z | x) = sum over branches of f_E(E(z, x)) |dE(z, x) / dz|.

Theorem 1 and A.3 of the paper print |dE/dx|. That is an error: the Jacobian of (x, e) -> (x, z) is dz/de, so its
inverse is dE/dz (the paper's own Eq. 13 for multiplicative noise has the right form).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sfumato.core.array_types import Floats

Map = Callable[[Floats, Floats], Floats]
Limit = Callable[[Floats], Floats]

CUSTOM = "custom"


@dataclass(frozen=True)
class Branch:
    """Where the operator is monotone in e: from `low(x)` to `high(x)` (None: as far as the noise reaches).

    `slope`, where there is one, is |dE/dz| as a function of e and x: whoever has e already need not invert again.
    """

    inverse: Map
    derivative: Map
    low: Limit | None = None
    high: Limit | None = None
    slope: Map | None = None


@dataclass(frozen=True)
class Operator:
    """One operator: `forward(e, x)` and its branches.

    `parameters` stand on the card. `avoids_zero`: an x of 0 is not protected at all, and makes the inverse singular.
    """

    name: str
    forward: Map
    branches: tuple[Branch, ...]
    parameters: Mapping[str, float] = field(default_factory=dict)
    avoids_zero: bool = False

    @classmethod
    def of(cls, forward: Map, inverse: Map, derivative: Map, *, avoids_zero: bool = False) -> Operator:
        """Your own operator that is one-to-one in e: `derivative(z, x)` is |dE/dz|, not |dE/dx|."""
        return cls(CUSTOM, forward, (Branch(inverse, derivative),), avoids_zero=avoids_zero)

    @property
    def is_additive(self) -> bool:
        """Whether z - x is the noise itself, so that everything known of additive noise applies."""
        return self.name == "additive"
