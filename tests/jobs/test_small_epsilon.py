"""At an epsilon that protects: released by square wave or in stages, trained by default, far above the majority."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "the form"}
SCHEMA = Schema(
    (
        *(Column(name, "numeric", low=0.0, high=10.0, **PUBLIC) for name in ("a", "b", "c", "d")),
        Column("town", "categorical", categories=("x", "y", "z"), **PUBLIC),
        Column("flat", "numeric", low=1.0, high=1.0, **PUBLIC),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.35
    frame = pd.DataFrame({name: np.clip(rng.normal(4 + 2 * ill, 1.5), 0, 10) for name in ("a", "b", "c", "d")})
    frame["town"] = np.where(ill & (rng.random(n) < 0.5), "x", rng.choice(list("xyz"), n))
    return frame.assign(flat=1.0, ill=np.where(ill, "yes", "no"))


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "chosen"),
    [("square-wave", 2.0, "naive-bayes"), ("staged-release", 8.0, "private-discriminant")],
)
def test_the_default_road_ends_far_above_the_majority(tmp_path, monkeypatch, mechanism, epsilon, chosen):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.json"))
    release = sf.sanitize(people(3_000), schema=SCHEMA, mechanism=mechanism, epsilon_record=epsilon)
    assert release.card.guarantee["kind"] == "local-dp"
    assert release.card.guarantee["epsilon_record"] <= epsilon
    model = sf.train(release)
    assert model.about["chosen"]["classifier"].endswith(chosen)
    assert not model.about["contains_rows"]
    assert not model.about["answers_one_class"]
    model.save(tmp_path / "m.skops")
    others = people(2_000, 1)
    found = (
        np.asarray(sf.load_model(tmp_path / "m.skops").predict(others.drop(columns="ill"))) == others["ill"]
    ).mean()
    assert found > 0.8  # the commonest class: .65
