"""Rules from randomized answers: unbiased, with intervals that hold, and chance called chance."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.channels import Identity, RandomizedResponse, Recipe, Sampled
from sfumato.core.errors import UsageError
from sfumato.learn.mining.seen import Part
from sfumato.learn.rules import answers_of, frequency, rule_of
from sfumato.table import Column, Encoding, Schema

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")
ENCODING = Encoding(
    Schema(
        (
            Column("drink", "categorical", categories=("tea", "milk", "none")),
            Column("food", "categorical", categories=("bread", "rice")),
        )
    )
)
JOINT = np.array([[0.30, 0.05], [0.10, 0.15], [0.15, 0.25]])
ITEMS = (("drink", "tea"), ("food", "bread"))


def released(rows, keeps, rng, rate=None):
    cell = rng.choice(6, rows, p=JOINT.ravel())
    X = np.hstack([np.eye(3)[cell // 2], np.eye(2)[cell % 2]])
    channels = [RandomizedResponse(keeps[0], 3), RandomizedResponse(keeps[1], 2)]
    if rate:
        channels[0] = Sampled(channels[0], rate)
    recipe = Recipe(ENCODING, Identity(5), tuple(channels))
    return Part(recipe.perturb(X, rng), recipe, recipe.channels)


def test_estimates_are_unbiased_and_intervals_hold():
    rng = np.random.default_rng(0)
    truth = {"support": 0.30, "confidence": 0.30 / 0.35}
    values, covered = [], []
    for _ in range(300):
        part = released(500, (0.6, 0.75), rng)
        rule = rule_of(answers_of([part], [None], ()), (ITEMS[0],), ITEMS[1], 0.95, 1)
        values.append((rule.support.value, rule.confidence.value))
        covered.append(
            (
                rule.support.low <= truth["support"] <= rule.support.high,
                rule.confidence.low <= truth["confidence"] <= rule.confidence.high,
            )
        )
    # the standard error of the mean of 300 is .004; what was released has a share of .225
    assert np.mean(values, axis=0)[0] == pytest.approx(0.30, abs=0.012)
    assert np.mean(values, axis=0)[1] == pytest.approx(truth["confidence"], abs=0.06)
    assert np.mean(covered, axis=0) == pytest.approx([0.95, 0.95], abs=0.04)


def test_parts_of_different_noise_and_cells_that_are_not_reported():
    rng = np.random.default_rng(1)
    parts = [released(20_000, (0.9, 0.9), rng, rate=0.5), released(20_000, (0.5, 0.6), rng)]
    answers = answers_of(parts, [None, None], ())
    both = frequency(answers, ITEMS, 0.95)
    first = frequency(answers_of(parts[:1], [None], ()), ITEMS, 0.95)
    assert both.value == pytest.approx(0.30, abs=3 * both.error)
    assert both.error < first.error < 0.01


def test_what_has_no_connection_is_called_chance():
    rng = np.random.default_rng(2)
    low = 0
    for _ in range(200):
        codes = rng.integers(0, 2, (400, 2))
        X = np.hstack([np.eye(3)[codes[:, 0]], np.eye(2)[codes[:, 1]]])
        recipe = Recipe(ENCODING, Identity(5), (RandomizedResponse(0.8, 3), RandomizedResponse(0.8, 2)))
        part = Part(recipe.perturb(X, rng), recipe, recipe.channels)
        low += rule_of(answers_of([part], [None], ()), (ITEMS[0],), ITEMS[1], 0.95, 1).chance < 0.05
    assert low / 200 == pytest.approx(0.05, abs=0.04)


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(3)
    cell = rng.choice(6, 4000, p=JOINT.ravel())
    table = {
        "drink": np.array(["tea", "milk", "none"])[cell // 2],
        "food": np.array(["bread", "rice"])[cell % 2],
        "age": rng.integers(20, 60, 4000),
    }
    return sf.sanitize(table, mechanism="additive-noise", epsilon_record=8, label="food", private_label=True, seed=1)


def test_a_release_with_a_randomized_label(release):
    found = sf.rules(release, min_support=0.1)
    (pair,) = [one for one in found.pairs.to_pylist() if (one["first"], one["second"]) == ("drink=tea", "food=bread")]
    assert pair["low"] <= 0.30 <= pair["high"]
    assert pair["high"] - pair["low"] < 0.15
    assert "drink=tea" in found.rules["when"].to_pylist()
    assert any("age" in line for line in found.warnings)


def test_mistakes(release):
    for words, said in (
        ({"min_support": 0}, "min_support"),
        ({"longest": 9}, "longest"),
        ({"columns": ["age"]}, "no categorical column 'age'"),
        ({"columns": ["drink"]}, "two categorical columns"),
    ):
        with pytest.raises(UsageError, match=said):
            sf.rules(release, **words)


def test_the_command_writes_what_python_gives(release, tmp_path):
    release.save(tmp_path / "r")
    done = CliRunner().invoke(app, ["mine", "rules", str(tmp_path / "r"), "--out", str(tmp_path / "found"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["found"] == sf.rules(release).rules.to_pylist()
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == ["pairs.csv", "rules.csv", "rules.json"]
