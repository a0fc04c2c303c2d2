"""Operators z = Z(e, x) that carry noise e into a value x, with their inverses in e [density-reconstruction, Eq. 1].

An operator acts on raw units. For a fixed x it falls into branches on which it is strictly monotone in e; on each
branch the inverse e = E(z, x) and its derivative |dE/dz| are known. The density of z given x is then

    g(z | x) = sum over branches of f_E(E(z, x)) |dE(z, x) / dz|.

Theorem 1 and A.3 of the paper print |dE/dx|. That is an error: the Jacobian of (x, e) -> (x, z) is dz/de, so its
inverse is dE/dz (the paper's own Eq. 13 for multiplicative noise has the right form).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.noise.expression import Expression, parse_expression
from sfumato.noise.law import floats

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


# Operators that a user types: ``x * exp(e)``, with inverse and branches derived, or declared behind semicolons.
#
#     x * exp(e)                                                inverse and derivative are derived
#     x * exp(e); inverse log(z / x)                            the inverse is declared, its derivative derived
#     x * exp(e); inverse log(z / x); derivative 1 / z          both are declared; derivative is |dE/dz|
#
# Where the map is a line in e, e = (z - Z(0, x)) / Z_e is its inverse. Else the turning points in e are looked for, on
# a grid of powers of ten to either side of 0, and between two of them the map is inverted by bisection: it only rises
# or only falls there. |dE/dz| is 1 / |Z_e|, with the derivative of the expression. Whoever uses the operator checks it
# against its forward map, as every operator is (`OperatorNoise.check`).


MOST_TURNS = 8
_SIZES = 10.0 ** np.linspace(-12.0, 12.0, 481)
_GRID = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
"""Where turning points in e are looked for: neighbours differ by an eighth."""
_VALUES = np.concatenate([-(10.0 ** np.arange(9.0, -7.0, -0.25)), 10.0 ** np.arange(-6.0, 9.25, 0.25)])
"""Values x at which they are counted."""
_UNIT, _FARTHEST, _HALVINGS = 1e-9, 60.0, 75
"""Bisection runs on t with e = unit sinh(t): even steps near 0, even ratios far out, up to 10^16."""
_SAME = {"x + e": "additive", "e + x": "additive", "x * e": "multiplicative", "e * x": "multiplicative"}


@lru_cache(maxsize=64)
def expression_operator(text: str) -> Operator:
    """The operator of such a text; its name is the text, in one spelling."""
    name, forward, inverse, derivative = _read(text)
    slope = forward.derivative("e")
    if inverse is not None:
        told = derivative or inverse.derivative("z")
        branches: tuple[Branch, ...] = (Branch(inverse, lambda z, x: np.abs(told(z, x))),)
    elif not slope.uses("e"):  # a line: Z(e, x) = Z(0, x) + Z_e(x) e
        line = Branch(
            _quietly(lambda z, x: (z - forward(0.0, x)) / slope(0.0, x)),
            _quietly(lambda z, x: 1.0 / np.abs(slope(0.0, x)) + 0.0 * z),
        )
        branches = (line,)
    else:
        branches = _Derived(forward, slope).branches()
    with np.errstate(all="ignore"):
        at_zero = slope(_GRID, 0.0)
    vanishes = not np.any(at_zero[np.isfinite(at_zero)])
    return Operator(name, forward, branches, avoids_zero=vanishes)


def operator_name(text: str) -> str:
    """The one spelling of an operator's name or text; those that exist under a name already get it."""
    if text.isidentifier() or not text.strip():
        return text
    found, *_ = _read(text)
    return _SAME.get(found, found)


def _read(text: str) -> tuple[str, Expression, Expression | None, Expression | None]:
    """The one spelling of a text, and what it declares."""
    first, *rest = (part.strip() for part in text.split(";"))
    forward = parse_expression(first, ["e", "x"])
    for variable, what in (("e", "noise"), ("x", "value")):
        if not forward.uses(variable):
            raise UsageError(f"The operator {first!r} does not use {variable}, the {what}. Write it in e and x.")
    declared: dict[str, Expression] = {}
    for part in rest:
        word, _, formula = part.partition(" ")
        if word not in ("inverse", "derivative") or word in declared:
            raise UsageError(
                "Behind an operator's semicolon stands `inverse FORMULA` or `derivative FORMULA`, in z and x, each "
                "once: for example x * exp(e); inverse log(z / x)."
            )
        declared[word] = parse_expression(formula, ["z", "x"])
    if "derivative" in declared and "inverse" not in declared:
        raise UsageError("A declared derivative is that of a declared inverse. Give `inverse FORMULA` too.")
    parts = [str(forward), *(f"{word} {declared[word]}" for word in ("inverse", "derivative") if word in declared)]
    return "; ".join(parts), forward, declared.get("inverse"), declared.get("derivative")


def _quietly(compute: Map) -> Map:
    """A map whose infinities are what is looked for."""

    def computed(z: Floats, x: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return floats(compute(z, x))

    return computed


@dataclass(frozen=True)
class _Derived:
    """An operator that is no line in e: its turning points, and its inverse between two of them."""

    forward: Expression
    slope: Expression

    def branches(self) -> tuple[Branch, ...]:
        turns = int(self._changes(_VALUES).sum(axis=0).max())
        if turns > MOST_TURNS:
            raise UsageError(
                f"The operator {str(self.forward)!r} turns more than {MOST_TURNS} times as the noise grows. "
                "Choose one that rises or falls for longer."
            )
        return tuple(self._branch(number, turns) for number in range(turns + 1))

    def _changes(self, x: Floats) -> Floats:
        """Whether the slope changes its sign from one point of the grid to the next, at every x."""
        with np.errstate(all="ignore"):
            signs = np.sign(np.nan_to_num(self.slope(_GRID[:, None], x[None, :]), nan=0.0))
        for row in range(1, len(signs)):  # where it is 0 or no number it goes on as before
            signs[row] = np.where(signs[row] == 0, signs[row - 1], signs[row])
        return np.asarray((signs[1:] != signs[:-1]) & (signs[:-1] != 0))

    def turns(self, x: Floats, most: int) -> Floats:
        """The turning points at every x, in ascending order; infinity where there are fewer."""
        different, place = np.unique(x, return_inverse=True)
        changes = self._changes(different)
        order = np.argsort(np.logical_not(changes), axis=0, kind="stable")[:most]
        there = np.take_along_axis(changes, order, axis=0)
        low, high = _GRID[order], _GRID[order + 1]
        with np.errstate(all="ignore"):
            rising = np.sign(self.slope(low, different))
            for _ in range(60):
                middle = 0.5 * (low + high)
                same = np.sign(self.slope(middle, different)) == rising
                low, high = np.where(same, middle, low), np.where(same, high, middle)
        found = np.where(there, 0.5 * (low + high), np.inf)
        return np.asarray(found[:, place.ravel()].reshape(most, *x.shape))

    def _branch(self, number: int, turns: int) -> Branch:
        def low(x: Floats) -> Floats:
            return np.full(x.shape, -np.inf) if number == 0 else self.turns(x, turns)[number - 1]

        def high(x: Floats) -> Floats:
            return np.full(x.shape, np.inf) if number == turns else self.turns(x, turns)[number]

        def inverse(z: Floats, x: Floats) -> Floats:
            z, x = np.broadcast_arrays(floats(z), floats(x))
            return self._solved(z, x, low(x), high(x))

        def derivative(z: Floats, x: Floats) -> Floats:
            z, x = np.broadcast_arrays(floats(z), floats(x))
            e = inverse(z, x)
            # where z lies in a gap, beside a jump, nothing leads to it
            off = np.abs(self.forward(e, x) - z) > 1e-6 * (np.abs(z) + np.abs(x))
            return np.where(off, 0.0, 1.0 / np.abs(self.slope(e, x)))

        return Branch(inverse, _quietly(derivative), low if number else None, high if number < turns else None)

    def _solved(self, z: Floats, x: Floats, low: Floats, high: Floats) -> Floats:
        """The e between `low` and `high` with Z(e, x) = z; the nearer end where there is none."""
        first = np.arcsinh(np.clip(low, -1e16, 1e16) / _UNIT).clip(-_FARTHEST, _FARTHEST)
        last = np.arcsinh(np.clip(high, -1e16, 1e16) / _UNIT).clip(-_FARTHEST, _FARTHEST)
        with np.errstate(all="ignore"):
            room = 0.4 * np.minimum(1.0, last - first)
            inside = np.clip(0.0, first + room, last - room)
            rising = self.slope(_UNIT * np.sinh(inside), x) >= 0
            for _ in range(_HALVINGS):
                middle = 0.5 * (first + last)
                found = self.forward(_UNIT * np.sinh(middle), x)
                right = np.where(np.isnan(found), middle < 0, (found < z) == rising)
                first, last = np.where(right, middle, first), np.where(right, last, middle)
            e = _UNIT * np.sinh(0.5 * (first + last))
            for _ in range(2):  # Newton's method, where it helps
                step = e - (self.forward(e, x) - z) / self.slope(e, x)
                better = np.abs(self.forward(step, x) - z) < np.abs(self.forward(e, x) - z)
                e = np.where(better & (step >= low) & (step <= high), step, e)
        return floats(e)


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

    def slope(e: Floats, x: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return floats(1.0 / np.abs(x + 4.0 * x**2 * (e * e * e)))

    def branch(rising: bool) -> Branch:
        """For x > 0 the rising branch of t is that of large e; for x < 0 that of small e."""

        def inverse(z: Floats, x: Floats) -> Floats:
            return floats(_invert_curve(z / np.cbrt(x) ** 2, rising) / np.cbrt(x))

        def end(x: Floats, *, upper: bool) -> Floats:
            far = np.inf if upper else -np.inf
            return floats(np.where((x > 0) == (rising == upper), far, TURN / np.cbrt(x)))

        return Branch(
            inverse,
            lambda z, x: slope(inverse(z, x), x),
            low=lambda x: end(x, upper=False),
            high=lambda x: end(x, upper=True),
            slope=slope,
        )

    return Operator("quartic", forward, (branch(True), branch(False)), avoids_zero=True)


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
