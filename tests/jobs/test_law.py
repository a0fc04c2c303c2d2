"""`sfumato law` and `sf.law`: Theorem 4 for names, expressions and functions; bounds against closed forms."""

import json
import math
import re

import numpy as np
import pytest
from scipy import stats

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import UsageError


@pytest.mark.parametrize(
    ("law", "parameters", "epsilon"),
    [
        ("laplace", {"scale": 0.25}, 4.0),
        ("exp(-abs(x) / 0.3)", {}, 1 / 0.3),
        ("7 * exp(-abs(x - 2) / 0.3)", {}, 1 / 0.3),
        ("logistic", {"scale": 0.5}, 2.0),
        ("1 / cosh(x)", {}, 1.0),
        # Cauchy's law is Student's t with one degree of freedom: 2 asinh(w / (2 s))
        ("1 / (1 + x^2)", {}, 2 * math.asinh(0.5)),
        ("cauchy", {"scale": 0.2}, 2 * math.asinh(2.5)),
        ("student-t", {"scale": 0.2, "df": 3}, 4 * math.asinh(1 / (2 * 0.2 * math.sqrt(3)))),
        ("(1 + x^2 / 3)^-2", {}, 4 * math.asinh(1 / (2 * math.sqrt(3)))),
        ("exp(-sqrt(abs(x)))", {}, 1.0),
    ],
)
def test_bounds_are_those_of_closed_forms(law, parameters, epsilon):
    found = sf.law(law, parameters=parameters)
    assert found.verdict == "bounded"
    assert found.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert found.reason is None
    gamma = math.exp(epsilon)
    assert found.posterior(0.1) == pytest.approx(gamma * 0.1 / (1 + (gamma - 1) * 0.1), rel=1e-5)


def test_the_bound_is_the_largest_ratio_that_a_search_finds():
    """Brute force over a grid of an expression without a closed form."""
    found = sf.law("1 / (1 + x^4)", width=1.5)
    x = np.linspace(-6, 6, 2401)
    delta = np.linspace(-1.5, 1.5, 601)
    ratio = np.log1p((x[:, None] - delta) ** 4) - np.log1p(x[:, None] ** 4)
    assert found.epsilon == pytest.approx(ratio.max(), rel=1e-4)


@pytest.mark.parametrize(
    ("law", "parameters", "why"),
    [
        ("normal", {}, "Tail ratio bounded: fails"),
        ("exp(-x^2 / 2)", {}, "Tail ratio bounded: fails"),
        ("uniform", {}, "Infinite support: fails"),
        ("where(abs(x) < 1, 1, 0)", {}, "Infinite support: fails"),
        ("dweibull", {"c": 0.5}, "Locally bounded: fails"),
        ("exp(-abs(x)) / sqrt(abs(x))", {}, "Locally bounded: fails"),
        ("x^2 * exp(-abs(x))", {}, "No zeros: fails"),
    ],
)
def test_where_there_is_no_bound_the_reason_is_told(law, parameters, why):
    found = sf.law(law, parameters=parameters)
    assert found.verdict == "unbounded"
    assert found.epsilon is None
    assert found.reason.startswith(why)
    assert why in found.in_words()


def test_objects_are_taken_as_well():
    assert sf.law(stats.laplace(scale=0.5)).epsilon == pytest.approx(2.0, rel=1e-6)
    assert sf.law(lambda z: np.exp(-np.abs(z))).epsilon == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("law", "more", "says"),
    [
        ("oracle", {}, "There is no law 'oracle'. Choose one of laplace"),
        ("laplace", {"parameters": {"df": 3}}, "The law laplace has no parameter 'df'. It has: scale."),
        ("laplace", {"parameters": {"scale": -1}}, "scale"),
        ("dweibull", {}, "needs the parameter 'c': --param c=NUMBER"),
        ("dweibull", {"parameters": {"c": -1}}, "does not exist with these parameters"),
        ("poisson", {"parameters": {"mu": 3}}, "There is no law 'poisson'"),
        ("exp(-abs(y))", {}, "no variable 'y'"),
        ("exp(-abs(x))", {"parameters": {"scale": 2}}, "write the numbers into it"),
        ("1 / (1 + abs(x))", {}, "no density"),
        ("1", {}, "no density"),
        ("x * exp(-abs(x))", {}, "no density"),
        ("laplace", {"width": 0}, "width must be a positive number"),
    ],
)
def test_what_is_no_law_is_refused_with_a_sentence(law, more, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        sf.law(law, **more)


def test_on_the_command_line(capsys):
    assert run_guarded(app, ["law", "--log", "--json", "--", "-abs(x) / 0.5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["epsilon"] == pytest.approx(2.0, rel=1e-6)
    assert found["beliefs"]["0.1"] == pytest.approx(math.exp(2) * 0.1 / (1 + (math.exp(2) - 1) * 0.1), rel=1e-6)
    assert run_guarded(app, ["law", "normal"]) == 0
    out = capsys.readouterr().out
    assert "no worst-case guarantee rests on this noise" in out
    assert "keeps growing towards" in out


def test_a_prior_of_ones_own_gives_figure_6b(capsys):
    """rho_2 for rho_1 = .001 at b = .3: at most 2.8% in print."""
    words = ["law", "laplace", "--param", "scale=0.3", "--prior", "0.001"]
    assert run_guarded(app, [*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["beliefs"] == {"0.001": pytest.approx(0.0273, abs=1e-4)}
    assert run_guarded(app, words) == 0
    assert "0.1% to at most 2.73%" in capsys.readouterr().out
    assert run_guarded(app, [*words[:-1], "1.5"]) == 2
