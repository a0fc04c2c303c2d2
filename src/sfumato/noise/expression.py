"""Arithmetic that a user types, such as ``x * e + x^2 * e^4``: read by a small parser of our own, never run as Python.

Only numbers, the variables that the caller names, + - * / ^ (or **), comparisons inside ``where`` and the functions of
``FUNCTIONS`` exist. So a text from a study file or from somebody else's card can be read without harm. Its size and
depth are bounded. All is real arithmetic on doubles: outside the domain of a function the value is not a number.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Floats
from sfumato.errors import UsageError
from sfumato.noise.expression_tree import (
    FUNCTIONS,
    Call,
    Name,
    Node,
    Number,
    derive,
    evaluate,
    logarithm,
    names_in,
    size,
    write,
)

LONGEST = 1_000
"""Characters of a text."""
MOST_NODES = 200
DEEPEST = 40
MOST_DERIVED = 20_000
"""Nodes of a derivative: that of the largest text stays below it; derivatives of derivatives soon do not."""

CONSTANTS: Mapping[str, float] = {"pi": math.pi}

_BINARY: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}
_COMPARED: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_CONDITIONS = frozenset(_COMPARED.values())


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
        if size(tree) > MOST_DERIVED:
            raise UsageError("The derivative of the expression is too large to work with. Simplify the expression.")
        return Expression(tree, self.variables)

    def logarithm(self) -> Expression:
        """Its logarithm, taken apart: it reaches where the expression itself is too small for a double.

        Only for what is positive: (-2) * (-3) is, and its parts are not.
        """
        return Expression(logarithm(self.tree), self.variables)

    def uses(self, variable: str) -> bool:
        """Whether the variable occurs in it."""
        return variable in names_in(self.tree)

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
    tree = _Reader(tuple(variables)).read(body)
    if isinstance(tree, Call) and tree.function in _CONDITIONS:
        raise UsageError("A comparison is not a number. Use it inside where(condition, then, otherwise).")
    return Expression(tree, tuple(variables))


class _Reader:
    """From Python's syntax tree, of which only arithmetic is known, to our own."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables
        self.nodes = 0

    def read(self, node: ast.expr, depth: int = 0) -> Node:
        self.nodes += 1
        if self.nodes > MOST_NODES or depth > DEEPEST:
            raise UsageError(f"The expression is too large: {MOST_NODES} parts, {DEEPEST} inside each other, at most.")
        if isinstance(node, ast.Constant):
            return _number(node.value)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            inner = self._value(node.operand, depth)
            if isinstance(node.op, ast.UAdd):
                return inner
            return Number(-inner.value) if isinstance(inner, Number) else Call("-", (Number(0.0), inner))
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return Call(_BINARY[type(node.op)], (self._value(node.left, depth), self._value(node.right, depth)))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            sides = (self._value(node.left, depth), self._value(node.comparators[0], depth))
            return Call(_COMPARED[type(node.ops[0])], sides)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, node.args, depth)
        raise UsageError(
            f"An expression may contain numbers, {_listed(self.variables)}, + - * / ^, brackets and the functions "
            f"{_listed(_called())}; comparisons (< <= > >=, one at a time) inside where. This one contains something "
            "else."
        )

    def _name(self, name: str) -> Node:
        if name in self.variables:
            return Name(name)
        if name in CONSTANTS:
            return Number(CONSTANTS[name])
        known = _listed([*self.variables, *CONSTANTS])
        if name in FUNCTIONS:
            raise UsageError(f"{name} is a function: write {name}(...).")
        raise UsageError(f"The expression has no variable {_shown(name)}. It may use {known}.")

    def _call(self, name: str, arguments: list[ast.expr], depth: int) -> Node:
        if name not in _called():
            raise UsageError(f"There is no function {_shown(name)}. There are {_listed(_called())}.")
        arity = FUNCTIONS[name].arity
        if len(arguments) != arity:
            raise UsageError(f"{name} takes {arity} value{'s' if arity > 1 else ''}, and was given {len(arguments)}.")
        if name != "where":
            return Call(name, tuple(self._value(one, depth) for one in arguments))
        condition = self.read(arguments[0], depth + 1)
        if not (isinstance(condition, Call) and condition.function in _CONDITIONS):
            raise UsageError("The first value of where must be a comparison, for example where(x < 0, -x, x).")
        return Call("where", (condition, *(self._value(one, depth) for one in arguments[1:])))

    def _value(self, node: ast.expr, depth: int) -> Node:
        found = self.read(node, depth + 1)
        if isinstance(found, Call) and found.function in _CONDITIONS:
            raise UsageError("A comparison is not a number. Use it inside where(condition, then, otherwise).")
        return found


def _number(value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError("An expression may contain plain numbers only, such as 2, 0.5 or 1e-3.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError("A number in the expression is too large for a double.")
    return Number(number)


def _called() -> list[str]:
    return [name for name in FUNCTIONS if name.isalnum()]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")
