"""Rotation search: among many random rotations, one that is hard to undo [random-rotation, Algorithm 1].

Every rotation drawn has its rows ordered best against naive inference, and is then attacked by ICA. What a search can
and cannot do: it improves naive inference. Attacks that are equivariant under rotations (known rows, eigen-alignment,
and ICA given enough starts) get the same from *every* rotation: how ICA fared on one of them is the luck of its start,
and an adversary who starts it again gets what it got on the worst (`ica_anywhere`). Hence the worst case of a rotation
is the lower of its own naive figure and ICA's lowest on any; ``scoring="published"`` follows the paper to the letter
and also keeps a rotation for ICA's bad luck with it.

The kept rotation depends on the data. Its key says so, and no formal guarantee rests on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sfumato.attacks.metrics.privacy import Unified, component_privacy, unified_privacy
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.core.progress import Progress, silent
from sfumato.core.wording import counted
from sfumato.guarantee import Key
from sfumato.mechanisms import Mechanism
from sfumato.mechanisms.base import Phase, Rows, as_matrix
from sfumato.mechanisms.random_rotation import RandomRotation, haar_rotation, secret_generator
from sfumato.release.asked import SCORINGS, SanitizeAsked
from sfumato.table import Encoding
from sfumato.table.statistics import Moments


class WeakRotationWarning(UserWarning):
    """Some attack comes near the original values whatever the rotation: add noise."""


class Optimised(NamedTuple):
    """The figure that the search raised, not capped at guessing the mean: on the first rotation and on the kept one."""

    first: float
    kept: float


@dataclass(frozen=True)
class SearchResult:
    """Guarantees as the standard deviation of an attack's error on [0,1] columns, over their weights; larger is safer.

    These are statistics of the private table: for its owner, never for the card. `naive` and `ica` are of the kept
    rotation, `ica_anywhere` is the lowest of all rotations tried. `mean_guess` is what guessing every column's
    mean gives: measured figures are capped there. `ica` is None where ICA did not converge on the kept rotation, which
    is no privacy: nothing is known. `optimised` is what the search raised, uncapped. `weak_columns` are those that some
    attack comes near to.
    """

    iterations: int
    goal: str
    scoring: str
    naive: Unified
    ica: Unified | None
    ica_anywhere: Unified
    mean_guess: Unified
    ica_runs: int
    ica_not_converged: int
    weak_columns: tuple[str, ...]
    optimised: Optimised

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        named = Unified | Optimised
        return {name: value._asdict() if isinstance(value, named) else value for name, value in vars(self).items()}

    def in_words(self) -> str:
        """A few lines for the owner's terminal."""
        attacks = {
            "naive inference": self.naive,
            "ICA": self.ica,
            "ICA, on any rotation tried": self.ica_anywhere,
            "guessing the mean": self.mean_guess,
        }
        lines = [
            f"Best of {self.iterations} rotations. Error that attacks leave on it without noise, as a "
            "standard deviation relative to the columns' ranges (private: statistics of your table):",
            f"  {self._what_was_raised()}",
        ]
        for attack, found in attacks.items():
            if found is None:
                lines.append("  ICA did not converge here, so nothing is known about it")
            else:
                lines.append(f"  {attack}: minimum {found.minimum:.3f}, average {found.average:.3f}")
        if self.ica_not_converged:
            lines.append(f"  ICA did not converge on {self.ica_not_converged} of {self.ica_runs} rotations.")
        if self.weak_columns:
            lines.append(f"  Columns that an attack comes close to: {', '.join(self.weak_columns)}")
        return "\n".join(lines)

    def _what_was_raised(self) -> str:
        """What was optimised, in words and figures, also where all of it lies above guessing the mean."""
        first, kept = self.optimised
        over = "minimum over all columns" if self.goal == "minimum" else "average over all columns"
        sign = "whatever the sign of a column (Eq. 6 as published)" if self.scoring == "published" else "with its sign"
        words = f"The search raised the {over} of what naive inference leaves, {sign}: {first:.3f} to {kept:.3f}."
        guess = float(getattr(self.mean_guess, self.goal))
        if self.scoring == "published":
            return (
                f"{words} A rotation also counted for how ICA happened to fare on it. Guessing the mean leaves "
                f"{guess:.3f}: what lies above that is no privacy."
            )
        if min(first, kept) >= guess:
            return (
                f"{words} Both lie above guessing the mean ({guess:.3f}), which anybody can do: against naive "
                "inference any rotation would have served, and the search gained nothing."
            )
        if kept >= guess:
            return f"{words} Guessing the mean leaves {guess:.3f}: no more than that was gained."
        return words


# One ICA attack on one rotation, and how near its components come to the columns [random-rotation, 4.4].

STARTS = 2
"""Random starts before a rotation's ICA counts as not converged."""
ITERATIONS = 200
FLAT = 1e-10
"""Part of the largest variance below which a direction does not vary: ICA needs a full rank."""


@dataclass(frozen=True)
class Sample:
    """What a search sees of a table: encoded rows (all, or a random part), the covariance of all, column weights."""

    rows: Matrix
    covariance: Matrix
    weights: Matrix
    names: tuple[str, ...]

    @property
    def deviations(self) -> Matrix:
        """Standard deviation of every column; NaN for a constant one, in which there is nothing to hide."""
        found = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return np.where(found > 0, found, np.nan)


@dataclass(frozen=True)
class Trial:
    """What ICA made of a rotation: the lowest guarantees over all orders, and the error left in every column. A run
    that did not converge tells what it found by then, which may be much; that it found little tells nothing."""

    privacy: Unified
    sigma: Matrix
    converged: bool


def ica_trial(sample: Sample, rotation: Matrix, rng: np.random.Generator, *, published: bool = False) -> Trial:
    """Unmix the rotated rows by FastICA and score the components against the columns."""
    white = whitened(sample.rows @ rotation.T)
    components, converged = white, white.shape[1] == 1
    for _ in range(0 if converged else STARTS):
        components, converged = _unmix(white, rng)
        if converged:
            break
    privacy = component_privacy(sample.rows, components, sample.weights, published=published)
    if published:  # whose weights add up to 1: back to the mean 1, with which equal weights change nothing
        width = len(sample.covariance)
        privacy = Unified(privacy.minimum / width, privacy.average / width)
    return Trial(privacy, _sigma(sample, components), converged)


def whitened(Z: Matrix) -> Matrix:
    """Uncorrelated scores of variance 1 in the directions that vary (constant and dependent columns have none)."""
    centred = Z - Z.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(Z))
    varies = values > FLAT * values[-1]
    return np.asarray(centred @ (vectors[:, varies] / np.sqrt(values[varies])))


def _unmix(white: Matrix, rng: np.random.Generator) -> tuple[Matrix, bool]:
    """The components that one start leads to, and whether the search for them converged."""
    ica = FastICA(whiten=False, w_init=haar_rotation(white.shape[1], rng), max_iter=ITERATIONS)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            ica.fit(white)
            unmixing = np.asarray(ica.components_)
        except (np.linalg.LinAlgError, ValueError):
            return white, False
    if not np.isfinite(unmixing).all():
        return white, False
    return white @ unmixing.T, not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


def _sigma(sample: Sample, components: Matrix) -> Matrix:
    """Error left in every column by the component nearest to it, rescaled to the column's mean and deviation. With
    correlation rho, Var(error) = var (2 - 2 |rho|), and var itself where guessing the mean is better."""
    centred = sample.rows - sample.rows.mean(axis=0)
    spread = centred.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = np.abs(centred.T @ components) / len(centred) / (spread[:, None] * components.std(axis=0))
    nearest = np.nan_to_num(np.minimum(rho, 1.0)).max(axis=1)
    return np.asarray(sample.deviations * np.sqrt(np.minimum(2 - 2 * nearest, 1.0)))


ENOUGH = 0.2
"""Standard deviation below which the paper asks for additional methods [5.2]."""

AS_THE_MEAN = 0.95
"""An attack that leaves more than this part of a column's own deviation has learned next to nothing of it."""

MOST_ROWS = 10_000
"""Rows that ICA is tried on; more make it slower and hardly better."""


def searched_key(
    mechanism: Mechanism, encoding: Encoding, asked: SanitizeAsked, progress: Progress
) -> Generator[Phase, None, tuple[Key, SearchResult]]:
    """A search of --search: one pass for the table's covariance and a random part of its rows, then a key. The table
    may exceed the memory."""
    assert asked.search is not None
    found: list[_Sampled] = []
    yield Phase("Sampling", _sampled, found.append)
    rotation, result = search_rotation(
        sample_of(found[0].rows, found[0].moments, encoding),
        iterations=asked.search,
        goal=asked.search_goal,
        scoring="published" if asked.published else asked.search_scoring,
        progress=progress,
    )
    return _key(mechanism, rotation, result, encoding), result


def find_key(
    X: ArrayLike, encoding: Encoding | None = None, mechanism: RandomRotation | None = None, **search: Any
) -> tuple[Key, SearchResult]:
    """Search on encoded rows in memory; the key is for `RandomRotation.fit(..., key=key)`. `search`: see
    `search_rotation`."""
    matrix = as_matrix(X)
    encoding = encoding or Encoding.unit(matrix.shape[1])
    if matrix.shape[1] != encoding.width:
        raise TableError(f"The rows have {matrix.shape[1]} encoded columns, but the encoding has {encoding.width}.")
    rng = search.setdefault("rng", secret_generator())
    part = matrix if len(matrix) <= MOST_ROWS else matrix[rng.choice(len(matrix), MOST_ROWS, replace=False)]
    rotation, result = search_rotation(sample_of(part, Moments.of(matrix), encoding), **search)
    return _key(mechanism or RandomRotation(), rotation, result, encoding), result


def _key(mechanism: Mechanism, rotation: Matrix, result: SearchResult, encoding: Encoding) -> Key:
    blurred = any(mechanism.get_params().get(name) is not None for name in ("noise", "epsilon_record"))
    if result.weak_columns and not blurred:
        warnings.warn(
            f"Attackers miss {counted(len(result.weak_columns), 'column')} by a standard deviation below {ENOUGH} of "
            "the range, and come nearer than the mean alone, whichever rotation is kept. Noise helps here, another "
            "rotation does not: --param noise=laplace, or --epsilon-record.",
            WeakRotationWarning,
            stacklevel=3,
        )
    return mechanism.key_around(rotation, encoding, searched=result.iterations)


class _Sampled:
    """What the pass adds up: moments of all rows, and up to MOST_ROWS rows with the lowest of independent random marks,
    a uniform part of whatever was added up."""

    def __init__(self, moments: Moments, rows: Matrix, marks: Matrix) -> None:
        if len(marks) > MOST_ROWS:
            lowest = np.argpartition(marks, MOST_ROWS)[:MOST_ROWS]
            rows, marks = rows[lowest], marks[lowest]
        self.moments, self.rows, self.marks = moments, rows, marks

    def __add__(self, other: _Sampled) -> _Sampled:
        rows, marks = np.vstack([self.rows, other.rows]), np.concatenate([self.marks, other.marks])
        return _Sampled(self.moments + other.moments, rows, marks)


def _sampled(block: Rows) -> _Sampled:
    return _Sampled(Moments.of(block.X), block.X, secret_generator().random(len(block.X)))


def sample_of(rows: Matrix, moments: Moments, encoding: Encoding) -> Sample:
    """Rows and covariance with the weights of the schema, scaled to the mean 1: equal ones change nothing."""
    weights = np.repeat([group.column.weight for group in encoding.groups], [g.width for g in encoding.groups])
    names = tuple(group.column.name for group in encoding.groups for _ in range(group.width))
    return Sample(rows, moments.covariance(ddof=0), weights / weights.mean(), names)


def search_rotation(
    sample: Sample,
    *,
    iterations: int = 50,
    goal: str = "minimum",
    scoring: str = "measured",
    rng: np.random.Generator | None = None,
    progress: Progress = silent,
) -> tuple[Matrix, SearchResult]:
    """The best rotation of `iterations`; without `rng` drawn from the operating system's entropy. `goal` is the
    guarantee to maximise: the "minimum" over all columns (a bottleneck assignment for every rotation) or their
    "average" (a linear one)."""
    _check_search(sample, iterations, goal, scoring)
    rng, published = rng or secret_generator(), scoring == "published"
    levels, trials = list[float](), list[Trial]()
    best, kept = -np.inf, None
    with threadpool_limits(1, user_api="blas"):  # many small products: threads would only wait for each other
        for iteration in range(iterations):
            rotation = haar_rotation(len(sample.covariance), rng)
            sigma = np.sqrt(vod_matrix(rotation, sample.covariance, published=published))
            order = best_order(sigma / sample.weights, goal)
            naive = sigma[order, np.arange(len(order))]
            levels.append(float(getattr(unified_privacy(naive, sample.weights), goal)))
            if not published or levels[-1] > best:
                trials.append(ica_trial(sample, rotation[order], rng, published=published))
                score = min(levels[-1], getattr(trials[-1].privacy, goal)) if published else levels[-1]
                if score > best:
                    best, kept = score, _Kept(rotation[order], naive, levels[-1], trials[-1])
            progress("Searching", iteration + 1, iterations)
    assert kept is not None
    deviations, capped = sample.deviations, np.minimum(kept.naive, sample.deviations)
    left = np.min([capped, *(trial.sigma for trial in trials)], axis=0)
    weak = (left / sample.weights < ENOUGH) & (left < AS_THE_MEAN * deviations)
    return kept.rotation, SearchResult(
        iterations=iterations,
        goal=goal,
        scoring=scoring,
        naive=unified_privacy(kept.naive if published else capped, sample.weights),
        ica=kept.trial.privacy if kept.trial.converged or published else None,
        ica_anywhere=Unified(*(min(found) for found in zip(*(trial.privacy for trial in trials), strict=True))),
        mean_guess=unified_privacy(deviations, sample.weights),
        ica_runs=len(trials),
        ica_not_converged=sum(not trial.converged for trial in trials),
        optimised=Optimised(levels[0], kept.level),
        weak_columns=tuple(dict.fromkeys(np.array(sample.names, dtype=object)[weak].tolist())),
    )


class _Kept(NamedTuple):
    """The best rotation so far, what naive inference leaves of every column and of all, and what ICA made of it."""

    rotation: Matrix
    naive: Matrix
    level: float
    trial: Trial


def _check_search(sample: Sample, iterations: object, goal: str, scoring: str) -> None:
    for name, value, choices in (("goal", goal, GOALS), ("scoring", scoring, SCORINGS)):
        if value not in choices:
            raise UsageError(
                f"The {name!r} of a rotation search must be {' or '.join(choices)}. Got {value!r} instead."
            )
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise UsageError(
            f"A rotation search needs at least 1 iteration, as in --search 50. Got {iterations!r} instead."
        )
    if not np.nansum(sample.deviations):
        raise TableError("No column varies, so every rotation is as good as any other. Leave --search out.")


# Which row of a rotation stands for which column: the best order against naive inference [random-rotation, 4.3].
#
# The naive adversary takes component j of the release for column j. Swapping rows of R changes whom he mistakes for
# whom and nothing else, so the best order is an assignment problem over the matrix of all pairs, solved exactly in
# polynomial time (the paper searches among d! orders).

GOALS = ("minimum", "average")


def vod_matrix(rotation: Matrix, covariance: Matrix, *, published: bool = False) -> Matrix:
    """V[i, j] = Var(r_i . x - x_j), from the covariance C of the columns alone [Eq. 5]; larger is safer.

        V[i, j] = r_i' C r_i - 2 r_i' C e_j + c_jj

    As `published`, V is largest where component i is *negatively* correlated with column j, so that the best order
    makes the release a mirror image of the table: whoever knows that a search was made turns the sign. The default
    takes the better of both signs, ``r_i' C r_i - 2 |r_i' C e_j| + c_jj``, and is symmetric under R -> -R.
    """
    shared = rotation @ covariance
    variances = np.einsum("ij,ij->i", shared, rotation)
    shared = shared if published else np.abs(shared)
    return np.asarray(np.maximum(variances[:, None] - 2 * shared + np.diag(covariance), 0.0))


def best_order(privacy: Matrix, goal: str = "minimum") -> Codes:
    """Row of the matrix for every column, so that the lowest (or average) chosen entry is as high as can be [Eq. 6]. Of
    several orders with the same minimum the one with the highest average is taken."""
    cost = -privacy if goal == "average" else np.where(privacy >= bottleneck(privacy), -privacy, np.inf)
    rows, columns = linear_sum_assignment(cost)
    return np.asarray(rows[np.argsort(columns)])


def bottleneck(privacy: Matrix) -> float:
    """The highest minimum that any assignment of rows to columns reaches, exactly. A threshold t can be reached if the
    entries of at least t hold a perfect matching; it is searched for by halving among the sorted entries: O(log d)
    matchings of Hopcroft and Karp, O(d^2.5) each."""
    entries = np.unique(privacy)
    # No assignment beats the best entry of its worst row or column.
    most = min(privacy.max(axis=0).min(), privacy.max(axis=1).min())
    low, high = 0, int(np.searchsorted(entries, most))
    while low < high:
        middle = (low + high + 1) // 2
        allowed = csr_matrix(privacy >= entries[middle])
        if (maximum_bipartite_matching(allowed, perm_type="column") >= 0).all():
            low = middle
        else:
            high = middle - 1
    return float(entries[low])
