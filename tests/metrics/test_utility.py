import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from sfumato.attacks.metrics.utility import (
    accuracy,
    associations,
    cramers_v,
    kolmogorov_smirnov,
    phi,
    total_variation,
    wasserstein,
)
from sfumato.table import Column, Encoding, Schema

MIXED = Encoding(
    Schema(
        (
            Column("age", "integer", low=0, high=100),
            Column("colour", "categorical", categories=("red", "green", "blue")),
            Column("shape", "categorical", categories=("round", "square")),
        )
    )
)


def mixed_rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    colour = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    age = np.clip(0.2 + 0.2 * colour + rng.normal(scale=0.1, size=n), 0, 1)
    shape = (colour + (rng.random(n) < 0.2)) % 2
    return np.column_stack([age, np.eye(3)[colour], np.eye(2)[shape]]), age, colour, shape


def test_accuracy():
    assert accuracy([1, 2, 3, 4], [1, 2, 0, 4]) == 0.75


def test_phi_is_the_loss_of_accuracy_with_students_interval():
    original, released = np.array([0.9, 0.8, 0.85, 0.95]), np.array([0.7, 0.75, 0.8, 0.8])
    loss = original - released
    value, interval = phi(original, released)
    theirs = stats.ttest_1samp(loss, 0).confidence_interval(0.95)
    assert value == pytest.approx(loss.mean())
    assert_allclose(interval, (theirs.low, theirs.high))


def test_phi_corrected_for_overlapping_splits_is_wider_by_the_known_factor():
    original, released = np.array([0.9, 0.8, 0.85, 0.95]), np.array([0.7, 0.75, 0.8, 0.8])
    plain, corrected = phi(original, released).interval, phi(original, released, test_share=0.1).interval
    ratio = (corrected.high - corrected.low) / (plain.high - plain.low)
    assert ratio == pytest.approx(np.sqrt((1 / 4 + 1 / 9) / (1 / 4)))


def test_one_split_has_no_interval():
    value, interval = phi(0.9, 0.8)
    assert value == pytest.approx(0.1)
    assert np.isnan(interval).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_kolmogorov_smirnov_against_scipy(first, second):
    assert kolmogorov_smirnov(first, second) == pytest.approx(stats.ks_2samp(first, second, method="asymp").statistic)


def test_nothing_is_no_sample_at_distance_zero():
    for first, second in (([], [1.0]), ([1.0], []), ([], [])):
        with pytest.raises(ValueError, match="One of the samples is empty"):
            wasserstein(first, second)


def test_wasserstein_by_sorting():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=500), rng.normal(1, 2, size=500)
    assert wasserstein(a, b, span=4.0) == pytest.approx(np.abs(np.sort(a) - np.sort(b)).mean() / 4)


def test_total_variation_is_the_largest_difference_of_any_event():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    events = [[i for i in range(3) if mask >> i & 1] for mask in range(8)]
    assert total_variation(p, q) == pytest.approx(max(p[e].sum() - q[e].sum() for e in events))


def test_cramers_v_against_scipy():
    table = np.random.default_rng(0).integers(1, 40, size=(3, 4))
    assert cramers_v(table.astype(float)) == pytest.approx(stats.contingency.association(table, method="cramer"))
    assert cramers_v(np.array([[3.0, 4.0], [0.0, 0.0]])) == 0.0


def test_associations_of_every_kind_of_pair():
    X, age, colour, shape = mixed_rows()
    found = associations(X, MIXED)
    counts = stats.contingency.crosstab(colour, shape).count
    assert found[1, 2] == pytest.approx(stats.contingency.association(counts, method="cramer"))
    between = sum((colour == c).sum() * (age[colour == c].mean() - age.mean()) ** 2 for c in range(3))
    assert found[0, 1] == pytest.approx(np.sqrt(between / ((age - age.mean()) ** 2).sum()))
    numbers = np.random.default_rng(1).random((100, 3))
    assert_allclose(associations(numbers, Encoding.unit(3)), np.corrcoef(numbers, rowvar=False))
    assert_allclose(found, found.T)


def test_a_constant_column_is_associated_with_nothing():
    X, *_ = mixed_rows()
    X[:, 0] = 0.5
    assert associations(X, MIXED)[0, 1:].tolist() == [0, 0]
