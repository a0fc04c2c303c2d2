"""The fast part of rows that belong to nobody: a small generated table, every step from the rows to the page."""

import json

import numpy as np
import pytest

from papers import figures

MODULES = ("run", "plots", "tables", "tasks", "peer_tasks", "frames")


@pytest.fixture(scope="module")
def modules(modules_of):
    with modules_of("central", *reversed(MODULES)) as found:
        yield found


@pytest.fixture(scope="module")
def fast(modules, tmp_path_factory):
    """The folder, the page and all figures of one fast run."""
    out = tmp_path_factory.mktemp("central")
    assert modules.run.main(["--fast", "--out", str(out)]) == 0
    return out, (out / "RESULTS.md").read_text(), json.loads((out / "results.json").read_text())["tasks"]


def test_learners_lose_little_and_the_page_says_how_much(fast):
    _, text, found = fast
    mean = {
        key.rsplit(" ", 2)[0]: np.mean([pair[0] for pair in one["learners"].values()]) for key, one in found.items()
    }
    assert set(mean) == {"tiny real", "tiny tree", "tiny columns"}
    assert 0.6 < mean["tiny real"] < 0.8
    assert mean["tiny tree"] > 0.5
    assert f"{mean['tiny real']:.3f}/" in text
    assert f"| tiny | {mean['tiny real'] - mean['tiny tree']:.3f} ± " in text
    assert "nan" not in text


def test_a_run_is_resumed_and_drawn(fast, modules, tmp_path, capsys):
    out, text, found = fast
    assert modules.run.main(["--fast", "--out", str(out)]) == 0
    assert "[1/" not in capsys.readouterr().err
    assert (out / "RESULTS.md").read_text() == text
    made = modules.tables.Results({task: found[task.key] for task in modules.tasks.all_tasks(True)}, {})
    (path,) = figures.write_figures(modules.plots.figures(made), tmp_path)
    assert "columns alone" in path.read_text()


def test_peers_that_did_not_finish_stand_on_the_page_as_such(modules):
    task = modules.peer_tasks.PeerTask("tiny", "aim", 1.0, 0)
    page = modules.tables.results_text(
        modules.tables.Results({task: {"unfinished": "over 300 s", "cpu": 0.0}}, {}), (1, 2), True
    )
    assert "over 300 s" in page
    assert modules.tables._name("mst by class") == "MST by class"


def test_kept_figures_see_what_was_lost(modules):
    rng = np.random.default_rng(0)
    X = rng.random((2_000, 2))
    X[:, 1] = X[:, 0]
    same, shuffled = (
        modules.tasks.kept(X, X),
        modules.tasks.kept(X, np.column_stack([X[:, 0], rng.permutation(X[:, 1])])),
    )
    assert same == {"marginals": 0.0, "correlations": 0.0}
    assert shuffled["marginals"] == 0.0
    assert shuffled["correlations"] > 0.9
