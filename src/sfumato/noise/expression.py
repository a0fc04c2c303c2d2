"""What a user types: arithmetic such as ``x * e + x^2 * e^4``, never run as Python, and laws of noise in it.

Only numbers, the variables that the caller names, + - * / ^ (or **), comparisons inside ``where`` and the functions of
``FUNCTIONS`` exist. So a text from a study file or from a stranger's card can be read without harm. Its size and
depth are bounded. All is real arithmetic on doubles: outside the domain of a function the value is not a number.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.noise.law import floats, scipy_distribution
from sfumato.noise.laws import LAWS, make_law

# The trees that expressions are made of: how they are computed, differentiated and written.


class Call(NamedTuple):
    """A function or an operator of other nodes, which are numbers, names and calls."""

    function: str
    arguments: tuple[Node, ...]


Node = float | str | Call
Rule = Callable[[tuple[Node, ...], tuple[Node, ...]], Node]


class Function(NamedTuple):
    """`rule(arguments, their derivatives)` is the derivative of the whole: the chain rule is in it."""

    arity: int
    compute: Callable[..., Any]
    rule: Rule


def plus(a: Node, b: Node) -> Node:
    return b if a == 0.0 else a if b == 0.0 else Call("+", (a, b))


def minus(a: Node, b: Node) -> Node:
    return a if b == 0.0 else Call("-", (a, b))


def times(a: Node, b: Node) -> Node:
    if 0.0 in (a, b):
        return 0.0
    return b if a == 1.0 else a if b == 1.0 else Call("*", (a, b))


def over(a: Node, b: Node) -> Node:
    return 0.0 if a == 0.0 else a if b == 1.0 else Call("/", (a, b))


def power(a: Node, b: Node) -> Node:
    return a if b == 1.0 else 1.0 if b == 0.0 else Call("^", (a, b))


def apply(function: str, *arguments: Node) -> Node:
    return Call(function, arguments)


def choose(condition: Node, then: Node, otherwise: Node) -> Node:
    return then if then == otherwise else apply("where", condition, then, otherwise)


def _power_rule(a: tuple[Node, ...], d: tuple[Node, ...]) -> Node:
    """u^v: v u^(v-1) u' where v does not vary, else u^v (v' log u + v u' / u)."""
    base, exponent = a
    if d[1] == 0.0:
        less = exponent - 1.0 if isinstance(exponent, float) else minus(exponent, 1.0)
        return times(times(exponent, power(base, less)), d[0])
    rate = plus(times(d[1], apply("log", base)), over(times(exponent, d[0]), base))
    return times(power(base, exponent), rate)


def _quotient_rule(a: tuple[Node, ...], d: tuple[Node, ...]) -> Node:
    if d[1] == 0.0:
        return over(d[0], a[1])
    return over(minus(times(d[0], a[1]), times(a[0], d[1])), power(a[1], 2.0))


def _of_one(slope: Callable[[Node], Node]) -> Rule:
    """The chain rule of a function of one value whose derivative is `slope`."""
    return lambda a, d: 0.0 if d[0] == 0.0 else times(slope(a[0]), d[0])


def _flat(*_: tuple[Node, ...]) -> Node:
    return 0.0


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
    "log": Function(1, np.log, _of_one(lambda u: over(1.0, u))),
    "log1p": Function(1, np.log1p, _of_one(lambda u: over(1.0, plus(1.0, u)))),
    "sqrt": Function(1, np.sqrt, _of_one(lambda u: over(0.5, apply("sqrt", u)))),
    "cbrt": Function(1, np.cbrt, _of_one(lambda u: over(1.0, times(3.0, power(apply("cbrt", u), 2.0))))),
    "abs": Function(1, np.abs, _of_one(lambda u: apply("sign", u))),
    "sign": Function(1, np.sign, _flat),
    "sin": Function(1, np.sin, _of_one(lambda u: apply("cos", u))),
    "cos": Function(1, np.cos, _of_one(lambda u: times(-1.0, apply("sin", u)))),
    "tan": Function(1, np.tan, _of_one(lambda u: over(1.0, power(apply("cos", u), 2.0)))),
    "atan": Function(1, np.arctan, _of_one(lambda u: over(1.0, plus(1.0, power(u, 2.0))))),
    "sinh": Function(1, np.sinh, _of_one(lambda u: apply("cosh", u))),
    "cosh": Function(1, np.cosh, _of_one(lambda u: apply("sinh", u))),
    "tanh": Function(1, np.tanh, _of_one(lambda u: minus(1.0, power(apply("tanh", u), 2.0)))),
    "min": Function(2, np.minimum, lambda a, d: choose(apply("<=", *a), *d)),
    "max": Function(2, np.maximum, lambda a, d: choose(apply(">=", *a), *d)),
    "where": Function(3, np.where, lambda a, d: choose(a[0], d[1], d[2])),
}


def evaluate(node: Node, values: Mapping[str, Floats]) -> Any:
    if isinstance(node, Call):
        return FUNCTIONS[node.function].compute(*(evaluate(one, values) for one in node.arguments))
    return values[node] if isinstance(node, str) else np.float64(node)


def derive(node: Node, name: str) -> Node:
    if isinstance(node, Call):
        return FUNCTIONS[node.function].rule(node.arguments, tuple(derive(one, name) for one in node.arguments))
    return 1.0 if node == name else 0.0


def logarithm(node: Node) -> Node:
    """log of a node, taken apart as far as rules go: log(exp(u)) is u also where exp(u) is too small for a double."""
    match node:
        case float() if node > 0:
            return math.log(node)
        case Call("exp", (u,)):
            return u
        case Call("*", (u, v)):
            return plus(logarithm(u), logarithm(v))
        case Call("/", (u, v)):
            return minus(logarithm(u), logarithm(v))
        case Call("sqrt", (u,)):
            return times(0.5, logarithm(u))
        case Call("^", (u, v)):
            return times(v, logarithm(u))
        case Call("where", (condition, u, v)):
            return apply("where", condition, logarithm(u), logarithm(v))
    return apply("log", node)


def parts(node: Node) -> Iterator[Node]:
    """A node and all that it is made of."""
    yield node
    for one in node.arguments if isinstance(node, Call) else ():
        yield from parts(one)


_BINDING = {"<": 0, "<=": 0, ">": 0, ">=": 0, "+": 1, "-": 1, "*": 2, "/": 2, "^": 4}


def write(node: Node) -> str:
    if isinstance(node, float):
        whole = node.is_integer() and abs(node) < 1e15 and math.copysign(1.0, node) > 0
        return str(int(node)) if whole else repr(node)
    if isinstance(node, str):
        return node
    if node.function not in _BINDING:
        return f"{node.function}({', '.join(map(write, node.arguments))})"
    binding = _BINDING[node.function]
    left, right = node.arguments
    if node.function == "-" and left == 0.0:
        return f"-{_bracketed(right, binding + 1)}"
    # Equal binding: only the left side may go without brackets, and no side of a power (it groups from the right).
    first = _bracketed(left, binding + (node.function == "^"))
    second = _bracketed(right, binding + 1)
    space = "" if node.function == "^" else " "
    return f"{first}{space}{node.function}{space}{second}"


def _bracketed(node: Node, at_least: int) -> str:
    text = write(node)
    negative = isinstance(node, float) and text.startswith("-")
    binds_less = isinstance(node, Call) and _BINDING.get(node.function, 9) < at_least
    return f"({text})" if negative or binds_less else text


LONGEST = 1_000
"""Characters of a text."""
MOST_NODES = 200
DEEPEST = 40
MOST_DERIVED = 20_000
"""Nodes of a derivative: that of the largest text stays below it; derivatives of derivatives soon do not."""

CONSTANTS: Mapping[str, float] = {"pi": math.pi}

_BINARY: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}
_COMPARED: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@dataclass(frozen=True)
class Expression:
    """An expression in `variables`; call it with one array for each of them, in their order.

    Examples
    --------
    >>> noisy = parse_expression("x * e + x^2 * e^4", ["e", "x"])
    >>> noisy(0.5, [1.0, 2.0]).tolist()
    [0.5625, 1.25]
    >>> str(noisy.derivative("e"))
    'x + x^2 * (4 * e^3)'
    """

    tree: Node
    variables: tuple[str, ...]

    def __call__(self, *values: ArrayLike) -> Floats:
        if len(values) != len(self.variables):
            raise UsageError(f"The expression takes {_listed(self.variables)}: {len(self.variables)} values.")
        arrays = [np.asarray(value, dtype=np.float64) for value in values]
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        with np.errstate(all="ignore"):  # outside the domain: infinite, or not a number
            found = evaluate(self.tree, dict(zip(self.variables, arrays, strict=True)))
        return np.array(np.broadcast_to(found, shape), dtype=np.float64)

    def derivative(self, variable: str) -> Expression:
        """The derivative by one variable, as an expression of the same variables.

        At a kink (``abs``, ``min``, ``max``) it is the slope of one side; at the edge of a ``where``, which may be a
        jump, that of the side the condition chooses.
        """
        if variable not in self.variables:
            raise UsageError(f"The expression has no variable {variable!r}. It has {_listed(self.variables)}.")
        tree = derive(self.tree, variable)
        if sum(1 for _ in parts(tree)) > MOST_DERIVED:
            raise UsageError("The derivative of the expression is too large to work with. Simplify the expression.")
        return Expression(tree, self.variables)

    def logarithm(self) -> Expression:
        """Its logarithm, taken apart: it reaches where the expression itself is too small for a double.

        Only for what is positive: (-2) * (-3) is, and its parts are not.
        """
        return Expression(logarithm(self.tree), self.variables)

    def uses(self, variable: str) -> bool:
        return variable in parts(self.tree)

    def __str__(self) -> str:
        """A text that reads as the same expression."""
        return write(self.tree)


def parse_expression(text: str, variables: Sequence[str]) -> Expression:
    """Read an arithmetic expression in `variables`; whatever else it holds is refused with a sentence.

    Parameters
    ----------
    text : str
        For example ``"exp(-abs(x) / 2)"`` or ``"where(x < 0, -x, x^2)"``, at most 1,000 characters.
    variables : sequence of str
        The names that may occur, for example ``["e", "x"]``. ``pi`` is a constant unless it is among them.
    """
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"An expression must be a text such as 'exp(-abs({variables[0]}))'.")
    if len(text) > LONGEST:
        raise UsageError(f"The expression has {len(text):,} characters; {LONGEST:,} is the most.")
    for name in variables:
        if name in FUNCTIONS:
            raise UsageError(f"A variable cannot be called {name!r}: that is a function.")
    # In Python's grammar ^ binds more weakly than +; here it is the power, as people write it.
    source = text.strip().replace("^", "**")
    if any(mark in source for mark in "\n\r\\#'\""):
        raise UsageError("An expression is one line of arithmetic, without quotes, backslashes or comments.")
    try:
        body = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(
            f"{_shown(text)} cannot be read as an expression in {_listed(variables)}. "
            "Look at its brackets, commas and signs, for example: 2 * x + 1."
        ) from None
    return Expression(_Reader(tuple(variables)).value(body, 0), tuple(variables))


class _Reader:
    """From Python's syntax tree, of which only arithmetic is known, to our own."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables
        self.nodes = 0

    def value(self, node: ast.expr, depth: int) -> Node:
        """What is not a comparison."""
        found = self._read(node, depth)
        if _compares(found):
            raise UsageError("A comparison is not a number. Use it inside where(condition, then, otherwise).")
        return found

    def _read(self, node: ast.expr, depth: int) -> Node:
        self.nodes += 1
        if self.nodes > MOST_NODES or depth > DEEPEST:
            raise UsageError(f"The expression is too large: {MOST_NODES} parts, {DEEPEST} inside each other, at most.")
        match node:
            case ast.Constant(value=value):
                return _number(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value(operand, depth + 1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.value(operand, depth + 1)
                return -inner if isinstance(inner, float) else apply("-", 0.0, inner)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
                return apply(_BINARY[type(sign)], self.value(left, depth + 1), self.value(right, depth + 1))
            case ast.Compare(left=left, ops=[way], comparators=[right]) if type(way) in _COMPARED:
                return apply(_COMPARED[type(way)], self.value(left, depth + 1), self.value(right, depth + 1))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(name, arguments, depth)
        raise UsageError(
            f"An expression may contain numbers, {_listed(self.variables)}, + - * / ^, brackets and the functions "
            f"{_listed(_called())}; comparisons (< <= > >=, one at a time) inside where. This one contains something "
            "else."
        )

    def _name(self, name: str) -> Node:
        if name in self.variables:
            return name
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in FUNCTIONS:
            raise UsageError(f"{name} is a function: write {name}(...).")
        known = _listed([*self.variables, *CONSTANTS])
        raise UsageError(f"The expression has no variable {_shown(name)}. It may use {known}.")

    def _call(self, name: str, arguments: list[ast.expr], depth: int) -> Node:
        if name not in _called():
            raise UsageError(f"There is no function {_shown(name)}. There are {_listed(_called())}.")
        arity = FUNCTIONS[name].arity
        if len(arguments) != arity:
            raise UsageError(f"{name} takes {arity} value{'s' if arity > 1 else ''}, and was given {len(arguments)}.")
        if name != "where":
            return Call(name, tuple(self.value(one, depth + 1) for one in arguments))
        condition = self._read(arguments[0], depth + 1)
        if not _compares(condition):
            raise UsageError("The first value of where must be a comparison, for example where(x < 0, -x, x).")
        return apply("where", condition, *(self.value(one, depth + 1) for one in arguments[1:]))


def _compares(node: Node) -> bool:
    return isinstance(node, Call) and node.function in _COMPARED.values()


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError("An expression may contain plain numbers only, such as 2, 0.5 or 1e-3.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError("A number in the expression is too large for a double.")
    return number


def _called() -> list[str]:
    return [name for name in FUNCTIONS if name.isalnum()]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")


# A noise law as a user states it: one of ours, a distribution of scipy.stats, or a density as an expression in x.


VARIABLE = "x"
FAR, FALL = 20, 1.0
"""Over so many octaves far out, the logarithm of an octave's probability must fall by so much."""


@dataclass(frozen=True)
class StatedLaw:
    """`law` is a `Law` or a frozen distribution; or `log_density` is that of an expression, up to a constant."""

    words: str
    law: Any = None
    log_density: Callable[[Floats], Floats] | None = None


def stated_law(text: str, parameters: Mapping[str, Any] | None = None, *, log: bool = False) -> StatedLaw:
    """Read a law; what does not exist is refused with a sentence.

    Parameters
    ----------
    text : str
        "laplace", "normal", "uniform", "student-t" or "epanechnikov"; the name of a continuous distribution of
        scipy.stats ("logistic", "dweibull"); or a density as an expression in x, "exp(-abs(x) / 0.3)". A constant
        factor may be missing.
    parameters : mapping, default {}
        Of a law by name: `scale` (1 where it is left out), `df`, `low`, `high`; shapes of scipy's distribution, `loc`.
    log : bool, default False
        The expression is the logarithm of a density, which reaches much further out.
    """
    given = dict(parameters or {})
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UsageError(
                f"The {name!r} parameter of a law must be a finite number. Got {str(value)[:60]!r} instead."
            )
    word = "" if log else text.strip()
    if (name := word.lower()) in LAWS:
        _check_known(f"The law {name}", given, [one.name for one in fields(LAWS[name])])
        made = make_law(name, **({} if given.keys() & {"scale", "low", "high"} else {"scale": 1.0}), **given)
        return StatedLaw(_in_words(name, made.to_dict()), law=made)
    if word.isidentifier() and word != VARIABLE:
        return StatedLaw(_in_words(f"scipy's {word}", given), law=_of_scipy(word, given))
    if given:
        raise UsageError("An expression has no parameters: write the numbers into it.")
    read = parse_expression(text, [VARIABLE])
    return StatedLaw(f"{'log ' if log else ''}density {read}", log_density=read if log else _log_of(read))


def _check_known(law: str, given: Iterable[str], names: Sequence[str]) -> None:
    if unknown := [one for one in given if one not in names]:
        raise UsageError(f"{law} has no parameter {unknown[0][:60]!r}. It has: {', '.join(names)}.")


def _of_scipy(name: str, given: Mapping[str, Any]) -> Any:
    found = scipy_distribution(name)
    if found is None:
        raise UsageError(
            f"There is no law {name[:60]!r}. Choose one of {', '.join(LAWS)} or a continuous distribution of "
            f"scipy.stats, or write a density in {VARIABLE}, for example 'exp(-abs({VARIABLE}) / 0.3)'."
        )
    law, shapes = found
    names = (*shapes, "loc", "scale")
    _check_known(f"scipy's {name}", given, names)
    if missing := [one for one in shapes if one not in given]:
        raise UsageError(f"scipy's {name} needs the parameter {missing[0]!r}: --param {missing[0]}=NUMBER.")
    frozen = law(**given)
    if not np.isfinite(frozen.median()):
        raise UsageError(f"scipy's {name} does not exist with these parameters.")
    return frozen


def _log_of(read: Expression) -> Callable[[Floats], Floats]:
    """Its logarithm taken apart; where a part has none (a product of two negative ones), that of the value itself."""
    apart = read.logarithm()

    def log(x: Floats) -> Floats:
        found = apart(x)
        with np.errstate(all="ignore"):
            return floats(np.where(np.isnan(found), np.log(read(x)), found))

    return log


def _in_words(name: str, parameters: Mapping[str, Any]) -> str:
    listed = ", ".join(f"{key} {value:g}" for key, value in parameters.items() if isinstance(value, int | float))
    return f"{name} ({listed})" if listed else name


def is_a_density(log_density: Callable[[Floats], Floats], centre: float, scale: float) -> bool:
    """Whether it is nowhere negative and its integral is finite, as far as doubles tell.

    The probability of an octave, about f(x) x, must fall from octave to octave far out; that of 1 / x does not.
    """
    octaves = 2.0 ** np.arange(-20.0, 200.0)
    for side in (-1.0, 1.0):
        with np.errstate(all="ignore"):
            mass = log_density(floats(centre + side * scale * octaves)) + np.log(octaves)
        if np.isnan(mass).any():
            return False
        far = mass[np.isfinite(mass)][-2 * FAR :]  # means over many octaves: a density may rise and fall
        if np.isposinf(mass[FAR:]).any() or (
            len(far) == 2 * FAR and far[FAR:].mean() > far[:FAR].mean() - FALL and np.isfinite(mass[-1])
        ):
            return False
    return True
