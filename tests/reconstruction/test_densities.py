"""Reconstruction of known distributions, through any noise, with power: a wrong law or Jacobian does worse."""

import numpy as np
import pytest
from scipy import stats

from daily import first_daily
from sfumato.attacks.metrics.information import information_loss
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.noise import Operator, OperatorNoise, make_law, make_operator
from sfumato.noise.laws import SumLaw
from sfumato.noise.operators import Branch
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import Cells
from sfumato.reconstruction.expectation_maximization import ExpectationMaximization
from sfumato.reconstruction.parzen_program import ParzenProgram
from sfumato.reconstruction.reconstruct import Described, check_same_column, reconstruct

SUPPORT = (1.0, 9.0)
MULTIPLICATIVE = OperatorNoise(make_operator("multiplicative"), make_law("uniform", low=1, high=3))
NOISES = {
    "multiplicative uniform": MULTIPLICATIVE,
    "relative normal": OperatorNoise(make_operator("multiplicative", {"base": 1.0}), make_law("normal", scale=0.2)),
    "additive uniform": OperatorNoise(make_operator("additive"), make_law("uniform", low=-2, high=2)),
    "additive laplace": OperatorNoise(make_operator("additive"), make_law("laplace", scale=0.8)),
    "additive heavy tails": OperatorNoise(make_operator("additive"), make_law("student-t", scale=0.5, df=1.0)),
    "quartic, two branches": OperatorNoise(make_operator("quartic"), make_law("uniform", low=-1, high=1)),
}


def values(rows, seed=0):
    """Two lumps in SUPPORT."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(rows) < 0.6, rng.normal(3, 0.5, rows), rng.normal(6.5, 0.7, rows))
    return np.clip(x, *SUPPORT)


@pytest.mark.parametrize("method", first_daily(["parzen-program", "expectation-maximization"]))
@pytest.mark.parametrize("name", first_daily(NOISES, 3))
def test_two_lumps_come_back_through_any_noise(name, method):
    x, noise = values(8000), NOISES[name]
    z = noise.sample(x, np.random.default_rng(1))
    found = reconstruct(z, noise, support=SUPPORT, method=method, resamples=0)
    assert information_loss(x, found) < 0.16
    assert found.mean == pytest.approx(x.mean(), abs=0.12)
    naive = np.histogram(z, found.cells.edges)[0] / len(z)
    assert information_loss(x, found) < 0.5 * 0.5 * np.abs(naive - found.shares_of(x)).sum()


def test_few_values_with_a_long_tail_are_not_drawn_to_cells_that_are_empty_by_chance():
    """Weighted by the counts themselves, the programme lost 0.45 here, and the mean was 4 too large."""
    noise, losses, errors = NOISES["quartic, two branches"], [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = np.clip(rng.normal(55, 8, 600), 36, 82)
        found = reconstruct(noise.sample(x, rng), noise, support=(36, 82), bins=40, resamples=0)
        losses.append(information_loss(x, found))
        errors.append(found.mean - x.mean())
    assert np.mean(losses) < 0.25
    assert abs(np.mean(errors)) < 2.0


@pytest.mark.system
def test_more_values_give_a_better_density():
    losses = []
    for rows in (300, 3000, 30_000):
        x = values(rows, seed=2)
        found = reconstruct(
            MULTIPLICATIVE.sample(x, np.random.default_rng(3)), MULTIPLICATIVE, support=SUPPORT, resamples=0
        )
        losses.append(0.5 * np.abs(found.mass - found.shares_of(values(200_000, seed=9))).sum())
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.06


def test_the_published_jacobian_ruins_the_reconstruction():
    """The literal Theorem 1 (|dE/dx| = z / x^2 for E = z / x) against the right |dE/dz| = 1 / x."""
    x = values(4000)
    z = MULTIPLICATIVE.sample(x, np.random.default_rng(5))
    wrong = Operator("custom", lambda e, x: e * x, (Branch(lambda z, x: z / x, lambda z, x: z / x**2),))
    literal = OperatorNoise(wrong, MULTIPLICATIVE.law)
    with pytest.raises(UsageError, match="derivative by z"):
        reconstruct(z, literal, support=SUPPORT)
    method, losses = ParzenProgram.as_published(1e-2), []
    for noise in (MULTIPLICATIVE, literal):
        unchecked = OperatorNoise(noise.operator, noise.law)
        object.__setattr__(unchecked, "check", lambda *_, **__: None)
        losses.append(information_loss(x, reconstruct(z, unchecked, support=SUPPORT, method=method, resamples=0)))
    assert losses[0] < 0.15
    assert losses[1] > 0.3


@pytest.mark.system
def test_a_wrong_law_does_worse():
    x = values(8000)
    true = NOISES["additive laplace"]
    z = true.sample(x, np.random.default_rng(6))
    wrong = true.stretched(1.5)
    right, other = (reconstruct(z, noise, support=SUPPORT, resamples=0) for noise in (true, wrong))
    assert information_loss(x, other) > 1.5 * information_loss(x, right)


def test_an_array_a_stream_and_two_halves_give_the_same():
    x = values(5000)
    z = MULTIPLICATIVE.sample(x, np.random.default_rng(7))
    options = {"support": SUPPORT, "resamples": 0, "method": ParzenProgram(penalty=0.3)}
    whole = reconstruct(iter([z]), MULTIPLICATIVE, **options)
    stream = reconstruct(iter(np.split(z, 5)), MULTIPLICATIVE, **options)
    np.testing.assert_allclose(stream.mass, whole.mass, atol=1e-12)
    array = reconstruct(z, MULTIPLICATIVE, **options)  # on a finer grid
    assert 0.5 * np.abs(array.mass - whole.mass).sum() < 0.02


@pytest.mark.parametrize("method", first_daily(["parzen-program", "expectation-maximization"]))
def test_parts_with_different_noise_give_one_better_estimate(method):
    x = values(6000, seed=4)
    rng = np.random.default_rng(9)
    parts = [(x[:3000], MULTIPLICATIVE), (x[3000:], NOISES["additive laplace"])]
    released = [noise.sample(part, rng) for part, noise in parts]
    noises = [noise for _, noise in parts]
    joint = reconstruct(released, noises, support=SUPPORT, method=method, resamples=0)
    alone = [
        reconstruct(z, noise, support=SUPPORT, method=method, resamples=0)
        for z, noise in zip(released, noises, strict=True)
    ]
    assert joint.rows == 6000
    losses = [0.5 * np.abs(found.mass - joint.shares_of(x)).sum() for found in (joint, *alone)]
    assert losses[0] < min(losses[1:])


def test_the_band_is_the_same_for_every_method_and_narrows_with_more_values():
    """It says where the truth lies, not what a method would give for another sample."""
    few, many = (MULTIPLICATIVE.sample(values(rows, seed=1), np.random.default_rng(0)) for rows in (1500, 40_000))
    options = {"support": SUPPORT, "resamples": 60}
    programme, iteration, better = (
        reconstruct(few, MULTIPLICATIVE, **options),
        reconstruct(few, MULTIPLICATIVE, method="expectation-maximization", **options),
        reconstruct(many, MULTIPLICATIVE, **options),
    )
    np.testing.assert_array_equal(programme.low, iteration.low)
    np.testing.assert_array_equal(programme.high, iteration.high)
    assert np.sum(better.high - better.low) < 0.6 * np.sum(programme.high - programme.low)


@pytest.mark.system
def test_stopping_rules_of_the_iteration_differ_and_are_told():
    x = values(4000)
    z = NOISES["additive uniform"].sample(x, np.random.default_rng(9))

    def run(**choice):
        method = ExpectationMaximization(**choice)
        found = reconstruct(z, NOISES["additive uniform"], support=SUPPORT, method=method, resamples=0)
        return information_loss(x, found), found.about["iterations"]

    few, many = run(stopping=3), run(stopping=2000)
    for choice in ({}, {"stopping": "successive"}, {"stopping": "discrepancy"}, {"smooth": True}):
        loss, iterations = run(**choice)
        assert 3 < iterations < 2000
        assert loss < min(few[0], many[0])
    with pytest.raises(UsageError, match="'stopping'"):
        run(stopping="whenever")


BAD = {
    "too few": (np.linspace(3, 8, 9), {}, TableError, "at least 10"),
    "constant": (np.full(50, 4.0), {}, TableError, "constant"),
    "outside what is possible": (np.linspace(0.1, 8, 50), {}, TableError, "outside what this noise can produce"),
    "far above": (np.linspace(2, 28, 50), {}, TableError, "outside what this noise can produce"),
    "infinite": (np.r_[np.linspace(2, 8, 50), np.inf], {}, TableError, "infinite"),
    "zero in the range": (np.linspace(2, 8, 50), {"support": (-1.0, 9.0)}, UsageError, "can be 0"),
    "no range": (np.linspace(2, 8, 50), {"support": None}, UsageError, "give the range"),
    "range the wrong way round": (np.linspace(2, 8, 50), {"support": (9.0, 1.0)}, UsageError, "low < high"),
    "no method": (np.linspace(2, 8, 50), {"method": "guess"}, UsageError, "no method 'guess'"),
    "one bin": (np.linspace(2, 8, 50), {"bins": 1}, UsageError, "'bins'"),
    "half a bin": (np.linspace(2, 8, 50), {"bins": 7.5}, UsageError, "whole number"),
    "words": (["two", "three"] * 10, {}, TableError, "its values are not"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_clear_error(name):
    z, options, error, words = BAD[name]
    with pytest.raises(error, match=words):
        reconstruct(z, MULTIPLICATIVE, **{"support": SUPPORT, **options})


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_unbounded_noise_that_is_far_too_weak_is_refused(law):
    """It can have made every value, but not so many so far out; honest tails are let through."""
    x, additive = values(2000), make_operator("additive")
    true = OperatorNoise(additive, make_law(law, scale=2.0))
    for seed in range(20):
        reconstruct(
            true.sample(x, np.random.default_rng(seed)), true, support=SUPPORT, bins=20, atoms=False, resamples=0
        )
    z, stated = true.sample(x, np.random.default_rng(0)), OperatorNoise(additive, make_law(law, scale=0.2))
    for given in (z, iter([z])):
        with pytest.raises(TableError, match="outside what this noise can produce"):
            reconstruct(given, stated, support=SUPPORT, bins=20, atoms=False, resamples=0)


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("wrong", [np.inf, -np.inf, 1e300])
def test_one_value_that_no_noise_makes_is_refused_from_an_array_and_from_a_stream(law, wrong):
    noise = OperatorNoise(make_operator("additive"), make_law(law, scale=2.0))
    z = noise.sample(values(500), np.random.default_rng(0))
    z[7] = wrong
    for given in (z, iter([z[:100], z[100:]])):
        with pytest.raises(TableError, match=r"infinite values|outside what this noise can produce"):
            reconstruct(given, noise, support=SUPPORT, bins=20, atoms=False, resamples=0)


def test_the_sum_of_noises_with_heavy_tails_is_known_closely():
    """Cauchy's law with scales 1 and 2 adds up to scale 3; on a grid up to its far tails it was off by .46."""
    law = SumLaw(tuple(make_law("student-t", scale=scale, df=1.0) for scale in (1.0, 2.0)))
    z = np.concatenate([-np.geomspace(1e3, 1e-2, 200), np.geomspace(1e-2, 1e3, 200)])
    np.testing.assert_allclose(law.cdf(z), stats.cauchy(scale=3).cdf(z), atol=2e-3)
    np.testing.assert_allclose(law.pdf(z[100:300]), stats.cauchy(scale=3).pdf(z[100:300]), rtol=0.02)
    normal = SumLaw((make_law("normal", scale=3.0), make_law("normal", scale=4.0)))
    np.testing.assert_allclose(normal.cdf(z), stats.norm(scale=5).cdf(z), atol=1e-4)


def test_every_part_needs_its_card():
    z = np.linspace(2, 8, 50)
    for given, noises in (([z], [MULTIPLICATIVE] * 2), (iter([z]), [MULTIPLICATIVE]), ([], [])):
        with pytest.raises(UsageError, match="same length"):
            reconstruct(given, noises, support=SUPPORT)


def test_penalties_and_rules_that_do_not_exist_are_refused():
    z = np.linspace(2, 8, 50)
    for method, words in (
        (ParzenProgram(penalty="none"), "a number from 0 to .* or auto"),
        (ParzenProgram(rule="simpson"), "'rule'"),
        (ParzenProgram(penalty=-1.0), "'penalty'"),
        (ParzenProgram(width=0.0), "'width'"),
        (ParzenProgram(width=-1.0), "'width'"),
        (ParzenProgram(width=float("nan")), "'width'"),
        (ParzenProgram(points=0), "'points'"),
        (ExpectationMaximization(points=10**9), "'points'"),
    ):
        with pytest.raises(UsageError, match=words):
            reconstruct(z, MULTIPLICATIVE, support=SUPPORT, method=method)


def test_parts_of_different_columns_are_not_joined():
    with pytest.raises(CardError, match="different columns"):
        check_same_column([Described("a", "numeric", MULTIPLICATIVE), Described("b", "numeric", MULTIPLICATIVE)])


def test_a_density_says_what_it_is():
    cells = Cells.even(0, 4, 4)
    density = Density("x", cells, np.array([0.1, 0.4, 0.4, 0.1]))
    assert density.mean == pytest.approx(2)
    assert density.variance == pytest.approx(0.8 * 0.25 + 0.2 * 2.25 + 1 / 12)
    np.testing.assert_allclose(density.cdf([0, 1, 2, 4, 9]), [0, 0.1, 0.5, 1, 1])
    np.testing.assert_allclose(density.quantiles([0, 0.1, 0.5, 0.9, 1]), [0, 1, 2, 3, 4])
    sample = density.sample(np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(density.shares_of(sample), density.mass, atol=0.015)
    assert density.plot().startswith("<svg")
    assert density.table().column_names == ["low", "high", "probability", "density", "cumulative"]
    with pytest.raises(UsageError, match="between 0 and 1"):
        density.quantiles([2.0])


def test_atoms_are_whole_numbers_everywhere():
    density = Density("rank", Cells.whole(0, 3), np.array([0.1, 0.2, 0.3, 0.4]))
    np.testing.assert_allclose(density.cdf([-1, 0, 0.5, 2, 3]), [0, 0.1, 0.1, 0.6, 1])
    assert set(density.sample(np.random.default_rng(0), 1000)) == {0.0, 1.0, 2.0, 3.0}
    assert density.mean == pytest.approx(2)
    assert density.variance == pytest.approx(1)
