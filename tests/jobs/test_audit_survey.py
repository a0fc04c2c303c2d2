"""A table perturbed like a survey is audited with exact posteriors, and trained on."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from sfumato.auditing.audit import audit
from sfumato.learn.train import train
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "the questionnaire"}
NAMES = [f"q{number}" for number in range(5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("survey")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 700)
    codes = np.column_stack([np.where(rng.random(700) < share, y, 1 - y) for share in (0.9, 0.8, 0.7, 0.5, 0.5)])
    words = {name: pa.array(np.array(["no", "yes"])[codes[:, i]]) for i, name in enumerate(NAMES)}
    table = pa.table({**words, "party": pa.array(np.array(["a", "b"])[y])})
    pyarrow.csv.write_csv(table.slice(0, 400), place / "original.csv")
    pyarrow.csv.write_csv(table.slice(400), place / "holdout.csv")
    columns = [Column(name, "categorical", categories=("no", "yes"), **PUBLIC) for name in NAMES]
    label = Column("party", "categorical", role="label", categories=("a", "b"), **PUBLIC)
    schema = Schema((*columns, label))
    options = Options(mechanism="guided-projection", schema=schema, parameters={"floor": 0.2}, ledger=place / "ledger")
    sanitize(place / "original.csv", place / "release", options)
    return place


def test_the_audit_computes_exact_posteriors_and_says_so(folder):
    found = audit(folder / "release", original=folder / "original.csv", holdout=folder / "holdout.csv", repeats=2).data
    attacks = {entry["name"]: entry for entry in found["attacks"]}
    guess = attacks["posterior-guess"]
    assert guess["score"] > guess["baseline"] - 0.03  # the label alone tells nearly as much as these bits
    assert guess["details"]["mean_sureness"] == pytest.approx(guess["score"], abs=0.06)
    assert attacks["bayes-window"]["score"] == pytest.approx(guess["score"], abs=0.03)
    assert attacks["posterior-breach"]["score"] is not None
    assert "not a linear function" in attacks["known-transform"]["not_applicable"]
    assert not any("failed" in entry for entry in attacks.values())
    assert any("exact posteriors" in note and "simulated" in note for note in found["notes"])
    bayes = next(entry for entry in found["utility"] if entry["classifier"] == "naive-bayes")
    assert bayes["release"] > 0.75


def test_plain_answers_are_classified_after_training_on_bits(folder):
    model = train([folder / "release"], classifier="naive-bayes")
    model.save(folder / "model.skops")
    assert model.about["transform"] == {"kind": "identity"}


def test_a_release_in_stages_has_no_line_and_no_key_is_missed(tmp_path):
    rng = np.random.default_rng(1)
    pyarrow.csv.write_csv(pa.table({name: rng.random(120) for name in "abc"}), tmp_path / "t.csv")
    columns = tuple(Column(name, "numeric", low=0.0, high=1.0, **PUBLIC) for name in "abc")
    options = Options(mechanism="staged-release", schema=Schema(columns), ledger=tmp_path / "ledger")
    sanitize(tmp_path / "t.csv", tmp_path / "release", options)
    asked = ("known-transform", "linear-estimate")
    found = audit(tmp_path / "release", original=tmp_path / "t.csv", attacks=asked).data
    for entry in found["attacks"]:
        assert "in stages" in entry["not_applicable"]
        assert "key" not in entry["not_applicable"]
