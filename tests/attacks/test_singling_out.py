"""Singling out: predicates by hand, an identical copy, and a control that is fair to tables of unequal size."""

import numpy as np
import pytest

from sfumato.attacks.base import Abstain, Knowledge
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.attacks.singling_out import Predicates, SinglingOut, SinglingOutOneColumn
from sfumato.table import Column, Encoding, Schema

ENCODING = Encoding(
    Schema(
        (
            Column("age", "integer", low=0, high=100),
            Column("income", "numeric", low=0, high=1),
            Column("town", "categorical", categories=("a", "b", "c")),
        )
    )
)


def people(rows, seed):
    rng = np.random.default_rng(seed)
    town = np.eye(3)[rng.choice(3, size=rows, p=[0.6, 0.3, 0.1])]
    return np.column_stack([rng.integers(0, 101, rows) / 100, rng.random(rows), town])


def test_predicates_count_who_meets_all_conditions():
    X = np.array([[0.1, 0.2], [0.3, 0.9], [0.3, 0.4], [np.nan, 0.4]])
    found = Predicates(np.array([[0, 1], [0, 1]]), np.array([[0.3, 0.0], [0.0, 0.3]]), np.array([[1, 0.5], [1, 1.0]]))
    assert found.counts(X).tolist() == [1, 2], "a cell that is not reported meets nothing"
    assert found.alone(X).tolist() == [2, -1]


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("at_once", [7, 1_000_000])
def test_records_are_counted_as_one_by_one(columns, at_once, monkeypatch):
    """However many are looked at together, and where only a few of the rarest condition are looked at first."""
    monkeypatch.setattr("sfumato.attacks.singling_out.AT_ONCE", at_once)
    monkeypatch.setattr("sfumato.attacks.singling_out.WINDOW", 3)
    rng, X = np.random.default_rng(columns), people(150, 3)
    X[::7, 1] = np.nan
    slots, low = rng.integers(X.shape[1], size=(300, columns)), rng.uniform(-0.2, 1.0, (300, columns))
    said = Predicates(slots, low, low + rng.choice([-0.1, 0.02, 0.2, 9.0], low.shape))
    met = [
        np.flatnonzero(((X[:, at] >= low) & (X[:, at] <= high)).all(axis=1))
        for at, low, high in zip(said.slots, said.low, said.high, strict=True)
    ]
    assert said.counts(X).tolist() == [len(one) for one in met]
    assert said.alone(X).tolist() == [one[0] if len(one) == 1 else -1 for one in met]
    assert {0, 1, 2} < set(map(len, met))


def test_blocks_of_records_change_no_guess(monkeypatch):
    X = people(200, 3)
    before = [attack.run(Knowledge(X, ENCODING)) for attack in (SinglingOut(), SinglingOutOneColumn(50))]
    monkeypatch.setattr("sfumato.attacks.singling_out.AT_ONCE", 60)
    after = [attack.run(Knowledge(X, ENCODING)) for attack in (SinglingOut(), SinglingOutOneColumn(50))]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.slots, other.slots)
        np.testing.assert_array_equal(one.low, other.low)


@pytest.mark.parametrize("attack", [SinglingOut(), SinglingOutOneColumn()], ids=lambda attack: attack.name)
def test_a_copy_singles_out_everybody_it_names_and_strangers_tell_what_is_chance(attack):
    X, outside = people(300, 0), people(600, 1)
    guess = attack.run(Knowledge(X, ENCODING))
    assert (guess.counts(X) == 1).all()
    scored = score_guess(guess, Truth(X, ENCODING, rows=X, sample=outside, register=X))
    assert scored.score == 1.0
    assert scored.control < 0.6
    assert scored.baseline < 0.3


def test_the_control_is_fair_whether_strangers_are_many_or_few():
    """A fresh sample of the population is no risk, and 600 or 150 strangers say so on average; a copy is one."""
    found = []
    for seed in range(8):
        X, fresh = people(300, 100 + seed), people(300, 200 + seed)
        guess = SinglingOut().run(Knowledge(fresh, ENCODING))
        many, few = (
            score_guess(guess, Truth(X, ENCODING, rows=X, sample=people(rows, 300 + seed), register=X))
            for rows in (600, 150)
        )
        found.append((many.score, many.control, few.control))
        assert many.interval.low <= many.control, "no gain is claimed"
    score, many, few = np.mean(found, axis=0)
    assert many == pytest.approx(score, rel=0.2)
    assert few == pytest.approx(score, rel=0.35)
    copy = score_guess(
        SinglingOut().run(Knowledge(X, ENCODING)), Truth(X, ENCODING, rows=X, sample=people(150, 5), register=X)
    )
    assert copy.control < 0.65


def test_a_release_without_anything_unique_singles_out_nobody():
    X = np.tile(people(5, 0), (4, 1))
    assert len(SinglingOut().run(Knowledge(X, ENCODING))) == 0, "tried, and nothing to bet on"
    assert len(SinglingOutOneColumn().run(Knowledge(X, ENCODING))) == 0
    mixed = Knowledge(people(20, 0)[:, :2], ENCODING, columnwise=False)
    assert isinstance(SinglingOut().run(mixed), Abstain)


def test_a_share_does_not_rest_on_a_few_predicates():
    """One predicate that happens to be true of one person is no success of 1.000."""
    records = people(50, 0)
    one = Predicates(np.ones((1, 1), dtype=np.int64), records[:1, 1:2] - 1e-9, records[:1, 1:2] + 1e-9)
    found = score_guess(one, Truth(records, ENCODING, rows=records, register=records))
    assert (found.score, found.details["people_singled_out"]) == (0.1, 1.0)
    assert found.interval.low < 0.05
    none = score_guess(
        one.take(np.arange(0)), Truth(records, ENCODING, rows=records, sample=people(50, 1), register=records)
    )
    assert (none.score, none.baseline, none.control) == (0.0, 0.0, 0.0), "tried, and nothing to bet on"
    places = np.arange(12)
    many = Predicates(np.ones((12, 1), dtype=np.int64), records[places, 1:2] - 1e-9, records[places, 1:2] + 1e-9)
    assert score_guess(many, Truth(records, ENCODING, rows=records, register=records)).score == 1.0
