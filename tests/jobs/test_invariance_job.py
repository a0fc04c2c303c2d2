"""`sfumato invariance`: what is measured on a table agrees with what theory says of each learner."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import SfumatoError

FRAME = load_breast_cancer(as_frame=True).frame.iloc[:300, [0, 1, 4, 5, 6, 7, -1]].rename(columns={"target": "benign"})
FRAME["benign"] = np.where(FRAME["benign"] == 1, "yes", "no")
QUICK = ("knn", "knn k=5 weights=1", "kernel-smoother", "logistic", "perceptron", "naive-bayes", "svm")
UNSCALED = (
    "svm gamma=1/columns scaled=false",
    "svm kernel=polynomial gamma=1 offset=1 scaled=false",
    "svm kernel=sigmoid gamma=0.5 offset=-1 scaled=false",
)


@pytest.fixture(scope="module")
def found():
    measured = sf.invariance(FRAME, label="benign", learners=[*QUICK, *UNSCALED], rotations=3)
    return {one.learner: one for one in measured.found}


def test_what_theory_says_is_what_is_measured(found):
    for one in found.values():
        if one.when == "any centre":
            assert one.random >= 0.99, one.learner
        if one.when in ("any centre", "centre zero"):
            assert one.zero >= 0.99, one.learner
            assert one.rotated_error == pytest.approx(one.error, abs=0.011), one.learner


def test_those_that_change_are_seen_to_change(found):
    for name in ("naive-bayes", "svm"):
        assert found[name].when == found[name].measured == "never"
    assert found["perceptron"].random < 0.99
    assert min(found[name].random for name in UNSCALED[1:]) < 0.99


def test_scaling_is_given_as_the_reason(found):
    assert "spread" in found["svm"].why
    assert "any centre" in found["svm"].why
    assert found["svm gamma=1/columns scaled=false"].when == "any centre"


def test_numbers_are_predicted_alike_by_distances_and_planes():
    measured = sf.invariance(FRAME.drop(columns="benign"), target="mean radius", rotations=2)
    shares = {one.learner: (one.zero, one.random) for one in measured.found}
    assert {name for name, pair in shares.items() if min(pair) == 1.0} == {"kernel-smoother", "linear", "least-squares"}
    assert max(shares["tree"]) < 0.9


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "--label COL for classes, or --target COL"),
        ({"label": "benign", "target": "mean radius"}, "--label COL for classes, or --target COL"),
        ({"target": "benign"}, "must be a column of numbers"),
        ({"label": "benign", "learners": ["oracle"]}, "There is no classifier 'oracle'"),
        ({"label": "benign", "learners": ["id3"]}, "for the bits of a survey"),
        ({"target": "mean radius", "learners": ["knn"]}, "There is no regression 'knn'. Choose among: kernel-smoother"),
        ({"label": "benign", "rotations": 0}, "--rotations must be at least 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, says):
    with pytest.raises(SfumatoError, match=says):
        sf.invariance(FRAME, **options)


def test_on_the_command_line(tmp_path, capsys):
    pd.DataFrame(FRAME).to_csv(tmp_path / "t.csv", index=False)
    words = ["invariance", str(tmp_path / "t.csv"), "--label", "benign", "--rotations", "1", "--learner", "knn k=3"]
    assert run_guarded(app, [*words, "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["found"][0]
    assert (entry["learner"], entry["measured"], entry["when"]) == ("knn k=3", "any centre", "any centre")
    assert run_guarded(app, words) == 0
    assert "It looks at nothing but distances" in capsys.readouterr().out
