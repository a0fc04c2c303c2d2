"""Expressions that users type: values against Python's own, derivatives against differences, all else refused."""

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sfumato.core.errors import UsageError
from sfumato.noise.expression import DEEPEST, FUNCTIONS, LONGEST, MOST_NODES, parse_expression

E, X = np.meshgrid(np.array([-0.9, -0.35, 0.2, 0.8]), np.array([0.3, 0.7, 1.83, 4.2]))

SMOOTH = [
    "x * e + x^2 * e^4",
    "x**2 - 3 * x + 2",
    "-x^2",
    "2^-x",
    "x^e^2",
    "(x^e)^2",
    "1 - (e - (x - 2))",
    "8 / (x / 2) / e",
    "exp(-abs(e) / x) / (2 * x)",
    "log(x) + log1p(x * e^2) - sqrt(x) * cbrt(e)",
    "sin(x) * cos(e) + tan(e / 2) - atan(x * e)",
    "sinh(e) / cosh(x) + tanh(x * e)",
    "min(x, e + 1) * max(x, 1 - e)",
    "where(e < 0, -x * e, x * e^2)",
    "x^e",
    "pi * sign(e) + x",
    "1e-3 * x + .5 * e",
]


def by_python(text, e, x):
    """The same text as Python reads it, one pair at a time: an oracle that shares nothing with the parser."""
    names = {name: getattr(math, name) for name in ("exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "atan", "tanh")}
    names |= {"sinh": math.sinh, "cosh": math.cosh, "abs": abs, "min": min, "max": max, "pi": math.pi}
    names |= {"cbrt": np.cbrt, "sign": np.sign, "where": lambda c, a, b: a if c else b, "e": e, "x": x}
    return eval(text.replace("^", "**"), {"__builtins__": {}}, names)


@pytest.mark.parametrize("text", SMOOTH)
def test_values_derivatives_and_text(text):
    read = parse_expression(text, ["e", "x"])
    expected = [[by_python(text, e, x) for e, x in zip(*rows, strict=True)] for rows in zip(E, X, strict=True)]
    assert_allclose(read(E, X), expected, rtol=1e-12)
    step = 1e-6
    assert_allclose(read.derivative("e")(E, X), (read(E + step, X) - read(E - step, X)) / (2 * step), 1e-6, 1e-7)
    assert_allclose(read.derivative("x")(E, X), (read(E, X + step) - read(E, X - step)) / (2 * step), 1e-6, 1e-7)
    again = parse_expression(str(read), ["e", "x"])
    assert_allclose(again(E, X), read(E, X), rtol=0)
    derived = read.derivative("x")
    assert_allclose(parse_expression(str(derived), ["e", "x"])(E, X), derived(E, X), rtol=1e-12)


def test_every_function_is_tried():
    tried = " ".join(SMOOTH)
    assert [name for name in FUNCTIONS if name.isalnum() and f"{name}(" not in tried] == []


def test_a_constant_has_the_shape_of_its_values():
    read = parse_expression("3", ["x"])
    assert_allclose(read(np.zeros((2, 5))), np.full((2, 5), 3.0))
    assert not read.uses("x")
    assert parse_expression("x + 0", ["x"]).uses("x")


def test_outside_the_domain_is_not_a_number_and_no_warning(recwarn):
    assert np.isnan(parse_expression("log(x)", ["x"])(-1.0))
    assert np.isinf(parse_expression("1 / x", ["x"])(0.0))
    assert not recwarn.list


def test_it_can_be_sent_to_a_worker():
    read = parse_expression("exp(-x^2)", ["x"])
    assert pickle.loads(pickle.dumps(read)) == read


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be a text"),
        ("x +", "cannot be read"),
        ("x; x", "cannot be read"),
        ("y + 1", "no variable 'y'"),
        ("exp", "exp is a function"),
        ("exp(x, x)", "takes 1 value"),
        ("gamma(x)", "no function 'gamma'"),
        ("__import__(x)", "no function"),
        ("x.real", "something else"),
        ("x[0]", "something else"),
        ("(lambda: x)()", "something else"),
        ("[x for x in x]", "something else"),
        ("x if x else x", "something else"),
        ("x % 2", "something else"),
        ("x // 2", "something else"),
        ("x < 1 < 2", "something else"),
        ("exp(x=1)", "something else"),
        ("(x := 2)", "something else"),
        ("'x'", "without quotes"),
        ("1j", "plain numbers"),
        ("True", "plain numbers"),
        ("x < 1", "comparison is not a number"),
        ("1 + (x < 1)", "comparison is not a number"),
        ("where(x, 1, 2)", "must be a comparison"),
        ("1e999", "too large for a double"),
        ("9" * 400, "too large for a double"),
        ("x" * (LONGEST + 1), "characters"),
        ("+".join(["x"] * MOST_NODES), "too large"),
        ("sin(" * (DEEPEST + 1) + "x" + ")" * (DEEPEST + 1), "too large"),
        ("-" * (LONGEST - 1) + "x", "too large|cannot be read"),
        ("(" * (LONGEST // 2 - 1) + "x" + ")" * (LONGEST // 2 - 1), "cannot be read"),
    ],
)
def test_all_else_is_refused_with_a_sentence(text, says):
    with pytest.raises(UsageError, match=says):
        parse_expression(text, ["x"])


def test_derivatives_cannot_grow_without_end():
    read = parse_expression("^".join(["x"] * 20), ["x"])

    def again_and_again(one):
        for _ in range(10):
            one = one.derivative("x")

    with pytest.raises(UsageError, match="too large to work with"):
        again_and_again(read)
