from dataclasses import replace

import numpy as np
import pytest
from knowing import told
from numpy.testing import assert_allclose

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import Abstain, Knowledge, KnownNoise, Transform
from sfumato.attacks.likelihood import noise_weights
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.attacks.nearest_row import AttributeInference, NearestRow, weighted_median
from sfumato.attacks.row_ratios import Membership
from sfumato.channels import Additive, RandomizedResponse
from sfumato.noise import Laplace, Uniform
from sfumato.table import Encoding


def test_a_target_is_found_through_the_transform(unit, correlated):
    X = correlated(n=300)
    A = np.random.default_rng(0).normal(size=(4, 6))
    Z = X @ A.T + 2
    known = Knowledge(Z, unit(6), columnwise=False, transform=Transform(A, np.full(4, 2.0)), targets=X[100:150])
    guess = NearestRow().run(known)
    assert guess.index.tolist() == list(range(100, 150))
    assert_allclose(guess.distance, 0, atol=1e-9)


def test_a_mixed_release_of_unknown_transform_cannot_be_searched(unit):
    known = Knowledge(np.ones((3, 2)), unit(2), columnwise=False, targets=np.ones((1, 2)), candidates=np.ones((1, 2)))
    for attack in (NearestRow(), Membership(), AttributeInference()):
        assert isinstance(attack.run(known.hiding(0)), Abstain)


def test_some_columns_are_enough_to_link(unit):
    X = np.random.default_rng(0).random((200, 5))
    known = Knowledge(X + 0.001, unit(5), targets=X[:50])
    assert NearestRow(columns=(0, 3)).run(known).index.tolist() == list(range(50))
    A = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
    mixed = Knowledge(X @ A.T, unit(5), columnwise=False, transform=Transform(A, np.zeros(5)), targets=X[:50])
    assert NearestRow(columns=(0, 3)).run(mixed).index.tolist() == list(range(50))


def test_a_noisy_column_counts_for_less(unit):
    rng = np.random.default_rng(3)
    X = rng.random((400, 2))
    N = np.diag([1e-4, 1.0])
    Z = X + rng.normal(size=X.shape) * np.sqrt(np.diag(N))
    blind = NearestRow().run(Knowledge(Z, unit(2), targets=X)).index
    aware = NearestRow().run(Knowledge(Z, unit(2), targets=X, noise_covariance=N)).index
    own = np.arange(400)
    assert (aware == own).mean() > 2 * (blind == own).mean()


def test_a_randomized_category_weighs_by_its_spread(categorical):
    """Its covariance is not on the card's list of variances, so that it must not be taken for exact."""
    law = RandomizedResponse(keep=0.6, categories=4)
    known = Knowledge(np.eye(4), categorical(4), noise=told(law), noise_covariance=np.zeros((4, 4)))
    assert_allclose(noise_weights(known), 1 / np.sqrt(0.25 * 0.6 * 0.4 + 0.75 * law.other * (1 - law.other)))


@pytest.mark.parametrize("statistic", ["likelihood", "distance"])
def test_members_score_above_others_and_less_so_with_more_noise(unit, statistic):
    rng = np.random.default_rng(0)
    X, other = rng.random((300, 8)), rng.random((300, 8))
    gaps = []
    for scale in (0.02, 0.1, 1.0):
        known = Knowledge(
            X + rng.laplace(scale=scale, size=X.shape),
            unit(8),
            noise=told(*[Laplace(scale)] * 8),
            noise_covariance=2 * scale**2 * np.eye(8),
            candidates=np.vstack([X, other]),
        )
        scores = Membership(statistic).run(known).scores
        gaps.append((scores[:300, None] > scores[None, 300:]).mean())
    assert gaps[0] > 0.99
    assert gaps[0] >= gaps[1] > gaps[2] > 0.45


def test_the_likelihood_ratio_by_brute_force(unit):
    """The mean over rows of f(z | x) / f(z), f(z) the mean over everybody; who is in both lists counts once."""
    rng = np.random.default_rng(0)
    Z, people, law = rng.random((20, 3)), rng.random((9, 3)), Laplace(0.3)
    density = np.array([[np.prod(law.pdf(z - x)) for x in people] for z in Z])
    brute = np.log((density / density.mean(axis=1, keepdims=True)).mean(axis=0)[:5])
    for sample in (people[5:], people[2:]):
        known = Knowledge(Z, unit(3), noise=told(law, law, law), candidates=people[:5], sample=sample)
        assert_allclose(Membership("likelihood").run(known).scores, brute)
        links = NearestRow().run(replace(known, targets=people[:5]))
        ratios = (density / density.mean(axis=1, keepdims=True))[:, :5]
        assert links.index.tolist() == ratios.argmax(axis=0).tolist()
        assert_allclose(links.distance, -np.log(ratios.max(axis=0) / ratios.sum(axis=0)))


def test_a_label_weighs_people_as_its_own_law_says(unit):
    """An exact label rules the other class out; one told at random weighs it by its probability."""
    rng = np.random.default_rng(1)
    Z, people, law = rng.random((12, 2)), rng.random((8, 2)), Laplace(0.3)
    y, own = rng.integers(2, size=12), np.arange(8) % 2
    density = np.array([[np.prod(law.pdf(z - x)) for x in people] for z in Z])
    for keep in (1.0, 0.7):
        joint = density * np.where(y[:, None] == own, keep, 1.0 - keep)
        brute = np.log((joint / joint.mean(axis=1, keepdims=True)).mean(axis=0))
        known = Knowledge(Z, unit(2), noise=told(law, law), labels=y, candidates=people, candidate_labels=own)
        assert_allclose(Membership("likelihood").run(replace(known, label_keep=keep)).scores, brute)


def test_a_release_of_other_people_tells_nobody_s_membership(unit):
    """Neither means, nor the choice between them, finds members where there are none."""
    rng = np.random.default_rng(5)
    X = rng.beta(2, 5, size=(1500, 4))
    noise = told(*[Laplace(0.05)] * 4)
    known = Knowledge(
        X[:500] + rng.laplace(scale=0.05, size=(500, 4)), unit(4), noise=noise, candidates=X[500:], sample=X[1000:]
    )
    guess = Membership().run(replace(known, noise_covariance=noise.covariance()))
    truth = Truth(X[:500], unit(4), rows=X[:500], members=np.arange(1000) < 500)
    assert set(guess.others) == {"distance"}
    scored = score_guess(guess, truth)
    assert abs(scored.details["auc"] - 0.5) < 0.06
    assert scored.details["chosen_on"] == scored.details["reported_on"] == 500
    real = score_guess(Membership().run(replace(known, candidates=np.vstack([X[:500], X[500:1000]]))), truth)
    assert real.details["auc"] > 0.62  # the same adversary where there are members
    assert "chosen on 500 of the candidates and reported on the 500 others" in real.chosen


def test_links_by_the_law_of_the_class_find_more_than_distances(unit):
    rng, n = np.random.default_rng(0), 300
    X, y = rng.random((n, 3)), np.arange(n) % 2
    scales = {0: (0.02, 0.2, 0.2), 1: (0.2, 0.02, 0.2)}
    by_class = {code: tuple(Additive(Laplace(s)) for s in some) for code, some in scales.items()}
    Z = X + rng.laplace(size=X.shape) * np.array([scales[code] for code in y])
    noise = KnownNoise.of(tuple(Additive(Laplace(0.2)) for _ in range(3)), X, by_class)
    known = Knowledge(Z, unit(3), targets=X, noise_covariance=noise.covariance())
    near = np.mean(NearestRow().run(known).index == np.arange(n))
    found = NearestRow().run(replace(known, noise=noise, labels=y, target_labels=y))
    assert np.mean(found.index == np.arange(n)) > near + 0.15
    assert (y[found.index] == y).all()


def test_people_who_are_impossible_under_bounded_noise_come_last(unit):
    known = Knowledge(
        np.full((4, 2), 0.5),
        unit(2),
        noise=told(*[Uniform(low=-0.1, high=0.1)] * 2),
        candidates=np.array([[0.5, 0.5], [1, 1.0]]),
    )
    scores = Membership().run(known).scores
    assert np.isfinite(scores).all()
    assert scores[0] > scores[1]


def test_the_secret_is_read_off_the_row_that_fits(unit, correlated):
    X = correlated(n=200)
    for secret in range(6):
        guess = AttributeInference().run(Knowledge(X, unit(6), targets=X).hiding(secret))
        assert_allclose(guess.X[:, 0], X[:, secret], atol=1e-9)


def test_correlated_columns_give_a_secret_away_also_through_a_transform(unit, correlated):
    X = correlated(n=1000)
    rng = np.random.default_rng(0)
    A = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    Z = X @ A.T + rng.normal(scale=0.02, size=X.shape)
    known = Knowledge(Z, unit(6), columnwise=False, transform=Transform(A, np.zeros(6)), targets=X[:100]).hiding(2)
    assert np.abs(AttributeInference().run(known).X[:, 0] - X[:100, 2]).mean() < 0.3 * X[:, 2].std()


def test_weighted_median_by_repetition():
    values, weights = np.array([[0.9, 0.1, 0.5], [3.0, 2.0, 1.0]]), np.array([[1, 1, 3], [5, 1, 1]])
    expected = [np.sort(np.repeat(v, w))[(w.sum() - 1) // 2] for v, w in zip(values, weights, strict=True)]
    assert weighted_median(values, weights.astype(float)).tolist() == expected


@pytest.mark.parametrize("mixed", [False, True])
def test_all_secrets_at_once_are_what_one_search_for_each_finds(unit, mixed):
    rng = np.random.default_rng(0)
    X = rng.random((1_500, 6)).round(1)
    A = np.linalg.qr(rng.normal(size=(6, 6)))[0] if mixed else np.eye(6)
    Z, map_ = X @ A.T + rng.normal(scale=0.1, size=X.shape), Transform(A, np.zeros(6))
    known = Knowledge(Z, unit(6), columnwise=not mixed, transform=map_, targets=X[:300])
    for secret, guess in enumerate(AttributeInference().at_once(known)):
        assert (guess.X == AttributeInference().run(known.hiding(secret)).X).all()
        assert guess.secret == secret


def test_an_exact_or_constant_column_does_not_keep_the_law_from_being_used(unit):
    """A constant column says nothing: with it, the scores are what they were without it."""
    rng = np.random.default_rng(0)
    Z, people, law = rng.random((30, 2)), rng.random((6, 2)), Laplace(0.2)
    half = np.full((30, 1), 0.5)
    alone = Knowledge(Z, unit(2), noise=told(law, law), candidates=people)
    beside = Knowledge(
        np.hstack([Z, half]), unit(3), noise=told(law, law, None), candidates=np.hstack([people, half[:6]])
    )
    assert_allclose(Membership().run(beside).scores, Membership().run(alone).scores)


def test_sources_are_found_by_the_law_of_their_own_class():
    """Wide noise in one class and narrow noise in the other: a class's own law finds more than distances do."""
    rng, n = np.random.default_rng(0), 400
    X, y = rng.random((n, 3)), np.arange(n) % 2
    scales = {0: (0.02, 0.2, 0.2), 1: (0.2, 0.02, 0.2)}
    by_class = {code: tuple(Additive(Laplace(s)) for s in some) for code, some in scales.items()}
    Z = X + rng.laplace(size=X.shape) * np.array([scales[code] for code in y])
    noise = KnownNoise.of(tuple(Additive(Laplace(0.2)) for _ in range(3)), X, by_class)
    known = Knowledge(Z, Encoding.unit(3), register=X, noise=noise, noise_covariance=noise.covariance())
    blind = np.mean(ATTACKS["nearest-source"]().run(known).index == np.arange(n))
    told = replace(known, labels=y, register_labels=y)
    found = ATTACKS["nearest-source"]().run(told)
    assert np.mean(found.index == np.arange(n)) > blind + 0.1
    assert (y[found.index] == y).all()
    surest = np.argsort(found.distance)[:40]
    assert np.mean((found.index == np.arange(n))[surest]) > np.mean(found.index == np.arange(n)) + 0.1
