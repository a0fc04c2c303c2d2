"""Faults that no canary sees: something measured twice, noise from floats, choices that nobody paid for."""

import ast
from pathlib import Path

import numpy as np
import pytest
from test_tree_model import MIXED, people

import sfumato.central
from sfumato.central import budget, model
from sfumato.central.budget import Budget, Chooser
from sfumato.central.model import TreeModel
from sfumato.guarantee.concentrated import Central

ROOM = Path(sfumato.central.__file__).parent
FLOAT_NOISE = {"normal", "standard_normal", "laplace", "gumbel", "exponential", "logistic", "choice", "multinomial"}


@pytest.fixture(params=[2.0, None], ids=["gaussian", "laplace"])
def rho(request):
    return request.param


def fit(rho, short_of_memory=False):
    X, y = people(3_000)
    fitted = TreeModel(MIXED, Budget(rho, 4.0, np.random.default_rng(1)), 2)
    fitted.measure_columns(fitted.count_columns(X, y))
    while fitted.needs_pairs:
        fitted.measure_pairs(fitted.count_pairs(X, y))
    assert short_of_memory or fitted.chosen
    return fitted


@pytest.mark.parametrize("memory", [1 << 24, 100])
def test_every_table_that_gets_noise_is_paid_for_once(monkeypatch, rho, memory):
    """All noise goes through two functions; what they were asked for is what stands on the card."""
    monkeypatch.setattr(model, "MOST_CELLS", memory)
    drawn = []
    for name in ("discrete_gaussian", "discrete_laplace_of"):
        honest = getattr(budget, name)

        def noted(rng, strength, shape, honest=honest):
            drawn.append((strength, shape))
            return honest(rng, strength, shape)

        monkeypatch.setattr(budget, name, noted)
    fitted = fit(rho)
    counted = [one for one in fitted.budget.measured if one.way != "choice"]
    assert [one.what for one in counted] == ["rows", "columns", "pairs"]
    assert [(one.strength) for one in counted] == [strength for strength, _ in drawn]
    for one, (_, cells) in zip(counted, drawn, strict=True):
        answers = fitted.budget.answers[one.what]
        assert one.times == len(answers)
        assert cells == sum(table.size for table in answers)
        assert all(table.dtype == np.int64 for table in answers)  # whole numbers, as they were drawn


def test_every_choice_is_paid_for(monkeypatch, rho):
    """Intervals of one level are disjoint and cost one choice; every edge of the forest costs one."""
    levels, edges = [], []
    honest, forest = model.halved, model.spanning_forest

    def halved(fine, depth, chooser):
        levels.append((depth, chooser.epsilon))
        return honest(fine, depth, chooser)

    def grown(scores, columns, chooser):
        counting = Counted(chooser.rng, chooser.epsilon)
        found = forest(scores, columns, counting)
        edges.extend((1, chooser.epsilon) for _ in range(counting.calls[0]))
        return found

    monkeypatch.setattr(model, "halved", halved)
    monkeypatch.setattr(model, "spanning_forest", grown)
    paid = {one.what: one for one in fit(rho).budget.measured if one.way == "choice"}
    for name, used in (("edges", levels), ("forest", edges)):
        assert 0 < sum(times for times, _ in used) <= paid[name].times
        assert {epsilon for _, epsilon in used} == {paid[name].strength}


class Counted(Chooser):
    """Counts how often it was asked."""

    calls = None

    def __init__(self, rng, epsilon):
        super().__init__(rng, epsilon)
        object.__setattr__(self, "calls", [0])

    def choose(self, scores):
        self.calls[0] += 1
        return super().choose(scores)


def test_the_sum_of_all_is_what_there_is(rho):
    found = Central.of(fit(rho).budget.measured, 1e-6 if rho else 0.0)
    assert 0.9 * (rho or 4.0) < (found.rho if rho else found.pure) <= (rho or 4.0) * (1 + 1e-9)


def calls(path):
    tree = ast.parse(path.read_text())
    made = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "") for called in made}


def test_no_noise_is_drawn_from_floats_and_only_the_budget_draws_any():
    for path in ROOM.glob("*.py"):
        assert not calls(path) & FLOAT_NOISE, path.name
        if path.name != "budget.py":
            assert not {"discrete_gaussian", "discrete_laplace_of", "exponential_choice"} & calls(path), path.name
    assert {"exponential_choice"} <= calls(ROOM / "budget.py")
    assert "random" not in calls(ROOM / "model.py")  # a fit draws nothing else


def test_a_model_keeps_nothing_exact(rho):
    """After the fit no attribute holds counts of the table."""
    fitted = fit(rho)
    assert not fitted._kept
    assert not fitted._scores
    assert set(vars(fitted)) - {"_scores", "_kept", "_waiting", "_pairs", "_keep_all", "_spread"} == {
        "encoding", "budget", "classes", "forest", "rows", "spread", "columns", "nodes", "tables", "fine", "sizes",
    }  # fmt: skip
