"""Noisy counts under an agreed plan: what they add up to, what a plan may hold, and where it comes from."""

import copy
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy import stats
from test_tree_model import MIXED, people

from sfumato.core.errors import SchemaError, UsageError
from sfumato.guarantee.cost import Central, rho_for
from sfumato.mechanisms.central.column_codes import Budget
from sfumato.mechanisms.central.plan import (
    COLUMNS,
    PAIRS,
    ROWS,
    Plan,
    PlannedModel,
    plan_from_model,
    public_plan,
    read_plan,
)
from sfumato.mechanisms.tree_resampling import TreeResampling

SITES = 4
RHO = rho_for(1.0, 1e-6)
PLAN = public_plan(MIXED, [("age", "weight"), ("weight", "town")])


def measured(X, y, rho, seed, plan=PLAN):
    model = PlannedModel(MIXED, Budget(rho, 1.0, np.random.default_rng(seed)), 2, plan)
    model.measure(model.count(X, y))
    return model


def exact(X, y):
    model = PlannedModel(MIXED, Budget(RHO, 1.0, np.random.default_rng(0)), 2, PLAN)
    counts = model.count(X, y).tables
    keys = [(place,) for place in range(len(PLAN.columns))] + [(*n.parents, n.column) for n in PLAN.joined]
    return np.concatenate([[len(X)], *(counts[key].ravel() for key in keys)])


def test_the_sum_of_sites_is_the_whole_table_with_noise_of_sqrt_s_sigma():
    """Residuals of the sum have the variance that the cards add up to, and the law of one fit with S times as much."""
    X, y = people(2_000)
    whole, parts = exact(X, y), np.array_split(np.random.default_rng(1).permutation(len(X)), SITES)
    added, alone = [], []
    for turn in range(12):
        sites = [measured(X[one], y[one], RHO, 100 * turn + number) for number, one in enumerate(parts)]
        total = reduce(add, [one.noisy for one in sites])
        added.append(total.cells - whole)
        alone.append(measured(X, y, RHO / SITES, 5_000 + turn).noisy.cells - whole)
    one = PLAN.measurements(Budget(RHO, 1.0, np.random.default_rng(0)))
    summed, single = np.array(added), np.array(alone)
    ends = [0, 1, 1 + sum(c.bins.count * 2 for c in PLAN.columns), len(whole)]
    for kind, begin, end, stated in zip((ROWS, COLUMNS, PAIRS), ends[:-1], ends[1:], one, strict=True):
        assert total.variances[kind] == pytest.approx(SITES * stated.strength)
        if kind == ROWS:
            continue
        cells = summed[:, begin:end].ravel()
        assert len(cells) > 800
        assert cells.std() == pytest.approx(np.sqrt(SITES * stated.strength), rel=0.1)  # noise 30% off is caught
        assert abs(cells.mean()) < 4 * cells.std() / np.sqrt(len(cells))
        assert stats.ks_2samp(cells, single[:, begin:end].ravel()).pvalue > 1e-3
    assert summed.dtype == np.int64


def test_a_plan_is_measured_within_the_budget_and_by_what_the_card_must_state():
    X, y = people(1_000)
    for rho, delta in ((RHO, 1e-6), (None, 0.0)):
        model = measured(X, y, rho, 0)
        assert model.budget.measured == PLAN.measurements(Budget(rho, 1.0, np.random.default_rng(9)))
        spent = Central.of(model.budget.measured, delta)
        assert (spent.rho or spent.pure) == pytest.approx(rho or 1.0, rel=1e-6)
    alone = measured(X, y, RHO, 0, public_plan(MIXED))
    assert Central.of(alone.budget.measured, 1e-6).rho == pytest.approx(RHO, rel=1e-6)
    again = PlannedModel(MIXED, model.budget, 2, PLAN)
    whole, less = (again.count(X[first:], y[first:]) for first in (0, 1))
    for key, table in whole.tables.items():  # one record changes one count of each table by one
        assert np.abs(table - less.tables[key]).sum() == 1


def test_rows_from_the_sum_are_spread_as_the_whole_table():
    X, y = people(4_000)
    parts = np.array_split(np.random.default_rng(1).permutation(len(X)), SITES)
    total = reduce(add, [measured(X[one], y[one], 50.0, number).noisy for number, one in enumerate(parts)])
    Z, z = total.drawn().draw(20_000, np.random.default_rng(2))
    assert z.mean() == pytest.approx(y.mean(), abs=0.015)
    assert Z[:, 0].mean() == pytest.approx(X[:, 0].mean(), abs=0.02)
    there, drawn = X[:, 2] == 0, Z[:, 2] == 0
    assert np.corrcoef(X[there, 0], X[there, 1])[0, 1] > 0.8
    assert np.corrcoef(Z[drawn, 0], Z[drawn, 1])[0, 1] > 0.7
    with pytest.raises(ValueError, match="different plans"):
        total + measured(X, y, 1.0, 0, public_plan(MIXED)).noisy


def test_a_plan_from_one_sites_noisy_model_is_finer_for_more_sites():
    X, y = people(3_000)
    fitted = TreeResampling(1.0).fit(X, y, MIXED)
    few, many = (
        plan_from_model(fitted.drawn_, TreeResampling(1.0).budget(np.random.default_rng(0)), s) for s in (1, 40)
    )
    assert [node.parents for node in few.nodes] == [node.parents for node in fitted.drawn_.nodes]
    assert many.columns[0].bins.count > few.columns[0].bins.count
    assert many.columns[0].joint.count >= few.columns[0].joint.count
    edges = set(np.flatnonzero(np.diff(few.columns[0].bins.of)))
    assert edges <= set(np.flatnonzero(np.diff(many.columns[0].bins.of)))
    again = Plan.from_dict(many.to_dict(), MIXED)
    assert again.digest == many.digest != few.digest
    # a fit under the plan chooses nothing, and states the plan by its digest
    planned = TreeResampling(1.0, plan=many.to_dict()).fit(X, y, MIXED)
    assert {one.way for one in planned.recipe_.measured} == {"gaussian"}
    assert planned.parameters_used()["plan"] == many.digest
    assert len(planned.counts()) == many.cells(2)


def broken(change):
    found = copy.deepcopy(PLAN.to_dict())
    change(found)
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(version=2),
        lambda found: found.pop("order"),
        lambda found: found["columns"].pop(),
        lambda found: found["columns"][0].update(name="height"),
        lambda found: found["columns"][0].update(edges=[5, 3]),
        lambda found: found["columns"][0].update(edges=[0]),
        lambda found: found["columns"][0].update(edges=[100]),
        lambda found: found["columns"][0].update(edges=[1.5]),
        lambda found: found["columns"][2].update(edges=[1]),
        lambda found: found["columns"][0].update(coarse=[0, 2]),
        lambda found: found["columns"][0].update(more=1),
        lambda found: found["order"].reverse(),
        lambda found: found["order"].__setitem__(0, ["age", ["age"]]),
        lambda found: found["pairs"].update(reason="x" * 300),
        lambda found: found["pairs"].update(source="rule"),
        lambda found: found["columns"][0].update(source="somewhere"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(change):
    with pytest.raises(SchemaError, match="plan does not fit"):
        Plan.from_dict(broken(change), MIXED)


def test_pairs_must_form_trees_and_files_must_hold_plans(tmp_path):
    for pairs in (
        [("age", "age")],
        [("age", "town"), ("age", "town")],
        [("age", "town"), ("town", "weight"), ("weight", "age")],
    ):
        with pytest.raises(UsageError, match="must form trees"):
            public_plan(MIXED, pairs)
    with pytest.raises(UsageError, match="no column 'height'"):
        public_plan(MIXED, [("age", "height")])
    file = tmp_path / "plan.json"
    for text in ("{", "[]", '{"format": 1}'):
        file.write_text(text)
        with pytest.raises(UsageError, match="is no plan"):
            read_plan(file)
    with pytest.raises(UsageError, match="is no plan"):
        read_plan(tmp_path / "nowhere.json")
