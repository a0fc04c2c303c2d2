"""Every formula of the laws against scipy.stats, numerical integration and brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, optimize, stats

from sfumato.core.errors import UsageError
from sfumato.noise import LAWS, Laplace, Law, Normal, Streams, StudentT, Uniform, make_law
from sfumato.noise.laws import Biweight, Epanechnikov, Triangular, law_from_dict

CASES = [
    (Laplace(0.3), stats.laplace(scale=0.3)),
    (Normal(0.7), stats.norm(scale=0.7)),
    (Uniform(0.5), stats.uniform(-0.5 * math.sqrt(3), math.sqrt(3))),
    (Uniform(low=-1.0, high=3.0), stats.uniform(-1, 4)),
    (Epanechnikov(0.8), stats.beta(2, 2, loc=-0.8, scale=1.6)),
    (Triangular(0.65), stats.triang(0.5, loc=-0.65, scale=1.3)),
    (Biweight(0.9), stats.beta(3, 3, loc=-0.9, scale=1.8)),
    (StudentT(0.4), stats.t(3, scale=0.4)),
    (StudentT(0.4, df=7.5), stats.t(7.5, scale=0.4)),
    (StudentT(2.0, df=1), stats.cauchy(scale=2.0)),
]
scales = st.floats(1e-3, 1e3)
widths = st.floats(1e-3, 10)


@pytest.mark.parametrize(("law", "reference"), CASES, ids=lambda value: str(value) if isinstance(value, Law) else "")
def test_formulas_agree_with_scipy(law, reference):
    z = np.concatenate([np.linspace(-6, 6, 201), [-1e5, 1e5, -1e200, 1e200]])
    with np.errstate(over="ignore"):
        _compare(law, reference, z)


def _compare(law, reference, z):
    assert_allclose(law.pdf(z), reference.pdf(z), rtol=1e-10, atol=1e-300)
    moderate = z[:-4]  # further out scipy takes the logarithm of a density that has become 0
    assert_allclose(law.logpdf(moderate), reference.logpdf(moderate), rtol=1e-10, atol=1e-12)
    assert_allclose(law.cdf(z), reference.cdf(z), rtol=1e-10, atol=1e-15)
    p = np.array([1e-9, 0.01, 0.25, 0.5, 0.9, 1 - 1e-9])
    assert_allclose(law.ppf(p), reference.ppf(p), rtol=1e-6, atol=1e-9)
    assert_allclose(law.cdf(law.ppf(p)), p, rtol=1e-7)
    assert law.support == tuple(map(float, reference.support()))
    assert np.isnan(law.ppf([-0.1, 1.1])).all()


@pytest.mark.parametrize(("law", "reference"), CASES, ids=lambda value: str(value) if isinstance(value, Law) else "")
def test_moments_agree_with_integration(law, reference):
    low, high = law.support
    for power, stated in ((0, 1.0), (2, law.variance), (4, law.fourth_moment)):
        if math.isinf(stated):
            assert isinstance(law, StudentT)
            assert law.df <= power
            continue

        def summand(z, power=power):
            return (z - law.mean) ** power * law.pdf(z)

        pieces = [low, -50, -1, law.mean, 1, 50, high] if math.isinf(high) else [low, law.mean, high]
        moment = sum(integrate.quad(summand, a, b, limit=400)[0] for a, b in itertools.pairwise(pieces))
        assert moment == pytest.approx(stated, rel=1e-6)
    if not math.isinf(law.variance):
        assert law.variance == pytest.approx(reference.var())


@settings(deadline=None)
@given(scale=scales, df=st.floats(0.5, 30), width=widths)
def test_amplification_is_the_largest_ratio(scale, df, width):
    for law in (Laplace(scale), StudentT(scale, df)):
        log = law.log_amplification(width)
        grid = np.concatenate([np.linspace(-width, 2 * width, 1001), scale * np.linspace(-20, 20, 1001)])
        delta = width * np.linspace(-1, 1, 9)[:, None]
        ratios = law.logpdf(grid) - law.logpdf(grid - delta)
        assert ratios.max() <= log * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("scale", "df", "width"), [(0.4, 3, 1), (1, 1, 1), (0.05, 8, 2), (30, 2.5, 1)])
def test_amplification_of_student_t_is_reached(scale, df, width):
    law = StudentT(scale, df)
    best = optimize.minimize_scalar(
        lambda z: float(law.logpdf(z - width) - law.logpdf(z)),
        bounds=(-10 * width - 10 * scale, width),
        method="bounded",
        options={"xatol": 1e-10},
    )
    other = optimize.minimize_scalar(
        lambda z: float(law.logpdf(z - width) - law.logpdf(z)),
        bounds=(-width, width),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert -min(best.fun, other.fun) == pytest.approx(law.log_amplification(width), rel=1e-9)


def test_amplification_of_the_paper():
    """Amplification at b = .1, .2, .25, .3 of one component of width 1 [principal-laplace, Section 5]."""
    found = [round(math.exp(Laplace(b).log_amplification(1)), 1) for b in (0.1, 0.2, 0.25, 0.3)]
    assert found == [22026.5, 148.4, 54.6, 28.0]
    assert Normal(0.3).log_amplification(1) == Uniform(0.3).log_amplification(1) == math.inf
    assert {law.log_amplification(0) for law in (Normal(0.3), Uniform(0.3), Laplace(0.3))} == {0}
    assert Laplace(1e-4).log_amplification(1) == pytest.approx(1e4)


@pytest.mark.parametrize(
    "law",
    [
        Laplace(0.3),
        Normal(0.3),
        Uniform(0.3),
        Uniform(low=-1, high=2),
        Epanechnikov(0.3),
        Triangular(0.3),
        Biweight(0.3),
        StudentT(0.3),
        StudentT(0.3, 8),
    ],
    ids=str,
)
def test_samples_have_their_scale_and_no_other(law):
    noise = law.sample(Streams.seeded(7).generator(0), (400, 500))
    assert noise.shape == (400, 500)
    assert noise.dtype == np.float64
    noise = noise.ravel()
    assert stats.kstest(noise, law.cdf).pvalue > 1e-6
    assert stats.kstest((noise - law.mean) * 1.3 + law.mean, law.cdf).pvalue < 1e-20
    assert stats.kstest((noise - law.mean) / 1.3 + law.mean, law.cdf).pvalue < 1e-20


@pytest.mark.parametrize("law", [law for law, _ in CASES], ids=str)
def test_dictionaries_restore_the_law(law):
    stated = law.to_dict()
    assert stated["law"] in LAWS
    assert law_from_dict(stated) == law
    assert stated["scale"] > 0


def test_make_law():
    assert make_law("laplace", scale=1) == Laplace(1.0)
    assert make_law("uniform", low=-1, high=1) == Uniform(low=-1, high=1)
    assert make_law("student-t", scale=2) == StudentT(2.0, 3.0)
    assert make_law("student-t", scale=np.float32(2), df=5) == StudentT(2.0, 5.0)
    assert Uniform(low=-1, high=1).scale == pytest.approx(1 / math.sqrt(3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Laplace(-1), r"The 'scale' parameter of laplace must be a positive number. Got -1 instead."),
        (lambda: Laplace(0), "'scale' parameter of laplace must be a positive number"),
        (lambda: Laplace(True), "'scale' parameter of laplace must be a positive number"),
        (lambda: Normal(math.nan), "'scale' parameter of normal must be a positive number"),
        (lambda: Normal("wide"), "'scale' parameter of normal must be a positive number"),
        (lambda: Uniform(), "'scale' parameter of uniform must be a positive number. Got None"),
        (lambda: Uniform(low=1), "'high' parameter of uniform must be a finite number. Got None"),
        (lambda: Uniform(low=1, high=1), "'high' parameter of uniform must be above low"),
        (lambda: Uniform(scale=2, low=0, high=1), "'scale' parameter of uniform must be left out"),
        (lambda: StudentT(1, df=0), "'df' parameter of student-t must be a positive number"),
        (lambda: StudentT(1, df=math.inf), "'df' parameter of student-t must be a positive number"),
        (lambda: make_law("gumbel", 1), "'law' parameter must be one of laplace, normal, uniform, student-t"),
        (lambda: make_law("laplace"), "'scale' parameter of laplace must be a positive number. Got None"),
        (lambda: make_law("student-t", df=4), "'scale' parameter of student-t must be a positive number. Got None"),
        (lambda: make_law("normal", 1, df=3), "'df' parameter of normal must be left out"),
        (lambda: law_from_dict({"law": "normal", "loc": 3}), "A law has no parameter 'loc'"),
        (lambda: Laplace(1).log_amplification(-1), "'width' parameter"),
    ],
)
def test_wrong_parameters_are_explained(build, message):
    with pytest.raises(UsageError, match=message):
        build()
