"""Writes what a version of sfumato leaves with its users, from forty made-up people: files that later versions read.

`PYTHONPATH=CODE/src python tests/vectors/write_kept.py FOLDER`, where CODE is a checkout of that version. What the
version does not know yet is left out. A folder is written once and never again; tests/test_reads_kept.py reads it.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.study.protocol.study_file import load_study

SCHEMA = """\
version: 1
columns:
- {name: who, kind: categorical, role: person}
- {name: age, kind: integer, low: 10, high: 130, source: public, reason: the form}
- {name: weight, kind: numeric, low: 20, high: 220, source: public, reason: the form}
- {name: smokes, kind: categorical, categories: [never, once, 'yes'], source: public, reason: the form}
- {name: ill, kind: categorical, role: label, categories: ['no', 'yes'], source: public, reason: the form}
"""
CHOICES = """\
version: 1
columns:
- {name: smokes, kind: categorical, categories: [never, once, 'yes'], source: public, reason: the form}
- {name: drinks, kind: categorical, categories: ['no', 'yes'], source: public, reason: the form}
- {name: ill, kind: categorical, role: label, categories: ['no', 'yes'], source: public, reason: the form}
"""
STUDY = """\
kind: pool
name: Two hospitals
schema:
  columns:
  - {name: age, kind: integer, low: 10, high: 130, source: public, reason: the form}
  - {name: smokes, kind: categorical, categories: [never, once, 'yes'], source: public, reason: the form}
  - {name: ill, kind: categorical, role: label, categories: ['no', 'yes'], source: public, reason: the form}
"""
ROWS_STUDY = STUDY + "mechanism: {name: additive-noise}\nguarantee: {epsilon_record: 4.0}\n"
COUNTS_STUDY = STUDY + "mechanism: {name: tree-resampling}\nguarantee: {epsilon: 1.0, delta: 1.0e-6}\n"
SMALL = {"RandomForestClassifier": 3, "HistGradientBoostingClassifier": 3, "MLPClassifier": 10}
"""Trees or rounds: a file of 200 trees is read like one of three, and is sixty times as long."""
ON_BITS = ("bernoulli-naive-bayes", "id3")
KILL = """
import os, signal, sys, warnings
import sfumato as sf
warnings.simplefilter("ignore")
mechanism, step = sys.argv[1:]
def told(now, done, total):
    if now == step:
        os.kill(os.getpid(), signal.SIGKILL)
sf.sanitize("table.csv", schema="schema.yaml", mechanism=mechanism, engine="stream", resume=True, seed=3,
            max_rows_per_person=1, unprotected=True, ledger=f"killed/{mechanism}.ledger.json",
            out=f"killed/{mechanism}", progress=told)
"""
KILLED = {"additive-noise": "Writing", "principal-laplace": "Perturbing", "tree-resampling": "Writing"}


def people(rows: int) -> list[dict[str, object]]:
    found = []
    for i in range(rows):
        age = 15 + (37 * i + 11 * (i // 7)) % 80
        weight = 50 + age / 2 + (53 * i) % 400 / 16
        smokes = ("never", "once", "yes")[(i * i + age // 20) % 3]
        drinks = "yes" if (smokes == "yes") != (i % 4 == 0) else "no"
        ill = "yes" if (age + weight > 135) != (i % 11 == 0) else "no"
        found.append({"who": f"P{i:03d}", "age": age, "weight": weight, "smokes": smokes, "drinks": drinks, "ill": ill})
    return found


def write_table(path: Path, rows: list[dict[str, object]], *names: str) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def sfumato(*words: str) -> str:
    """A command, in this process; what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = run_guarded(app, list(words))
    assert code == 0, words
    return printed.getvalue()


def learn_small() -> None:
    """Have learners of scikit-learn do with few trees and rounds."""
    for learner in (RandomForestClassifier, HistGradientBoostingClassifier, MLPClassifier):
        fit, rounds = learner.fit, SMALL[learner.__name__]
        count = "n_estimators" if hasattr(learner(), "n_estimators") else "max_iter"

        def fit_small(self, *rows, fit=fit, count=count, rounds=rounds, **words):
            return fit(self.set_params(**{count: rounds}), *rows, **words)

        learner.fit = fit_small


def write(folder: Path) -> None:
    learn_small()
    folder.mkdir(parents=True)
    os.chdir(folder)
    os.environ["SFUMATO_LEDGER"] = "ledger.json"
    everybody = people(60)
    write_table(folder / "table.csv", everybody[:40], "who", "age", "weight", "smokes", "ill")
    write_table(folder / "asked.csv", everybody[40:], "age", "weight", "smokes")
    write_table(folder / "choices.csv", everybody[:40], "smokes", "drinks", "ill")
    write_table(folder / "asked-choices.csv", everybody[40:], "smokes", "drinks")
    files = {"schema": SCHEMA, "choices": CHOICES, "study": ROWS_STUDY}
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    one = ("--schema", "schema.yaml", "--max-rows-per-person", "1")
    able = sfumato("sanitize", "--help")
    many = () if "--unprotected" not in able else ("--unprotected",)
    sfumato("sanitize", "table.csv", *one, "--mechanism", "additive-noise", "--epsilon-record", "20", "--only-new",
            "--out", "local")  # fmt: skip
    sfumato("sanitize", "table.csv", *one, "--mechanism", "random-rotation", "--key", "key.json", "--out", "rotated")
    bits = ("--schema", "choices.yaml", "--mechanism", "guided-projection", "--ledger", "bits.ledger.json")
    sfumato("sanitize", "choices.csv", *bits, *many, "--out", "bits")
    expected: dict[str, Any] = {"guarantees": {}, "answers": {}}
    if "tree-resampling" in sfumato("list", "mechanisms"):
        sfumato("sanitize", "table.csv", *one, "--mechanism", "tree-resampling", "--epsilon", "2", "--out", "made-up")
        (folder / "counts.yaml").write_text(COUNTS_STUDY, encoding="utf-8")
        sfumato("study", "plan", "counts.yaml", "--pair", "age,smokes", "--reason", "a textbook", "--out", "plan.json")
        sfumato("recommend", "table.csv", *one[:2], "--epsilon", "2", "--out", "config.yaml")
        listed = json.loads(sfumato("ledger", "show", "--json"))["releases"]
        expected["ledger"] = [[one["mechanism"], one["kind"], one["epsilon"]] for one in listed]
    studies = [name for name in ("study.yaml", "plan.json") if (folder / name).exists()]
    expected["studies"] = {name: load_study(folder / name).hash for name in studies}
    for release in sorted(path.parent.name for path in folder.glob("*/card.json")):
        stated = json.loads(sfumato("show", release, "--json"))["card"]["guarantee"]
        expected["guarantees"][release] = {name: stated.get(name) for name in ("kind", "epsilon_record", "central")}
    for name in json.loads(sfumato("list", "classifiers", "--json"))["classifiers"]:
        (folder / "models").mkdir(exist_ok=True)
        model, bits = f"models/{name}.skops", name in ON_BITS
        sfumato("train", "bits" if bits else "local", "--classifier", name, "--out", model)
        sfumato("predict", model, "asked-choices.csv" if bits else "asked.csv", "--out", "said.csv")
        with (folder / "said.csv").open(encoding="utf-8") as file:
            said = list(csv.DictReader(file))
        sure = [float(row["probability"]) for row in said if row.get("probability")]
        answers = "".join(row["prediction"][0] for row in said)
        expected["answers"][name] = [answers, round(sum(sure) / len(said), 6)]
        (folder / "said.csv").unlink()
    if "--resume" in able:
        (folder / "killed").mkdir()
        for mechanism, step in KILLED.items():
            command = [sys.executable, "-c", KILL, mechanism, step]
            assert subprocess.run(command, check=False).returncode == -9, mechanism
            unfinished = folder / "killed" / f".{mechanism}.unfinished"
            plan = json.loads((unfinished / ".run" / "plan.json").read_text())
            plan["files"] = [["table.csv", *mark] for _, *mark in plan["files"]]  # no path of this machine
            (unfinished / ".run" / "plan.json").write_text(json.dumps(plan))
            unfinished.rename(folder / "killed" / mechanism)
    for note in folder.rglob("*.released"):
        note.write_text(note.read_text().replace(str(folder), "/srv/releases"))
    for lock in [*folder.rglob("*.lock"), *folder.rglob("__pycache__")]:
        shutil.rmtree(lock) if lock.is_dir() else lock.unlink()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve())
