"""Every mechanism keeps the contract, found by discovery; a faulty one is caught by the same checks."""

import contextlib
import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from mechanism_contract import (
    CHECKS,
    called,
    check_blocks_share_no_noise,
    check_gaps_say_nothing,
    check_merged_blocks_fit_like_one_pass,
    check_noise_is_as_stated,
    check_only_public_and_exact_is_formal,
    check_perturb_is_pure,
    check_shapes_and_card,
    check_what_is_learned_is_told,
    tables_for,
)

from sfumato import mechanisms
from sfumato.channels import Affine
from sfumato.core.errors import SfumatoError
from sfumato.guarantee import Guarantee
from sfumato.mechanisms import (
    MECHANISMS,
    AdditiveNoise,
    PrincipalLaplace,
    RandomizedResponse,
    SquareWaveColumns,
)
from sfumato.mechanisms.base import Block

ODD = (None, [1], {}, math.nan, "", -1, 10**30)
"""What a parameter in YAML or Python may hold that nobody can mean."""
VARIANTS = {
    "noise": ["float"],
    "form": ["piecewise"],
    "component_bounds": ["data"],
    "basis": ["identity"],
    "law": ["normal", "uniform", "student-t", "epanechnikov", "triangular"],
    "epsilon_record": [3.0],
    "centre": ["zero"],
    "kernel": ["gaussian", "uniform", "biweight"],
    "bandwidth": ["published", "scaled", "likelihood", 0.1],
    "rows": [0.5],
    "category_mixing": [0.3],
    "floor": [0.0],
    "link": ["linear"],
    "order": ["value"],
}
OWN_VARIANTS = {("random-rotation", "noise"): ["laplace", "normal", "uniform", "student-t"]}
"""Where a parameter of the same name means something else."""


def all_mechanisms():
    """Every mechanism that perturbs rows, as it comes and with each of its choices made otherwise.

    Those that draw rows from a model have a contract of their own: test_model_drawing.
    """
    for mechanism in MECHANISMS.values():
        if mechanism.made_up:
            continue
        yield mechanism()
        for parameter in mechanism._get_param_names():
            values = OWN_VARIANTS.get((mechanism.name, parameter), VARIANTS.get(parameter, []))
            yield from (mechanism(**{parameter: value}) for value in values)


def every_check():
    """Each mechanism with each check. That another law, kernel or bandwidth draws as stated takes a second or more: it
    waits for `make test-all`; tests of laws and channels look at them every day."""
    for mechanism in all_mechanisms():
        usual = type(mechanism)().get_params()
        other = {name for name in usual if mechanism.get_params()[name] != usual[name]}
        for check in CHECKS:
            slow = check is check_noise_is_as_stated and other & {"law", "noise", "kernel", "bandwidth"}
            marks = pytest.mark.system if slow else ()
            yield pytest.param(mechanism, check, marks=marks, id=f"{called(mechanism)}-{check.__name__}")


@pytest.mark.parametrize(("mechanism", "check"), list(every_check()))
def test_contract(mechanism, check):
    check(mechanism)


@pytest.mark.parametrize(
    "check", [check for check in CHECKS if "merged" not in check.__name__ and "learned" not in check.__name__]
)
def test_a_basis_with_noise_of_its_own_keeps_the_contract(check):
    """Two fits differ by its noise, so checks that compare fits do not apply."""
    check(PrincipalLaplace(basis="private", epsilon_record=3.0))


class HalfTheNoise(PrincipalLaplace):
    """Planted: noise half as large as stated."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        scores = self.embed(X)
        return Block(scores + (block.X - scores) / 2, y, block.source)


class HalfTheAnswers(RandomizedResponse):
    """Planted: half of the changed answers are changed back."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        return Block(np.where(rng.random((len(X), 1)) < 0.5, X, block.X), y, block.source)


class NoiseOnce(AdditiveNoise):
    """Planted: draws noise for the first block and uses it for all others."""

    def perturb(self, X, y, rng):
        if not hasattr(self, "kept_"):
            self.kept_ = super().perturb(X, y, rng).X - X
        rows = np.arange(len(X)) % len(self.kept_)
        return Block(X + self.kept_[rows], y, np.arange(len(X)))


class AnswersOnce(RandomizedResponse):
    """Planted: a generator of its own, so that every block is answered alike."""

    def perturb(self, X, y, rng):  # noqa: ARG002
        return super().perturb(X, y, np.random.default_rng(0))


class WavesOnce(SquareWaveColumns):
    """Planted: a generator of its own, so that every block has the same noise."""

    def perturb(self, X, y, rng):  # noqa: ARG002
        return super().perturb(X, y, np.random.default_rng(0))


class LargestFirst(SquareWaveColumns):
    """Planted: rows whose first value is large report their first column."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        large = X[:, 0] > 0.5
        block.X[large] = np.nan
        block.X[large, 0] = 0.5
        return block


class TooNear(SquareWaveColumns):
    """Planted: near the truth more often than stated."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        back = rng.random(len(X)) < 0.3
        told = ~np.isnan(block.X[:, 0])
        block.X[back & told, 0] = X[back & told, 0]
        return block


class SilentLearner(PrincipalLaplace):
    """Planted: learns its basis and does not say so."""

    def learned(self):
        return []


class BoldLearner(SilentLearner):
    """Planted: says what it learned, and claims a formal guarantee all the same."""

    def learned(self):
        return PrincipalLaplace.learned(self)

    def guarantee(self):
        stated = super().guarantee()
        return Guarantee(stated.component, stated.column, stated.record, assumptions=stated.assumptions)


class BoldFloat(AdditiveNoise):
    """Planted: floating-point noise under a formal guarantee."""

    def guarantee(self):
        stated = super().guarantee()
        return Guarantee(stated.component, stated.column, stated.record, assumptions=stated.assumptions)


class Overwriting(AdditiveNoise):
    """Planted: perturbs in place."""

    def perturb(self, X, y, rng):
        X[:] = super().perturb(X, y, rng).X
        return Block(X, y, np.arange(len(X)))


class Wandering(AdditiveNoise):
    """Planted: what comes out depends on the blocks before."""

    def perturb(self, X, y, rng):
        self.calls_ = getattr(self, "calls_", 0) + 1
        block = super().perturb(X, y, rng)
        return Block(block.X + 1e-6 * self.calls_, y, block.source)


class LastBlockOnly(PrincipalLaplace):
    """Planted: a statistic that does not add up (the basis of some rows only)."""

    def statistics(self, X, y):
        return super().statistics(X[-5:], y)


class WrongChannels(PrincipalLaplace):
    """Planted: one channel too few."""

    def fit_statistics(self, *given):
        super().fit_statistics(*given)
        self.recipe_ = replace(self.recipe_, channels=self.recipe_.channels[1:])
        return self


class WrongTransform(PrincipalLaplace):
    """Planted: the card states a map that is not the one used."""

    def fit_statistics(self, *given):
        super().fit_statistics(*given)
        self.used_ = self.recipe_
        other = Affine(self.matrix_, 0 * self.offset_)
        self.recipe_ = replace(self.recipe_, map=other)
        return self

    def perturb(self, X, y, rng):
        return Block(self.used_.perturb(X, rng), y, np.arange(len(X)))


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (HalfTheNoise(), check_noise_is_as_stated),
        (HalfTheAnswers(), check_noise_is_as_stated),
        (NoiseOnce(), check_blocks_share_no_noise),
        (AnswersOnce(), check_blocks_share_no_noise),
        (SilentLearner(), check_what_is_learned_is_told),
        (BoldLearner(), check_what_is_learned_is_told),
        (BoldFloat(noise="float"), check_only_public_and_exact_is_formal),
        (Overwriting(), check_perturb_is_pure),
        (Wandering(), check_perturb_is_pure),
        (LastBlockOnly(), check_merged_blocks_fit_like_one_pass),
        (WrongChannels(), check_shapes_and_card),
        (WrongTransform(), check_noise_is_as_stated),
        (WavesOnce(), check_blocks_share_no_noise),
        (LargestFirst(), check_gaps_say_nothing),
        (TooNear(), check_noise_is_as_stated),
    ],
    ids=lambda part: getattr(part, "__name__", type(part).__name__),
)
def test_a_faulty_mechanism_is_caught(faulty, check):
    with pytest.raises((AssertionError, ValueError, SfumatoError)):
        check(faulty)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_faults_are_what_is_caught(check):
    """A subclass without a fault passes, so that nothing else about being a subclass fails."""

    class Faultless(PrincipalLaplace):
        __doc__ = PrincipalLaplace.__doc__

    check(Faultless())


@pytest.mark.parametrize("mechanism", [made() for made in MECHANISMS.values()], ids=lambda one: one.name)
@pytest.mark.filterwarnings("ignore")
def test_a_parameter_that_nobody_can_mean_is_refused_in_words(mechanism):
    encoding, X, y = tables_for(mechanism, rows=20)
    for parameter in mechanism.get_params():
        for odd in ODD:
            with contextlib.suppress(SfumatoError):
                made = type(mechanism)(**{parameter: odd}).fit(X, y % 2, encoding=encoding)
                json.dumps(made.parameters_used(), allow_nan=False)


def test_a_class_that_is_asked_for_by_its_name_is_the_rooms_own():
    """Files of the room import a channel that is called like a mechanism, and come before it in the alphabet."""
    classes = [made.__name__ for made in MECHANISMS.values()]
    found = {name: mechanisms.__getattr__(name).__module__ for name in classes}
    assert [name for name, home in found.items() if not home.startswith("sfumato.mechanisms.")] == []


def test_a_method_is_found_in_its_own_file_and_no_other_is_loaded():
    code = (
        "import sys; from sfumato.mechanisms import find_mechanism; "
        "found = [find_mechanism(name) for name in ('square-wave', 'multiplicative-noise', 'nothing')]; "
        "print(found[0].__name__, found[1].__name__, 'sfumato.mechanisms.condensation' in sys.modules, found[2])"
    )
    alone = code.replace(", 'nothing'", "").replace(", found[2]", "")
    for text, says in ((alone, "False"), (code, "True None")):
        told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
        assert told.strip() == f"SquareWaveColumns MultiplicativeNoise {says}"
