"""What every single draw tells: how much one record changes what it is asked, against the noise that it adds.

A fit is a chain of draws, each of which may look at all earlier answers. So a table is fitted, and then fitted again
with one record less or more while every draw gives the answer that it gave before: what differs are the questions
alone, and their distance over the noise is what the draw costs. A fault in one draw does not hide behind the others.
"""

import numpy as np
import pytest
from scipy import stats
from test_noisy_counts import PLAN
from test_replacement import ENCODING, rows
from test_scores import PLAN as SCORED
from test_second_parents import THREES, twisted
from test_tree_model import MIXED, people

from sfumato.mechanisms.central import column_codes as budget_room
from sfumato.mechanisms.central import model as model_room
from sfumato.mechanisms.central.column_codes import Budget, Chooser, quantiles
from sfumato.mechanisms.central.model import TreeModel
from sfumato.mechanisms.central.plan import PlannedModel
from sfumato.mechanisms.central.scoring import ScoringModel

PURE = 40.0


class Tape:
    """The questions and the noise of every draw in order; played again, it also knows the answers."""

    def __init__(self, patch):
        self.draws, self.answers, self.place = [], [], None
        self._strength = self._kind = None
        for name in ("discrete_gaussian", "discrete_laplace_of"):
            patch.setattr(budget_room, name, self._noise(getattr(budget_room, name)))
        patch.setattr(budget_room, "exponential_choice", self._choice(budget_room.exponential_choice))
        patch.setattr(Budget, "count", self._count(Budget.count))
        patch.setattr(Budget, "chooser", self._chooser(Budget.chooser))

    def play(self, fit):
        """The draws of a fit; from the second one on, with the answers of the first."""
        self.draws, self.place = [], 0 if self.answers else None
        return fit(), self.draws

    def _answered(self, what, way, asked, strength, answer):
        self.draws.append((what, way, asked, strength))
        if self.place is None:
            self.answers.append(answer)
            return answer
        self.place += 1
        return self.answers[self.place - 1]

    def _noise(self, honest):
        def drawn(rng, strength, shape):
            self._strength = strength
            return honest(rng, strength, shape)

        return drawn

    def _count(self, honest):
        def count(budget, what, share, tables):
            asked = [np.array(table) for table in tables]
            noisy = honest(budget, what, share, tables)
            if not tables:
                return noisy
            way = "gaussian" if budget.rho is not None else "laplace"
            budget.answers[what] = self._answered(what, way, asked, self._strength, noisy)
            return budget.answers[what]

        return count

    def _chooser(self, honest):
        def chooser(budget, what, share, times):
            self._kind = what
            return honest(budget, what, share, times)

        return chooser

    def _choice(self, honest):
        def choice(rng, scores, weight):
            return self._answered(self._kind, "choice", np.array(scores), weight, honest(rng, scores, weight))

        return choice


def cost(draw, other, pure):
    """Rho of one draw, or its epsilon (`pure`), for two tables: how far its questions are apart over its noise.

    P(j) proportional to exp(w score) has epsilon 2 w times the largest change of a score, and epsilon^2 / 8 of rho.
    """
    (what, way, asked, strength), (same, _, others, equal) = draw, other
    assert (what, strength) == (same, equal)
    if way == "choice":
        epsilon = 2.0 * strength * np.abs(asked - others).max()
        return epsilon if pure else epsilon**2 / 8.0
    moved = np.concatenate([(one - two).ravel() for one, two in zip(asked, others, strict=True)])
    return np.abs(moved).sum() / strength if pure else (moved**2).sum() / (2.0 * strength)


def neighbours(X, y, encoding):
    """One record less, and one more at either end of everything."""
    for gone in range(0, len(X), len(X) // 12):
        yield np.delete(X, gone, axis=0), np.delete(y, gone)
    for end in (0, -1):
        record = np.zeros(encoding.width)
        for group in encoding.groups:
            if group.is_onehot:
                record[group.slice.start if end == 0 else group.slice.stop - 1] = 1.0
            else:
                record[group.start] = -end
        for label in (0, 1):
            yield np.vstack([X, record]), np.append(y, label)


def fitted(model, X, y):
    while model.needs_counts:
        model.measure(model.count(X, y))
    return model


TREE = {"rows", "edges", "columns", "forest", "pairs"}
CASES = {
    "three": (lambda budget: TreeModel(THREES, budget, 2), twisted, THREES, TREE | {"second", "triples"}),
    "no second parent": (lambda budget: TreeModel(THREES, budget, 2), twisted, THREES, TREE | {"pairs again"}),
    "no edge": (lambda budget: TreeModel(THREES, budget, 2), twisted, THREES, {"rows", "edges", "columns again"}),
    "mixed": (lambda budget: TreeModel(MIXED, budget, 2), people, MIXED, TREE),
    "plan": (lambda budget: PlannedModel(MIXED, budget, 2, PLAN), people, MIXED, {"rows", "columns", "pairs"}),
    "scores": (lambda budget: ScoringModel(MIXED, budget, 2, SCORED), people, MIXED, {"edges", "columns", "scores"}),
}


@pytest.mark.parametrize("rho", [2.0, None], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("case", CASES)
def test_every_draw_costs_what_is_stated_of_it(case, rho, monkeypatch):
    make, table, encoding, kinds = CASES[case]
    if case == "no second parent":
        monkeypatch.setattr(model_room, "score_of_three", lambda *_: -1_000_000)
    if case == "no edge":
        monkeypatch.setattr(model_room, "score", lambda *_: -1_000_000)
    tape, (X, y) = Tape(monkeypatch), table(2_000)

    def fit(X, y):
        return fitted(make(Budget(rho, PURE, np.random.default_rng(1))), X, y)

    model, draws = tape.play(lambda: fit(X, y))
    stated = {one.what: one.epsilon if rho is None else one.rho for one in model.budget.measured}
    assert kinds <= set(stated)
    most = dict.fromkeys(stated, 0.0)
    for less, labels in neighbours(X, y, encoding):
        again, others = tape.play(lambda less=less, labels=labels: fit(less, labels))
        assert again.budget.measured == model.budget.measured
        spent = dict.fromkeys(stated, 0.0)
        for draw, other in zip(draws, others, strict=True):
            spent[draw[0]] += cost(draw, other, pure=rho is None)
        for what, found in spent.items():
            assert found <= stated[what] * (1 + 1e-9), what
            most[what] = max(most[what], found)
    for what in set(stated) - {"forest", "second", "scores"}:  # their scores rarely move by all that they may
        paid = 0.5 if what == "edges" and encoding is MIXED else 1.0  # a column with few values needs no edges
        assert most[what] >= 0.99 * paid * stated[what], what


def test_what_one_record_changes_in_every_draw(monkeypatch):
    """That comes, goes or is replaced: squared distances of counts, for each table, and the change of scores. At most
    what the costs say, and no less than that somewhere: a claim 30% below would be found out."""
    tape, worst = Tape(monkeypatch), {}

    def fit(X, y):
        return fitted(TreeModel(ENCODING, Budget(50.0, 0.0, np.random.default_rng(3)), 2, 2), X, y)

    for seed in range(30):
        (X, y), (other, label) = rows(1_200, seed), rows(1, 1_000 + seed)
        tape.answers = []
        _, first = tape.play(lambda X=X, y=y: fit(X, y))
        for way, table in {
            "comes": (np.vstack([X, other]), np.append(y, label)),
            "goes": (X[1:], y[1:]),
            "replaced": (np.vstack([other, X[1:]]), np.append(label, y[1:])),
        }.items():
            most, seen = (2, way) if way == "replaced" else (1, "comes or goes")
            for (what, kind, one, _), (_, _, two, _) in zip(first, tape.play(lambda t=table: fit(*t))[1], strict=True):
                if kind == "choice":
                    moved = np.abs(one - two).max()
                else:
                    moved = sum(((a - b) ** 2).sum() for a, b in zip(one, two, strict=True)) / len(one)
                assert moved <= most
                worst[seen, what] = max(worst.get((seen, what), 0.0), moved)
    found = {what for _, what in worst}
    assert found >= {"rows", "edges", "columns", "forest", "pairs", "second"}
    for what in found - {"rows", "triples", "pairs again", "columns again"}:
        assert (worst["replaced", what], worst["comes or goes", what]) == (2, 1), what
    assert worst["replaced", "rows"] == 0  # it is charged as any other count: a person's number of rows may differ


def test_a_choice_prefers_by_half_of_its_epsilon():
    """A record that moves one score up and the other down shifts the log-odds by epsilon, so 1 apart is half of it."""
    chooser = Chooser(np.random.default_rng(0), 1.2)
    better = sum(chooser.choose(np.array([0, 1])) for _ in range(20_000))
    for epsilon, fits in ((1.2, True), (1.2 * 1.3, False), (1.2 / 1.3, False), (2.4, False)):
        right = 1.0 / (1.0 + np.exp(-epsilon / 2.0))
        assert (stats.binomtest(better, 20_000, right).pvalue > 1e-5) == fits


def test_a_split_is_drawn_as_its_score_says():
    """All splits of a few rows by their frequency: -|2 c - m|, each row once, weighted by half of epsilon."""
    fine, epsilon, draws = np.array([2, 0, 1, 3, 1, 0]), 0.9, 12_000
    chooser = Chooser(np.random.default_rng(0), epsilon)
    seen = np.bincount([quantiles(fine, 1, chooser)[0] for _ in range(draws)], minlength=7)[1:6]
    for factor, fits in ((1.0, True), (1.3, False), (1 / 1.3, False), (2.0, False)):
        weights = np.exp(-factor * epsilon / 2.0 * np.abs(2 * np.cumsum(fine)[:-1] - fine.sum()))
        assert (stats.chisquare(seen, draws * weights / weights.sum()).pvalue > 1e-5) == fits
