"""Scores of pairs of columns that sites add: what one record changes, what is spent, and the plan that they give."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from test_tree_model import MIXED, people

from sfumato.core.errors import SchemaError
from sfumato.guarantee.cost import Central, rho_for
from sfumato.mechanisms.central.column_codes import Budget, Chooser, halved, quantiles
from sfumato.mechanisms.central.plan import agreed_plan, plan_from_scores
from sfumato.mechanisms.central.scoring import NoisyScores, ScoringModel, ScoringPlan, distance
from sfumato.mechanisms.tree_resampling import TreeResampling

PLAN = ScoringPlan(MIXED)
RHO = 0.3 * rho_for(1.0, 1e-6)


def scored(X, y, rho=RHO, seed=0):
    model = ScoringModel(MIXED, Budget(rho, 0.3, np.random.default_rng(seed)), 2, PLAN)
    while model.needs_counts:
        model.measure(model.count(X, y))
    return model


def by_definition(table):
    total = 0.0
    for cells in table:
        expected = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / max(cells.sum(), 1)
        total += np.abs(cells - expected).sum()
    return total


def test_one_record_changes_a_score_by_at_most_one_and_the_bound_is_tight():
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(300):
        shape = (int(rng.integers(1, 3)), *(int(n) for n in rng.integers(2, 4, 2)))
        table = rng.poisson(rng.choice([0.1, 0.5, 3.0, 20.0]), shape) * (rng.random(shape) < 0.7)
        assert distance(table) == pytest.approx(by_definition(table) / 4, abs=0.5 * shape[0] + 1e-9)
        for place in np.ndindex(shape):
            more = table.copy()
            more[place] += 1
            assert abs(distance(more) - distance(table)) <= 1
            most = max(most, abs(by_definition(more) - by_definition(table)))
    crowd = np.array([[[200, 0], [0, 0]]])
    most = max(most, by_definition(crowd + np.array([[[0, 0], [0, 1]]])) - by_definition(crowd))
    assert 3.9 < most < 4.0  # a scale of 3 would not do
    for many in (10**9, 10**12):
        assert distance(np.array([[[many, 0], [0, many]]])) == many // 2  # whole numbers without overflow


def test_splits_that_cannot_be_made_keep_their_place():
    def found(cells, depth):
        return quantiles(np.array(cells), depth, Chooser(np.random.default_rng(0), 500.0))

    assert found([10] * 8, 3) == [1, 2, 3, 4, 5, 6, 7]
    assert found([10, 30, 10], 2) == [1, 2, 3]
    assert halved(np.array([10, 30, 10]), 2, Chooser(np.random.default_rng(0), 500.0)) == [1, 2]


def test_what_is_spent_is_what_the_card_must_state():
    X, y = people(1_000)
    for rho, delta in ((RHO, 1e-6), (None, 0.0)):
        model = scored(X, y, rho)
        assert model.budget.measured == PLAN.measurements(Budget(rho, 0.3, np.random.default_rng(9)))
        spent = Central.of(model.budget.measured, delta)
        assert (spent.rho or spent.pure) == pytest.approx(rho or 0.3, rel=1e-6)
        assert len(model.noisy.cells) == PLAN.cells(2)
        assert model._steps.gi_frame is None  # which held the exact scores
        assert model.noisy.likely(8.0 if rho else 30.0)
        shuffled = np.concatenate([model.noisy.cells[:1], model.noisy.cells[:0:-1]])
        assert not NoisyScores(PLAN, 2, shuffled, model.noisy.variances).likely(8.0)


def test_noise_on_scores_is_as_stated():
    """A column with one value has nothing in common with others, so that its scores are noise alone."""
    X, y = people(50)
    found = [scored(X, y, rho=2.0, seed=seed).noisy for seed in range(80)]
    noise = np.array([[score for pair, score in one.scores.items() if 3 in pair] for one in found])
    assert noise.size == 240
    assert noise.std() == pytest.approx(np.sqrt(found[0].variances["scores"]), rel=0.17)  # noise 30% off is caught


def test_the_sum_of_small_sites_finds_the_forest_that_none_of_them_can():
    X, y = people(8_000)
    parts = np.array_split(np.random.default_rng(1).permutation(len(X)), 16)
    sites = [scored(X[part], y[part], seed=seed).noisy for seed, part in enumerate(parts)]
    total = reduce(add, sites)
    assert total.rows == pytest.approx(8_000, rel=0.2)
    assert total.variances["scores"] == pytest.approx(16 * sites[0].variances["scores"])
    left = TreeResampling(0.82, 1e-6).budget(np.random.default_rng(0))
    plan = plan_from_scores(total, 16, left)
    assert [(node.column, node.parents) for node in plan.joined] == [(1, (0,))]  # age and weight
    assert not plan_from_scores(sites[0], 1, left).joined
    counts = np.bincount(plan.columns[0].bins.of[np.rint(99 * X[:, 0]).astype(int)])
    assert 4 <= len(counts) <= 32
    assert counts.max() < 3 * counts.mean()  # quantiles, not bins of equal width
    assert agreed_plan(plan.to_dict(), MIXED).digest == plan.digest
    again = NoisyScores.from_dict(total.to_dict(), PLAN)
    assert plan_from_scores(again, 16, left).digest == plan.digest
    for wrong in ({"cells": [1.5] * PLAN.cells(2)}, {"cells": [1]}, {"classes": 3}, {"variances": {}}):
        with pytest.raises((ValueError, KeyError)):
            NoisyScores.from_dict({**total.to_dict(), **wrong}, PLAN)


def test_a_fit_under_the_plan_draws_rows_and_states_it():
    X, y = people(500)
    fitted = TreeResampling(0.5, plan=PLAN.to_dict()).fit(X, y, MIXED)
    assert {one.what for one in fitted.recipe_.measured} == {"rows", "edges", "columns", "scores"}
    assert fitted.parameters_used()["plan"] == PLAN.digest
    assert len(fitted.counts()) == PLAN.cells(2)
    Z, z = fitted.drawn_.draw(2_000, np.random.default_rng(0))
    assert np.corrcoef(Z[:, 0], Z[:, 1])[0, 1] == pytest.approx(0, abs=0.1)  # nothing in common
    assert z.mean() == pytest.approx(0.5, abs=0.05)
    with pytest.raises(SchemaError, match="not those of the schema's columns"):
        agreed_plan({**PLAN.to_dict(), "columns": ["age"]}, MIXED)
