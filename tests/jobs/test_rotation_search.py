"""Rotation search: exact assignments against brute force, what ICA gets, and where the figures go."""

import itertools
import json
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import steady
from sfumato.attacks.metrics.privacy import component_privacy
from sfumato.core.errors import TableError, UsageError
from sfumato.guarantee import Card, Key
from sfumato.mechanisms import RandomRotation
from sfumato.mechanisms.random_rotation import haar_rotation
from sfumato.release.rotation_search import (
    Sample,
    WeakRotationWarning,
    best_order,
    bottleneck,
    find_key,
    ica_trial,
    search_rotation,
    vod_matrix,
)
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Encoding, Schema

matrices = st.integers(1, 6).flatmap(
    lambda d: st.lists(st.lists(st.integers(0, 7), min_size=d, max_size=d), min_size=d, max_size=d)
)
"""Few different entries, so that ties are common."""


def independent_columns(rows=3_000, width=4, seed=0):
    return np.random.default_rng(seed).random((rows, width))


def correlated_columns(rows=2_000, width=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 2)) @ rng.standard_normal((2, width)) + 0.3 * rng.standard_normal((rows, width))
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


def sample(X, weights=None):
    width = X.shape[1]
    weights = np.ones(width) if weights is None else np.asarray(weights, dtype=float)
    return Sample(X, np.cov(X.T, bias=True).reshape(width, width), weights / weights.mean(), tuple("abcdefgh"[:width]))


def quietly(function, *arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **named)


# -- the assignment ---------------------------------------------------------------------------------------------------


@given(matrices)
@steady(150)
def test_orders_are_the_best_of_all_of_them(entries):
    V = np.array(entries, dtype=float)
    columns = np.arange(len(V))
    every = [V[list(order), columns] for order in itertools.permutations(columns)]
    highest = max(chosen.min() for chosen in every)
    found = V[best_order(V), columns]
    assert bottleneck(V) == found.min() == highest
    assert found.sum() == max(chosen.sum() for chosen in every if chosen.min() == highest)  # ties: the best average
    assert V[best_order(V, "average"), columns].sum() == max(chosen.sum() for chosen in every)
    assert sorted(best_order(V)) == list(columns)


def test_the_bottleneck_of_two_hundred_columns_takes_less_than_a_second():
    V = np.random.default_rng(0).random((200, 200))
    start = time.process_time()
    level = bottleneck(V)
    assert time.process_time() - start < 1.0
    assert V[best_order(V), np.arange(200)].min() == level


def test_the_vod_matrix_is_the_variance_of_every_difference():
    X = correlated_columns()
    C, R = np.cov(X.T, bias=True), haar_rotation(5, np.random.default_rng(1))
    Z = X @ R.T
    differences = np.array([[(Z[:, i] - X[:, j]).var() for j in range(5)] for i in range(5)])
    sums = np.array([[(Z[:, i] + X[:, j]).var() for j in range(5)] for i in range(5)])
    assert np.allclose(vod_matrix(R, C, published=True), differences)
    assert np.allclose(vod_matrix(R, C), np.minimum(differences, sums))
    assert np.allclose(vod_matrix(-R, C), vod_matrix(R, C))
    moved = RandomRotation().fit(X).embed(X)  # a centre changes no variance of a difference
    assert moved.var(axis=0).sum() == pytest.approx(X.var(axis=0).sum())


@pytest.fixture
def _hasty_ica(monkeypatch):
    """For tests about naive inference: ICA never settles on near-normal columns, and takes its time over it."""
    monkeypatch.setattr("sfumato.release.rotation_search.ITERATIONS", 3)
    monkeypatch.setattr("sfumato.release.rotation_search.STARTS", 1)


# -- the search -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_hasty_ica")
def test_more_rotations_are_never_worse_against_naive_inference():
    X = correlated_columns()
    levels = []
    for iterations in (1, 10, 60):
        R, _ = search_rotation(sample(X), iterations=iterations, rng=np.random.default_rng(7))
        levels.append(np.sqrt(np.diag(vod_matrix(R, np.cov(X.T, bias=True)))).min())
    assert levels[0] < levels[1] <= levels[2]


@pytest.mark.usefixtures("_hasty_ica")
def test_the_published_search_mirrors_the_columns_and_ours_does_not():
    """Its erratum: knowing that a search was made, the adversary turns the sign and gains."""
    X = correlated_columns()
    mean = {}
    for scoring in ("published", "measured"):
        rho = []
        for seed in range(5):
            R, _ = search_rotation(sample(X), iterations=20, scoring=scoring, rng=np.random.default_rng(seed))
            Z = X @ R.T
            rho += [np.corrcoef(Z[:, j], X[:, j])[0, 1] for j in range(5)]
        mean[scoring] = np.mean(rho)
    assert mean["published"] < -0.5
    assert abs(mean["measured"]) < 0.25


@pytest.mark.usefixtures("_hasty_ica")
def test_what_was_raised_is_told_even_where_it_is_no_more_than_guessing_the_mean():
    """Naive inference on mixed columns is worse than guessing the mean: what the search raises, nobody needs."""
    mixed = sample(correlated_columns())
    rotation, found = search_rotation(mixed, iterations=12, rng=np.random.default_rng(3))
    assert found.optimised.first <= found.optimised.kept
    assert found.optimised.kept == pytest.approx(
        np.sqrt(vod_matrix(rotation, mixed.covariance)).diagonal().min(), rel=1e-9
    )
    assert found.naive.minimum == pytest.approx(found.mean_guess.minimum)
    assert "no more than that was gained" in found.in_words()  # .130 to .172, and guessing the mean leaves .133
    lucky = search_rotation(mixed, iterations=1, rng=np.random.default_rng(4))[1]
    assert (lucky.optimised.first >= lucky.mean_guess.minimum) == ("the search gained nothing" in lucky.in_words())
    assert f"{found.optimised.first:.3f} to {found.optimised.kept:.3f}" in found.in_words()
    published = search_rotation(mixed, iterations=12, scoring="published", rng=np.random.default_rng(3))[1]
    assert "Eq. 6 as published" in published.in_words()
    assert published.to_dict()["optimised"]["kept"] == published.optimised.kept


@pytest.mark.usefixtures("_hasty_ica")
def test_weights_protect_the_column_that_matters():
    X = correlated_columns()
    left = {}
    for weight in (1.0, 3.0):
        chosen = sample(X, [weight, 1, 1, 1, 1])
        sigmas = []
        for seed in range(8):
            R, _ = search_rotation(chosen, iterations=20, rng=np.random.default_rng(seed))
            sigmas.append(np.sqrt(vod_matrix(R, chosen.covariance)[0, 0]))
        left[weight] = np.mean(sigmas)
    assert left[3.0] > 1.05 * left[1.0]


def test_weights_of_the_schema_reach_the_search():
    columns = [Column(name, "numeric", low=0, high=1, weight=weight) for name, weight in (("a", 2.0), ("b", 1.0))]
    columns.append(Column("c", "categorical", categories=("x", "y"), weight=3.0))
    encoding = Encoding(Schema(tuple(columns)))
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((50, 2)), np.eye(2)[rng.integers(2, size=50)]])
    seen = []

    def spy(chosen, **_):
        seen.append(chosen)
        return np.eye(4), quietly(search_rotation, chosen, iterations=1)[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.release.rotation_search.search_rotation", spy)
        quietly(find_key, X, encoding)
    assert seen[0].weights == pytest.approx(np.array([2, 1, 3, 3]) / 2.25)
    assert seen[0].names == ("a", "b", "c", "c")


def test_ica_recovers_independent_columns_whatever_the_rotation():
    X = independent_columns()
    for seed in range(3):
        R = haar_rotation(4, np.random.default_rng(seed))
        trial = ica_trial(sample(X), R, np.random.default_rng(seed))
        assert trial.converged
        assert trial.privacy.minimum < 0.05  # guessing the mean leaves .289
        assert trial.privacy.average < 0.08
        assert trial.sigma.min() == pytest.approx(trial.privacy.minimum, rel=1e-6)
        published = ica_trial(sample(X), R, np.random.default_rng(seed), published=True)
        assert published.privacy.minimum == pytest.approx(1 - 0.289, abs=0.03)  # "recovered perfectly" scores 1 - sd


def test_trials_score_as_the_metrics_do():
    X = correlated_columns()
    chosen = sample(X, [1, 2, 1, 1, 3])
    R = haar_rotation(5, np.random.default_rng(0))
    trial = ica_trial(chosen, R, np.random.default_rng(0))
    assert trial.privacy.minimum == pytest.approx((trial.sigma / chosen.weights).min(), rel=1e-6)
    perfect = component_privacy(X, X, chosen.weights)
    assert perfect.minimum == pytest.approx(0, abs=1e-7)


def test_a_weak_rotation_is_warned_about_and_noise_is_proposed():
    X = independent_columns()
    with pytest.warns(WeakRotationWarning, match="noise=laplace, or --epsilon-record"):
        key, found = find_key(X, iterations=5)
    assert found.weak_columns == ("c000", "c001", "c002", "c003")
    assert found.ica is not None
    assert found.ica_anywhere.minimum <= found.ica.minimum < 0.2 < found.mean_guess.minimum
    assert found.naive.minimum <= found.mean_guess.minimum
    assert key.arrays["searched"] == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakRotationWarning)
        find_key(X, mechanism=RandomRotation(noise="laplace"), iterations=2)


def test_ica_that_does_not_converge_is_reported_and_no_privacy(monkeypatch):
    monkeypatch.setattr("sfumato.release.rotation_search.ITERATIONS", 1)
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((400, 6))
    X = (normal - normal.min(axis=0)) / np.ptp(normal, axis=0)
    _, found = quietly(search_rotation, sample(X), iterations=4, rng=rng)
    assert found.ica is None
    assert found.ica_not_converged == found.ica_runs == 4
    assert "nothing is known about it" in found.in_words()
    assert found.to_dict()["ica"] is None


def test_searches_draw_from_the_operating_system():
    X = correlated_columns(300)
    first, second = (quietly(find_key, X, iterations=2)[0].arrays["matrix"] for _ in range(2))
    assert not np.allclose(np.abs(first), np.abs(second))
    again = [quietly(search_rotation, sample(X), iterations=2, rng=np.random.default_rng(1))[0] for _ in range(2)]
    assert np.array_equal(again[0], again[1])


def test_progress_is_told_and_both_goals_are_served():
    X, told = correlated_columns(300), []
    for goal in ("minimum", "average"):
        R, found = quietly(
            search_rotation, sample(X), iterations=3, goal=goal, progress=lambda *step: told.append(step)
        )
        assert np.abs(R @ R.T - np.eye(5)).max() < 1e-12
        assert found.goal == goal
    assert told[:3] == [("Searching", 1, 3), ("Searching", 2, 3), ("Searching", 3, 3)]


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).random((40, 1)),
        np.column_stack([np.random.default_rng(0).random((40, 2)), np.full(40, 0.5)]),
        np.random.default_rng(0).random((40, 2))[:, [0, 1, 0]],
        np.eye(3)[np.random.default_rng(0).integers(3, size=40)],
        np.random.default_rng(0).random((3, 8)),
        np.random.default_rng(0).random((2, 2)),
    ],
    ids=["one column", "constant", "twice the same", "one-hot", "fewer rows than columns", "two rows"],
)
@pytest.mark.parametrize("scoring", ["measured", "published"])
def test_awkward_tables_are_searched_without_a_crash(X, scoring):
    key, found = quietly(find_key, X, iterations=3, scoring=scoring)
    assert np.isfinite(list(found.naive)).all()
    assert np.isfinite(list(found.ica_anywhere)).all()
    assert json.dumps(found.to_dict(), allow_nan=False)
    Z = RandomRotation().fit(X, key=key).embed(X)
    assert np.allclose(np.linalg.norm(Z - Z[0], axis=1), np.linalg.norm(X - X[0], axis=1))


def test_what_cannot_be_searched_is_said():
    X = correlated_columns(50)
    with pytest.raises(TableError, match="No column varies"):
        find_key(np.full((10, 3), 0.5))
    with pytest.raises(UsageError, match="at least 1 iteration"):
        find_key(X, iterations=0)
    with pytest.raises(UsageError, match="'goal' of a rotation search must be minimum or average"):
        find_key(X, goal="most")
    with pytest.raises(UsageError, match="'scoring' of a rotation search must be measured or published"):
        find_key(X, scoring="kind")
    with pytest.raises(TableError, match="the encoding has 4"):
        find_key(X, Encoding.unit(4))


# -- the job ----------------------------------------------------------------------------------------------------------


def job(table, out, **options):
    return quietly(sanitize, table, out, Options(mechanism="random-rotation", **options))


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_a_searched_release_keeps_its_figures_to_the_owner(tmp_path, engine):
    frame = pd.DataFrame(correlated_columns(500), columns=list("abcde"))
    done = job(frame, tmp_path / "r", search=4, engine=engine, key=tmp_path / "k.json")
    assert done.search.iterations == 4
    key, card = Key.load(tmp_path / "k.json"), (tmp_path / "r" / "card.json").read_text()
    assert key.arrays["searched"] == 4
    assert "choice of the rotation, by a search that looked at the data" in Card.load(tmp_path / "r").learned_from_data
    for figure in (*done.search.naive, *done.search.ica_anywhere, *done.search.mean_guess, *key.arrays["matrix"].flat):
        assert f"{figure:.6f}"[:8] not in card
    again = job(frame, tmp_path / "again", key=tmp_path / "k.json")  # another site with the same key
    assert again.search is None
    assert again.card.space == done.card.space


def test_scoring_is_chosen_by_the_owner(tmp_path):
    frame = pd.DataFrame(correlated_columns(300), columns=list("abcde"))
    done = quietly(
        sanitize, frame, tmp_path / "r", Options(mechanism="random-rotation", search=3, search_scoring="published")
    )
    assert done.search.scoring == "published"
    with pytest.raises(UsageError, match="--search-scoring must be measured or published"):
        sanitize(frame, tmp_path / "s", Options(mechanism="random-rotation", search=3, search_scoring="luck"))
    with pytest.raises(UsageError, match="Add --search N"):
        sanitize(frame, tmp_path / "s", Options(mechanism="random-rotation", search_scoring="published"))


def test_search_is_refused_where_it_makes_no_sense(tmp_path):
    frame = pd.DataFrame(correlated_columns(50), columns=list("abcde"))
    with pytest.raises(UsageError, match="random-projection has none"):
        sanitize(frame, tmp_path / "r", Options(mechanism="random-projection", search=5))
    with pytest.raises(UsageError, match="at least 1"):
        sanitize(frame, tmp_path / "r", Options(mechanism="random-rotation", search=0))
    job(frame, tmp_path / "r", key=tmp_path / "k.json")
    with pytest.raises(UsageError, match="draws a new key"):
        sanitize(frame, tmp_path / "s", Options(mechanism="random-rotation", search=5, key=tmp_path / "k.json"))
    assert not (tmp_path / "s").exists()


def test_a_search_is_a_parameter_of_the_method_too():
    """`--param search=4`; the option of its own is an old spelling."""
    given = {"search": 4, "search_goal": "average", "kept": 1}
    options = Options(mechanism="random-rotation", parameters=given)
    assert (options.search, options.search_goal, options.search_scoring) == (4, "average", "measured")
    assert options.parameters == {"kept": 1}
    with pytest.raises(UsageError, match="search is given twice"):
        Options(mechanism="random-rotation", parameters=given, search=5)
    for wrong in (0, "many", True):
        with pytest.raises(UsageError, match="--search must be at least 1"):
            Options(mechanism="random-rotation", parameters={"search": wrong}).settle()
