"""Metrics are found by discovery, and each is better where it says so: the contract believes no docstring."""

import numpy as np
import pytest

from sfumato.core.registry import METRICS, NotDeclaredError, all_metrics, metric
from sfumato.noise import OperatorNoise, make_law, make_operator

RNG = np.random.default_rng(5)
ORIGINAL = RNG.beta(2, 3, (400, 3))
CLASSES = RNG.integers(3, size=400)
FOUND = all_metrics()
every_metric = pytest.mark.parametrize("name", FOUND)


def cases(takes):
    """Arguments of a metric for a worse and a better case: nearer guesses and narrower noise tell more, for privacy the
    worse; for use, what lies further from the original is the worse."""
    if takes == "guess":
        return [(ORIGINAL, ORIGINAL + s * RNG.standard_normal(ORIGINAL.shape)) for s in (0.01, 0.08)]
    if takes == "noise":
        added = make_operator("additive")
        return [(OperatorNoise(added, make_law("laplace", scale=s)), ORIGINAL[:, 0]) for s in (0.02, 0.3)]
    if takes == "samples":
        return [(ORIGINAL[:, 0], ORIGINAL[:, 0] + shift) for shift in (0.3, 0.02)]
    if takes == "shares":
        return [(np.array([0.5, 0.3, 0.2]), np.array(other)) for other in ([0.1, 0.1, 0.8], [0.45, 0.33, 0.22])]
    wrong, right = ((CLASSES + (RNG.random(400) < s)) % 3 for s in (0.6, 0.1))
    return [(CLASSES, wrong), (CLASSES, right)]


def keeps_its_word(function):
    worse, better = (float(np.mean(function(*arguments))) for arguments in cases(function.takes))
    return (better > worse) == (function.better == "higher")


@every_metric
def test_better_is_where_it_says(name):
    assert keeps_its_word(FOUND[name])


@every_metric
def test_the_docstring_says_the_same(name):
    """For people: which way is better stands in the first line."""
    first = FOUND[name].__doc__.split("\n")[0].lower()
    words = {"higher": ("higher", "larger", "wider", "longer"), "lower": ("lower", "smaller", "shorter")}
    assert any(word in first for word in words[FOUND[name].better])


def test_there_are_metrics_of_every_kind():
    assert {function.takes for function in FOUND.values()} == {"guess", "samples", "noise", "shares", "answers"}


def test_a_metric_that_says_nothing_is_refused():
    with pytest.raises(NotDeclaredError):
        metric(takes="guess", better="bigger")
    with pytest.raises(NotDeclaredError, match="docstring"):
        metric(takes="guess", better="higher")(lambda *_: 0.0)
    assert "<lambda>" not in METRICS


def test_a_metric_that_is_declared_the_wrong_way_round_is_caught():
    def planted(original, guess):
        return np.abs(original - guess).mean()

    planted.takes, planted.better = "guess", "higher"
    assert keeps_its_word(planted)
    planted.better = "lower"
    assert not keeps_its_word(planted)
