"""How many components are kept, and what other laws than Laplace's do on them."""

import itertools
import math

import numpy as np
import pytest

from sfumato.channels import FLOAT_NOISE
from sfumato.channels.affine_bound import affine_epsilons, component_ranges
from sfumato.core.errors import UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP
from sfumato.mechanisms import PrincipalLaplace
from sfumato.mechanisms.principal_laplace import NOISE_AWARE, Basis, component_count, noise_aware
from sfumato.noise import Streams, StudentT
from sfumato.table import Encoding

WIDTH = 6
ENCODING = Encoding.unit(WIDTH, public=True)
TURNED = np.linalg.qr(np.random.default_rng(4).normal(size=(WIDTH, WIDTH)))[0]


def told(variances, epsilon, count, rows):
    """By hand: what so many rows tell of the variance of the first components."""
    kept = TURNED[:count]
    low, high = component_ranges(kept, ENCODING.groups)
    scales = affine_epsilons(kept, high - low, high - low, ENCODING.groups).record / epsilon * (high - low)
    total = 0.0
    for variance, scale in zip(variances, scales, strict=False):
        error = (variance + 2 * scale**2) * math.sqrt(2 / rows)
        total += variance / (1 + error / variance)
    return total


@pytest.mark.parametrize("rows", [100, 10_000])
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 30.0, 300.0])
@pytest.mark.parametrize("falls", [1.0, 0.7, 0.3])
def test_the_count_tells_more_than_any_other(epsilon, falls, rows):
    variances = 0.05 * falls ** np.arange(WIDTH)
    found = noise_aware(TURNED, variances, ENCODING.groups, np.ones(WIDTH), epsilon, rows)
    best = [told(variances, epsilon, count, rows) for count in range(1, WIDTH + 1)]
    assert best[found - 1] == pytest.approx(max(best))


def test_the_error_of_a_variance_is_what_rows_show():
    """The standard error that the rule uses, of rows with as much noise as signal, by repeating the experiment."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(4000, 200)) * math.sqrt(2.0)
    assert seen.var(axis=1, ddof=1).std() == pytest.approx(2.0 * math.sqrt(2 / 200), rel=0.05)


def test_less_noise_and_more_rows_leave_more_components():
    variances = 0.05 * 0.5 ** np.arange(WIDTH)

    def count(epsilon, rows):
        return noise_aware(TURNED, variances, ENCODING.groups, np.ones(WIDTH), epsilon, rows)

    by_epsilon, by_rows = [count(10.0**p, 100) for p in range(-1, 4)], [count(4.0, 10**p) for p in range(1, 8)]
    for counts in (by_epsilon, by_rows):
        assert counts == sorted(counts)
        assert counts[0] == 1
        assert counts[-1] > 4


@pytest.mark.parametrize(
    ("wanted", "count"), [("50%", 1), ("60%", 1), ("61%", 2), ("90%", 2), ("99.9%", 3), ("100%", 3)]
)
def test_a_share_of_the_variance(wanted, count):
    basis = Basis(TURNED, np.array([0.6, 0.3, 0.1, 0.0, 0.0, 0.0]))
    assert component_count(wanted, basis, ENCODING.groups, np.ones(WIDTH), None, 50) == count


@pytest.mark.parametrize("wanted", ["90", "0%", "101%", "x%", "most"])
def test_other_words_are_refused(wanted):
    with pytest.raises(UsageError, match="noise-aware"):
        component_count(wanted, Basis(TURNED, np.ones(WIDTH)), ENCODING.groups, np.ones(WIDTH), 1.0, 50)


def test_a_rule_needs_variances_and_the_noisy_one_a_wanted_epsilon():
    X = np.random.default_rng(0).random((50, WIDTH))
    for wanted in ("90%", NOISE_AWARE):
        with pytest.raises(UsageError, match="how much rows vary"):
            PrincipalLaplace(basis="dct", components=wanted, epsilon_record=3.0).fit(X, encoding=ENCODING)
    with pytest.raises(UsageError, match="wanted epsilon"):
        PrincipalLaplace(components=NOISE_AWARE).fit(X, encoding=ENCODING)
    learned = PrincipalLaplace(components=NOISE_AWARE, epsilon_record=3.0).fit(X, encoding=ENCODING)
    assert learned.parameters_used()["components"] == len(learned.matrix_)


def test_public_rows_with_a_wanted_epsilon_are_weighed_against_noise():
    rng = np.random.default_rng(1)
    X = np.clip(0.5 + 0.2 * rng.normal(size=(300, 1)) * TURNED[:1] + 0.01 * rng.normal(size=(300, WIDTH)), 0, 1)
    public = Basis(TURNED, np.array([0.04, *[1e-4] * (WIDTH - 1)]))
    made = PrincipalLaplace(basis=public, basis_reason="a census", epsilon_record=4.0).fit(X, encoding=ENCODING)
    assert len(made.matrix_) == 1
    assert made.guarantee().kind == LOCAL_DP
    assert len(PrincipalLaplace(basis=public, basis_reason="a census").fit(X, encoding=ENCODING).matrix_) == WIDTH // 2


# Other laws


def student(epsilon=2.0, **more):
    mechanism = PrincipalLaplace(
        basis=TURNED[:2], basis_reason="drawn", law="student-t", df=3, epsilon_record=epsilon, **more
    )
    return mechanism.fit(np.zeros((2, WIDTH)), encoding=ENCODING)


def test_students_t_reaches_its_epsilon_and_says_that_it_is_drawn_in_floats():
    made = student()
    assert made.recipe_.path == FLOAT_NOISE
    assert made.guarantee().kind == EMPIRICAL
    assert "floating-point noise" in made.guarantee().in_the_way
    assert 2.0 * (1 - 1e-9) < made.guarantee().record <= 2.0


def test_the_figure_of_students_t_holds_for_all_pairs_of_corners():
    """By brute force over the cube and a grid of released values: the stated figure is not exceeded, nor far off."""
    made = student()
    matrix, offset = made.recipe_.map.affine()
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=WIDTH))) @ matrix.T + offset
    reached = 0.0
    for place, channel in enumerate(made.recipe_.channels):
        assert isinstance(channel.law, StudentT)
        z = np.linspace(-6, 6, 241) * channel.law.scale * 3
        log = channel.law.logpdf(z[:, None] - corners[None, :, place])
        reached = reached + (log[:, :, None] - log[:, None, :]).max(axis=0)
    assert reached.max() <= made.guarantee().record * (1 + 1e-9)
    assert reached.max() > 0.5 * made.guarantee().record


def test_laws_without_a_bound_prove_nothing_and_reach_no_epsilon():
    for law in ("normal", "uniform"):
        made = PrincipalLaplace(basis="identity", law=law).fit(np.zeros((2, WIDTH)), encoding=ENCODING)
        assert math.isinf(made.guarantee().record)
        assert "no bounded amplification" in made.guarantee().sentence
        with pytest.raises(UsageError, match="has no bound"):
            PrincipalLaplace(basis="identity", law=law, epsilon_record=2.0).fit(np.zeros((2, WIDTH)), encoding=ENCODING)
    with pytest.raises(UsageError, match="df"):
        PrincipalLaplace(df=3).fit(np.random.default_rng(0).random((9, WIDTH)), encoding=ENCODING)


def test_noise_of_students_t_has_its_scale():
    made = student(b=0.3)
    X = np.full((20_000, WIDTH), 0.5)
    Z = made.perturb(X, None, Streams.seeded(0).generator(0)).X - made.embed(X)
    for place, channel in enumerate(made.recipe_.channels):
        quartile = float(channel.law.ppf(0.75))
        assert np.quantile(np.abs(Z[:, place]), 0.5) == pytest.approx(quartile, rel=0.05)
