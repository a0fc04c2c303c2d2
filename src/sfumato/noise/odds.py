"""Two levels of probability in exact integers: `near` outcomes are likelier than the `far` ones, by a known odds.

A 64-bit word below the threshold T chooses the near outcomes, one of which is then drawn uniformly; else one of the far
ones. A near outcome has probability T / (2^64 near), a far one (2^64 - T) / (2^64 far). What is near depends on the
truth, so the largest likelihood ratio between two truths is

    T far / ((2^64 - T) near)   or its inverse, whichever is larger: a ratio of integers.

Randomized response over k categories is the case of 1 near and k - 1 far outcomes.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal

from sfumato.noise.grid import WORD

_EXACT = Context(prec=60)  # exp and ln of `decimal` are correctly rounded: errors of 1e-60, thresholds have 1e-19
_MARGIN = Decimal(1) + Decimal("1e-55")
MOST_KEPT = WORD - (WORD >> 53)
"""The largest double below 1, times 2^64: a card that rounded its probability to 1 could not be told from no noise."""


def odds_epsilon(threshold: int, near: int, far: int) -> float:
    """|ln(T far / ((2^64 - T) near))|, never rounded down; infinite when one outcome is impossible."""
    kept, changed = threshold * far, (WORD - threshold) * near
    if kept == 0 or changed == 0:
        return math.inf
    larger, smaller = max(kept, changed), min(kept, changed)
    if larger == smaller:
        return 0.0
    # ln(1 + x) with x = (larger - smaller) / smaller; 60 digits leave 40 even where x is 1e-19
    ratio = _EXACT.divide(Decimal(larger), Decimal(smaller))
    exact = _EXACT.add(_EXACT.multiply(_EXACT.ln(ratio), _MARGIN), Decimal("1e-55"))
    rounded = float(exact)
    return rounded if Decimal(rounded) >= exact else math.nextafter(rounded, math.inf)


def odds_threshold(epsilon: float, near: int, far: int) -> int | None:
    """The largest T, at most `MOST_KEPT`, whose `odds_epsilon` does not exceed `epsilon`; None where none is known."""
    # e^-epsilon instead of e^epsilon: a huge epsilon underflows to 0 and cannot overflow
    weight = _EXACT.multiply(_EXACT.divide(Decimal(far), Decimal(near)), _EXACT.exp(-Decimal(float(epsilon))))
    exact = _EXACT.divide(Decimal(WORD), _EXACT.add(Decimal(1), weight))
    threshold = min(int(exact.to_integral_value(rounding=ROUND_FLOOR)), MOST_KEPT)
    for candidate in (threshold + 1, threshold, threshold - 1):  # the quotient may round across an integer
        if 0 < candidate <= MOST_KEPT and odds_epsilon(candidate, near, far) <= epsilon:
            return candidate
    return None


def as_share(threshold: int) -> float:
    """T / 2^64 as a double that holds it exactly: T is rounded down to 53 bits, towards more noise."""
    spare = max(0, threshold.bit_length() - 53)
    return (threshold >> spare << spare) / WORD
