"""What goes wrong around a command: a full or closed output, interrupts, missing parts, senseless options."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPClassifier

from sfumato.api.cli.audit import utility_lines
from sfumato.learn.classifiers.training import heeding_interrupts

FULL = Path("/dev/full")
SHOW = "from sfumato.api.cli.app import main; main()"


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
    assert list(utility_lines({"utility": rows}))[-1].split() == ["knn", "50.0", "0.0", "-", "-"]


@pytest.mark.parametrize(
    ("words", "said"), [(["--seed", "-1"], "--seed must be at least 0"), (["--max-rows", "1"], "at least 2")]
)
def test_an_audit_that_cannot_be_meant_is_refused_before_anything_is_read(tmp_path, words, said):
    done = sfumato("audit", tmp_path, "--original", tmp_path / "none.csv", *words, stdout=subprocess.DEVNULL)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_learner_swallows_still_ends_the_command(command, tmp_path, monkeypatch, request, number):
    """scikit-learn's network catches Ctrl-C and returns half trained: its model was written, with exit code 0."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "label": rng.integers(0, 2, 60)})
    people.to_csv(tmp_path / "p.csv", index=False)
    assert command("sanitize", tmp_path / "p.csv", "--label", "label", "--out", tmp_path / "r")[0] == 0
    rounds = []

    def interrupted(*_):
        rounds.append(1)
        signal.raise_signal(number)

    monkeypatch.setattr(MLPClassifier, "_update_no_improvement_count", interrupted)
    # Whoever starts the tests in the background (nohup, CI) has Ctrl-C ignored, and a handler is inherited.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, inherited))
    before = signal.getsignal(signal.SIGINT), set(tmp_path.iterdir())
    code, _, err = command("train", tmp_path / "r", "--classifier", "mlp", "--out", tmp_path / "m.skops")
    assert (code, len(rounds)) == (130, 1)
    assert err.strip().splitlines()[-1] == "sfumato: Interrupted. Nothing half-finished was left behind."
    assert (signal.getsignal(signal.SIGINT), set(tmp_path.iterdir())) == before


def test_a_signal_that_its_handler_takes_quietly_is_no_interrupt():
    """A server notes that it is to stop, and lets what is under way end."""
    noted = []
    before = signal.signal(signal.SIGINT, lambda *_: noted.append(1))
    try:
        with heeding_interrupts():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert noted == [1]


PLAIN_INSTALL = """
import sys

class WithoutServer:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"fastapi", "uvicorn", "msgspec", "sqlalchemy", "alembic", "prometheus_client"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, WithoutServer())
from sfumato.api.cli.app import main
main()
"""


@pytest.mark.parametrize("words", [["demo", "--consortium"], ["serve", "--data", "s"]], ids=lambda words: words[0])
def test_without_the_servers_extra_one_line_says_what_to_install(words, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_INSTALL, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "sfumato: The server needs uvicorn, which is not installed: pip install 'sfumato[server]'.\n"
    assert list(tmp_path.iterdir()) == []


def loaded(script, *heavy):
    """Which of these modules a fresh process has loaded after the script."""
    names = f"print('loaded:', *{set(heavy)} & set(sys.modules))"
    lines = ["import sys", "try:", *(f"    {line}" for line in script), "finally:", f"    {names}"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("loaded:")[2].split()


def test_help_loads_no_scientific_library():
    """It takes a tenth of a second; with scikit-learn, which one command alone needs, it took two."""
    script = ["from sfumato.api.cli.app import main", "sys.argv = ['sfumato', '--help']", "main()"]
    assert loaded(script, "numpy", "pyarrow", "scipy", "sklearn", "uvicorn") == []


def test_showing_a_card_loads_no_other_command_nor_functions_of_noise_a_generator_or_files_of_rows(table, tmp_path):
    """These took a third of its time."""
    assert sfumato("sanitize", table, "--out", tmp_path / "r", stdout=subprocess.DEVNULL).returncode == 0
    script = [
        "from sfumato.api.cli.app import main",
        f"sys.argv = ['sfumato', 'show', {str(tmp_path / 'r')!r}]",
        "main()",
    ]
    others = ("sfumato.api.cli.learn", "sfumato.api.cli.study", "sfumato.api.cli.audit")
    assert (
        loaded(script, "pandas", "pyarrow.parquet", "randomgen", "scipy.special", "scipy.stats", "sklearn", *others)
        == []
    )
