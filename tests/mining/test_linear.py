"""Errors in variables: coefficients of plain columns from noisy ones, and intervals that hold."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.channels import (
    Additive,
    Affine,
    Carried,
    Hybrid,
    Identity,
    Piecewise,
    RandomizedResponse,
    Recipe,
    Sampled,
    SquareWave,
)
from sfumato.core.errors import CardError, UsageError
from sfumato.learn.mining.seen import Part
from sfumato.learn.regress import fit_linear, unbiased
from sfumato.noise import Laplace, Normal, OperatorNoise, make_operator
from sfumato.table import Column, Encoding, Schema

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")
NAMES = ("a", "b", "y")
TRUTH = np.array([0.1, 0.5, -0.3])
ENCODING = Encoding(
    Schema(
        (
            *(Column(name, "numeric", low=0.0, high=1.0) for name in NAMES),
            Column("town", "categorical", categories=("n", "s", "w")),
        )
    )
)
EFFECT = np.array([0.0, 0.2, 0.4])


def people(rows, rng):
    a = rng.beta(2, 2, rows)
    b = np.clip(0.5 * a + 0.5 * rng.random(rows), 0, 1)
    town = rng.integers(3, size=rows)
    y = TRUTH[0] + TRUTH[1] * a + TRUTH[2] * b + EFFECT[town] + rng.normal(0, 0.05, rows) + 0.2
    return np.column_stack([a, b, y, np.eye(3)[town]])


def fitted(rows, rng, channels, columns=(0, 1, 4, 5)):
    recipe = Recipe(ENCODING, Identity(6), channels)
    Z = recipe.perturb(people(rows, rng), rng)
    return fit_linear([unbiased(Part(Z, recipe, channels))], np.array(columns), 2)


NOISE = Additive(Laplace(scale=0.1))
FACTOR = Carried.of(OperatorNoise(make_operator("multiplicative", {"base": 1.0}), Normal(0.3)), 0.0, 1.0)
KINDS = {
    "added": (NOISE, NOISE, NOISE, RandomizedResponse(0.7, 3)),
    "multiplied": (FACTOR, NOISE, NOISE, RandomizedResponse(0.7, 3)),
    "square waves": (*3 * [SquareWave.of_epsilon(6.0)], RandomizedResponse(0.7, 3)),
    "square waves of some": (*3 * [Sampled(SquareWave.of_epsilon(6.0), 0.7)], RandomizedResponse(0.7, 3)),
    "pieces": (
        Piecewise.of_epsilon(6.0),
        Hybrid.of_epsilon(6.0),
        Piecewise.of_epsilon(6.0),
        RandomizedResponse(0.7, 3),
    ),
    "not all reported": (Sampled(NOISE, 0.6), NOISE, Sampled(NOISE, 0.8), RandomizedResponse(0.7, 3)),
}


CURVED = [SquareWave.of_epsilon(1.0), Piecewise.of_epsilon(2.0), Hybrid.of_epsilon(1.0), Hybrid.of_epsilon(4.0), NOISE]


@pytest.mark.parametrize("channel", [*CURVED, Sampled(SquareWave.of_epsilon(2.0), 0.5)], ids=str)
@pytest.mark.parametrize("x", [0.0, 0.2, 0.9])
def test_the_variance_of_a_number_is_the_one_that_is_taken_off(channel, x):
    """Measured on draws; a variance 30% off, or that of the middle of the range, is rejected."""
    encoding = Encoding(Schema((Column("a", "numeric", low=0.0, high=1.0),)))
    recipe, truth = Recipe(encoding, Identity(1), (channel,)), np.full((400_000, 1), x)
    part = unbiased(Part(recipe.perturb(truth, np.random.default_rng(5)), recipe, (channel,)))
    w, extra = (one[~np.isnan(part.W)] for one in (part.W, part.diagonal))
    square = w**2 - extra
    error = 5 * square.std() / np.sqrt(len(w))
    assert square.mean() == pytest.approx(x**2, abs=error)
    assert abs((w**2 - 0.7 * extra).mean() - x**2) > error


@pytest.mark.parametrize("channels", KINDS.values(), ids=KINDS)
def test_the_plain_coefficients_are_found(channels):
    found = fitted(60_000, np.random.default_rng(0), channels)
    truth = np.array([0.3, 0.5, -0.3, 0.2, 0.4])
    assert np.abs(found.coefficients - truth) == pytest.approx(np.zeros(5), abs=4 * found.errors.max())
    assert found.errors.max() < 0.05
    assert (np.abs(found.naive - truth)[1:] > 0.3 * np.abs(truth)[1:]).any(), "least squares is 30% off"


def test_intervals_hold():
    rng = np.random.default_rng(1)
    held = []
    for _ in range(80):
        one = fitted(1500, rng, (NOISE, NOISE, NOISE, RandomizedResponse(0.9, 3)), (0, 1))
        held.append((one.low <= [0.5, 0.5, -0.3]) & (one.high >= [0.5, 0.5, -0.3]))
    assert np.mean(held, axis=0)[1:] == pytest.approx([0.95, 0.95], abs=0.06)


def test_all_components_of_a_public_basis_serve_as_well():
    rng = np.random.default_rng(2)
    encoding = Encoding.unit(3)
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    recipe = Recipe(encoding, Affine(basis, np.zeros(3), None, "drawn"), (NOISE,) * 3)
    part = Part(recipe.perturb(people(40_000, rng)[:, :3], rng), recipe, recipe.channels)
    found = fit_linear([unbiased(part)], np.array([0, 1]), 2)
    assert found.coefficients[1:] == pytest.approx([0.5, -0.3], abs=0.08)
    half = Recipe(encoding, Affine(basis[:2], np.zeros(2), None, "drawn"), (NOISE,) * 2)
    with pytest.raises(CardError, match="2 components of 3"):
        unbiased(Part(part.Z[:, :2], half, half.channels))


def test_noise_that_leaves_nothing_is_refused():
    channels = (*(Additive(Laplace(scale=5.0)),) * 3, RandomizedResponse(0.9, 3))
    with pytest.raises(UsageError, match="too strong"):
        fitted(100, np.random.default_rng(0), channels, (0, 1))


@pytest.fixture(scope="module")
def release():
    X = people(3000, np.random.default_rng(4))
    table = {"a": 100 * X[:, 0], "b": X[:, 1], "y": 10 * X[:, 2], "town": np.array(["n", "s", "w"])[X[:, 3:].argmax(1)]}
    return sf.sanitize(table, mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)


def test_raw_units(release):
    found = {one["term"]: one for one in sf.regress(release, "y").coefficients.to_pylist()}
    assert found["a"]["low"] < 0.05 < found["a"]["high"]
    assert found["b"]["low"] < -3 < found["b"]["high"]
    assert found["town=w"]["low"] < 4 < found["town=w"]["high"]
    assert list(found) == ["(intercept)", "a", "b", "town=s", "town=w"]


def test_mistakes(release):
    for target, words, said in (
        ("x", {}, "no column 'x'"),
        ("town", {}, "no number"),
        ("y", {"columns": ["y"]}, "cannot explain"),
        ("y", {"confidence": 2}, "confidence"),
    ):
        with pytest.raises(UsageError, match=said):
            sf.regress(release, target, **words)


def test_the_command_writes_what_python_gives(release, tmp_path):
    release.save(tmp_path / "r")
    arguments = ["mine", "regress", str(tmp_path / "r"), "--target", "y", "--out", str(tmp_path / "found"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["coefficients"] == sf.regress(release, "y").coefficients.to_pylist()
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == ["coefficients.csv", "regression.json"]
