"""The trees that expressions are made of: how they are computed, differentiated and written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.array_types import Floats


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Call:
    """A function or an operator of other nodes."""

    function: str
    arguments: tuple[Node, ...]


Node = Number | Name | Call
Rule = Callable[[tuple[Node, ...], tuple[Node, ...]], Node]


@dataclass(frozen=True)
class Function:
    """`rule(arguments, their derivatives)` is the derivative of the whole: the chain rule is in it."""

    arity: int
    compute: Callable[..., Any]
    rule: Rule


ZERO, ONE = Number(0.0), Number(1.0)


def plus(a: Node, b: Node) -> Node:
    return b if a == ZERO else a if b == ZERO else Call("+", (a, b))


def minus(a: Node, b: Node) -> Node:
    return a if b == ZERO else Call("-", (a, b))


def times(a: Node, b: Node) -> Node:
    if ZERO in (a, b):
        return ZERO
    return b if a == ONE else a if b == ONE else Call("*", (a, b))


def over(a: Node, b: Node) -> Node:
    return ZERO if a == ZERO else a if b == ONE else Call("/", (a, b))


def power(a: Node, b: Node) -> Node:
    return a if b == ONE else ONE if b == ZERO else Call("^", (a, b))


def apply(function: str, *arguments: Node) -> Node:
    return Call(function, arguments)


def choose(condition: Node, then: Node, otherwise: Node) -> Node:
    return then if then == otherwise else Call("where", (condition, then, otherwise))


def _power_rule(a: tuple[Node, ...], d: tuple[Node, ...]) -> Node:
    """u^v: v u^(v-1) u' where v does not vary, else u^v (v' log u + v u' / u)."""
    base, exponent = a
    if d[1] == ZERO:
        less = Number(exponent.value - 1.0) if isinstance(exponent, Number) else minus(exponent, ONE)
        return times(times(exponent, power(base, less)), d[0])
    rate = plus(times(d[1], apply("log", base)), over(times(exponent, d[0]), base))
    return times(power(base, exponent), rate)


def _quotient_rule(a: tuple[Node, ...], d: tuple[Node, ...]) -> Node:
    if d[1] == ZERO:
        return over(d[0], a[1])
    return over(minus(times(d[0], a[1]), times(a[0], d[1])), power(a[1], Number(2.0)))


def _of_one(slope: Callable[[Node], Node]) -> Rule:
    """The chain rule of a function of one value whose derivative is `slope`."""
    return lambda a, d: ZERO if d[0] == ZERO else times(slope(a[0]), d[0])


def _flat(*_: tuple[Node, ...]) -> Node:
    return ZERO


def _tan_slope(u: Node) -> Node:
    return over(ONE, power(apply("cos", u), Number(2.0)))


def _root_slope(u: Node) -> Node:
    return over(Number(0.5), apply("sqrt", u))


def _cube_root_slope(u: Node) -> Node:
    return over(ONE, times(Number(3.0), power(apply("cbrt", u), Number(2.0))))


def _tanh_slope(u: Node) -> Node:
    return minus(ONE, power(apply("tanh", u), Number(2.0)))


FUNCTIONS: Mapping[str, Function] = {
    "+": Function(2, np.add, lambda _, d: plus(*d)),
    "-": Function(2, np.subtract, lambda _, d: minus(*d)),
    "*": Function(2, np.multiply, lambda a, d: plus(times(d[0], a[1]), times(a[0], d[1]))),
    "/": Function(2, np.divide, _quotient_rule),
    "^": Function(2, np.power, _power_rule),
    "<": Function(2, np.less, _flat),
    "<=": Function(2, np.less_equal, _flat),
    ">": Function(2, np.greater, _flat),
    ">=": Function(2, np.greater_equal, _flat),
    "exp": Function(1, np.exp, _of_one(lambda u: apply("exp", u))),
    "log": Function(1, np.log, _of_one(lambda u: over(ONE, u))),
    "log1p": Function(1, np.log1p, _of_one(lambda u: over(ONE, plus(ONE, u)))),
    "sqrt": Function(1, np.sqrt, _of_one(_root_slope)),
    "cbrt": Function(1, np.cbrt, _of_one(_cube_root_slope)),
    "abs": Function(1, np.abs, _of_one(lambda u: apply("sign", u))),
    "sign": Function(1, np.sign, _flat),
    "sin": Function(1, np.sin, _of_one(lambda u: apply("cos", u))),
    "cos": Function(1, np.cos, _of_one(lambda u: times(Number(-1.0), apply("sin", u)))),
    "tan": Function(1, np.tan, _of_one(_tan_slope)),
    "atan": Function(1, np.arctan, _of_one(lambda u: over(ONE, plus(ONE, power(u, Number(2.0)))))),
    "sinh": Function(1, np.sinh, _of_one(lambda u: apply("cosh", u))),
    "cosh": Function(1, np.cosh, _of_one(lambda u: apply("sinh", u))),
    "tanh": Function(1, np.tanh, _of_one(_tanh_slope)),
    "min": Function(2, np.minimum, lambda a, d: choose(apply("<=", *a), *d)),
    "max": Function(2, np.maximum, lambda a, d: choose(apply(">=", *a), *d)),
    "where": Function(3, np.where, lambda a, d: choose(a[0], d[1], d[2])),
}


def evaluate(node: Node, values: Mapping[str, Floats]) -> Any:
    """The value of a node, for arrays that stand for its names."""
    if isinstance(node, Number):
        return np.float64(node.value)
    if isinstance(node, Name):
        return values[node.name]
    return FUNCTIONS[node.function].compute(*(evaluate(one, values) for one in node.arguments))


def derive(node: Node, name: str) -> Node:
    """The derivative of a node by one name."""
    if isinstance(node, Number):
        return ZERO
    if isinstance(node, Name):
        return ONE if node.name == name else ZERO
    return FUNCTIONS[node.function].rule(node.arguments, tuple(derive(one, name) for one in node.arguments))


def logarithm(node: Node) -> Node:
    """log of a node, taken apart as far as rules go: log(exp(u)) is u also where exp(u) is too small for a double."""
    if isinstance(node, Number):
        return Number(math.log(node.value)) if node.value > 0 else apply("log", node)
    if isinstance(node, Name):
        return apply("log", node)
    parts = node.arguments
    if node.function == "exp":
        return parts[0]
    if node.function == "*":
        return plus(logarithm(parts[0]), logarithm(parts[1]))
    if node.function == "/":
        return minus(logarithm(parts[0]), logarithm(parts[1]))
    if node.function == "sqrt":
        return times(Number(0.5), logarithm(parts[0]))
    if node.function == "^":
        return times(parts[1], logarithm(parts[0]))
    if node.function == "where":
        return Call("where", (parts[0], logarithm(parts[1]), logarithm(parts[2])))
    return apply("log", node)


def names_in(node: Node) -> frozenset[str]:
    if isinstance(node, Number):
        return frozenset()
    if isinstance(node, Name):
        return frozenset({node.name})
    return frozenset().union(*(names_in(one) for one in node.arguments))


def size(node: Node) -> int:
    """How many nodes there are to compute."""
    return 1 + sum(size(one) for one in node.arguments) if isinstance(node, Call) else 1


_BINDING = {"<": 0, "<=": 0, ">": 0, ">=": 0, "+": 1, "-": 1, "*": 2, "/": 2, "^": 4}


def write(node: Node) -> str:
    """A text that reads as the same tree, with no more brackets than it needs."""
    if isinstance(node, Number):
        whole = float(node.value).is_integer() and abs(node.value) < 1e15 and math.copysign(1.0, node.value) > 0
        return str(int(node.value)) if whole else repr(node.value)
    if isinstance(node, Name):
        return node.name
    if node.function not in _BINDING:
        return f"{node.function}({', '.join(map(write, node.arguments))})"
    binding = _BINDING[node.function]
    left, right = node.arguments
    if node.function == "-" and left == ZERO:
        return f"-{_bracketed(right, binding + 1)}"
    # Equal binding: only the left side may go without brackets, and no side of a power (it groups from the right).
    first = _bracketed(left, binding + (node.function == "^"))
    second = _bracketed(right, binding + 1)
    space = "" if node.function == "^" else " "
    return f"{first}{space}{node.function}{space}{second}"


def _bracketed(node: Node, at_least: int) -> str:
    text = write(node)
    if isinstance(node, Number):
        return f"({text})" if node.value < 0 or text.startswith("-") else text
    if isinstance(node, Call) and _BINDING.get(node.function, 9) < at_least:
        return f"({text})"
    return text
