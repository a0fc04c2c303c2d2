"""Doors that every tool has: version, module, lists, help that can be copied, plurals, progress without a terminal."""

import subprocess
import sys
from importlib.metadata import version

import pandas as pd
import pytest

from sfumato.api.cli.console import ProgressLines
from sfumato.attacks import ATTACKS
from sfumato.core.wording import counted
from sfumato.guarantee.words import ways_out
from sfumato.learn.classifiers import CLASSIFIERS
from sfumato.mechanisms import MECHANISMS


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    rows = {"a": [1, 2, 3, 4], "b": [2.5, 1.5, 3.5, 1.0], "y": ["no", "yes", "no", "yes"]}
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_version_by_command_and_by_module(command):
    code, out, _ = command("--version")
    assert (code, out) == (0, f"sfumato {version('sfumato')}\n")
    told = subprocess.run([sys.executable, "-m", "sfumato", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == out


@pytest.mark.parametrize(
    ("what", "there"), [("mechanisms", MECHANISMS), ("attacks", ATTACKS), ("classifiers", CLASSIFIERS)]
)
def test_list_has_one_line_for_each(command, what, there):
    code, out, _ = command("list", what)
    lines = out.splitlines()
    assert code == 0
    assert [line.split()[0] for line in lines] == sorted(there)
    assert all(len(line.split()) > 2 for line in lines)


def test_list_refuses_what_there_is_not(command):
    code, _, err = command("list", "mechanism")
    assert code == 2
    assert "mechanisms" in err


def test_examples_of_help_stand_on_lines_of_their_own(command):
    for words in (["sanitize"], ["study", "new"], ["audit"]):
        _, out, _ = command(*words, "--help")
        lines = [line.strip() for line in out.splitlines()]
        assert any(line.startswith(("sfumato " + " ".join(words), "Example: sfumato")) for line in lines), words


def test_completion_can_be_installed(command):
    assert "--install-completion" in command("--help")[1]


def test_a_mechanism_without_epsilon_names_those_that_have_one(command, table, tmp_path):
    code, _, err = command(
        "sanitize",
        table,
        "--label",
        "y",
        "--mechanism",
        "condensation",
        "--epsilon-record",
        "2",
        "--out",
        tmp_path / "r",
    )
    assert code == 2
    assert "additive-noise" in err
    assert "principal-laplace" in err


def test_an_empirical_release_names_the_options_that_make_it_formal(command, table, tmp_path):
    code, out, _ = command("sanitize", table, "--label", "y", "--out", tmp_path / "r", "--seed", "1")
    assert code == 0
    for way in ("sfumato schema declare", "--basis-from", "leave --seed out"):
        assert way in out


def test_every_usual_reason_has_a_way_out():
    from sfumato.channels import maps
    from sfumato.guarantee.guarantee import FLOATING_POINT, LEARNED_MAPS
    from sfumato.mechanisms import random_rotation

    for reason in (
        *LEARNED_MAPS,
        FLOATING_POINT,
        maps.UNDECLARED_BASIS,
        maps.UNDECLARED_GUIDANCE,
        maps.LEARNED_RANGES,
        random_rotation.BORROWED,
    ):
        assert ways_out([reason]), reason


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "row", "1 row"),
        (0, "row", "0 rows"),
        (2, "class", "2 classes"),
        (1200, "released row", "1,200 released rows"),
    ],
)
def test_plurals(number, noun, said):
    assert counted(number, noun) == said


def test_progress_without_a_terminal_is_a_line_every_few_seconds(capsys):
    now = iter([0.0, 1.0, 6.0, 7.0, 12.0])
    progress = ProgressLines(every=5.0, clock=lambda: next(now))
    for done in range(1, 5):
        progress("Attacking", done, 19)
    assert capsys.readouterr().err.splitlines() == ["Attacking 2 of 19 ...", "Attacking 4 of 19 ..."]


def test_progress_tells_rows_per_second_and_time_left(capsys):
    now = iter([0.0, 1.0, 11.0, 12.0, 112.0])
    progress = ProgressLines(every=5.0, clock=lambda: next(now))
    progress("Perturbing", 500_000, 9_000_000)  # the rows that an earlier run finished
    progress("Perturbing", 1_500_000, 9_000_000)
    progress("Reading", 100, None)
    progress("Reading", 300, None)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["Perturbing 1,500,000 of 9,000,000, 100,000 rows/s, 1:15 left ...", "Reading 300, 2 rows/s ..."]
