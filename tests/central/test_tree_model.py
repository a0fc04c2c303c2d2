"""The noisy model of a table: what each step may see, what one record changes, and what is kept of the table."""

from itertools import combinations

import numpy as np
import pytest

from sfumato.guarantee.cost import Central
from sfumato.mechanisms.central.column_codes import Bins, Budget, Chooser, FineColumn, halved, merged
from sfumato.mechanisms.central.drawing import Alias, in_drawing_order, on_simplex, pair_shares, score, spanning_forest
from sfumato.mechanisms.central.model import TreeModel
from sfumato.table import Column, Encoding, Schema
from sfumato.table.statistics import Counts

PUBLIC = {"source": "public", "reason": "the form"}
MIXED = Encoding(
    Schema(
        (
            Column("age", "integer", low=0, high=99, **PUBLIC),
            Column("weight", "numeric", low=0.0, high=200.0, missing=True, **PUBLIC),
            Column("town", "categorical", categories=("a", "b", "c"), missing=True, **PUBLIC),
            Column("flat", "numeric", low=3.0, high=3.0, **PUBLIC),
            Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
        )
    )
)


def people(n=4_000, seed=0):
    """Age and weight belong together, town and illness too; some cells are missing."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, MIXED.width))
    y = (rng.random(n) < 0.3).astype(np.int64)
    age = np.rint(np.clip(rng.normal(45 + 15 * y, 12), 0, 99))
    X[:, 0] = age / 99
    X[:, 1] = np.clip(0.2 + age / 200 + rng.normal(0, 0.03, n), 0, 1)
    missing = rng.random(n) < 0.1
    X[missing, 1] = 0.5
    X[:, 2] = missing
    town = np.where(rng.random(n) < 0.7, y, rng.integers(0, 4, n))
    X[np.arange(n), 3 + town] = 1.0
    X[:, 7] = 0.5
    return X, y


def fitted(X, y, rho, seed=1, epsilon=1.0):
    model = TreeModel(MIXED, Budget(rho, epsilon, np.random.default_rng(seed)), 2)
    while model.needs_counts:
        model.measure(model.count(X, y))
    return model


def test_a_generous_budget_gives_the_table_back_in_distribution():
    X, y = people()
    Z, z = fitted(X, y, rho=50.0).drawn().draw(20_000, np.random.default_rng(2))
    assert z.mean() == pytest.approx(y.mean(), abs=0.015)
    assert Z[:, 2].mean() == pytest.approx(X[:, 2].mean(), abs=0.015)
    for column in (0, 3, 4, 5, 6):
        assert Z[:, column].mean() == pytest.approx(X[:, column].mean(), abs=0.02)
    there, drawn = X[:, 2] == 0, Z[:, 2] == 0
    assert np.corrcoef(X[there, 0], X[there, 1])[0, 1] > 0.8
    assert np.corrcoef(Z[drawn, 0], Z[drawn, 1])[0, 1] > 0.7  # the tree kept what belongs together
    assert set(np.unique(Z[:, 3:7].sum(axis=1))) == {1.0}
    assert (Z[Z[:, 2] == 1, 1] == 0.5).all()
    assert (Z[:, 7] == 0.5).all()
    ages = Z[:, 0] * 99
    np.testing.assert_allclose(ages, np.rint(ages), atol=1e-9)


@pytest.mark.parametrize(("rho", "delta"), [(0.02, 1e-6), (1.0, 1e-6), (None, 0.0)])
def test_no_more_is_spent_than_there_is(rho, delta):
    for seed in range(3):
        X, y = people(2_000, seed)
        model = fitted(X, y, rho, seed)
        spent = Central.of(model.budget.measured, delta)
        assert spent.rho <= (rho or 0) * (1 + 1e-9)
        assert spent.pure <= (0 if rho else 1) * (1 + 1e-9)
        assert (spent.rho or spent.pure) > 0.5 * (rho or 1)


def test_one_record_changes_one_count_of_every_table_by_one():
    X, y = people(300)
    model = TreeModel(MIXED, Budget(5.0, 1.0, np.random.default_rng(0)), 2)
    whole, less = model.count(X, y), model.count(X[1:], y[1:])
    for key, table in whole.tables.items():
        assert np.abs(table - less.tables[key]).sum() == 1
    model.measure(whole)
    whole, less = model.count(X, y), model.count(X[1:], y[1:])
    for key, table in whole.tables.items():
        assert np.abs(table - less.tables[key]).sum() == 1


def test_one_record_changes_every_score_by_one_at_most():
    rng = np.random.default_rng(0)
    for _ in range(50):
        table = rng.integers(0, 9, (2, 3, 4))
        first, second = rng.random((2, 3)) * 30, rng.random((2, 4)) * 30
        more = table.copy()
        more[tuple(rng.integers(0, size) for size in table.shape)] += 1
        assert abs(score(more, first, second, 2.0) - score(table, first, second, 2.0)) <= 1
        fine = rng.integers(0, 5, 40)
        plus = fine.copy()
        plus[rng.integers(40)] += 1
        for cells, others in ((fine, plus),):
            a, b = (np.abs(2 * np.cumsum(c)[:-1] - c.sum()) for c in (cells, others))
            assert np.abs(a - b).max() <= 1


def test_counts_add_up_over_blocks():
    X, y = people(1_000)
    model = TreeModel(MIXED, Budget(5.0, 1.0, np.random.default_rng(0)), 2)
    whole, parts = (
        model.count(X, y),
        [model.count(X[s : s + 300], y[s : s + 300]) for s in range(0, 1_000, 300)],
    )
    total = sum(parts[1:], parts[0])
    assert isinstance(total, Counts)
    for key, table in whole.tables.items():
        np.testing.assert_array_equal(table, total.tables[key])


def test_halving_finds_quartiles_and_prefers_them_only_as_much_as_it_may():
    fine = np.bincount(np.minimum(np.random.default_rng(0).exponential(100, 5_000).astype(int), 1023), minlength=1024)
    ends = halved(fine, 2, Chooser(np.random.default_rng(1), 2.0))
    shares = np.add.reduceat(fine, [0, *ends]) / fine.sum()
    np.testing.assert_allclose(shares, 0.25, atol=0.02)
    blind = halved(fine, 1, Chooser(np.random.default_rng(1), 1e-9))
    assert 1 <= blind[0] < 1024


def test_the_forest_joins_what_depends_and_stops_where_nothing_does():
    strong = {(0, 1): 500, (1, 2): 400, (0, 2): 300, (2, 3): -50, (1, 3): -60, (0, 3): -70}
    assert spanning_forest(strong, 4, Chooser(np.random.default_rng(0), 5.0)) == [(0, 1), (1, 2)]
    nodes = in_drawing_order([(0, 1), (1, 2)], 4)
    assert [node.column for node in nodes if not node.parents] == [0, 3]
    seen = set()
    for node in nodes:
        assert seen.issuperset(node.parents)
        seen.add(node.column)
    assert seen == {0, 1, 2, 3}


def test_pairs_come_in_several_passes_where_memory_is_short(monkeypatch):
    monkeypatch.setattr("sfumato.mechanisms.central.column_codes.MOST_CELLS", 100)
    X, y = people(3_000)
    model = fitted(X, y, rho=20.0)
    assert any(node.parents for node in model.nodes)
    assert Central.of(model.budget.measured, 1e-6).rho <= 20.0 * (1 + 1e-9)


def test_alias_tables_draw_their_probabilities():
    shares = np.array([[0.1, 0.0, 0.6, 0.3], [0.25, 0.25, 0.25, 0.25]])
    states = np.repeat([0, 1], 100_000)
    drawn = Alias.of(shares).draw(states, np.random.default_rng(0))
    for state in (0, 1):
        found = np.bincount(drawn[states == state], minlength=4) / 100_000
        np.testing.assert_allclose(found, shares[state], atol=0.006)


def test_projection_and_raking():
    values = np.array([3.0, -1.0, 0.5, 2.0])
    found = on_simplex(values, 4.0)
    assert found.sum() == pytest.approx(4.0)
    assert (found >= 0).all()
    best = min(((values - x) ** 2).sum() for x in np.random.default_rng(0).dirichlet(np.ones(4), 20_000) * 4.0)
    assert ((values - found) ** 2).sum() <= best + 1e-9
    table = np.array([[[30.0, 5.0], [5.0, 60.0]]])
    shares = pair_shares(table, np.array([[0.4, 0.6]]), np.array([[0.35, 0.65]]), np.array([100.0]), 0.01)
    np.testing.assert_allclose(shares.sum(axis=2), 1.0)
    np.testing.assert_allclose(np.array([[0.4, 0.6]]) @ shares[0], [[0.35, 0.65]], atol=1e-3)


def test_codes_cover_every_value_and_nothing_else():
    fine = [FineColumn(group) for group in MIXED.groups]
    assert [one.size for one in fine] == [100, 1025, 4, 1]
    X, _ = people(500)
    for one in fine:
        codes = one.codes(X)
        assert codes.min() >= 0
        assert codes.max() < one.size
    assert merged(np.array([5.0, 1.0, 9.0, 2.0]), 3, ordered=False, missing=False).of.tolist() == [1, 2, 0, 2]
    runs = merged(np.array([1.0, 1.0, 1.0, 1.0, 7.0]), 3, ordered=True, missing=True)
    assert runs.of.tolist() == [0, 0, 1, 1, 2]
    assert Bins.runs([2, 5], 8, missing=True).of.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize("rows", [40, 20_000], ids=["few", "many"])
def test_counts_are_those_of_every_set_alone(rows):
    """Where rows are many, sets are sums of larger ones: whatever the order of a set's columns, and with classes."""
    rng = np.random.default_rng(rows)
    sizes = {place: int(size) for place, size in enumerate(rng.integers(2, 9, 7))}
    codes = {place: rng.integers(0, size, rows) for place, size in sizes.items()}
    classes = rng.integers(0, 3, rows)
    wanted = [(place,) for place in sizes] + [(b, a) if a % 2 else (a, b) for a, b in combinations(range(7), 2)]
    wanted = [one for one in wanted if one != (0, 6)] + [(2, 0, 1), (0, 1, 3), (3, 1, 2), (6, 5, 4)]
    found = Counts.of(codes, sizes, classes, 3, wanted).tables
    assert list(found) == wanted
    for key, table in found.items():
        expected = np.zeros((3, *(sizes[place] for place in key)), dtype=np.int64)
        np.add.at(expected, (classes, *(codes[place] for place in key)), 1)
        np.testing.assert_array_equal(table, expected)
