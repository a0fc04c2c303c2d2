"""The promise in words: what a person's own row can teach, from beliefs that people have, and who is known to be there.

The only place where a bound on beliefs becomes a sentence: terminal, card, report and certificate all say this one.
What bounds beliefs is `Values.loss`; where it does so but for a delta, that stands beside the chances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal

from sfumato.guarantee.concentrated import Central, Values
from sfumato.guarantee.posterior import PRIOR, posterior_bound
from sfumato.guarantee.rounding import of_100, rounded_up

BELIEFS = {PRIOR: ("1 chance in 10", 10), 0.5: ("1 in 2", 10), 0.001: ("1 in 1,000", 1_000)}
"""How beliefs are said before, and out of how many after; the first is said where there is room for one."""
FALSE_ALARMS = 0.01
OWN_ROW = "a person's own row"
ONE_OF_THEM = "one of a person's rows"
"""Where nothing bounds how many rows a person has, so that a promise can only be for one of them."""


def own_rows(rows: int | None) -> str:
    """Who is promised something: a person with so many rows, all of them together (None: it is not known how many).

    >>> own_rows(1), own_rows(6), own_rows(None)
    ("a person's own row", "a person's 6 rows together", "a person's rows together")
    """
    if rows == 1:
        return OWN_ROW
    return f"a person's {'' if rows is None else f'{rows:,} '}rows together"


def promise(values: Values, own: str = OWN_ROW, beside: str = "", priors: Sequence[float] = tuple(BELIEFS)) -> str:
    """What is proved for the `values` of a person's `own` rows, which are bounded together."""
    *first, last = [f"from {BELIEFS[prior][0]} to {chance_at_most(prior, values.loss)}" for prior in priors]
    lifted = f"{', '.join(first)} and {last}" if first else last
    figures = f" ({beside})" if beside else ""
    return f"Proved: whatever the other rows teach, {own} can lift a fact {lifted}{but_for(values.delta)}{figures}."


def chance_at_most(prior: float, loss: float) -> str:
    """What a belief can become, rounded up, and never to certainty.

    >>> chance_at_most(0.1, 1.0), chance_at_most(0.001, 1.0), chance_at_most(0.5, 9.0)
    ('at most 2.4 in 10', 'at most 2.8 in 1,000', 'nearly 10 in 10')
    """
    out_of = BELIEFS[prior][1]
    exact = Decimal(f"{posterior_bound(prior, loss):.12f}") * out_of  # without what doubles add to 2 in 10
    chances = exact.quantize(Decimal("0.1") if exact < 10 else Decimal(1), ROUND_CEILING)
    return f"nearly {out_of:,} in {out_of:,}" if chances >= out_of else f"at most {float(chances):g} in {out_of:,}"


def but_for(delta: float) -> str:
    """What stands beside every chance that is bounded but for a delta."""
    return f", except with probability {delta:g}" if delta else ""


def presence(central: Central, first: str = "") -> str:
    """What central differential privacy comes to, about the presence of one record: at most e^epsilon times the false
    alarms, and delta more. `first`: what the tester does before."""
    right = of_100(FALSE_ALARMS * math.exp(min(central.epsilon, 700.0)) + central.delta)
    often = f"is right at most {right} times in 100" if right < 100 else "may be right every time"
    return f"Whoever {first}tests for a person and is wrong 1 time in 100 {often} ({central.words()})."


def figures(values: Values, hides_presence: bool, rows: int | None = None) -> str:
    """The experts' figures in a few characters, and of how many `rows` of a person, where that is said."""
    told = f"epsilon {rounded_up(values.epsilon)} for values"
    if hides_presence and values.central is not None:
        told += f", {rounded_up(values.central.epsilon)} for presence"
    if rows is None:
        return told
    return f"{told}, {'one row' if rows == 1 else f'up to {rows:,} rows'} each"
