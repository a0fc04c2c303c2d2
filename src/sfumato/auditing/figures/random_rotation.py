"""random-rotation: classifiers on rotated rows, searches for a rotation, condensation; its table and figures.

`figure_condensation` is Figs 5-8 for the owner of a table: what condensed rows and a rotation leave of uncertainty,
as a standard deviation on columns scaled to [0, 1].
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import Perceptron
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sfumato.attacks.metrics.privacy import Unified, nearest_row_privacy
from sfumato.auditing.asked import CondensationAsked
from sfumato.auditing.figures.item import Found, Name, item, over_repeats
from sfumato.auditing.figures.sets import DataSet, encoded_rows
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.guarantee import Key
from sfumato.mechanisms.condensation import Condensation
from sfumato.mechanisms.random_rotation import RandomRotation, haar_rotation
from sfumato.release.rotation_search import best_order, bottleneck, ica_trial, sample_of, search_rotation, vod_matrix
from sfumato.table import Encoding
from sfumato.table.statistics import Moments

FOLDS = 10
REPEATS = 5
"""Condensations drawn for one group size."""
ITERATIONS = 50
"""Rotations of one search."""
SIZES = (2, 4, 6, 8, 10, 15, 20, 30, 40, 50)
SIZE = 10
"""Group size of Figs 7 and 8, which the paper does not tell."""


class Row(NamedTuple):
    """Accuracies in %, the difference on rotated data with its deviation, and the four privacy figures (sigma)."""

    title: str
    knn: float
    knn_rotated: str
    svm: float
    svm_rotated: str
    perceptron: float | None
    perceptron_rotated: str
    lop_min: float
    lop_avg: float
    ica_min: float
    ica_avg: float
    not_converged: bool


TABLE_1 = {
    "breast_cancer_wisconsin": Row(
        "Breast-w", 97.6, "-0.5 ± 0.3", 97.2, "0 ± 0", 34.5, "0 ± 0", 0.41, 0.50, 0.73, 0.95, False
    ),
    "credit_a_australian": Row(
        "Credit-a", 82.7, "+0.2 ± 0.8", 85.5, "0 ± 0", 55.5, "0 ± 0", 0.31, 0.47, 0.51, 0.97, True
    ),
    "credit_g_numeric": Row("Credit-g", 72.1, "+1.2 ± 0.9", 76.3, "0 ± 0", 30.0, "0 ± 0", 0.40, 0.51, 0.52, 0.99, True),
    "pima": Row("Diabetes", 73.3, "+0.4 ± 0.5", 77.3, "0 ± 0", 65.1, "0 ± 0", 0.23, 0.28, 0.81, 0.95, False),
    "ecoli": Row("E.Coli", 85.1, "+0.2 ± 0.8", 78.6, "0 ± 0", None, "-", 0.24, 0.34, 0.75, 0.95, True),
    "heart_statlog": Row("Heart", 78.9, "+2.1 ± 0.5", 84.8, "0 ± 0", 44.2, "+0.2 ± 0.1", 0.42, 0.54, 0.50, 0.97, True),
    "hepatitis": Row("Hepatitis", 80.8, "+1.8 ± 1.5", 79.4, "0 ± 0", 79.0, "+0.4 ± 0.3", 0.37, 0.48, 0.53, 1.00, False),
    "ionosphere": Row("Ionosphere", 86.4, "+0.5 ± 0.6", 89.7, "0 ± 0", 64.2, "0 ± 0", 0.31, 0.41, 0.82, 1.01, True),
    "iris": Row("Iris", 94.6, "+1.2 ± 0.4", 96.7, "0 ± 0", None, "-", 0.43, 0.50, 0.69, 0.79, True),
    "tic_tac_toe": Row("Tic-tac-toe", 83.9, "-0.3 ± 0.4", 70.4, "0 ± 0", 34.7, "0 ± 0", 0.61, 0.68, 0.52, 0.88, False),
    "votes": Row("Votes", 92.5, "+0.4 ± 0.4", 95.6, "0 ± 0", 39.2, "0 ± 0.1", 0.65, 0.82, 0.50, 0.99, False),
    "wine": Row("Wine", 98.3, "-0.6 ± 0.5", 98.9, "0 ± 0", None, "-", 0.26, 0.34, 0.78, 0.97, True),
}
SETS = ("iris", "wine", *(name for name in TABLE_1 if name not in ("iris", "wine")))
"""Those that come with scikit-learn first."""
CALLED = {
    "knn": "KNN, original, %",
    "knn_rotated": "KNN, rotated minus original",
    "svm": "SVM (RBF), original, %",
    "svm_rotated": "SVM (RBF), rotated minus original",
    "perceptron": "perceptron, original, %",
    "perceptron_rotated": "perceptron, rotated minus original",
    "lop_min": "LOP_min",
    "lop_avg": "LOP_avg",
    "ica_min": "ICA_min",
    "ica_avg": "ICA_avg",
}
PRINTED = {
    name: {
        title: float(str(x).split()[0]) for key, title in CALLED.items() if (x := getattr(row, key)) not in (None, "-")
    }
    for name, row in TABLE_1.items()
}


def rotated(X: Matrix, seed: int, centre: str = "random") -> Matrix:
    """A release by `RandomRotation` under a key of a known seed (for papers; a real key is drawn from the system)."""
    rng, encoding = np.random.default_rng([seed, 7]), Encoding.unit(X.shape[1])
    turn = haar_rotation(X.shape[1], rng)
    t = np.asarray(rng.random(X.shape[1]) if centre == "random" else np.zeros(X.shape[1]))
    key = Key.draw(RandomRotation.name, encoding.fingerprint(), {"matrix": turn, "centre": t})
    return RandomRotation(centre=centre).fit(X, encoding=encoding, key=key).perturb(X, None, rng).X


def classifiers(d: int, classes: int) -> dict[str, tuple[Any, str]]:
    """With the centre of the rotation; the perceptron is for two classes only, as in the paper."""
    found: dict[str, tuple[Any, str]] = {
        "knn": (KNeighborsClassifier(5, algorithm="brute"), "random"),
        "svm": (SVC(gamma=1 / d), "random"),
        "tree": (DecisionTreeClassifier(random_state=0), "random"),
        "perceptron": (Perceptron(random_state=0), "zero"),
        "perceptron, random centre": (Perceptron(random_state=0), "random"),
    }
    return found if classes == 2 else {name: one for name, one in found.items() if "perceptron" not in name}


def folds(seed: int = 0) -> StratifiedKFold:
    """The same for original and rotated rows."""
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def lop_search(covariance: Matrix, rng: np.random.Generator, iterations: int = ITERATIONS) -> tuple[float, float]:
    """The best locally optimised minimum, and the best average, of so many rotations."""
    d = len(covariance)
    sigmas = [np.sqrt(vod_matrix(haar_rotation(d, rng), covariance, published=True)) for _ in range(iterations)]
    averages = [float(sigma[best_order(sigma, "average"), np.arange(d)].mean()) for sigma in sigmas]
    return max(float(bottleneck(sigma)) for sigma in sigmas), max(averages)


def ica_search(sample: Any, rng: np.random.Generator, iterations: int = ITERATIONS) -> Matrix:
    """The lowest published minimum, and the lowest average, that ICA leaves of so many rotations."""
    d = len(sample.covariance)
    trials = [ica_trial(sample, haar_rotation(d, rng), rng, published=True).privacy for _ in range(iterations)]
    return np.asarray(np.array(trials).min(axis=0))


def iteration(sample: Any, turn: Matrix, seeds: tuple[np.random.Generator, np.random.Generator]) -> dict[str, Any]:
    """One iteration of Algorithm 1, attacked by ICA: as published, and as measured on the same components."""
    sigma = np.sqrt(vod_matrix(turn, sample.covariance, published=True))
    columns, order = np.arange(len(sigma)), best_order(sigma)
    return {
        "sigma": sigma,
        "order": order,
        "lop_min": sigma[order, columns].min(),
        "lop_avg": sigma[best_order(sigma, "average"), columns].mean(),
        "published": ica_trial(sample, turn[order], seeds[0], published=True),
        "measured": ica_trial(sample, turn[order], seeds[1]),
    }


def condensed(X: Matrix, y: Codes | None, k: int, seed: int, repeats: int = REPEATS) -> tuple[float, float]:
    """Least and mean privacy of condensed rows against the nearest original row, over a few draws."""
    drawn = []
    for repeat in range(repeats):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of small groups: the paper takes them as they are
            block = Condensation(k).fit(X, y).perturb(X, y, np.random.default_rng([seed, repeat, k]))
        drawn.append(nearest_row_privacy(X, block.X))
    least, mean = np.mean(drawn, axis=0)
    return float(least), float(mean)


def _sample(X: Matrix) -> Any:
    return sample_of(X, Moments.of(X), Encoding.unit(X.shape[1]))


@item(SETS, printed=PRINTED, learns=True)
def table_1(data: DataSet, rng: np.random.Generator) -> Found:
    """Accuracy on original and rotated rows; locally optimised privacy, and what ICA leaves, of 50 rotations."""
    X, y, found = data.unit(), data.y, {}
    seed = int(rng.integers(1 << 31))
    for name, (classifier, centre) in classifiers(X.shape[1], len(np.unique(y))).items():
        if name in CALLED:
            before = (cross_val_predict(classifier, X, y, cv=folds(seed)) == y).mean()
            after = (cross_val_predict(classifier, rotated(X, seed, centre), y, cv=folds(seed)) == y).mean()
            found[CALLED[name]] = 100 * float(before)
            found[CALLED[f"{name}_rotated"]] = 100 * float(after - before)
    sample = _sample(X)
    figures = (*lop_search(sample.covariance, rng), *ica_search(sample, rng))
    return found | {CALLED[name]: float(x) for name, x in zip(list(CALLED)[-4:], figures, strict=True)}


def _searched(data: DataSet, rng: np.random.Generator) -> Found:
    sample = _sample(data.unit())
    found: dict[Name, float] = {}
    best: dict[str, float] = {}
    for number in range(1, ITERATIONS + 1):
        one = iteration(sample, haar_rotation(len(sample.covariance), rng), (rng, rng))
        lop, ica = one["lop_min"], one["published"].privacy.minimum
        kept = {"LOP": lop, "ICA, as published": ica, "ICA, measured": one["measured"].privacy.minimum}
        kept["the smaller of LOP and ICA"] = min(lop, ica)
        best = {name: max(x, best.get(name, 0.0)) for name, x in kept.items()}
        if number % 5 == 0:
            found |= {(name, float(number)): float(x) for name, x in best.items()}
    return found


for _name, _shows, _set in (
    ("figure-3", "Best minimum privacy so far: where ICA has no effect on it", "breast_cancer_wisconsin"),
    ("figure-4", "Best minimum privacy so far: where ICA undermines it", "votes"),
):
    _shown = f"{_shows} ({TABLE_1[_set].title})"
    item(SETS, name=f"random-rotation/{_name}", shows=_shown, axis="rotations", repeats=2)(_searched)


def _swept(data: DataSet, rng: np.random.Generator) -> Found:
    X, seed = data.unit(), int(rng.integers(1 << 31))
    found: dict[Name, float] = {}
    for k in SIZES:
        if 2 <= k <= np.bincount(data.y).max():
            least, mean = condensed(X, data.y, k, seed, 1)
            found |= {("minimum", float(k)): least, ("average", float(k)): mean}
    return found


for _name, _title, _first in (("figure-5", "E.Coli", "ecoli"), ("figure-6", "Diabetes", "pima")):
    _shows = f"Privacy of condensed rows by the size of groups ({_title})"
    item(("iris", "wine", _first), name=f"random-rotation/{_name}", shows=_shows, axis="group size")(_swept)


def _compared(which: int, data: DataSet, rng: np.random.Generator) -> Found:
    X, sample = data.unit(), _sample(data.unit())
    lop, ica = lop_search(sample.covariance, rng)[which], float(ica_search(sample, rng)[which])
    groups = condensed(X, data.y, SIZE, int(rng.integers(1 << 31)), 1)[which]
    return {"rotation (the smaller of LOP and ICA)": min(lop, ica), "rotation, LOP": lop, "condensation": groups}


for _name, _which, _word in (("figure-7", 0, "minimum"), ("figure-8", 1, "average")):
    _shows = f"Rotation beside condensation: {_word} privacy"
    item(SETS, name=f"random-rotation/{_name}", shows=_shows)(partial(_compared, _which))


@dataclass(frozen=True)
class Condensed:
    """Sigma of the difference between condensed rows of groups of `k` and the original row nearest to each.

    A class of fewer than k rows is one group; `in_smaller_groups` rows are in such classes.
    """

    k: int
    minimum: float
    average: float
    in_smaller_groups: int


@dataclass(frozen=True)
class AgainstCondensation:
    """Figs 5-8: condensation by group size, beside the best of some rotations against naive inference and ICA.

    Each is a (minimum, average) over the columns; `measured` ones are capped at `mean`, what guessing the mean leaves.
    `left_out` are sizes that no class has the rows for.
    """

    condensed: tuple[Condensed, ...]
    published: Unified
    published_ica: Unified | None
    measured: Unified
    measured_ica: Unified
    mean: Unified
    rotations: int
    rows: int
    left_out: tuple[int, ...] = ()
    standard_errors: Mapping[str, Unified] | None = None
    """Of the means, where it was repeated, "k = 5" and so on for the group sizes."""

    def to_dict(self) -> dict[str, Any]:
        told = {name: value._asdict() for name, value in vars(self).items() if isinstance(value, Unified)}
        condensed = [asdict(one) for one in self.condensed]
        counts = {"rotations": self.rotations, "rows": self.rows, "left_out": list(self.left_out)}
        errors = {name: error._asdict() for name, error in (self.standard_errors or {}).items()}
        return {**told, "condensed": condensed, **counts, "standard_errors": errors or None}


@asks(CondensationAsked)
def figure_condensation(table: Any, options: CondensationAsked) -> AgainstCondensation:
    """Condensation by group size beside a searched rotation [random-rotation, 5.3, Figs 5-8].

    Nothing is released: the figures are the owner's, who looks at the originals.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        A private table.
    {options}

    Returns
    -------
    AgainstCondensation
        `condensed` by group size (with the rows that are in smaller groups), `published`, `measured` and `mean`
        as (minimum, average) standard deviations.
    """
    X, y = encoded_rows(table, options)
    sizes, rotations, seed, progress = options.sizes, options.rotations, options.seed, options.progress
    most = len(X) if y is None else int(np.bincount(y).max())
    tried = [k for k in sizes if 2 <= k <= most]
    if not tried:
        raise UsageError(f"No group size is between 2 and {most}, the rows of the largest class. Give others.")
    drawn: list[dict[str, Unified]] = []
    for number in range(options.repeats):
        progress("Repeating", number, options.repeats)
        drawn.append(_beside(X, y, tried, rotations, seed + number))
    progress("Repeating", options.repeats, options.repeats)
    mean, errors = over_repeats(drawn, lambda x: Unified(*map(float, x)))  # ICA need not be tried in each
    sizes_of = np.array([len(X)]) if y is None else np.bincount(y)
    groups = [(k, mean.pop(f"k = {k}")) for k in tried]
    left_out = tuple(k for k in sizes if k not in tried)
    told = {"published_ica": None, **mean}
    return AgainstCondensation(
        tuple(Condensed(k, one.minimum, one.average, int(sizes_of[sizes_of < k].sum())) for k, one in groups),
        **told,
        rotations=rotations,
        rows=len(X),
        left_out=left_out,
        standard_errors=errors,
    )


def _beside(X: Matrix, y: Codes | None, sizes: Sequence[int], rotations: int, seed: int) -> dict[str, Unified]:
    """All figures of one draw."""
    found = {f"k = {k}": Unified(*condensed(X, y, k, seed)) for k in sizes}
    sample = _sample(X)
    paper, ours = (
        search_rotation(sample, iterations=rotations, scoring=scoring, rng=np.random.default_rng(seed))[1]
        for scoring in ("published", "measured")
    )
    told = {"published": paper.naive, "published_ica": paper.ica}
    told |= {"measured": ours.naive, "measured_ica": ours.ica_anywhere, "mean": ours.mean_guess}
    return found | {name: value for name, value in told.items() if value is not None}
