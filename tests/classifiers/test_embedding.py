"""Plain rows are compared where the release lies, or not at all."""

import numpy as np
import pandas as pd
import pytest

from sfumato.core.errors import UsageError
from sfumato.learn.classifiers import PerturbedClassifier
from sfumato.learn.model import evaluate, load_model
from sfumato.learn.train import train
from sfumato.mechanisms import NoisyOperator
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.pooling.gather import Pushed
from sfumato.study.pooling.train_pool import Request, train_pool
from sfumato.table import Column, Schema

SCHEMA = Schema(
    (
        Column("pulse", "numeric", low=40.0, high=140.0, source="public", reason="test"),
        Column("ill", "categorical", role="label", categories=("no", "yes"), source="public", reason="test"),
    )
)
QUARTIC = {"operator": "quartic", "law": "uniform", "low": -0.5, "high": 2.0}


def patients(rows, seed):
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.5
    return pd.DataFrame({"pulse": rng.normal(np.where(ill, 100, 70), 5), "ill": np.where(ill, "yes", "no")})


def release(out, parameters):
    options = Options(mechanism="noisy-operator", parameters=parameters, schema=SCHEMA, seed=0)
    sanitize(patients(600, 0), out, options)
    return out


@pytest.mark.parametrize("name", ["radius-vote", "knn", "naive-bayes"])
def test_added_noise_of_another_mean_moves_plain_rows_too(tmp_path, name):
    """Noise of mean 20 puts the well where the ill would be looked for."""
    folder = release(tmp_path / "r", {"operator": "additive", "law": "uniform", "low": 15.0, "high": 25.0})
    train([folder], classifier=name).save(tmp_path / "m.skops")
    assert evaluate(tmp_path / "m.skops", patients(300, 1)).error < 0.02
    test = tmp_path / "test.csv"
    patients(300, 1).to_csv(test, index=False)
    pushed = Pushed(folder / "release.parquet", "north", "sha256:0")
    _, results = train_pool(Request([pushed], name, test), tmp_path / "p.skops")
    assert results["test"][0]["error"] < 0.02


def test_in_memory_they_are_moved_too():
    rows, test = patients(600, 0), patients(300, 1)
    mechanism = NoisyOperator("additive", "uniform", low=15.0, high=25.0)
    model = PerturbedClassifier(mechanism, "knn", bounds=(40, 140), random_state=0)
    model.fit(rows[["pulse"]].to_numpy(), rows["ill"].to_numpy())
    assert model.score(test[["pulse"]].to_numpy(), test["ill"].to_numpy()) > 0.98


def test_other_operators_leave_plain_rows_to_learners_that_reconstruct(tmp_path):
    folder = release(tmp_path / "r", QUARTIC)
    train([folder], classifier="knn").save(tmp_path / "knn.skops")
    with pytest.raises(UsageError, match=r"operator quartic.*reconstructed-naive-bayes"):
        load_model(tmp_path / "knn.skops").classify(patients(50, 1)).save(tmp_path / "p.csv")
    assert load_model(tmp_path / "knn.skops").classify(folder).rows == 600  # released likewise
    train([folder], classifier="reconstructed-naive-bayes").save(tmp_path / "bayes.skops")
    assert evaluate(tmp_path / "bayes.skops", patients(300, 1)).error < 0.1
    test = tmp_path / "test.csv"
    patients(300, 1).to_csv(test, index=False)
    request = Request([Pushed(folder / "release.parquet", "north", "sha256:0")], "knn", test)
    _, results = train_pool(request, tmp_path / "pool.skops")
    assert results["test"] == []
    assert any("operator quartic" in note for note in results["notes"])


def test_in_memory_other_operators_are_refused_too():
    rows = patients(600, 0)
    model = PerturbedClassifier(
        NoisyOperator("quartic", "uniform", low=-0.5, high=2.0), "radius-vote", bounds=(40, 140), random_state=0
    )
    model.fit(rows[["pulse"]].to_numpy(), rows["ill"].to_numpy())
    with pytest.raises(UsageError, match="operator quartic"):
        model.predict([[70.0]])
