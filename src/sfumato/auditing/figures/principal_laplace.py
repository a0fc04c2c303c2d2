"""principal-laplace on one split: release, attack, classify; its tables and figures as items.

`figure_filtering` is Fig. 8 with what the paper leaves out beside it, for the owner of a table. Time is that of the
cores (all threads added up), not of the clock: on a machine with other work the clock tells little.
"""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.attacks.base import ColumnMoments, Knowledge, KnownNoise, Transform, Values, promised
from sfumato.attacks.linear_estimate import KnownTransform, LinearEstimate, NaiveEstimate, PrincipalFilter
from sfumato.attacks.metrics.privacy import interval_width
from sfumato.attacks.metrics.utility import accuracy
from sfumato.auditing.asked import FilteringAsked
from sfumato.auditing.figures.item import ANY, Found, Name, item, over_repeats
from sfumato.auditing.figures.sets import SHAPES, DataSet, encoded_rows, gaussian_clusters
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.guarantee import amplification, posterior_bound
from sfumato.learn.classifiers import Part, RadiusVote, fit_on_parts, noise_summary
from sfumato.learn.classifiers.geometric import NeighbourLadder
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.column_noise import AdditiveNoise
from sfumato.mechanisms.principal_laplace import PrincipalLaplace
from sfumato.mechanisms.random_rotation import RandomProjection
from sfumato.table import Column, Encoding, Schema, open_table, write_table
from sfumato.table.neighbours.nearest import nearest


def neighbour_accuracies(
    rows: Matrix, codes: Codes, queries: Matrix, truth: Codes, rng: np.random.Generator
) -> dict[str, float]:
    """Of distance-weighted nearest neighbours [Eq. 11]: accuracy of the best k by cross-validation and of k = 5, and
    that k; higher is better."""
    ladder = NeighbourLadder(rows, codes)
    right = (ladder.predict(queries) == truth).mean(axis=1)
    best = int(ladder.held_out(rng).argmax())
    k5 = float(right[ladder.ladder.index(5)])
    return {"best_k": float(right[best]), "k": float(ladder.ladder[best]), "k5": k5}


Reached = dict[str, float]
B = (0.1, 0.2, 0.3)
B_FINE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
DEVIATIONS = (0.1, 0.25, 0.5)
COLUMNS = ("m/4", "m/2", "m-1")
SHARES = (0.25, 0.5, 1.0)
"""Of a column's values that are swapped."""
NEAR = 0.05
RHO_1 = 0.001
STRONGEST = 0.3
"""The largest b of the paper's experiments."""
MOST_CANDIDATES = 20
"""Numbers of components that the filter tries."""
PAIRS = 100_000
"""Of rows, over which a distortion is measured."""
MOST_ATTACKED = 5000
"""Released rows that are attacked: a filter with 50 candidates makes 50 guesses at every row."""
REAL = ("wine", "pendigits", "wdbc", "magic04", "ionosphere", "iris", "waveform")
SETS = (*REAL, "synthetic-2", "synthetic-8")
"""In the order of Table 2."""


class Split(NamedTuple):
    """Training rows X, y (released and attacked), queries Q, q (never released), and which columns hide something."""

    X: Matrix
    y: Codes
    Q: Matrix
    q: Codes
    varies: Flags

    @classmethod
    def of(cls, data: DataSet, rng: np.random.Generator) -> Split:
        """A tenth of the rows asks [6.1.1], unless the split is given."""
        X, order = data.unit(), rng.permutation(len(data.X))
        tested = round(0.1 * len(order))
        asked, released = order[:tested], order[tested:]
        if data.given:
            released, asked = np.arange(data.given), np.arange(data.given, len(X))
        return cls(X[released], data.y[released], X[asked], data.y[asked], np.ptp(X, axis=0) > 0)


def as_published(b: float, components: float = 0.5) -> PrincipalLaplace:
    """Fig. 2 to the letter: half of the components, scales from the scores' own range, floating-point noise."""
    return PrincipalLaplace(b=b, components=components, component_bounds="data", noise="float")


def pca_radius(split: Split, b: float, rng: np.random.Generator) -> Reached:
    """PCA-Radius, PCA-Best-K and PCA-K=5, and the attacks on their release [Figs 5, 8, 9]."""
    mechanism = as_published(b)
    Z = mechanism.release(split.X, split.y, rng).X
    asked = mechanism.embed(split.Q)
    known = knowledge(mechanism, Z, split.X)
    reversed_pca = attacked(KnownTransform(clip=False), known)
    found = {
        "mean": privacy(split, np.broadcast_to(split.X.mean(axis=0), split.X[:MOST_ATTACKED].shape)),
        "reversed": privacy(split, reversed_pca),
        "reversed_clipped": privacy(split, np.clip(reversed_pca, 0, 1)),
        **filtered(known, split),
    }
    for name, corrected in (("radius", False), ("corrected", True)):
        vote, predicted = radius_vote(mechanism, Z, split.y, asked, corrected)
        found |= {name: accuracy(split.q, predicted), "fallback": vote.fallback_rate_}
    squares = ((asked[:50, None, :] - Z[None, :MOST_ATTACKED, :]) ** 2).sum(axis=2)  # share inside the vote's circle
    found["inside"] = float((squares <= vote.squared_radius_[0]).mean())
    return found | neighbour_accuracies(Z, split.y, asked, split.q, rng)


def additive(law: str) -> Callable[[Split, float, np.random.Generator], Reached]:
    """Noise on the columns themselves: Rand-U, Rand-N, and Laplace noise without PCA (Fig. 8)."""

    def trial(split: Split, scale: float, rng: np.random.Generator) -> Reached:
        mechanism = AdditiveNoise(law, scale=scale, noise="float")
        Z = mechanism.release(split.X, split.y, rng).X
        known = knowledge(mechanism, Z, split.X)
        found = {"unfiltered": privacy(split, Z[:MOST_ATTACKED]), **filtered(known, split)}
        found["naive"] = privacy(split, attacked(NaiveEstimate(), known))
        return found if law == "laplace" else found | neighbour_accuracies(Z, split.y, split.Q, split.q, rng)

    return trial


def rand_p(split: Split, share: str, rng: np.random.Generator) -> Reached:
    """Rand-P: k random columns, undone by the pseudo-inverse of the random matrix."""
    m = split.X.shape[1]
    k = {"m/4": max(1, m // 4), "m/2": m // 2, "m-1": m - 1}[share]
    mechanism, encoding = RandomProjection(components=k), Encoding.unit(m)
    # The product draws its keys from the operating system; here the matrix must be repeatable.
    matrix = rng.standard_normal((k, m)) / math.sqrt(k)
    drawn = mechanism.draw_key(encoding)
    key = replace(drawn, arrays=dict.fromkeys(drawn.arrays, matrix))
    Z = mechanism.release(split.X, split.y, rng, encoding=encoding, key=key).X
    known = knowledge(mechanism, Z, split.X, Transform(matrix, np.zeros(k)))
    guess = attacked(KnownTransform(clip=False), known)
    return {
        "filtered": privacy(split, guess),
        "filtered_clipped": privacy(split, np.clip(guess, 0, 1)),
        "linear": privacy(split, attacked(LinearEstimate(), known)),
        **neighbour_accuracies(Z, split.y, mechanism.embed(split.Q), split.q, rng),
    }


def swapping(split: Split, share: float, rng: np.random.Generator) -> Reached:
    """Data swapping [Dalenius & Reiss 1982]: in each column that share of the rows, drawn anew, trades its values.

    There is no noise to filter. The paper calls it unsafe, as swapped values need not differ much: `near` counts.
    """
    Z = split.X.copy()
    for column in Z.T:
        chosen = rng.permutation(len(Z))[: round(share * len(Z))]
        column[chosen] = column[rng.permutation(chosen)]
    near = np.abs(Z - split.X)[:, split.varies] <= NEAR
    found = {"filtered": privacy(split, Z), "near": float(near.mean())}
    return found | neighbour_accuracies(Z, split.y, split.Q, split.q, rng)


def radius_vote(mechanism: Mechanism, Z: Matrix, y: Codes, asked: Matrix, corrected: bool) -> tuple[RadiusVote, Codes]:
    """The modified KNN of Fig. 4, fitted on the release, and which class gets most votes (not weighed further)."""
    vote = fit_on_parts(RadiusVote(prior_correction=corrected), [Part(Z, y, mechanism.recipe_)])
    return vote, vote.classes_[vote.vote_shares(asked).argmax(axis=1)]


def knowledge(
    mechanism: Mechanism, Z: Matrix, X: Matrix, transform: Transform | None = None, most: int = MOST_ATTACKED
) -> Knowledge:
    """The strongest adversary of 6.1.3: knows the transform, how strong the noise is, and the columns' moments."""
    recipe = mechanism.recipe_
    noise = KnownNoise.of(recipe.channels, recipe.map.apply(X))
    public = recipe.map.affine()
    assert public is not None
    return Knowledge(
        release=Z[:most],
        encoding=mechanism.encoding_,
        columnwise=mechanism.columnwise,
        transform=transform or noise.on_average(*public),
        noise=noise,
        noise_covariance=noise.covariance(),
        column_moments=ColumnMoments(X.mean(axis=0), np.cov(X, rowvar=False)),
    )


def attacked(attack: KnownTransform | LinearEstimate | NaiveEstimate, known: Knowledge) -> Matrix:
    """The attacker's guess."""
    guess = attack.run(known)
    assert isinstance(guess, Values)
    return guess.X


def candidates(known: Knowledge, truth: Matrix, most: int) -> tuple[Matrix, Matrix, int]:
    """Filtered with the number of components that comes closest to the original, as the paper does [6.1.3]; with the
    filter's own number; and the former number. Neither is clipped."""
    guess = PrincipalFilter(clip=False, most_candidates=most).run(known)
    assert isinstance(guess, Values)
    tried = [float(((X - truth) ** 2).mean()) for X in guess.scored][1:]  # the first is the filter's own
    best = int(np.argmin(tried)) + 1
    return promised(guess.settled(best).aimed), guess.X, best


def filtered(known: Knowledge, split: Split) -> Reached:
    """PCA filtering, unclipped and clipped; and the linear estimate."""
    best, own, components = candidates(known, split.X[: len(known.release)], MOST_CANDIDATES)
    return {
        "filtered": privacy(split, best),
        "filtered_clipped": privacy(split, np.clip(best, 0, 1)),
        "filtered_own": privacy(split, own),
        "filter_components": float(components),
        "linear": privacy(split, attacked(LinearEstimate(), known)),
    }


def privacy(split: Split, guess: Matrix) -> float:
    """Average privacy: width of the error's 95% interval over the column's range, mean over the columns that vary."""
    widths = interval_width(split.X[: len(guess)], guess, span=np.ones(guess.shape[1]))
    return float(widths[split.varies].mean())


@item(
    REAL,
    printed={n: dict(zip(("attributes", "records", "classes"), map(float, SHAPES[n]), strict=True)) for n in REAL},
    repeats=0,
)
def table_2(data: DataSet, rng: np.random.Generator) -> Found:  # noqa: ARG001 - nothing is drawn
    """Attributes, records and classes of the data sets."""
    return {"attributes": data.X.shape[1], "records": len(data.X), "classes": len(np.unique(data.y))}


@item(SETS, learns=True)
def figure_5(data: DataSet, rng: np.random.Generator) -> Found:
    """Average privacy and accuracy of PCA-Radius, Rand-P, Rand-U and Rand-N; and of swapping, which section 2 names."""
    split = Split.of(data, rng)
    found: dict[Any, float] = {}
    ways: tuple[tuple[str, str, Callable[..., Reached], tuple[Any, ...]], ...] = (
        ("PCA-Radius, b =", "radius", pca_radius, B),
        ("Rand-P, k =", "best_k", rand_p, COLUMNS),
        ("Rand-U, sd", "best_k", additive("uniform"), DEVIATIONS),
        ("Rand-N, sd", "best_k", additive("normal"), DEVIATIONS),
        ("Swapping, share", "best_k", swapping, SHARES),
    )
    for title, learner, trial, settings in ways:
        for setting in settings:
            one = trial(split, setting, rng)
            found[f"{title} {setting}: privacy"] = one["filtered"]
            found[f"{title} {setting}: accuracy"] = one[learner]
            if "near" in one:
                found[f"{title} {setting}: values that stay within 5% of the range"] = one["near"]
    return found


@item(
    printed={ANY: {("amplification", 0.25): 50.0, ("amplification", 0.3): 28.0, ("rho_2", 0.3): 0.028}},
    axis="b",
    repeats=0,
)
def figure_6(data: DataSet, rng: np.random.Generator) -> Found:  # noqa: ARG001 - arithmetic alone
    """(a) amplification e^(1/b) of a component; (b) the largest rho_2 for rho_1 = 0.001."""
    factors = {("amplification", b): amplification(1 / b) for b in B_FINE}
    return factors | {("rho_2", b): posterior_bound(RHO_1, 1 / b) for b in B_FINE}


def _drops(means: Mapping[Any, float]) -> Found:
    """What filtering takes away, as a share of the privacy before it."""
    with_pca, without = (
        [1 - means[way, b] / means["No-Filtering", b] for b in B] for way in ("PCA + Filtering", "No-PCA + Filtering")
    )
    return {"biggest drop, PCA + Filtering": max(with_pca), "biggest drop, No-PCA + Filtering": max(without)}


@item(SETS, printed={ANY: {"biggest drop, PCA + Filtering": 0.10}}, axis="b", over=_drops, learns=True)
def figure_8(data: DataSet, rng: np.random.Generator) -> Found:
    """Average privacy after reverse PCA, after PCA and filtering, and without PCA after filtering."""
    split = Split.of(data, rng)
    found: dict[Any, float] = {}
    for b in B:
        with_pca, without = pca_radius(split, b, rng), additive("laplace")(split, b, rng)
        found |= {("No-Filtering", b): with_pca["reversed"], ("PCA + Filtering", b): with_pca["filtered"]}
        found |= {("No-PCA + Filtering", b): without["filtered"], ("linear estimate, PCA", b): with_pca["linear"]}
    return found


K5_DROP = {
    "waveform": {("radius above k = 5", 0.2): 0.18, ("radius above k = 5", 0.3): 0.21},
    "synthetic-8": {("radius above k = 5", 0.2): 0.30, ("radius above k = 5", 0.3): 0.45},
}
"""How much accuracy k = 5 loses against PCA-Radius [6.4]."""


@item(SETS, printed=K5_DROP, axis="b", learns=True)
def figure_9(data: DataSet, rng: np.random.Generator) -> Found:
    """Accuracy of PCA-Radius, PCA-Best-K and PCA-K=5."""
    split = Split.of(data, rng)
    plain = neighbour_accuracies(split.X, split.y, split.Q, split.q, rng)
    found: dict[Any, float] = {("radius", 0.0): plain["k5"]}
    found |= {("best k", 0.0): plain["best_k"], ("k = 5", 0.0): plain["k5"]}
    for b in B:
        one = pca_radius(split, b, rng)
        found |= {("radius", b): one["radius"], ("best k", b): one["best_k"], ("k = 5", b): one["k5"]}
        found |= {("radius, votes over priors", b): one["corrected"]}
        found |= {("radius above k = 5", b): one["radius"] - one["k5"]}
    return found


@item(SETS, axis="b")
def equations_12_13(data: DataSet, rng: np.random.Generator) -> Found:
    """Mean and variance of the distortion of a squared distance, by the formulas and over pairs of rows."""
    # D = d'^2 - d^2 for pairs of a released and a queried row, d over all components.
    split = Split.of(data, rng)
    found: dict[Any, float] = {}
    for b in B:
        mechanism = as_published(b)
        Z = mechanism.release(split.X, None, rng).X
        mean, variance = noise_summary(mechanism.recipe_, Z.shape[1]).distortion()
        rows, asked = (rng.integers(len(side), size=PAIRS) for side in (split.X, split.Q))
        after = ((Z[rows] - mechanism.embed(split.Q)[asked]) ** 2).sum(axis=1)
        distortion = after - ((split.X[rows] - split.Q[asked]) ** 2).sum(axis=1)
        found |= {("E(D), Eq. 12", b): mean, ("E(D), measured", b): float(distortion.mean())}
        found |= {("Var(D), Eq. 13", b): variance, ("Var(D), measured", b): float(distortion.var())}
    return found


@dataclass(frozen=True)
class Filtering:
    """Average privacy at one b, as a share of the columns' ranges; larger is safer.

    The three scenarios of the figure, and beside them what the paper leaves out: the drops, noise without PCA before it
    is filtered, the linear estimate (at least as strong as filtering), and guessing the mean (the most there is).
    """

    b: float
    no_filtering: float
    pca_filtering: float
    no_pca_filtering: float
    no_pca: float
    linear_after_pca: float
    linear_without_pca: float
    guessing_the_mean: float
    standard_errors: Mapping[str, float] | None = None
    """Of the means, where it was repeated."""


@asks(FilteringAsked)
def figure_filtering(table: Any, options: FilteringAsked) -> list[Filtering]:
    """Average privacy with and without PCA, before and after filtering [principal-laplace, Fig. 8].

    Nothing is released: the figures are the owner's, who looks at the originals.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        A private table.
    {options}

    Returns
    -------
    list of Filtering
        One for each scale: `no_filtering`, `pca_filtering`, `no_pca_filtering` and what to hold them against.
    """
    X, _ = encoded_rows(table, options)
    nothing = np.zeros(len(X), dtype=np.int64)
    split = Split(X, nothing, X, nothing, np.ptp(X, axis=0) > 0)
    scales, repeats, seed, progress = options.scales, options.repeats, options.seed, options.progress
    for b in scales:
        if isinstance(b, bool) or not isinstance(b, int | float) or not 0 < b < np.inf:
            raise UsageError(f"A scale b must be a positive number, for example 0.3. Got {b!r} instead.")
    found = []
    for number, b in enumerate(scales):
        drawn = []
        for repeat in range(repeats):
            progress("Attacking", number * repeats + repeat, len(scales) * repeats)
            drawn.append(_filtered(split, float(b), options.components, seed + 2 * repeat))
        means, errors = over_repeats(drawn)
        found.append(Filtering(float(b), **means, standard_errors=errors))
    progress("Attacking", len(scales) * repeats, len(scales) * repeats)
    return found


def _filtered(split: Split, b: float, components: float, seed: int) -> Reached:
    X, known = split.X, []
    for place, mechanism in enumerate((as_published(b, components), AdditiveNoise("laplace", scale=b, noise="float"))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of bounds that are learned: as published, and nothing is released
            Z = mechanism.release(X, None, np.random.default_rng(seed + place)).X
            known.append(knowledge(mechanism, Z, X, most=len(X)))
    with_pca, without = known
    guesses = {
        "no_filtering": attacked(KnownTransform(clip=False), with_pca),
        "pca_filtering": candidates(with_pca, X, 1_000)[0],
        "no_pca_filtering": candidates(without, X, 1_000)[0],
        "no_pca": without.release,
        "linear_after_pca": attacked(LinearEstimate(), with_pca),
        "linear_without_pca": attacked(LinearEstimate(), without),
        "guessing_the_mean": np.broadcast_to(X.mean(axis=0), X.shape),
    }
    return {name: privacy(split, guess) for name, guess in guesses.items()}


TIMES = 5
QUERIES = 1000
TIMED_ROWS, TIMED_COLUMNS = 20_000, 100
"""The default size; the paper's rows are 100,000."""
ALONE = 20
"""Queries that are also asked one at a time, as the paper did."""


def sanitize_times(rows: int, columns: int) -> dict[str, float]:
    """Core seconds to load, learn components, add noise and save, the least of a few repeats [Fig. 10]."""
    X, _ = gaussian_clusters(rows_of_size(rows, columns), rows, columns, sigma=2.0)
    names = [f"x{number:03d}" for number in range(columns)]
    bounds = zip(names, X.min(axis=0), X.max(axis=0), strict=True)
    schema = Schema(tuple(Column(name, "numeric", low=float(low), high=float(high)) for name, low, high in bounds))
    encoding = Encoding(schema)

    def read(path: Path) -> Matrix:
        return np.concatenate([encoding.encode(batch).X for batch in open_table(path).blocks()])

    with tempfile.TemporaryDirectory() as folder:
        plain = pa.table(dict(zip(names, X.T, strict=True)))
        paths = {kind: Path(folder) / f"table.{kind}" for kind in ("csv", "parquet")}
        for path in paths.values():
            write_table(plain, path)
        found = {}
        encoded = np.empty(0)
        for kind, path in paths.items():
            found[f"load_{kind}"], encoded = least_time(partial(read, path))
        found["pca"], mechanism = least_time(lambda: as_published(STRONGEST).fit(encoded, encoding=encoding))
        rng = rows_of_size(1)
        found["noise"], block = least_time(lambda: mechanism.perturb(encoded, None, rng))
        exact = PrincipalLaplace(b=STRONGEST).fit(encoded, encoding=encoding)
        found["exact_noise"], _ = least_time(lambda: exact.perturb(encoded, None, rng))
        release = pa.table({f"c{number:03d}": column for number, column in enumerate(block.X.T)})
        for kind in paths:
            target = Path(folder) / f"release.{kind}"
            found[f"save_{kind}"], _ = least_time(partial(write_table, release, target))
    return found


def mining_times(rows: int, columns: int) -> dict[str, float]:
    """Core seconds per query of the radius vote and of the five nearest rows, b = .3 [Fig. 11]."""
    X, y = gaussian_clusters(rows_of_size(rows, columns), rows, columns, sigma=2.0)
    X, mechanism, rng = DataSet("time", X, y, "").unit(), as_published(STRONGEST), rows_of_size(3)
    Z = mechanism.release(X, y, rows_of_size(2)).X
    near = X[rng.integers(len(X), size=QUERIES)]  # rows of the table, moved a little
    asked = mechanism.embed(np.clip(near + rng.normal(scale=0.02, size=near.shape), 0, 1))
    vote = radius_vote(mechanism, Z, y, asked[:1], False)[0]
    together, five = least_time(lambda: vote.predict(asked))[0], least_time(lambda: nearest(asked, Z, 5))[0]
    alone, _ = least_time(lambda: [vote.predict(asked[i : i + 1]) for i in range(ALONE)])
    return {"radius": together / QUERIES, "k5": five / QUERIES, "alone": alone / ALONE}


def rows_of_size(*numbers: int) -> np.random.Generator:
    """The same rows for the same size."""
    return np.random.default_rng([2008, *numbers])


def least_time(work: Callable[[], Any]) -> tuple[float, Any]:
    """Least core seconds of a few repeats, and the last result."""
    seconds, result = [], None
    for _ in range(TIMES):
        started = time.process_time()
        result = work()
        seconds.append(time.process_time() - started)
    return min(seconds), result


def _over(number: int, axis: str, data: DataSet, rng: np.random.Generator) -> Found:  # noqa: ARG001 - its own clusters
    found: dict[Name, float] = {}
    for part in (1, 2, 3, 4, 5):
        rows, columns = (TIMED_ROWS, 20 * part) if axis == "columns" else (TIMED_ROWS // 5 * part, TIMED_COLUMNS)
        at = float(columns if axis == "columns" else rows)
        if number == 10:
            times = sanitize_times(rows, columns)
            found["load and save", at] = times["load_csv"] + times["save_csv"]
            found |= {("components", at): times["pca"], ("noise", at): times["noise"]}
        else:
            times = mining_times(rows, columns)
            found |= {("PCA-Radius", at): times["alone"], ("k = 5", at): times["k5"]}
    return found


_SIZE = f"in seconds of the cores; {TIMED_ROWS:,} rows or {TIMED_COLUMNS} columns, clusters of standard deviation 2"
for _number, _what in ((10, "Time to sanitize a table"), (11, "Time to classify one record")):
    for _letter, _axis in (("a", "columns"), ("b", "rows")):
        _name = f"principal-laplace/figure-{_number}{_letter}"
        item(name=_name, shows=f"{_what}, {_SIZE}", axis=_axis, repeats=0)(partial(_over, _number, _axis))
