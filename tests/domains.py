"""Public sources of every kind of column, and records from all over their domains, for tests in many rooms."""

import itertools

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "known from the form"}

shapes = st.text("nmoce123?", min_size=1, max_size=4)
seeds = st.integers(0, 2**32 - 1)


def steady(examples=100):
    """The same examples in every run, and no deadline: a busy machine is not a finding."""
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


def domain(shape: str, **source: str) -> Encoding:
    """A source whose columns are spelt by letters; public unless `source` says otherwise.

    n number, m number that may be missing, p positive number, q positive number that may be missing, o ordinal of
    three, i integer, c constant, e constant that may be missing,
    1-9 so many categories, ? two categories or missing.
    """
    source = source or PUBLIC
    columns = []
    for place, letter in enumerate(shape):
        name = f"{letter}{place}"
        if letter in "nm":
            columns.append(Column(name, "numeric", low=-2, high=6, missing=letter == "m", **source))
        elif letter in "pq":
            columns.append(Column(name, "numeric", low=2, high=6, missing=letter == "q", **source))
        elif letter == "i":
            columns.append(Column(name, "integer", low=0, high=100, **source))
        elif letter in "ce":
            columns.append(Column(name, "numeric", low=3, high=3, missing=letter == "e", **source))
        elif letter == "o":
            columns.append(Column(name, "ordinal", categories=("low", "middle", "high"), **source))
        else:
            count = 2 if letter == "?" else int(letter)
            words = tuple(f"v{i}" for i in range(count))
            columns.append(Column(name, "categorical", categories=words, missing=letter == "?", **source))
    return Encoding(Schema(tuple(columns)))


def corner_records(encoding):
    """Every record whose cells are extreme points of their column's domain."""
    corners = itertools.product(*(group.vertices for group in encoding.groups))
    return np.array([np.concatenate(cells) for cells in corners])


def any_records(encoding, rng, count):
    """Records from all over the domain: numbers at and between their bounds, cells missing, any category."""
    X = np.zeros((count, encoding.width))
    for group in encoding.groups:
        if group.is_onehot:
            X[np.arange(count), group.start + rng.integers(group.width, size=count)] = 1
            continue
        value = rng.random(count)
        X[:, group.start] = 0.5 if group.is_constant else np.where(rng.random(count) < 0.4, np.rint(value), value)
        if group.has_indicator:
            empty = rng.random(count) < 0.5
            X[empty, group.start], X[empty, group.start + 1] = 0.5, 1
    return X
