"""`epsilon_record`: the figure that a data steward turns is reached, and never exceeded."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from domains import any_records, domain, seeds, steady
from sfumato.core.errors import UsageError
from sfumato.mechanisms import (
    MECHANISMS,
    AdditiveNoise,
    PiecewiseNoise,
    PrincipalLaplace,
    RandomizedResponse,
    RandomRotation,
    SquareWaveColumns,
    StagedRelease,
)

wanted = st.floats(0.05, 12)
mixed = st.text("nmoice23?", min_size=1, max_size=6).filter(lambda shape: set(shape) - set("ce"))
categories = st.text("1235?", min_size=1, max_size=40).filter(lambda shape: set(shape) - {"1"})


def stated(mechanism, shape, seed=0):
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(seed), 25)
    return mechanism.fit(X, encoding=encoding).guarantee()


def assert_reached_from_below(found, epsilon):
    assert found.record <= epsilon
    assert found.record == pytest.approx(epsilon, rel=1e-6)


KNOBS = [name for name, mechanism in MECHANISMS.items() if "epsilon_record" in mechanism._get_param_names()]


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 9.0])
@pytest.mark.parametrize("name", KNOBS)
def test_the_epsilon_that_is_asked_for_is_reached_from_below(name, epsilon):
    """Of every mechanism that has the knob; below, what each of them chooses is varied."""
    mechanism = MECHANISMS[name](epsilon_record=epsilon)
    found = stated(mechanism, "23?5" if mechanism.only_categories else "nm3oi?")
    assert 0.999 * epsilon < found.record <= epsilon


@given(mixed, wanted, seeds, st.sampled_from(["public", "data"]), st.sampled_from(["exact", "float"]))
@steady(120)
def test_principal_laplace(shape, epsilon, seed, bounds, noise):
    mechanism = PrincipalLaplace(epsilon_record=epsilon, component_bounds=bounds, noise=noise)
    found = stated(mechanism, shape, seed)
    assume(found.record > 0)  # rows all alike, as far as their components tell
    assert_reached_from_below(found, epsilon)


@given(mixed, wanted, seeds)
@steady(80)
def test_principal_laplace_with_a_basis_of_one_column_each(shape, epsilon, seed):
    assert_reached_from_below(stated(PrincipalLaplace(epsilon_record=epsilon, basis="identity"), shape, seed), epsilon)


@given(mixed, wanted, st.sampled_from(["laplace", "student-t"]), st.sampled_from(["exact", "float"]))
@steady(120)
def test_additive_noise(shape, epsilon, law, noise):
    assert_reached_from_below(stated(AdditiveNoise(law, epsilon_record=epsilon, noise=noise), shape), epsilon)


@given(mixed, wanted)
@steady(80)
def test_random_rotation(shape, epsilon):
    assert_reached_from_below(stated(RandomRotation(epsilon_record=epsilon), shape), epsilon)


@given(mixed, wanted, st.sampled_from(["exact", "float"]))
@steady(80)
def test_square_wave(shape, epsilon, noise):
    assert_reached_from_below(stated(SquareWaveColumns(epsilon, noise=noise), shape), epsilon)


@given(mixed, wanted, st.sampled_from(["hybrid", "piecewise"]), st.sampled_from(["exact", "float"]))
@steady(80)
def test_piecewise_noise(shape, epsilon, form, noise):
    assert_reached_from_below(stated(PiecewiseNoise(epsilon, form=form, noise=noise), shape), epsilon)


@given(mixed, wanted, st.sampled_from(["exact", "float"]))
@steady(40)
def test_staged_release(shape, epsilon, noise):
    assert_reached_from_below(stated(StagedRelease(epsilon, noise=noise), shape), epsilon)


@given(st.text("nmoi", min_size=1, max_size=4), st.floats(1, 9), st.floats(0.01, 0.4))
@steady(60)
def test_additive_noise_with_an_epsilon_of_its_own_for_categories(shape, epsilon, share):
    found = stated(AdditiveNoise(epsilon_record=epsilon, category_epsilon=share * epsilon / 6), shape + "3?")
    assert_reached_from_below(found, epsilon)


@given(categories, wanted)
@steady(120)
def test_randomized_response(shape, epsilon):
    assert_reached_from_below(stated(RandomizedResponse(epsilon_record=epsilon), shape), epsilon)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 50, 1e4])
def test_principal_laplace_far_from_what_is_sensible(epsilon):
    assert_reached_from_below(stated(PrincipalLaplace(epsilon_record=epsilon), "nm3"), epsilon)


@pytest.mark.parametrize(
    ("mechanism", "shape", "why"),
    [
        (AdditiveNoise(epsilon_record=1, category_epsilon=2), "n3", "Lower category_epsilon"),
        (AdditiveNoise(epsilon_record=1e-9), "n3", "larger epsilon"),
        (AdditiveNoise(epsilon_record=1e9), "n3", "smaller epsilon"),
        (AdditiveNoise(epsilon_record=100), "2", "smaller epsilon"),
        (AdditiveNoise("normal", epsilon_record=1), "n3", "no bounded amplification"),
        (AdditiveNoise("uniform", epsilon_record=1), "n3", "no bounded amplification"),
        (PrincipalLaplace(epsilon_record=1e-12), "nm3", "at least"),
    ],
    ids=str,
)
def test_what_cannot_be_reached_is_told(mechanism, shape, why):
    with pytest.raises(UsageError, match=why):
        stated(mechanism, shape)
