import numpy as np
import pytest

from sfumato.attacks.base import Abstain, Guess, Links, MembershipScores, Posteriors, Property, Secrets, Values
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth, usual_guess
from sfumato.table import Column, Encoding, Schema


def test_values_are_scored_by_hand():
    """Four people, two columns on [0, 1] and [0, 200]: three and one values told."""
    encoding = Encoding(Schema((Column("a", "numeric", low=0, high=1), Column("b", "numeric", low=0, high=200))))
    X = np.array([[0.1, 0.1], [0.2, 0.5], [0.8, 0.5], [0.9, 0.5]])
    guess = X + np.array([[0.0, 0.2], [0.04, 0.2], [0.05, 0.2], [0.06, 0.0]])
    result = score_guess(Values(guess), Truth(X, encoding, rows=X))
    assert result.score == pytest.approx(4 / 8)
    assert [column["score"] for column in result.columns] == [0.75, 0.25]
    assert [column["baseline"] for column in result.columns] == [0.5, 0.75]
    assert result.columns[1]["rmse"] == pytest.approx(200 * np.sqrt(0.03))
    assert result.columns[1]["rmse_of_mean"] == pytest.approx(200 * X[:, 1].std())
    assert result.control is None
    assert not result.upper_bound


def test_the_best_candidate_is_scored_and_called_an_upper_bound():
    X = np.random.default_rng(0).random((50, 2))
    result = score_guess(Values(1 - X, lambda rows: iter((X[rows], X[rows] * 0))), Truth(X, Encoding.unit(2), rows=X))
    assert result.score == 1
    assert result.upper_bound
    assert result.columns[0]["rmse"] == 0


def test_a_few_candidates_may_be_given_as_they_are():
    X = np.random.default_rng(0).random((50, 2))
    guess, some = Values(1 - X, (X * 0, X)), np.array([7, 3])
    result = score_guess(guess, Truth(X, Encoding.unit(2), rows=X))
    assert (result.score, result.upper_bound) == (1, True)
    assert [one.tolist() for one in guess.of(some).scored] == [one[some].tolist() for one in (1 - X, X * 0, X)]
    assert guess.settled(2).aimed is not None
    assert len(list(guess.settled(2).scored)) == 1


def test_guessing_what_is_usual_scores_like_the_baseline_and_the_control():
    rng = np.random.default_rng(0)
    X, control = rng.beta(2, 5, size=(4000, 3)), rng.beta(2, 5, size=(4000, 3))
    usual = np.broadcast_to(usual_guess(control, Encoding.unit(3)), X.shape)
    result = score_guess(Values(usual), Truth(X, Encoding.unit(3), rows=X, sample=control))
    assert result.score == result.baseline
    assert result.control == pytest.approx(result.score, abs=0.02)


def test_the_worst_records_are_named():
    X = np.random.default_rng(0).random((200, 4))
    guess = np.clip(X + 0.5, 0, 1.5)
    guess[[17, 44]] = X[[17, 44]]
    result = score_guess(Values(guess), Truth(X, Encoding.unit(4), rows=X))
    assert set(result.riskiest) == {17, 44}
    assert result.worst == 1
    assert result.score == pytest.approx(0.01)


def test_the_usual_guess_is_the_best_constant_by_brute_force():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.random(200), np.full(60, 0.77)])[:, None]
    found = usual_guess(values, Encoding.unit(1))[0]
    share = [(np.abs(values - c) <= 0.05 + 1e-9).mean() for c in np.linspace(0, 1, 5001)]
    assert (np.abs(values - found) <= 0.05 + 1e-9).mean() >= max(share)


def test_the_usual_guess_of_categories_and_of_a_mostly_missing_column():
    columns = (
        Column("colour", "categorical", categories=("red", "green")),
        Column("rare", "numeric", low=0, high=1, missing=True),
    )
    X = np.array([[1, 0, 0.5, 1], [1, 0, 0.5, 1], [0, 1, 0.2, 0]])
    assert usual_guess(X, Encoding(Schema(columns))).tolist() == [1, 0, 0.5, 1]
    assert usual_guess(X[2:], Encoding(Schema(columns))).tolist() == [0, 1, 0.2, 0]


def test_links_count_identical_people_and_chance_does_too():
    X = np.array([[0.1, 0.2], [0.1, 0.2], [0.5, 0.5], [0.9, 0.9]])
    guess = Links(np.array([1, 0, 2, 2]), np.array([0.0, 0.1, 0.2, 0.3]))
    aside = Links(np.array([2, 3]), np.array([0.4, 0.05]))
    truth = Truth(X, Encoding.unit(2), rows=X, targets=X, control_targets=np.array([[0.5, 0.5], [0.7, 0.7]]))
    result = score_guess(guess, truth, aside)
    assert result.score == 0.75
    assert result.baseline == pytest.approx((2 + 2 + 1 + 1) / 16)
    assert result.control == 0.5
    assert result.riskiest == (0,)
    assert result.worst == 1
    assert result.details["strangers_as_near"] == pytest.approx(3 / 8)


def test_membership_is_rescaled_so_that_a_coin_scores_zero():
    members = np.arange(400) < 200
    scores = np.random.default_rng(0).normal(size=400)
    truth = Truth(np.zeros((200, 1)), Encoding.unit(1), rows=np.zeros((200, 1)), members=members)
    coin = score_guess(MembershipScores(scores), truth)
    assert coin.score < 0.12
    assert coin.interval.low == 0
    sure = score_guess(MembershipScores(scores + 20 * members), truth)
    assert (sure.score, sure.worst, sure.details["auc"]) == (1, 1, 1)
    assert score_guess(MembershipScores(-scores - 20 * members), truth).score == 0


def test_the_better_of_two_means_is_chosen_on_one_half_and_scored_on_the_other():
    """A mean that is right about everybody is found; two useless ones score what a coin does, not the better half."""
    rng = np.random.default_rng(2)
    members = np.arange(400) % 2 == 0
    truth = Truth(np.zeros((200, 1)), Encoding.unit(1), rows=np.zeros((200, 1)), members=members)
    sure = score_guess(MembershipScores(rng.normal(size=400), "likelihood", {"distance": members * 1.0}), truth)
    assert sure.score == 1
    assert sure.chosen.startswith("by distance, chosen on 200 of the candidates")
    useless = []
    for _ in range(60):
        coins = rng.normal(size=(21, 400))
        others = {f"coin {i}": coin for i, coin in enumerate(coins[1:])}
        useless.append(score_guess(MembershipScores(coins[0], "coin", others), truth).details["auc"])
    assert abs(np.mean(useless) - 0.5) < 0.015  # the best of 21 coins gets .57 where it was chosen
    few = score_guess(MembershipScores(np.arange(8.0), "likelihood", {"distance": np.zeros(8)}), truth_of(8))
    assert few.chosen == "by likelihood; too few candidates to choose between that and distance"


def truth_of(count):
    return Truth(np.zeros((count, 1)), Encoding.unit(1), rows=np.zeros((count, 1)), members=np.arange(count) % 2 == 0)


def test_released_classes_alone_give_no_member_away():
    """Forty classes of five: how many of each were released tells much of a list of everybody, and no row does."""
    rng = np.random.default_rng(5)
    classes = np.repeat(np.arange(40), 5)
    members = rng.permutation(200) < 140
    released = np.bincount(classes[members], minlength=40)[classes] / 5.0
    truth = Truth(np.zeros((140, 1)), Encoding.unit(1), rows=np.zeros((140, 1)), members=members)
    assert score_guess(MembershipScores(released), truth).score > 0.3
    within = Truth(
        np.zeros((140, 1)), Encoding.unit(1), rows=np.zeros((140, 1)), members=members, candidate_labels=classes
    )
    assert score_guess(MembershipScores(released), within).score == 0.0
    assert score_guess(MembershipScores(released + members), within).score == 1.0
    apart = Truth(
        np.zeros((140, 1)),
        Encoding.unit(1),
        rows=np.zeros((140, 1)),
        members=members,
        candidate_labels=members.astype(int),
    )
    assert isinstance(score_guess(MembershipScores(released), apart), Abstain)


def test_secrets_average_over_columns_with_a_control():
    X = np.random.default_rng(0).random((40, 2))
    truth = Truth(X, Encoding.unit(2), rows=X, targets=X, control_targets=X[::-1])
    guesses = [Secrets(X[:, :1], 0), Secrets(X[:, 1:] + 0.3, 1)]
    result = score_guess(guesses, truth, [Secrets(X[::-1, :1], 0), Abstain("no")])
    assert result.score == 0.5
    assert result.control == 1
    assert [column["score"] for column in result.columns] == [1, 0]
    assert score_guess(guesses[0], truth).score == 1
    assert score_guess([Abstain("nothing known")], truth) == Abstain("nothing known")


def test_posteriors_are_scored_on_records_with_something_rare():
    properties = (Property("top", 0, 0, 0.9, np.inf),)
    X = np.array([[0.95], [0.99], [0.1], [0.2]])
    guess = Posteriors(np.array([0.1]), np.array([[0.9], [0.2], [0.9], [0.0]]), properties)
    result = score_guess(guess, Truth(X, Encoding.unit(1), rows=X))
    assert result.score == 0.5
    assert result.details["eligible"] == 0.5
    assert result.details["largest_odds_ratio"] == pytest.approx(81)
    assert result.worst == pytest.approx(0.9)
    common = Posteriors(np.array([0.3]), guess.posterior, properties)
    assert isinstance(score_guess(common, Truth(X, Encoding.unit(1), rows=X)), Abstain)


def test_abstaining_is_not_scored_and_what_cannot_be_scored_abstains():
    truth = Truth(np.zeros((2, 1)), Encoding.unit(1), rows=np.zeros((2, 1)))
    assert score_guess(Abstain("no key"), truth) == Abstain("no key")
    assert isinstance(score_guess(Links(np.zeros(1, int), np.zeros(1)), truth), Abstain)
    assert isinstance(score_guess(MembershipScores(np.zeros(2)), truth), Abstain)
    with pytest.raises(TypeError):
        score_guess(Guess(), truth)


def test_missing_values_are_left_out_of_the_errors():
    encoding = Encoding(Schema((Column("a", "numeric", low=0, high=10, missing=True),)))
    X = np.array([[0.5, 1.0], [0.2, 0.0], [0.4, 0.0]])
    result = score_guess(Values(np.array([[0.9, 1.0], [0.3, 0.0], [0.5, 0.0]])), Truth(X, encoding, rows=X))
    assert result.columns[0]["rmse"] == pytest.approx(1.0)
    empty = score_guess(Values(X[:1]), Truth(X[:1], encoding, rows=X[:1]))
    assert empty.columns[0]["rmse"] is None


def test_the_baseline_reads_the_label():
    """Two classes that lie apart: who knows the label is right about everybody without any release."""
    y = np.repeat([0, 1], 50)
    X = np.where(y == 0, 0.1, 0.9)[:, None]
    guess = Values(np.full_like(X, 0.5))
    assert score_guess(guess, Truth(X, Encoding.unit(1), rows=X)).baseline == 0.5
    told = Truth(X, Encoding.unit(1), rows=X, sample=X, labels=y, sample_labels=y)
    assert score_guess(guess, told).baseline == 1.0
    randomized = Truth(X, Encoding.unit(1), rows=X, sample=X, labels=1 - y, sample_labels=y, label_keep=0.75)
    assert score_guess(guess, randomized).baseline == 0.0  # it believes the label, which is wrong for everybody here


def test_linking_by_chance_stays_within_the_class():
    X, y = np.linspace(0, 1, 10)[:, None], np.repeat([0, 1], [2, 8])
    links = Links(np.arange(10), np.zeros(10))
    assert score_guess(links, Truth(X, Encoding.unit(1), rows=X, targets=X)).baseline == pytest.approx(0.1)
    told = Truth(X, Encoding.unit(1), rows=X, targets=X, labels=y, target_labels=y)
    assert score_guess(links, told).baseline == pytest.approx(0.2 * 0.5 + 0.8 * 0.125)
