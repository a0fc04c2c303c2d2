"""Operators that are typed: derived inverses against samples and integrals, and everything wrong is refused."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.core.errors import CardError, UsageError
from sfumato.guarantee import Card
from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.noise.operators import operator_name

PUBLIC = {"source": "public", "reason": "made up"}
SCHEMA = sf.Schema.from_dict({"columns": [{"name": "pay", "kind": "numeric", "low": 1, "high": 9, **PUBLIC}]})
CASES = (
    ("x*exp(e)", "normal", {"scale": 0.5}, (1.0, 50.0), 1),
    ("x * exp(e); inverse log(z / x)", "normal", {"scale": 0.5}, (1.0, 50.0), 1),
    ("x*(1+e)", "uniform", {"scale": 0.2}, (1.0, 5.0), 1),
    ("x*e + x^2*e^4", "uniform", {"low": -1.0, "high": 1.0}, (0.3, 3.0), 2),
    ("x + sinh(e)", "student-t", {"scale": 1.0, "df": 3.0}, (0.0, 10.0), 1),
    ("x + abs(e)", "normal", {"scale": 1.0}, (0.0, 1.0), 2),
    ("x^e", "uniform", {"low": 0.5, "high": 1.5}, (2.0, 10.0), 1),
)


@pytest.mark.parametrize(("text", "law", "parameters", "ends", "branches"), CASES, ids=[case[0] for case in CASES])
def test_a_derived_operator_is_the_law_of_what_it_draws(text, law, parameters, ends, branches):
    """Shares of 100,000 draws below their own quantiles; the density integrates to differences of the cdf."""
    noise = OperatorNoise(make_operator(text), make_law(law, **parameters))
    noise.check(*ends)
    assert len(noise.operator.branches) == branches
    x, wanted = np.array([ends[0], 0.5 * sum(ends), ends[1]]), np.array([0.1, 0.5, 0.9])
    z = noise.sample(np.tile(x, (100_000, 1)), np.random.default_rng(0))
    told = noise.cdf(np.quantile(z, wanted, axis=0), np.tile(x, (3, 1)))
    assert told == pytest.approx(np.tile(wanted[:, None], 3), abs=0.008)  # five standard errors
    grid = np.linspace(*np.quantile(z[:, 1], [0.3, 0.8]), 4001)
    middle = np.full(grid.shape, x[1])
    between = float(noise.cdf(grid[-1], x[1]) - noise.cdf(grid[0], x[1]))
    assert np.trapezoid(noise.pdf(grid, middle), grid) == pytest.approx(between, rel=2e-3)


def test_a_typed_quartic_is_the_registered_one():
    law = make_law("uniform", low=-1.0, high=1.0)
    z, x = np.meshgrid(np.linspace(-2, 10, 60), np.linspace(0.3, 3, 20))
    typed, named = (OperatorNoise(make_operator(text), law) for text in ("x*e + x^2*e^4", "quartic"))
    assert typed.cdf(z, x) == pytest.approx(named.cdf(z, x), abs=1e-7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x + (x - 5) * e", "leaves some value"),
        ("x*e^3", "can be 0"),
        ("(x + 1) * exp(e); inverse log(z * x)", "does not match"),
        ("(x + 1) * exp(e); inverse log(z / (x + 1)); derivative 1 / (x + 1)", "not .dE/dz."),
        ("x + sin(9 * e)", "turns more than"),
        ("x * x", "does not use e"),
        ("e + 1", "does not use x"),
        ("x + e; derivative 1", "Give `inverse"),
        ("x + e; reverse z - x", "Behind an operator's semicolon"),
        ("x.real + e", "something else"),
        ("subtractive", "There is no operator"),
    ],
)
def test_an_operator_that_is_not_sound_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        OperatorNoise(make_operator(text), make_law("normal", scale=1.0)).check(0.0, 10.0)


def test_what_has_a_name_gets_it():
    assert operator_name("x+e") == "additive"
    assert operator_name("e * x") == "multiplicative"
    assert operator_name("x*exp( e )") == "x * exp(e)"
    assert make_operator("x + e").is_additive


def test_the_card_states_the_expression_and_nothing_else_is_needed():
    """Median 4.5; the released values, times a lognormal factor, have a mean that is a third larger."""
    values = np.random.default_rng(1).gamma(9.0, 0.5, 8_000).clip(1.0, 9.0)
    parameters = {"operator": "x*exp(e)", "law": "normal", "scale": 0.75}
    release = sf.sanitize({"pay": values}, schema=SCHEMA, mechanism="noisy-operator", parameters=parameters, seed=2)
    card = Card.from_dict(release.card.to_dict())
    assert card.mechanism["parameters"]["operator"] == "x * exp(e)"
    assert card.to_dict()["recipe"]["channels"][0]["operator"] == "x * exp(e)"
    released = np.asarray(release.table["pay"])
    assert released.mean() / values.mean() == pytest.approx(np.exp(0.75**2 / 2), rel=0.03)
    found = sf.reconstruct(release, "pay", resamples=0)
    assert found.mean == pytest.approx(values.mean(), rel=0.03)
    assert found.quantiles([0.1, 0.9]) == pytest.approx(np.quantile(values, [0.1, 0.9]), rel=0.12)


def test_a_card_with_a_harmful_operator_is_refused():
    values = np.linspace(1.0, 9.0, 100)
    parameters = {"operator": "x*exp(e)", "law": "normal", "scale": 0.5}
    release = sf.sanitize({"pay": values}, schema=SCHEMA, mechanism="noisy-operator", parameters=parameters, seed=2)
    stated = release.card.to_dict()
    stated["recipe"]["channels"][0]["operator"] = "__import__('os').system('true')"
    with pytest.raises((CardError, UsageError)):
        Card.from_dict(stated).made_by()
