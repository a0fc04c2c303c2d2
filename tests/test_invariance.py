"""Invariance, shown: which classifiers answer alike on rotated rows, from matrices, jobs and the command line."""

import json
import stat

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from invariance import ABOUT_ZERO, ALWAYS, NEVER, breast_cancer, pima, shares_of_equal_predictions
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.guarantee import Card, Key
from sfumato.learn.classifiers import PerturbedClassifier
from sfumato.learn.model import load_model
from sfumato.learn.train import train
from sfumato.mechanisms import RandomRotation
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

SAME = 0.99
"""One row in a hundred may lie on a border, where rounding decides."""

FRAME = load_breast_cancer(as_frame=True).frame.iloc[:, [0, 1, 4, 5, 6, 7, -1]].rename(columns={"target": "benign"})
TRAIN, NEW = FRAME.iloc[:400], FRAME.iloc[400:]
NAMES = list(FRAME.columns[:-1])


@pytest.fixture(params=["pima", "breast cancer"])
def data(request):
    return pima(request.getfixturevalue("data_folder")) if request.param == "pima" else breast_cancer()


def test_distances_and_hyperplanes_are_invariant_with_any_centre(data):
    for centre in ("zero", "random"):
        for name, shares in shares_of_equal_predictions(data, centre, 3, ALWAYS).items():
            assert shares.min() >= SAME, (name, centre)


def test_scalar_products_are_invariant_about_zero(data):
    for name, shares in shares_of_equal_predictions(data, "zero", 3, ABOUT_ZERO).items():
        assert shares.min() >= SAME, name


def test_and_not_about_another_centre(data_folder):
    for name, shares in shares_of_equal_predictions(pima(data_folder), "random", 4, ABOUT_ZERO).items():
        assert shares.mean() < 0.995, name


def test_single_columns_are_not_kept(data):
    for name, shares in shares_of_equal_predictions(data, "zero", 3, NEVER).items():
        assert shares.mean() < 0.99, name


def test_trees_are_other_classifiers_but_need_not_be_worse_ones(data_folder):
    """Equal predictions and equal accuracy are two things; docs/invariance.md says which is meant."""
    X, y = pima(data_folder)
    bounds = (X.min(axis=0), X.max(axis=0))
    model = PerturbedClassifier(RandomRotation(), KNeighborsClassifier(5), bounds=bounds, random_state=0)
    scaled = (X - bounds[0]) / np.ptp(X, axis=0)
    plain = cross_val_score(KNeighborsClassifier(5), scaled, y, cv=3)
    assert np.allclose(cross_val_score(model, X, y, cv=3), plain, atol=0.005)


# -- the whole road: sanitize, train, predict -------------------------------------------------------------------------


def schema(low=0.0, names=NAMES):
    columns = [
        Column(name, "numeric", low=low, high=float(FRAME[name].max()), source="public", reason="test")
        for name in names
    ]
    label = Column("benign", "categorical", role="label", categories=("0", "1"), source="public", reason="test")
    return Schema((*columns, label))


def encoded(frame):
    return frame[NAMES].to_numpy(float) / FRAME[NAMES].max().to_numpy(float)


def plain_answers():
    model = KNeighborsClassifier(11, weights="distance", algorithm="brute")
    return model.fit(encoded(TRAIN), TRAIN["benign"]).predict(encoded(NEW))


def release(frame, out, **options):
    sanitize(frame, out, Options(mechanism="random-rotation", schema=options.pop("schema", schema()), **options))
    return out


@pytest.fixture
def study(tmp_path):
    """A labelled release, its key in a file of its own, and a model."""
    release(TRAIN, tmp_path / "r", key=tmp_path / "key.json")
    train([tmp_path / "r"], classifier="knn").save(tmp_path / "m.skops")
    return tmp_path


def test_new_rows_are_classified_through_the_key(study):
    found = load_model(study / "m.skops").classify(NEW, key=study / "key.json")
    assert np.array_equal(found.codes, plain_answers())
    with pytest.raises(CardError, match="only with the key of the releases"):
        load_model(study / "m.skops").classify(NEW).save(study / "p2.csv")


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_released_queries_are_classified_without_the_key(study, engine):
    queries = release(NEW[NAMES], study / "q", key=study / "key.json", unlabelled=True, engine=engine)
    card = Card.load(queries)
    assert card.label == "none"
    assert card.release_schema["label"] is None
    assert "benign" not in pq.read_table(queries / "release.parquet").column_names
    found = load_model(study / "m.skops").classify(queries)
    assert found.accuracy is None
    assert np.array_equal(found.codes, plain_answers()[Release.open(queries, study / "key.json").source])
    with pytest.raises(TableError, match="add --unlabelled"):
        release(NEW[NAMES], study / "q2", key=study / "key.json")
    with pytest.raises(UsageError, match="there is none to keep private"):
        release(NEW[NAMES], study / "q2", key=study / "key.json", unlabelled=True, private_label=True)


def test_sites_with_one_key_are_pooled_and_other_spaces_refused(study):
    second = release(NEW, study / "s", key=study / "key.json")
    model = train([study / "r", second], classifier="knn")
    model.save(study / "both.skops")
    assert model.about["rows"] == len(FRAME)
    other = release(NEW, study / "o")
    with pytest.raises(CardError, match="do not fit together"):
        train([study / "r", other], classifier="knn").save(study / "n.skops")
    with pytest.raises(CardError, match="does not fit together"):
        load_model(study / "m.skops").classify(other).save(study / "p.csv")
    with pytest.raises(CardError, match="not the one used for the training releases"):
        load_model(study / "m.skops").classify(NEW, key=other / "key.json").save(study / "p.csv")


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = run_guarded(app, [str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return run


@pytest.fixture
def files(tmp_path):
    TRAIN.to_csv(tmp_path / "train.csv", index=False)
    NEW.to_csv(tmp_path / "new.csv", index=False)
    NEW[NAMES].to_csv(tmp_path / "queries.csv", index=False)
    schema().save(tmp_path / "schema.yaml")
    return tmp_path


def rotate(run, files, table, out, *more, key="key.json"):
    rotation = ("--mechanism", "random-rotation", "--schema", files / "schema.yaml", "--key", files / key)
    return run("sanitize", files / table, *rotation, "--out", files / out, *more)


def test_the_road_from_the_command_line(run, files):
    code, out, _ = rotate(run, files, "train.csv", "r", "--search", 3, "--json")
    assert code == 0
    assert json.loads(out)["search"]["iterations"] == 3
    assert json.loads(out)["private_files"] == ["trace.parquet"]
    assert stat.S_IMODE((files / "key.json").stat().st_mode) == 0o600
    card = (files / "r" / "card.json").read_text()
    assert Key.load(files / "key.json").commitment() in card
    assert run("train", files / "r", "--classifier", "knn", "--out", files / "m.skops")[0] == 0
    assert (
        run("predict", files / "m.skops", files / "new.csv", "--key", files / "key.json", "--out", files / "p.csv")[0]
        == 0
    )
    assert pd.read_csv(files / "p.csv")["prediction"].to_numpy().tolist() == plain_answers().tolist()
    assert rotate(run, files, "queries.csv", "q", "--unlabelled")[0] == 0
    assert run("predict", files / "m.skops", files / "q", "--out", files / "p2.csv")[0] == 0
    source = pq.read_table(files / "q" / "trace.parquet")["source"].to_numpy()
    assert pd.read_csv(files / "p2.csv")["prediction"].to_numpy().tolist() == plain_answers()[source].tolist()


def test_the_search_is_told_to_the_owner_in_words(run, files):
    code, out, err = rotate(run, files, "train.csv", "r", "--search", 3)
    assert code == 0
    assert "Best of 3 rotations" in out
    assert "ICA, on any rotation tried" in out
    assert "does not: --param noise=laplace" in err


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    path.chmod(0o600)


KEYS = {
    "open to others": (lambda path: path.chmod(0o644), "can be read by others"),
    "cut short": (lambda path: path.write_text(path.read_text()[:300]), "damaged or cut short"),
    "empty": (lambda path: path.write_text(""), "damaged or cut short"),
    "edited": (lambda path: edit(path, lambda data: data.update(salt="00" * 32)), "was changed since it was drawn"),
    "of the wrong shape": (
        lambda path: edit(path, lambda data: data["arrays"]["matrix"].update(shape=[4, 9])),
        "was changed since it was drawn",
    ),
    "of another mechanism": (lambda path: edit(path, lambda data: data.update(mechanism="x")), "was changed"),
}


@pytest.mark.parametrize("damage", KEYS)
def test_bad_keys_are_refused_in_one_line(run, files, damage):
    assert rotate(run, files, "train.csv", "r")[0] == 0
    harm, words = KEYS[damage]
    harm(files / "key.json")
    code, _, err = rotate(run, files, "train.csv", "s")
    assert code == 6
    assert words in err
    assert not (files / "s").exists()


def test_a_key_for_another_schema_is_refused(run, files):
    assert rotate(run, files, "train.csv", "r")[0] == 0
    for other in (schema(low=-1.0), schema(names=NAMES[:3])):
        other.save(files / "schema.yaml")
        code, _, err = rotate(run, files, "train.csv", "s")
        assert code == 6
        assert "drawn for other columns, bounds or categories" in err


@pytest.mark.parametrize("search", [(), ("--search", 2)], ids=["drawn", "searched"])
@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1.0, 2, 3, 4], "c": [5.0] * 4}),
        pd.DataFrame({"a": [1.0, 2, 3, 4]}),
        pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [2.0, 4, 6, 8]}),
        pd.DataFrame(np.arange(24.0).reshape(3, 8) % 7, columns=list("abcdefgh")),
    ],
    ids=["constant", "one column", "singular", "fewer rows than columns"],
)
def test_awkward_tables_are_released_without_a_traceback(run, tmp_path, frame, search):
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = run(
        "sanitize", tmp_path / "t.csv", "--mechanism", "random-rotation", *search, "--out", tmp_path / "r"
    )
    assert code == 0
    assert f"Released {len(frame)} rows" in out
    assert Release.open(tmp_path / "r").Z.shape == frame.shape
