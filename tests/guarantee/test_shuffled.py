"""What an honest shuffler adds: figures of the literature, brute force, and answers that were really shuffled."""

import math

import pytest
from scipy.stats import binom

from sfumato.guarantee.cost import shuffled_delta, shuffled_epsilon


def divergence(one, other, epsilon):
    """max over both orders of sum (p - e^eps q)+."""
    keys = one.keys() | other.keys()
    return max(
        math.fsum(max(p.get(key, 0.0) - math.exp(epsilon) * q.get(key, 0.0), 0.0) for key in keys)
        for p, q in ((one, other), (other, one))
    )


def clones(local, people, own):
    """The law of the two counts, every outcome by itself; `own`: which of the two laws the person's record is from."""
    weight, law = math.exp(local) / (1 + math.exp(local)), {}
    for c in range(people):
        for a in range(c + 1):
            mass = binom.pmf(c, people - 1, math.exp(-local)) * binom.pmf(a, c, 0.5)
            for first, share in ((1, weight if own else 1 - weight), (0, 1 - weight if own else weight)):
                pair = (a + first, c - a + 1 - first)
                law[pair] = law.get(pair, 0.0) + mass * share
    return law


@pytest.mark.parametrize(
    ("people", "figures"),
    [(1_000, (0.18, 0.55, 4.0)), (10_000, (0.05, 0.16, 0.60)), (100_000, (0.015, 0.045, 0.17))],
)
def test_figures_of_the_numerical_bound(people, figures):
    for local, stated in zip((1.0, 2.0, 4.0), figures, strict=True):
        assert shuffled_epsilon(local, people) == pytest.approx(
            stated, rel=0.065
        )  # they are given with one or two digits


@pytest.mark.parametrize("people", [1, 2, 7, 30])
@pytest.mark.parametrize("local", [0.5, 2.0])
def test_delta_is_that_of_all_outcomes_one_by_one(people, local):
    one, other = clones(local, people, True), clones(local, people, False)
    for epsilon in (0.0, 0.1 * local, 0.4 * local, 0.9 * local):
        exact = divergence(one, other, epsilon)
        found = shuffled_delta(local, people, epsilon)
        assert exact <= found <= exact * 1.001 + 2e-9
    at = 1e-3
    epsilon = shuffled_epsilon(local, people, at)
    assert divergence(one, other, epsilon) <= at
    if epsilon < 0.99 * local:
        assert divergence(one, other, 0.97 * epsilon) > at


@pytest.mark.parametrize("ones", [0, 40, 149])
def test_it_covers_answers_at_random_that_are_really_shuffled(ones):
    """People answer a bit; `ones` of the others hold a one. Of a shuffled pool only the number of ones is left."""
    local, people = 1.5, 150
    true = math.exp(local) / (1 + math.exp(local))

    def pool(own):
        law = {0: 1.0}
        for bit in [own] + [1] * ones + [0] * (people - 1 - ones):
            up = true if bit else 1 - true
            law = {k: law.get(k, 0.0) * (1 - up) + law.get(k - 1, 0.0) * up for k in range(len(law) + 1)}
        return law

    for delta in (1e-2, 1e-3):
        epsilon = shuffled_epsilon(local, people, delta)
        assert epsilon < 0.95 * local
        assert divergence(pool(0), pool(1), epsilon) <= delta


def test_more_people_help_and_it_is_never_worse_than_the_local_one():
    figures = [shuffled_epsilon(2.0, people) for people in (1, 10, 100, 1_000, 10_000)]
    assert figures == sorted(figures, reverse=True)
    assert figures[0] <= 2.0
    assert shuffled_epsilon(math.inf, 1_000) == math.inf
    assert shuffled_epsilon(0.0, 1_000) == 0.0
    assert shuffled_epsilon(20.0, 1_000) <= 20.0
