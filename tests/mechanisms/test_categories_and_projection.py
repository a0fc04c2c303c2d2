"""Randomized response keeps what it says; a random projection keeps lengths on average and proves nothing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from domains import any_records, domain, steady
from sfumato.channels import RandomizedResponse as Response
from sfumato.core.errors import CardError, SchemaError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP
from sfumato.mechanisms import RandomizedResponse, RandomProjection
from sfumato.noise import Streams
from sfumato.table import Encoding

ROWS = 60_000


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("categories", [2, 3, 7])
def test_categories_are_kept_as_often_as_stated(categories, epsilon):
    encoding = domain(f"1{categories}")
    X = np.zeros((ROWS, encoding.width))
    X[:, 0] = X[:, 2] = 1  # the second category of the second column
    fitted = RandomizedResponse(epsilon).fit(X, encoding=encoding)
    Z = fitted.perturb(X, None, Streams.seeded(categories).generator(0)).X
    keep = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    assert fitted.recipe_.channels[1].keep == pytest.approx(keep)
    assert (Z.sum(axis=1) == 2).all()
    assert (Z[:, 0] == 1).all()
    kept = int(Z[:, 2].sum())
    assert stats.binomtest(kept, ROWS, keep).pvalue > 1e-6
    assert stats.binomtest(kept, ROWS, 1 - (1 - keep) / 1.3).pvalue < 1e-20
    others = np.delete(Z[:, 1:], 1, axis=1).sum(axis=0)
    assert stats.chisquare(others).pvalue > 1e-6 if categories > 2 else True


@given(st.floats(1e-6, 60), st.integers(1, 200))
@steady(100)
def test_a_response_never_costs_more_than_was_wanted(epsilon, categories):
    response = Response.of_epsilon(epsilon, categories)
    assert response.epsilon <= epsilon
    if categories > 1:
        exact = math.log(response.threshold * (categories - 1)) - math.log(2**64 - response.threshold)
        assert response.epsilon == pytest.approx(exact, rel=1e-9, abs=1e-13)
        assert response.keep * 2**64 == response.threshold  # to the last digit: a card states what the program does
    else:
        assert (response.keep, response.epsilon) == (1, 0)


def test_the_record_is_the_sum_of_its_columns():
    encoding = domain("23?1")
    stated = RandomizedResponse(0.7).fit(np.zeros((2, encoding.width)), encoding=encoding).guarantee()
    assert stated.kind == LOCAL_DP
    assert stated.column == stated.component == pytest.approx(0.7)
    assert stated.record == pytest.approx(2.1)


def test_numbers_are_refused_with_advice():
    with pytest.raises(SchemaError, match=r"'n1' is numeric. Use additive-noise"):
        RandomizedResponse().fit(np.zeros((2, 3)), encoding=domain("2n"))
    with pytest.raises(UsageError, match="The 'epsilon' parameter of randomized-response must be a positive number"):
        RandomizedResponse(0).fit(np.zeros((2, 2)), encoding=domain("2"))


def test_projection_keeps_squared_lengths_on_average():
    """E |R x|^2 = |x|^2; with k = 8 rows the ratio is chi-square_8 / 8, sd .5."""
    X = np.random.default_rng(0).random((3, 16))
    encoding, ratios = Encoding.unit(16), []
    for _ in range(400):
        fitted = RandomProjection(8).fit(X, encoding=encoding)
        ratios.append((fitted.embed(X) ** 2).sum(axis=1) / (X**2).sum(axis=1))
    assert np.mean(ratios, axis=0) == pytest.approx(1, abs=7 * 0.5 / 20)
    scaled = np.array(ratios)[:, 0] * 8
    assert stats.kstest(scaled, stats.chi2(8).cdf).pvalue > 1e-9
    assert stats.kstest(scaled / 1.3, stats.chi2(8).cdf).pvalue < 1e-6


def test_projection_proves_nothing_and_says_so():
    fitted = RandomProjection(2).fit(np.zeros((2, 4)), encoding=Encoding.unit(4, public=True))
    assert fitted.guarantee().kind == EMPIRICAL
    assert "known rows undo it" in fitted.guarantee().in_words()
    assert (fitted.embed(np.zeros((1, 4))) == 0).all()  # Example 4.3: an all-zero row stays all-zero
    assert fitted.recipe_.path == "none"
    assert fitted.restore(np.zeros((1, 2))) is None


def test_one_key_one_space_and_another_key_another():
    encoding = domain("nn3")
    X = any_records(encoding, np.random.default_rng(0), 20)
    mechanism = RandomProjection(3)
    key = mechanism.draw_key(encoding)
    first, second = (RandomProjection(3).fit(part, encoding=encoding, key=key) for part in (X[:10], X[10:]))
    other = RandomProjection(3).fit(X, encoding=encoding)
    assert np.array_equal(first.embed(X), second.embed(X))
    assert first.recipe_.map.to_dict() == second.recipe_.map.to_dict() != other.recipe_.map.to_dict()
    assert not np.allclose(first.embed(X), other.embed(X))


def test_keys_of_another_kind_are_refused():
    key = RandomProjection(2).draw_key(domain("nn3"))
    X = np.zeros((2, 5))
    with pytest.raises(CardError, match="This key projects to 2 components, but 3 were requested"):
        RandomProjection(3).fit(X, encoding=domain("nn3"), key=key)
    with pytest.raises(CardError, match="other columns, bounds or categories"):
        RandomProjection(2).fit(X, encoding=domain("n3n"), key=key)
    with pytest.raises(CardError, match="needs a key"):
        RandomProjection(2).fit_statistics(None, domain("nn3"))
    with pytest.raises(UsageError, match="The 'components' parameter of random-projection must be between 1 and the 5"):
        RandomProjection(6).fit(X, encoding=domain("nn3"))
    with pytest.raises(UsageError, match="has no key"):
        RandomizedResponse().draw_key(domain("2"))
