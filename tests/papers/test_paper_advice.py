"""The fast part of the advice, and the file that the product ships: what it must hold for a forecast to be one."""

import json

import pytest

from sfumato.advising.advice import everything, forecast
from sfumato.release.strength import LARGE, MADE_UP, SMALL

HELD_BACK = {"heart_statlog", "hepatitis", "credit_a_crx", "credit_a_australian", "breast_cancer_wisconsin"}


def test_the_fast_part_runs_every_method(tmp_path, run_fast):
    assert "generated table" in run_fast("advice", tmp_path).stdout
    found = json.loads((tmp_path / "results.json").read_text())
    right = {key.split("|")[2]: value["right"] for key, value in found.items()}
    assert len(right) == 7
    assert right["originals"] > 0.7
    assert right[MADE_UP] > 0.55


def test_the_shipped_experience_is_of_public_tables_and_of_none_that_judges_it():
    seen = everything()
    assert len({one.table for one in seen}) == 14
    assert not {one.table for one in seen} & HELD_BACK
    for one in seen:
        assert 0 < one.commonest < 1
        assert one.originals > one.commonest - 0.1
        assert one.right.keys() == {MADE_UP, SMALL, LARGE}


@pytest.mark.parametrize("method", [MADE_UP, SMALL, LARGE])
def test_more_epsilon_and_more_rows_keep_more(method):
    by_strength = [forecast(method, epsilon, 1_000).accuracy for epsilon in (0.05, 0.5, 4.0)]
    assert by_strength == sorted(by_strength)
    assert forecast(method, 1.0, 15_000).taught_nothing <= forecast(method, 1.0, 60).taught_nothing
    nothing = forecast(method, 0.001, 1_000)
    assert nothing.taught_nothing == nothing.tables
    assert nothing.accuracy == pytest.approx(nothing.majority)
    assert forecast(method, 1.0, 1_000, without="pima").tables == forecast(method, 1.0, 1_000).tables - 1


def test_forecasts_of_shares_hold_for_tables_that_had_no_part_in_them():
    """Nine in ten, of each table made without itself; intervals half as wide would not do."""
    whole = {one.table: one for one in sorted(everything(), key=lambda one: one.rows)}
    held, half = [], []
    for method, epsilon in ((MADE_UP, 1.0), (MADE_UP, 4.0), (SMALL, 1.0), (LARGE, 4.0)):
        for one in whole.values():
            made = forecast(method, epsilon, one.rows, without=one.table)
            low, high = made.one_column_interval
            truth = one.at(method, epsilon, "one_column")
            held.append(low <= truth <= high)
            half.append(abs(truth - made.one_column) <= (high - made.one_column) / 2)
    assert sum(held) >= 0.85 * len(held)
    assert sum(half) < 0.85 * len(half)
