"""Bounds as text: an upper bound is rounded up, a lower one down, so that what is read still holds.

Everything that shows a bound (terminal, card, report, pages) uses these functions. A number is taken as a card
writes it, by the shortest decimal that reads as the same double: 0.1 stays 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

NEARLY_CERTAIN, NEARLY_NEVER = 0.999, 1e-5


def rounded_up(value: float, digits: int = 3) -> str:
    """The smallest number of so many digits that is not below `value`.

    >>> rounded_up(4.0049), rounded_up(4), rounded_up(1234.2)
    ('4.01', '4', '1.24e+03')
    """
    return _rounded(Decimal(repr(float(value))), digits, ROUND_CEILING)


def epsilon_at_most(value: float | None, digits: int = 3, *, none: str = "no bound") -> str:
    """An epsilon as it is shown; None and infinity are `none`, never a number."""
    return none if value is None or not math.isfinite(value) else rounded_up(value, digits)


LARGEST_FACTOR = 1e12


def amplification_at_most(epsilon: float | None) -> str:
    """e^epsilon, the largest factor by which odds can change [principal-laplace, Eq. 4], rounded up.

    >>> amplification_at_most(5.0), amplification_at_most(0.0), amplification_at_most(None), amplification_at_most(50)
    ('149', '1', 'no bound', 'over 10^12')
    """
    if epsilon is None or not math.isfinite(epsilon):
        return "no bound"
    if epsilon > math.log(LARGEST_FACTOR):
        return "over 10^12"
    factor = rounded_up(math.exp(epsilon) * (1 + 1e-14) if epsilon else 1.0)
    return f"{float(factor):,.0f}" if float(factor) >= 1000 else factor


def at_most(probability: float) -> str:
    """How sure an attacker can become: an upper bound in words that is never rounded to certainty.

    >>> at_most(0.05176), at_most(0.99999)
    ('at most 5.18%', 'over 99.9%')
    """
    words = percent_up(probability)
    return words if words.startswith(("over", "under")) else f"at most {words}"


def percent_up(probability: float) -> str:
    """A share that is an upper bound; near certainty it says that there is little left to protect."""
    if probability > NEARLY_CERTAIN:
        return "over 99.9%"
    return "under 0.001%" if probability < NEARLY_NEVER else f"{_percent(probability, ROUND_CEILING)}%"


def percent_down(probability: float) -> str:
    """A share that is a lower bound."""
    return "0%" if probability < NEARLY_NEVER else f"{_percent(probability, ROUND_FLOOR)}%"


def of_100(share: float) -> int:
    """An upper bound as so many of 100, without what doubles add to a whole number.

    >>> of_100(0.2 + 1e-16), of_100(0.201)
    (20, 21)
    """
    return math.ceil(round(100 * share, 9))


def sum_up(values: Iterable[float]) -> float:
    """A sum of upper bounds, rounded up; infinite if one of them is. Three times 0.1 is 0.3, as a card writes them.

    >>> sum_up([0.1, 0.1, 0.1]), rounded_up(sum_up([0.555, 0.555]))
    (0.3, '1.11')
    """
    found = list(values)
    if not all(math.isfinite(value) for value in found):
        return math.inf
    exact = sum((Fraction(repr(float(value))) for value in found), Fraction(0))
    nearest = float(exact)
    return nearest if Fraction(repr(nearest)) >= exact else math.nextafter(nearest, math.inf)


def _percent(probability: float, way: str) -> str:
    return _rounded(Decimal(repr(float(probability))) * 100, 3, way)


def _rounded(value: Decimal, digits: int, way: str) -> str:
    return f"{float(Context(prec=digits, rounding=way).create_decimal(value)):.{digits}g}"
