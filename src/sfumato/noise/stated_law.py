"""A noise law as a user states it: one of ours, a distribution of scipy.stats, or a density as an expression in x."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.noise.expression import Expression, parse_expression
from sfumato.noise.law import Law, floats, scipy_distribution
from sfumato.noise.laws import LAWS, make_law

VARIABLE = "x"
FAR, FALL = 20, 1.0
"""Over so many octaves far out, the logarithm of an octave's probability must fall by so much."""


@dataclass(frozen=True)
class StatedLaw:
    """`law` is a `Law` or a frozen distribution; or `log_density` is that of an expression, up to a constant."""

    words: str
    law: Any = None
    log_density: Callable[[Floats], Floats] | None = None


def stated_law(text: str, parameters: Mapping[str, Any] | None = None, *, log: bool = False) -> StatedLaw:
    """Read a law; what does not exist is refused with a sentence.

    Parameters
    ----------
    text : str
        "laplace", "normal", "uniform", "student-t" or "epanechnikov"; the name of a continuous distribution of
        scipy.stats ("logistic", "dweibull"); or a density as an expression in x, "exp(-abs(x) / 0.3)". A constant
        factor may be missing.
    parameters : mapping, default {}
        Of a law by name: `scale` (1 where it is left out), `df`, `low`, `high`; shapes of scipy's distribution, `loc`.
    log : bool, default False
        The expression is the logarithm of a density, which reaches much further out.
    """
    given = dict(parameters or {})
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UsageError(
                f"The {name!r} parameter of a law must be a finite number. Got {str(value)[:60]!r} instead."
            )
    word = text.strip()
    if (name := word.lower()) in LAWS and not log:
        known = [one.name for one in fields(LAWS[name])]
        if unknown := [one for one in given if one not in known]:
            raise UsageError(f"The law {name} has no parameter {unknown[0][:60]!r}. It has: {', '.join(known)}.")
        made = make_law(name, **({} if given.keys() & {"scale", "low", "high"} else {"scale": 1.0}), **given)
        return StatedLaw(_in_words(name, made.to_dict()), law=made)
    if word.isidentifier() and word != VARIABLE and not log:
        return StatedLaw(_in_words(f"scipy's {word}", given), law=_of_scipy(word, given))
    if given:
        raise UsageError("An expression has no parameters: write the numbers into it.")
    read = parse_expression(text, [VARIABLE])
    return StatedLaw(f"{'log ' if log else ''}density {read}", log_density=read if log else _log_of(read))


def _of_scipy(name: str, given: Mapping[str, Any]) -> Any:
    found = scipy_distribution(name)
    if found is None:
        raise UsageError(
            f"There is no law {name[:60]!r}. Choose one of {', '.join(LAWS)} or a continuous distribution of "
            f"scipy.stats, or write a density in {VARIABLE}, for example 'exp(-abs({VARIABLE}) / 0.3)'."
        )
    law, shapes = found
    names = (*shapes, "loc", "scale")
    if unknown := [one for one in given if one not in names]:
        raise UsageError(f"scipy's {name} has no parameter {unknown[0][:60]!r}. It has: {', '.join(names)}.")
    if missing := [one for one in shapes if one not in given]:
        raise UsageError(f"scipy's {name} needs the parameter {missing[0]!r}: --param {missing[0]}=NUMBER.")
    frozen = law(**given)
    if not np.isfinite(frozen.median()):
        raise UsageError(f"scipy's {name} does not exist with these parameters.")
    return frozen


def _log_of(read: Expression) -> Callable[[Floats], Floats]:
    """Its logarithm taken apart; where a part has none (a product of two negative ones), that of the value itself."""
    apart = read.logarithm()

    def log(x: Floats) -> Floats:
        found = apart(x)
        with np.errstate(all="ignore"):
            return floats(np.where(np.isnan(found), np.log(read(x)), found))

    return log


def _in_words(name: str, parameters: Mapping[str, Any]) -> str:
    listed = ", ".join(f"{key} {value:g}" for key, value in parameters.items() if isinstance(value, int | float))
    return f"{name} ({listed})" if listed else name


def is_a_density(log_density: Callable[[Floats], Floats], centre: float, scale: float) -> bool:
    """Whether it is nowhere negative and its integral is finite, as far as doubles tell.

    The probability of an octave, about f(x) x, must fall from octave to octave far out; that of 1 / x does not.
    """
    octaves = 2.0 ** np.arange(-20.0, 200.0)
    for side in (-1.0, 1.0):
        with np.errstate(all="ignore"):
            mass = log_density(floats(centre + side * scale * octaves)) + np.log(octaves)
        if np.isnan(mass).any():
            return False
        far = mass[np.isfinite(mass)][-2 * FAR :]  # means over many octaves: a density may rise and fall
        if np.isposinf(mass[FAR:]).any() or (
            len(far) == 2 * FAR and far[FAR:].mean() > far[:FAR].mean() - FALL and np.isfinite(mass[-1])
        ):
            return False
    return True
