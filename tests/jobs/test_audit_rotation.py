"""Audits of releases that mix columns: what known rows, a sample and ICA undo, and what noise stops."""

import warnings

import numpy as np
import pytest

from sfumato.auditing.audit import audit
from sfumato.auditing.report.markup import detail_rows
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import open_table

pytestmark = pytest.mark.filterwarnings("ignore")
NEW = ("distance-bound", "eigen-alignment", "independent-components", "known-rows")


@pytest.fixture(scope="module")
def pima(data_folder):
    table = open_table(data_folder / "pima.csv").read()
    order = np.random.default_rng(3).permutation(table.num_rows)
    return table.take(order[:400]), table.take(order[400:600])


@pytest.fixture(scope="module")
def audited(pima, tmp_path_factory):
    made = {}

    def make(holdout=True, attacks=None, without=(), mechanism="random-rotation", **parameters):
        key = (holdout, attacks, without, mechanism, *sorted(parameters.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("release") / "out"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sanitize(pima[0], folder, Options(mechanism=mechanism, parameters=parameters, label="label", seed=1))
            for name in without:
                (folder / name).unlink()
            made[key] = audit(
                folder, original=pima[0], holdout=pima[1] if holdout else None, repeats=0, attacks=attacks
            )
        return made[key]

    return make


def test_as_many_known_rows_as_columns_and_one_more_undo_a_rotation(audited):
    entry = audited().attack("known-rows")
    assert entry["score"] == 1.0
    assert entry["details"]["known_rows"] == 9
    assert entry["details"]["recovered_with_1"] < entry["details"]["recovered_with_4"] < 1
    assert entry["details"]["recovered_with_9"] == entry["score"]
    assert entry["details"]["unified_min"] == pytest.approx(0, abs=1e-12)


def test_the_owner_who_has_the_key_is_told_what_clusters_are_left(pima, tmp_path):
    sanitize(pima[0], tmp_path / "out", Options(mechanism="random-rotation", label="label", seed=1))
    found = audit(tmp_path / "out", original=pima[0], repeats=0, attacks=["known-rows"], clusters=2).data
    assert found["clusters"]["plain_rows"] > 0.5
    assert not [note for note in found["notes"] if note.startswith("No clusters")]


def test_every_figure_of_these_attacks_has_words_in_the_report(audited):
    told = {key for entry in audited().data["attacks"] for key in entry["details"]}
    bare = {key for key in told if detail_rows({key: 1.0})[0][0] == key.replace("_", " ")}
    assert {"recovered_with_9", "sigma_min", "known_rows", "converged_runs"} <= told
    assert not {key for key in bare if not key.endswith(("_low", "_high"))} - {"worst_baseline", "own_choice"}


def test_known_people_are_no_success_and_no_risk(audited, pima):
    """Nine rows were given away; whoever is at risk is somebody else."""
    found = audited(attacks=("known-rows",))
    assert found.data["riskiest"]
    assert len(found.data["riskiest"]) <= 20
    assert all(1 <= entry["record"] <= pima[0].num_rows for entry in found.data["riskiest"])


def test_noise_stops_the_known_rows(audited):
    entry = audited(noise="laplace", scale=0.3).attack("known-rows")
    assert entry["score"] < entry["baseline"] + 0.05
    assert entry["details"]["recovered_with_9"] == entry["score"]


@pytest.mark.parametrize("holdout", [True, False])
def test_all_four_are_in_every_audit_and_none_breaks(audited, holdout):
    found = audited(holdout=holdout)
    for name in NEW:
        entry = found.attack(name)
        assert "failed" not in entry
        assert entry["score"] is not None or entry["not_applicable"]
    assert found.attack("distance-bound")["score"] > 0.9


def test_without_a_holdout_the_sample_is_lent_by_the_table_and_the_audit_says_so(audited):
    found = audited(holdout=False)
    assert found.attack("eigen-alignment")["details"]["sample_rows"] == 100
    assert any("were given 100 people of the original" in note for note in found.data["notes"])
    assert found.attack("membership")["score"] is None, "nobody else gets that sample"
    assert not any("were given" in note for note in audited().data["notes"])
    assert audited().attack("eigen-alignment")["details"]["sample_rows"] == 200


def test_without_a_trace_nobody_knows_which_rows_are_known(audited):
    found = audited(without=("trace.parquet", "key.json"))
    assert "images" in found.attack("known-rows")["not_applicable"]
    assert "images" in found.attack("distance-bound")["not_applicable"]


def test_condensation_is_audited_like_any_other_release(audited):
    found = audited(mechanism="condensation", k=20)
    assert not [entry["name"] for entry in found.data["attacks"] if "failed" in entry]
    assert "no mixing" in found.attack("eigen-alignment")["not_applicable"]
    assert found.attack("nearest-row")["score"] > 0
