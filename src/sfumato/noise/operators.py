"""The operators that have a name, and how one is had by its name, or by its expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import UsageError
from sfumato.noise.expression_operator import expression_operator, operator_name
from sfumato.noise.law import floats
from sfumato.noise.operator import CUSTOM, Branch, Map, Operator


def additive() -> Operator:
    """z = x + e."""
    return Operator("additive", lambda e, x: x + e, (Branch(lambda z, x: z - x, lambda z, x: np.ones_like(z - x)),))


def multiplicative(base: float = 0.0) -> Operator:
    """z = x (base + e): with base 0 the noise is the factor itself, with base 1 its relative error."""
    branch = Branch(lambda z, x: z / x - base, lambda z, x: 1.0 / np.abs(x) + 0.0 * z)
    return Operator("multiplicative", lambda e, x: x * (base + e), (branch,), {"base": float(base)}, avoids_zero=True)


TURN = -(4.0 ** (-1.0 / 3.0))
"""t + t^4 falls up to here and rises from here on."""


def quartic() -> Operator:
    """z = x e + x^2 e^4, which is not one-to-one [density-reconstruction, 3.2].

    With r = x^(1/3) and t = r e it is z = r^2 (t + t^4), so one curve serves all x: it falls for t below -4^(-1/3),
    that is for e below -(4 x)^(-1/3), and rises above. At the turning point dE/dz is infinite: the density is singular
    there, and only probabilities of cells can be used.
    """

    def forward(e: Floats, x: Floats) -> Floats:
        return floats(x * e + x**2 * e**4)

    def inverse(rising: bool) -> Map:
        return lambda z, x: floats(_invert_curve(z / np.cbrt(x) ** 2, rising) / np.cbrt(x))

    def slope(e: Floats, x: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return floats(1.0 / np.abs(x + 4.0 * x**2 * (e * e * e)))

    def derivative(rising: bool) -> Map:
        return lambda z, x: slope(inverse(rising)(z, x), x)

    def turn(x: Floats) -> Floats:
        return floats(TURN / np.cbrt(x))

    # For x > 0 the rising branch of t is that of large e; for x < 0 that of small e.
    rising = Branch(
        inverse(True),
        derivative(True),
        low=lambda x: floats(np.where(x > 0, turn(x), -np.inf)),
        high=lambda x: floats(np.where(x > 0, np.inf, turn(x))),
        slope=slope,
    )
    falling = Branch(
        inverse(False),
        derivative(False),
        low=lambda x: floats(np.where(x > 0, -np.inf, turn(x))),
        high=lambda x: floats(np.where(x > 0, turn(x), np.inf)),
        slope=slope,
    )
    return Operator("quartic", forward, (rising, falling), avoids_zero=True)


def _invert_curve(w: Floats, rising: bool) -> Floats:
    """The t with t + t^4 = w on one side of the turning point: Newton's method from outside, where it cannot overshoot.

    The curve is convex, so from a point with t + t^4 >= w on the wanted side every step stays on that side.
    """
    least = TURN + TURN**4
    w = np.maximum(floats(w), least)
    root = np.abs(w) ** 0.25
    # Falling: at t = -1 - |w|^(1/4) the curve is above w, since t^4 >= |w| + 1 + 4 |w|^(3/4) exceeds w - t.
    t = np.where(w > 0, np.minimum(w, root), 0.0) if rising else -1.0 - root
    shape, t, w = t.shape, t.ravel(), w.ravel()
    t[w <= least] = TURN  # beyond the reach of the curve: the double root itself, at which each step would only halve
    moving = np.flatnonzero(w > least)
    for _ in range(100):  # most are there after 7 steps; near the turning point, a double root, each step only halves
        at = t[moving]
        cube = at * at * at
        slope = 1.0 + 4.0 * cube
        step = np.divide(at + at * cube - w[moving], slope, out=np.zeros_like(at), where=np.abs(slope) > 1e-12)
        t[moving] = at - step
        moving = moving[np.abs(step) > 1e-14 * (1.0 + np.abs(at))]
        if len(moving) == 0:
            break
    return floats(np.maximum(t, TURN) if rising else np.minimum(t, TURN)).reshape(shape)


OPERATORS: dict[str, Callable[..., Operator]] = {
    "additive": additive,
    "multiplicative": multiplicative,
    "quartic": quartic,
}


def make_operator(name: str, parameters: Mapping[str, Any] | None = None) -> Operator:
    """An operator by the name and parameters that stand on a card, or by its expression in e and x."""
    if name == CUSTOM:
        raise UsageError(
            "The release was made with its owner's own operator, which a card cannot contain. Give it in Python: "
            "reconstruct(values, card, operator=...)."
        )
    if name not in OPERATORS and name.isidentifier():
        raise UsageError(
            f"There is no operator {name!r}. Choose one of {', '.join(OPERATORS)}, or write your own in e and x: "
            "for example, x * exp(e)."
        )
    if name not in OPERATORS:
        if parameters:
            raise UsageError("An operator that is an expression has no parameters: write the numbers into it.")
        known = operator_name(name)
        return OPERATORS[known]() if known in OPERATORS else expression_operator(name)
    parameters = dict(parameters or {})
    for key, value in parameters.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise UsageError(f"The {key!r} parameter of the operator {name} must be a finite number.")
    try:
        return OPERATORS[name](**parameters)
    except TypeError as error:
        raise UsageError(f"The operator {name} has no such parameters: {', '.join(sorted(parameters))}.") from error
