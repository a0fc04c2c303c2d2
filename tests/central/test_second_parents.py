"""Second parents: what one record changes, what is kept of three columns together, and where nobody looks for one."""

import json

import numpy as np
import pytest

from sfumato.core.errors import CardError
from sfumato.guarantee.cost import Central
from sfumato.mechanisms.central import model as model_room
from sfumato.mechanisms.central.column_codes import Budget
from sfumato.mechanisms.central.drawing import ModelColumn, Node, model_as_dict, model_from_dict
from sfumato.mechanisms.central.model import Expected, TreeModel, candidates, corrected, score_of_three
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "the form"}
NAMES = ("left", "right", "both", "tail")
THREES = Encoding(
    Schema(
        (
            *(Column(name, "numeric", low=0.0, high=1.0, **PUBLIC) for name in NAMES),
            Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
        )
    )
)


def twisted(n=4_000, seed=0):
    """`both` goes with `right`, upwards for people on the left and downwards for the others: no pair says so."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.5).astype(np.int64)
    left, right, tail = rng.random((3, n))
    right = 0.7 * right + 0.3 * left
    both = np.where(left < 0.5, right, 1 - right) * 0.7 + 0.3 * left
    return np.column_stack([left, right, both, 0.8 * both + 0.2 * tail]), y


def fitted(rho, n=4_000, parents=2, epsilon=1.0):
    X, y = twisted(n)
    model = TreeModel(THREES, Budget(rho, epsilon, np.random.default_rng(1)), 2, parents)
    while model.needs_counts:
        model.measure(model.count(X, y))
    return model


def slopes(X):
    """Correlation of `right` and `both`, on the left and on the right."""
    return [np.corrcoef(X[side, 1], X[side, 2])[0, 1] for side in (X[:, 0] < 0.45, X[:, 0] > 0.55)]


def test_what_three_columns_say_together_is_kept_and_one_parent_loses_it():
    assert slopes(twisted()[0]) == pytest.approx([1, -1], abs=0.1)
    drawn = {
        parents: fitted(5.0, parents=parents).drawn().draw(10_000, np.random.default_rng(2))[0] for parents in (1, 2)
    }
    left, right = slopes(drawn[2])
    assert left > 0.5
    assert right < -0.5
    assert np.subtract(*slopes(drawn[1])) < left - right - 0.3
    for column in range(4):
        assert drawn[2][:, column].mean() == pytest.approx(twisted()[0][:, column].mean(), abs=0.02)


def test_nobody_looks_for_a_second_parent_where_the_crowd_is_small():
    """The rule knows the noisy number of rows, the classes, the columns and the budget, and nothing else."""
    small = fitted(0.02, n=500)
    assert not small.threes
    assert not {one.what for one in small.budget.measured} & {"second", "triples"}
    large = fitted(5.0)
    assert large.threes
    assert {one.what for one in large.budget.measured} >= {"second", "triples"}
    assert Central.of(large.budget.measured, 1e-6).rho == pytest.approx(5.0, rel=0.02)


def test_what_second_parents_are_not_worth_goes_to_the_pairs(monkeypatch):
    """Nothing of the budget is left, and the pairs' noise is what both answers come to."""
    monkeypatch.setattr(model_room, "score_of_three", lambda *_: -1_000_000)
    spreads = []
    honest = model_room.pair_shares
    monkeypatch.setattr(model_room, "pair_shares", lambda *given: (spreads.append(given[-1]), honest(*given))[1])
    model = fitted(5.0)
    assert not model.threes
    assert Central.of(model.budget.measured, 1e-6).rho == pytest.approx(5.0, rel=1e-9)
    whole = len(model.chosen) / (2 * 5.0 * (0.22 + 0.15))  # the variance if both shares had been one
    assert spreads[-1] ** 2 == pytest.approx(whole)


def test_what_a_forest_without_edges_did_not_need_goes_to_the_columns(monkeypatch):
    monkeypatch.setattr(model_room, "score", lambda *_: -1_000_000)
    model = fitted(0.5)
    assert not model.chosen
    assert Central.of(model.budget.measured, 1e-6).rho == pytest.approx(0.5, rel=1e-9)
    shares = sum(one.rho for one in model.budget.measured if one.what.startswith("columns")) / 0.5
    assert shares == pytest.approx(0.38 + 0.42)
    assert model.spread**2 == pytest.approx(4 / (2 * 0.5 * shares))  # the variance if both shares had been one


def test_one_record_changes_one_count_and_every_score_by_one_at_most():
    X, y = twisted()
    model = TreeModel(THREES, Budget(5.0, 1.0, np.random.default_rng(1)), 2)
    model.measure(model.count(X, y))
    while all(len(key) < 3 for key in model.count(X[:9], y[:9]).tables):
        model.measure(model.count(X, y))
    whole, less = model.count(X, y), model.count(X[1:], y[1:])
    assert all(len(key) == 3 for key in whole.tables)
    forest = Expected(model.columns, model.nodes, model.tables, model.sizes)
    for key, table in whole.tables.items():
        assert np.abs(table - less.tables[key]).sum() == 1
        expected = forest.counts(key)
        assert abs(score_of_three(table, expected, 3.0) - score_of_three(less.tables[key], expected, 3.0)) <= 1


def test_what_is_expected_follows_the_path_between_columns():
    """Against brute force: the joint law of a chain, summed over what is not asked for."""
    rng = np.random.default_rng(0)
    size, sizes = 3, np.array([40.0, 60.0])
    first = rng.dirichlet(np.ones(size), 2)
    steps = {column: rng.dirichlet(np.ones(size), (2, size)) for column in (1, 2, 3)}
    law, shares = first, [first]
    for column in (1, 2, 3):
        shares.append(np.einsum("yb,ybc->yc", shares[-1], steps[column]))
        law = law[..., None] * steps[column].reshape(2, *[1] * (law.ndim - 2), size, size)
    columns = [ModelColumn(None, model_room.Bins.each(size), share) for share in shares]
    nodes = [Node(0), Node(1, (0,)), Node(2, (1,)), Node(3, (2,))]
    expected = Expected(columns, nodes, steps, sizes)
    np.testing.assert_allclose(expected.counts((2, 0, 3)), sizes[:, None, None, None] * np.einsum("yabcd->ycad", law))
    asked = [[(parent, *others) for parent, *others in some] for some in candidates(nodes)]
    assert asked == [[(1, 0, 2)], [(2, 1, 3), (2, 0, 3)]]


def test_a_correction_agrees_with_both_pairs_and_noise_alone_corrects_nothing():
    rng = np.random.default_rng(0)
    columns = [ModelColumn(None, model_room.Bins.each(2), np.full((1, 2), 0.5))] * 3
    pair = np.array([[[0.7, 0.3], [0.2, 0.8]]])
    expected = 1_000 * np.einsum("b,ba,ybc->ybac", [0.5, 0.5], [[0.6, 0.4], [0.5, 0.5]], pair)
    truth = expected + 30 * np.array([[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]])
    found = corrected(pair, truth, expected, columns, 1.0)
    np.testing.assert_allclose(found, truth / truth.sum(axis=3, keepdims=True), atol=0.02)
    margin = np.einsum("ba,ybac->ybc", [[0.6, 0.4], [0.5, 0.5]], found)
    np.testing.assert_allclose(margin, pair, atol=1e-4)
    noisy = expected + rng.normal(0, 1, expected.shape)
    np.testing.assert_allclose(
        corrected(pair, noisy, expected, columns, 50.0), pair[:, :, None, :] * [[[1], [1]]], atol=1e-6
    )


def test_a_model_with_second_parents_is_read_back_and_checked():
    drawn = fitted(5.0).drawn()
    found = json.loads(json.dumps(model_as_dict(drawn)))
    again = model_from_dict(found, THREES)
    a, b = (one.draw(500, np.random.default_rng(0))[0] for one in (drawn, again))
    np.testing.assert_array_equal(a, b)
    column = next(node.column for node in drawn.nodes if len(node.parents) == 2)
    bent = {**found, "order": [[c, parents * 2 if c == column else parents] for c, parents in found["order"]]}
    with pytest.raises(CardError, match="edited or is damaged"):
        model_from_dict(bent, THREES)
    rough = [{**one, "rough": [0] * len(one["rough"])} for one in found["columns"]]
    with pytest.raises(CardError, match="edited or is damaged"):
        model_from_dict({**found, "columns": rough}, THREES)
