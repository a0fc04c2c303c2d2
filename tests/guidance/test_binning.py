"""Edges: quartiles as published, and cuts where the classes change."""

import numpy as np
import pytest

from sfumato.channels.guidance.space import Binning, quantile_edges, supervised_edges
from sfumato.core.errors import TableError, UsageError


def test_quartiles_cut_into_equally_many():
    x = np.random.default_rng(0).normal(size=4000)
    codes = Binning([quantile_edges(x)]).codes(x[:, None])
    assert np.bincount(codes[:, 0]).tolist() == [1000] * 4
    assert quantile_edges([0, 0, 0, 0, 5]) == ()


def test_cuts_are_found_where_the_classes_change():
    rng = np.random.default_rng(1)
    age = rng.uniform(20, 80, 5000)
    y = ((age < 40) | (age >= 60)).astype(int)
    edges = supervised_edges(age, y)
    assert np.allclose(edges, [40, 60], atol=0.1)
    assert supervised_edges(rng.random(5000), y, least=0.005) == ()
    assert supervised_edges(np.ones(10), np.arange(10) % 2) == ()
    noisy = np.where(rng.random(5000) < 0.2, 1 - y, y)
    assert np.allclose(sorted(supervised_edges(age, noisy, parts=3)), [40, 60], atol=1)


def test_a_binning_is_an_answer_space():
    binning = Binning([(30.0, 50.0), 3, ()])
    assert binning.space.sizes == (3, 3, 1)
    assert binning.codes([[50, 2, -7.5], [29, 0, 9]]).tolist() == [[2, 2, 0], [0, 0, 0]]
    for bad in ([[50, 3, 0]], [[50, 0.5, 0]], [[np.nan, 0, 0]], [[1, 2]]):
        with pytest.raises(TableError):
            binning.codes(bad)
    with pytest.raises(UsageError):
        Binning([(2.0, 1.0)])
