"""Every attack on a release of every mechanism: a score, or a reason why there is none; and what undoes a rotation."""

from functools import cache

import numpy as np
import pytest
from rotations import skewed

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import Abstain, ColumnMoments, Guess, Knowledge, KnownNoise, RowPairs
from sfumato.attacks.metrics.privacy import nearest_row_privacy
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.channels import Guided, Staged
from sfumato.mechanisms import MECHANISMS as PRODUCT
from sfumato.mechanisms.column_noise import AdditiveNoise, MultiplicativeNoise, NoisyOperator, RandomizedResponse
from sfumato.mechanisms.condensation import Condensation
from sfumato.mechanisms.guided_projection import GuidedProjection
from sfumato.mechanisms.kernel_resampling import KernelResampling
from sfumato.mechanisms.principal_laplace import PrincipalLaplace
from sfumato.mechanisms.random_rotation import RandomProjection, RandomRotation
from sfumato.mechanisms.reported_columns import PiecewiseNoise, SquareWaveColumns, StagedRelease
from sfumato.noise import Streams
from sfumato.table import Column, Encoding, Schema

MECHANISMS = {
    "additive-noise": lambda: AdditiveNoise(scale=0.2),
    "principal-laplace": lambda: PrincipalLaplace(b=0.2),
    "random-projection": lambda: RandomProjection(components=0.5),
    "square-projection": lambda: RandomProjection(components=1.0),
    "rotation": lambda: RandomRotation(),
    "rotation-about-zero": lambda: RandomRotation(centre="zero"),
    "rotation-with-noise": lambda: RandomRotation(noise="laplace", scale=0.2),
    "condensation": lambda: Condensation(k=20),
    "kernel-resampling": lambda: KernelResampling(),
    "kernel-resampling-scaled": lambda: KernelResampling(bandwidth="scaled"),
    "multiplicative-noise": lambda: MultiplicativeNoise(scale=0.2),
    "noisy-operator": lambda: NoisyOperator("quartic", law="uniform", low=-1, high=1),
    "randomized-response": lambda: RandomizedResponse(epsilon=2.0),
    "guided-projection": lambda: GuidedProjection(floor=0.1),
    "square-wave": lambda: SquareWaveColumns(epsilon_record=12.0),
    "piecewise-noise": lambda: PiecewiseNoise(epsilon_record=12.0),
    "staged-release": lambda: StagedRelease(epsilon_record=12.0, noise="float"),
    "square-wave-on-all-columns": lambda: SquareWaveColumns(epsilon_record=24.0, columns=6),
}
TRIED = {make().name for make in MECHANISMS.values()}
MECHANISMS |= {name: made for name, made in PRODUCT.items() if name not in TRIED and not made.made_up}
"""Made-up rows have no source that a guess could be held against; `tests/jobs/test_nobodys_rows.py` audits them."""
POSITIVE = Encoding(Schema(tuple(Column(f"c{j}", "numeric", low=1.0, high=2.0) for j in range(6))))
pytestmark = pytest.mark.filterwarnings("ignore")


@cache
def table():
    X = skewed(900, 6, seed=4)
    return X[:600], X[600:]


@cache
def answers():
    """The same table, each of its columns cut into three parts."""
    codes = np.minimum((np.vstack(table()) * 3).astype(int), 2)
    X = np.eye(3)[codes].reshape(900, 18)
    columns = [Column(f"q{j}", "categorical", categories=("low", "middle", "high")) for j in range(6)]
    return X[:600], X[600:], Encoding(Schema(tuple(columns)))


@cache
def arena(name):
    """All that may be known of a release, except its key, and the truth; every known row left out of the score."""
    mechanism = MECHANISMS[name]()
    X, strangers, encoding = (*table(), POSITIVE if mechanism.not_about_zero else Encoding.unit(6))
    if mechanism.only_categories:
        X, strangers, encoding = answers()
    y = (X[:, 0] > 0.5).astype(int) if name == "guided-projection" else None
    with pytest.MonkeyPatch.context() as patch:  # keys come from the operating system, and some of them are unlucky
        patch.setattr("sfumato.mechanisms.random_rotation.secret_generator", lambda *_: np.random.default_rng(8))
        patch.setattr("sfumato.mechanisms.random_rotation.Streams", lambda: Streams.seeded(8))
        block = mechanism.release(X, y, rng=np.random.default_rng(3), encoding=encoding)
    truth = X[block.source]
    rows = np.arange(7)
    recipe = mechanism.recipe_
    noise = KnownNoise.of(recipe.channels, recipe.map.apply(strangers))
    affine = None if mechanism.needs_key else recipe.map.affine()
    known = Knowledge(
        block.X,
        encoding,
        columnwise=recipe.is_columnwise,
        transform=None if affine is None else noise.on_average(*affine),
        noise=noise,
        noise_covariance=noise.covariance(),
        guided=recipe.map if isinstance(recipe.map, Guided | Staged) else None,
        column_moments=ColumnMoments(strangers.mean(axis=0), np.cov(strangers, rowvar=False)),
        column_distributions=tuple(np.sort(strangers, axis=0).T),
        known_rows=RowPairs(truth[rows], rows),
        sample=strangers,
        register=X,
        candidates=np.vstack([truth[:200], strangers[:200]]),
        targets=truth[7:207],
        images=np.arange(7, 207),
    )
    members = np.arange(400) < 200
    return known, Truth(
        truth, encoding, rows=truth, sample=strangers, targets=truth[7:207], members=members, register=X
    )


@cache
def result(attack, name):
    known, truth = arena(name)
    guess = attack().run(known) if "secret" not in attack.knows else [attack().run(known.hiding(j)) for j in range(6)]
    assert isinstance(guess, Guess | list)
    return score_guess(guess, truth)


COLUMNS = {"attribute-inference", "known-rows", "known-transform", "linear-estimate", "naive-estimate"}
COLUMNS |= {"nearest-row", "nearest-source", "principal-filter", "spectral-filter"}
LIKELIHOODS = {"membership", "posterior-breach"}
SECRET_MAP = {"known-rows", "naive-estimate", "eigen-alignment", "independent-components"}
SCORES = {
    "additive-noise": COLUMNS | LIKELIHOODS | {"distance-bound"},
    "principal-laplace": COLUMNS | LIKELIHOODS | SECRET_MAP | {"distance-bound"},
    "random-projection": SECRET_MAP | {"distance-bound"},
    "square-projection": SECRET_MAP | {"distance-bound"},
    "rotation": SECRET_MAP | {"distance-bound"},
    "rotation-about-zero": SECRET_MAP | {"distance-bound"},
    "rotation-with-noise": SECRET_MAP | {"distance-bound"},
    "condensation": COLUMNS,
    "kernel-resampling": COLUMNS | LIKELIHOODS | {"distance-bound", "hard-interval"},
    "kernel-resampling-scaled": COLUMNS | LIKELIHOODS | {"distance-bound", "hard-interval"},
    "multiplicative-noise": COLUMNS | LIKELIHOODS | {"hard-interval"},
    "noisy-operator": COLUMNS | LIKELIHOODS | {"hard-interval"},
    "randomized-response": COLUMNS | LIKELIHOODS,
    "guided-projection": SECRET_MAP | LIKELIHOODS | {"posterior-guess"},
    "square-wave": (COLUMNS | LIKELIHOODS) - {"known-rows", "principal-filter", "spectral-filter"},
    "piecewise-noise": (COLUMNS | LIKELIHOODS) - {"known-rows", "principal-filter", "spectral-filter"},
    "staged-release": LIKELIHOODS,
    "square-wave-on-all-columns": COLUMNS | LIKELIHOODS,
}
"""Attacks that can say something of a release; the others may, and say why where they cannot."""


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_score_or_a_reason(name):
    found = {attack.name: result(attack, name) for attack in ATTACKS.values()}
    reasons = {attack: one.reason for attack, one in found.items() if isinstance(one, Abstain)}
    assert SCORES.get(name, set()) & reasons.keys() == set()
    assert all(len(reason) > 10 for reason in reasons.values())
    for one in found.values():
        assert isinstance(one, Abstain) or one.interval.low <= one.score <= one.interval.high


def named(name):
    (attack,) = (attack for attack in ATTACKS.values() if attack.name == name)
    return attack


def test_known_rows_undo_rotations_and_square_maps_and_noise_stops_them():
    known_rows = named("known-rows")
    for name in ("rotation", "rotation-about-zero", "square-projection"):
        assert result(known_rows, name).score == 1.0
    noisy = result(known_rows, "rotation-with-noise")
    assert noisy.score < noisy.baseline + 0.1
    assert result(known_rows, "random-projection").score < 1


def test_distances_bound_what_a_rotation_releases_and_noise_stops_it():
    bound = named("distance-bound")
    assert result(bound, "rotation").score > 0.97
    noisy = result(bound, "rotation-with-noise")
    assert isinstance(noisy, Abstain) or noisy.score < 0.5


def test_attacks_that_unmix_say_that_a_columnwise_release_is_not_mixed():
    for attack in ("independent-components", "eigen-alignment"):
        for name in ("additive-noise", "condensation"):
            assert "no mixing" in result(named(attack), name).reason
        assert result(named(attack), "rotation").score > 0


def test_a_sample_and_the_shape_of_the_columns_tell_more_about_a_rotation_than_nothing_does():
    found = result(named("eigen-alignment"), "rotation")
    assert found.score > found.baseline
    assert found.score > result(named("eigen-alignment"), "rotation-with-noise").score


def test_condensed_rows_lie_near_real_ones():
    """Figs 5-8: the nearest original row is a close guess, whatever k is; a noisy rotation is nowhere near."""
    X, _ = table()
    rng = np.random.default_rng(0)
    small, large = (nearest_row_privacy(X, Condensation(k=k).release(X, rng=rng).X) for k in (5, 50))
    assert small.average < large.average < 0.1
    links = result(named("nearest-row"), "condensation")
    assert links.score > 10 * links.baseline


def test_most_drawn_rows_still_have_their_source_as_the_nearest_record():
    """The default, which is as narrow as the paper's, gives sources away twice as often as the best for densities."""
    narrow, scaled = (
        result(named("nearest-source"), name) for name in ("kernel-resampling", "kernel-resampling-scaled")
    )
    assert narrow.score > 0.7
    assert scaled.score < 0.6 * narrow.score
    assert scaled.baseline < 0.01 < scaled.score
    assert scaled.details["never_drawn"] == pytest.approx(np.exp(-1), abs=0.06)
