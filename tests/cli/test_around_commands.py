"""What goes wrong around a command: a full or closed output, figures that do not exist, senseless options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.cli.audit import utility_lines

FULL = Path("/dev/full")
SHOW = "from sfumato.cli.app import main; main()"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_text("a,b,y\n1,2,x\n2,1,z\n3,3,x\n4,1,z\n")
    return path


def sfumato(*arguments, **streams):
    command = [sys.executable, "-c", SHOW, *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=120, **streams)


@pytest.mark.skipif(not FULL.is_char_device(), reason="this system has no full device")
def test_a_full_standard_output_is_told_and_does_not_deny_what_was_released(table, tmp_path):
    with FULL.open("w") as full:
        done = sfumato("sanitize", table, "--out", tmp_path / "r", stdout=full)
    assert done.returncode == 5
    assert "Standard output cannot be written: No space left" in done.stderr
    assert "Nothing was released" not in done.stderr
    assert (tmp_path / "r" / "card.json").is_file()


def test_a_closed_standard_output_is_no_error(table, tmp_path):
    done = sfumato("sanitize", table, "--out", tmp_path / "r", preexec_fn=lambda: os.close(1))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_table_too_small_for_a_loss_of_accuracy_is_printed_all_the_same():
    """phi compares two accuracies, and has none where training on the original never hits."""
    rows = [{"classifier": "knn", "original": 0.0, "release": 0.5, "phi": None}]
    assert list(utility_lines({"utility": rows}))[1].split() == ["knn", "0.000", "0.500", "-"]


@pytest.mark.parametrize(
    ("words", "said"), [(["--seed", "-1"], "--seed must not be"), (["--max-rows", "1"], "at least 2")]
)
def test_an_audit_that_cannot_be_meant_is_refused_before_anything_is_read(tmp_path, words, said):
    done = sfumato("audit", tmp_path, "--original", tmp_path / "none.csv", *words, stdout=subprocess.DEVNULL)
    assert done.returncode == 2
    assert said in done.stderr
