"""A quick piece of each paper, through its own modules: what `make test-all` runs whole is not broken in between."""

import numpy as np
import pytest


def errata(found):
    """Theorem 1 as printed is no reconstruction; Eq. 12 and Eq. 16 as printed lose twice as much."""
    losses = {key: value[0] for key, value in found["errata|two lumps|3"]["losses"].items()}
    assert losses["Mul|dE/dx|0.01"] > 0.4
    assert losses["Mul|right|0.01"] < 0.25
    assert min(losses["Add|Eq. 12|0"], losses["Add|Eq. 16|0"]) > 2 * losses["Add|right|0"]


def rows_undo_a_rotation(found):
    attacked = found["attacks|iris|None"]
    assert attacked["rows"] == 5
    assert attacked["error"] < 1e-9
    assert found["perfect_recovery|iris|None"]["largest difference from 1 - sd"] < 1e-9


def ends_of_the_frontier(found):
    (plain,) = found.values()
    majority, ceiling = (plain[end]["right"] / plain[end]["rows"] for end in ("majority", "ceiling"))
    assert majority < 0.4 < 0.75 < ceiling


def surveys_bound(found):
    assert found["adversaries|theorem_2"]["estimate"] == pytest.approx(0.54)
    assert found["functions|ceiling|1|quartiles|3000"]["accuracy"] < 0.84
    assert found["functions|ceiling|1|supervised|3000"]["accuracy"] > 0.98


def lemmas(found):
    told = found["lemmas|iris|20"]
    assert min(told["rows, rotation|holds"]) == min(told["rows, rotation|value holds"]) == 1
    assert 0.05 < np.mean(told["records, K = 1 N|reached"]) < 1


def a_component_is_not_a_record(found):
    assert found["amplification|all|0.1|1 runs"]["mean"]["amplification"] == pytest.approx(22026.47, rel=1e-4)
    told = found["epsilons|iris|0.1|1 runs"]["mean"]
    assert told["component"] == pytest.approx(10)
    assert told["record"] == pytest.approx(20)
    strong = found["pca-radius|iris|0.3|3 runs"]["mean"]
    assert strong["linear"] < strong["filtered"]
    assert 0.55 < strong["radius"] < 0.88


WAVES = "generated waveforms"
PIECES = {
    "density-reconstruction": (errata, ("errata", "two lumps", (3,))),
    "random-rotation": (rows_undo_a_rotation, ("attacks", "iris"), ("perfect_recovery", "iris")),
    "frontier": (ends_of_the_frontier, (WAVES, 0)),
    "guided-survey": (
        surveys_bound,
        ("adversaries", "theorem_2"),
        ("functions", "ceiling", (1, "quartiles", 3000)),
        ("functions", "ceiling", (1, "supervised", 3000)),
    ),
    "kernel-resampling": (lemmas, ("lemmas", "iris", 20)),
    "principal-laplace": (
        a_component_is_not_a_record,
        ("amplification", "all", 0.1),
        ("epsilons", "iris", 0.1),
        ("pca-radius", "iris", 0.3, 3),
    ),
}
"""Of each paper, what judges the figures, and the tasks that make them."""


@pytest.mark.parametrize("paper", PIECES)
def test_a_piece_of_the_fast_part_gives_its_figures(paper, modules_of):
    judge, *pieces = PIECES[paper]
    with modules_of(paper, "tasks", "run", "tables", "plots") as own:
        tasks = [own.tasks.Task(*piece) for piece in pieces]
        judge({task.key: task.do() for task in tasks})
