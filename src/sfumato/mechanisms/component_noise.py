"""Noise on components: its law, its channels, and the strength that a wanted epsilon asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Matrix
from sfumato.channels import Additive, Channel, Recipe, laplace_channels
from sfumato.errors import UsageError
from sfumato.noise import make_law

FROM_BELOW = 1 + 1e-12
"""Products and quotients are rounded; the derived b is larger by more than that, so that epsilon is never exceeded."""
STRENGTHS = (1e-6, 1e6)
"""Between which b is looked for where no formula gives it."""


@dataclass(frozen=True)
class ComponentNoise:
    """Laplace noise (exact, or in floating point), or another law, which is drawn in floating point."""

    law: str
    df: float | None
    exact: bool

    def channels(self, low: Matrix, high: Matrix, scales: Matrix) -> tuple[Channel, ...]:
        """One a component, each clipped to its interval first."""
        if self.law == "laplace":
            make_law(self.law, scale=1.0, df=self.df)  # refuses degrees of freedom, which it does not have
            return laplace_channels(low, high, scales, exact=self.exact)
        places = zip(scales.tolist(), low.tolist(), high.tolist(), strict=True)
        return tuple(
            Additive(make_law(self.law, scale=b, df=self.df), low=first, high=last) for b, first, last in places
        )

    def laplace_strength(self, at_one: float, wanted: float, rounding: Callable[[float], float]) -> float:
        """b of Laplace noise, whose epsilon is that at b = 1 over b; `rounding` of a b comes on top."""
        lost = rounding(at_one / wanted)
        if lost > wanted / 2:
            raise UsageError(
                f"The 'epsilon_record' parameter of principal-laplace must be at least {2 * lost:.1e}: below "
                f"that, rounding to the grid alone costs more. Got {wanted:g} instead."
            )
        return at_one / (wanted - lost) * FROM_BELOW

    def other_strength(self, recipe: Callable[[float], Recipe], wanted: float) -> float:
        """b of another law, by looking for it: epsilon falls as b grows."""

        def excess(log_b: float) -> float:
            return recipe(math.exp(log_b)).epsilons().record - wanted

        least, most = (math.log(b) for b in STRENGTHS)
        if not np.isfinite(excess(0.0)):
            raise UsageError(
                f"No strength of {self.law} noise gives a record epsilon: what it tells has no bound "
                "[principal-laplace, Theorem 4]. Use law=laplace, or student-t."
            )
        if excess(most) > 0 or excess(least) < 0:
            raise UsageError(f"A record epsilon of {wanted:g} cannot be reached with {self.law} noise.")
        from scipy.optimize import brentq  # loads slowly, and only this law needs it

        root = brentq(excess, least, most, xtol=1e-13)
        while excess(root) > 0:
            root += 1e-12
        return math.exp(root)
