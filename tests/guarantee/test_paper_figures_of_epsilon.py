"""The record and column epsilons of principal components on the paper's own tables [principal-laplace, errata]."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from sfumato.channels.affine_bound import affine_epsilons, component_ranges
from sfumato.mechanisms import PrincipalLaplace
from sfumato.table import Encoding

B = 0.3
UNCLIPPED = 1e9


def scaled(load):
    X = load().data
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


def half_of_the_components(X, **parameters):
    d = X.shape[1]
    return PrincipalLaplace(b=B, components=0.5, **parameters).fit(X, encoding=Encoding.unit(d, public=True))


@pytest.mark.parametrize(
    ("load", "s", "record", "column"), [(load_breast_cancer, 15, 85, 11.9), (load_wine, 7, None, None)]
)
def test_data_widths_without_clipping_promise_too_much(load, s, record, column):
    """e^(s/b) is what the paper suggests; a record that nobody in the table resembles can move further."""
    X = scaled(load)
    fitted = half_of_the_components(X, component_bounds="data")
    widths = np.ptp([channel.interval for channel in fitted.recipe_.channels], axis=1)
    groups = fitted.encoding_.groups
    unclipped = affine_epsilons(fitted.matrix_, B * widths, np.full(s, UNCLIPPED), groups)
    clipped = affine_epsilons(fitted.matrix_, B * widths, widths, groups)
    assert len(fitted.matrix_) == s
    assert clipped.component == pytest.approx(1 / B)
    assert clipped.record <= s / B * (1 + 1e-9) < unclipped.record
    assert unclipped.column > clipped.component
    if record:
        assert unclipped.record == pytest.approx(record, abs=1)
        assert unclipped.column == pytest.approx(column, abs=0.06)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_public_widths_cost_less_than_s_over_b_for_nothing(load):
    """The published band: 42-67% smaller."""
    X = scaled(load)
    fitted = half_of_the_components(X)
    s = len(fitted.matrix_)
    low, high = component_ranges(fitted.matrix_, fitted.encoding_.groups)
    stated = fitted.guarantee()
    assert high - low == pytest.approx(np.abs(fitted.matrix_).sum(axis=1))
    assert stated.exact
    assert 0.42 <= 1 - stated.record / (s / B) <= 0.67
    assert stated.component == pytest.approx(1 / B)
    assert stated.component < stated.record
