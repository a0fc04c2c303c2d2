"""The programme on the simplex against its optimality conditions and a general solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from domains import seeds, steady
from sfumato.core.errors import UsageError
from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.noise.response import onto_simplex
from sfumato.reconstruction.evidence import Cells, cell_probabilities
from sfumato.reconstruction.parzen_program import (
    ConvergenceError,
    ParzenProgram,
    rectangle_rule,
    second_differences,
    simplex_program,
    smoothing,
)

penalties = st.sampled_from([0.0, 1e-4, 1e-2, 1.0, 100.0])


def gradient(G, f, penalty, p):
    D = second_differences(len(p))
    return G.T @ (G @ p - f) + penalty * np.linalg.norm(G, 2) ** 2 * (D.T @ (D @ p))


@given(seeds, penalties, st.integers(2, 12))
@steady(60)
def test_positive_cells_have_the_least_slope(seed, penalty, count):
    """Eq. 18 (with <=): where p is positive the derivative is least, and equal."""
    rng = np.random.default_rng(seed)
    G, f = rng.random((25, count)), rng.random(25)
    p = simplex_program(G, f, penalty)
    slope = gradient(G, f, penalty, p)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(slope[p > 1e-9], slope.min(), atol=1e-7 * max(1.0, np.abs(slope).max()))


@pytest.mark.parametrize("penalty", [0.0, 1e-2])
def test_a_general_solver_finds_nothing_better(penalty):
    rng = np.random.default_rng(0)
    G, f = rng.random((30, 8)), rng.random(30) / 5
    D = second_differences(8)

    def cost(p):
        return np.sum((G @ p - f) ** 2) + penalty * np.linalg.norm(G, 2) ** 2 * np.sum((D @ p) ** 2)

    ours = simplex_program(G, f, penalty)
    theirs = minimize(
        cost, np.full(8, 1 / 8), bounds=[(0, None)] * 8, constraints={"type": "eq", "fun": lambda p: p.sum() - 1}
    )
    assert cost(ours) <= theirs.fun + 1e-9


def test_a_wrong_programme_is_an_error():
    with pytest.raises(UsageError, match="penalty"):
        ParzenProgram(penalty=-1.0).prepare([], Cells.even(0.0, 1.0, 3))
    with pytest.raises(ConvergenceError, match="turning points"):
        simplex_program(np.full((3, 3), np.inf), np.ones(3))
    with pytest.raises(ConvergenceError, match="can have produced"):
        simplex_program(np.zeros((3, 3)), np.ones(3))


def test_no_convergence_is_an_error(monkeypatch):
    def stuck(*_, **__):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("sfumato.reconstruction.parzen_program.nnls", stuck)
    with pytest.raises(ConvergenceError, match=r"did not converge.*fewer bins"):
        simplex_program(np.eye(3), np.ones(3))


@pytest.mark.parametrize("operator", ["additive", "multiplicative", "quartic"])
def test_columns_of_g_are_distributions_and_agree_with_draws(operator):
    noise = OperatorNoise(make_operator(operator), make_law("uniform", low=-1, high=1))
    cells = Cells.even(0.3, 2.0, 5)
    edges = np.linspace(-2, 5, 30)
    G = cell_probabilities(noise, edges, cells)
    np.testing.assert_allclose(G.sum(axis=0), 1)
    rng = np.random.default_rng(0)
    for j in range(5):
        z = noise.sample(rng.uniform(cells.edges[j], cells.edges[j + 1], 100_000), rng)
        share = np.histogram(z, np.r_[-np.inf, edges, np.inf])[0] / 100_000
        assert np.abs(share - G[:, j]).max() < 0.008


def test_the_rectangle_rule_is_that_of_the_paper():
    """Eq. 13: |1 / x| f_E(z / x), times the widths of the cells of z."""
    noise = OperatorNoise(make_operator("multiplicative"), make_law("uniform", low=1, high=3))
    cells, edges = Cells.even(2, 4, 4), np.linspace(2, 12, 21)
    z = 0.5 * (edges[1:] + edges[:-1])
    e = z[:, None] / cells.middles[None, :]
    wanted = 0.5 * np.diff(edges)[:, None] * ((e >= 1) & (e <= 3)) / cells.middles
    np.testing.assert_allclose(rectangle_rule(noise, edges, cells), wanted)


def test_smoothing_keeps_mass_and_spreads_by_its_width():
    window = smoothing(201, 5.0)
    middle = window[:, 100]
    assert middle.sum() == pytest.approx(1)
    assert middle @ (np.arange(201) - 100.0) ** 2 == pytest.approx(25 + 1 / 12, rel=1e-3)


@given(seeds, st.integers(1, 9))
@steady(60)
def test_the_projection_on_the_simplex_is_the_nearest_point_of_every_line(seed, count):
    """Optimality: no direction towards a corner gets closer."""
    lines = np.random.default_rng(seed).normal(size=(3, count))
    for v, p in zip(lines, onto_simplex(lines), strict=True):
        assert p == pytest.approx(onto_simplex(v))
        assert p.sum() == pytest.approx(1)
        assert p.min() >= 0
        assert ((np.eye(count) - p) @ (v - p) <= 1e-9).all()
