"""What privacy costs: more privacy, less information; and the programme says how well it is solved."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.metrics.information import privacy_loss
from sfumato.core.errors import UsageError
from sfumato.reconstruction.parzen_program import optimality_residual, simplex_program
from sfumato.reconstruction.reconstruct import describe

PUBLIC = {"source": "public", "reason": "made up"}
SCHEMA = sf.Schema.from_dict({"columns": [{"name": "pay", "kind": "numeric", "low": 1, "high": 100, **PUBLIC}]})


@pytest.fixture(scope="module")
def pay():
    return np.random.default_rng(0).gamma(4.0, 8.0, 1500).clip(1.0, 100.0)


@pytest.fixture(scope="module")
def blurred(pay):
    parameters = {"law": "uniform", "low": -0.2, "high": 0.2}
    return sf.sanitize({"pay": pay}, schema=SCHEMA, mechanism="additive-noise", parameters=parameters, seed=1)


def test_less_privacy_keeps_more_information(pay, blurred):
    found = sf.trade_off(blurred, "pay", {"pay": pay}, levels=(0.05, 0.9), runs=2, bins=30)
    assert set(found.lines) == {"added, programme", "added, EM", "multiplied, programme"}
    for way in ("added, programme", "added, EM"):
        (low, private, _), (high, plain, _) = found.lines[way]
        assert (low, high) == (0.05, 0.9)
        assert private > 1.3 * plain
    assert found.table().num_rows == sum(map(len, found.lines.values()))
    assert found.plot().count("<polyline") == 3


def test_the_release_is_marked_where_it_stands(pay, tmp_path):
    release = sf.sanitize({"pay": pay}, schema=SCHEMA, mechanism="additive-noise", parameters={"scale": 0.2}, seed=1)
    found = sf.trade_off(release, "pay", {"pay": pay}, levels=(0.5,), runs=1, bins=30)
    told = privacy_loss(describe(release.card, "pay").noise, pay)
    assert found.mark[0] == pytest.approx(told)
    assert found.mark[1] < 0.3
    assert "this noise, programme" in found.lines
    assert "this release" in found.plot()
    found.save(tmp_path)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "trade-off.csv": 0o600,
        "trade-off.svg": 0o600,
    }


def test_what_has_no_trade_off_is_refused(pay, blurred):
    with pytest.raises(UsageError, match="privacy losses between 0 and 1"):
        sf.trade_off(blurred, "pay", {"pay": pay}, levels=(1.5,))


@pytest.mark.parametrize("penalty", [0.0, 0.01])
def test_the_residual_of_equation_18(penalty):
    """Nothing at the optimum; a hundredth of the mass moved is seen."""
    rng = np.random.default_rng(3)
    G, f = rng.random((25, 8)), rng.random(25)
    p = simplex_program(G, f, penalty)
    assert optimality_residual(G, f, p, penalty) < 1e-9
    moved = 0.99 * p + 0.01 / 8
    assert optimality_residual(G, f, moved, penalty) > 1e-4


def test_a_reconstruction_tells_its_residual(pay):
    release = sf.sanitize({"pay": pay}, schema=SCHEMA, mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)
    assert 0 <= sf.reconstruct(release, "pay", resamples=0).summary()["residual"] < 1e-9
