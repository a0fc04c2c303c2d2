"""Principal components with Laplace noise: as published, as it should be, and with a basis from elsewhere."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_wine

from domains import any_records, domain, seeds, shapes, steady
from sfumato.core.errors import TableError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, space_of
from sfumato.mechanisms import PrincipalLaplace
from sfumato.noise import Streams
from sfumato.release.write_release import Layout, make_card
from sfumato.table import Encoding
from sfumato.table.statistics import Statistics


@pytest.fixture(scope="module")
def wine():
    X = load_wine().data
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


def fit(X, **parameters):
    return PrincipalLaplace(**parameters).fit(X, encoding=Encoding.unit(X.shape[1], public=True))


def scales(fitted):
    return np.array([channel.law.scale for channel in fitted.recipe_.channels])


def test_as_published_the_widths_are_those_of_the_scores(wine):
    """Fig. 2: b_i = b (max_i - min_i) of the projected table; e^(1/b) per component."""
    published, default = fit(wine, b=0.2, component_bounds="data"), fit(wine, b=0.2)
    scores = published.embed(wine)
    assert scales(published) == pytest.approx(0.2 * np.ptp(scores, axis=0))
    assert scales(default) == pytest.approx(0.2 * np.abs(default.matrix_).sum(axis=1))
    assert published.guarantee().component == pytest.approx(5, rel=1e-6)
    assert "ranges of the components" in published.learned()
    assert published.guarantee().kind == EMPIRICAL
    assert (scales(published) < scales(default)).all()


def test_the_basis_is_that_of_the_covariance(wine):
    fitted = fit(wine, components=13)
    assert fitted.matrix_ @ fitted.matrix_.T == pytest.approx(np.eye(13), abs=1e-9)
    scores = fitted.embed(wine)
    assert np.cov(scores.T) == pytest.approx(np.diag(fitted.variances_), abs=1e-9)
    assert (np.diff(fitted.variances_) <= 0).all()


@given(seeds, shapes, st.floats(0.02, 3), st.sampled_from(["public", "data"]), st.sampled_from(["exact", "float"]))
@steady(100)
def test_the_record_never_costs_more_than_s_over_b(seed, shape, b, bounds, noise):
    """Scores are clipped, so s / b is the most; a component never costs more than the record."""
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(seed), 30)
    fitted = PrincipalLaplace(b=b, component_bounds=bounds, noise=noise).fit(X, encoding=encoding)
    stated, s = fitted.guarantee(), len(fitted.matrix_)
    assert stated.record <= s / b * (1 + 1e-9)
    assert stated.component <= 1 / b * (1 + 1e-9)
    assert stated.column <= stated.record * (1 + 1e-9) + 1e-9


@given(seeds, st.integers(2, 5))
@steady(40)
def test_merged_statistics_give_the_same_basis_with_the_same_signs(seed, blocks):
    rng = np.random.default_rng(seed)
    X = np.clip(0.5 + 0.1 * rng.normal(size=(60, 3)) @ rng.normal(size=(3, 5)) + 0.02 * rng.normal(size=(60, 5)), 0, 1)
    whole = fit(X, components=3)
    merged = PrincipalLaplace(components=3)
    parts = [merged.statistics(part, None) for part in np.array_split(X, blocks)]
    merged.fit_statistics(sum(parts[1:], parts[0]), Encoding.unit(5, public=True))
    assert merged.matrix_ == pytest.approx(whole.matrix_, abs=1e-6)
    largest = np.abs(whole.matrix_).argmax(axis=1)
    assert (whole.matrix_[np.arange(3), largest] > 0).all()


def test_scores_beyond_their_interval_are_clipped(wine):
    """Widths of half the table, then the other half: nobody's noise may be smaller for being far out."""
    near = wine[np.argsort(wine[:, 0])[:90]]
    fitted = fit(near, component_bounds="data", b=1e-4, noise="float")
    released = fitted.perturb(wine.copy(), None, Streams.seeded(1).generator(0)).X
    low, high = fitted.embed(near).min(axis=0), fitted.embed(near).max(axis=0)
    scores = fitted.embed(wine)
    assert ((scores < low) | (scores > high)).any()
    clipped = np.clip(scores, low, high)
    assert np.abs(released - clipped).max() < 30 * 1e-4 * np.max(high - low)


def test_a_given_basis_with_public_bounds_is_formal(wine):
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(13, 13)))[0][:4]
    fitted = fit(wine, basis=basis, basis_reason="drawn at random")
    assert fitted.guarantee().kind == LOCAL_DP
    assert fitted.learned() == []
    assert "The basis is public: drawn at random" in fitted.guarantee().assumptions
    undeclared = fit(wine, basis=basis).guarantee()
    assert undeclared.kind == EMPIRICAL
    assert "basis_reason" in undeclared.in_the_way[0]
    assert fitted.parameters_used()["basis"] == "given"
    assert fit(wine).guarantee().kind == EMPIRICAL
    assert fit(wine, basis="identity").guarantee().kind == LOCAL_DP
    assert fit(wine, basis=basis, noise="float").guarantee().kind == EMPIRICAL


def test_two_sites_that_share_a_card_share_a_space(wine, tmp_path):
    """The second site takes the basis from the first one's card: rows can be pooled, to the last bit."""
    encoding = Encoding.unit(13, public=True)
    first = fit(wine[:90], components=5)
    card = make_card(Layout(first, encoding), first.guarantee(), rows=90)
    card.save(tmp_path / "card.json")
    second = fit(wine[90:], basis=str(tmp_path / "card.json"), b=0.7)
    other = fit(wine[90:], components=5)
    assert second.guarantee().kind == EMPIRICAL, "a learned basis stays learned, whoever uses it"
    assert any("another release" in item for item in second.learned())
    claimed = fit(wine[90:], basis=str(tmp_path / "card.json"), basis_reason="I say so")
    assert claimed.guarantee().kind == EMPIRICAL
    assert np.array_equal(second.embed(wine), first.embed(wine))
    assert space_of(encoding, second.recipe_.map.to_dict()) == card.space
    assert space_of(encoding, other.recipe_.map.to_dict()) != card.space
    (tmp_path / "matrix.json").write_text(json.dumps(first.matrix_.tolist()))
    assert np.array_equal(fit(wine, basis=str(tmp_path / "matrix.json")).matrix_, first.matrix_)


def test_constant_columns_and_one_column(wine):
    flat = np.c_[np.full(178, 0.5), wine[:, :1]]
    for bounds in ("public", "data"):
        fitted = PrincipalLaplace(components=2, component_bounds=bounds).fit(flat, encoding=domain("cn"))
        released = fitted.perturb(flat, None, Streams.seeded(0).generator(0)).X
        assert np.isfinite(released).all()
        assert fitted.guarantee().record == pytest.approx(1 / 0.3, rel=1e-6)
    one = fit(wine[:, :1])
    assert one.matrix_ == pytest.approx(np.ones((1, 1)))
    assert one.guarantee().record == pytest.approx(1 / 0.3, rel=1e-6)


def test_restoring_undoes_a_whole_basis(wine):
    fitted = fit(wine, components=13)
    assert fitted.restore(fitted.embed(wine)) == pytest.approx(wine, abs=1e-9)


def test_fractions_and_counts_of_components(wine):
    assert [len(fit(wine, components=c).matrix_) for c in (1, 13, 0.5, 1.0, 0.01, np.int64(3))] == [1, 13, 7, 13, 1, 3]
    assert len(fit(wine).matrix_) == 7
    assert len(fit(wine, basis="identity").matrix_) == 13


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"b": 0}, "b"),
        ({"b": -0.3}, "b"),
        ({"b": float("nan")}, "b"),
        ({"b": float("inf")}, "b"),
        ({"b": "0.3"}, "b"),
        ({"b": True}, "b"),
        ({"epsilon_record": 0}, "epsilon_record"),
        ({"epsilon_record": 1e-13}, "epsilon_record"),
        ({"components": 14}, "components"),
        ({"components": 0}, "components"),
        ({"components": -1}, "components"),
        ({"components": 1.5}, "components"),
        ({"components": "half"}, "components"),
        ({"component_bounds": "secret"}, "component_bounds"),
        ({"noise": "none"}, "noise"),
        ({"basis": "there/is/no/such/file.json"}, "basis"),
        ({"basis": [[1.0, 2.0]]}, "basis"),
        ({"basis": np.full((2, 13), np.nan)}, "basis"),
        ({"basis": [["a"] * 13]}, "basis"),
        ({"basis": np.ones((3, 13)), "components": 4}, "components"),
    ],
    ids=str,
)
def test_wrong_parameters_are_refused_in_one_shape(wine, parameters, name):
    with pytest.raises(UsageError, match=rf"The '{name}' parameter of principal-laplace must be"):
        fit(wine, **parameters)


def test_noise_too_small_for_the_grid_is_refused_instead_of_overflowing(wine):
    with pytest.raises(UsageError, match="more noise"):
        fit(wine, b=1e-20)
    assert np.abs(fit(wine, b=1e-9).release(wine, encoding=Encoding.unit(13)).X).max() < 10


@pytest.mark.parametrize("wrong", [1.001, -0.001, np.nan, np.inf])
def test_rows_that_the_guarantee_does_not_cover_are_refused(wine, wrong):
    X = wine.copy()
    X[3, 5] = wrong
    with pytest.raises(TableError, match="must lie between 0 and 1"):
        fit(X)


def test_one_row_and_the_wrong_width_are_refused(wine):
    with pytest.raises(TableError, match="fewer than two rows"):
        fit(wine[:1])
    with pytest.raises(TableError, match="13 encoded columns, but the encoding has 12"):
        PrincipalLaplace().fit(wine, encoding=Encoding.unit(12))
    with pytest.raises(TableError):
        PrincipalLaplace().fit(wine[0])


def test_clone_and_parameters(wine):
    basis = np.eye(13)[:2]
    mechanism = PrincipalLaplace(b=0.7, basis=basis, epsilon_record=2.0)
    copy = clone(mechanism)
    assert copy.get_params()["b"] == 0.7
    assert np.array_equal(copy.get_params()["basis"], basis)
    fitted = copy.fit(wine, encoding=Encoding.unit(13))
    assert fitted.b == 0.7  # parameters stay as given; what was derived ends in _
    assert fitted.parameters_used()["b"] == fitted.b_ != 0.7


def test_the_statistics_of_a_fit_are_all_it_needs(wine):
    encoding = Encoding.unit(13, public=True)
    fitted = PrincipalLaplace().fit_statistics(Statistics.of(wine), encoding)
    assert fitted.matrix_ == pytest.approx(fit(wine).matrix_, abs=1e-12)
