"""The values tell how strong the noise was where the range is known: a card that states half of it is found out."""

import numpy as np
import pytest

from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.reconstruction.noise_strength import estimate_common_strength

X = np.random.default_rng(0).beta(2, 2, 5000) * 10


@pytest.mark.parametrize(("law", "stated"), [("uniform", 1.0), ("uniform", 0.5), ("laplace", 1.0), ("laplace", 0.5)])
def test_the_values_tell_how_strong_the_noise_was(law, stated):
    noise = OperatorNoise(make_operator("additive"), make_law(law, scale=2.0))
    z = noise.sample(X, np.random.default_rng(1))
    found = estimate_common_strength([(z, noise.stretched(stated))], (0.0, 10.0))
    assert found.told
    assert found.best == pytest.approx(1.0 / stated, rel=0.2)  # 30% off is refused
    assert found.low <= found.best <= found.high


def test_several_releases_tell_together_what_the_first_alone_does_not():
    """Noise of different strength, each card stating half of it; the first release alone has too few rows."""
    noises = [OperatorNoise(make_operator("additive"), make_law("laplace", scale=scale)) for scale in (3.0, 1.5)]
    rows = (X[:60], X[60:4000])
    parts = [
        (noise.sample(x, np.random.default_rng(seed)), noise.stretched(0.5))
        for seed, (noise, x) in enumerate(zip(noises, rows, strict=True))
    ]
    few = {"factors": (0.5, 0.8, 1.2, 1.6, 2.0, 2.5, 3.2, 4.0, 6.0)}
    together = estimate_common_strength(parts, (0.0, 10.0), **few)
    assert together.told
    assert together.best == pytest.approx(2.0, rel=0.2)
    alone = estimate_common_strength(parts[:1], (0.0, 10.0), **few)
    assert alone.high / alone.low > 1.5 * together.high / together.low


def test_a_wide_range_tells_less():
    """Well inside a wide range, weaker noise on a broader density explains the values nearly as well."""
    noise = OperatorNoise(make_operator("additive"), make_law("normal", scale=1.0))
    z = noise.sample(X, np.random.default_rng(1))
    found = estimate_common_strength([(z, noise)], (-60.0, 70.0))
    assert found.low < 1.0 < found.high
    assert found.high > 1.5 * found.low


def test_a_skewed_law_is_not_taken_for_a_weaker_one():
    """Fitted and judged on the same values, 0.63 would win."""
    noise = OperatorNoise(make_operator("additive"), make_law("gamma(2, scale=1.0)"))
    z = noise.sample(np.random.default_rng(0).beta(2, 5, 3000) * 10, np.random.default_rng(3))
    assert estimate_common_strength([(z, noise)], (0.0, 10.0)).best == pytest.approx(1.0, rel=0.2)
