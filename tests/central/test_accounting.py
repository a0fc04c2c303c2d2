"""Faults that no canary sees: something measured twice, noise from floats, choices that nobody paid for."""

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest
from test_second_parents import THREES, fitted, twisted

import sfumato.mechanisms.central
from sfumato.guarantee.cost import Central
from sfumato.mechanisms.central import column_codes, model
from sfumato.mechanisms.central.column_codes import Budget, Chooser
from sfumato.mechanisms.central.model import TreeModel
from sfumato.noise import Streams

ROOM = Path(sfumato.mechanisms.central.__file__).parent
PURE = 40.0
FLOAT_NOISE = {"normal", "standard_normal", "laplace", "gumbel", "exponential", "logistic", "choice", "multinomial"}


@pytest.fixture(params=[2.0, None], ids=["gaussian", "laplace"])
def rho(request):
    return request.param


def fit(rho):
    """Every kind of measurement is made, a second parent's too."""
    found = fitted(rho, n=3_000, epsilon=PURE)
    assert found.chosen
    assert found.threes
    return found


@pytest.mark.parametrize("memory", [1 << 24, 100])
def test_every_table_that_gets_noise_is_paid_for_once(monkeypatch, rho, memory):
    """All noise goes through two functions; what they were asked for is what stands on the card."""
    monkeypatch.setattr(column_codes, "MOST_CELLS", memory)
    drawn = []
    for name in ("discrete_gaussian", "discrete_laplace_of"):
        honest = getattr(column_codes, name)

        def noted(rng, strength, shape, honest=honest):
            drawn.append((strength, shape))
            return honest(rng, strength, shape)

        monkeypatch.setattr(column_codes, name, noted)
    fitted = fit(rho)
    counted = [one for one in fitted.budget.measured if one.way != "choice"]
    assert [one.what for one in counted] == ["rows", "columns", "pairs", "triples"]
    assert [(one.strength) for one in counted] == [strength for strength, _ in drawn]
    for one, (_, cells) in zip(counted, drawn, strict=True):
        answers = fitted.budget.answers[one.what]
        assert one.times == len(answers)
        assert cells == sum(table.size for table in answers)
        assert all(table.dtype == np.int64 for table in answers)  # whole numbers, as they were drawn


def test_every_choice_is_paid_for(monkeypatch, rho):
    """Intervals of one level are disjoint and cost one choice; every edge of the forest and every second parent costs
    one."""
    levels, asked = [], []
    honest, forest = model.halved, Chooser.choose

    def halved(fine, depth, chooser):
        levels.append((depth, chooser.epsilon))
        return honest(fine, depth, Chooser(chooser.rng, chooser.epsilon))

    def choose(self, scores):
        asked.append(self.epsilon)
        return forest(self, scores)

    monkeypatch.setattr(model, "halved", halved)
    monkeypatch.setattr(Chooser, "choose", choose)
    paid = {one.what: one for one in fit(rho).budget.measured if one.way == "choice"}
    assert set(paid) == {"edges", "forest", "second"}
    assert 0 < sum(times for times, _ in levels) <= paid["edges"].times
    assert {epsilon for _, epsilon in levels} == {paid["edges"].strength}
    for name in set(paid) - {"edges"}:
        assert 0 < sum(epsilon == paid[name].strength for epsilon in asked) <= paid[name].times
    assert set(asked) <= {one.strength for one in paid.values()}


def test_the_sum_of_all_is_what_there_is(rho):
    found = Central.of(fit(rho).budget.measured, 1e-6 if rho else 0.0)
    assert 0.9 * (rho or PURE) < (found.rho if rho else found.pure) <= (rho or PURE) * (1 + 1e-9)


def calls(path):
    tree = ast.parse(path.read_text())
    made = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "") for called in made}


def test_no_noise_is_drawn_from_floats_and_only_the_budget_draws_any():
    for path in ROOM.glob("*.py"):
        assert not calls(path) & FLOAT_NOISE, path.name
        if path.name != "column_codes.py":
            assert not {"discrete_gaussian", "discrete_laplace_of", "exponential_choice"} & calls(path), path.name
    assert {"exponential_choice"} <= calls(ROOM / "column_codes.py")
    for name in ("model.py", "scoring.py", "plan.py"):
        assert "random" not in calls(ROOM / name)  # a fit draws nothing else


def test_a_model_that_travels_to_the_rows_takes_no_secret_along():
    """Spark's executors count with a copy of it; its generator refuses to be copied."""
    streams = Streams()
    own = Budget(1.0, 1.0, streams.generator(0, b"", b"fit"))
    copy = pickle.loads(pickle.dumps(own))
    assert own.rng is not None
    assert copy.rng is None
    assert copy.spread(0.5, 1) == own.spread(0.5, 1)


def test_a_model_keeps_nothing_exact(rho):
    """After the fit no attribute holds counts of the table."""
    found = fit(rho)
    assert found._steps.gi_frame is None  # which held the exact counts
    assert set(vars(found)) - {"_steps", "_next"} == {
        "encoding", "budget", "classes", "parents", "rows", "spread", "columns", "nodes", "tables", "fine", "sizes",
        "chosen", "threes",
    }  # fmt: skip


def test_a_model_that_travels_half_way_through_takes_no_exact_counts_along():
    X, y = twisted(1_000)
    found = TreeModel(THREES, Budget(5.0, PURE, np.random.default_rng(1)), 2)
    found.measure(found.count(X, y))
    copy = pickle.loads(pickle.dumps(found))
    assert copy._steps is None
    for key, table in found.count(X, y).tables.items():
        np.testing.assert_array_equal(copy.count(X, y).tables[key], table)
