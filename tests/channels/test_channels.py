"""Every channel: what it draws is what it says, what it says is as large as it can be, and forgeries are refused."""

import json
import math

import numpy as np
import pytest
from channel_examples import DRAWN, EXAMPLES, GRID, faulty, groups_for, outcomes, population, truths
from scipy import stats

from sfumato.channels import Bit, NotApplicableError, OrMissing, Sampled, UnitVector, Unstated
from sfumato.channels.base import CHANNELS, Channel
from sfumato.core.errors import CardError

ROWS = 30_000
SURE = 1e-7
SINGULAR = 0.02
"""The quartic operator turns, and its density is infinite there: sums over a grid are that far off."""

named = pytest.mark.parametrize("channel", EXAMPLES, ids=str)
drawn = pytest.mark.parametrize("channel", DRAWN, ids=str)


def test_every_channel_has_examples():
    assert {type(channel) for channel in EXAMPLES} == set(CHANNELS.values())


def test_a_channel_that_an_audit_makes_up_is_read_from_no_card():
    from sfumato.auditing.generalised import Generalised

    with pytest.raises(CardError, match="does not exist"):
        Channel.from_dict({"channel": Generalised.tag})


@named
def test_a_card_gives_the_same_channel_back(channel):
    assert Channel.from_dict(json.loads(json.dumps(channel.to_dict(), allow_nan=False))) == channel


# -- what is drawn is what is said ------------------------------------------------------------------------------------


@drawn
def test_probabilities_add_up_to_one(channel):
    z, weights = outcomes(channel)
    x = truths(channel, 9)
    total = weights @ np.exp(channel.log_likelihood(z, x))
    assert total == pytest.approx(np.ones(len(x)), abs=SINGULAR if "quartic" in str(channel) else 2e-3)


def cell_of(z, points):
    """The nearest of `points` for every z, by number; cells that are not reported, and empty ones, are their own."""
    kinds = [np.column_stack([np.isnan(m).any(axis=1), m[:, 1:] > 0.5]) for m in (z, points)]
    found = np.zeros(len(z), dtype=int)
    for kind in np.unique(kinds[1], axis=0):
        mine, theirs = ((part == kind).all(axis=1) for part in kinds)
        places = np.flatnonzero(theirs)
        if np.isnan(points[places]).any():
            found[mine] = places[0]
            continue
        order = places[np.argsort(points[places, 0])]
        edges = (points[order[1:], 0] + points[order[:-1], 0]) / 2
        found[mine] = order[np.searchsorted(edges, z[mine, 0])]
    return found


def disagreement(z, channel, x, bins=25):
    """p-value of the chi-square test that z was drawn by the channel from x."""
    points, weights = outcomes(channel)
    p = weights * np.exp(channel.log_likelihood(points, x))[:, 0]
    number = np.minimum((np.cumsum(p) / p.sum() * bins).astype(int), bins)  # neighbours share a bin
    expected = np.bincount(number, p / p.sum(), bins + 1)
    seen = np.bincount(number[cell_of(z, points)], minlength=bins + 1)
    kept = expected * len(z) > 5
    if kept.sum() == 1:
        return float(seen[~kept].sum() == 0)
    if seen[~kept].sum() > 5 * (expected[~kept].sum() * len(z) + 10):
        return 0.0
    return stats.chisquare(seen[kept], expected[kept] / expected[kept].sum() * seen[kept].sum()).pvalue


@drawn
def test_frequencies_agree_and_noise_that_is_off_is_rejected(channel):
    rng = np.random.default_rng(1)
    some = truths(channel, 5)
    for x in (some[:1], some[-2:-1], some[-1:]):
        rows = np.repeat(x, ROWS, axis=0)
        z = channel.draw(rows.copy(), rng)
        if channel.is_exact:
            assert np.array_equal(z, rows)
            assert (channel.log_likelihood(z[:1], x) == 0).all()
            assert len(some) < 2 or (channel.log_likelihood(z[:1], some) == -np.inf).any()
            continue
        assert disagreement(z, channel, x) > SURE
        wrong = faulty(channel).draw(rows.copy(), rng)
        hidden = channel.hides_missing and x[0, -1] == 1  # what is missing shows anything, whatever the noise
        if not hidden and (not isinstance(channel, Bit) or x[0, 0] == 1):  # else it may be half, whatever the floor
            assert disagreement(wrong, channel, x) < SURE


@drawn
def test_what_is_possible_contains_the_truth(channel):
    rng = np.random.default_rng(2)
    x = population(channel, rng, 5_000)
    low, high = channel.possible(channel.draw(x.copy(), rng))
    assert (low <= x + 1e-9).all()
    assert (x <= high + 1e-9).all()


def test_bounded_noise_rules_values_out():
    """So that `possible` is worth something: the interval is as long as the noise, not longer."""
    rng = np.random.default_rng(3)
    lengths = {}
    for channel in DRAWN:
        low, high = channel.possible(channel.draw(population(channel, rng, 2_000), rng))
        lengths[str(channel)] = float(np.min(np.nan_to_num(high - low)[:, 0]))
    bounded = {name: length for name, length in lengths.items() if "Uniform" in name and "OrMissing" not in name}
    assert bounded
    assert all(length <= 0.7 + 1e-9 for length in bounded.values())


@pytest.mark.parametrize("channel", [one for one in EXAMPLES if not isinstance(one, UnitVector)], ids=str)
def test_a_line_is_the_best_one_through_many_draws(channel):
    rng = np.random.default_rng(4)
    if isinstance(channel, Unstated | Bit):
        with pytest.raises(NotApplicableError, match="not a linear function"):
            channel.line(np.full((5, channel.width), 0.5))
        return
    x = population(channel, rng, 200_000)
    z = channel.draw(x.copy(), rng)
    line = channel.line(x)
    columns = range(channel.width)
    for column in columns:
        there = ~np.isnan(z[:, column])
        if channel.width == 2 and isinstance(channel, OrMissing | Sampled) and column == 0:
            there &= (z[:, 1] < 0.5) & (x[:, 1] < 0.5)  # numbers that were there and are shown
        left = z[there, column] - x[there] @ line.gain[column] - line.offset[column]
        spread = float(np.sqrt(line.covariance[column, column]))
        assert abs(left.mean()) <= 6 * spread / np.sqrt(there.sum()) + 1e-9
        assert left.var() == pytest.approx(spread**2, rel=0.03, abs=1e-9)
        slope = np.cov(left, x[there, column])[0, 1] / max(x[there, column].var(), 1e-9)
        assert abs(slope) <= 0.03 + spread / 10
    if not isinstance(channel, OrMissing | Sampled):
        left = z - x @ line.gain.T - line.offset
        assert np.atleast_2d(np.cov(left.T)) == pytest.approx(line.covariance, rel=0.03, abs=0.004)


# -- what it proves ---------------------------------------------------------------------------------------------------


def worst_ratio(channel):
    """The largest log-likelihood ratio of any outcome under any two truths."""
    z, _ = outcomes(channel)
    with np.errstate(invalid="ignore"):
        log = channel.log_likelihood(z[:: max(1, len(z) // 8000)], truths(channel, 81))
        best = log.max(axis=1)
        least = log.min(axis=1)
        return float(np.max(np.where(best == -np.inf, 0.0, best - least)))


@named
def test_epsilons_are_the_numerical_supremum(channel):
    groups = groups_for(channel)
    told = channel.epsilons(groups)
    assert told.component <= told.column == told.record
    if isinstance(channel, Unstated | Bit | UnitVector):  # nothing is known; or the map knows it
        assert told.record == math.inf
        return
    found = worst_ratio(channel)
    if math.isfinite(told.record):
        assert found <= told.record * (1 + 1e-9) + 1e-12
        assert found >= 0.98 * told.record - (GRID.rounding if "grid=0.0625" in str(channel) else channel.rounding)
    else:
        assert found > 10  # normal noise has no bound, and here no more than so many standard deviations are looked at


@pytest.mark.parametrize("channel", [one for one in EXAMPLES if one.width == 1], ids=str)
def test_a_shorter_move_costs_no_more(channel):
    moves = [channel.moved(distance) for distance in (0.0, 0.1, 0.5, 1.0)]
    assert moves[0] == 0
    assert moves == sorted(moves)
    if math.isfinite(channel.steepness):
        assert channel.moved(0.1) <= 0.1 * channel.steepness + channel.rounding + 1e-12
