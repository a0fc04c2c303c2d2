"""A bound that is shown still holds: upper bounds are rounded up, lower ones down, whatever the digits."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import steady
from sfumato.guarantee import Guarantee
from sfumato.guarantee.rounding import (
    at_most,
    epsilon_at_most,
    percent_down,
    percent_up,
    rounded_up,
    sum_up,
)

positive = st.floats(1e-9, 1e9)


@given(positive, st.integers(1, 8))
@steady(300)
def test_up_is_never_below_and_no_farther_away_than_a_digit(value, digits):
    written, up = Decimal(repr(value)), Decimal(rounded_up(value, digits))
    assert written <= up <= written * (1 + Decimal(10) ** (1 - digits))


@given(st.floats(0, 1))
@steady(300)
def test_shares_keep_their_direction(share):
    up, down, written = percent_up(share), percent_down(share), Decimal(repr(share)) * 100
    if up[0].isdigit():
        assert Decimal(up.rstrip("%")) >= written
    else:
        assert (up, share > 0.999) in {("over 99.9%", True), ("under 0.001%", False)}
    assert Decimal(down.rstrip("%")) <= written


@pytest.mark.parametrize(
    ("value", "words"), [(4.0049, "4.01"), (4.0, "4"), (0.1, "0.1"), (None, "no bound"), (float("inf"), "no bound")]
)
def test_epsilons(value, words):
    assert epsilon_at_most(value) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.05176, "at most 5.18%"), (0.0519, "at most 5.19%"), (1.0, "over 99.9%"), (0, "under 0.001%")],
)
def test_how_sure_somebody_can_become(share, words):
    assert at_most(share) == words


def test_the_guarantee_in_words_is_rounded_up():
    words = Guarantee(4.0049, 4.0049, 4.0049).with_persons(3, learned=False).in_words()
    assert "epsilon 4.01 for values" in words
    assert "epsilon 12.1 for values, up to 3 rows each" in words


@given(st.lists(positive, max_size=6))
@steady(100)
def test_sums_of_bounds_are_bounds(values):
    """Of the decimals that a card writes, and no farther away than a double is: 0.1 three times is 0.3."""
    exact = sum((Fraction(repr(value)) for value in values), Fraction(0))
    assert exact <= Fraction(repr(sum_up(values))) <= exact * (1 + Fraction(1, 10**14))
    assert sum_up([*values, float("inf")]) == float("inf")
