"""The adversary who learns to invert a release from releases of its own."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from knowing import told

import sfumato as sf
from sfumato.attacks.base import Abstain, Knowledge, KnownNoise, Simulated, Values
from sfumato.attacks.learned_inversion import LearnedInversion, simulated_pairs
from sfumato.attacks.linear_estimate import NaiveEstimate
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.auditing.audit import audit
from sfumato.channels import Additive, Sampled
from sfumato.noise import Laplace
from sfumato.table import Encoding


def people(n, seed):
    """Four columns that hang together, in two classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    common = rng.normal(size=(n, 1)) + 2.0 * y[:, None]
    return 1 / (1 + np.exp(-0.6 * (common + 0.4 * rng.normal(size=(n, 4))))), y


@pytest.fixture(scope="module")
def known():
    (X, y), (sample, classes) = people(600, 0), people(400, 1)
    noise = told(*[Laplace(0.2)] * 4)
    Z = X + np.random.default_rng(2).laplace(scale=0.2, size=X.shape)
    return Knowledge(Z, Encoding.unit(4), noise=noise, sample=sample, labels=y, sample_labels=classes)


def score(guess, X, known):
    return score_guess(guess, Truth(X, known.encoding, rows=X, sample=known.sample, labels=known.labels)).score


def test_it_shrinks_noise_and_needs_no_law(known):
    """More than face value; and as much where only a way to draw is known as where the law is."""
    X, _ = people(600, 0)
    told_law = LearnedInversion().run(known)
    naive = score(NaiveEstimate().run(known), X, known)
    assert score(told_law, X, known) > naive + 0.05

    def simulate(X, y, rng):
        return Simulated(X + rng.laplace(scale=0.2, size=X.shape), y, np.arange(len(X)))

    drawn = LearnedInversion().run(replace(known, noise=None, simulator=simulate))
    assert abs(score(drawn, X, known) - score(told_law, X, known)) < 0.04
    reason = LearnedInversion().run(replace(known, noise=None))
    assert isinstance(reason, Abstain)
    assert "how the release was made" in reason.reason


def test_a_release_that_says_nothing_is_guessed_by_what_is_usual_beside_the_label(known):
    rng = np.random.default_rng(3)

    def simulate(X, y, rng):
        return Simulated(rng.random(X.shape), y, np.arange(len(X)))

    blind = replace(known, release=rng.random(known.release.shape), noise=None, simulator=simulate)
    guess = LearnedInversion().run(blind)
    assert guess.details["columns_usual"] >= 3
    assert all(len(np.unique(guess.aimed[known.labels == code, 0].round(9))) == 1 for code in (0, 1))
    assert guess.aimed[known.labels == 0, 0][0] < guess.aimed[known.labels == 1, 0][0]


def test_gaps_and_randomized_labels_are_simulated_as_they_are(known):
    """A cell in two is left out; a label is told truly seven times in ten."""
    channels = (*[Sampled(Additive(Laplace(0.05)), 0.5)] * 3, Additive(Laplace(0.05)))
    noise = KnownNoise.of(channels, known.sample)
    pairs = simulated_pairs(replace(known, noise=noise, label_keep=0.7), np.random.default_rng(0))
    assert np.isnan(pairs.Z[:, :3]).mean() == pytest.approx(0.5, abs=0.02)
    true = known.sample_labels[pairs.person]
    assert np.mean(pairs.labels == true) == pytest.approx(0.7, abs=0.03)
    X, _ = people(600, 0)
    Z = np.where(np.random.default_rng(4).random(X.shape) < 0.5, np.nan, X)
    Z[:, 3] = X[:, 3]
    guess = LearnedInversion().run(replace(known, release=Z, noise=noise))
    assert isinstance(guess, Values)
    assert np.isfinite(guess.X).all()
    assert (np.abs(guess.aimed - X) <= 0.05)[np.isnan(Z)].mean() > 0.3  # read off the column that is reported


def test_too_few_people_teach_nothing(known):
    few = LearnedInversion().run(replace(known, sample=known.sample[:5], sample_labels=known.sample_labels[:5]))
    assert isinstance(few, Abstain)


def test_a_secret_map_cannot_be_simulated(known):
    mixed = LearnedInversion().run(replace(known, columnwise=False))
    assert isinstance(mixed, Abstain)
    assert "transform" in mixed.reason


@pytest.mark.filterwarnings("ignore")
def test_in_an_audit_the_mechanism_itself_is_run_on_other_people():
    """Condensed rows have no law that a card could state."""
    X, y = people(300, 5)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=np.where(y, "yes", "no"))
    release = sf.sanitize(frame[:200], label="label", mechanism="condensation", seed=1)
    (entry,) = audit(
        release, original=frame[:200], holdout=frame[200:], attacks=("learned-inversion",), repeats=1
    ).data["attacks"]
    assert entry["score"] > entry["baseline"]
    assert entry["details"]["simulated_people"] == 100
