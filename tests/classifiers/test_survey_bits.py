"""Classifiers on received bits classify plain answers, as they are or as what they would have been sent as."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sfumato.channels.guidance.disclosure import simulate
from sfumato.channels.guidance.guidance import SurveyRules
from sfumato.channels.guidance.space import AnswerSpace, bit_probabilities
from sfumato.core.errors import TableError, UsageError
from sfumato.learn.classifiers.survey_bits import SurveyClassifier, accuracy_on_received

SPACE = AnswerSpace((2, 3, 2, 4))


@pytest.fixture(scope="module")
def survey():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 6000)
    codes = np.column_stack([rng.integers(0, size, 6000) for size in SPACE.sizes])
    codes[:, 0] = np.where(rng.random(6000) < 0.9, y, 1 - y)
    codes[:, 2] = np.where(rng.random(6000) < 0.85, y, 1 - y)
    run = simulate(codes[:5000], y[:5000], SPACE, SurveyRules(floor=0.15))
    return run, SPACE.onehot(codes[5000:]), y[5000:]


@pytest.mark.parametrize("classifier", ["naive-bayes", "id3", LogisticRegression()], ids=str)
@pytest.mark.parametrize("queries", ["plain", "expected"])
def test_plain_answers_are_classified(survey, classifier, queries):
    run, T, y = survey
    V = run.versions[-1].guidance.V
    model = SurveyClassifier(classifier, V, 0.15, queries=queries).fit(run.bits, run.y)
    if (classifier, queries) != ("id3", "expected"):  # a tree asks whether a probability is above one half
        assert (model.predict(T) == y).mean() > 0.85
    assert np.allclose(model.predict_proba(T).sum(axis=1), 1)
    assert clone(model).get_params()["queries"] == queries


def test_expected_naive_bayes_is_the_mean_log_likelihood(survey):
    run, T, _ = survey
    V = run.versions[-1].guidance.V
    model = SurveyClassifier("naive-bayes", V, 0.15).fit(run.bits, run.y)
    q = bit_probabilities(T[:50], V, 0.15)
    rng = np.random.default_rng(1)
    draws = [model.classifier_.predict_joint_log_proba((rng.random(q.shape) < q).astype(int)) for _ in range(4000)]
    mean = np.mean(draws, axis=0)
    odds = np.log(model.predict_proba(T[:50]))
    assert np.allclose(odds[:, 1] - odds[:, 0], mean[:, 1] - mean[:, 0], atol=0.15)


def test_labels_keep_their_names_and_mistakes_are_named(survey):
    run, T, _ = survey
    named = SurveyClassifier("id3").fit(run.bits, np.array(["no", "yes"])[run.y])
    assert set(named.predict(T)) == {"no", "yes"}
    with pytest.raises(UsageError, match="guidance"):
        SurveyClassifier(queries="expected").fit(run.bits, run.y).predict(T)
    with pytest.raises(UsageError, match="no survey classifier"):
        SurveyClassifier("oracle").fit(run.bits, run.y)
    with pytest.raises(UsageError, match="queries"):
        SurveyClassifier(queries="all").fit(run.bits, run.y)
    with pytest.raises(TableError):
        SurveyClassifier().fit(np.empty((0, 3)), [])


def test_accuracy_without_plain_answers_is_on_the_safe_side(survey):
    run, T, y = survey
    blind = accuracy_on_received(run.bits, run.y)
    model = SurveyClassifier("naive-bayes", run.versions[-1].guidance.V, 0.15).fit(run.bits, run.y)
    assert 0.55 < blind < model.score(T, y)
    assert accuracy_on_received(run.bits[:6], run.y[:6]) is None
