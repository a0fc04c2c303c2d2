"""What a replaced record costs follows from what it changes in every draw, which `test_each_draw` measures."""

import numpy as np
import pytest

from sfumato.channels.recipe import Measurement
from sfumato.guarantee.cost import Central, epsilon_of, rho_for
from sfumato.guarantee.rounding import rounded_up
from sfumato.mechanisms import make_mechanism
from sfumato.mechanisms.central.column_codes import replacing_costs
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


def rows(n, seed):
    rng = np.random.default_rng(seed)
    base = rng.random((n, 1))
    numbers = np.clip(0.7 * base + 0.3 * rng.random((n, 3)), 0, 1)
    category = np.eye(3)[rng.integers(0, 3, n)]
    return np.hstack([numbers, category]), rng.integers(0, 2, n)


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


@pytest.mark.parametrize("wanted", [0.672, 1.0, 1.5, 2.0, 4.0, 6.0])
def test_an_epsilon_that_was_asked_for_is_not_shown_as_more(wanted):
    """Rounding must not make 2.01 of 2."""
    found = make_mechanism("tree-resampling", {"delta": 1e-6}).strength_for_values(wanted)
    planned = make_mechanism("tree-resampling", {**found, "delta": 1e-6}).planned.value.epsilon
    assert planned <= wanted
    assert rounded_up(planned) == f"{wanted:g}"
