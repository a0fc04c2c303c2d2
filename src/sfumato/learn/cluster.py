"""Releases in, clusters of plain rows out: clusters.csv, rows.parquet, clusters.json."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from sfumato.channels import Exact, Recipe
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.learn.asked import AUTO, MIXTURES, ClusterAsked
from sfumato.learn.mining.seen import Mined, Part, Seen, file_order, parts_of, pooled, see
from sfumato.release.release import Release, Releases
from sfumato.table import open_table

# A mixture of clusters behind noise, by expectation-maximization on the likelihoods of released values.
#
# Within a cluster columns are independent: a number is normal, a category has shares. The density of a released value
# is that of the cluster sent through the channel, so that the estimate is of the *plain* rows (deconvolution).
# "spherical" has one variance for all clusters and columns of numbers, which is k-means' own model; "diagonal" one for
# each.

MOST_STEPS, TOLERANCE = 150, 5e-5
STARTS, TRIED_STEPS = 5, 15
"""So many beginnings are followed for some steps, and the likeliest of them to the end."""
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Laws:
    """One column in all k clusters: means and variances (k) of its number, shares (k x m') of what is no number."""

    mean: Floats
    variance: Floats
    shares: Matrix

    def over(self, seen: Seen) -> Matrix:
        """Probabilities of the nodes, m x k."""
        present = 1.0 - self.shares.sum(axis=1)
        found = np.empty((len(seen.nodes), len(self.shares)))
        found[seen.numbers :] = self.shares.T
        if seen.numbers:
            away = (seen.grid[:, None] - self.mean) ** 2 / (2.0 * self.variance)
            bell = np.exp(away.min(axis=0) - away)
            found[: seen.numbers] = present * bell / bell.sum(axis=0)
        return found


@dataclass(frozen=True, eq=False)
class Mixture:
    """Clusters of plain rows, the largest first. `score`: mean log-likelihood of a released row, up to a constant that
    depends on the rows only."""

    model: str
    weights: Floats
    laws: tuple[Laws, ...]
    score: float = 0.0

    @property
    def clusters(self) -> int:
        return len(self.weights)

    def log_joint(self, seen: Sequence[Seen]) -> Matrix:
        """log P(cluster, released row), n x k, up to the same constant."""
        total = np.tile(np.log(self.weights + _TINY), (len(seen[0].codes), 1))
        for column, laws in zip(seen, self.laws, strict=True):
            told = np.log(column.lines @ laws.over(column) + _TINY)
            total += np.where(column.reported[:, None], told[column.codes], 0.0)
        return total

    def responsibilities(self, seen: Sequence[Seen]) -> Matrix:
        """P(cluster | released row), n x k."""
        joint = self.log_joint(seen)
        return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def fit_mixture(
    seen: Sequence[Seen], clusters: int, model: str = "diagonal", *, seed: int = 0, starts: int = STARTS
) -> Mixture:
    """The likeliest of several runs, each from k-means on what the rows are likely to have been."""
    one = _run(seen, _first(seen, np.ones((len(seen[0].codes), 1)), model))
    if clusters == 1:
        return one
    from sklearn.cluster import KMeans

    guesses, runs = expected_values(seen, one), []
    for number in range(seed, seed + starts):
        # Every other start weighs columns at random, so that starts differ where one column would decide them all.
        weigh = (number - seed) % 2 == 1
        weights = np.random.default_rng(number).exponential(size=guesses.shape[1]) if weigh else 1.0
        with threadpool_limits(1):  # for tables this small, threads that wait for each other cost more than they give
            labels = KMeans(clusters, n_init=1, random_state=number).fit_predict(guesses * weights)
        runs.append(_run(seen, _first(seen, np.eye(clusters)[labels], model), TRIED_STEPS))
    found = _run(seen, max(runs, key=lambda run: run.score))
    order: Codes = np.argsort(-found.weights, kind="stable")
    laws = tuple(Laws(one.mean[order], one.variance[order], one.shares[order]) for one in found.laws)
    return Mixture(model, found.weights[order], laws, found.score)


def expected_values(seen: Sequence[Seen], one: Mixture) -> Matrix:
    """For every row the mean of each column given what was released of it, where all rows are one cluster."""
    found = []
    for column, laws in zip(seen, one.laws, strict=True):
        prior = laws.over(column)[:, 0]
        posterior = column.lines * prior
        posterior /= posterior.sum(axis=1, keepdims=True) + _TINY
        values = np.vstack([posterior @ column.nodes, prior @ column.nodes])  # the last line: not reported
        found.append(values[column.codes])
    return np.hstack(found)


def _first(seen: Sequence[Seen], belongs: Matrix, model: str) -> Mixture:
    """From a grouping of the rows, as if every line were that of its likeliest value."""
    k, flat = belongs.shape[1], []
    for column in seen:
        mean, variance = (column.grid.mean(), np.ptp(column.grid) ** 2) if column.numbers else (0.0, 1.0)
        shares = np.full((k, len(column.nodes) - column.numbers), 1.0 / len(column.nodes))
        flat.append(Laws(np.full(k, mean), np.full(k, variance), shares))
    return _maximised(seen, Mixture(model, np.full(k, 1.0 / k), tuple(flat)), belongs)


def _run(seen: Sequence[Seen], mixture: Mixture, steps: int = MOST_STEPS) -> Mixture:
    best, last = mixture, -np.inf
    for _ in range(steps):
        joint = mixture.log_joint(seen)
        rows = logsumexp(joint, axis=1, keepdims=True)
        best = replace(mixture, score=float(rows.mean()))
        if best.score - last < TOLERANCE:
            break
        last = best.score
        mixture = _maximised(seen, mixture, np.exp(joint - rows))
    return best


def _maximised(seen: Sequence[Seen], old: Mixture, belongs: Matrix) -> Mixture:
    """The M-step: expected counts of the nodes in every cluster, and the laws that fit them."""
    sizes, sums = belongs.sum(axis=0), []
    for column, laws in zip(seen, old.laws, strict=True):
        prior = laws.over(column)
        ratio = column.counts(belongs) / (column.lines @ prior + _TINY)
        sums.append(prior * (column.lines.T @ ratio))
    return Mixture(old.model, sizes / sizes.sum(), _with_variances(seen, sums, old.model))


def _with_variances(seen: Sequence[Seen], sums: Sequence[Matrix], model: str) -> tuple[Laws, ...]:
    """`diagonal`: the clusters' common variance counts in that of each as many rows as there are columns, so that no
    cluster shrinks to a point; never below the distance of two nodes."""
    spreads = []  # in every cluster: how many rows have a number, its mean, and the sum of squares about it
    for column, counts in zip(seen, sums, strict=True):
        numbers = counts[: column.numbers]
        present = numbers.sum(axis=0)
        mean = column.grid @ numbers / np.maximum(present, _TINY) if column.numbers else present
        spreads.append((present, mean, ((column.grid[:, None] - mean) ** 2 * numbers).sum(axis=0)))
    shared = sum(float(squares.sum()) for _, _, squares in spreads)
    shared /= max(sum(float(present.sum()) for present, _, _ in spreads), _TINY)
    laws = []
    for column, counts, (present, mean, squares) in zip(seen, sums, spreads, strict=True):
        variance = np.ones(len(present))
        if column.numbers:
            if model == "spherical":
                variance = np.full(len(present), shared)
            else:
                pooled = float(squares.sum()) / max(float(present.sum()), _TINY)
                variance = (squares + len(seen) * pooled) / (present + len(seen))
            variance = np.maximum(variance, column.step**2)
        shares = (counts[column.numbers :] / np.maximum(counts.sum(axis=0), _TINY)).T
        laws.append(Laws(mean, variance, shares))
    return tuple(laws)


# How far two groupings of the same rows agree.


def adjusted_rand(first: ArrayLike, second: ArrayLike) -> float:
    """Adjusted Rand index [Hubert & Arabie 1985] of two groupings: 1 for the same, about 0 for chance."""
    a, b = (np.unique(np.asarray(one), return_inverse=True)[1].ravel() for one in (first, second))
    table = np.zeros((int(a.max(initial=0)) + 1, int(b.max(initial=0)) + 1))
    np.add.at(table, (a, b), 1.0)
    return adjusted_rand_of(table)


def adjusted_rand_of(table: Matrix) -> float:
    """The same from the table of how many rows both groupings put where; counts may be expected ones."""

    def pairs(counts: Matrix) -> float:
        return float((counts * (counts - 1.0)).sum()) / 2.0

    together, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    total = table.sum() * (table.sum() - 1.0) / 2.0
    expected = rows * columns / total if total else 0.0
    most = (rows + columns) / 2.0
    return 1.0 if most == expected else float((together - expected) / (most - expected))


# How many clusters a release shows, and whether they come again: from released rows alone.

FOLDS = 4
FEWER_STARTS = 3
"""Of each fit to the other folds."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One number of clusters and model, and its log-likelihood of released rows that it was not fitted to.

    `gain`: that less one cluster's, a row; `error`: its standard error over rows.
    """

    clusters: int
    model: str
    rows: Floats
    gain: float
    error: float

    @property
    def score(self) -> float:
        return float(self.rows.mean())

    @property
    def is_shown(self) -> bool:
        """Whether the held-out rows are likelier than under one cluster, by two standard errors."""
        return self.gain > 2.0 * self.error

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("clusters", "model", "score", "gain", "error", "is_shown")}


def candidates(seen: Sequence[Seen], numbers: Sequence[int], model: str, seed: int) -> list[Candidate]:
    """Numbers of clusters and models on the same folds, one cluster first; no further than two that bring nothing."""
    n = len(seen[0].codes)
    fold = np.random.default_rng(seed).permutation(n) % FOLDS
    found: list[Candidate] = []
    # Models differ in the variances of numbers: where all columns are categories, one of them is enough.
    models = MIXTURES if any(column.numbers for column in seen) else MIXTURES[:1]
    for one in (model,) if model != AUTO else models:
        alone = held_out(seen, 1, one, fold, seed)
        best, vain = -np.inf, 0
        for clusters in sorted({1, *numbers}):
            rows = alone if clusters == 1 else held_out(seen, clusters, one, fold, seed)
            gain = rows - alone
            found.append(Candidate(clusters, one, rows, float(gain.mean()), float(gain.std() / np.sqrt(n))))
            vain = 0 if found[-1].score > best else vain + 1
            best = max(best, found[-1].score)
            if vain == 2:
                break
    return found


def choose(tried: Sequence[Candidate], clusters: int | None) -> Candidate:
    """The fewest clusters that are no worse than the best, and of these the likeliest; or the number that is given."""
    fitting = [one for one in tried if clusters in (None, one.clusters)]
    best = max(fitting, key=lambda one: one.score)
    less = [best.rows - one.rows for one in fitting]
    # no worse by more than a standard error
    near = [float(rows.mean()) <= float(rows.std()) / math.sqrt(len(rows)) for rows in less]
    as_good = list(itertools.compress(fitting, near))
    fewest = min(one.clusters for one in as_good)
    return max((one for one in as_good if one.clusters == fewest), key=lambda one: one.score)


def held_out(seen: Sequence[Seen], clusters: int, model: str, fold: Codes, seed: int) -> Floats:
    """Log-likelihood of every released row under the mixture that was fitted to the other folds."""
    scores = np.empty(len(fold))
    for number in range(FOLDS):
        rest, here = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        fitted = fit_mixture([one.take(rest) for one in seen], clusters, model, seed=seed, starts=FEWER_STARTS)
        scores[here] = logsumexp(fitted.log_joint([one.take(here) for one in seen]), axis=1)
    return scores


def stability(seen: Sequence[Seen], fitted: Mixture, resamples: int, seed: int) -> list[float]:
    """Adjusted Rand index between the grouping of the rows and that by a mixture fitted to a bootstrap sample."""
    rng = np.random.default_rng(seed)
    mine, n = fitted.responsibilities(seen).argmax(axis=1), len(seen[0].codes)
    found = []
    for number in range(resamples):
        rows = rng.integers(n, size=n)
        again = fit_mixture([one.take(rows) for one in seen], fitted.clusters, fitted.model, seed=seed + number + 1)
        found.append(adjusted_rand(mine, again.responsibilities(seen).argmax(axis=1)))
    return found


def expected_agreement(responsibilities: Matrix) -> float:
    """If the mixture is right: how far the grouping of released rows agrees with the clusters that they came from."""
    chosen = np.eye(responsibilities.shape[1])[responsibilities.argmax(axis=1)]
    return adjusted_rand_of(responsibilities.T @ chosen)


# Releases in, clusters out.

TRIED = range(2, 9)
"""How many clusters are tried where their number is not given."""
ROWS_PER_CLUSTER = 5
"""Fewer rows tell nothing of a cluster's spread."""
BLURRED = 0.5
"""Below this expected agreement the groups of single rows are said to be mostly noise."""


@dataclass(frozen=True, repr=False)
class Clustering(Mined):
    """Clusters of the plain rows behind a release.

    Attributes
    ----------
    labels : numpy.ndarray of int
        The likeliest cluster of every released row, 0 for the largest.
    probabilities : numpy.ndarray
        P(cluster | released row), one column for each cluster.
    about : dict
        Everything in figures: shares, held-out likelihoods, stability, and for the owner what was lost.
    """

    name: ClassVar[str] = "clusters"
    mixture: Mixture
    labels: Codes
    probabilities: Matrix
    centres: pa.Table
    about: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Clustering of {len(self.labels):,} released rows: {self.mixture.clusters} clusters>"

    def files(self) -> dict[str, pa.Table]:
        """clusters.csv (centres) and rows.parquet (cluster of each released row)."""
        certainty = self.probabilities.max(axis=1)
        rows = pa.table({"cluster": self.labels, "probability": certainty})
        return {"clusters.csv": self.centres, "rows.parquet": rows}


@asks(ClusterAsked)
def cluster(releases: Releases, options: ClusterAsked) -> Clustering:
    """Clusters of the plain rows behind releases: the noise on their cards is taken out.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Of one space. Each part's noise is read from its own card.
    {options}

    Returns
    -------
    Clustering
        `labels`, `probabilities`, `centres`, `about` and `warnings`; `save(folder)` writes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [24, 61, 27, 66, 22] * 40}
    >>> release = sf.sanitize(people, mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)
    >>> found = sf.cluster(release, clusters=2, resamples=0)
    >>> [round(share, 1) for share in found.about["shares"]]
    [0.6, 0.4]
    """
    wanted, original, seed = _wanted(options.clusters), options.original, options.seed
    releases = pooled(releases, public=original is None)
    parts = [part for release in releases for part in parts_of(release)]
    _check_rows(sum(len(part.Z) for part in parts), wanted)
    seen = see(parts)
    tried = candidates(seen, TRIED if wanted is None else [wanted], options.model, seed)
    chosen = choose(tried, wanted)
    fitted = fit_mixture(seen, chosen.clusters, chosen.model, seed=seed)
    probabilities = fitted.responsibilities(seen)
    placed = np.empty_like(probabilities)
    placed[file_order(releases)] = probabilities
    labels: Codes = placed.argmax(axis=1)
    about: dict[str, Any] = {
        "rows": len(labels),
        "clusters": chosen.clusters,
        "model": chosen.model,
        "chosen_by": "held-out likelihood of released rows" if wanted is None else "given",
        "shares": fitted.weights.tolist(),
        "tried": [one.to_dict() for one in tried],
        "is_shown": chosen.clusters > 1 and chosen.is_shown,
        "expected_agreement": expected_agreement(probabilities),
        "stability": stability(seen, fitted, options.resamples, seed) if chosen.clusters > 1 else [],
    }
    if original is not None:
        about["lost"] = lost(releases, fitted, seen, labels, original, seed)
    about["warnings"] = _warnings(about, releases)
    centres = _centres(releases[0].card.made_by(), fitted, seen)
    return Clustering(fitted, labels, placed, centres, about)


def _wanted(clusters: int | str) -> int | None:
    """The number of clusters that is asked for, if one is."""
    if clusters == AUTO:
        return None
    if isinstance(clusters, bool | str) or int(clusters) < 1:
        raise UsageError(f"The number of clusters must be a whole number above 0, or auto. Got {clusters!r} instead.")
    return int(clusters)


def _check_rows(rows: int, wanted: int | None) -> None:
    if rows < 20:
        raise UsageError("There are fewer than 20 released rows: nothing can be said of clusters behind noise.")
    if wanted is not None and wanted > rows // ROWS_PER_CLUSTER:
        raise UsageError(
            f"{wanted:,} clusters are too many for {rows:,} released rows. "
            f"Ask for at most {rows // ROWS_PER_CLUSTER:,}, or auto."
        )


def _warnings(about: dict[str, Any], releases: Sequence[Release]) -> list[str]:
    found = []
    if about["clusters"] == 1:
        found.append("One cluster explains the released rows best: if there are more, the noise hides them.")
    elif not about["is_shown"]:
        found.append(
            f"The release does not show that there are {about['clusters']} clusters: rows held out are not clearly "
            "likelier than under one cluster. Do not rely on them."
        )
    if about["clusters"] > 1 and about["expected_agreement"] < BLURRED:
        found.append(
            f"Single rows cannot be told apart: even if the clusters are right, the groups of released rows agree with "
            f"them to {about['expected_agreement']:.2f} (adjusted Rand index). Use the centres and shares, and assign "
            "plain rows."
        )
    if any(release.card.made_by().rows != "perturbed" for release in releases):
        found.append("Released rows were drawn, so several can come from one person: held-out rows are not new people.")
    return found


def _centres(recipe: Recipe, fitted: Mixture, seen: Sequence[Seen]) -> pa.Table:
    """Share and centre of every cluster: source columns in raw units, or components as they are released."""
    found = np.full((fitted.clusters, recipe.width), 0.5)  # means of what channels were given; 1/2 of a constant
    for one, laws in zip(seen, fitted.laws, strict=True):
        found[:, one.place] = laws.over(one).T @ one.nodes
    told = {"cluster": np.arange(fitted.clusters), "share": fitted.weights}
    columns = {f"c{place:03d}": found[:, place] for place in range(recipe.width)}
    if recipe.is_columnwise:
        columns = {}
        for group in recipe.encoding.groups:
            inside = found[:, group.slice]
            if group.is_onehot:
                columns |= {f"{group.column.name}={slot}": inside[:, j] for j, slot in enumerate(group.slots)}
                continue
            low, high = group.column.bounds
            missing = inside[:, 1] if group.has_indicator else np.zeros(len(inside))
            shown = (inside[:, 0] - 0.5 * missing) / np.maximum(1.0 - missing, 1e-12)
            columns[group.column.name] = low + (high - low) * shown
            if group.has_indicator:
                columns[f"{group.column.name} missing"] = missing
    return pa.table({**told, **columns})


def lost(
    releases: Sequence[Release], fitted: Mixture, seen: Sequence[Seen], labels: Codes, original: Any, seed: int
) -> dict[str, float]:
    """For the owner: adjusted Rand index against the same clustering of the original rows, and of plain k-means."""
    if len(releases) != 1 or releases[0].source is None:
        raise UsageError("What was lost can be told to the owner only, of one release with its private match file.")
    release = releases[0]
    recipe = release.card.made_by()
    plain = recipe.map.apply(recipe.encoding.encode(open_table(original).read()).X[release.source])
    return compare_with_plain(Part(release.Z, recipe, recipe.channels), plain, fitted, seen, labels, seed)


def compare_with_plain(
    released: Part, plain: Matrix, fitted: Mixture, seen: Sequence[Seen], labels: Codes, seed: int = 0
) -> dict[str, float]:
    """`plain`: what the channels were given of every released row.

    `released_rows`: their groups against the clusters of the original; `plain_rows`: the original rows grouped by the
    clusters found in the release. Both also of k-means that takes released values for true ones.
    """
    from sklearn.cluster import KMeans

    Z, recipe = released.Z, released.recipe
    whole = Recipe(recipe.encoding, recipe.map, (Exact(recipe.width),))
    nodes = {one.name: one for one in seen}
    exact = [one for one in see([Part(plain, whole, whole.channels)]) if one.name in nodes]
    best = fit_mixture(exact, fitted.clusters, fitted.model, seed=seed)
    truth = best.responsibilities(exact).argmax(axis=1)
    told = {
        "released_rows": adjusted_rand(truth, labels),
        "plain_rows": adjusted_rand(truth, fitted.responsibilities(exact).argmax(axis=1)),
    }
    if np.isnan(Z).any():
        return told
    naive = KMeans(fitted.clusters, n_init=5, random_state=seed).fit(Z)
    told["released_rows_by_k_means"] = adjusted_rand(truth, naive.labels_)
    told["plain_rows_by_k_means"] = adjusted_rand(truth, naive.predict(np.ascontiguousarray(plain)))
    return told
