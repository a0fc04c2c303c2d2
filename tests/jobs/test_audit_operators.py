"""Audits of releases whose noise an operator carries in: the card says it, and the adversaries use all of it."""

import json

import numpy as np
import pandas as pd
import pytest

from sfumato.api.cli import app
from sfumato.api.cli.console import run_guarded
from sfumato.attacks import ATTACKS
from sfumato.auditing.audit import audit
from sfumato.auditing.document import audit_validator
from sfumato.auditing.open_case import OPERATOR_NOTE
from sfumato.noise import Operator
from sfumato.release.sanitize import Options, sanitize

pytestmark = pytest.mark.filterwarnings("ignore")


def people(rows, seed):
    rng = np.random.default_rng(seed)
    income = 20 + rng.gamma(4, 10, rows)
    return pd.DataFrame(
        {
            "income": income,
            "wealth": income * rng.uniform(0.8, 1.2, rows) + 5,
            "gap": np.where(rng.random(rows) < 0.25, np.nan, 100 + 10 * rng.normal(size=rows)),
            "colour": rng.choice(["red", "green", "blue"], rows, p=[0.6, 0.3, 0.1]),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    people(400, 0).to_csv(folder / "people.csv", index=False)
    people(200, 1).to_csv(folder / "holdout.csv", index=False)
    return folder


def entries(result):
    return {entry["name"]: entry for entry in result["attacks"]}


@pytest.fixture(scope="module")
def audited(tables):
    """As a new user types it, with a seed: the nearest row is right for about four of 400, by chance for none."""
    release, out = str(tables / "release"), tables / "audit"
    noise = ["--param", "law=uniform", "--param", "low=1", "--param", "high=3"]
    sanitized = ["sanitize", str(tables / "people.csv"), "--mechanism", "multiplicative-noise"]
    assert run_guarded(app, [*sanitized, *noise, "--out", release, "--seed", "1", "--quiet"]) == 0
    given = ["--original", str(tables / "people.csv"), "--holdout", str(tables / "holdout.csv")]
    assert run_guarded(app, ["audit", release, *given, "--out", str(out), "--quiet"]) == 0
    return json.loads((out / "audit.json").read_text())


def test_every_attack_is_scored_or_says_why_not(audited):
    audit_validator().validate(audited)
    found = entries(audited)
    assert set(found) == set(ATTACKS)
    for entry in found.values():
        assert "failed" not in entry, entry
        assert (entry["score"] is None) == ("not_applicable" in entry)
    assert not any("operator" in note for note in audited["notes"])
    for name in ("linear-estimate", "posterior-breach", "membership", "nearest-row", "known-rows", "hard-interval"):
        assert found[name]["score"] is not None


def test_factors_are_undone_on_the_scale_of_the_source(audited):
    """The release lies at twice the values: who knows that guesses better than who takes it at its word."""
    found = entries(audited)
    columns = {name: {one["name"]: one for one in found[name]["columns"]} for name in found}
    for column in ("income", "wealth"):
        assert columns["linear-estimate"][column]["rmse"] < 0.95 * columns["linear-estimate"][column]["rmse_of_mean"]
        assert columns["linear-estimate"][column]["rmse"] < columns["known-transform"][column]["rmse"]
        assert columns["known-transform"][column]["rmse"] < columns["naive-estimate"][column]["rmse"]
    assert found["nearest-row"]["score"] > found["nearest-row"]["baseline"]


def test_hard_intervals_hold_for_everybody(audited):
    details = entries(audited)["hard-interval"]["details"]
    assert details["bounds_hold"] == 1
    assert 0 <= details["collapsed"] < 0.2


def test_distributions_are_compared_after_the_mean_factor_is_taken_out(audited):
    income = next(one for one in audited["distributions"] if one["name"] == "income")
    release = np.array(income["release"]) / sum(income["release"])
    middles = (np.array(income["edges"])[1:] + np.array(income["edges"])[:-1]) / 2
    assert release @ middles == pytest.approx(people(400, 0)["income"].mean(), rel=0.1)


def test_a_release_with_the_quartic_operator_is_audited_exactly_too(tables):
    numbers = people(150, 2)[["income", "wealth"]] / 50
    out = tables / "quartic"
    sanitize(
        numbers,
        out,
        Options(mechanism="noisy-operator", parameters={"operator": "quartic", "law": "uniform", "low": -1, "high": 1}),
    )
    result = audit(out, original=numbers, repeats=2).data
    found = entries(result)
    assert found["hard-interval"]["details"]["bounds_hold"] == 1
    assert found["posterior-breach"]["score"] is not None
    assert OPERATOR_NOTE not in result["notes"]


def test_an_operator_of_ones_own_is_audited_by_its_strength_with_a_note(tables):
    numbers = people(150, 2)[["income", "wealth"]]
    power = Operator.of(lambda e, x: x**e, lambda z, x: np.log(z) / np.log(x), lambda z, x: 1 / (z * np.log(x)))
    out = tables / "own"
    sanitize(
        numbers,
        out,
        Options(mechanism="noisy-operator", parameters={"operator": power, "law": "uniform", "low": 0.9, "high": 1.1}),
    )
    result = audit(out, original=numbers, repeats=2).data
    assert OPERATOR_NOTE in result["notes"]
    assert entries(result)["linear-estimate"]["score"] is not None
    assert all("failed" not in entry for entry in result["attacks"])


def test_a_release_that_looks_like_the_original_is_not_divided_twice(tables):
    numbers = people(300, 2)[["income", "wealth"]]
    out = tables / "like"
    sanitize(
        numbers, out, Options(mechanism="multiplicative-noise", parameters={"low": 1, "high": 3}, like_original=True)
    )
    found = entries(audit(out, original=numbers, repeats=2).data)
    columns = {one["name"]: one for one in found["linear-estimate"]["columns"]}
    assert columns["income"]["rmse"] < columns["income"]["rmse_of_mean"]
    assert found["known-transform"]["score"] == pytest.approx(found["naive-estimate"]["score"], abs=1e-9)
