"""The papers' measures in an audit: against closed forms, brute force, and the attacks that they are made of."""

import json
import math

import numpy as np
import pytest
from sklearn.datasets import load_wine

import sfumato as sf
from sfumato.auditing.report.page import shown_measures
from sfumato.auditing.utility import bits_told, final_guarantee
from sfumato.channels import Additive, Exact, RandomizedResponse, Sampled
from sfumato.noise import Normal, Uniform

ATTACKS = ["linear-estimate", "principal-filter", "naive-estimate", "nearest-source"]


@pytest.fixture(scope="module")
def wine():
    data = load_wine(as_frame=True).frame.iloc[:, [0, 1, 6, 13]]
    data["target"] = data["target"].map({0: "a", 1: "b", 2: "c"})
    data["strong"] = np.where(data["alcohol"] > 13, "yes", "no")
    order = np.random.default_rng(0).permutation(len(data))
    return data.iloc[order[:120]], data.iloc[order[120:]]


@pytest.fixture(scope="module")
def resampled(wine):
    release = sf.sanitize(wine[0], label="target", mechanism="kernel-resampling", seed=3)
    return release, sf.audit(release, original=wine[0], holdout=wine[1], repeats=0, attacks=ATTACKS)


@pytest.mark.parametrize("sigma", [0.05, 0.2])
def test_normal_noise_on_normal_values_tells_what_shannon_says(sigma):
    """I = log2(1 + s^2 / sigma^2) / 2; a third more noise is rejected."""
    x = np.random.default_rng(0).normal(0.5, 0.1, (20_000, 1))
    told = bits_told(Additive(Normal(sigma)), x)
    truth = 0.5 * math.log2(1 + (0.1 / sigma) ** 2)
    assert told == pytest.approx(truth, rel=0.03)
    assert bits_told(Additive(Normal(1.3 * sigma)), x) < 0.9 * truth
    assert bits_told(Sampled(Additive(Normal(sigma)), 0.5), x) == pytest.approx(0.5 * told)


def test_uniform_noise_on_uniform_values():
    """X uniform on [0, 1], noise uniform on [-1/2, 1/2]: h(Z) of a triangle, half a nat, less h(Z | X) = 0."""
    x = np.linspace(0, 1, 6001)[:, None]
    assert bits_told(Additive(Uniform(low=-0.5, high=0.5)), x) == pytest.approx(0.5 / math.log(2), rel=0.02)


def test_categories_by_brute_force_and_what_is_exact_or_constant():
    channel = RandomizedResponse.of_epsilon(1.0, 3)
    x = np.eye(3)[[0, 0, 0, 1, 1, 2]]
    p, told = np.array([1 / 2, 1 / 3, 1 / 6]), 0.0
    law = np.full((3, 3), channel.other) + (channel.keep - channel.other) * np.eye(3)
    for i in range(3):
        told += sum(p[i] * law[i, j] * math.log2(law[i, j] / (p @ law[:, j])) for j in range(3))
    assert bits_told(channel, x) == pytest.approx(told)
    assert bits_told(RandomizedResponse(1.0, 3), x) == pytest.approx(-sum(q * math.log2(q) for q in p))
    assert bits_told(Exact(), np.random.default_rng(0).random((9, 1))) == math.inf
    assert bits_told(Additive(Normal(0.1)), np.full((9, 1), 0.3)) == 0.0


def test_average_privacy_is_the_mean_width_of_the_strongest_attack(resampled):
    _, audit = resampled
    found = audit.measures["average_privacy"]
    widths = {
        one["name"]: {c["name"]: c["interval_width"] for c in one["columns"] if c.get("interval_width") is not None}
        for one in audit.data["attacks"]
    }
    means = {name: np.mean(list(some.values())) for name, some in widths.items() if some}
    assert found["width"] == pytest.approx(min(means.values()))
    assert means[found["attack"]] == min(means.values())
    assert found["filtered"] == pytest.approx(means["principal-filter"])
    assert {one["name"] for one in found["columns"]} == {"alcohol", "malic_acid", "flavanoids"}
    assert all(one["width"] == min(some[one["name"]] for some in widths.values() if some) for one in found["columns"])
    assert 0.5 < found["width_of_mean"] < 1


def test_resampled_rows_have_a_loss_within_their_class(resampled, wine):
    release, audit = resampled
    told = {one["name"]: one for one in audit.measures["channels"]}
    assert set(told) == {"alcohol", "malic_acid", "flavanoids", "strong"}
    assert all(one["privacy_loss"] == pytest.approx(1 - 2 ** -one["bits"]) for one in told.values())
    recipe, share = release.card.made_by(), release.table["target"].value_counts(normalize=True)
    low, high = recipe.encoding.groups[0].column.bounds
    by_hand = 0.0
    for code, name in enumerate("abc"):
        x = (wine[0].loc[wine[0]["target"] == name, "alcohol"].to_numpy() - low) / (high - low)
        by_hand += share[name] * bits_told(recipe.of_class(code)[0], x[:, None])
    assert told["alcohol"]["bits"] == pytest.approx(by_hand, rel=0.15)  # the audit knows only those who were drawn


def test_the_density_gap_needs_people_held_apart_and_falls_with_a_wider_kernel(wine, resampled):
    release, audit = resampled
    loss = audit.measures["density_gap"]["loss"]
    assert sf.audit(release, original=wine[0], repeats=0, attacks=[]).measures["density_gap"] is None
    wide = sf.sanitize(
        wine[0], label="target", mechanism="kernel-resampling", parameters={"bandwidth": "scaled"}, seed=3
    )
    other = sf.audit(wide, original=wine[0], holdout=wine[1], repeats=0, attacks=[]).measures["density_gap"]["loss"]
    assert 0 < other < loss - 0.05


def test_an_audit_of_version_0_2_shows_its_gap_under_the_new_name():
    for name in ("density_gap", "dapl"):
        shown = shown_measures({name: {"loss": 0.25, "error": 0.01, "rows": 90}}).figures[0]
        assert (shown[0], shown[2]) == ("Gap of two density estimates", "0.250")


def test_one_final_guarantee_and_leaks_left_out(resampled):
    _, audit = resampled
    attacks = audit.data["attacks"]
    left = {one["name"]: one["details"]["sigma_min"] for one in attacks if "sigma_min" in one["details"]}
    final = audit.measures["unified"]
    assert final["sigma_min"] == min(left.values())
    assert left[final["sigma_min_attack"]] == final["sigma_min"]
    assert final["minimum"] <= final["average"]
    assert final_guarantee([]) is None


def test_attacks_that_assume_a_leaked_key_do_not_count(wine):
    """With the key the rotation is undone exactly; the figures are about who does not have it."""
    release = sf.sanitize(wine[0].drop(columns="strong"), label="target", mechanism="random-rotation", seed=3)
    attacks = ["known-transform", "naive-estimate", "independent-components"]
    found = sf.audit(release, original=wine[0], repeats=0, attacks=attacks)
    assert found.attack("known-transform")["assumes"]
    assert found.attack("known-transform")["details"]["sigma_min"] < 1e-6 < found.measures["unified"]["sigma_min"]
    assert found.measures["channels"][0]["not_applicable"] == "columns are mixed by a secret key"


def test_a_public_audit_has_no_width_of_the_original(wine, resampled):
    release, _ = resampled
    public = sf.audit(
        release, original=wine[0], holdout=wine[1], repeats=0, attacks=ATTACKS, public=True, with_audit=True
    )
    assert "width_of_mean" not in json.dumps(public.data)
    assert public.measures["average_privacy"]["width"] > 0
