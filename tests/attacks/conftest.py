import numpy as np
import pytest

from sfumato.table import Column, Encoding, Schema


@pytest.fixture
def unit():
    """A public description of d numeric columns on [0, 1]."""
    return Encoding.unit


@pytest.fixture
def categorical():
    """A public description of one column of k categories."""

    def make(k):
        return Encoding(Schema((Column("colour", "categorical", categories=tuple(f"c{i}" for i in range(k))),)))

    return make


@pytest.fixture
def correlated():
    """n rows on [0, 1]^d that vary mostly in two directions."""

    def make(n=500, d=6, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.1 * rng.normal(size=(n, d))
        return (X - X.min(axis=0)) / np.ptp(X, axis=0)

    return make
