"""Clusters behind noise: found where they are, chosen by what held-out rows say, doubted where nothing is shown."""

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.core.errors import CardError, UsageError
from sfumato.learn.cluster import adjusted_rand, expected_agreement

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")
CENTRES = np.array([[0.25, 0.3, 0.7], [0.75, 0.7, 0.3]])
SCHEMA = sf.Schema(
    (
        *(sf.Column(name, "numeric", low=0, high=1) for name in "abc"),
        sf.Column("town", "categorical", categories=("n", "s")),
    )
)


def make(rows, seed, spread=0.08):
    rng = np.random.default_rng(seed)
    which = (rng.random(rows) < 0.4).astype(int)
    X = np.clip(CENTRES[which] + spread * rng.normal(size=(rows, 3)), 0, 1)
    town = np.where(rng.random(rows) < 0.8, np.array(["n", "s"])[which], np.array(["s", "n"])[which])
    return {**dict(zip("abc", X.T, strict=True)), "town": town}, which


@pytest.fixture(scope="module")
def people():
    return make(400, 0)


@pytest.fixture(scope="module")
def release(people):
    return sf.sanitize(people[0], schema=SCHEMA, mechanism="additive-noise", parameters={"scale": 0.2}, seed=3)


def test_adjusted_rand_is_scikit_learns():
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.integers(4, size=60), rng.integers(3, size=60)
        assert adjusted_rand(a, b) == pytest.approx(adjusted_rand_score(a, b))
    assert adjusted_rand(a, a + 7) == 1.0


def test_centres_spreads_and_shares_of_plain_rows_are_found(release):
    found = sf.cluster(release, clusters=2, model="diagonal", resamples=0)
    centres = found.centres.to_pydict()
    assert found.about["shares"] == pytest.approx([0.6, 0.4], abs=0.06)
    for name, truth in zip("abc", CENTRES.T, strict=True):
        assert centres[name] == pytest.approx(truth, abs=0.04)
    assert centres["town=n"] == pytest.approx([0.8, 0.2], abs=0.12)
    spreads = np.sqrt([laws.variance for laws in found.mixture.laws[:3]])
    # that of released rows is sqrt(.08^2 + 2 * .2^2) = .29
    assert spreads.mean() == pytest.approx(0.08, abs=0.03)


def test_the_release_shows_two_and_its_rows_are_grouped_as_well_as_expected(people, release, tmp_path):
    found = sf.cluster(release, model="spherical", resamples=3, original=people[0])
    assert found.about["clusters"] == 2
    assert found.about["is_shown"]
    reached = adjusted_rand(people[1][release.source], found.labels)
    assert found.about["expected_agreement"] == pytest.approx(reached, abs=0.12)
    assert np.mean(found.about["stability"]) > 0.8
    assert found.about["lost"]["plain_rows"] > 0.95
    assert found.about["lost"]["released_rows"] == pytest.approx(reached, abs=0.05)
    release.save(tmp_path / "r")
    with pytest.raises(UsageError, match="each of them once"):
        sf.cluster([tmp_path / "r", tmp_path / "r"])
    assert (found.save(tmp_path / "c") / "clusters.json").stat().st_mode & 0o777 == 0o600, "figures of private rows"


def test_what_noise_hides_is_said():
    table, _ = make(200, 3)
    release = sf.sanitize(table, schema=SCHEMA, mechanism="additive-noise", parameters={"scale": 3.0}, seed=1)
    found = sf.cluster(release, clusters=3, model="spherical", resamples=0)
    assert not found.about["is_shown"]
    assert any("does not show" in line for line in found.warnings)
    assert any("Single rows" in line for line in found.warnings)


def test_expected_agreement_is_that_of_a_simulation():
    rng = np.random.default_rng(0)
    belongs = rng.dirichlet([0.3, 0.3, 0.3], 4000)
    drawn = (rng.random(4000)[:, None] > np.cumsum(belongs, axis=1)).sum(axis=1)
    assert expected_agreement(belongs) == pytest.approx(adjusted_rand(drawn, belongs.argmax(axis=1)), abs=0.03)


def test_parts_with_different_noise_are_one_estimate():
    words = {"schema": SCHEMA, "mechanism": "additive-noise", "seed": 1}
    parts = [
        sf.sanitize(make(300, 5)[0], parameters={"scale": 0.05}, **words),
        sf.sanitize(make(300, 6)[0], parameters={"scale": 0.5}, **words),
    ]
    found = sf.cluster(parts, clusters=2, model="spherical", resamples=0)
    assert found.centres.to_pydict()["a"] == pytest.approx(CENTRES[:, 0], abs=0.04)
    assert np.mean(found.probabilities.max(axis=1)[:300]) > np.mean(found.probabilities.max(axis=1)[300:])


def test_a_rotation_with_components_and_a_like_original_release(people):
    numbers = {name: people[0][name] for name in "abc"}
    mixed = sf.sanitize(numbers, mechanism="principal-laplace", parameters={"b": 0.05}, seed=1)
    found = sf.cluster(mixed, clusters=2, model="diagonal", resamples=0)
    assert adjusted_rand(people[1][mixed.source], found.labels) > 0.5
    assert found.centres.column_names[2] == "c000"
    rounded = sf.sanitize(people[0], schema=SCHEMA, mechanism="additive-noise", like_original=True, seed=1)
    with pytest.raises(CardError, match="rounded and clipped"):
        sf.cluster(rounded, clusters=2)


def test_mistakes(release):
    for words, said in (
        ({"clusters": 0}, "whole number"),
        ({"clusters": 9_999}, "too many"),
        ({"model": "cubic"}, "--model must be auto, spherical or diagonal"),
    ):
        with pytest.raises(UsageError, match=said):
            sf.cluster(release, **words)


def test_the_command_writes_what_python_gives(release, tmp_path):
    release.save(tmp_path / "r")
    arguments = ["mine", "cluster", str(tmp_path / "r"), "--clusters", "2", "--model", "spherical", "--resamples", "0"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "found"), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == [
        "clusters.csv",
        "clusters.json",
        "rows.parquet",
    ]
    assert told["shares"] == sf.cluster(release, clusters=2, model="spherical", resamples=0).about["shares"]


def test_an_audit_tells_what_is_left(people, release):
    found = sf.audit(release, original=people[0], repeats=0, attacks=["naive-estimate"], clusters=2)
    told = found.data["clusters"]
    assert told["plain_rows"] > 0.9
    assert told["released_rows"] == pytest.approx(told["expected_agreement"], abs=0.15)
    assert any("Looking for 2 clusters" in note for note in found.notes)
    with pytest.raises(UsageError, match="--clusters"):
        sf.audit(release, original=people[0], clusters=1)


def test_categories_alone_are_tried_with_one_model():
    """The models differ in the variances of numbers only, so a second one would give the same once more."""
    rng = np.random.default_rng(2)
    which = rng.random(200) < 0.5
    town = {name: np.where(rng.random(200) < 0.85, which, ~which).astype(str) for name in "abcd"}
    release = sf.sanitize(town, mechanism="randomized-response", parameters={"epsilon": 3.0}, seed=1)
    found = sf.cluster(release, clusters=2, resamples=0)
    assert {one["model"] for one in found.about["tried"]} == {"spherical"}
    other = sf.cluster(release, clusters=2, model="diagonal", resamples=0)
    assert other.probabilities == pytest.approx(found.probabilities)
