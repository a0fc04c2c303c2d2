"""Bayes' rule over people, checked by brute force, by frequencies, and against adversaries that know less."""

from dataclasses import replace

import numpy as np
import pytest
from knowing import told

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import ColumnMoments, Knowledge, KnownNoise, Transform
from sfumato.attacks.bayes_window import BayesWindow
from sfumato.attacks.column_beliefs import ColumnBeliefs, Likely, likely_people
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.attacks.support import FLOOR, Support, best_window, half_width
from sfumato.channels import Additive, Exact, RandomizedResponse, Sampled, draw
from sfumato.noise import Laplace, Normal
from sfumato.table import Column, Encoding, Schema

LABELLED = Encoding(
    Schema(
        (
            *(Column(f"c{j}", "numeric", low=0.0, high=1.0) for j in range(4)),
            Column("y", "categorical", role="label", categories=("a", "b")),
        )
    )
)


def clumped(n, seed):
    """Four numbers about a few centres, which differ by class: no line describes them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    centres = np.random.default_rng(99).random((2, 4, 4))
    X = centres[y, rng.integers(4, size=n)] + rng.normal(scale=0.03, size=(n, 4))
    return np.clip(X, 0.0, 1.0), y


def knowledge(X, y, channels, encoding=LABELLED, sample=1500, **more):
    S, s = clumped(sample, 5)
    noise = KnownNoise.of(tuple(channels), S)
    known = Knowledge(
        draw(noise.channels, X.copy(), np.random.default_rng(1)),
        encoding,
        labels=y,
        sample=S,
        sample_labels=s,
        transform=Transform.identity(4),
        noise=noise,
        noise_covariance=noise.covariance(),
        column_moments=ColumnMoments(S.mean(axis=0), np.cov(S, rowvar=False)),
        **more,
    )
    return known, Truth(X, encoding, rows=X, sample=S, labels=y, sample_labels=s)


@pytest.fixture(scope="module")
def planted():
    X, y = clumped(800, 2)
    return knowledge(X, y, [Additive(Laplace(0.15))] * 4)


def test_it_beats_the_best_line_and_guessing_by_far_where_no_line_describes_people(planted):
    known, truth = planted
    bayes = score_guess(BayesWindow().run(known), truth)
    line = score_guess(ATTACKS["linear-estimate"]().run(known), truth)
    assert bayes.score > line.score + 0.2
    assert bayes.score > bayes.baseline + 0.2


def test_in_many_columns_a_long_list_is_read_whole_and_no_line_does_better():
    """A list cut to 1,000 people is a poor prior in 24 columns: somebody who fits a line to 6,000 does better."""
    rng, loads = np.random.default_rng(0), np.random.default_rng(7).normal(size=(12, 24))
    X = np.clip(0.5 + 0.035 * (rng.normal(size=(8_500, 12)) @ loads + rng.normal(size=(8_500, 24))), 0.0, 1.0)
    rows, sample = X[:500], X[500:]
    noise = told(*[Laplace(0.1)] * 24, given=sample)
    Z = draw(noise.channels, rows.copy(), rng)
    known = Knowledge(Z, Encoding.unit(24), noise=noise, sample=sample, transform=Transform.identity(24))
    attacks = (BayesWindow(), BayesWindow(people=1_000), ATTACKS["learned-inversion"](trees=1))
    whole, cut, line = ((np.abs(one.run(known).aimed - rows) <= 0.05).mean() for one in attacks)
    assert cut < line < whole


def calibrated(hit, believed):
    """Whether of guesses held with some probability so many are right, in five parts of the scale."""
    for low, high in ((0.0, 0.5), (0.5, 0.65), (0.65, 0.8), (0.8, 0.9), (0.9, 1.01)):
        here = (believed >= low) & (believed < high)
        error = np.sqrt(4 * 0.25 / max(here.sum(), 1))  # the four columns of a row are right or wrong together
        if abs(hit[here].mean() - believed[here].mean()) > 2.0 * error:
            return False
    return True


def test_it_is_right_as_often_as_it_believes():
    X, y = clumped(3000, 2)
    known, truth = knowledge(X, y, [Additive(Laplace(0.15))] * 4, sample=3000)
    hits, sure = [], []
    for people in likely_people(known, 3000):
        beliefs = ColumnBeliefs(known.noise, known.encoding, people, 100)
        beliefs.smooth(0.02)
        n = len(people.rows)
        out, mean, certain = np.empty((n, 4)), np.empty((n, 4)), np.empty((n, 4))
        beliefs.guess(known.release[people.rows], 0.05, out, mean, certain)
        hits.append(np.abs(out - truth.rows[people.rows]) <= 0.05 + 1e-9)
        sure.append(certain)
    hit, believed = np.concatenate(hits).ravel(), np.concatenate(sure).ravel()
    assert calibrated(hit, believed)
    assert not calibrated(hit, np.minimum(1.3 * believed, 1.0))  # the test tells a belief that is 30% off
    assert not calibrated(hit, believed / 1.3)
    assert abs(BayesWindow().run(known).details["mean_sureness"] - hit.mean()) < 0.03


def test_beliefs_are_bayes_rule_by_brute_force():
    """Two columns, five people: sum over people and over both columns' cells, without any sparse product."""
    rng = np.random.default_rng(0)
    X, Z = rng.random((5, 2)), rng.random((3, 2))
    noise = told(Laplace(0.1), Normal(0.2))
    beliefs = ColumnBeliefs(noise, Encoding.unit(2), Likely(0, np.arange(3), X, np.log([0.1, 0.3, 0.2, 0.2, 0.2])), 40)
    beliefs.smooth(0.5)
    mean, out, sure = (np.empty((3, 2)) for _ in range(3))
    beliefs.guess(Z, 0.05, out, mean, sure)
    grid = Support.of_group(Encoding.unit(1).groups[0], 40)
    values, widths = grid.line, 0.5 * X.std(axis=0)
    for i, z in enumerate(Z):
        total = np.zeros((40, 40))
        for x, prior in zip(X, (0.1, 0.3, 0.2, 0.2, 0.2), strict=True):
            centre = values[grid.places(x[:, None])]
            kernels = [np.exp(-0.5 * ((values - c) / w) ** 2) for c, w in zip(centre, widths, strict=True)]
            kernels = [(1 - FLOOR) * kernel / kernel.sum() + FLOOR / 40 for kernel in kernels]
            first = kernels[0] * np.exp(-np.abs(z[0] - values) / 0.1)
            second = kernels[1] * np.exp(-0.5 * ((z[1] - values) / 0.2) ** 2)
            total += prior * np.outer(first, second)
        total /= total.sum()
        for column, belief in enumerate((total.sum(axis=1), total.sum(axis=0))):
            assert mean[i, column] == pytest.approx(belief @ values, abs=1e-4)
            held = [belief[k : k + 4].sum() for k in range(37)]  # four cells of 1/40 are the window
            assert sure[i, column] == pytest.approx(max(held), abs=1e-4)
            assert out[i, column] == pytest.approx(values[np.argmax(held)] + 1.5 / 40, abs=1e-6)


@pytest.mark.parametrize("half", [0.05, 0.11])
def test_the_best_window_by_brute_force(half):
    rng = np.random.default_rng(1)
    values = np.sort(rng.random(30))
    mass = rng.random((20, 30)) ** 4
    guess, held, _ = best_window(values, mass, half)
    inside = np.abs(values - guess[:, None]) <= half + 1e-9
    assert np.allclose((mass * inside).sum(axis=1), held)
    tried = [(mass * (np.abs(values - place) <= half)).sum(axis=1) for place in np.linspace(0, 1, 2001)]
    assert (held >= np.max(tried, axis=0) * (1 - 1e-5)).all()


def test_whole_steps_are_rounded_and_so_the_window_is_one_step():
    (group,) = Encoding(Schema((Column("rooms", "integer", low=0, high=4),))).groups
    support = Support.of_group(group)
    assert support.line.tolist() == [0, 0.25, 0.5, 0.75, 1]
    guess, mass, _ = best_window(support.line, np.array([[0.1, 0.3, 0.1, 0.2, 0.3]]), half_width(group, 0.05))
    assert (guess[0], mass[0]) == (pytest.approx(0.25), pytest.approx(0.3))


def test_a_copy_is_read_and_a_rotation_with_its_key_too():
    X, y = clumped(300, 3)
    known, truth = knowledge(X, y, [Exact()] * 4)
    assert np.array_equal(BayesWindow().run(known).aimed, X)
    A = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))[0]
    turned = Knowledge(
        X @ A.T + 0.1,
        LABELLED,
        columnwise=False,
        labels=y,
        sample=known.sample,
        sample_labels=known.sample_labels,
        noise=told(*[None] * 4),
        transform=Transform(A, np.full(4, 0.1)),
    )
    assert score_guess(BayesWindow().run(turned), truth).score == 1.0


def test_both_ways_of_computing_it_agree_where_both_apply():
    """Columns that are independent within people, with normal noise: the mixing way is exact there as well."""
    rng = np.random.default_rng(4)
    X, S = rng.beta(2, 3, size=(200, 3)), rng.beta(2, 3, size=(600, 3))
    noise = told(*[Normal(0.1)] * 3)
    Z = X + rng.normal(scale=0.1, size=X.shape)
    known = Knowledge(Z, Encoding.unit(3), noise=noise, sample=S)
    mixed = Knowledge(Z, Encoding.unit(3), columnwise=False, noise=noise, sample=S, transform=Transform.identity(3))
    one, other = BayesWindow().run(known), BayesWindow().run(mixed)
    assert np.abs(one.X - other.X).mean() < 0.01
    assert abs(one.details["mean_sureness"] - other.details["mean_sureness"]) < 0.02


def test_the_label_tells_and_tells_less_where_it_is_randomized():
    X, y = clumped(600, 6)
    channels = [Additive(Laplace(0.4))] * 4
    rng = np.random.default_rng(3)
    lied = np.where(rng.random(600) < 0.75, y, 1 - y)
    found = {}
    for name, labels, keep in (("exact", y, 1.0), ("randomized", lied, 0.75), ("none", None, 1.0)):
        known, truth = knowledge(X, labels, channels, label_keep=keep)
        found[name] = score_guess(BayesWindow().run(known), truth).score
    assert found["exact"] > found["randomized"] + 0.02 > found["none"] + 0.02


def test_a_class_with_its_own_channels_is_read_by_its_own_channels():
    X, y = clumped(600, 7)
    wide, narrow = (Additive(Laplace(0.3)),) * 4, (Additive(Laplace(0.01)),) * 4
    S, s = clumped(1000, 8)
    noise = KnownNoise.of(wide, S, {0: narrow, 1: wide})
    rng = np.random.default_rng(9)
    Z = np.where((y == 0)[:, None], draw(narrow, X.copy(), rng), draw(wide, X.copy(), rng))
    known = Knowledge(Z, LABELLED, labels=y, sample=S, sample_labels=s, noise=noise)
    guess = BayesWindow().run(known).aimed
    told_right = np.abs(guess - X) <= 0.05
    assert told_right[y == 0].mean() > 0.98
    assert told_right[y == 1].mean() < 0.9
    blind = BayesWindow().run(Knowledge(Z, LABELLED, labels=y, sample=S, sample_labels=s, noise=noise.of_class(1)))
    assert (np.abs(blind.aimed - X) <= 0.05)[y == 0].mean() < told_right[y == 0].mean() - 0.02


def test_cells_that_are_not_reported_are_inferred_from_those_that_are():
    X, y = clumped(500, 10)
    known, truth = knowledge(X, y, [Sampled(Additive(Laplace(0.02)), 0.5)] * 4)
    assert np.isnan(known.release).any()
    guess = BayesWindow().run(known).aimed
    hidden = np.isnan(known.release)
    right = np.abs(guess - X) <= 0.05
    assert np.isfinite(guess).all()
    assert right[~hidden].mean() > 0.9
    assert right[hidden].mean() > score_guess(BayesWindow().run(known), truth).baseline + 0.1


def test_categories_have_the_likeliest_one_and_a_release_without_a_law_is_refused():
    encoding = Encoding(Schema((Column("colour", "categorical", categories=("red", "green", "blue")),)))
    rng = np.random.default_rng(11)
    S = np.eye(3)[rng.choice(3, size=2000, p=[0.8, 0.15, 0.05])]
    noise = told(RandomizedResponse(0.5, 3), given=S)
    known = Knowledge(np.eye(3), encoding, noise=noise, sample=S)
    # red although green was said: .8 x .25 > .15 x .5, as anybody can compute; blue as well
    assert BayesWindow().run(known).aimed.argmax(axis=1).tolist() == [0, 0, 0]
    sure = told(RandomizedResponse(0.9, 3), given=S)
    assert BayesWindow().run(Knowledge(np.eye(3), encoding, noise=sure, sample=S)).aimed.argmax(axis=1).tolist() == [
        0,
        1,
        2,
    ]


def test_the_linear_estimate_aims_at_the_score_too_and_leaves_what_is_nearly_exact(planted):
    known, truth = planted
    whole = replace(known, column_distributions=tuple(np.sort(known.sample, axis=0).T))
    plain, aimed = (score_guess(ATTACKS["linear-estimate"]().run(one), truth) for one in (known, whole))
    assert aimed.score > plain.score + 0.05
    assert [column["rmse"] for column in aimed.columns] == [column["rmse"] for column in plain.columns]
    X, y = clumped(300, 3)
    copy, of_copy = knowledge(X, y, [Additive(Laplace(0.003))] * 4)
    copy = replace(copy, column_distributions=whole.column_distributions)
    assert score_guess(ATTACKS["linear-estimate"]().run(copy), of_copy).score > 0.99
