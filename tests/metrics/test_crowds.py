"""Crowds against brute force, and estimates for a population against populations that are known."""

import itertools

import numpy as np
import pytest

from sfumato.attacks.metrics.crowds import (
    closeness,
    crowd_numbers,
    crowd_sizes,
    diversity,
    log_linear,
    pitman,
    stays_alone,
)

RNG = np.random.default_rng(11)
COLUMNS = [RNG.integers(4, size=60), RNG.integers(3, size=60)]
VALUES = RNG.choice(6, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05], size=60)


def members():
    keys = list(zip(*COLUMNS, strict=True))
    return [[i for i, key in enumerate(keys) if key == one] for one in sorted(set(keys))]


def test_crowds_are_the_rows_that_are_alike():
    crowd = crowd_numbers(COLUMNS)
    assert sorted(crowd_sizes(crowd).tolist()) == sorted(map(len, members()))
    for rows in members():
        assert len(set(crowd[rows].tolist())) == 1


def largest_l(counts, c):
    """The definition, word by word."""
    counts = sorted(counts, reverse=True)
    good = [size for size in range(1, len(counts) + 1) if counts[0] < c * sum(counts[size - 1 :])]
    return max(good, default=0)


@pytest.mark.parametrize("c", [0.8, 2.0, 4.0])
def test_l_diversity_is_that_of_the_definitions(c):
    found = diversity(crowd_numbers(COLUMNS), VALUES, c)
    counted = [np.unique(VALUES[rows], return_counts=True)[1] for rows in members()]
    assert found.distinct == min(map(len, counted))
    shares = [one / one.sum() for one in counted]
    assert found.entropy == pytest.approx(np.exp(min(-(p * np.log(p)).sum() for p in shares)))
    assert found.recursive == min(largest_l(one.tolist(), c) for one in counted)


@pytest.mark.parametrize("ordered", [True, False])
def test_t_closeness_is_the_cheapest_way_to_move_the_earth(ordered):
    """Solved as a transport problem: nothing of the closed form is used."""
    from scipy.optimize import linprog

    m = int(VALUES.max()) + 1
    cost = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) / (m - 1) if ordered else 1 - np.eye(m)
    overall = np.bincount(VALUES, minlength=m) / len(VALUES)
    sums = np.vstack([np.kron(np.eye(m), np.ones(m)), np.kron(np.ones(m), np.eye(m))])
    far = []
    for rows in members():
        own = np.bincount(VALUES[rows], minlength=m) / len(rows)
        far.append(linprog(cost.ravel(), A_eq=sums, b_eq=np.concatenate([own, overall])).fun)
    found = closeness(crowd_numbers(COLUMNS), VALUES, ordered=ordered)
    assert found.largest == pytest.approx(max(far), abs=1e-7)
    sizes = [len(rows) for rows in members()]
    assert found.mean == pytest.approx(np.average(far, weights=sizes), abs=1e-7)


def test_how_long_a_row_stays_alone_is_the_product_of_the_single_steps():
    theta, alpha = 7.3, 0.4
    steps = [(theta + alpha + i - 1) / (theta + i) for i in range(50, 400)]
    assert stays_alone(theta, alpha, 50, 400) == pytest.approx(np.prod(steps))


def restaurant(theta, alpha, rows, rng):
    """People come one by one, and join a crowd or begin one: Pitman's law, drawn by its definition."""
    at, sizes = [0], [1]
    while len(at) < rows:
        if rng.random() * (theta + len(at)) < theta + alpha * len(sizes):
            sizes.append(0)
            chosen = len(sizes) - 1
        else:
            chosen = at[int(rng.integers(len(at)))]  # by size; corrected to size - alpha
            while rng.random() * sizes[chosen] < alpha:
                chosen = at[int(rng.integers(len(at)))]
        sizes[chosen] += 1
        at.append(chosen)
    return np.array(at)


def test_pitman_finds_the_uniques_of_a_population_of_its_own_kind():
    rng = np.random.default_rng(3)
    estimated, true = [], []
    for _ in range(3):
        people = restaurant(200.0, 0.5, 4_000, rng)
        sample = people[:1_000]  # exchangeable: the first are a random sample
        alone = np.flatnonzero(np.bincount(sample) == 1)
        true.append(np.mean(np.bincount(people)[alone] == 1))
        found = pitman(np.bincount(sample)[np.bincount(sample) > 0], 4_000)
        assert found is not None
        estimated.append(found.uniques)
    assert np.mean(estimated) == pytest.approx(np.mean(true), rel=0.12)
    assert abs(1.3 * np.mean(estimated) - np.mean(true)) > 0.12 * np.mean(true)


def independent(size, rng):
    return [rng.geometric(p, size).clip(max=most) - 1 for p, most in ((0.15, 25), (0.1, 30), (0.3, 12))]


def linked(size, rng):
    first = rng.geometric(0.25, size).clip(max=10) - 1
    return [first, *((first + rng.geometric(0.5, size).clip(max=10) - 1) % 10 for _ in range(4))]


@pytest.mark.parametrize(("draw", "model"), [(independent, "main effects"), (linked, "pairs")])
def test_log_linear_finds_the_uniques_of_a_population_whose_columns_are_known(draw, model):
    rng = np.random.default_rng(2)
    size = 60_000
    people = draw(size, rng)
    whole = crowd_sizes(crowd_numbers(people))[crowd_numbers(people)]
    chosen = rng.choice(size, 6_000, replace=False)
    sample = [codes[chosen] for codes in people]
    alone = crowd_sizes(crowd_numbers(sample))[crowd_numbers(sample)] == 1
    true, hits = np.mean(whole[chosen][alone] == 1), np.mean(1 / whole[chosen][alone])
    found = log_linear(sample, size)
    assert found is not None
    assert found.model == model
    assert found.uniques == pytest.approx(true, rel=0.15)
    assert found.hits == pytest.approx(hits, rel=0.15)
    assert abs(1.3 * found.uniques - true) > 0.15 * true


def test_a_table_too_large_for_pairs_is_fitted_with_main_effects(monkeypatch):
    rng = np.random.default_rng(6)
    columns = [rng.geometric(0.2, 2_000) - 1 for _ in range(3)]
    dense = log_linear(columns, 20_000)
    monkeypatch.setattr("sfumato.attacks.metrics.crowds.MOST_CELLS", 10)
    sparse = log_linear(columns, 20_000)
    assert dense is not None
    assert sparse is not None
    assert dense.model == sparse.model == "main effects"
    assert sparse.uniques == pytest.approx(dense.uniques, rel=1e-6)


def test_nobody_is_unique():
    twice = np.repeat(np.arange(10), 2)
    assert pitman(np.bincount(twice), 100) is None
    assert log_linear([twice, twice % 2], 100) is None


def test_crowds_do_not_depend_on_the_order_of_columns():
    for columns in itertools.permutations(COLUMNS):
        assert sorted(crowd_sizes(crowd_numbers(list(columns)))) == sorted(crowd_sizes(crowd_numbers(COLUMNS)))
