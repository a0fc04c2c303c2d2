"""A number to predict that is released as it is: it stays with its row, is told of, and leaves no formal claim."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.core.errors import CardError, SchemaError, TableError, UsageError
from sfumato.guarantee import Card
from sfumato.guarantee.card import recomputed
from sfumato.learn.regress import errors_of
from sfumato.release.sanitize_checks import alone
from sfumato.study.protocol.pool_study import PoolStudy

KNOWN = {"source": "public", "reason": "made up for a test"}


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    age, weight = rng.uniform(20, 80, n), rng.uniform(50, 100, n)
    cost = 10 * age - 4 * weight + rng.normal(0, 20, n)
    return pd.DataFrame({"age": age, "weight": weight, "smokes": rng.choice(["no", "yes"], n), "cost": cost.round(3)})


def schema():
    return sf.Schema(
        (
            sf.Column("age", "numeric", low=20, high=80, **KNOWN),
            sf.Column("weight", "numeric", low=50, high=100, **KNOWN),
            sf.Column("smokes", "categorical", categories=("no", "yes"), **KNOWN),
            sf.Column("cost", "numeric", role="target"),
        )
    )


@pytest.fixture(scope="module")
def rotated():
    with pytest.MonkeyPatch.context() as patch:  # keys come from the operating system, whatever the seed is
        patch.setattr("sfumato.mechanisms.random_rotation.secret_generator", lambda *_: np.random.default_rng(8))
        return sf.sanitize(people(), schema=schema(), mechanism="random-rotation", seed=1)


def test_it_stays_with_its_row_and_is_never_mixed_with_others(rotated):
    frame = people()
    assert np.array_equal(rotated.target, frame["cost"].to_numpy()[rotated.source])
    assert rotated.Z.shape[1] == 4  # two numbers and two slots: the target is not rotated
    drawn = sf.sanitize(frame, target="cost", mechanism="kernel-resampling", parameters={"rows": 900}, seed=2)
    assert np.array_equal(drawn.target, frame["cost"].to_numpy()[drawn.source])
    assert drawn.table["cost"].tolist() == drawn.target.tolist()


def test_regressions_that_look_at_distances_and_planes_lose_nothing(rotated):
    """The same errors on rotated rows as on plain ones, to rounding; a tree's are others [random-rotation, Eq. 1]."""
    X = rotated.encoding.encode(sf_batch(people())).X[rotated.source]
    plain, turned = errors_of(X, rotated.target, 1.0, 0)["rmse"], errors_of(rotated.Z, rotated.target, 1.0, 0)["rmse"]
    for name in ("kernel-smoother", "linear", "least-squares"):
        assert turned[name] == pytest.approx(plain[name], rel=1e-6)
    assert abs(turned["tree"] / plain["tree"] - 1) > 0.01, (turned, plain)
    found = sf.regress(rotated, "cost")
    assert found.about["as_released"]["rmse"] == pytest.approx(turned)
    assert found.about["as_on_plain_rows"] == ["kernel-smoother", "linear", "least-squares"]
    assert found.coefficients.num_rows == 0  # the slots of a category add up to one
    assert "follow from each other" in found.warnings[0]
    some = sf.regress(rotated, "cost", columns=["c000", "c001"])
    assert some.coefficients["term"].to_pylist() == ["(intercept)", "c000", "c001"]


def sf_batch(frame):
    import pyarrow as pa

    return pa.RecordBatch.from_pandas(frame, preserve_index=False)


def test_noise_is_taken_out_of_the_columns_that_explain_it(tmp_path):
    made = sf.sanitize(
        people(2500), schema=schema(), mechanism="additive-noise", parameters={"scale": 0.15, "law": "normal"}, seed=3
    )
    made.save(tmp_path / "r")
    found = sf.regress(tmp_path / "r", "cost", columns=["age", "weight"])
    age = found.coefficients.to_pylist()[1]
    assert age["low"] < 10 < age["high"]
    assert age["as_released"] < 0.9 * 10  # what ignoring the noise would have said


def test_no_formal_claim_is_left_and_the_card_says_why(rotated, tmp_path):
    formal = {"mechanism": "random-rotation", "parameters": {"noise": "laplace"}, "ledger": tmp_path / "ledger"}
    told = sf.sanitize(people(), schema=schema(), **formal).card
    assert not told.is_formal
    assert any("released as it is" in reason for reason in told.guarantee["in_the_way"])
    assert any("'cost', is released exactly as it was" in line for line in told.threat_model["not_protected"])
    assert recomputed(replace(told, guarantee={**told.guarantee, "in_the_way": []})).kind != "local-dp"
    without = schema().with_column("cost", role="identifier")
    other = sf.sanitize(people(), schema=without, **formal).card
    assert other.is_formal
    assert other.space != told.space
    forged = json.loads(other.to_json())
    forged["release_schema"]["target"] = {"name": "cost"}
    with pytest.raises(CardError, match="number to predict"):
        Card.from_dict(forged)
    forged["source_schema"]["columns"].append({"name": "cost", "kind": "numeric", "role": "target"})
    with pytest.raises(CardError, match="guarantee beside a number"):
        Card.from_dict(forged)
    notes = sf.audit(rotated, original=people(), attacks=["naive-estimate"]).notes
    assert any("adversaries are not given it" in note for note in notes)
    assert alone(np.array([1.0, 2.0, 2.0, 3.0])) == 2


def test_what_cannot_be_is_refused_in_words():
    frame = people(40)
    with pytest.raises(SchemaError, match="no column 'rent'"):
        sf.sanitize(frame, target="rent", seed=1)
    with pytest.raises(SchemaError, match="must be numeric or integer"):
        sf.sanitize(frame, target="smokes", seed=1)
    with pytest.raises(TableError, match="missing in 1 row, first in row 4"):
        sf.sanitize(frame.assign(cost=frame["cost"].where(frame.index != 3)), schema=schema(), seed=1)
    with pytest.raises(UsageError, match="are made up"):
        sf.sanitize(frame, schema=schema(), mechanism="tree-resampling", seed=1)
    with pytest.raises(SchemaError, match="studies do not pool"):
        PoolStudy.from_dict(
            {
                "name": "s",
                "schema": schema().to_dict(),
                "mechanism": {"name": "additive-noise"},
                "guarantee": {"epsilon_record": 6.0},
            }
        )
    flat = sf.sanitize(frame.assign(cost=7.0), target="cost", mechanism="random-rotation", seed=1)
    with pytest.raises(UsageError, match="same in every row"):
        sf.regress(flat, "cost")
    with pytest.raises(SchemaError, match="sfumato mine regress"):
        sf.train(flat, classifier="knn")
