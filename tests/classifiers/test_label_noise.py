from __future__ import annotations

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.learn.classifiers.radius_vote import RadiusVote
from sfumato.learn.classifiers.reads_noise import (
    LabelNoiseCorrection,
    response_matrix,
)


@parametrize_with_checks([LabelNoiseCorrection(LogisticRegression(), keep=0.9)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def randomize(y, response, rng):
    """Randomized response by the columns of `response`."""
    return (rng.random(len(y)) > np.cumsum(response, axis=0)[:, y]).sum(axis=0)


def population(n, priors, seed, gap=2.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(len(priors), n, p=priors)
    X = gap * np.eye(len(priors))[y] + rng.standard_normal((n, len(priors)))
    return X, y, rng


def test_probabilities_become_those_of_true_labels():
    """Imbalanced classes, symmetric noise: the class most probable stays, its probability does not."""
    X, y, rng = population(20_000, [0.85, 0.1, 0.05], seed=1)
    response = response_matrix(0.6, 3)
    seen = randomize(y, response, rng)
    fresh, truth, _ = population(5_000, [0.85, 0.1, 0.05], seed=2)
    naive = LogisticRegression().fit(X, seen)
    corrected = LabelNoiseCorrection(LogisticRegression(), keep=0.6).fit(X, seen)
    onehot = np.eye(3)[truth]
    brier = [((model.predict_proba(fresh) - onehot) ** 2).sum(axis=1).mean() for model in (naive, corrected)]
    assert brier[1] < 0.75 * brier[0]
    assert corrected.score(fresh, truth) >= naive.score(fresh, truth) - 0.01
    assert corrected.class_prior_ == pytest.approx([0.85, 0.1, 0.05], abs=0.03)


class EqualVotes(RadiusVote):
    """Answers with corrected votes as they are, whatever they are worth."""

    is_balanced_ = True

    def predict_proba(self, X):
        return self.vote_shares(X)


@pytest.mark.parametrize("priors", [[0.80, 0.15, 0.05], [0.9, *[0.02] * 5]], ids=str)
def test_votes_that_leave_priors_out_are_corrected_with_them(priors):
    """Votes are divided by priors as seen, which randomization has flattened."""
    k = len(priors)
    X, y, rng = population(4_000, priors, seed=5, gap=3.0)
    seen = randomize(y, response_matrix(0.5, k), rng)
    fresh, truth, _ = population(3_000, priors, seed=6, gap=3.0)
    base = EqualVotes(radius=2.0 * k)
    naive = base.fit(X, seen).predict(fresh)
    corrected = LabelNoiseCorrection(base, keep=0.5).fit(X, seen).predict(fresh)
    assert balanced_accuracy_score(truth, corrected) > balanced_accuracy_score(truth, naive) - 0.01
    assert (corrected == truth).mean() > (naive == truth).mean() + 0.01


def test_balanced_correction_with_equal_priors_is_the_backward_correction():
    X, y, rng = population(600, [0.5, 0.5], seed=11)
    seen = np.sort(randomize(y, response_matrix(0.7, 2), rng))
    X, seen = X[: 2 * min(np.bincount(seen))], np.tile([0, 1], min(np.bincount(seen)))
    plain, balanced = (LabelNoiseCorrection(GaussianNB(), 0.7).fit(X, seen) for _ in range(2))
    balanced.classifier_.is_balanced_ = True
    np.testing.assert_allclose(plain.predict_proba(X), balanced.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("classifier", [LogisticRegression(), GaussianNB(), RadiusVote(radius=4.0)], ids=str)
@pytest.mark.parametrize("keep", [0.6, 0.8, 1.0])
@pytest.mark.parametrize("priors", [[0.5, 0.5], [0.4, 0.3, 0.3], [0.7, 0.2, 0.1]], ids=str)
def test_correction_never_hurts_much(classifier, keep, priors):
    X, y, rng = population(3_000, priors, seed=7)
    seen = randomize(y, response_matrix(keep, len(priors)), rng)
    fresh, truth, _ = population(2_000, priors, seed=8)
    naive = balanced_accuracy_score(truth, classifier.fit(X, seen).predict(fresh))
    corrected = LabelNoiseCorrection(classifier, keep=keep).fit(X, seen)
    assert balanced_accuracy_score(truth, corrected.predict(fresh)) > naive - 0.03


def test_a_classifier_without_probabilities_is_passed_through_or_refused():
    X, y, _ = population(300, [0.5, 0.5], seed=9)
    model = LabelNoiseCorrection(LinearSVC(), keep=0.9).fit(X, y)
    assert not model.corrected_
    assert (model.predict(X) == LinearSVC().fit(X, y).predict(X)).all()
    with pytest.raises(AttributeError, match="no probabilities"):
        model.predict_proba(X)
    with pytest.raises(ValueError, match="has no predict_proba"):
        LabelNoiseCorrection(LinearSVC(), keep=0.1).fit(X, y)


def test_it_survives_skops():
    X, y, _ = population(100, [0.5, 0.5], seed=10)
    model = LabelNoiseCorrection(GaussianNB(), keep=0.9).fit(X, y)
    file = skops.io.dumps(model)
    own = "sfumato.learn.classifiers.reads_noise.LabelNoiseCorrection"
    assert set(skops.io.get_untrusted_types(data=file)) <= {own}
    np.testing.assert_array_equal(skops.io.loads(file, trusted=[own]).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("keep", [0.5, -0.1, 1.1])
def test_noise_that_cannot_be_undone_is_refused(keep):
    with pytest.raises(ValueError, match="'keep'"):
        LabelNoiseCorrection(GaussianNB(), keep=keep).fit([[0.0], [1.0]], [0, 1])
