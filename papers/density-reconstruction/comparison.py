"""Learners that know the noise against the same learners that do not.

`python papers/density-reconstruction/comparison.py`. Every column gets additive noise whose 95% interval is 25 to 200%
of the column's range (Agrawal & Srikant's privacy), uniform or Gaussian. Learners are trained on the noisy rows and
tested on plain ones; "naive" is the same learner without the card, "clean" the same on rows without noise. Finished
pieces are kept in `work/comparison.jsonl`, and not done again; `--fresh` forgets them. The text is written to
COMPARISON.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

import numpy as np  # noqa: E402
from comparison_local import LocalTree  # noqa: E402
from comparison_text import comparison_text  # noqa: E402
from papers.data import DataMissingError, codes, data_folder, load  # noqa: E402
from papers.store import Store  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

from sfumato.attacks.metrics.information import interval_privacy  # noqa: E402
from sfumato.auditing.figures.sets import ATTRIBUTES, agrawal_srikant  # noqa: E402
from sfumato.learn.classifiers import NoiseAwareDiscriminant, ReconstructedNaiveBayes  # noqa: E402
from sfumato.learn.classifiers.on_reconstruction import Assignment  # noqa: E402
from sfumato.learn.classifiers.reads_noise import Part  # noqa: E402
from sfumato.mechanisms import AdditiveNoise  # noqa: E402
from sfumato.noise import make_law  # noqa: E402
from sfumato.table import open_table  # noqa: E402

PRIVACY = (0.25, 0.5, 1.0, 1.5, 2.0)
LAWS = ("normal", "uniform")
REAL = (
    "iris",
    "wine",
    "heart_statlog",
    "ecoli",
    "ionosphere",
    "wdbc",
    "breast_cancer_wisconsin",
    "pima",
    "credit_g_numeric",
    "svmguide1",
    "waveform",
    "pendigits",
    "magic04",
)
MADE = tuple(f"F{number}" for number in range(1, 6))
MOST_ROWS = 4_000
MADE_ROWS = 10_000
SMALL = 1_500
"""Sets with fewer rows are split three times, others once."""


@dataclass(frozen=True)
class Task:
    """One data set under one noise; `local` compares the Local tree instead."""

    data: str
    law: str
    privacy: float
    local: bool = False

    @property
    def key(self) -> str:
        return f"{self.data}|{self.law}|{self.privacy:g}" + ("|local" if self.local else "")


def all_tasks() -> Iterator[Task]:
    for data in (*REAL, *MADE):
        for law in LAWS:
            yield from (Task(data, law, privacy) for privacy in PRIVACY)
    yield from (Task(data, law, 1.0, local=True) for data in MADE for law in LAWS)


def data_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows with every column scaled to [0, 1], and classes."""
    if name in MADE:
        X, y = agrawal_srikant(np.random.default_rng(int(name[1:])), MADE_ROWS, int(name[1:]))
        low, high = np.array(list(ATTRIBUTES.values())).T
        return (X - low) / (high - low), y
    if name == "svmguide1":
        path = data_folder() / "svmguide1_train.csv"
        if not path.is_file():
            raise DataMissingError(f"{name}: there is no {path.name} in the data folder.")
        table = open_table(path).read().to_pandas()
        X = table.drop(columns="label").to_numpy(dtype=np.float64)
        return (X - X.min(axis=0)) / np.ptp(X, axis=0), codes(table["label"].astype(str))
    found = load(name)
    X, y = found.unit(), found.y
    if len(X) > MOST_ROWS:
        chosen = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
        X, y = X[chosen], y[chosen]
    return X, y


def noise_for(law: str, privacy: float) -> AdditiveNoise:
    """Noise whose 95% interval is `privacy` times the column's range."""
    unit = interval_privacy(make_law(law, scale=1.0), 0.95)
    return AdditiveNoise(law=law, scale=privacy / unit)


def trees(rows: int, seed: int) -> dict[str, Any]:
    leaf = max(5, rows // 100)
    return {
        "tree": DecisionTreeClassifier(min_samples_leaf=leaf, random_state=seed),
        "forest": RandomForestClassifier(15, min_samples_leaf=max(2, leaf // 4), random_state=seed),
    }


def learners() -> dict[str, Any]:
    return {
        "naive Bayes": ReconstructedNaiveBayes(),
        "LDA": NoiseAwareDiscriminant("linear"),
        "QDA": NoiseAwareDiscriminant("quadratic"),
    }


def one_split(X: np.ndarray, y: np.ndarray, task: Task, seed: int) -> dict[str, dict[str, float]]:
    """Accuracy on plain test rows: clean, naive and aware (and global, for what is trained on assigned values)."""
    rare = np.bincount(y).min() < 4
    train, test, seen, truth = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=None if rare else y)
    mechanism = noise_for(task.law, task.privacy).fit(train, seen)
    noisy = mechanism.perturb(train, seen, np.random.default_rng(seed)).X

    def score(classifier: Any, rows: np.ndarray, **more: Any) -> float:
        return float((classifier.fit(rows, seen, **more).predict(test) == truth).mean())

    if task.local:
        leaf = max(5, len(train) // 100)
        growers = {way: LocalTree(mechanism.recipe_, leaf, local=way == "local") for way in ("by-class", "local")}
        return {"tree": {way: score(grower, noisy) for way, grower in growers.items()}}
    found = {
        name: {
            "clean": score(learner, train),
            "naive": score(learner, noisy),
            "aware": score(learner, noisy, sources=mechanism.recipe_),
        }
        for name, learner in learners().items()
    }
    rows, classes = [Part(noisy, np.unique(seen, return_inverse=True)[1], mechanism.recipe_)], len(np.unique(seen))
    values = {
        "clean": train,
        "naive": noisy,
        "aware": Assignment(middles=True).rows(rows, classes, np.random.default_rng(seed)),
        "global": Assignment("global", middles=True).rows(rows, classes, np.random.default_rng(seed)),
    }
    for name, tree in trees(len(train), seed).items():
        found[name] = {how: score(tree, known) for how, known in values.items() if name == "tree" or how != "global"}
    return found


def run_task(task: Task) -> dict[str, Any]:
    """Means over the splits, and the processor time that they took."""
    started = time.process_time()
    X, y = data_of(task.data)
    repeats = 3 if len(X) < SMALL else 1
    found = [one_split(X, y, task, seed) for seed in range(repeats)]
    means = {
        learner: {how: float(np.mean([one[learner][how] for one in found])) for how in found[0][learner]}
        for learner in found[0]
    }
    shape = [len(X), X.shape[1], len(np.unique(y))]
    commonest = float(np.bincount(y).max() / len(y))
    return {"scores": means, "shape": shape, "commonest": commonest, "seconds": time.process_time() - started}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", nargs="*", help="data sets (default: all)")
    options = parser.parse_args(arguments)
    path = HERE / "work" / "comparison.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    store = Store(path)
    tasks = [task for task in all_tasks() if not options.only or task.data in options.only]
    missing = _absent({task.data for task in tasks})
    tasks = [task for task in tasks if task.data not in missing]
    left = [task for task in tasks if task.key not in store]
    with ProcessPoolExecutor(options.jobs) as pool:
        for task, value in zip(left, pool.map(run_task, left), strict=True):
            store.put(task.key, value)
            print(f"{task.key}: {value['seconds']:.1f} s", flush=True)
    if not options.only:
        text = comparison_text({task: store[task.key] for task in tasks}, sorted(missing))
        (HERE / "COMPARISON.md").write_text(text, encoding="utf-8")
        print(text)
    return 0


def _absent(names: set[str]) -> set[str]:
    absent = set()
    for name in names:
        try:
            data_of(name)
        except DataMissingError as error:
            print(error)
            absent.add(name)
    return absent


if __name__ == "__main__":
    raise SystemExit(main())
