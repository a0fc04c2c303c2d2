"""The worked examples of CONTRIBUTING.md, in a copy of the tree: the contracts find them there and they keep them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.attacks.base import Attack
from sfumato.core.registry import NotDeclaredError, discover, enter
from sfumato.learn.classifiers.factory import NamedClassifier
from sfumato.mechanisms import AdditiveNoise, Mechanism

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(
    r"^```\w+\n(?:# |<!-- )((?:src|tests|docs)/\S+)(?: -->)?\n(.*?)^```",
    (ROOT / "CONTRIBUTING.md").read_text(),
    re.DOTALL | re.MULTILINE,
)
NAMES = {"even-budget": "mechanism", "middle-guess": "attack", "nearest-mean": "classifier", "median_error": "metric"}
CONTRACTS = (
    "tests/contracts/test_mechanisms.py",
    "tests/contracts/test_metrics.py",
    "tests/contracts/test_unreported_cells.py",
    "tests/attacks/test_attack_contract.py",
    "tests/attacks/test_every_mechanism.py",
    "tests/classifiers/test_perturbed.py",
    "tests/guarantee/test_recompute.py",
    "tests/mechanisms/test_epsilon_knob.py",
)
WRONG = "median_error_wrong"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Which contracts spoke of an example, by the test's id, and whether it kept them; in a copy of the tree that holds
    the examples, and the metric once more with its direction turned round."""
    copy = tmp_path_factory.mktemp("copy")
    leave = shutil.ignore_patterns("__pycache__")
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=leave)
    for name in ("pyproject.toml", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, copy / name)
    for path, code in EXAMPLES:
        (copy / path).write_text(code)
        if (turned := code.replace('better="higher"', 'better="lower"').replace("median_error", WRONG)) != code:
            (copy / path).with_name(f"{WRONG}.py").write_text(turned)
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", "-k", " or ".join(NAMES)]
    run = subprocess.run([*command, *CONTRACTS], cwd=copy, env=environment, capture_output=True, text=True, check=False)
    found = re.findall(r"^(PASSED|FAILED|ERROR) (.*?)(?: - .*)?$", run.stdout, re.MULTILINE)
    assert found, run.stdout[-2000:] + run.stderr[-2000:]
    return {test: said == "PASSED" for said, test in found}


def test_there_is_one_of_each():
    assert sorted(Path(path).stem for path, _ in EXAMPLES) == sorted(name.replace("-", "_") for name in NAMES)


@pytest.mark.parametrize(
    ("name", "base", "declares"),
    [
        ("even-budget", Mechanism, ("papers", "not_protected")),
        ("middle-guess", Attack, ("knows",)),
        ("nearest-mean", NamedClassifier, ()),
    ],
)
def test_an_example_is_of_its_kind_and_declares_what_the_registry_asks(name, base, declares):
    (code,) = [code for path, code in EXAMPLES if Path(path).stem == name.replace("-", "_")]
    made = {"__name__": "example"}
    exec(code, made)
    (example,) = [
        item for item in made.values() if getattr(item, "__module__", "") == "example" and item.__name__[0] != "_"
    ]
    assert issubclass(example, base)
    found = {}
    enter(found, example.name, example, declares)
    assert list(found) == [name]


@pytest.mark.system
@pytest.mark.parametrize("name", NAMES)
def test_the_contracts_find_it_by_its_name_and_it_keeps_them(outcome, name):
    own = {test: kept for test, kept in outcome.items() if re.search(rf"\[.*{name}(?!_wrong)", test)}
    assert len(own) >= (2 if name == "median_error" else 1)
    assert [test for test, kept in own.items() if not kept] == []


@pytest.mark.system
def test_a_metric_that_is_declared_the_wrong_way_round_does_not_keep_it(outcome):
    assert [kept for test, kept in outcome.items() if "better_is" in test and WRONG in test] == [False]


def test_the_registry_fails_closed():
    found = {}
    enter(found, "additive-noise", AdditiveNoise, ("papers", "not_protected"))
    with pytest.raises(NotDeclaredError, match="Two things are called"):
        enter(found, "additive-noise", Attack, ())
    with pytest.raises(NotDeclaredError, match="must declare 'papers'"):
        enter({}, "other", type("Other", (AdditiveNoise,), {"papers": (), "__doc__": "Says nothing."}), ("papers",))
    with pytest.raises(NotDeclaredError, match="docstring"):
        enter({}, "other", type("Other", (), {"__doc__": ""}), ())
    assert discover("sfumato.learn.classifiers.named", NamedClassifier)
