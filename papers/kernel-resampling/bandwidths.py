"""Which bandwidth should be the default? `python papers/kernel-resampling/bandwidths.py` prints the table.

Four sites of equal size draw rows by each rule; three classifiers learn from the pooled rows. A rule is of use only if
they err less than with one site's own rows. Source hits say what it protects. The rule was chosen on the first five
sets; WDBC, the demo's table, was looked at afterwards.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from papers.data import load  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.svm import SVC  # noqa: E402

from sfumato.attacks.metrics.scored import source_hit_rate  # noqa: E402
from sfumato.auditing.figures.kernel_resampling import dealt, resampled  # noqa: E402
from sfumato.core.array_types import Codes, Matrix  # noqa: E402

CHOSEN_ON = ("pima", "wine", "ionosphere", "heart_statlog", "breast_cancer_libsvm")
LOOKED_AT = ("wdbc",)
RULES = ("published", "pooling", "likelihood", "scaled")
SITES, SEEDS = 4, 8


def errors(X: Matrix, y: Codes, test: Matrix, test_y: Codes) -> list[float]:
    """Of 11 neighbours, Gaussian naive Bayes and an SVM with scikit-learn's settings."""
    made = KNeighborsClassifier(min(11, len(X))), GaussianNB(), SVC()
    return [float((one.fit(X, y).predict(test) != test_y).mean()) for one in made]


def trial(X: Matrix, y: Codes, seed: int) -> dict[str, list[float]]:
    """Errors by what is learned from; the rules also with the share of rows that lie nearest to their source."""
    train, test, train_y, test_y = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    found = {"original": errors(train, train_y, test, test_y)}
    parts = dealt(train_y, SITES, np.random.default_rng(seed))
    alone = [errors(train[part], train_y[part], test, test_y) for part in parts]
    found["alone"] = [float(one) for one in np.mean(alone, axis=0)]
    for rule in RULES:
        pooled = resampled(train, train_y, SITES, np.random.default_rng(seed), rule)
        hits = source_hit_rate(pooled.X, train, pooled.source).rate
        found[rule] = [*errors(pooled.X, pooled.y, test, test_y), hits]
    return found


def main() -> int:
    """Print one line for every set and rule."""
    warnings.simplefilter("ignore")
    for name in (*CHOSEN_ON, *LOOKED_AT):
        data = load(name)
        span = np.ptp(data.X, axis=0)
        X = (data.X - data.X.min(axis=0))[:, span > 0] / span[span > 0]
        trials = [trial(X, data.y, seed) for seed in range(SEEDS)]
        print(f"{name}: {len(X)} rows, {X.shape[1]} columns{' (not chosen on)' if name in LOOKED_AT else ''}")
        for what in trials[0]:
            mean = np.mean([one[what] for one in trials], axis=0)
            hits = f"  source hits {mean[3]:.2f}" if len(mean) > 3 else ""
            print(f"  {what:<11} kNN {mean[0]:.3f}  NB {mean[1]:.3f}  SVM {mean[2]:.3f}{hits}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
