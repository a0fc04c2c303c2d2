"""Where to cut numbers, found in an earlier or public table: by quantiles, or where the classes change.

Quartiles are what the paper cuts at [guided-survey, 6]. They know nothing of the classes: on its own F1, where classes
change at 40 and 60 years of age, they cap every classifier near 83%. Edges by class do not. Every edge is made from
people's values, so that it must come from other people than those who are asked, and is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.channels.guidance.space import quantile_edges, supervised_edges
from sfumato.core.asked import asks
from sfumato.core.errors import SchemaError, TableError, UsageError
from sfumato.study.asked import EdgesAsked
from sfumato.table import Schema, open_table
from sfumato.table.arrays import is_number, numbers, plain, text
from sfumato.table.column import nearest

FEWEST = 20
"""Rows below which an edge would be some single person's value."""
UNASKED = EdgesAsked()


@asks(EdgesAsked)
def survey_edges(
    table: Any, columns: Sequence[str] = (), options: EdgesAsked = UNASKED
) -> dict[str, tuple[float, ...]]:
    """Where to cut numbers into intervals, from an earlier or public table; for survey files and schemas.

    Everybody reads the edges, and they follow from the rows of the table: take a public one, or one of people who
    agreed, never the people who are asked or released.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        Rows of other people.
    columns : sequence of str, default ()
        Columns to cut; all that hold numbers, if none is named. One in which no cut tells the classes apart gets the
        median.
    {options}

    Returns
    -------
    dict
        Edges by column: `sf.Column(name, "categorical", edges=...)` takes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.survey_edges({"age": list(range(20, 80))}, parts=3)
    {'age': (39.7, 59.3)}
    """
    by, label = options.by, options.label
    if by == "class" and label is None:
        raise UsageError("Edges by class need the column of the classes: name it with --label.")
    if options.parts < 2 or options.digits < 1:
        raise UsageError("A number is cut into at least 2 parts, and an edge has at least 1 digit.")
    rows = open_table(table).read()
    for name in (*columns, *([] if label is None else [label])):
        if name not in rows.column_names:
            raise SchemaError(f"The table has no column {name!r}.{nearest(name, rows.column_names)}")
    wanted = columns or [f.name for f in rows.schema if is_number(f.type) and f.name != label]
    classes = None if label is None else np.asarray(text(rows[label], label).fill_null("").to_pylist(), dtype=object)
    return {name: _edges(rows, name, classes, options) for name in wanted}


def _edges(table: pa.Table, name: str, classes: Any, options: EdgesAsked) -> tuple[float, ...]:
    parts, digits = options.parts, options.digits
    found = numbers(plain(table[name]), name)
    known = np.isfinite(found.numbers) if found.empty is None else ~found.empty & np.isfinite(found.numbers)
    values = found.numbers[known]
    if len(values) < FEWEST:
        raise TableError(f"The column {name!r} has fewer than {FEWEST} numbers: an edge would be one person's value.")
    if options.by == "class":
        edges = supervised_edges(values, classes[known], parts) or quantile_edges(values, 2)
    else:
        edges = quantile_edges(values, parts)
    rounded = np.unique([float(f"{edge:.{digits}g}") for edge in edges])
    if not ((rounded > values.min()) & (rounded <= values.max())).any():  # no edge has people on both sides
        raise TableError(
            f"The column {name!r} cannot be cut: rounded to {digits} digits, no edge lies between its numbers. "
            "Give more --digits, or edges by hand."
        )
    return tuple(float(edge) for edge in rounded)


def cut_schema(schema: Schema, edges: Mapping[str, Sequence[float]], reason: str | None = None) -> Schema:
    """The schema with these columns as categories that are cut at `edges`.

    With a `reason` (where the edges come from, so that everybody may know them) they are public, else learned.
    """
    source = "learned" if reason is None else "public"
    for name, found in edges.items():
        if schema[name].role == "label":
            raise SchemaError(f"The column to predict {name!r} is not cut.")
        cut = {"kind": "categorical", "low": None, "high": None, "categories": None, "edges": tuple(found)}
        schema = schema.with_column(name, **cut, source=source, reason=reason)
    return schema


def cut_survey(file: Mapping[str, Any], edges: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """A survey file (as YAML reads it) whose questions of these names are numbers that are cut at `edges`."""
    asked = file.get("questions")
    if not isinstance(asked, Sequence) or not all(isinstance(question, Mapping) for question in asked):
        raise SchemaError("The survey needs a list of `questions`.")
    names = [str(question.get("name")) for question in asked]
    for name in edges:
        if name not in names:
            raise SchemaError(f"The survey has no question {name!r}.{nearest(name, names)}")
    cut = {name: {"kind": "number", "edges": list(found)} for name, found in edges.items()}
    questions = [{**question, **cut.get(name, {})} for question, name in zip(asked, names, strict=True)]
    return {**file, "questions": questions}
