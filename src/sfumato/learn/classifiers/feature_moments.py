"""Means of features by class and how features go together, each with its variance, from a release and its card.

Features are polynomials of a number's rank and contrasts of a category (`Marginals.features`): each has mean 0 and
variance 1 over all people, and those of one column are uncorrelated. Two kinds of rows tell about them:

*Counts of outcomes.* With psi(o) = E(phi | o) under the pooled distribution and R = E(psi psi'), the mean of phi in a
class is R^-1 mean(psi) and the covariance of two columns' features R_i^-1 mean(psi_i psi_j') R_j^-1, to first order in
how far classes and columns depart from independence: the score estimates.

*Vectors* (PrivUnitG). E(z | f) = f, and E(z z') is affine in E(f f'): with the channel's threshold t, length M and
radius r, E(f f') = (M / t) E(z z') - r^2 / (t M) I. Where
columns have weights, f is stretched in the vectors; here that is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.channels import Channel, NotApplicableError, Recipe
from sfumato.channels.staged import VECTORS, Marginals, Staged, UnitVector
from sfumato.core.array_types import Floats, Matrix
from sfumato.learn.classifiers.empirical_bayes import (
    PSEUDO_ROWS,
    Outcomes,
    Seen,
    States,
    outcomes_of,
    pooled,
    states_of,
    states_of_group,
)
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.noise.response import mean_length
from sfumato.table import Group

_TINY = 1e-12
LARGE = 1e9
"""Variance of a figure that nothing is known of."""


@dataclass(frozen=True)
class FeatureMoments:
    """`means` and their `variances` (classes x m); `together` and its `variances_together` (m x m): covariances of the
    features over all people. `by_class`: those about zero of each class, where vectors tell them; `own_variances`."""

    means: Matrix
    variances: Matrix
    together: Matrix
    variances_together: Matrix
    by_class: Floats | None = None
    own_variances: Floats | None = None
    epsilon: float = 0.0


@dataclass(frozen=True)
class FeatureSpace:
    """Which columns, how they are spread, and to which length vectors are clipped (infinite: they are not), of features
    that a release has stretched by so much, column by column (empty: it has not)."""

    groups: tuple[Group, ...]
    marginals: Marginals
    radius: float = np.inf
    stretch: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        return self.marginals.count(self.groups)

    def blocks(self) -> list[slice]:
        """The features of every column."""
        sizes = self.marginals.sizes(self.groups)
        ends = np.cumsum(sizes)
        return [slice(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)]

    def of(self, X: Matrix) -> Matrix:
        """Features of plain rows."""
        found = self.marginals.features(self.groups, X)
        if not np.isfinite(self.radius):
            return found
        stretched = found * self.marginals.of_features(self.groups, self.stretch) if self.stretch else found
        length = np.sqrt((stretched**2).sum(axis=1, keepdims=True))
        return np.asarray(found * np.minimum(1.0, self.radius / np.maximum(length, _TINY)))


def moments_of(rows: Part, classes: int) -> tuple[FeatureSpace, FeatureMoments]:
    """Of one release; refused in words where single columns cannot be read."""
    recipe = rows.source
    if recipe is None or recipe.by_class or recipe.rows != "perturbed":
        raise NotApplicableError("it needs a release of blurred records with noise of a known law")
    if isinstance(recipe.map, Staged):
        return _staged(recipe.map, recipe, rows, classes)
    if not recipe.is_columnwise:
        raise NotApplicableError("it reads the source's columns, and this release mixes them")
    readers = readers_of(recipe)
    groups = tuple(recipe.encoding.groups[place] for place, _, _ in readers)
    shares = [_pool(outcomes, state, rows, classes) for _, state, outcomes in readers]
    space = FeatureSpace(groups, Marginals(tuple(_cells(s, g) for s, g in zip(shares, groups, strict=True))))
    scores = [
        _Scores.of(outcomes, at_states(space, place, state), rows, classes)
        for place, (_, state, outcomes) in enumerate(readers)
    ]
    return space, _joined(space, scores, classes)


def readers_of(recipe: Recipe) -> list[tuple[int, States, Outcomes]]:
    """Of a release that keeps the source's columns: place, states and outcomes of every column that tells something."""
    states = states_of(recipe)
    told = [place for place, group in enumerate(recipe.encoding.groups) if _tells(group)]
    if not told:
        raise NotApplicableError("no column tells anything")
    return [(p, states[p], outcomes_of(recipe.channels[p], recipe.places[p], states[p])) for p in told]


def _tells(group: Group) -> bool:
    return len(group.column.categories or ()) > 1 if group.is_onehot else not group.is_constant


def _pool(outcomes: Outcomes, states: States, rows: Part, classes: int) -> Floats:
    flat = np.full(states.count, PSEUDO_ROWS / states.count if states.parts else 0.5)
    return pooled([Seen(outcomes.counts(rows.Z, rows.y, classes), outcomes.transition)], flat)


def _cells(shares: Floats, group: Group) -> Floats:
    """Shares over even cells of the range, or over the categories: without what is missing."""
    if group.is_onehot:
        kept = shares[: len(group.column.categories or ())]
    else:
        kept = shares[: len(shares) - group.has_indicator]
    kept = np.maximum(kept, 1e-6)
    return np.asarray(kept / kept.sum())


def at_states(space: FeatureSpace, place: int, states: States) -> Matrix:
    """Features of one column at the middle of every state."""
    group = space.groups[place]
    if states.parts:
        middles = np.zeros((states.count, group.width))
        inside = (np.arange(states.parts) + 0.5) / states.parts
        middles[: states.parts, 0] = states.low + (states.high - states.low) * inside
        middles[states.parts :, -1] = 1.0
    else:
        middles = np.eye(group.width)
    X = np.zeros((states.count, group.start + group.width))
    X[:, group.slice] = middles
    alone = Marginals((space.marginals.shares[place],))
    return alone.features((group,), X)


@dataclass(frozen=True)
class _Scores:
    """Of one column: score estimates of every row (NaN where it is not reported), R^-1, and the classes' means."""

    psi: Matrix
    inverse: Matrix
    means: Matrix
    variances: Matrix

    @classmethod
    def of(cls, outcomes: Outcomes, phi: Matrix, rows: Part, classes: int) -> _Scores:
        counts = outcomes.counts(rows.Z, rows.y, classes)
        pool = pooled([Seen(counts, outcomes.transition)], np.full(len(phi), 0.5))
        psi, information = scores_of(outcomes, pool, phi)
        inverse = np.asarray(np.linalg.pinv(information + 1e-9 * np.eye(len(information))), dtype=np.float64)
        n = np.maximum(counts.sum(axis=1), _TINY)
        means = (counts @ psi) / n[:, None] @ inverse
        variances = np.diag(inverse)[None, :] / n[:, None]
        found = outcomes.of(rows.Z)
        told = np.where(found[:, None] >= 0, psi[np.maximum(found, 0)], np.nan)
        return cls(told, inverse, means, np.where(counts.sum(axis=1)[:, None] > 0, variances, LARGE))


def scores_of(outcomes: Outcomes, pool: Floats, phi: Matrix) -> tuple[Matrix, Matrix]:
    """psi (outcomes x features) and R, their second moments under the pooled distribution."""
    q = np.maximum(outcomes.transition @ pool, _TINY)
    centred = phi - pool @ phi
    psi = (outcomes.transition @ (pool[:, None] * centred)) / q[:, None]
    return psi, np.einsum("o,ok,ol->kl", q, psi, psi)


def _joined(space: FeatureSpace, scores: Sequence[_Scores], classes: int) -> FeatureMoments:
    m, blocks = space.width, space.blocks()
    together, variances = np.eye(m), np.zeros((m, m))
    reported = [~np.isnan(one.psi[:, 0]) for one in scores]
    filled = [np.nan_to_num(one.psi) for one in scores]
    for i in range(len(scores)):
        for j in range(i):
            n = int((reported[i] & reported[j]).sum())
            a, b = blocks[i], blocks[j]
            if n:
                found = scores[i].inverse @ (filled[i].T @ filled[j]) @ scores[j].inverse / n
                spread = np.outer(np.diag(scores[i].inverse), np.diag(scores[j].inverse)) / n
            else:
                found = np.zeros((a.stop - a.start, b.stop - b.start))
                spread = np.full(found.shape, LARGE)
            together[a, b], variances[a, b] = found, spread
            together[b, a], variances[b, a] = found.T, variances[a, b].T
    means = np.hstack([one.means for one in scores]) if scores else np.zeros((classes, 0))
    return FeatureMoments(means, np.hstack([one.variances for one in scores]), together, variances)


def vector_channel(recipe: Recipe) -> UnitVector:
    """The channel of a staged release's vectors."""
    found: Channel = getattr(recipe.channels[-1], "inner", recipe.channels[-1])
    assert isinstance(found, UnitVector)
    return found


def _staged(staged: Staged, recipe: Recipe, rows: Part, classes: int) -> tuple[FeatureSpace, FeatureMoments]:
    space = FeatureSpace(staged.groups, staged.polynomials, staged.radius, staged.stretch)
    vector = vector_channel(recipe)
    part = rows.Z[:, staged.parts[VECTORS]]
    there = ~np.isnan(part[:, 0])
    Z, y = part[there, : space.width], rows.y[there]
    means, variances = np.zeros((classes, space.width)), np.full((classes, space.width), LARGE)
    length, stretch = mean_length(vector.near, vector.tail), staged.stretches
    gain, less = length / max(vector.tail, 1e-3), vector.radius**2 / (max(vector.tail, 1e-3) * length)
    by_class, own = np.zeros((classes, space.width, space.width)), np.full((classes, space.width, space.width), LARGE)
    for code in range(classes):
        some = Z[y == code]
        if len(some) > 1:
            means[code] = some.mean(axis=0) / stretch
            variances[code] = some.var(axis=0).mean() / len(some) / stretch**2
            by_class[code], own[code] = _products(some, gain, less, stretch)
    together, spread = _products(Z, gain, less, stretch)
    found = FeatureMoments(means, variances, together, spread, by_class, own, float(vector.epsilon))
    for counted in _earlier_stages(staged, recipe, rows, space, classes):
        found = _more_means(found, *counted)
    return space, found


def _products(Z: Matrix, gain: float, less: float, stretch: Floats) -> tuple[Matrix, Matrix]:
    """E(f f') of some vectors, and the variance of each entry, by the vectors themselves: no formula is safe."""
    by = np.outer(stretch, stretch)
    n, squares = max(len(Z), 1), Z**2
    both = Z.T @ Z / n
    spread = np.maximum(squares.T @ squares / n - both**2, 0.0) / n
    return (gain * both - less * np.eye(len(both))) / by, gain**2 * spread / by**2


def _earlier_stages(
    staged: Staged, recipe: Recipe, rows: Part, space: FeatureSpace, classes: int
) -> list[tuple[Matrix, Matrix]]:
    """Means of the features, with variances, from the rows of the first two stages."""
    found = []
    for stage, channels in enumerate(staged.of_stages(recipe.channels)[:VECTORS]):
        start, means, variances = staged.parts[stage].start, [], []
        for place, (group, channel) in enumerate(zip(staged.groups, channels, strict=True)):
            states = states_of_group(group)
            outcomes = outcomes_of(channel, slice(start, start + group.width), states, _seen_as(staged, stage, place))
            one = _Scores.of(outcomes, at_states(space, place, states), rows, classes)
            means.append(one.means)
            variances.append(one.variances)
            start += group.width
        found.append((np.hstack(means), np.hstack(variances)))
    return found


def _seen_as(staged: Staged, stage: int, place: int) -> Callable[[Floats], Floats] | None:
    """How a number enters the channel of a stage: as it is, or by its rank."""
    if stage == 0 or staged.groups[place].is_onehot:
        return None
    return lambda values: staged.ranks.rank(place, values)


def _more_means(found: FeatureMoments, means: Matrix, variances: Matrix) -> FeatureMoments:
    """Two independent estimates, weighed by their precision."""
    a, b = 1.0 / np.maximum(found.variances, _TINY), 1.0 / np.maximum(variances, _TINY)
    return replace(found, means=(a * found.means + b * means) / (a + b), variances=1.0 / (a + b))
