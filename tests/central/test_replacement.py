"""What one record changes, measured draw by draw: the same answers are replayed on a neighbouring table.

A fit asks for counts and for choices, and what it asks depends on earlier answers. Two fits that are given the same
answers ask for the same things, so what one record changes in each is seen directly: the squared distance of counts,
and the change of scores. The costs on the card follow from these two, for a record that comes or goes and for one that
is replaced.
"""

import numpy as np
import pytest

from sfumato.central.budget import Budget, Chooser, replacing_costs
from sfumato.central.model import TreeModel
from sfumato.channels.measured import Measurement
from sfumato.guarantee.concentrated import Central, epsilon_of, rho_for
from sfumato.mechanisms import make_mechanism
from sfumato.table import Column, Encoding, Schema

KNOWN = {"source": "public", "reason": "the form"}
ENCODING = Encoding(
    Schema(
        (
            *(Column(f"n{j}", "numeric", low=0.0, high=1.0, **KNOWN) for j in range(3)),
            Column("c", "categorical", categories=("a", "b", "c"), **KNOWN),
        )
    )
)
RHO = 50.0


class Replayed(Budget):
    """Hands out the answers of an earlier fit, if there was one, and notes what was asked."""

    def __init__(self, before=None):
        super().__init__(RHO, 0.0, np.random.default_rng(3))
        self.before, self.asked = before, []

    def count(self, what, share, tables):
        answers = super().count(what, share, tables) if self.before is None else self._answer(what)
        self.asked.append((what, [table.copy() for table in tables], answers))
        return answers

    def chooser(self, what, share, times):
        honest = super().chooser(what, share, times)
        return _Noting(self, what, honest)

    def _answer(self, what):
        name, _, answers = self.before.asked[len(self.asked)]
        assert name == what
        return answers


class _Noting(Chooser):
    def __init__(self, budget, what, honest):
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "what", what)
        object.__setattr__(self, "honest", honest)

    def choose(self, scores):
        pick = self.honest.choose(scores) if self.budget.before is None else self.budget._answer(self.what)
        self.budget.asked.append((self.what, np.asarray(scores).copy(), pick))
        return pick


def rows(n, seed):
    rng = np.random.default_rng(seed)
    base = rng.random((n, 1))
    numbers = np.clip(0.7 * base + 0.3 * rng.random((n, 3)), 0, 1)
    category = np.eye(3)[rng.integers(0, 3, n)]
    return np.hstack([numbers, category]), rng.integers(0, 2, n)


def fitted(X, y, before=None):
    budget = Replayed(before)
    model = TreeModel(ENCODING, budget, 2, 2)
    model.measure_columns(model.count_columns(X, y))
    while model.needs_tables:
        model.measure_tables(model.count_tables(X, y))
    return budget


def changes(first, second):
    """By kind: the sum of squared differences of counts over all tables, and the largest change of a score."""
    counts, scores = {}, {}
    for (what, one, _), (_, other, _) in zip(first.asked, second.asked, strict=True):
        if isinstance(one, list):
            apart = sum(int(((a - b) ** 2).sum()) for a, b in zip(one, other, strict=True))
            counts[what] = (apart, len(one))
        else:
            scores[what] = max(scores.get(what, 0), int(np.abs(one - other).max()))
    return counts, scores


def test_what_one_record_changes_in_every_draw():
    """At most what the costs say, and no less than that somewhere: a claim 30% below would be found out."""
    worst, seen = {}, set()
    for seed in range(30):
        X, y = rows(1_200, seed)
        first = fitted(X, y)
        other, label = rows(1, 1_000 + seed)
        neighbours = {
            "comes": (np.vstack([X, other]), np.append(y, label)),
            "goes": (X[1:], y[1:]),
            "replaced": (np.vstack([other, X[1:]]), np.append(label, y[1:])),
        }
        for way, table in neighbours.items():
            most = 2 if way == "replaced" else 1
            counts, scores = changes(first, fitted(*table, before=first))
            for what, (apart, tables) in counts.items():
                assert apart <= most * tables
                worst[way, what] = max(worst.get((way, what), 0.0), apart / tables)
            for what, change in scores.items():
                assert change <= most
                worst[way, what] = max(worst.get((way, what), 0), change)
            seen |= counts.keys() | scores.keys()
    assert seen >= {"rows", "edges", "columns", "forest", "pairs", "second"}
    for what in seen - {"rows", "triples", "pairs again", "columns again"}:
        assert worst["replaced", what] == 2, what
        assert max(worst["comes", what], worst["goes", what]) == 1, what
    assert worst["replaced", "rows"] == 0  # it is charged as any other count: a person's number of rows may differ


def test_costs_of_a_replaced_record_follow_from_what_it_changes():
    """A squared distance of 2 for counts, scores that move by 2 for choices; checked as divergences of the noise."""
    counts, choice = Measurement("columns", "gaussian", 1, 9.0), Measurement("edges", "choice", 1, 0.3)
    near = -(np.arange(-60, 61) ** 2) / 18.0
    near -= np.log(np.exp(near).sum())
    for alpha in (1.5, 2.0, 8.0):  # two cells, each moved by 1: the divergence is the sum of both
        one = np.log(np.exp(alpha * near[1:-1] + (1 - alpha) * near[:-2]).sum()) / (alpha - 1)
        assert 2 * one <= alpha * counts.rho_replaced * (1 + 1e-9)
        assert 2 * one > alpha * counts.rho_replaced * 0.7
    scores = np.array([0.0, 0.0])
    before, after = (_soft(0.15 * one) for one in (scores, np.array([2.0, -2.0])))
    assert (
        np.log(before / after).max() - np.log(before / after).min() <= 2 * 0.3 + 1e-12
    )  # a bounded range of 2 epsilon
    assert choice.rho_replaced == pytest.approx((2 * 0.3) ** 2 / 8)
    assert Measurement("scores", "gaussian", 1, 9.0).rho_replaced == 4 * counts.rho


def _soft(values):
    odds = np.exp(values - values.max())
    return odds / odds.sum()


@pytest.mark.parametrize(("parents", "forest"), [(2, True), (1, True), (2, False)])
def test_values_never_cost_more_than_was_planned(parents, forest):
    delta, wanted = 1e-6, 2.0
    multiple = replacing_costs(parents if forest else 0)
    presence = epsilon_of(rho_for(wanted, delta) / multiple, delta)
    mechanism = make_mechanism(
        "tree-resampling", {"epsilon": presence, "delta": delta, "parents": parents, "forest": forest}
    )
    X, y = rows(4_000, 1)
    labelled = Column("y", "categorical", role="label", categories=("0", "1"), **KNOWN)
    encoding = Encoding(Schema((*ENCODING.schema.columns, labelled)))
    mechanism.fit(X, y, encoding=encoding)
    spent = Central.of(mechanism.recipe_.measured, delta)
    assert spent.value.epsilon <= mechanism.planned.value.epsilon <= wanted * (1 + 1e-9)
    assert spent.value.epsilon > 0.9 * wanted
    assert 2.0 * spent.rho <= spent.rho_replaced < 2.5 * spent.rho


def test_what_is_not_stated_costs_four_times_rho():
    """Cards and ledgers of 0.2, alone and added to what states its own."""
    old = Central.from_dict({"epsilon": 1.0, "delta": 1e-6, "rho": 0.02, "pure": 0.0})
    new = Central(rho=0.02, delta=1e-6, replaced=0.048)
    assert old.value == old.group(2)
    assert (old + new).rho_replaced == pytest.approx(0.128)
    assert Central.from_dict(new.to_dict()) == new
    assert Central.from_dict({**new.to_dict(), "rho_replaced": 0.01}).rho_replaced == pytest.approx(0.08)
    assert Central(pure=1.0).value.epsilon == 2.0
