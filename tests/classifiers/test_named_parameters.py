"""Classifiers by name and parameters: each parameter is declared once, described, checked, and means what it says."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Perceptron as SklearnPerceptron
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from sfumato.core.errors import UsageError
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier, make_classifier

DOCS = Path(__file__).parents[2] / "docs" / "classifiers.md"
X, y = load_wine(return_X_y=True)
X = minmax_scale(X)
TRAIN, TEST = np.arange(len(y)) % 3 > 0, np.arange(len(y)) % 3 == 0


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_parameter_is_declared_described_and_documented(name):
    made = CLASSIFIERS[name]
    assert list(made.accepts) == list(made.defaults())
    made().check()  # defaults lie in their own range
    body = inspect.getdoc(made).partition("Parameters\n----------\n")[2]
    described = dict(re.findall(r"^(\w+) : (.+)$", body, re.MULTILINE))
    assert list(described) == list(made.defaults())
    for parameter, default in made.defaults().items():
        stated = re.search(r"default=(.+)$", described[parameter]).group(1).strip('"')
        spelled = str(default).lower() if isinstance(default, bool) else "null" if default is None else str(default)
        assert stated == spelled, parameter
    section = re.search(
        rf"^\| `{name}` \|.*$", DOCS.read_text(encoding="utf-8").split("## Parameters")[1], re.MULTILINE
    )
    assert [one for one in made.defaults() if f"`{one}`" not in section.group(0)] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("oracle", "There is no classifier 'oracle'. Choose one of: "),
        ("knn neighbours=3", "has no parameter 'neighbours'. It has: k, weights."),
        ("knn k=0", "'k' parameter of knn must be a whole number from 1 to 10,000 or cross-validation. Got '0'"),
        ("knn k=true", "must be a whole number"),
        ("knn weights=1/d^3", "must be one of 1, 1/d, 1/d"),
        ("svm gamma=-1", "must be a number above 0"),
        ("svm gamma=nan", "must be a number above 0"),
        ("svm scaled=1", "must be true or false"),
        ("mlp solver=sgd", "one of adam, lbfgs"),
        ("knn k", "NAME=VALUE"),
        ("", "There is no classifier"),
        ("knn " + "k=1 " * 200, "at most 500 characters"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(text, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        choose_classifier(text)


def test_a_choice_has_one_spelling():
    assert choose_classifier("svm").text == "svm"
    assert choose_classifier("svm gamma=scale scaled=true").text == "svm"
    one = choose_classifier("svm scaled=false", {"kernel": "polynomial", "gamma": 0.5})
    assert one.text == "svm kernel=polynomial gamma=0.5 scaled=false"
    assert choose_classifier(one.text).text == one.text
    assert choose_classifier("knn", {"weights": 1}).text == "knn weights=1"


@pytest.mark.parametrize(
    ("text", "sklearn"),
    [
        ("knn", KNeighborsClassifier(11, weights="distance", algorithm="brute")),
        ("knn k=5 weights=1", KNeighborsClassifier(5, algorithm="brute")),
        ("knn k=7 weights=1/d^2", KNeighborsClassifier(7, weights=lambda d: 1 / d**2, algorithm="brute")),
        ("svm gamma=1/columns scaled=false", SVC(gamma="auto")),
        ("svm kernel=polynomial gamma=1 offset=1 scaled=false", SVC(kernel="poly", gamma=1.0, coef0=1.0)),
        ("svm kernel=sigmoid gamma=0.5 offset=-1 scaled=false", SVC(kernel="sigmoid", gamma=0.5, coef0=-1.0)),
        ("perceptron", SklearnPerceptron(random_state=0)),
        ("naive-bayes", GaussianNB()),
        ("forest trees=15 min_leaf=3 seed=2", RandomForestClassifier(15, min_samples_leaf=3, random_state=2)),
        ("logistic penalty=0.1", LogisticRegression(C=10.0, max_iter=1000)),
        (
            "mlp solver=lbfgs decay=1 iterations=200 scaled=false",
            MLPClassifier((10,), activation="tanh", alpha=1.0, solver="lbfgs", max_iter=200, random_state=0),
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_the_papers_classifiers_can_be_had_by_name(text, sklearn):
    """papers/README.md says so: the same answers as those that the papers' folders use."""
    ours = make_classifier(text).fit(X[TRAIN], y[TRAIN])
    theirs = sklearn.fit(X[TRAIN], y[TRAIN])
    assert np.array_equal(ours.predict(X[TEST]), theirs.predict(X[TEST]))
    if hasattr(theirs, "predict_proba") and hasattr(ours, "predict_proba"):
        assert_allclose(ours.predict_proba(X[TEST]), theirs.predict_proba(X[TEST]), atol=2e-3)


def test_k_by_cross_validation_is_the_best_of_the_ladder():
    """Held against leaving every row out by hand."""
    rng = np.random.default_rng(5)
    rows, codes = rng.normal(size=(150, 3)), rng.integers(0, 2, 150)
    rows[:, 0] += codes
    wrong = {}
    distance = np.sqrt(((rows[:, None] - rows) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    for k in (1, 3, 5, 7, 9, 11, 15, 21, 31, 51, 75, 101):
        near = np.argsort(distance, axis=1)[:, :k]
        weight = 1 / np.take_along_axis(distance, near, axis=1)
        for_one = (weight * codes[near]).sum(axis=1) > weight.sum(axis=1) / 2
        wrong[k] = int((for_one != codes).sum())
    best = make_classifier("knn k=cross-validation").fit(rows, codes)
    assert wrong[best.k_] == min(wrong.values())
    assert wrong[best.k_] < wrong[1]


def test_rows_on_the_query_vote_alone():
    model = make_classifier("knn k=3 weights=1/d^2").fit([[0.0], [0.0], [1.0]], [0, 1, 1])
    assert_allclose(model.predict_proba([[0.0]]), [[0.5, 0.5]])


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_the_kernel_smoother_is_equations_1_and_2(kernel):
    width = 0.6
    model = make_classifier("kernel-smoother", parameters={"width": width, "kernel": kernel}).fit(X[TRAIN], y[TRAIN])
    for query, found in zip(X[TEST][:20], model.predict_proba(X[TEST][:20]), strict=True):
        t = np.sqrt(((X[TRAIN] - query) ** 2).sum(axis=1)) / width
        weight = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi) if kernel == "gaussian" else np.maximum(0, 1 - t**2)
        shares = [weight[y[TRAIN] == code].sum() / weight.sum() for code in range(3)]
        assert_allclose(found, shares, atol=1e-9)


def test_far_from_all_rows_the_nearest_answers():
    for kernel in ("gaussian", "epanechnikov"):
        model = make_classifier(f"kernel-smoother width=0.01 kernel={kernel}").fit([[0.0], [1.0]], [0, 1])
        assert model.predict([[90.0], [-90.0]]).tolist() == [1, 0]


def test_a_wrong_width_is_worse_than_the_chosen_one():
    rng = np.random.default_rng(3)
    rows, codes = rng.random((400, 2)), rng.integers(0, 2, 400)
    codes = (rows[:, 0] * 4).astype(int) % 2  # four stripes
    model = make_classifier("kernel-smoother").fit(rows[:300], codes[:300])
    assert model.score(rows[300:], codes[300:]) > 0.9
    wide = make_classifier("kernel-smoother width=3").fit(rows[:300], codes[:300])
    assert wide.score(rows[300:], codes[300:]) < 0.7
