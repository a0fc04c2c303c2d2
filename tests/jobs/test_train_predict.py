"""From releases to models to answers: pooling, embedding, keys, damaged and foreign files."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.datasets import load_wine

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import CardError, SchemaError, TableError, UsageError
from sfumato.learn.classifiers import CLASSIFIERS
from sfumato.learn.model import FORMAT, VERSION, Model, evaluate, load_model
from sfumato.learn.train import train
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

ON_BITS = [name for name, one in CLASSIFIERS.items() if one.on_bits]

DATA = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
COLUMNS = [name for name in DATA.columns if name != "cultivar"]


def public_schema(frame=DATA):
    columns = [
        Column(name, "numeric", low=0.0, high=float(frame[name].max()), source="public", reason="test")
        for name in COLUMNS
    ]
    label = Column("cultivar", "categorical", role="label", categories=("0", "1", "2"), source="public", reason="test")
    return Schema((*columns, label))


def release(out, frame=DATA, mechanism="additive-noise", **options):
    parameters = options.pop("parameters", {"scale": 0.05} if mechanism == "additive-noise" else {})
    options = Options(mechanism=mechanism, parameters=parameters, schema=public_schema(), **options)
    sanitize(frame, out, options)
    return out


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in ON_BITS])
def test_every_classifier_trains_saves_loads_and_answers(tmp_path, name):
    folder = release(tmp_path / "r")
    train([folder], classifier=name).save(tmp_path / "m.skops")
    predicted = load_model(tmp_path / "m.skops").classify(DATA.drop(columns="cultivar"))
    predicted.save(tmp_path / "p.csv")
    written = pd.read_csv(tmp_path / "p.csv")
    assert len(written) == len(DATA)
    assert (written["prediction"] == DATA["cultivar"]).mean() > 0.8
    assert predicted.accuracy is None
    assert set(written.columns) <= {"prediction", "probability"}


@pytest.mark.parametrize(
    "text",
    [
        "knn k=cross-validation weights=1/d^2",
        "svm kernel=polynomial gamma=1 offset=1 scaled=false",
        "svm kernel=sigmoid gamma=0.1",
        "mlp decay=1 solver=lbfgs iterations=1000 scaled=false",
        "radius-vote n=1 prior_correction=false",
        "kernel-smoother width=0.5 kernel=epanechnikov",
    ],
)
def test_parameters_stand_in_the_model_and_survive_its_file(tmp_path, text):
    name = text.split()[0]
    model = train([release(tmp_path / "r")], classifier=text)
    model.save(tmp_path / "m.skops")
    again = Model.load(tmp_path / "m.skops")
    assert again.about["classifier"] == name
    assert set(again.about["parameters"]) == set(CLASSIFIERS[name].defaults())
    assert model.chosen == again.chosen == text
    assert repr(again).startswith(f"<Model {text} from ")
    assert evaluate(tmp_path / "m.skops", DATA).error < 0.2
    assert again.about.get("chosen", {}).get("k", 1) >= 1


@pytest.mark.parametrize("reconstruction", [None, "by-class"])
def test_few_rows_have_few_neighbours(tmp_path, reconstruction):
    """knn asks eleven; ten rows are all there are, also inside another classifier."""
    few = DATA.iloc[[0, 1, 2, 3, 70, 71, 72, 150, 151, 152]]
    train([release(tmp_path / "r", few)], classifier="knn", reconstruction=reconstruction).save(tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops").classify(few).rows == 10


@pytest.mark.parametrize("name", ON_BITS)
def test_classifiers_of_bits_refuse_other_numbers(tmp_path, name):
    with pytest.raises(TableError, match="learns from bits"):
        train([release(tmp_path / "r")], classifier=name).save(tmp_path / "m.skops")


def test_two_sites_with_one_space_are_pooled_with_their_own_noise(tmp_path):
    basis = np.eye(len(COLUMNS))[:6].tolist()
    (tmp_path / "basis.json").write_text(json.dumps(basis))
    folders = []
    for number, b in enumerate((0.02, 0.2)):
        part = DATA.iloc[number::2]
        parameters = {"basis": str(tmp_path / "basis.json"), "b": b}
        folders.append(release(tmp_path / f"r{number}", part, "principal-laplace", parameters=parameters))
    model = train(folders, classifier="radius-vote")
    model.save(tmp_path / "m.skops")
    assert model.about["rows"] == len(DATA)
    assert model.about["contains_rows"]
    weak, strong = model.classifier.squared_radius_
    assert strong > 10 * weak


def test_a_release_given_twice_is_refused_however_it_is_spelt(tmp_path):
    release(tmp_path / "a")
    with pytest.raises(UsageError, match="each of them once"):
        train([tmp_path / "a", tmp_path / "a" / ".." / "a"], classifier="radius-vote").save(tmp_path / "m.skops")


def test_releases_of_different_spaces_are_never_pooled(tmp_path):
    first = release(tmp_path / "a", mechanism="principal-laplace", parameters={"b": 0.1})
    second = release(tmp_path / "b", DATA.iloc[::2], "principal-laplace", parameters={"b": 0.1})
    with pytest.raises(CardError, match="do not fit together"):
        train([first, second], classifier="knn").save(tmp_path / "m.skops")
    train([first], classifier="knn").save(tmp_path / "m.skops")
    with pytest.raises(CardError, match="does not fit together"):
        load_model(tmp_path / "m.skops").classify(second).save(tmp_path / "p.csv")
    assert load_model(tmp_path / "m.skops").classify(first).accuracy > 0.8


def test_a_secret_projection_needs_its_key_for_plain_rows(tmp_path):
    folder = release(tmp_path / "r", mechanism="random-projection", parameters={"components": 8})
    train([folder], classifier="knn").save(tmp_path / "m.skops")
    with pytest.raises(CardError, match="--key"):
        load_model(tmp_path / "m.skops").classify(DATA).save(tmp_path / "p.csv")
    found = load_model(tmp_path / "m.skops").classify(DATA, key=folder / "key.json")
    assert found.accuracy > 0.8
    other = release(tmp_path / "other", mechanism="random-projection", parameters={"components": 8})
    with pytest.raises(CardError, match="not the one"):
        load_model(tmp_path / "m.skops").classify(DATA, key=other / "key.json").save(tmp_path / "p2.csv")


def test_released_rows_without_noise_are_as_plain_ones(tmp_path):
    """A learner of plain rows answers for them; where there is noise, it names one that can, also behind a key."""
    folder = release(tmp_path / "r", mechanism="random-rotation")
    train([folder], classifier="noise-aware-lda").save(tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops").classify(folder).accuracy > 0.9
    noisy = release(tmp_path / "n", mechanism="random-rotation", parameters={"noise": "normal", "scale": 0.1})
    train([noisy], classifier="noise-aware-lda").save(tmp_path / "n.skops")
    with pytest.raises(UsageError, match="knn or svm"):
        load_model(tmp_path / "n.skops").classify(noisy).save(tmp_path / "p2.csv")


def test_plain_rows_are_stretched_like_a_multiplied_release(tmp_path):
    """Noise of mean 2 doubles every value: a query must be compared where the release lies."""
    columns = [
        Column(name, "numeric", low=0.5, high=float(DATA[name].max()) + 1, source="public", reason="test")
        for name in COLUMNS
    ]
    schema = Schema((*columns, *[column for column in public_schema().columns if column.role == "label"]))
    parameters = {"law": "uniform", "low": 1.95, "high": 2.05}
    shifted = DATA.copy()
    shifted[COLUMNS] = shifted[COLUMNS] + 0.5
    sanitize(shifted, tmp_path / "r", Options(mechanism="multiplicative-noise", parameters=parameters, schema=schema))
    train([tmp_path / "r"], classifier="naive-bayes").save(tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops").classify(shifted).accuracy > 0.9


def test_private_labels_are_corrected_for(tmp_path):
    frame = DATA.loc[DATA.index.repeat(12)].reset_index(drop=True)
    folder = release(tmp_path / "r", frame, private_label=True, label_epsilon=1.0)
    train([folder], classifier="naive-bayes").save(tmp_path / "m.skops")
    predicted = load_model(tmp_path / "m.skops").classify(DATA)
    assert predicted.accuracy > 0.85


def test_odd_tables_are_answered_or_refused_with_a_way_out(tmp_path):
    train([release(tmp_path / "r")], classifier="naive-bayes").save(tmp_path / "m.skops")

    def answers(table):
        return load_model(tmp_path / "m.skops").classify(table)

    with pytest.raises(TableError, match="no rows"):
        answers(DATA.head(0))
    hole = DATA.copy()
    hole.loc[3, COLUMNS[0]] = np.nan
    with pytest.raises(TableError, match=r"row 4.*The schema is the model's"):
        answers(hole)
    unlabelled = DATA.assign(cultivar=DATA["cultivar"].where(DATA.index % 2 == 0).astype("Int64"))
    assert answers(unlabelled).rows == len(DATA)
    assert answers(unlabelled).accuracy == pytest.approx(answers(DATA.iloc[::2]).accuracy)
    with pytest.raises(TableError, match="empty in 89 of 178 rows"):
        evaluate(tmp_path / "m.skops", unlabelled)


def test_foreign_and_damaged_models_are_refused_unread(tmp_path):
    class Stranger:
        pass

    path = tmp_path / "m.skops"
    path.write_bytes(b"not a model")
    with pytest.raises(CardError, match="not a model"):
        Model.load(path)
    about = json.dumps({"format": FORMAT, "version": VERSION})
    path.write_bytes(skops.io.dumps({"about": about, "classifier": os.path.join}))
    with pytest.raises(CardError, match="not loaded"):
        Model.load(path)
    path.write_bytes(skops.io.dumps({"about": json.dumps({"format": FORMAT, "version": 9}), "classifier": None}))
    with pytest.raises(CardError, match="version"):
        Model.load(path)
    with pytest.raises(CardError, match="no model"):
        Model.load(tmp_path / "none.skops")


def test_training_loads_only_what_the_classifier_needs(tmp_path):
    """Neither attackers nor reconstruction for naive Bayes; a learner of densities brings the latter."""
    code = (
        "import sys, sfumato as sf\n"
        "for name in ('naive-bayes', 'reconstructed-naive-bayes'):\n"
        "    sf.train(sys.argv[1], classifier=name)\n"
        "    print(*(room for room in ('attacks', 'reconstruction') if f'sfumato.{room}' in sys.modules))"
    )
    words = [sys.executable, "-c", code, str(release(tmp_path / "r"))]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == ["", "reconstruction"]


def test_mistakes_are_named(tmp_path, capsys):
    folder = release(tmp_path / "r")
    with pytest.raises(UsageError, match="no classifier 'oracle'"):
        train([folder], classifier="oracle").save(tmp_path / "m.skops")
    with pytest.raises(UsageError, match="at least one release"):
        train([], classifier="knn").save(tmp_path / "m.skops")
    (tmp_path / "m.skops").write_text("")
    assert run_guarded(app, ["train", str(folder), "--classifier", "knn", "--out", str(tmp_path / "m.skops")]) != 0
    assert "exists already" in capsys.readouterr().err
    unlabelled = tmp_path / "u"
    sanitize(DATA.drop(columns="cultivar"), unlabelled, Options(mechanism="additive-noise", unprotected=True))
    with pytest.raises(SchemaError, match="no column to predict"):
        train([unlabelled], classifier="knn").save(tmp_path / "m2.skops")


def test_a_header_without_rows_is_nothing_to_classify(tmp_path):
    """A text column without a cell has no row to name either."""
    frame = pd.DataFrame({"a": [0.1, 0.9] * 20, "y": ["no", "yes"] * 20})
    known = {"source": "public", "reason": "a form"}
    label = Column("y", "categorical", role="label", categories=("no", "yes"), **known)
    schema = Schema((Column("a", "numeric", low=0, high=1, **known), label))
    model = sf.train(sf.sanitize(frame, schema=schema, mechanism="kernel-resampling", ledger=tmp_path / "l.json"))
    (tmp_path / "head.csv").write_text("a,y\n")
    with pytest.raises(TableError, match="no rows"):
        model.predict(tmp_path / "head.csv")
    with pytest.raises(TableError, match="no rows"):
        model.evaluate(tmp_path / "head.csv")
