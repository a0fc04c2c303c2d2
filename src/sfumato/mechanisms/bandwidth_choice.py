"""What the `bandwidth` parameter says: one choice for all columns, one for each, or either for each class.

A choice is the name of a rule or h itself, as a share of the column's range.

    "pooling"                                     a rule for all columns and classes
    0.1                                           h for all columns
    [0.1, 0.2, "scaled"]                          one for each numeric column, in the table's order
    {age: 0.1, income: scaled}                    some columns; the others follow the default rule
    {by_class: {ill: 0.2, well: {age: 0.1}}}      any of these for a class; others follow the default rule
    [[0.01, 0.004], [0.004, 0.02]]                H itself, in shares of the columns' ranges (`bandwidth_matrix`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.mechanisms.bandwidth import MATRICES, POOLING, RULES
from sfumato.mechanisms.bandwidth_matrix import is_matrix

Choice = str | float
GIVEN = "given matrix"
"""What a column has where H itself is given; nobody can ask for it by name."""
BY_CLASS = "by_class"


def choices(bandwidth: Any, columns: Sequence[str], classes: Mapping[int, str]) -> dict[int, dict[str, Choice]]:
    """For every class code, the choice of every numeric column."""
    if isinstance(bandwidth, Mapping) and set(bandwidth) == {BY_CLASS}:
        named = bandwidth[BY_CLASS]
        if not isinstance(named, Mapping):
            raise _wrong(f"{BY_CLASS} is followed by classes and their bandwidths")
        words = {str(name): one for name, one in named.items()}
        if strange := sorted(set(words) - set(classes.values())):
            raise _wrong(f"there is no class {strange[0]!r}; there are {', '.join(sorted(classes.values()))}")
        return {code: _of_columns(words.get(name, POOLING), columns) for code, name in classes.items()}
    same = _of_columns(bandwidth, columns)
    return dict.fromkeys(classes, same)


def _of_columns(given: Any, columns: Sequence[str]) -> dict[str, Choice]:
    if is_matrix(given):
        return dict.fromkeys(columns, GIVEN)
    if isinstance(given, Mapping):
        if strange := [name for name in given if name not in columns]:
            raise _wrong(f"there is no numeric column {strange[0]!r}")
        return _one_matrix({name: one_choice(given.get(name, POOLING)) for name in columns})
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        if len(given) != len(columns):
            raise _wrong(f"the list has {len(given)} entries for {len(columns)} numeric columns")
        return _one_matrix(dict(zip(columns, map(one_choice, given), strict=True)))
    return dict.fromkeys(columns, one_choice(given))


def _one_matrix(chosen: dict[str, Choice]) -> dict[str, Choice]:
    if len({choice for choice in chosen.values() if choice in MATRICES}) > 1:
        raise _wrong(f"columns ask for {' and '.join(MATRICES)}, and a class has one matrix")
    return chosen


def one_choice(given: Any) -> Choice:
    """A rule or a share of the range; anything else is refused."""
    if isinstance(given, str) and given in RULES:
        return given
    if isinstance(given, Real) and not isinstance(given, bool) and 0 < float(given) < np.inf:
        return float(given)
    raise _wrong(f"got {given!r}")


def _wrong(what: str) -> UsageError:
    return UsageError(
        f"The 'bandwidth' parameter of kernel-resampling must be {', '.join(RULES)} or a positive share of the "
        f"columns' range (0.1), for all columns, as a list, by column name or under {BY_CLASS}, or a matrix as a list "
        f"of lists. Here {what}."
    )
