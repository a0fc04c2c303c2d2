"""Noise column by column: raw units on release, every law, categories and empty cells with it."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from domains import PUBLIC, any_records, domain
from sfumato.core.errors import UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP
from sfumato.mechanisms import AdditiveNoise
from sfumato.noise import Streams
from sfumato.release.write_release import Layout
from sfumato.table import Column, Encoding, Schema

ROWS = 40_000


def fit(mechanism, shape, rows=50):
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(0), rows)
    return mechanism.fit(X, encoding=encoding), X


def test_a_release_has_the_sources_columns_in_raw_units():
    """Age 40 on a range of 120 years with b = .1: the released age is 40 with Laplace noise of 12 years."""
    age = Column("age", "integer", low=0, high=120, **PUBLIC)
    height = Column("height", "numeric", low=1.0, high=3.0, **PUBLIC)
    encoding = Encoding(Schema((age, height)))
    X = np.tile([40 / 120, 0.35], (ROWS, 1))
    fitted = AdditiveNoise(scale=0.1).fit(X, encoding=encoding)
    table = Layout(fitted, encoding).table(fitted.perturb(X, None, Streams.seeded(0).generator(0)).X, None)
    assert table.column_names == ["age", "height"]
    assert stats.kstest(table["age"].to_numpy() - 40, stats.laplace(scale=12).cdf).pvalue > 1e-6
    assert stats.kstest(table["height"].to_numpy() - 1.7, stats.laplace(scale=0.2).cdf).pvalue > 1e-6
    assert [column["units"] for column in Layout(fitted, encoding).columns()] == ["source", "source"]
    raw = [channel.raw_noise(width) for channel, width in zip(fitted.recipe_.channels, (120, 2), strict=True)]
    assert [noise.law.scale for noise in raw] == pytest.approx([12, 0.2])


def test_uniform_noise_by_range_in_raw_units():
    fitted, _ = fit(AdditiveNoise("uniform", low=-0.25, high=0.5), "n")
    (channel,) = fitted.recipe_.channels
    assert channel.raw_noise(8.0).law.support == (-2.0, 4.0)
    used = fitted.parameters_used()
    assert (used["low"], used["high"], used["df"]) == (-0.25, 0.5, None)
    X = np.full((5_000, 1), 0.5)
    added = fitted.perturb(X, None, Streams.seeded(1).generator(0)).X - X
    assert -0.25 <= added.min() < -0.24
    assert 0.49 < added.max() <= 0.5


@pytest.mark.parametrize(
    ("law", "bounded"), [("laplace", True), ("student-t", True), ("normal", False), ("uniform", False)]
)
def test_theorem_4_laplace_and_student_bound_normal_and_uniform_do_not(law, bounded):
    fitted, _ = fit(AdditiveNoise(law, scale=0.5), "nn3")
    stated = fitted.guarantee()
    assert math.isfinite(stated.record) == bounded
    assert stated.kind == (LOCAL_DP if law == "laplace" else EMPIRICAL)
    assert ("Theorem 4" in stated.sentence) != bounded


def test_categories_alone_are_formal_whatever_the_law():
    fitted, _ = fit(AdditiveNoise("normal"), "23?")
    assert fitted.recipe_.path == "exact-response"
    assert fitted.guarantee().kind == LOCAL_DP
    assert fitted.guarantee().sentence == ""


def test_epsilon_of_every_kind_of_column():
    """1/b for a number and a category; to "missing" it is half a range and the answer; constants say nothing."""
    b = 0.5
    expected = {"n": 2, "i": 2, "o": 2, "3": 2, "?": 2, "m": 1 + 2, "c": 0, "1": 0, "e": 2}
    for letter, epsilon in expected.items():
        stated = fit(AdditiveNoise(scale=b), letter)[0].guarantee()
        assert stated.record == pytest.approx(epsilon, abs=1e-9), letter
        assert stated.column == stated.record
    together = fit(AdditiveNoise(scale=b), "".join(expected))[0].guarantee()
    assert together.record == pytest.approx(sum(expected.values()))
    assert together.column == pytest.approx(3)
    assert together.component == pytest.approx(2)
    weak = fit(AdditiveNoise(scale=b, category_epsilon=0.1), "m")[0].guarantee()
    assert weak.record == pytest.approx(2)  # from one end to the other is then the furthest


def test_student_t_has_its_own_epsilon():
    stated = fit(AdditiveNoise("student-t", 0.5, df=4), "nn")[0].guarantee()
    assert stated.component == pytest.approx(5 * math.asinh(1 / (2 * 0.5 * 2)))
    assert stated.record == pytest.approx(2 * stated.component)


def test_a_missing_cell_is_noised_at_the_middle_and_shown_as_the_answer_says():
    fitted, _ = fit(AdditiveNoise(scale=0.5), "m")
    X = np.tile([0.5, 1.0], (ROWS, 1))
    Z = fitted.perturb(X, None, Streams.seeded(2).generator(0)).X
    (channel,) = fitted.recipe_.channels
    keep = channel.kept
    assert keep == pytest.approx(1 / (1 + math.exp(-2)))
    shown_missing = int(Z[:, 1].sum())
    assert stats.binomtest(shown_missing, ROWS, keep).pvalue > 1e-6
    assert stats.binomtest(shown_missing, ROWS, 1 - (1 - keep) / 1.3).pvalue < 1e-20
    shown = Z[:, 1] == 0
    assert stats.kstest(Z[shown, 0] - 0.5, stats.laplace(scale=0.5).cdf).pvalue > 1e-6
    assert stats.kstest(Z[shown, 0] - 0.5, stats.laplace(scale=0.65).cdf).pvalue < 1e-12
    assert set(Z[~shown, 0]) == {0.5}  # what is reported missing has no number
    table = Layout(fitted, fitted.encoding_).table(Z, None)
    assert table.column(0).null_count == shown_missing


def test_values_outside_are_clipped_before_noise():
    """Who calls `perturb` with rows of another source gets the guarantee all the same."""
    for noise in ("exact", "float"):
        fitted, _ = fit(AdditiveNoise(scale=0.01, noise=noise), "n")
        Z = fitted.perturb(np.array([[50.0], [-50.0]]), None, Streams.seeded(2).generator(0)).X
        assert pytest.approx([1, 0], abs=0.3) == Z[:, 0]


def test_constant_columns_come_back_constant():
    fitted, X = fit(AdditiveNoise(), "cne")
    table = Layout(fitted, fitted.encoding_).table(fitted.perturb(X, None, Streams.seeded(2).generator(0)).X, None)
    assert set(table.column(0).to_pylist()) == {3.0}
    assert set(table.column(2).to_pylist()) == {3.0, None}
    assert fitted.recipe_.channels[0].is_exact


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"law": "cauchy"}, "The 'law' parameter of additive-noise must be one of laplace, normal, uniform, student-t"),
        ({"law": "gamma"}, "as gamma(2), or table:FILE. Got 'gamma' instead."),
        ({"scale": 0}, "The 'scale' parameter of additive-noise must be a positive number. Got 0 instead."),
        ({"scale": -1}, "The 'scale' parameter of additive-noise must be a positive number. Got -1 instead."),
        ({"noise": "secure"}, "The 'noise' parameter of additive-noise must be one of exact, float"),
        ({"category_epsilon": 0}, "The 'category_epsilon' parameter of additive-noise must be a positive number"),
        ({"df": 3}, "The 'df' parameter of laplace must be left out"),
        ({"low": 0, "high": 1}, "The 'low' parameter of laplace must be left out"),
        ({"law": "uniform", "low": 1, "high": 0}, "The 'high' parameter of uniform must be above"),
        ({"law": "uniform", "low": 1}, "The 'high' parameter of uniform must be a finite number"),
        ({"law": "uniform", "low": 0, "high": 1, "scale": 3}, "The 'scale' parameter of uniform must be left out"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(UsageError) as caught:
        fit(AdditiveNoise(**parameters), "n")
    assert message in str(caught.value)


def test_clone_keeps_parameters_and_not_the_fit():
    fitted, _ = fit(AdditiveNoise("uniform", low=-1, high=1), "n")
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "law_")
