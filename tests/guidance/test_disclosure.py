"""Disclosure against listings of all rows, and the two theorems against what they say cannot happen."""

import csv

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sfumato.auditing.survey_audit import measure_survey
from sfumato.channels.guidance.disclosure import (
    answer_entropy,
    disclosure,
    exact_disclosure,
    joint_entropy,
    published_disclosure_estimate,
    published_error_estimate,
    sureness,
    told_by,
)
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules, class_difference
from sfumato.channels.guidance.space import AnswerSpace, answer_posteriors, bit_probabilities, perturb_bits
from sfumato.core.errors import TableError, UsageError

SPACE = AnswerSpace((2, 3, 2))
EVERY_ROW = (np.arange(1 << SPACE.width)[:, None] >> np.arange(SPACE.width)) & 1


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2, 60)
    return np.column_stack([first, rng.integers(0, 3, 60), first ^ (rng.random(60) < 0.2)])


def guidance(k, seed=0):
    return np.ascontiguousarray(np.linalg.qr(np.random.default_rng(seed).normal(size=(SPACE.width, k)))[0])


@pytest.mark.parametrize(("k", "floor", "link"), [(1, 0.0, "square"), (3, 0.1, "square"), (3, 0.05, "linear")])
def test_drawing_agrees_with_listing(people, k, floor, link):
    V = guidance(k)
    exact = exact_disclosure(people, SPACE, V, floor, link)
    drawn = disclosure(people, SPACE, V, floor, link, draws=20_000)
    assert abs(drawn.bits - exact.bits) < 5 * drawn.error
    assert 5 * drawn.error < 0.3 * exact.bits, "a figure 30% off is rejected"
    assert exact.by_question == pytest.approx(exact.bits / answer_entropy(people, SPACE))
    assert exact.of_whole_answers >= exact.by_question


def test_exact_disclosure_is_mutual_information(people):
    """A second way: H(R) - H(R | t)."""
    V = guidance(2)
    q = bit_probabilities(SPACE.onehot(people), V, 0.1)
    likelihood = np.prod(np.where(EVERY_ROW[:, None], q, 1 - q), axis=2)
    marginal = likelihood.mean(axis=1)
    told = -(marginal * np.log2(marginal)).sum() + (likelihood * np.log2(likelihood)).sum() / len(people)
    assert exact_disclosure(people, SPACE, V, 0.1).bits == pytest.approx(told)


def test_nothing_and_everything(people):
    everything = np.eye(SPACE.width)
    assert exact_disclosure(people, SPACE, everything, 0.0).of_whole_answers == pytest.approx(1.0)
    nothing = np.full((SPACE.width, 1), SPACE.width**-0.5)
    assert exact_disclosure(people, SPACE, nothing, 0.0).bits == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(UsageError, match="too many"):
        exact_disclosure(np.zeros((1, 30), int), AnswerSpace([2] * 30), np.full((60, 1), 60**-0.5))


def test_entropies():
    codes = np.array([[0, 0, 1], [1, 2, 0], [0, 1, 1], [1, 0, 0]])
    assert answer_entropy(codes, SPACE) == pytest.approx(1 + 1.5 + 1)
    assert joint_entropy(codes) == 2


@pytest.mark.parametrize("link", ["square", "linear"])
def test_sureness_bounds_what_any_bits_tell_and_two_choices_attain_it(link):
    for k, answer in ((2, [1, 2, 0]), (3, [0, 0, 1])):
        V = guidance(k, seed=k)
        most = sureness(answer, SPACE, V, 0.1, link)
        seen = np.max([told_by(bits, answer, SPACE, V, 0.1, link) for bits in EVERY_ROW], axis=0)
        assert np.all(seen <= most + 1e-12)
        assert_allclose(seen[[0, 2]], most[[0, 2]])
        assert most[1] < 1


def test_sureness_follows_the_prior():
    V = guidance(2)
    flat = sureness([1, 1, 1], SPACE, V, 0.2, priors=[[1, 1], [1, 1, 1], [1, 1]])
    assert_allclose(flat, sureness([1, 1, 1], SPACE, V, 0.2))
    rare = sureness([1, 1, 1], SPACE, V, 0.2, priors=[[99, 1], [98, 1, 1], [99, 1]])
    assert np.all(rare < flat)
    assert sureness([1, 1, 1], SPACE, np.eye(SPACE.width), 0.0) == pytest.approx(1.0)
    with pytest.raises(UsageError, match="question 1"):
        sureness([1, 1, 1], SPACE, V, priors=[[1, 0], [1, 1, 1], [1, 1]])


def test_told_by_is_bayes_rule_over_the_choices_of_one_question():
    V, answer, bits = guidance(2), np.array([1, 2, 0]), EVERY_ROW[77]
    told = told_by(bits, answer, SPACE, V, 0.1)
    variants = np.array([[1, choice, 0] for choice in range(3)])
    posterior = answer_posteriors([bits], variants, SPACE, V, 0.1)[1][0]
    assert told[1] == pytest.approx(posterior[2])


def test_theorem_5_2_is_no_bound():
    """Eight identical binary questions, k = 1, the honest direction: "at most 54%" disclosed, and all of it is."""
    space = AnswerSpace([2] * 8)
    codes = np.repeat((np.arange(1000) < 460).astype(int)[:, None], 8, axis=1)
    T = space.onehot(codes)
    V = Guidance.from_counts(SurveyCounts.of(T, codes[:, 0]), SurveyRules(floor=0.0, k=1)).V
    assert published_disclosure_estimate(T, space, 1) == pytest.approx(0.54)
    with pytest.raises(TableError, match=r"16 bits\. Got rows of 8"):
        published_disclosure_estimate(codes, space, 1)
    with pytest.raises(TableError, match="Exactly one choice"):
        published_disclosure_estimate(np.ones_like(T), space, 1)
    assert disclosure(codes, space, V, 0.0).of_whole_answers > 0.98
    assert disclosure(codes, space, V, 0.25).of_whole_answers < 0.9


def test_an_audit_shows_both_theorems_beside_the_exact_values():
    space = AnswerSpace([2] * 8)
    codes = np.repeat((np.arange(1000) < 460).astype(int)[:, None], 8, axis=1)
    y = codes[:, 0]
    rules = SurveyRules(floor=0.0, k=1, mu=0.15)
    counts = SurveyCounts.of(space.onehot(codes), y)
    found = measure_survey(codes, y, space, Guidance.from_counts(counts, rules).V, rules)
    assert found.theorem_5_2 == pytest.approx(0.54)
    assert found.honest.of_whole_answers > 0.98
    # A = diag(-460, 540) in eight times eight copies: 2 mu sigma_1 / m with the largest |eigenvalue|, 8 * 540
    assert found.theorem_5_1 == pytest.approx(2 * 0.15 * 8 * 540 / 1000)
    words = found.sentences()[-1]
    assert "is kept here; its Theorem 5.2 puts the disclosure at 54.0%" in words
    assert "is exceeded here (1)" in words
    assert {"theorem_5_1", "theorem_5_2"} <= set(found.to_dict())


def test_theorem_5_1_is_no_bound(data_folder):
    """Votes, mu = .025, the published order: an error of .38 against a "bound" of .27."""
    rng = np.random.default_rng(1)
    with (data_folder / "votes.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    X = np.array([[{"y": 1, "n": 0, "": -1}[cell] for cell in row[:-1]] for row in rows])
    T = AnswerSpace([2] * 16).onehot(np.where(X < 0, rng.integers(0, 2, X.shape), X))
    counts = SurveyCounts.of(T, np.array([int(row[-1] == "republican") for row in rows]))
    guidance = Guidance.from_counts(counts, SurveyRules(mu=0.025, order="value", floor=0.0, balance=False))
    sent = perturb_bits(T, guidance.V, rng.random(T.shape), 0.0)
    received = SurveyCounts.of(sent, np.array([int(row[-1] == "republican") for row in rows]))
    before, after = (class_difference(part, floor=0.0, balance=False) for part in (counts, received))
    error = np.abs(before - after).max() / len(T)
    estimate = published_error_estimate(guidance.sigmas[0], 0.025, len(T))
    assert estimate == pytest.approx(0.268, abs=0.005)
    assert error > 0.35 > estimate
