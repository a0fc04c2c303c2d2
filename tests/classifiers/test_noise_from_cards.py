"""From written releases to models: learners by name read the cards, save, load, and answer for plain and noisy rows."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

from sfumato.core.errors import CardError, UsageError
from sfumato.guarantee import Card
from sfumato.learn.classifiers import (
    NoiseAwareDiscriminant,
    OnReconstruction,
    PerturbedClassifier,
    ReconstructedNaiveBayes,
    make_classifier,
)
from sfumato.learn.classifiers.class_densities import columns_of
from sfumato.learn.model import evaluate, load_model
from sfumato.learn.train import train
from sfumato.mechanisms import AdditiveNoise, MultiplicativeNoise, PrincipalLaplace
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

NAMES = ("reconstructed-naive-bayes", "reconstructed-tree", "noise-aware-lda", "noise-aware-qda")
PUBLIC = {"source": "public", "reason": "test"}


def patients(rows=4000, seed=0):
    """Two groups that differ in every column; one may be empty, one is a category, one a whole number."""
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.4
    pulse = np.clip(rng.normal(np.where(ill, 95, 70), 9, rows), 40, 140)
    return pd.DataFrame(
        {
            "pulse": np.where(rng.random(rows) < np.where(ill, 0.05, 0.3), np.nan, pulse),
            "visits": 1 + rng.binomial(6, np.where(ill, 0.6, 0.3)),
            "ward": np.where(rng.random(rows) < np.where(ill, 0.7, 0.3), "north", rng.choice(["south", "east"], rows)),
            "ill": np.where(ill, "yes", "no"),
        }
    )


SCHEMA = Schema(
    (
        Column("pulse", "numeric", low=40.0, high=140.0, missing=True, **PUBLIC),
        Column("visits", "integer", low=1, high=7, **PUBLIC),
        Column("ward", "categorical", categories=("north", "south", "east"), **PUBLIC),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)
NOISE = {
    "additive-noise": {"law": "normal", "scale": 0.25, "category_epsilon": 1.5},
    "multiplicative-noise": {"law": "uniform", "low": 1.0, "high": 2.0, "category_epsilon": 1.5},
}


def release(out, frame, mechanism="additive-noise", **options):
    parameters = options.pop("parameters", NOISE.get(mechanism, {}))
    sanitize(frame, out, Options(mechanism=mechanism, parameters=parameters, schema=SCHEMA, **options))
    return out


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("noisy")
    return {name: release(root / name, patients(), name) for name in NOISE}


@pytest.mark.parametrize("mechanism", NOISE)
@pytest.mark.parametrize("name", NAMES)
def test_plain_rows_are_classified_nearly_as_by_clean_training(folders, tmp_path, name, mechanism):
    """A Bayes classifier of these patients reaches about .93."""
    train([folders[mechanism]], classifier=name).save(tmp_path / "m.skops")
    found = load_model(tmp_path / "m.skops").classify(patients(2000, seed=7))
    assert found.accuracy > 0.88


def test_any_classifier_can_be_trained_on_reconstructed_values(folders, tmp_path):
    folder = folders["multiplicative-noise"]
    model = train([folder], classifier="naive-bayes", reconstruction="by-class")
    model.save(tmp_path / "m.skops")
    assert model.about["reconstruction"] == "by-class"
    assert model.about["transform"] == {"kind": "identity"}, "plain rows are not moved to where the release lies"
    assert evaluate(tmp_path / "m.skops", patients(2000, seed=7)).error < 0.15
    with pytest.raises(UsageError, match="uses the noise itself"):
        train([folder], classifier="noise-aware-lda", reconstruction="global").save(tmp_path / "n.skops")
    with pytest.raises(UsageError, match="no reconstruction 'local'"):
        make_classifier("forest", "local")
    assert make_classifier("reconstructed-tree", "global").reconstruction == "global"


def test_perturbed_rows_need_a_learner_that_can_blur(folders, tmp_path):
    queries = release(tmp_path / "q", patients(2000, seed=8))
    train([folders["additive-noise"]], classifier="reconstructed-naive-bayes").save(tmp_path / "nb.skops")
    train([folders["additive-noise"]], classifier="noise-aware-lda").save(tmp_path / "lda.skops")
    blurred = load_model(tmp_path / "nb.skops").classify(queries).accuracy
    assert blurred > 0.7
    with pytest.raises(UsageError, match="reconstructed-naive-bayes"):
        load_model(tmp_path / "lda.skops").classify(queries).save(tmp_path / "p2.csv")


@pytest.mark.parametrize("name", NAMES)
def test_private_labels_are_undone(tmp_path, name):
    folder = release(tmp_path / "r", patients(8000), private_label=True, label_epsilon=1.0)
    model = train([folder], classifier=name)
    model.save(tmp_path / "m.skops")
    assert Card.load(folder).label_keep < 0.8
    found = load_model(tmp_path / "m.skops").classify(patients(2000, seed=7))
    assert found.accuracy > 0.85
    clean = predict_share(found)
    assert 0.3 < clean < 0.5, "shares of classes are those of the truth, not flattened"
    assert model.about["answers_plain_rows"]


def predict_share(found):
    return float(found.probabilities[:, 1].mean())


def test_sites_with_different_noise_are_pooled_with_their_own_cards(tmp_path):
    frame = patients(6000)
    first = release(tmp_path / "a", frame[:1000], parameters={"law": "normal", "scale": 0.05, "category_epsilon": 4.0})
    second = release(tmp_path / "b", frame[1000:], parameters={"law": "laplace", "scale": 0.5, "category_epsilon": 0.5})
    for name in NAMES:
        train([first, second], classifier=name).save(tmp_path / f"{name}.skops")
        assert evaluate(tmp_path / f"{name}.skops", patients(2000, seed=7)).error < 0.13, name


def test_what_cannot_work_is_refused_with_a_way_out(tmp_path):
    rounded = release(tmp_path / "a", patients(500), like_original=True)
    with pytest.raises(CardError, match="like-original"):
        train([rounded], classifier="reconstructed-tree").save(tmp_path / "m.skops")
    rotated = release(tmp_path / "b", patients(500), "random-rotation", parameters={"noise": "normal", "scale": 0.1})
    with pytest.raises(CardError, match="noise-aware-lda"):
        train([rotated], classifier="reconstructed-naive-bayes").save(tmp_path / "m.skops")
    train([rotated], classifier="noise-aware-lda").save(tmp_path / "m.skops")
    key = rotated / "key.json"
    assert evaluate(tmp_path / "m.skops", patients(500, seed=7), key=key).error < 0.2


def test_card_and_mechanism_describe_the_same_columns(tmp_path):
    card = Card.load(release(tmp_path / "r", patients(100)))
    mechanism = AdditiveNoise(**NOISE["additive-noise"])
    encoding = card.source_encoding()
    mechanism.fit(encoding.encode(_arrow(patients(100))).X, None, encoding=encoding)
    for ours, theirs in zip(columns_of(mechanism.recipe_), columns_of(card.made_by()), strict=True):
        assert (ours.start, ours.stop, ours.low, ours.width) == (theirs.start, theirs.stop, theirs.low, theirs.width)
        assert ours.described.categories == theirs.described.categories
        assert ours.described.whole == theirs.described.whole
        assert json.dumps(_law(ours)) == json.dumps(_law(theirs))


def _law(column):
    return None if column.described.noise is None else column.described.noise.to_dict()


def _arrow(frame):
    import pyarrow as pa

    return pa.Table.from_pandas(frame.drop(columns="ill"), preserve_index=False)


X, y = load_wine(return_X_y=True)
BOUNDS = (0.5 * X.min(axis=0), X.max(axis=0))


@pytest.mark.parametrize(
    "mechanism",
    [AdditiveNoise(scale=0.05), MultiplicativeNoise(low=1.8, high=2.2), PrincipalLaplace(b=0.05)],
    ids=lambda m: m.name,
)
@pytest.mark.parametrize(
    "classifier",
    [*NAMES, OnReconstruction(RandomForestClassifier(10, random_state=0))],
    ids=lambda c: c if isinstance(c, str) else "forest",
)
def test_they_work_in_memory_with_every_kind_of_noise(mechanism, classifier):
    model = PerturbedClassifier(mechanism, classifier, bounds=BOUNDS, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["reconstructed-naive-bayes", "noise-aware-lda"])
def test_models_hold_no_released_rows(tmp_path, name):
    """Their size does not grow with the release (but for the intervals of the densities, at most 60)."""
    sizes = []
    for rows in (1000, 8000):
        train([release(tmp_path / f"r{rows}", patients(rows))], classifier=name).save(tmp_path / f"{rows}.skops")
        sizes.append((tmp_path / f"{rows}.skops").stat().st_size)
    assert sizes[1] < sizes[0] + 2000
    kind = {"reconstructed-naive-bayes": ReconstructedNaiveBayes, "noise-aware-lda": NoiseAwareDiscriminant}[name]
    assert isinstance(make_classifier(name), kind)
