"""What holds for every attack, found by discovery: nothing is worse than an identical copy, and noise helps."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from knowing import told

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import Abstain, ColumnMoments, Guess, Knowledge, KnownNoise, Lineups, RowPairs, Transform
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.channels import Additive, Exact, OrMissing, RandomizedResponse, draw
from sfumato.noise import Laplace
from sfumato.table import Column, Encoding, Schema

STRENGTHS = (0.0, 0.03, 0.1, 0.3, 1.0)
SLACK = 0.04  # two neighbouring strengths may come out in the wrong order by chance, not by more

COLUMNS = (
    Column("age", "integer", low=0, high=100),
    Column("income", "numeric", low=0, high=2e5),
    Column("height", "numeric", low=1.0, high=2.3),
    Column("colour", "categorical", categories=("red", "green", "blue", "grey")),
    Column("weight", "numeric", low=30, high=150, missing=True),
)
ENCODING = Encoding(Schema(COLUMNS))


def people(n, seed):
    """Rows of one population: numbers that hang together, categories of unequal frequency, some values missing."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    numbers = 1 / (1 + np.exp(-(common + rng.normal(scale=0.7, size=(n, 4)))))
    colour = np.eye(4)[rng.choice(4, size=n, p=[0.6, 0.3, 0.06, 0.04])]
    missing = rng.random(n) < 0.1
    weight = np.where(missing, 0.5, numbers[:, 3])
    return np.column_stack([numbers[:, :3], colour, weight, missing])


def release(X, scale, rng):
    """Laplace noise on numbers, randomized response on categories and on the indicator, as strong."""
    if scale == 0:
        return X.copy(), told(*[None] * 3, Exact(4), Exact(2)), Transform.identity(9)
    added, epsilon = Additive(Laplace(scale)), 1 / scale
    colour = RandomizedResponse.of_epsilon(epsilon, 4)
    weight = OrMissing(added, RandomizedResponse.of_epsilon(epsilon, 2).keep)
    noise = KnownNoise.of((added, added, added, colour, weight), people(400, 3))
    return draw(noise.channels, X, rng), noise, Transform.identity(9)


def rotated(X, scale, rng):
    """A random rotation of the encoded columns, with Laplace noise on its components."""
    A = np.linalg.qr(np.random.default_rng(7).normal(size=(9, 9)))[0]
    Z = X @ A.T - 0.3
    noise = told(*[Laplace(scale) if scale else None] * 9)
    Z = Z + rng.laplace(scale=scale, size=Z.shape) if scale else Z
    return Z, noise, Transform(A, np.full(9, -0.3))


def lined_up(members):
    """Hundred rows, each person among 29 others, at the place number % 30."""
    X = np.stack([np.roll(members, -start, axis=0)[1:31] for start in range(100)])
    X[np.arange(100), np.arange(100) % 30] = members[:100]
    return Lineups(np.arange(100), X)


UNMIXING = {"eigen-alignment", "independent-components"}
"""Attacks that look for the map that mixed the columns: their copy is a rotated one."""


@cache
def scores(attack, mixed=False, n=400):
    members, control, sample = people(n, 1), people(n, 2), people(n, 3)
    members[5] = members[6] = members[7]  # identical people
    if attack.name in UNMIXING:
        sample = members  # the most that can be known of a population
    found = []
    for scale in STRENGTHS:
        make = rotated if mixed else release
        Z, noise, transform = make(members, scale, np.random.default_rng(9))
        whole = Knowledge(
            Z,
            ENCODING,
            columnwise=not mixed,
            transform=transform,
            noise=noise,
            noise_covariance=noise.covariance(),
            column_moments=ColumnMoments(sample.mean(axis=0), np.cov(sample, rowvar=False)),
            column_distributions=tuple(np.sort(sample, axis=0).T),
            sample=sample,
            register=members,
            candidates=np.vstack([members, control]),
            targets=members,
            known_rows=RowPairs(members[20:45], np.arange(20, 45)),
            images=np.arange(n),
            lineups=lined_up(members),
        )
        truth = Truth(
            members,
            ENCODING,
            rows=members,
            sample=control,
            targets=members,
            control_targets=control,
            members=np.arange(2 * n) < n,
            register=members,
            lineup=np.arange(100) % 30,
        )
        aside = replace(whole, targets=control)
        aside = replace(aside, images=None)
        found.append(score_guess(aim(attack, whole), truth, aim(attack, aside)))
    return found


def success(result):
    """A bound that noise made vacuous is no success."""
    return 0.0 if isinstance(result, Abstain) else result.score


def aim(attack, known):
    """One guess, or one per secret for an attack that wants secrets."""
    if "secret" not in attack.knows:
        return attack().run(known)
    return [attack().run(known.hiding(secret)) for secret in range(len(ENCODING.groups))]


every_attack = pytest.mark.parametrize(
    "attack",
    [
        attack for attack in ATTACKS.values() if "guided" not in attack.knows
    ],  # their own releases: test_survey_attacks.py
    ids=lambda attack: attack.name,
)


@pytest.mark.parametrize("name", sorted(UNMIXING))
def test_where_nothing_was_mixed_there_is_nothing_to_unmix(name):
    (attack,) = (attack for attack in ATTACKS.values() if attack.name == name)
    assert all(isinstance(result, Abstain) and "no mixing" in result.reason for result in scores(attack))
    found = [success(result) for result in scores(attack, mixed=True)]
    assert found[0] == max(found)
    assert found[0] > found[-1] + 0.05


@every_attack
def test_an_identical_copy_scores_worst(attack):
    if attack.name in UNMIXING or attack.weak:
        return
    copy, *noisy = scores(attack)
    assert copy.score > 0.97, "a copy hides nothing"
    assert copy.score == max(success(result) for result in (copy, *noisy))
    assert copy.worst == pytest.approx(1.0, abs=0.005)


@every_attack
def test_more_noise_never_helps_the_adversary(attack):
    results = scores(attack, mixed=attack.name in UNMIXING)
    found = [success(result) for result in results]
    assert all(isinstance(r, Abstain) or r.interval.low <= r.score <= r.interval.high for r in results)
    assert all(after <= before + SLACK for before, after in pairwise(found)), found
    by_chance = 0.0 if isinstance(results[-1], Abstain) else results[-1].baseline
    little_left = found[-1] - by_chance < 0.6 * (found[0] - by_chance)
    assert found[-1] < 0.6 * found[0] or found[-1] <= by_chance + 0.1 or little_left


@every_attack
def test_a_rotation_without_noise_is_a_copy_for_whoever_knows_it(attack):
    found = [success(result) for result in scores(attack, mixed=True)]
    if attack.name in UNMIXING:
        return
    if not attack.knows & {"transform", "known_rows"} and "transform" not in attack.helps:
        assert max(found) < 0.6, "without the transform there is little to see"
        return
    assert found[0] > 0.97
    assert all(after <= before + SLACK for before, after in pairwise(found)), found


@every_attack
def test_strangers_are_not_at_risk(attack):
    """On people who were not in the table even a copy tells little more than what is usual."""
    copy = scores(attack, mixed=attack.name in UNMIXING)[0]
    most = 1.0 + SLACK if attack.weak else 0.7  # who finds nothing finds as little of strangers
    assert copy.control is None or copy.control < most * copy.score


@every_attack
def test_the_guess_does_not_change_what_is_known(attack):
    X = people(60, 4)
    known = Knowledge(
        X,
        ENCODING,
        columnwise=attack.name not in UNMIXING,
        transform=Transform.identity(9),
        noise=told(*[Laplace(0.1)] * 9),
        noise_covariance=0.02 * np.eye(9),
        column_moments=ColumnMoments(X.mean(axis=0), np.cov(X, rowvar=False)),
        column_distributions=tuple(np.sort(X, axis=0).T),
        sample=X,
        register=X,
        candidates=X,
        targets=X,
        known_rows=RowPairs(X[:10], np.arange(10)),
        images=np.arange(60),
        lineups=Lineups(np.arange(10), np.stack([X[:8]] * 10)),
        secret=0,
    )
    if known.columnwise:
        known = replace(known, noise=release(X, 0.1, np.random.default_rng(0))[1])
    before = X.copy()
    first, second = attack().run(known), attack().run(known)
    assert isinstance(first, Guess)
    assert not isinstance(first, Abstain)
    assert np.array_equal(X, before)
    for name, value in vars(first).items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, getattr(second, name)), "an attack is a function of what it knows"


@every_attack
@pytest.mark.parametrize("columnwise", [True, False])
@pytest.mark.parametrize("d", [1, 2])
def test_small_and_constant_tables_do_not_break_an_attack(attack, d, columnwise):
    """One or two columns, the last one constant, three rows."""
    X = np.column_stack([[0.1, 0.5, 0.9], [0.5, 0.5, 0.5]])[:, :d]
    known = Knowledge(
        X + 0.01,
        Encoding.unit(d),
        columnwise=columnwise,
        transform=Transform.identity(d),
        noise=told(*[Laplace(0.1)] * d),
        noise_covariance=0.02 * np.eye(d),
        column_moments=ColumnMoments(X.mean(axis=0), np.atleast_2d(np.cov(X, rowvar=False))),
        column_distributions=tuple(np.sort(X, axis=0).T),
        sample=X,
        candidates=X,
        targets=X,
        known_rows=RowPairs(X[:2], np.arange(2)),
        images=np.arange(3),
        secret=0,
    )
    guess = attack().run(known)
    assert isinstance(guess, Guess)
    for value in vars(guess).values():
        assert not isinstance(value, np.ndarray) or np.isfinite(value).all()
