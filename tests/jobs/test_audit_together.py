"""Two releases of the same people, attacked together: stronger than each alone; differencing finds who is missing."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.attacks.base import KnownNoise
from sfumato.attacks.bayes_window import BayesWindow
from sfumato.attacks.column_beliefs import JointBeliefs, Likely
from sfumato.auditing.audit import JointWindow
from sfumato.auditing.case import Case
from sfumato.channels import Additive
from sfumato.core.errors import UsageError
from sfumato.noise import Normal
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "the form"}
RNG = np.random.default_rng(1)


def schema(high, *more):
    numbers = [Column(name, "numeric", low=0, high=high, **PUBLIC) for name in ("a", "b", "c", *more)]
    return Schema((*numbers, Column("kind", "categorical", categories=("u", "v", "w"), **PUBLIC)))


def people(n):
    numbers = {name: RNG.gamma(4, 1, n).clip(0, 12).round(4) for name in "abc"}
    return pd.DataFrame({**numbers, "kind": RNG.choice(list("uvw"), n)})


TABLE, OTHERS = people(400), people(400)
LATER = TABLE[100:].sample(frac=1, random_state=1).reset_index(drop=True)


def together(scale, seed=3, **words):
    noise = {"mechanism": "additive-noise", "parameters": {"law": "normal", "scale": scale}}
    january = sf.sanitize(TABLE, schema=schema(12), seed=seed, **noise)
    february = sf.sanitize(LATER, schema=schema(15), seed=seed + 1, **noise)
    given = {"attacks": ["naive-estimate"], "repeats": 0, "holdout": OTHERS, "beside_original": LATER, **words}
    return sf.audit(january, original=TABLE, beside=february, **given)


def test_both_together_are_stronger_than_each_alone():
    """The second release has other bounds, other rows and another order."""
    audit = together(0.08)
    found = audit.data["together"]
    assert (found["people"], found["missing"]) == (300, 100)
    assert found["baseline"] + 0.1 < max(found["first"], found["second"]) < found["both"] - 0.04
    assert any("attacked together: 300 audited people are in both" in note for note in audit.data["notes"])
    assert abs(found["differencing"] - 0.5) < 0.2
    clear = together(0.005, holdout=None).data["together"]
    assert clear["differencing"] > 0.9


def test_the_attacker_on_both_is_given_the_law_of_the_other_release_and_not_its_people(monkeypatch):
    seen = []

    def guess(self, known):
        seen.append(self)
        return BayesWindow.guess(self, known)

    monkeypatch.setattr(JointWindow, "guess", guess)
    together(0.08)
    held = [one for attack in seen for one in vars(attack).values()]
    assert held
    assert not any(isinstance(one, Case) for one in held)


def test_under_strong_noise_the_prior_is_left_and_nothing_is_lost_to_guessing():
    """Noise three times as wide as the range: a flat prior would get 0.15 of the values, guessing gets 0.3."""
    for holdout in (OTHERS, None):
        found = together(3.0, holdout=holdout).data["together"]
        assert min(found["first"], found["second"], found["both"]) > found["baseline"] - 0.04
        assert found["baseline"] > 0.25


def test_two_releases_at_one_epsilon_tell_more_than_one():
    wave = {"mechanism": "square-wave", "epsilon_record": 6.0}
    first, again = (sf.sanitize(TABLE, schema=schema(12), seed=seed, **wave) for seed in (5, 6))
    words = {"attacks": ["naive-estimate"], "repeats": 0, "holdout": OTHERS}
    found = sf.audit(first, original=TABLE, beside=again, **words).data["together"]
    assert found["baseline"] + 0.1 < min(found["first"], found["second"])
    assert max(found["first"], found["second"]) + 0.05 < found["both"]
    assert abs(found["first"] - found["second"]) < 0.06, "as much as each other: the same law"


def test_two_normal_channels_are_one_of_the_averaged_noise():
    """Second way: the product of two normal likelihoods is that of the mean by inverse variance."""
    encoding = Encoding(Schema((Column("a", "numeric", low=0, high=1, **PUBLIC),)))
    X = RNG.random((50, 1))
    laws = [KnownNoise.of((Additive(Normal(width)),), X) for width in (0.1, 0.2)]
    likely = Likely(-1, np.arange(3), X, np.zeros(50))
    joint = JointBeliefs((laws[0], laws[1]), (encoding, encoding), likely, 100, lambda rows: rows)
    Z = np.array([[0.2, 0.5], [0.6, 0.6], [0.9, 0.7]])
    found = joint.told(Z)[0]
    mean, variance = (Z[:, 0] / 0.01 + Z[:, 1] / 0.04) / 125, 1 / 125
    wanted = np.exp(-0.5 * (joint.supports[0].line - mean[:, None]) ** 2 / variance)
    assert found / found.sum(axis=1, keepdims=True) == pytest.approx(
        wanted / wanted.sum(axis=1, keepdims=True), abs=1e-3
    )


def test_what_cannot_be_put_together_is_refused():
    noise = {"mechanism": "additive-noise", "epsilon_record": 4}
    release, other = sf.sanitize(TABLE, schema=schema(12), **noise), sf.sanitize(OTHERS, schema=schema(12), **noise)
    words = {"original": TABLE, "attacks": ["naive-estimate"], "repeats": 0}
    with pytest.raises(UsageError, match="0 of the audited people are in both"):
        sf.audit(release, beside=other, beside_original=OTHERS, **words)
    with pytest.raises(UsageError, match="Both are the same release"):
        sf.audit(release, beside=release, **words)
    with pytest.raises(UsageError, match="Give both, or neither"):
        sf.audit(release, beside_original=OTHERS, **words)
    mixed = sf.sanitize(TABLE, schema=schema(12), epsilon_record=4)
    with pytest.raises(UsageError, match="One mixes them"):
        sf.audit(release, beside=mixed, **words)
