from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture
def unit():
    """A public description of d numeric columns on [0, 1]."""

    def make(d):
        column = [SimpleNamespace(name=f"c{i:03}", kind="numeric", weight=1.0) for i in range(d)]
        groups = tuple(
            SimpleNamespace(column=column[i], start=i, stop=i + 1, is_onehot=False, has_indicator=False)
            for i in range(d)
        )
        return SimpleNamespace(width=d, groups=groups, names=[c.name for c in column], scale=np.ones(d))

    return make


@pytest.fixture
def correlated():
    """n rows on [0, 1]^d that vary mostly in two directions."""

    def make(n=500, d=6, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.1 * rng.normal(size=(n, d))
        return (X - X.min(axis=0)) / np.ptp(X, axis=0)

    return make
