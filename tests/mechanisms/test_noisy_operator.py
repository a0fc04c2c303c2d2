"""Noise carried by operators: raw units, what stands on the card, and what is refused."""

import json

import numpy as np
import pytest

from sfumato.channels import NotApplicableError
from sfumato.core.errors import UsageError
from sfumato.guarantee import Card
from sfumato.mechanisms import AdditiveNoise, MultiplicativeNoise, NoisyOperator
from sfumato.noise import Operator
from sfumato.release.write_release import Layout, make_card
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "known"}


def encoding(low=20, high=120, **more):
    return Encoding(Schema((Column("income", "numeric", low=low, high=high, **PUBLIC, **more),)))


def released(mechanism, domain, rows=50_000, seed=0):
    """Raw source values and raw released ones."""
    rng = np.random.default_rng(seed)
    X = rng.random((rows, 1))
    Z = mechanism.fit(X, encoding=domain).perturb(X, None, rng).X
    return tuple(np.asarray(domain.decode(M)["income"]) for M in (X, Z))


def card_of(mechanism):
    stated = make_card(Layout(mechanism, mechanism.encoding_), mechanism.guarantee(), rows=10)
    return Card.from_dict(json.loads(stated.to_json()))


def test_the_factor_of_the_paper_is_uniform_in_raw_units():
    x, z = released(MultiplicativeNoise(low=1, high=3), encoding())
    factor = z / x
    assert factor.min() > 1
    assert factor.max() < 3
    assert np.histogram(factor, 4, (1, 3))[0] == pytest.approx(np.full(4, 12_500), rel=0.03)
    assert abs(np.corrcoef(factor, x)[0, 1]) < 0.02


def test_a_scale_is_the_relative_error_of_the_factor_one():
    x, z = released(MultiplicativeNoise("normal", scale=0.2), encoding())
    assert np.mean(z / x) == pytest.approx(1, abs=0.005)
    assert np.std(z / x) == pytest.approx(0.2, rel=0.02)


def test_the_additive_operator_is_additive_noise_in_raw_units():
    domain = encoding()
    ours = NoisyOperator("additive", "normal", scale=30.0).fit(np.array([[0.5]]), encoding=domain)
    theirs = AdditiveNoise("normal", scale=0.3).fit(np.array([[0.5]]), encoding=domain)
    assert ours.recipe_.channels[0].law.scale == pytest.approx(theirs.recipe_.channels[0].law.scale)
    (stated,) = card_of(ours).made_by().channels
    assert stated.adds
    assert stated.law.scale == pytest.approx(0.3)
    assert stated.raw_noise(100.0).law.scale == pytest.approx(30)


def test_the_card_names_operator_and_law_and_claims_no_additive_noise():
    mechanism = MultiplicativeNoise(low=1, high=3).fit(np.array([[0.5]]), encoding=encoding())
    card = card_of(mechanism)
    (told,) = card.recipe["channels"]
    assert (told["channel"], told["operator"]) == ("carried", "multiplicative")
    assert (told["noise"]["low"], told["noise"]["high"]) == (1, 3)
    (channel,) = card.made_by().channels
    assert not channel.adds
    assert channel.added_moments == (0.0, 0.0)
    stated = channel.raw_noise(100.0)
    assert stated.law.support == (1, 3)
    assert stated.operator.parameters == {"base": 0.0}
    assert "certainty" in card.guarantee["words"]
    assert card.guarantee["kind"] == "empirical-only"


def test_queries_lie_where_the_release_lies_on_average():
    domain = encoding()
    mechanism = MultiplicativeNoise(low=1, high=3)
    X = np.full((40_000, 1), 0.4)
    Z = mechanism.fit(X, encoding=domain).perturb(X, None, np.random.default_rng(0)).X
    assert Z.mean() == pytest.approx(mechanism.embed(X)[0, 0], abs=0.01)
    line = card_of(mechanism).made_by().channels[0].line(np.random.default_rng(1).random((500, 1)))
    np.testing.assert_allclose(X @ line.gain.T + line.offset, mechanism.embed(X))
    slope, offset = card_of(mechanism).made_by().channels[0].mean_line()
    np.testing.assert_allclose(slope * X + offset, mechanism.embed(X))
    np.testing.assert_allclose(mechanism.restore(mechanism.embed(X)), X)


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-3, 3), (-3, 0)])
def test_a_range_with_zero_is_refused_with_advice(low, high):
    with pytest.raises(UsageError, match=r"'income'.*can be 0.*additive-noise"):
        MultiplicativeNoise().fit(np.array([[0.5]]), encoding=encoding(low, high))


def test_an_operator_of_your_own_works_from_python_and_is_called_custom():
    power = Operator.of(lambda e, x: x**e, lambda z, x: np.log(z) / np.log(x), lambda z, x: 1 / (z * np.log(x)))
    mechanism = NoisyOperator(power, "uniform", low=0.5, high=1.5).fit(np.array([[0.5]]), encoding=encoding())
    card = card_of(mechanism)
    assert card.mechanism["parameters"]["operator"] == "custom"
    (channel,) = card.made_by().channels
    assert not channel.is_stated
    for asked in (lambda: channel.raw_noise(100.0), lambda: channel.log_likelihood(np.ones((1, 1)), np.ones((1, 1)))):
        with pytest.raises(NotApplicableError, match="the owner's own"):
            asked()
    (known,) = card.made_by().knowing(power).channels
    assert known.is_stated
    assert known.raw_noise(100.0).operator is power
    wrong = Operator.of(power.forward, lambda z, x: z / x, power.branches[0].derivative)
    with pytest.raises(UsageError, match="does not match"):
        NoisyOperator(wrong, "uniform", low=0.5, high=1.5).fit(np.array([[0.5]]), encoding=encoding())


def test_parameters_that_make_no_sense_are_refused():
    domain, X = encoding(), np.array([[0.5]])
    with pytest.raises(UsageError, match="no operator"):
        NoisyOperator("cubic").fit(X, encoding=domain)
    with pytest.raises(UsageError, match="'law' parameter"):
        MultiplicativeNoise("cauchy").fit(X, encoding=domain)
    with pytest.raises(UsageError, match="'high' parameter"):
        MultiplicativeNoise(low=3, high=1).fit(X, encoding=domain)
    with pytest.raises(UsageError, match="category_epsilon"):
        MultiplicativeNoise(category_epsilon=0).fit(X, encoding=domain)
