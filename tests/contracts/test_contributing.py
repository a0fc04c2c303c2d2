"""The worked examples of CONTRIBUTING.md run, and keep the contracts of what they are examples of."""

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from mechanism_contract import CHECKS

from sfumato.attacks.base import Knowledge, Values
from sfumato.core.registry import METRICS, NotDeclaredError, discover, enter
from sfumato.learn.classifiers.named.base import NamedClassifier
from sfumato.table import Encoding

PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
EXAMPLES = re.findall(r"```python\n# src/sfumato/(\S+?)\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def walked():
    """Every example as the module that it would be."""
    made = {}
    for place, code in EXAMPLES:
        name = "sfumato." + place.replace("/", ".")
        module = ModuleType(name)
        exec(compile(code, f"CONTRIBUTING.md:{place}", "exec"), module.__dict__)
        made[place.rpartition("/")[2]] = module
    yield made
    METRICS.pop("median_error", None)


def test_there_is_one_of_each(walked):
    assert sorted(walked) == ["even_budget", "median_error", "middle_guess", "nearest_mean"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_mechanism_keeps_the_contract(walked, check):
    check(walked["even_budget"].EvenBudget(epsilon_record=6.0))


def test_the_mechanism_reaches_its_epsilon_from_below(walked):
    fit = walked["even_budget"].EvenBudget(epsilon_record=2.0).fit(np.random.default_rng(0).random((50, 4)))
    assert 1.999 < fit.guarantee().record <= 2.0


def test_the_attack_guesses_from_what_it_declared(walked):
    Z = np.random.default_rng(0).random((40, 3))
    guess = walked["middle_guess"].MiddleGuess().run(Knowledge(release=Z, encoding=Encoding.unit(3)))
    assert isinstance(guess, Values)
    assert np.allclose(guess.X, np.median(Z, axis=0))


def test_the_classifier_learns(walked):
    chosen = walked["nearest_mean"].NearestMean
    assert issubclass(chosen, NamedClassifier)
    X = np.random.default_rng(0).normal(np.repeat([0, 9], 20)[:, None], 1.0, (40, 2))
    assert chosen().make().fit(X, np.repeat([0, 1], 20)).score(X, np.repeat([0, 1], 20)) == 1.0


def test_the_metric_is_found_and_keeps_its_word(walked):
    assert METRICS["median_error"] is walked["median_error"].median_error
    original = np.random.default_rng(0).random((100, 2))
    near, far = (walked["median_error"].median_error(original, original + shift) for shift in (0.01, 0.3))
    assert (far > near) == (METRICS["median_error"].better == "higher")


def test_the_registry_fails_closed(walked):
    found = {}
    mechanism = walked["even_budget"].EvenBudget
    enter(found, "even-budget", mechanism, ("papers", "not_protected"))
    with pytest.raises(NotDeclaredError, match="Two things are called"):
        enter(found, "even-budget", walked["middle_guess"].MiddleGuess, ())
    with pytest.raises(NotDeclaredError, match="must declare 'papers'"):
        enter({}, "other", type("Other", (mechanism,), {"papers": (), "__doc__": "Says nothing."}), ("papers",))
    with pytest.raises(NotDeclaredError, match="docstring"):
        enter({}, "other", type("Other", (), {"__doc__": ""}), ())
    assert discover("sfumato.learn.classifiers.named", NamedClassifier)
