"""The fast part of density-reconstruction: simulated values, a few runs, and every erratum put in and taken out."""

import json

import numpy as np
import pytest

PARTS = (
    "The paper's sentences",
    "Table 1",
    "Figure 3",
    "Figure 4",
    "Table 1 on other numbers of cells",
    "The errata",
    "Dependence on the penalty",
    "Dependence on EM's stopping",
    "The width of the window",
)


@pytest.fixture(scope="module")
def fast(tmp_path_factory, run_fast):
    """The folder, the printed text and all figures of one fast run."""
    out = tmp_path_factory.mktemp("density-reconstruction")
    printed = run_fast("density-reconstruction", out).stdout
    return out, printed, json.loads((out / "results.json").read_text())


def figures(fast, experiment):
    return next(value for key, value in fast[2].items() if key.split("|")[0] == experiment)


@pytest.mark.parametrize("noise", ["Mul", "Add"])
def test_our_defaults_lose_less_than_what_was_published(fast, noise):
    found = {name: one["loss"][0] for name, one in figures(fast, "table_1")[noise].items()}
    assert found["PQP, ours"] < 0.15
    assert found["EM, ours"] < 0.19
    assert found["PQP, ours"] < found["PQP, 0.01"] < found["PQP"]


def test_the_published_method_loses_less_on_fewer_cells(fast):
    """Which is where the losses of Table 1 are found."""
    for noise in ("Mul", "Add"):
        found = {int(count): one["PQP"]["loss"][0] for count, one in figures(fast, "cells")[noise].items()}
        assert found[15] < 0.8 * found[75]


def test_the_wrong_jacobian_is_no_reconstruction(fast):
    """Theorem 1 as printed: |dE/dx| in place of |dE/dz|."""
    found = {key: value[0] for key, value in figures(fast, "errata")["losses"].items()}
    assert found["Mul|dE/dx|0.01"] > 0.4
    assert found["Mul|right|0.01"] < 0.25
    assert found["Mul|dE/dx|0"] > 1.3 * found["Mul|right|0"]
    assert "not |dE/dz|" in figures(fast, "errata")["refused"]


@pytest.mark.parametrize("equation", ["Eq. 12", "Eq. 16"])
def test_equations_as_printed_lose_twice_as_much(fast, equation):
    found = figures(fast, "errata")["losses"]
    assert found[f"Add|{equation}|0"][0] > 2 * found["Add|right|0"][0]


def test_the_product_follows_the_equations(fast):
    assert abs(figures(fast, "errata")["product less equations"]) < 0.02


def test_the_penalty_has_its_best_weight_inside(fast):
    for noise in ("Mul", "Add"):
        found = {key: one["loss"][0] for key, one in figures(fast, "penalty")[noise].items()}
        assert found["published|0.1"] < min(found["published|0"], found["published|100"])
        assert found["auto"] < 1.3 * min(value for key, value in found.items() if key.startswith("ours"))


def test_em_gets_worse_again(fast):
    for noise in ("Mul", "Add"):
        found = {key: one["loss"][0] for key, one in figures(fast, "stopping")[noise].items()}
        best = min((count for count in found if count.isdigit()), key=found.__getitem__)
        assert 10 < int(best) < 200
        assert found["400"] > 1.5 * found[best]
        assert found["EM, ours"] < 1.6 * found[best]


def test_the_width_is_that_of_the_double_sum_and_nearly_the_best(fast):
    found = figures(fast, "width")
    assert found["direct"]["ours"] == pytest.approx(found["direct"]["direct"], rel=1e-3)
    for noise in ("Mul", "Add"):
        assert found[noise]["error ratio"][0] < 2.5
        multiples = np.array(found[noise]["multiples"])
        assert multiples[0] > 2 * multiples[3]
        assert multiples[-1] > 2 * multiples[3]


def test_both_noises_have_the_papers_privacy_loss_and_factors_have_a_floor(fast):
    found = figures(fast, "privacy")
    assert found["factors 0 to 1"] == pytest.approx(0.254, abs=0.01)
    assert found["Mul"]["law"][0] > 0
    assert found["Mul"]["interval 95%"] == pytest.approx(found["Add"]["interval 95%"], rel=0.15)


def test_an_operator_with_branches_is_reconstructed(fast):
    assert figures(fast, "branches")["turning"] > 0.9
    assert figures(fast, "branches")["PQP, ours"]["loss"][0] < 0.2


def test_results_have_all_parts_and_are_what_was_printed(fast):
    text = (fast[0] / "RESULTS.md").read_text()
    assert fast[1].strip() == text.strip()
    for part in PARTS:
        assert f"## {part}" in text
    assert "nan" not in text


def test_a_second_run_does_nothing_again(fast, run_fast):
    again = run_fast("density-reconstruction", fast[0])
    assert "[1/" not in again.stderr
    assert again.stdout == fast[1]
