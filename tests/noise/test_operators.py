"""Operators: the law of z given x against draws, numerical integration, and operators that are wrong."""

import numpy as np
import pytest
from scipy import integrate, stats

from sfumato.channels import Carried, Channel
from sfumato.core.errors import UsageError
from sfumato.noise import Operator, OperatorNoise, make_law, make_operator
from sfumato.noise.operators import Branch

UNIFORM = make_law("uniform", low=-1, high=1)
NOISES = {
    "multiplicative": (OperatorNoise(make_operator("multiplicative"), make_law("uniform", low=1, high=3)), (2, 5)),
    "relative": (
        OperatorNoise(make_operator("multiplicative", {"base": 1.0}), make_law("normal", scale=0.3)),
        (-4, -1),
    ),
    "additive": (OperatorNoise(make_operator("additive"), make_law("laplace", scale=0.5)), (-1, 2)),
    "quartic": (OperatorNoise(make_operator("quartic"), UNIFORM), (0.3, 2)),
    "quartic of negative values": (OperatorNoise(make_operator("quartic"), UNIFORM), (-2, -0.3)),
    "quartic of normal noise": (OperatorNoise(make_operator("quartic"), make_law("normal", scale=1.0)), (0.3, 2)),
}


@pytest.fixture(params=NOISES, ids=str)
def case(request):
    return NOISES[request.param]


def test_draws_follow_the_stated_law_and_no_other(case):
    noise, (low, high) = case
    noise.check(low, high)
    rng = np.random.default_rng(1)
    for x in np.linspace(low, high, 3):
        z = noise.sample(np.full(20_000, x), rng)
        assert stats.kstest(z, lambda t, x=x: noise.cdf(t, x)).pvalue > 1e-5
        assert stats.kstest(z, lambda t, x=x: noise.stretched(1.3).cdf(t, x)).pvalue < 1e-20
        least, most = noise.span(np.array([x]))
        assert z.min() >= least[0] - 1e-12
        assert z.max() <= most[0] + 1e-12


def test_density_is_the_derivative_of_the_distribution(case):
    noise, (low, high) = case
    x = 0.5 * (low + high)
    z = noise.sample(np.full(40, x), np.random.default_rng(2))
    step = 1e-6
    slope = (noise.cdf(z + step, x) - noise.cdf(z - step, x)) / (2 * step)
    near_a_pole = noise.pdf(z, x) > 30
    np.testing.assert_allclose(noise.pdf(z, x)[~near_a_pole], slope[~near_a_pole], rtol=2e-3, atol=2e-6)


def test_where_the_quartic_turns_its_density_is_singular_but_integrates_to_one():
    noise, x = NOISES["quartic"][0], 1.5
    turn = -((4 * x) ** (-1 / 3))
    bottom = x * turn + x**2 * turn**4
    assert noise.pdf(bottom + 1e-9, x) > 1e3
    assert noise.pdf(bottom - 1e-9, x) == 0
    ends = [x * e + x**2 * e**4 for e in (-1, 1)]  # both branches up to the first, one above
    total = integrate.quad(lambda t: 2 * t * noise.pdf(bottom + t * t, x), 0, np.sqrt(ends[0] - bottom))[0]
    total += integrate.quad(lambda z: noise.pdf(z, x), ends[0], ends[1])[0]
    assert total == pytest.approx(1, abs=1e-4)
    assert noise.cdf(bottom, x) == pytest.approx(0, abs=1e-7)  # a double root has half the digits
    assert noise.cdf(ends[1], x) == 1


def test_the_published_jacobian_is_refused():
    """Theorem 1 prints |dE/dx|, which for E = z / x is z / x^2 instead of 1 / x."""
    wrong = Operator.of(lambda e, x: e * x, lambda z, x: z / x, lambda z, x: z / x**2)
    with pytest.raises(UsageError, match="derivative by z"):
        OperatorNoise(wrong, make_law("uniform", low=1, high=3)).check(2, 5)


def test_an_inverse_that_does_not_match_is_refused():
    wrong = Operator.of(lambda e, x: e * x, lambda z, x: z - x, lambda z, x: 0 * z + 1 + 0 * x)
    with pytest.raises(UsageError, match="does not match its forward map"):
        OperatorNoise(wrong, make_law("uniform", low=1, high=3)).check(2, 5)


def test_a_map_that_is_not_one_to_one_needs_its_branches():
    square = Operator.of(lambda e, x: x + e**2, lambda z, x: np.sqrt(z - x), lambda z, x: 0.5 / np.sqrt(z - x))
    with pytest.raises(UsageError, match="declare a branch for each"):
        OperatorNoise(square, UNIFORM).check(1, 2)
    half = Branch(lambda z, x: np.sqrt(z - x), lambda z, x: 0.5 / np.sqrt(z - x), low=lambda x: 0 * x)
    with pytest.raises(UsageError, match="do not cover"):
        OperatorNoise(Operator("custom", square.forward, (half,)), UNIFORM).check(1, 2)
    other = Branch(lambda z, x: -np.sqrt(z - x), lambda z, x: 0.5 / np.sqrt(z - x), high=lambda x: 0 * x)
    whole = OperatorNoise(Operator("custom", square.forward, (half, other)), UNIFORM)
    whole.check(1, 2)
    z = whole.sample(np.full(20_000, 1.5), np.random.default_rng(0))
    assert stats.kstest(z, lambda t: whole.cdf(t, 1.5)).pvalue > 1e-5


def _ones(z, x):
    return np.ones_like(z - x)


def _shifted(**changes):
    """z = x + e with something wrong about it."""
    parts = {
        "forward": lambda e, x: x + e,
        "inverse": lambda z, x: z - x,
        "derivative": _ones,
        "low": None,
        "high": None,
    }
    parts |= changes
    branch = Branch(parts["inverse"], parts["derivative"], parts["low"], parts["high"])
    return Operator("custom", parts["forward"], (branch,))


def _root(z, x):
    return np.sqrt(z / x)


WRONG = {
    "two branches for the same noise": (
        Operator("custom", lambda e, x: x + e, (Branch(lambda z, x: z - x, _ones),) * 2),
        UNIFORM,
        "overlap",
    ),
    "a turning point in the last percent of the noise": (
        Operator.of(lambda e, x: x * e**2, _root, lambda z, x: 0.5 / np.sqrt(z * x)),
        make_law("uniform", low=-0.01, high=1),
        "does not match",
    ),
    "a branch that leaves out the last percent": (_shifted(high=lambda x: 0 * x + 0.98), UNIFORM, "do not cover"),
    "a branch that leaves out some values": (
        _shifted(low=lambda x: np.where((x > 2) & (x < 2.4), 9.0, -9.0)),
        UNIFORM,
        "do not cover",
    ),
    "an inverse that is wrong for some values": (
        _shifted(inverse=lambda z, x: z - x + 0.1 * ((x > 2) & (x < 2.4))),
        UNIFORM,
        "does not match",
    ),
    "a derivative that is off by half a percent": (
        _shifted(derivative=lambda z, x: 1.005 * _ones(z, x)),
        UNIFORM,
        "derivative by z",
    ),
    "a derivative that is wrong where the map is flat": (
        Operator.of(lambda e, x: x**8 * e, lambda z, x: z / x**8, lambda z, x: (1 + (x < 2)) / x**8 + 0 * z),
        UNIFORM,
        "derivative by z",
    ),
    "a jump that goes back": (
        _shifted(
            forward=lambda e, x: x + e - 9.0 * (e > 0.1), inverse=lambda z, x: np.where(z - x < -1.5, z - x + 9, z - x)
        ),
        UNIFORM,
        "rises and falls",
    ),
    "values that are not numbers": (
        Operator.of(lambda e, x: x * np.log(e), lambda z, x: np.exp(z / x), lambda z, x: np.exp(z / x) / x),
        make_law("uniform", low=-0.01, high=1),
        "not numbers",
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_only_in_places_is_refused_too(name):
    operator, law, says = WRONG[name]
    with pytest.raises(UsageError, match=says):
        OperatorNoise(operator, law).check(1, 5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(20))
def test_sound_operators_pass_wherever_their_values_lie(seed):
    """Ranges of all sizes, also where the digits of z hold little of e."""
    rng = np.random.default_rng(seed)
    low = 10.0 ** rng.uniform(-4, 9)
    high = low * (1 + 10.0 ** rng.uniform(-3, 3))
    for operator in ("additive", "multiplicative", "quartic"):
        for law in (UNIFORM, make_law("uniform", low=1e-3, high=3), make_law("student-t", scale=1e-2, df=1)):
            OperatorNoise(make_operator(operator), law).check(low, high)
    jump = _shifted(
        forward=lambda e, x: x + e + 5 * (e > 0), inverse=lambda z, x: np.where(z - x > 2, z - x - 5, z - x)
    )
    OperatorNoise(jump, UNIFORM).check(0, 5)


@pytest.mark.parametrize("span", [(-1, 1), (0, 1), (-1, 0)])
def test_zero_is_refused_where_it_would_stay_zero(span):
    with pytest.raises(UsageError, match="does not protect a 0"):
        NOISES["multiplicative"][0].check(*span)
    NOISES["additive"][0].check(*span)


def test_cards_hold_operator_and_law(case):
    noise, (low, high) = case
    back = Channel.from_dict(Carried.of(noise, low, high - low).to_dict()).raw_noise(1.0)
    x = np.linspace(low, high, 5)
    z = noise.sample(x, np.random.default_rng(0))
    np.testing.assert_array_equal(back.cdf(z, x), noise.cdf(z, x))


def test_operators_that_do_not_exist_are_refused():
    with pytest.raises(UsageError, match="no operator 'cubic'"):
        make_operator("cubic")
    with pytest.raises(UsageError, match="Give it in Python"):
        make_operator("custom")
    with pytest.raises(UsageError, match="no such parameters"):
        make_operator("additive", {"base": 1.0})
    with pytest.raises(UsageError, match="finite number"):
        make_operator("multiplicative", {"base": float("nan")})
