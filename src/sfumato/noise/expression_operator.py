"""Operators that a user types: ``x * exp(e)``, with inverse and branches derived, or declared behind semicolons.

    x * exp(e)                                                inverse and derivative are derived
    x * exp(e); inverse log(z / x)                            the inverse is declared, its derivative derived
    x * exp(e); inverse log(z / x); derivative 1 / z          both are declared; derivative is |dE/dz|

Where the map is a line in e, e = (z - Z(0, x)) / Z_e is its inverse. Else the turning points in e are looked for, on a
grid of powers of ten to either side of 0, and between two of them the map is inverted by bisection: it only rises or
only falls there. |dE/dz| is 1 / |Z_e|, with the derivative of the expression. Whoever uses the operator checks it
against its forward map, as every operator is (`soundness.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import UsageError
from sfumato.noise.expression import Expression, parse_expression
from sfumato.noise.law import floats
from sfumato.noise.operator import Branch, Operator

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
    forward, inverse, derivative = _read(text)
    name = _name(forward, inverse, derivative)
    slope = forward.derivative("e")
    if inverse is not None:
        told = derivative or inverse.derivative("z")
        branches: tuple[Branch, ...] = (Branch(inverse, lambda z, x: np.abs(told(z, x))),)
    elif not slope.uses("e"):
        branches = (_line(forward, slope),)
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
    found = _name(*_read(text))
    return _SAME.get(found, found)


def _name(forward: Expression, inverse: Expression | None, derivative: Expression | None) -> str:
    parts = [str(forward)]
    if inverse is not None:
        parts.append(f"inverse {inverse}")
    if derivative is not None:
        parts.append(f"derivative {derivative}")
    return "; ".join(parts)


def _read(text: str) -> tuple[Expression, Expression | None, Expression | None]:
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
    return forward, declared.get("inverse"), declared.get("derivative")


def _line(forward: Expression, slope: Expression) -> Branch:
    """Z(e, x) = Z(0, x) + Z_e(x) e."""

    def inverse(z: Floats, x: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return floats((z - forward(0.0, x)) / slope(0.0, x))

    def derivative(z: Floats, x: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return floats(1.0 / np.abs(slope(0.0, x)) + 0.0 * z)

    return Branch(inverse, derivative)


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
            with np.errstate(all="ignore"):
                # where z lies in a gap, beside a jump, nothing leads to it
                off = np.abs(self.forward(e, x) - z) > 1e-6 * (np.abs(z) + np.abs(x))
                return floats(np.where(off, 0.0, 1.0 / np.abs(self.slope(e, x))))

        return Branch(inverse, derivative, low if number else None, high if number < turns else None)

    def _solved(self, z: Floats, x: Floats, low: Floats, high: Floats) -> Floats:
        """The e between `low` and `high` with Z(e, x) = z; the nearer end where there is none."""
        first = np.arcsinh(np.clip(low, -1e16, 1e16) / _UNIT).clip(-_FARTHEST, _FARTHEST)
        last = np.arcsinh(np.clip(high, -1e16, 1e16) / _UNIT).clip(-_FARTHEST, _FARTHEST)
        with np.errstate(all="ignore"):
            inside = np.clip(
                0.0, first + 0.4 * np.minimum(1.0, last - first), last - 0.4 * np.minimum(1.0, last - first)
            )
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
