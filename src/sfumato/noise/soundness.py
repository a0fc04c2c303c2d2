"""Is an operator what it is declared to be? Branches, inverses and derivatives against the forward map itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.array_types import Flags, Floats
from sfumato.errors import UsageError
from sfumato.noise.law import Law, floats
from sfumato.noise.operator import Branch, Operator

Limits = Callable[[Branch, Floats], tuple[Floats, Floats]]

_PROBES = 25
_TAILS = np.array([1e-6, 1e-4, 1e-3, 1e-2])
"""Quantiles near both ends of the noise, beside evenly spaced ones: a turning point hides there most easily."""
_VALUES = 65
_ROUNDING = float(np.finfo(np.float64).eps)


def check_operator(operator: Operator, law: Law, limits: Limits, low: float, high: float) -> None:
    """Look at quantiles of the noise and points of [low, high]; refuse what a release or its readers would get wrong.

    Every e must lie in exactly one branch, on which the forward map is monotone, the inverse leads back to e, and the
    derivative is that of the inverse. `limits` are the least and largest e of a branch at every x.
    """
    q = np.sort(np.concatenate([(np.arange(_PROBES) + 0.5) / _PROBES, _TAILS, 1.0 - _TAILS]))
    x = np.linspace(low, high, _VALUES)[:, None] * np.ones(len(q))
    e = np.broadcast_to(law.ppf(q), x.shape)
    name, size = operator.name, float(law.ppf(0.75) - law.ppf(0.25))  # noise without a variance has quartiles too
    with np.errstate(all="ignore"):
        z = floats(operator.forward(e, x))
        if np.isnan(z).any():
            raise UsageError(f"The operator {name} gives values that are not numbers for some of its noise.")
        _check_noisy(z, name)
        covered, claimed = np.zeros(x.shape, dtype=bool), np.zeros(x.shape, dtype=np.int64)
        for branch in operator.branches:
            first, last = limits(branch, x)
            mine = (e >= first) & (e <= last)
            covered |= mine
            claimed += (e > first) & (e < last)
            _check_inverse(operator, branch, size, e[mine], x[mine], z[mine])
            _check_monotone(z, mine, name)
            _check_derivative(operator, branch, size, e[mine], x[mine], z[mine])
    if not covered.all():
        raise UsageError(f"The branches of the operator {name} do not cover all noise of its law.")
    if (claimed > 1).any():
        raise UsageError(
            f"Branches of the operator {name} overlap: the same noise would count twice. Give them limits."
        )


def _check_noisy(z: Floats, name: str) -> None:
    """Between two values at which all noise works the opposite way, there is one that it does not touch at all."""
    way = np.sign(np.diff(z, axis=1))
    turned = (way[1:] == -way[:-1]).all(axis=1) & (way[1:] != 0).any(axis=1)
    untouched = (way == 0).all(axis=1)
    if turned.any() or untouched.any():
        raise UsageError(
            f"The operator {name} leaves some value of the range as it is, whatever the noise: it would not be "
            "protected at all. Choose another operator, or bounds that leave that value out."
        )


def _check_inverse(operator: Operator, branch: Branch, size: float, e: Floats, x: Floats, z: Floats) -> None:
    slope = np.nan_to_num(np.abs(branch.derivative(z, x)), nan=0.0, posinf=np.inf)
    lost = np.nan_to_num(8.0 * _ROUNDING * (np.abs(z) + np.abs(x)) * slope, nan=0.0)  # digits of e that z cannot hold
    if not np.all(np.abs(branch.inverse(z, x) - e) <= 1e-6 * (size + np.abs(e)) + lost):
        raise UsageError(
            f"The inverse of the operator {operator.name} does not match its forward map: "
            "inverse(forward(e, x), x) is not e. If several e lead to one z, declare a branch for each."
        )


def _check_monotone(z: Floats, mine: Flags, name: str) -> None:
    """Along each x; `cdf` counts from one end of a branch to the other."""
    rise = np.where(mine[:, 1:] & mine[:, :-1], np.diff(z, axis=1), 0.0)
    speck = 8.0 * _ROUNDING * np.abs(z[:, 1:])
    if ((rise > speck).any(axis=1) & (rise < -speck).any(axis=1)).any():
        raise UsageError(
            f"The operator {name} rises and falls on one branch. Declare a branch for each rise and each fall."
        )


def _check_derivative(operator: Operator, branch: Branch, size: float, e: Floats, x: Floats, z: Floats) -> None:
    """|dE/dz| against differences of the forward map, wherever these can be trusted.

    Not next to a turning point, where over a hundredth of the noise the map moves much further than its slope says;
    not at a jump, where differences over h and 2 h disagree; not where the rise is lost in the digits of z.
    """
    step, wide = 1e-5 * size, 1e-2 * size

    def at(shift: float) -> Floats:
        return floats(operator.forward(e + shift, x))

    rise, double = at(step) - at(-step), at(2.0 * step) - at(-2.0 * step)
    measured = np.abs(2.0 * step / rise)
    far = np.fmax(np.abs(at(wide) - z), np.abs(at(-wide) - z))
    trusted = (
        (np.abs(double / (2.0 * rise) - 1.0) < 1e-4)
        & (np.abs(rise) > 1e4 * _ROUNDING * (np.abs(z) + np.abs(x)))
        & ~(far * measured > 4.0 * wide)
    )
    if (trusted & ~(np.abs(np.abs(branch.derivative(z, x)) / measured - 1.0) < 1e-3)).any():
        raise UsageError(
            f"The derivative of the operator {operator.name}'s inverse is not |dE/dz|: it must be the "
            "derivative by z (not by x, as the paper's Theorem 1 prints it)."
        )
