"""Random rotation: the Haar law, the key, and a guarantee that holds for every rotation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from domains import any_records, corner_records, domain, seeds, shapes, steady
from sfumato.channels.affine_bound import affine_epsilons
from sfumato.core.errors import CardError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Key
from sfumato.mechanisms import RandomProjection, RandomRotation
from sfumato.mechanisms.random_rotation import haar_rotation, is_orthogonal
from sfumato.noise import Streams
from sfumato.table import Encoding

DRAWS = 4_000


def entries_law(width):
    """Of any entry of a Haar matrix: r^2 is Beta(1/2, (d-1)/2), r symmetric, that is (r + 1) / 2 is Beta(a, a)."""
    return stats.beta((width - 1) / 2, (width - 1) / 2, loc=-1, scale=2)


@pytest.mark.parametrize("width", [2, 3, 7])
def test_rotations_follow_the_haar_law(width):
    """First column uniform on the sphere; both determinants; and the same law turned by any fixed matrix."""
    rng = np.random.default_rng(width)
    drawn = np.array([haar_rotation(width, rng) for _ in range(DRAWS)])
    fixed = haar_rotation(width, np.random.default_rng(99))
    for turned in (drawn, drawn @ fixed, fixed @ drawn):
        for place in ((0, 0), (0, width - 1), (width - 1, 0), (width - 1, width - 1)):
            entries = turned[:, place[0], place[1]]
            assert stats.kstest(entries, entries_law(width).cdf).pvalue > 1e-6
            assert stats.kstest(1.3 * entries, entries_law(width).cdf).pvalue < 1e-6
    positive = int(np.sum(np.linalg.det(drawn) > 0))
    assert stats.binomtest(positive, DRAWS).pvalue > 1e-6
    error = np.abs(np.einsum("nij,nkj->nik", drawn, drawn) - np.eye(width)).max()
    assert error < 1e-12


def test_the_signs_of_lapack_would_be_found_out():
    """Without the correction the law of the entries is not Haar's: the test above has the power to see it."""
    rng = np.random.default_rng(0)
    plain = np.array([np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(DRAWS)])
    assert stats.kstest(plain[:, 0, 0], entries_law(3).cdf).pvalue < 1e-20


def test_rotations_stay_orthogonal_in_many_columns():
    rotation = haar_rotation(500, np.random.default_rng(1))
    assert is_orthogonal(rotation)
    assert np.abs(rotation @ rotation.T - np.eye(500)).max() < 1e-12
    assert not is_orthogonal(rotation * (1 + 1e-10))
    assert not is_orthogonal(np.full((2, 2), np.nan))


def test_one_column_is_kept_or_turned_round():
    found = {float(haar_rotation(1, np.random.default_rng(seed))[0, 0]) for seed in range(40)}
    assert found == {-1.0, 1.0}
    X = np.linspace(0, 1, 5)[:, None]
    Z = RandomRotation().release(X).X
    assert np.abs(np.diff(Z[:, 0])) == pytest.approx(0.25)


@given(shapes, seeds)
@steady(60)
def test_distances_are_kept_and_the_key_undoes_everything(shape, seed):
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(seed), 12)
    fitted = RandomRotation().fit(X, encoding=encoding)
    Z = fitted.perturb(X, None, np.random.default_rng(0)).X
    assert np.allclose(np.linalg.norm(Z[:, None] - Z, axis=2), np.linalg.norm(X[:, None] - X, axis=2), atol=1e-12)
    matrix, offset = fitted.key_.affine()
    assert np.allclose((Z - offset) @ matrix, X, atol=1e-12)
    assert np.abs(Z).max() <= np.sqrt(encoding.width)
    assert "matrix" not in fitted.recipe_.map.to_dict()


def test_centres_are_uniform_in_the_cube_or_zero():
    encoding = Encoding.unit(5)
    drawn = np.concatenate([RandomRotation().draw_key(encoding).arrays["centre"] for _ in range(2000)])
    assert stats.kstest(drawn, stats.uniform.cdf).pvalue > 1e-6
    assert stats.kstest(drawn**1.2, stats.uniform.cdf).pvalue < 1e-6
    assert not RandomRotation(centre="zero").draw_key(encoding).arrays["centre"].any()


# -- the guarantee ----------------------------------------------------------------------------------------------------


def towards_the_diagonal(difference):
    """A rotation that turns one difference into the direction (1, ..., 1), where its 1-norm is largest."""
    width = len(difference)
    wanted = np.full(width, np.linalg.norm(difference) / np.sqrt(width))
    mirror = difference - wanted
    if np.linalg.norm(mirror) < 1e-9:
        return np.eye(width)
    return np.eye(width) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)


def fit_with(matrix, encoding, **parameters):
    mechanism = RandomRotation(noise="laplace", **parameters)
    return mechanism.fit_statistics(None, encoding, mechanism.key_around(matrix, encoding))


@given(st.text("nmoce123?", min_size=1, max_size=3), seeds)
@steady(80)
def test_no_rotation_exceeds_the_stated_epsilons(shape, seed):
    """Brute force over all pairs of extreme records, for a random rotation; every level."""
    encoding, rng = domain(shape), np.random.default_rng(seed)
    fitted = fit_with(haar_rotation(encoding.width, rng), encoding, scale=0.3)
    stated, scale = fitted.guarantee(), 0.3 * fitted.diameter_
    corners = corner_records(encoding)
    moved = np.abs((corners[:, None] - corners) @ fitted.matrix_.T) / scale
    assert moved.sum(axis=2).max(initial=0) <= stated.record
    assert moved.max(initial=0) <= stated.component
    scales = np.full(encoding.width, scale)
    wide = np.full(encoding.width, 1e3)
    exact = affine_epsilons(fitted.matrix_, scales, wide, encoding.groups)
    assert exact.record <= stated.record * (1 + 1e-8)
    assert exact.column <= stated.column * (1 + 1e-8)


@given(st.text("nmo123?", min_size=1, max_size=4).filter(lambda shape: set(shape) - {"1"}))
@steady(60)
def test_some_rotation_attains_the_stated_epsilon(shape):
    """So no smaller figure could be stated for all keys."""
    encoding = domain(shape)
    corners = corner_records(encoding)
    differences = (corners[:, None] - corners).reshape(-1, encoding.width)
    longest = differences[np.linalg.norm(differences, axis=1).argmax()]
    fitted = fit_with(towards_the_diagonal(longest), encoding, scale=0.5)
    reached = np.abs(fitted.matrix_ @ longest).sum() / (0.5 * fitted.diameter_)
    assert reached == pytest.approx(fitted.guarantee().record, rel=1e-8)


def test_the_guarantee_says_nothing_about_the_rotation():
    encoding = domain("nm3")
    stated = [fit_with(haar_rotation(6, np.random.default_rng(seed)), encoding).guarantee() for seed in range(3)]
    assert stated[0] == stated[1] == stated[2]
    assert stated[0].kind == LOCAL_DP
    assert not stated[0].exact


def test_only_laplace_noise_on_public_bounds_proves_something():
    for noise in (None, "normal", "uniform", "student-t"):
        fitted = RandomRotation(noise=noise).fit(np.zeros((2, 4)), encoding=domain("nnnn"))
        assert fitted.guarantee().kind == EMPIRICAL
        assert np.isfinite(fitted.guarantee().record) == (noise == "student-t")
    plain = RandomRotation().fit(np.zeros((2, 4)), encoding=domain("nnnn"))
    assert "plus one, or one colluding site, undo it" in plain.guarantee().in_words()
    assert plain.recipe_.path == "none"
    assert RandomRotation(noise="laplace").fit(np.zeros((2, 4))).guarantee().kind == EMPIRICAL  # learned bounds


def test_student_noise_has_a_bound_that_floating_point_hinders():
    """Its log-density is nowhere steeper than (v + 1) / (2 s sqrt(v)); the attaining rotation comes near for far z."""
    encoding = domain("nn")
    mechanism = RandomRotation(noise="student-t", scale=1.0)
    key = mechanism.key_around(towards_the_diagonal(np.array([1.0, 1.0])), encoding)
    fitted = mechanism.fit_statistics(None, encoding, key)
    stated, law = fitted.guarantee(), fitted.recipe_.channels[0].law
    assert stated.in_the_way == ("floating-point noise",)
    assert not stated.exact
    moved = np.abs(fitted.matrix_ @ np.ones(2))
    attained = sum(law.log_amplification(float(one)) for one in moved)
    assert 0.9 * stated.record < attained <= stated.record


@given(st.text("nmoi23?", min_size=1, max_size=6), st.floats(0.01, 50))
@steady(80)
def test_the_knob_is_reached_from_below_and_brings_its_noise(shape, epsilon):
    encoding = domain(shape)
    mechanism = RandomRotation(epsilon_record=epsilon)
    fitted = mechanism.fit_statistics(None, encoding, mechanism.draw_key(encoding))
    assert epsilon * (1 - 1e-6) <= fitted.guarantee().record <= epsilon
    assert fitted.parameters_used()["noise"] == "laplace"
    assert fitted.recipe_.path == "exact-grid"
    assert fitted.get_params() == {**RandomRotation().get_params(), "epsilon_record": epsilon}


def test_the_worst_pair_is_told_apart_as_stated_and_no_better():
    """The likelihood ratio of the attaining rotation, by drawing: the claim has no slack and is not exceeded."""
    encoding = domain("nn")
    fitted = fit_with(towards_the_diagonal(np.array([1.0, 1.0])), encoding, scale=1.0)
    claim, scale = fitted.guarantee().record, fitted.diameter_
    pair = fitted.embed(np.array([[1.0, 1.0], [0.0, 0.0]]))
    Z = fitted.perturb(np.tile([1.0, 1.0], (200_000, 1)), None, Streams.seeded(0).generator(0)).X
    ratio = ((np.abs(Z - pair[1]) - np.abs(Z - pair[0])) / scale).sum(axis=1)
    assert ratio.max() <= claim
    assert ratio.max() == pytest.approx(claim, rel=1e-6)
    grid = fitted.recipe_.channels[0].step
    assert np.array_equal(Z, np.rint(Z / grid) * grid)


# -- keys -------------------------------------------------------------------------------------------------------------


def test_one_key_is_one_space_and_another_another():
    encoding = domain("nn3")
    X = any_records(encoding, np.random.default_rng(0), 20)
    key = RandomRotation().draw_key(encoding)
    first, second = (RandomRotation().fit(part, encoding=encoding, key=key) for part in (X[:10], X[10:]))
    other = RandomRotation().fit(X, encoding=encoding)
    assert np.array_equal(first.embed(X), second.embed(X))
    assert first.recipe_.map.to_dict() == second.recipe_.map.to_dict() != other.recipe_.map.to_dict()
    assert "content hidden" in repr(key)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"matrix": np.eye(4), "centre": np.zeros(4)}, "no rotation and centre for 5"),
        ({"matrix": np.eye(5)}, "no rotation and centre for 5"),
        ({"matrix": 1.001 * np.eye(5), "centre": np.full(5, 0.5)}, "no orthogonal matrix"),
        ({"matrix": np.full((5, 5), np.nan), "centre": np.full(5, 0.5)}, "no orthogonal matrix"),
        ({"matrix": np.eye(5), "centre": np.full(5, 1.5)}, "no orthogonal matrix with a centre between 0 and 1"),
        ({"matrix": np.eye(5), "centre": np.zeros(5)}, "This key has a zero centre. Give --param centre=zero"),
    ],
)
def test_forged_keys_are_refused(arrays, words):
    encoding = domain("nn3")
    key = Key.draw("random-rotation", encoding.fingerprint(), arrays)
    with pytest.raises(CardError, match=words):
        RandomRotation().fit(np.zeros((2, 5)), encoding=encoding, key=key)


def test_a_centre_of_ones_own_stays_where_it_is():
    """x = t goes to the origin; the same t is asked of the key, and stands on the card."""
    encoding, X = domain("nn3"), np.random.default_rng(0).random((6, 5))
    t = [0.1, 0.2, 0.3, 0.4, 0.5]
    made = RandomRotation(centre=t)
    key = made.draw_key(encoding)
    fit = made.fit(X, encoding=encoding, key=key)
    assert np.abs(fit.embed(np.array([t]))).max() < 1e-15
    assert np.linalg.norm(fit.embed(X), axis=1) == pytest.approx(np.linalg.norm(X - t, axis=1))
    assert fit.parameters_used()["centre"] == t
    assert RandomRotation(centre=0.5).draw_key(encoding).arrays["centre"].tolist() == [0.5] * 5
    for other in (0.5, "zero", "random"):
        if other != "random":
            with pytest.raises(CardError, match=r"another centre|has a random centre"):
                RandomRotation(centre=other).fit(X, encoding=encoding, key=key)
    for wrong in ([0.1, 0.2], 1.5, [0.5] * 4 + [float("nan")], [[0.5] * 5], None):
        with pytest.raises(UsageError, match="one for each of the 5 encoded columns"):
            RandomRotation(centre=wrong).draw_key(encoding)


def test_keys_of_another_kind_and_wrong_parameters_are_refused():
    encoding, X = domain("nn3"), np.zeros((2, 5))
    with pytest.raises(CardError, match="other columns, bounds or categories"):
        RandomRotation().fit(X, encoding=domain("n3n"), key=RandomRotation().draw_key(encoding))
    with pytest.raises(CardError, match="belongs to random-projection"):
        RandomRotation().fit(X, encoding=encoding, key=RandomProjection(5).draw_key(encoding))
    with pytest.raises(CardError, match="needs a key"):
        RandomRotation().fit_statistics(None, encoding)
    for wrong, words in (
        ({"centre": "middle"}, "'centre' parameter of random-rotation must be one of random, zero"),
        ({"noise": "loud"}, "'noise' parameter of random-rotation must be one of"),
        ({"scale": 0, "noise": "laplace"}, "'scale' parameter of random-rotation must be a positive number"),
        ({"noise": "normal", "epsilon_record": 2.0}, "needs Laplace noise"),
        ({"epsilon_record": 1e-14}, "rounding to the grid alone costs more"),
    ):
        with pytest.raises(UsageError, match=words):
            RandomRotation(**wrong).fit(X, encoding=encoding)


def test_a_searched_key_is_told_on_the_card_and_hinders_the_claim():
    encoding = domain("nn3")
    mechanism = RandomRotation(noise="laplace")
    key = mechanism.key_around(np.eye(5), encoding, searched=50)
    fitted = mechanism.fit(np.zeros((2, 5)), encoding=encoding, key=key)
    assert fitted.guarantee().kind == EMPIRICAL
    assert any("search" in reason for reason in fitted.learned())
    assert any("search" in reason for reason in fitted.guarantee().in_the_way)
