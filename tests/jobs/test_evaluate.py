"""A model judged at home: error with an interval, counts, and nothing written unasked."""

import json
import stat

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_wine

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import CardError, TableError
from sfumato.learn.model import evaluate, load_model
from sfumato.learn.train import train
from sfumato.release.sanitize import Options, sanitize

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(as_frame=True).frame.rename(columns={"target": "label"})


@pytest.fixture(scope="module")
def home(wine, tmp_path_factory):
    """A model of two thirds of the wines, and the other third in plain rows."""
    folder = tmp_path_factory.mktemp("evaluate")
    test = np.arange(len(wine)) % 3 == 0
    wine[test].to_csv(folder / "test.csv", index=False)
    options = Options(label="label", mechanism="additive-noise", parameters={"scale": 0.05})
    sanitize(wine[~test], folder / "release", options)
    train([folder / "release"], classifier="naive-bayes").save(folder / "model.skops")
    return folder


def test_counts_error_and_interval_are_those_of_the_predictions(home, wine):
    found = evaluate(home / "model.skops", home / "test.csv")
    truth = wine["label"].to_numpy()[np.arange(len(wine)) % 3 == 0]
    answers = load_model(home / "model.skops").classify(home / "test.csv").codes
    assert (
        found.confusion.tolist() == pd.crosstab(truth, answers).reindex(columns=[0, 1, 2], fill_value=0).values.tolist()
    )
    assert found.errors == int((truth != answers).sum())
    assert found.interval == pytest.approx(
        tuple(stats.binomtest(found.errors, len(truth)).proportion_ci(method="wilson"))
    )
    assert found.interval[0] <= found.error <= found.interval[1]
    assert found.error < found.commonest
    assert found.commonest == pytest.approx(1 - np.bincount(truth).max() / len(truth))


def test_nothing_is_written_unless_asked_and_then_privately(home, capsys):
    before = {path.name for path in home.iterdir()}
    words = ["evaluate", str(home / "model.skops"), str(home / "test.csv")]
    assert run_guarded(app, words) == 0
    assert {path.name for path in home.iterdir()} == before
    words += ["--out", str(home / "e.json")]
    assert run_guarded(app, words) == 0
    assert stat.S_IMODE((home / "e.json").stat().st_mode) == 0o600
    assert run_guarded(app, words) != 0
    assert "exists already" in capsys.readouterr().err


def test_what_cannot_be_judged_is_refused(home, wine, tmp_path):
    with pytest.raises(TableError, match=r"no rows with the column to predict \('label'\)"):
        evaluate(home / "model.skops", wine.drop(columns="label"))
    sanitize(wine, tmp_path / "r", Options(label="label", mechanism="random-rotation"))
    train([tmp_path / "r"], classifier="naive-bayes").save(tmp_path / "m.skops")
    with pytest.raises(CardError, match="only with the key"):
        evaluate(tmp_path / "m.skops", home / "test.csv")
    assert evaluate(tmp_path / "m.skops", home / "test.csv", key=tmp_path / "r" / "key.json").error < 0.2


def test_as_a_command(home, capsys):
    words = ["evaluate", str(home / "model.skops"), str(home / "test.csv")]
    assert run_guarded(app, words) == 0
    printed = capsys.readouterr().out
    assert "95% interval" in printed
    assert "they stay here" in printed
    assert run_guarded(app, [*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 60


@pytest.fixture(scope="module")
def blurred(wine, tmp_path_factory):
    """A model of a release in which nothing can be seen."""
    folder = tmp_path_factory.mktemp("blurred")
    parameters = {"epsilon_record": 0.01}
    options = Options(label="label", mechanism="additive-noise", parameters=parameters, seed=2)
    sanitize(wine, folder / "release", options)
    wine.to_csv(folder / "test.csv", index=False)
    return folder


def said(capsys, *arguments):
    assert run_guarded(app, [str(one) for one in arguments]) == 0
    return capsys.readouterr().out


def test_a_model_that_is_no_better_than_guessing_says_so(blurred, home, capsys):
    told = said(capsys, "train", blurred / "release", "--out", blurred / "model.skops")
    assert "always answering the commonest class is right for 39.9% of them" in told
    assert "no better than that" in told
    found = evaluate(blurred / "model.skops", blurred / "test.csv")
    assert found.to_dict()["than_commonest_class"] == found.than_commonest == "no better"
    assert found.to_dict()["error"] == found.error
    words = "No better than always answering the commonest class"
    assert words in said(capsys, "evaluate", blurred / "model.skops", blurred / "test.csv")
    assert words in said(capsys, "predict", blurred / "model.skops", blurred / "test.csv", "--out", blurred / "p.csv")
    good = said(capsys, "evaluate", home / "model.skops", home / "test.csv")
    assert "commonest class: " in good
    assert words not in good


def test_a_model_that_is_worse_than_guessing_says_so(home, wine, capsys):
    """Labels that were moved by one class: every answer that was right is wrong."""
    moved = home / "moved.csv"
    wine.assign(label=(wine["label"] + 1) % 3).to_csv(moved, index=False)
    assert evaluate(home / "model.skops", moved).than_commonest == "worse"
    assert "do not use this model" in said(capsys, "evaluate", home / "model.skops", moved)
