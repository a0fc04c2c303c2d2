"""The fast part of the frontier: both axes on generated waveforms, and figures that are what they say."""

import json

import numpy as np
import pytest

from papers import figures

MODULES = ("run", "plots", "tables", "results", "tasks", "experiments", "roads", "sets")
SET = "generated waveforms"


@pytest.fixture(scope="module")
def fast(tmp_path_factory, run_fast):
    """The folder, the printed text and all figures of one fast run."""
    out = tmp_path_factory.mktemp("frontier")
    printed = run_fast("frontier", out).stdout
    return out, printed, json.loads((out / "results.json").read_text())


@pytest.fixture(scope="module")
def modules(modules_of):
    with modules_of("frontier", *MODULES) as found:
        yield found


def share(fast, key, what):
    found = fast[2][f"{SET}|0|{key}"][what]
    return found["right"] / found.get("rows", found.get("pairs"))


def test_more_is_learned_than_the_majority_and_less_than_without_noise(fast):
    majority, ceiling = (share(fast, "plain|0", end) for end in ("majority", "ceiling"))
    assert majority < 0.4 < 0.75 < ceiling
    for mechanism in ("square-wave", "staged-release"):
        assert majority + 0.15 < share(fast, f"{mechanism}|8", "auto") < ceiling + 0.05
    assert share(fast, "square-wave|2", "auto") > majority + 0.1


def test_both_axes_rise_with_epsilon(fast):
    few, many = (share(fast, f"square-wave|{epsilon}", "pair") for epsilon in (2, 8))
    assert 0.48 < few < many < 1
    assert many > share(fast, "principal-laplace|8", "pair") + 0.1


def test_the_rule_is_the_one_that_is_written_down(modules):
    chosen = {epsilon: modules.roads.ruled(epsilon) for epsilon in modules.roads.EPSILONS}
    assert [road.mechanism for road in chosen.values()] == ["square-wave"] * 3 + ["staged-release"] * 2
    assert {road.learner for road in chosen.values()} == {"auto"}
    tasks = modules.tasks
    held_out = {task.data for task in tasks.held_out_tasks()}
    assert not held_out & {task.data for task in tasks.known_tasks(False)}
    assert len(held_out) == 10


def test_pairs_are_told_apart_as_often_as_the_law_says(modules, monkeypatch):
    """One column with Laplace noise: the likelier of two is right as often as the closed form says."""
    from sfumato.channels import Additive, Identity, Recipe
    from sfumato.noise import Laplace
    from sfumato.table import Encoding

    rng, b, gap = np.random.default_rng(3), 0.4, 0.6
    X = np.tile([[0.2], [0.2 + gap]], (3_000, 1))
    y = np.zeros(len(X), dtype=np.int64)
    recipe = Recipe(Encoding.unit(1, public=True), Identity(1), (Additive(Laplace(b)),))
    monkeypatch.setattr(modules.experiments, "PAIRS", 3_000)
    found = modules.experiments.told_apart(recipe, X + rng.laplace(0, b, X.shape), X, y, rng)
    apart = 1 - 0.5 * np.exp(-gap / 2 / b)  # the nearer one wins: the noise stays on this side of the middle
    expected = 0.5 * apart + 0.5 * 0.5  # half of the pairs are twins
    assert found["right"] / found["pairs"] == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 3_000))


def test_intervals_and_what_lies_below_the_majority(modules):
    tasks, results = modules.tasks, modules.results
    road = modules.roads.ROADS[1]
    scored = {"rows": 1_000, "right": 500, "only": 100, "only_majority": 200, "chosen": "x"}
    found = {tasks.Task("wine", k, road.mechanism, 2.0): {road.learner: scored} for k in range(3)}
    made = results.Results(found, {}, {})
    gap = made.above_majority("wine", road, 2.0)
    assert gap.mean == pytest.approx(-0.1)
    outcomes = np.repeat([1.0, -1.0, 0.0], [100, 200, 700])
    assert gap.error == pytest.approx(outcomes.std() / np.sqrt(3_000), rel=0.01)
    assert modules.tables.below_majority(made, road, ["wine"]) == ["wine at 2 (-10.0 ± 2.0)"]
    assert made.mean([gap, None]) is None


def test_the_page_says_what_is_not_finished(modules):
    tasks, road = modules.tasks, modules.roads.ruled(2.0)
    scored = {"rows": 100, "right": 60, "only": 20, "only_majority": 10, "chosen": "x"}
    plain = dict.fromkeys(("majority", "ceiling"), scored)
    found = {}
    for name in ("wine", "iris"):
        found[tasks.Task(name, 0)] = plain
        learned = dict.fromkeys((road.learner, "empirical-bayes-naive-bayes"), scored)
        found[tasks.Task(name, 0, road.mechanism, 2.0)] = {**learned, "pair": {"pairs": 10, "right": 6.0}}
    found[tasks.Task("pima", 0)] = plain
    made = modules.results.Results(found, {}, {})
    assert made.complete() == ["wine", "iris"]
    assert road.title not in made.unfinished()
    assert "principal-laplace + auto" in made.unfinished()


def test_results_are_printed_and_not_computed_twice(fast, modules, capsys):
    out, printed, _ = fast
    text = (out / "RESULTS.md").read_text()
    assert printed.strip() == text.strip()
    for part in ("Mean over 1 set", "Below the majority", "Every set", "What `auto` chose"):
        assert f"## {part}" in text
    assert "nan" not in text
    modules.run.main(["--fast", "--out", str(out)])
    again = capsys.readouterr()
    assert "[1/" not in again.err
    assert again.out == printed


def test_figures_are_drawn(fast, modules, tmp_path):
    found = {task: fast[2][task.key] for task in modules.tasks.known_tasks(True)}
    made = modules.results.Results(found, {}, {})
    paths = figures.write_figures(modules.plots.figures(made), tmp_path)
    assert {path.stem for path in paths} == {"both-axes", "sets"}
    assert all("<svg" in path.read_text() for path in paths)
