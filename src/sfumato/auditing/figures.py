"""Two of the papers' experiments on a table of one's own; both are the owner's, for they look at the originals.

`figure_filtering` is Fig. 8 of principal-laplace: average privacy (the width of the error's central 95% over the
column's range) after three ways to sanitize and attack. `figure_condensation` is 5.3 of random-rotation, Figs 5-8: what
condensed rows and a rotation leave of uncertainty, as a standard deviation on columns scaled to [0, 1].
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.attacks import ColumnMoments, Knowledge, KnownNoise, Values
from sfumato.attacks.linear_estimate import LinearEstimate
from sfumato.attacks.metrics import interval_width, nearest_row_privacy
from sfumato.attacks.metrics.unified import Unified
from sfumato.attacks.naive_estimate import KnownTransform
from sfumato.attacks.spectral_filter import PrincipalFilter
from sfumato.auditing.asked import CondensationAsked, FigureAsked, FilteringAsked
from sfumato.auditing.case import read_people
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import PrivacyLeakWarning, TableError, UsageError
from sfumato.mechanisms import AdditiveNoise, Condensation, PrincipalLaplace
from sfumato.mechanisms.base import Mechanism
from sfumato.release.rotation_search import sample_of, search_rotation
from sfumato.table import Encoding, Schema, open_table
from sfumato.table.statistics import Moments

REPEATS = 5
"""Times that rows are condensed at each size."""


@dataclass(frozen=True)
class Filtering:
    """Average privacy at one b, as a share of the columns' ranges; larger is safer.

    The three scenarios of the figure, and beside them what the paper leaves out: the drops, noise without PCA before it
    is filtered, the linear estimate (at least as strong as filtering), and guessing the mean (nobody gets more).
    """

    b: float
    no_filtering: float
    pca_filtering: float
    no_pca_filtering: float
    no_pca: float
    linear_after_pca: float
    linear_without_pca: float
    guessing_the_mean: float


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

    def to_dict(self) -> dict[str, Any]:
        told = {name: value._asdict() for name, value in vars(self).items() if isinstance(value, Unified)}
        condensed = [asdict(one) for one in self.condensed]
        counts = {"rotations": self.rotations, "rows": self.rows, "left_out": list(self.left_out)}
        return {**told, "condensed": condensed, **counts}


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
    scales, components, seed, progress = options.scales, options.components, options.seed, options.progress
    varies = np.ptp(X, axis=0) > 0
    found = []
    for number, b in enumerate(scales):
        if isinstance(b, bool) or not isinstance(b, int | float) or not 0 < b < np.inf:
            raise UsageError(f"A scale b must be a positive number, for example 0.3. Got {b!r} instead.")
        progress("Attacking", number, len(scales))
        with_pca = _World.of(PrincipalLaplace(b, components, component_bounds="data", noise="float"), X, seed)
        without = _World.of(AdditiveNoise("laplace", scale=b, noise="float"), X, seed + 1)

        def width(guess: Matrix) -> float:
            return float(interval_width(X, guess, span=np.ones(X.shape[1]))[varies].mean())

        found.append(
            Filtering(
                b=float(b),
                no_filtering=width(_guess(KnownTransform(clip=False), with_pca.known)),
                pca_filtering=width(_filtered(with_pca.known, X)),
                no_pca_filtering=width(_filtered(without.known, X)),
                no_pca=width(without.Z),
                linear_after_pca=width(_guess(LinearEstimate(), with_pca.known)),
                linear_without_pca=width(_guess(LinearEstimate(), without.known)),
                guessing_the_mean=width(np.broadcast_to(X.mean(axis=0), X.shape)),
            )
        )
    progress("Attacking", len(scales), len(scales))
    return found


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
    condensed = []
    for number, k in enumerate(tried):
        progress("Condensing", number, len(tried) + 1)
        condensed.append(_condensed(X, y, k, seed))
    progress("Searching", len(tried), len(tried) + 1)
    sample = sample_of(X, Moments.of(X), Encoding.unit(X.shape[1]))
    searches = [
        search_rotation(sample, iterations=rotations, scoring=scoring, rng=np.random.default_rng(seed))[1]
        for scoring in ("published", "measured")
    ]
    progress("Searching", len(tried) + 1, len(tried) + 1)
    paper, ours = searches
    found = paper.naive, paper.ica, ours.naive, ours.ica_anywhere, ours.mean_guess
    left_out = tuple(k for k in sizes if k not in tried)
    return AgainstCondensation(tuple(condensed), *found, rotations, len(X), left_out)


def encoded_rows(table: Any, options: FigureAsked) -> tuple[Matrix, Codes | None]:
    """At most `max_rows` rows, numbers on [0, 1] and one slot a category; and their classes. Nothing is released."""
    opened = open_table(table)
    schema = None if options.schema is None else Schema.of(options.schema)
    if schema is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            schema = Schema.infer(opened, options.label, refuse=False)
    people = read_people(opened, Encoding(schema))
    some = np.sort(np.random.default_rng(options.seed).permutation(len(people.X))[: options.max_rows])
    X = people.X[some]
    if len(X) < 10 or not np.ptp(X, axis=0).any():
        raise TableError("The table needs at least ten rows, and a column that varies.")
    return X, None if people.y is None else people.y[some]


@dataclass(frozen=True)
class _World:
    """A release of all rows, and the strongest adversary of [principal-laplace, 6.1.3]."""

    Z: Matrix
    known: Knowledge

    @classmethod
    def of(cls, mechanism: Mechanism, X: Matrix, seed: int) -> _World:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of bounds that are learned: as published, and nothing is released
            Z = mechanism.release(X, None, np.random.default_rng(seed)).X
        recipe = mechanism.recipe_
        noise = KnownNoise.of(recipe.channels, recipe.map.apply(X))
        public = recipe.map.affine()
        assert public is not None
        known = Knowledge(
            release=Z,
            encoding=mechanism.encoding_,
            columnwise=mechanism.columnwise,
            transform=noise.on_average(*public),
            noise=noise,
            noise_covariance=noise.covariance(),
            column_moments=ColumnMoments(X.mean(axis=0), np.cov(X, rowvar=False)),
        )
        return cls(Z, known)


def _guess(attack: KnownTransform | LinearEstimate, known: Knowledge) -> Matrix:
    guess = attack.run(known)
    assert isinstance(guess, Values)
    return guess.X


def _filtered(known: Knowledge, truth: Matrix) -> Matrix:
    """With the number of components that comes closest to the original, as the paper does; not clipped."""
    guess = PrincipalFilter(clip=False, most_candidates=1_000).run(known)
    assert isinstance(guess, Values)
    tried = guess.candidates or (guess.X,)
    return tried[int(np.argmin([float(((one - truth) ** 2).mean()) for one in tried]))]


def _condensed(X: Matrix, y: Codes | None, k: int, seed: int) -> Condensed:
    drawn = []
    for repeat in range(REPEATS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of small groups: the paper takes them as they are
            block = Condensation(k).fit(X, y).perturb(X, y, np.random.default_rng([seed, repeat, k]))
        drawn.append(nearest_row_privacy(X, block.X))
    least, mean = np.mean(drawn, axis=0)
    counts = np.array([len(X)]) if y is None else np.bincount(y)
    return Condensed(k, float(least), float(mean), int(counts[counts < k].sum()))
