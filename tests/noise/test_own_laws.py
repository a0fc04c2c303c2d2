"""Laws of one's own: scipy's by name, tables of densities; against scipy, against integrals, and on a card."""

import math
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import sfumato as sf
from sfumato.core.errors import UsageError
from sfumato.guarantee import Card
from sfumato.noise import make_law
from sfumato.noise.laws import law_from_dict

PUBLIC = {"source": "public", "reason": "made up"}
SCHEMA = sf.Schema.from_dict({"columns": [{"name": "pay", "kind": "numeric", "low": 0, "high": 10, **PUBLIC}]})


def test_a_law_of_scipy_is_that_law():
    law, known = make_law("gamma(2, scale=0.1)"), stats.gamma(2, scale=0.1)
    z = np.linspace(-0.1, 1.0, 23)
    assert law.cdf(z) == pytest.approx(known.cdf(z))
    assert law.pdf(z) == pytest.approx(known.pdf(z))
    assert (law.mean, law.variance) == pytest.approx((0.2, 0.02))
    assert law.fourth_moment == pytest.approx(quad(lambda z: (z - 0.2) ** 4 * known.pdf(z), 0, 5)[0])
    assert law.scaled(3.0).mean == pytest.approx(0.6)
    assert law.log_amplification(1.0) == math.inf
    drawn = law.sample(np.random.default_rng(0), 20_000)
    assert stats.kstest(drawn, known.cdf).pvalue > 1e-6
    assert stats.kstest(drawn, stats.gamma(2, scale=0.13).cdf).pvalue < 1e-20


def test_a_law_of_scipy_travels_as_its_name_and_parameters():
    law = make_law("gamma(2, scale=0.1)")
    law.cdf(0.5)  # whatever was asked of it before
    sent = pickle.dumps(law)
    assert b"scipy" not in sent
    back = pickle.loads(sent)
    assert back == law
    assert back.cdf(0.5) == law.cdf(0.5)


def test_a_table_of_densities_is_joined_by_lines(tmp_path):
    """A triangle on [-1, 1]: variance 1/6, fourth moment 1/15."""
    (tmp_path / "noise.csv").write_text("value,density\n-1,0\n0,5\n1,0\n")
    law, known = make_law(f"table:{tmp_path / 'noise.csv'}"), stats.triang(0.5, loc=-1, scale=2)
    z, p = np.linspace(-1.2, 1.2, 25), np.linspace(0, 1, 21)
    assert law.cdf(z) == pytest.approx(known.cdf(z), abs=1e-12)
    assert law.ppf(p) == pytest.approx(known.ppf(p), abs=1e-9)
    assert (law.mean, law.variance, law.fourth_moment) == pytest.approx((0.0, 1 / 6, 1 / 15))
    assert str(tmp_path) not in law.name
    assert stats.kstest(law.sample(np.random.default_rng(0), 20_000), known.cdf).pvalue > 1e-6


@pytest.mark.parametrize("text", ["gamma(2, scale=0.1)", "table(-1: 0.3, 0.25: 1.7, 2: 0)", "cauchy(scale=0.2)"])
def test_a_card_states_it_to_the_last_digit(text):
    law = make_law(text)
    again = law_from_dict(law.to_dict())
    assert again == law
    assert again.to_dict() == law.to_dict()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gama(2)", "no continuous distribution"),
        ("gamma(scale=1)", "needs 'a'"),
        ("gamma(2, 0, 1, 5)", "each once"),
        ("gamma(-2)", "does not exist"),
        ("levy_stable(1.5, 0)", "closed form"),
        ("norm(0, inf)", "finite numbers"),
        ("table(0: 1)", "2 to 1,000 lines"),
        ("table(1: 1, 0: 1)", "rising values"),
        ("table:nowhere.csv", "no table of densities"),
        ("rv_continuous(1)", "no continuous distribution"),
    ],
)
def test_a_law_that_does_not_exist_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        make_law(text)


def test_a_release_with_a_skewed_law_comes_back():
    """Added gamma noise moves the mean by 0.4 of the range; the card takes it back."""
    values = np.random.default_rng(1).beta(2.0, 5.0, 6_000) * 10
    parameters = {"law": "gamma(2, scale=0.2)"}
    release = sf.sanitize({"pay": values}, schema=SCHEMA, mechanism="additive-noise", parameters=parameters, seed=1)
    card = Card.from_dict(release.card.to_dict())
    assert card.mechanism["parameters"]["law"] == "gamma(a=2.0, loc=0.0, scale=0.2)"
    assert card.guarantee["kind"] == "empirical-only"
    assert np.asarray(release.table["pay"]).mean() - values.mean() == pytest.approx(4.0, abs=0.2)
    assert sf.reconstruct(release, "pay", resamples=0).mean == pytest.approx(values.mean(), abs=0.2)
