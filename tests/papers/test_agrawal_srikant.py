"""Agrawal & Srikant's people: every rule of group A against a plain restatement, one person at a time."""

import numpy as np
import pytest

from sfumato.auditing.figures.sets import ATTRIBUTES, agrawal_srikant


def five(function, salary, commission, age, elevel, _car, _zipcode, hvalue, hyears, loan):
    if function == 1:
        return age < 40 or age >= 60
    if function == 2:
        if age < 40:
            return 50e3 <= salary <= 100e3
        return 75e3 <= salary <= 125e3 if age < 60 else 25e3 <= salary <= 75e3
    if function == 3:
        if age < 40:
            rules = {0: (25e3, 75e3), 1: (25e3, 75e3), 2: (50e3, 100e3), 3: (50e3, 100e3)}
        elif age < 60:
            rules = {1: (50e3, 100e3), 2: (50e3, 100e3), 3: (50e3, 100e3), 4: (75e3, 125e3)}
        else:
            rules = {1: (25e3, 75e3), 2: (50e3, 100e3), 3: (50e3, 100e3), 4: (50e3, 100e3)}
        return elevel in rules and rules[elevel][0] <= salary <= rules[elevel][1]
    disposable = 0.67 * (salary + commission) - 0.2 * loan
    if function == 4:
        return disposable - 20e3 > 0
    return disposable + 0.2 * (0.1 * hvalue * max(hyears - 20, 0)) - 10e3 > 0


@pytest.mark.parametrize("function", range(1, 6))
def test_every_rule_is_the_restated_one(function):
    X, y = agrawal_srikant(np.random.default_rng(function), 3000, function)
    np.testing.assert_array_equal(y, [five(function, *row) for row in X.tolist()])
    assert 0 < y.sum() < 3000, "both groups occur"


def test_shares_of_group_a_where_they_can_be_computed_by_hand():
    """F1: 40 of 60 years. F2: 50,000 of 130,000. F3: the same for 4 levels of 5."""
    rng = np.random.default_rng(3)
    assert agrawal_srikant(rng, 200_000, 1)[1].mean() == pytest.approx(2 / 3, abs=0.004)
    assert agrawal_srikant(rng, 200_000, 2)[1].mean() == pytest.approx(50 / 130, abs=0.004)
    three = 4 / 5 * 50 / 130
    assert agrawal_srikant(rng, 200_000, 3)[1].mean() == pytest.approx(three, abs=0.004)


def test_attributes_have_their_ranges_and_dependences():
    X, _ = agrawal_srikant(np.random.default_rng(4), 100_000)
    columns = dict(zip(ATTRIBUTES, X.T, strict=True))
    for name, (low, high) in ATTRIBUTES.items():
        assert low <= columns[name].min() < low + 0.05 * (high - low), name
        assert high - 0.05 * (high - low) < columns[name].max() <= high, name
    rich = columns["salary"] >= 75_000
    assert (columns["commission"][rich] == 0).all()
    assert columns["commission"][~rich].min() >= 10_000
    factor = columns["hvalue"] / (100_000 * (9 - columns["zipcode"]))
    assert factor.min() >= 0.5
    assert factor.max() <= 1.5
    assert factor.mean() == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize("function", [0, 6])
def test_other_numbers_are_refused(function):
    with pytest.raises(ValueError, match="1 to 5"):
        agrawal_srikant(np.random.default_rng(0), 10, function)
