"""Attacks that know operator and law from the card: exact likelihood, best line, and what bounded noise rules out."""

import numpy as np
import pytest
from knowing import told
from scipy.integrate import quad

from sfumato.attacks.base import Abstain, Bounds, ColumnMoments, Knowledge, RowPairs, Transform
from sfumato.attacks.distance_bound import DistanceBound
from sfumato.attacks.known_rows import KnownRows
from sfumato.attacks.linear_estimate import HardInterval, LinearEstimate
from sfumato.attacks.metrics.privacy import auc
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.attacks.nearest_row import comparable_rows
from sfumato.attacks.posterior_breach import PosteriorBreach, posterior
from sfumato.attacks.row_ratios import Membership
from sfumato.channels import Additive, Carried, OrMissing
from sfumato.noise import Laplace, Normal, OperatorNoise, Uniform, make_law, make_operator
from sfumato.table import Column, Encoding, Schema

LOW, WIDTH = 20.0, 100.0
MULTIPLIED = OperatorNoise(make_operator("multiplicative"), make_law("uniform", low=1, high=3))
RELATIVE = OperatorNoise(make_operator("multiplicative", {"base": 1.0}), make_law("normal", scale=0.3))
QUARTIC = OperatorNoise(make_operator("quartic"), make_law("uniform", low=-1, high=1))
NOISES = {"factors": MULTIPLIED, "relative": RELATIVE, "quartic": QUARTIC}


def people(n, seed=0):
    return np.random.default_rng(seed).beta(2, 4, size=n)


def released(noise, u, seed=1):
    return (noise.sample(LOW + WIDTH * u, np.random.default_rng(seed)) - LOW) / WIDTH


def carried(noise):
    return Carried.of(noise, LOW, WIDTH)


class Straight:
    """The best line of a channel where values are spread like u, as three numbers."""

    def __init__(self, noise, u):
        gain, offset, covariance = carried(noise).line(u[:, None])
        self.slope, self.offset, self.variance = gain[0, 0], offset[0], covariance[0, 0]


line_of = Straight


@pytest.mark.parametrize("name", NOISES)
def test_the_line_is_the_one_that_regression_finds(name):
    """Accepts the true slope and variance, rejects those 30% off."""
    u = people(100_000)
    z, found = released(NOISES[name], u), line_of(NOISES[name], u)
    slope = np.cov(u, z)[0, 1] / u.var()
    left = z - z.mean() - slope * (u - u.mean())
    error = 6 * np.sqrt(found.variance / u.var() / len(u)) + 1e-3 * abs(slope)
    assert found.slope == pytest.approx(slope, abs=error)
    assert abs(1.3 * found.slope - slope) > error
    assert found.offset == pytest.approx(z.mean() - slope * u.mean(), abs=error)
    assert found.variance == pytest.approx(left.var(), rel=0.04)


def test_the_line_of_factors_is_exact():
    """E(z | x) = 2 x and Var(z | x) = x^2 / 3."""
    u = people(5000)
    x, found = LOW + WIDTH * u, line_of(MULTIPLIED, u)
    assert found.slope == pytest.approx(2.0, rel=1e-12)
    assert found.offset == pytest.approx(LOW / WIDTH, rel=1e-9)
    assert found.variance == pytest.approx(np.mean(x**2) / 3 / WIDTH**2, rel=1e-9)


@pytest.mark.parametrize("name", ["factors", "relative"])
@pytest.mark.parametrize("u", [0.0, 0.4, 1.0])
def test_the_likelihood_is_a_density(name, u):
    z = np.linspace(-3, 8, 400_001)
    density = np.exp(carried(NOISES[name]).log_likelihood(z[:, None], np.array([[u]])))
    assert density.sum() * (z[1] - z[0]) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("name", ["factors", "relative"])
def test_the_posterior_is_that_of_numerical_integration(name):
    """A Beta(2, 4) value: probabilities of tenths of the range, from a grid and by quadrature of Bayes' rule."""
    noise = NOISES[name]
    grid = (np.arange(20_000) + 0.5) / 20_000
    prior = grid * (1 - grid) ** 3
    z = np.array([0.1, 0.35, 0.8, 1.6, 2.4])
    found = posterior(grid, prior / prior.sum(), carried(noise), z)
    for row, seen in enumerate(z):
        raw = LOW + WIDTH * seen
        marks = sorted({0.0, 1.0, *(np.clip((raw / factor - LOW) / WIDTH, 0, 1) for factor in (1, 3))})

        def joint(u, raw=raw):
            x = LOW + WIDTH * u
            e = raw / x - (1.0 if name == "relative" else 0.0)
            return u * (1 - u) ** 3 * float(noise.law.pdf(e)) / x

        total = quad(joint, 0, 1, points=marks, limit=200)[0]
        for part in range(10):
            low, high = part / 10, (part + 1) / 10
            inside = [mark for mark in marks if low < mark < high] or None
            wanted = quad(joint, low, high, points=inside, limit=200)[0] / total
            assert found[row, (grid > low) & (grid <= high)].sum() == pytest.approx(wanted, abs=2e-3)


def knowledge(u, z, channel, **more):
    """All that is known of a release of one column, values of which are spread like u."""
    noise = told(channel, given=u[:, None])
    return Knowledge(
        z[:, None],
        Encoding.unit(1),
        transform=noise.on_average(*Transform.identity(1)),
        noise=noise,
        noise_covariance=noise.covariance(),
        column_distributions=(np.sort(u),),
        column_moments=ColumnMoments(np.array([u.mean()]), np.array([[u.var()]])),
        **more,
    )


def as_if_added(line, z):
    """The same release with its line taken out: what is left is taken for normal noise, the same for everybody."""
    return (z - line.offset) / line.slope, Additive(Normal(np.sqrt(line.variance) / abs(line.slope)))


@pytest.mark.parametrize("name", NOISES)
def test_the_exact_likelihood_beats_the_line(name):
    """Mean log posterior of the true twentieth: nothing beats Bayes' rule with the true law."""
    u = people(400 if name == "quartic" else 1500)
    z = released(NOISES[name], u)
    flat, normal = as_if_added(line_of(NOISES[name], u), z)
    scores = []
    for seen, channel in ((z, carried(NOISES[name])), (flat, normal)):
        guess = PosteriorBreach().run(knowledge(u, seen, channel))
        true = np.column_stack([item.covers(u) for item in guess.properties])
        scores.append(np.log(np.maximum(guess.posterior[true], 1e-12)).mean())
    assert scores[0] > scores[1] + 0.02
    assert scores[0] > np.log(1 / 20) + 0.05, "the release tells something"


@pytest.mark.parametrize("name", ["factors", "relative"])
def test_membership_by_the_exact_likelihood_beats_the_line(name):
    """Six columns of weak noise: who is in the table shows in the likelihood."""
    rng = np.random.default_rng(3)
    u = rng.beta(2, 4, size=(600, 6))
    weak = NOISES[name].stretched(0.02)
    z = np.column_stack([released(weak, u[:300, j], seed=j) for j in range(6)])
    flat = [as_if_added(line_of(weak, u[300:, j]), z[:, j]) for j in range(6)]
    found = []
    for seen, channels in (
        (z, [carried(weak)] * 6),
        (np.column_stack([one[0] for one in flat]), [one[1] for one in flat]),
    ):
        noise = told(*channels, given=u[300:])
        line = noise.on_average(*Transform.identity(6))
        known = Knowledge(seen, Encoding.unit(6), transform=line, noise=noise, candidates=u)
        scores = Membership().run(known).scores
        found.append(auc(scores[:300], scores[300:]))
    assert found[0] >= found[1] - 0.01
    assert found[0] > 0.6


def test_the_linear_estimate_is_the_best_line_back():
    """Its error is that of the regression of u on z, which needs the truth."""
    u = people(20_000)
    z = released(MULTIPLIED, u)
    known = knowledge(u, z, carried(MULTIPLIED))
    guess = LinearEstimate().guess(known).X[:, 0]
    best = u.mean() + np.cov(u, z)[0, 1] / z.var() * (z - z.mean())
    assert np.mean((guess - u) ** 2) <= 1.002 * np.mean((np.clip(best, 0, 1) - u) ** 2)
    assert np.mean((guess - u) ** 2) < 0.8 * u.var()


def test_release_rows_are_compared_on_the_scale_of_the_source():
    u = people(5000)
    z = released(MULTIPLIED, u)
    rows = comparable_rows(knowledge(u, z, carried(MULTIPLIED)))[:, 0]
    assert rows.mean() == pytest.approx(u.mean(), abs=0.02)
    assert np.cov(rows, u)[0, 1] / u.var() == pytest.approx(1.0, abs=0.05)


def test_known_rows_start_from_the_mean_factor():
    u = people(2000)
    weak = MULTIPLIED.stretched(0.01)
    known = knowledge(u, released(weak, u), carried(weak), known_rows=RowPairs(u[:2, None], np.arange(2)))
    assert np.abs(KnownRows().run(known).X[:, 0] - u).mean() < 0.01


@pytest.mark.parametrize("name", NOISES)
def test_hard_intervals_always_hold_and_narrower_ones_do_not(name):
    u = people(800)
    z = released(NOISES[name], u)
    guess = HardInterval().run(knowledge(u, z, carried(NOISES[name]), images=np.arange(800), secret=0))
    assert isinstance(guess, Bounds)
    low, high = guess.low[:, 0], guess.high[:, 0]
    assert np.all((low <= u) & (u <= high))
    if name == "relative":
        assert np.all(high - low == 1), "normal noise rules nothing out"
        return
    middle, half = (low + high) / 2, 0.7 * (high - low) / 2
    assert not np.all((middle - half <= u) & (u <= middle + half))


def test_factors_confine_a_value_to_between_a_third_and_all_of_it():
    z = np.array([0.3, 1.0, 2.2])
    raw = LOW + WIDTH * z
    known = knowledge(people(100), z, carried(MULTIPLIED), images=np.arange(3), secret=0)
    guess = HardInterval().run(known)
    assert guess.low[:, 0] == pytest.approx(np.clip((raw / 3 - LOW) / WIDTH, 0, 1), abs=1.5e-3)
    assert guess.high[:, 0] == pytest.approx(np.clip((raw - LOW) / WIDTH, 0, 1), abs=1.5e-3)


@pytest.mark.parametrize(
    ("law", "low", "high"),
    [
        (Uniform(low=-0.2, high=0.3), (0.0, 0.6), (0.3, 1.0)),
        (Laplace(0.1), (0, 0), (1, 1)),
        (None, (0.1, 0.9), (0.1, 0.9)),
    ],
    ids=["uniform", "laplace", "exact"],
)
def test_added_noise_confines_by_its_support(law, low, high):
    known = Knowledge(
        np.array([[0.1], [0.9]]), Encoding.unit(1), noise=told(law), images=np.arange(2), secret=0, transform=None
    )
    guess = HardInterval().run(known)
    assert guess.low[:, 0] == pytest.approx(low)
    assert guess.high[:, 0] == pytest.approx(high)


def test_intervals_that_collapse_are_counted():
    """The largest value times 3 can have come from nothing else."""
    u = np.array([0.0, 0.5, 1.0])
    raw = np.array([LOW, 2 * (LOW + 0.5 * WIDTH), 3 * (LOW + WIDTH)])
    z = (raw - LOW) / WIDTH
    known = knowledge(u, z, carried(MULTIPLIED), images=np.arange(3), secret=0)
    scored = score_guess(
        HardInterval().run(known), Truth(u[:, None], Encoding.unit(1), rows=u[:, None], targets=u[:, None])
    )
    assert scored.details["bounds_hold"] == 1
    assert scored.details["collapsed"] == pytest.approx(2 / 3)


def test_a_mixing_release_confines_no_column():
    known = Knowledge(
        np.zeros((3, 1)), Encoding.unit(1), columnwise=False, noise=told(Laplace(1.0)), images=np.arange(3), secret=0
    )
    assert isinstance(HardInterval().run(known), Abstain)


def test_distances_are_not_taken_from_columns_that_were_multiplied():
    u = people(50)
    z = released(MULTIPLIED, u)
    known = knowledge(
        u,
        z,
        carried(MULTIPLIED),
        known_rows=RowPairs(u[:10, None], np.arange(10)),
        targets=u[:, None],
        images=np.arange(50),
        secret=0,
    )
    guess = DistanceBound().run(known)
    assert np.all(guess.low == 0)
    assert np.all(guess.high == 1)


def test_an_empty_cell_says_nothing_about_the_number():
    """Reported missing by randomized response: the posterior is the prior, and no value is ruled out."""
    encoding = Encoding(Schema((Column("x", "numeric", low=LOW, high=LOW + WIDTH, missing=True),)))
    u = people(1000)
    Z = np.column_stack([released(MULTIPLIED, u), np.zeros(1000)])
    Z[:10] = [0.5, 1.0]
    known = Knowledge(
        Z,
        encoding,
        noise=told(OrMissing(carried(MULTIPLIED), 0.8)),
        column_distributions=(np.sort(u), np.sort(np.arange(1000) < 100).astype(float)),
        images=np.arange(1000),
        secret=0,
    )
    guess = PosteriorBreach().run(known)
    numbers = [place for place, item in enumerate(guess.properties) if item.slot == 0]
    assert np.allclose(guess.posterior[:10][:, numbers], guess.prior[numbers])
    assert not np.allclose(guess.posterior[10:20][:, numbers], guess.prior[numbers])
    bounds = HardInterval().run(known)
    assert np.all(bounds.low[:10, 0] == 0)
    assert np.all(bounds.high[:10, 0] == 1)
    assert np.all(bounds.low[:, 0] <= 0.5), "a value shown may stand in for a missing one"
