"""`--privacy-loss`: every column gets the noise that tells so much and no more, and no proof is claimed."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.metrics.information import privacy_loss
from sfumato.core.errors import UsageError
from sfumato.reconstruction.reconstruct import describe

PUBLIC = {"source": "public", "reason": "made up"}
SCHEMA = sf.Schema.from_dict(
    {
        "columns": [
            {"name": "pay", "kind": "numeric", "low": 1, "high": 100, **PUBLIC},
            {"name": "age", "kind": "integer", "low": 18, "high": 90, "missing": True, **PUBLIC},
            {"name": "sex", "kind": "categorical", "categories": ["f", "m"], **PUBLIC},
        ]
    }
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 91, 3000)
    return {
        "pay": rng.gamma(4.0, 8.0, 3000).clip(1.0, 100.0),
        "age": [None if number % 10 == 0 else int(age) for number, age in enumerate(ages)],
        "sex": rng.choice(["f", "m"], 3000),
    }


@pytest.mark.parametrize(
    ("mechanism", "parameters", "wanted"),
    [
        ("additive-noise", {}, 0.33),
        ("multiplicative-noise", {}, 0.6),
        ("noisy-operator", {"operator": "x * exp(e); inverse log(z / x)", "law": "normal"}, 0.33),
    ],
)
def test_each_column_has_the_wanted_privacy_loss(people, mechanism, parameters, wanted):
    """To a hundredth; the same noise on both columns would be off by far more."""
    release = sf.sanitize(
        people, schema=SCHEMA, mechanism=mechanism, parameters=parameters, privacy_loss=wanted, seed=1
    )
    values = {"pay": people["pay"], "age": np.array([age for age in people["age"] if age is not None], dtype=float)}
    reached = {name: privacy_loss(describe(release.card, name).noise, found) for name, found in values.items()}
    assert reached == pytest.approx({"pay": wanted, "age": wanted}, abs=0.012)
    first, second = (describe(release.card, name).noise for name in ("pay", "age"))
    other = privacy_loss(second if mechanism != "additive-noise" else second.stretched(99 / 72), values["pay"])
    assert abs(other - wanted) > 0.05
    assert first.to_dict() != second.to_dict()


def test_no_proof_is_claimed(people):
    release = sf.sanitize(people, schema=SCHEMA, mechanism="additive-noise", privacy_loss=0.33, seed=1)
    assert release.card.guarantee["kind"] == "empirical-only"
    assert "privacy loss 0.33" in release.card.chosen_by


def test_what_does_not_go_together_is_refused(people):
    for options, words in (
        ({"privacy_loss": 1.5}, "between 0 and 1"),
        ({"privacy_loss": 0.3, "epsilon_record": 4.0}, "Leave it out"),
        ({"privacy_loss": 0.3, "mechanism": "principal-laplace"}, "has none of that kind"),
    ):
        with pytest.raises(UsageError, match=words):
            sf.sanitize(people, schema=SCHEMA, **{"mechanism": "additive-noise", **options}, seed=1)
