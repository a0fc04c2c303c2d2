"""Discriminants for strong noise: feature means and covariances from a release, each shrunk as its variance demands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato.channels import Channel, NotApplicableError, Recipe
from sfumato.channels.staged import VECTORS, Marginals, Staged, UnitVector
from sfumato.core.array_types import Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.empirical_bayes import (
    PSEUDO_ROWS,
    Outcomes,
    Seen,
    States,
    lines_of,
    outcomes_of,
    pooled,
    states_of,
    states_of_group,
)
from sfumato.learn.classifiers.noise_aware_discriminant import normal_scores
from sfumato.learn.classifiers.reads_noise import GivesProbabilities, Part, ReadsNoise, log_shares, recipe_of, softmax
from sfumato.mechanisms import Mechanism
from sfumato.noise.response import mean_length
from sfumato.table import Column, Encoding, Group, Schema

# Means of features by class and how features go together, each with its variance, from a release and its card.
#
# Features are polynomials of a number's rank and contrasts of a category (`Marginals.features`): each has mean 0 and
# variance 1 over all people, and those of one column are uncorrelated. Two kinds of rows tell about them:
#
# *Counts of outcomes.* With psi(o) = E(phi | o) under the pooled distribution and R = E(psi psi'), the mean of phi in a
# class is R^-1 mean(psi) and the covariance of two columns' features R_i^-1 mean(psi_i psi_j') R_j^-1, to first order
# in how far classes and columns depart from independence: the score estimates.
#
# *Vectors* (PrivUnitG). E(z | f) = f, and E(z z') is affine in E(f f'): with the channel's threshold t, length M and
# radius r, E(f f') = (M / t) E(z z') - r^2 / (t M) I. Where columns have weights, f is stretched in the vectors; here
# that is undone.

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
    states = states_of(recipe)
    readers = [
        (group, state, outcomes_of(channel, place, state))
        for group, state, channel, place in zip(
            recipe.encoding.groups, states, recipe.channels, recipe.places, strict=True
        )
        if not group.is_constant and len(group.column.categories or "no") > 1
    ]
    if not readers:
        raise NotApplicableError("no column tells anything")
    shares = tuple(_cells(outcomes, state, rows, classes, group) for group, state, outcomes in readers)
    space = FeatureSpace(tuple(group for group, _, _ in readers), Marginals(shares))
    scores = [
        _Scores.of(outcomes, at_states(space, place, state), rows, classes)
        for place, (_, state, outcomes) in enumerate(readers)
    ]
    return space, _joined(scores)


def _cells(outcomes: Outcomes, states: States, rows: Part, classes: int, group: Group) -> Floats:
    """Shares over even cells of the range, or over the categories: without what is missing."""
    flat = np.full(states.count, PSEUDO_ROWS / states.count if states.parts else 0.5)
    shares = pooled([Seen(outcomes.counts(rows.Z, rows.y, classes), outcomes.transition)], flat)
    count = len(group.column.categories or ()) if group.is_onehot else len(shares) - group.has_indicator
    kept = np.maximum(shares[:count], 1e-6)
    return np.asarray(kept / kept.sum())


def at_states(space: FeatureSpace, place: int, states: States) -> Matrix:
    """Features of one column at the middle of every state."""
    group, marginals = space.groups[place], Marginals((space.marginals.shares[place],))
    X = np.zeros((states.count, group.start + group.width))
    if states.parts:
        inside = (np.arange(states.parts) + 0.5) / states.parts
        X[: states.parts, group.start] = states.low + (states.high - states.low) * inside
        X[states.parts :, -1] = 1.0
    else:
        X[:, group.slice] = np.eye(group.width)
    return marginals.features((group,), X)


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
        # psi (outcomes x features) and R, their second moments under the pooled distribution
        q = np.maximum(outcomes.transition @ pool, _TINY)
        psi = (outcomes.transition @ (pool[:, None] * (phi - pool @ phi))) / q[:, None]
        information = np.einsum("o,ok,ol->kl", q, psi, psi) + 1e-9 * np.eye(phi.shape[1])
        inverse = np.asarray(np.linalg.pinv(information), dtype=np.float64)
        n = np.maximum(counts.sum(axis=1), _TINY)
        means = (counts @ psi) / n[:, None] @ inverse
        variances = np.diag(inverse)[None, :] / n[:, None]
        told = lines_of(psi, outcomes.of(rows.Z), np.nan)
        return cls(told, inverse, means, np.where(counts.sum(axis=1)[:, None] > 0, variances, LARGE))


def _joined(scores: Sequence[_Scores]) -> FeatureMoments:
    """Of all columns; the covariances of two that no row reports together are not known."""
    ends = np.cumsum([len(one.inverse) for one in scores]).tolist()
    blocks = [slice(end - len(one.inverse), end) for one, end in zip(scores, ends, strict=True)]
    together, variances = np.eye(ends[-1]), np.zeros((ends[-1], ends[-1]))
    reported = [~np.isnan(one.psi[:, 0]) for one in scores]
    filled = [np.nan_to_num(one.psi) for one in scores]
    for j, i in itertools.combinations(range(len(scores)), 2):
        a, b, n = blocks[i], blocks[j], int((reported[i] & reported[j]).sum())
        variances[a, b] = LARGE
        together[a, b] = 0.0
        if n:
            together[a, b] = scores[i].inverse @ (filled[i].T @ filled[j]) @ scores[j].inverse / n
            variances[a, b] = np.outer(np.diag(scores[i].inverse), np.diag(scores[j].inverse)) / n
        together[b, a], variances[b, a] = together[a, b].T, variances[a, b].T
    means, spreads = np.hstack([one.means for one in scores]), np.hstack([one.variances for one in scores])
    return FeatureMoments(means, spreads, together, variances)


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
    tail = max(vector.tail, 1e-3)
    how = length / tail, vector.radius**2 / (tail * length), stretch
    by_class, own = np.zeros((classes, space.width, space.width)), np.full((classes, space.width, space.width), LARGE)
    for code in range(classes):
        some = Z[y == code]
        if len(some) > 1:
            means[code] = some.mean(axis=0) / stretch
            variances[code] = some.var(axis=0).mean() / len(some) / stretch**2
            by_class[code], own[code] = _products(some, *how)
    together, spread = _products(Z, *how)
    found = FeatureMoments(means, variances, together, spread, by_class, own, float(vector.epsilon))
    for stage, channels in enumerate(staged.of_stages(recipe.channels)[:VECTORS]):
        start, scores = staged.parts[stage].start, []
        for place, (group, channel) in enumerate(zip(staged.groups, channels, strict=True)):
            states = states_of_group(group)
            # A number enters the channel as it is in the first stage, and by its rank in the second.
            ranked = None if stage == 0 or group.is_onehot else partial(staged.ranks.rank, place)
            outcomes = outcomes_of(channel, slice(start, start + group.width), states, ranked)
            scores.append(_Scores.of(outcomes, at_states(space, place, states), rows, classes))
            start += group.width
        # Two independent estimates, weighed by their precision.
        more, spread = np.hstack([one.means for one in scores]), np.hstack([one.variances for one in scores])
        a, b = 1.0 / np.maximum(found.variances, _TINY), 1.0 / np.maximum(spread, _TINY)
        found = replace(found, means=(a * found.means + b * more) / (a + b), variances=1.0 / (a + b))
    return space, found


def _products(Z: Matrix, gain: float, less: float, stretch: Floats) -> tuple[Matrix, Matrix]:
    """E(f f') of some vectors, and the variance of each entry, by the vectors themselves: no formula is safe."""
    by = np.outer(stretch, stretch)
    n, squares = max(len(Z), 1), Z**2
    both = Z.T @ Z / n
    spread = np.maximum(squares.T @ squares / n - both**2, 0.0) / n
    return (gain * both - less * np.eye(len(both))) / by, gain**2 * spread / by**2


SPREADS = tuple(np.geomspace(0.001, 3.0, 16))
POWERS = (0.0, 0.5, 1.0)
LEAST_WITHIN = 0.1
WIDEST = 4.0
"""A class's variance in any direction, relative to that within all classes, lies between 1/4 and 4."""
QUADRATIC_FROM = 6.0
"""Epsilon of the vectors from which on class covariances are worth their noise."""


class PrivateDiscriminant(GivesProbabilities, ReadsNoise):
    """Linear (and, where vectors tell enough, quadratic) discriminants on polynomials of ranks.

    Means of the features and how they go together are read off the release with their variances; what chance alone
    would show is shrunk away: covariances towards independence, means of the classes towards each other, in the
    directions in which people vary. Made for the vectors of a staged release; works on every release that keeps the
    source's columns.

    Ranks of different releases are different features, so each of several releases has a discriminant of its own. Their
    log-ratios are added, each weighed by its precision and shrunk as all of them together demand.

    Attributes
    ----------
    classes_, class_prior_ : labels and their shares.
    means_, within_ : of the features.
    members_, weights_ : of several releases, the discriminant of each and its share of the precision; else empty.
    evidence_ : log marginal likelihood ratio of "classes differ" to "they do not".
    """

    corrects_labels = True
    reads_stages = True
    n_features_in_: int
    class_prior_: Floats
    evidence_: float

    def _train(self, parts: list[Part]) -> None:
        """Estimate."""
        try:
            with threadpool_limits(1, user_api="blas"):
                read = [moments_of(rows, len(self.classes_)) for rows in parts]
                precisions = np.array([float((1.0 / found.variances).mean()) for _, found in read])
                self.weights_ = precisions / precisions.sum()
                self.members_: list[PrivateDiscriminant] = []
                if len(parts) == 1:
                    self._learn(parts[0], *read[0], 1.0)
                else:
                    self._add_up(parts, read)
        except NotApplicableError as error:
            raise UsageError(f"private-discriminant cannot read this release: {error}.") from None

    def _add_up(self, parts: Sequence[Part], read: Sequence[tuple[FeatureSpace, FeatureMoments]]) -> None:
        # How ranks go together is hardly a matter of whose ranks they are: by precision.
        every = [found for _, found in read]
        if len({one.together.shape for one in every}) > 1:
            raise NotApplicableError("its releases tell of different columns")
        precisions = np.array([1.0 / np.maximum(one.variances_together, 1e-12) for one in every])
        total = precisions.sum(axis=0)
        together, spread = (precisions * np.array([one.together for one in every])).sum(axis=0) / total, 1.0 / total
        for rows, (space, found), weight in zip(parts, read, self.weights_, strict=True):
            member = PrivateDiscriminant()
            member.classes_, member.members_, member.weights_ = self.classes_, [], np.ones(1)
            found = replace(found, together=together, variances_together=spread)
            member._learn(rows, space, found, 1.0 / float(weight))
            self.members_.append(member)
        self.n_features_in_ = self.members_[0].n_features_in_
        priors = [member.class_prior_ for member in self.members_]
        self.class_prior_ = np.average(priors, axis=0, weights=[len(rows.y) for rows in parts])
        self.evidence_ = float(sum(member.evidence_ for member in self.members_))

    def _learn(self, rows: Part, space: FeatureSpace, found: FeatureMoments, together: float) -> None:
        """From one release; `together`: how much more precise all releases are."""
        k = len(self.classes_)
        shares = np.bincount(rows.y, minlength=k) / len(rows.y)
        response = self._response([rows])
        assert rows.source is not None  # there is nothing to read otherwise
        self.n_features_in_ = rows.source.encoding.width  # plain rows are asked about, whatever was released
        # The space of the features, in plain values that a model file can hold; `_space` makes it again.
        self.columns_ = [group.column.to_dict() for group in space.groups]
        self.starts_ = [group.start for group in space.groups]
        self.shares_ = [np.array(one) for one in space.marginals.shares]
        self.radius_, self.stretch_ = float(space.radius), list(space.stretch)
        if response is not None:
            shares, found = _unmixed(shares, found, response)
        self.class_prior_ = shares
        total, self.trust_ = _shrunk_covariance(found)
        values, vectors = np.linalg.eigh(total)
        values = np.maximum(values, LEAST_WITHIN)
        centre = self.class_prior_ @ found.means
        away = found.means - centre
        self.means_, self.evidence_ = _shrunk_deviations(away, found.variances, values, vectors, together)
        deviations = self.means_
        between = np.einsum("c,ci,cj->ij", self.class_prior_, deviations, deviations)
        own, turned = np.linalg.eigh((vectors * values) @ vectors.T - between)
        ridge = math.sqrt(len(own) * self.trust_ * float(np.median(found.variances_together)))
        own = np.maximum(own, LEAST_WITHIN) + min(ridge, 1.0)
        self.within_ = (turned * own) @ turned.T
        inverse = (turned / own) @ turned.T
        self.coef_ = deviations @ inverse
        self.intercept_ = log_shares(self.class_prior_) - 0.5 * (self.coef_ * deviations).sum(axis=1)
        self.quadratic_: list[Matrix] = []
        if found.by_class is not None and found.own_variances is not None and found.epsilon >= QUADRATIC_FROM:
            root = turned / np.sqrt(own)
            for mean, products, spread in zip(found.means, found.by_class, found.own_variances, strict=True):
                self.quadratic_.append(_own_covariance(products - np.outer(mean, mean), spread, self.within_, root))

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes of plain rows."""
        if self.members_:
            scores = log_shares(self.class_prior_)[None, :]
            for member, weight in zip(self.members_, self.weights_, strict=True):
                scores = scores + weight * (log_shares(member.predict_proba(X)) - log_shares(member.class_prior_))
            return softmax(scores)
        f = self._space().of(self._queries(X))
        linear = softmax(f @ self.coef_.T + self.intercept_)
        if not self.quadratic_:
            return linear
        scores = normal_scores(f, self.means_, self.quadratic_, self.class_prior_)
        return (linear + softmax(scores)) / 2.0

    def predict_proba_released(self, Z: npt.ArrayLike, source: Recipe | Card | Mechanism) -> Floats:
        """Probabilities for released rows: of vectors by normal classes, of rows of other stages the class shares.

        Over all people a vector has covariance s^2 I + (t / M) E(f f'), s the channel's scale.
        """
        recipe = recipe_of(source)
        if recipe is None or not isinstance(recipe.map, Staged):
            raise UsageError("private-discriminant tells nothing of single released rows but vectors.")
        if self.members_:
            guide = recipe.map.polynomials
            for member in self.members_:
                if guide.is_like(Marginals(tuple(member.shares_))):
                    return member.predict_proba_released(Z, recipe)
            return np.tile(self.class_prior_, (len(np.asarray(Z)), 1))
        vector, rows = vector_channel(recipe), np.asarray(Z, dtype=np.float64)
        part = rows[:, recipe.map.parts[VECTORS]][:, : len(self.within_)]
        there = ~np.isnan(part[:, 0])
        both = self.within_ + np.einsum("c,ci,cj->ij", self.class_prior_, self.means_, self.means_)
        stretch = recipe.map.stretches
        spread = vector.scale**2 * np.diag(stretch**-2) + vector.tail / mean_length(vector.near, vector.tail) * both
        weights = np.linalg.solve(spread, self.means_.T)
        scores = np.tile(log_shares(self.class_prior_), (len(rows), 1))
        scores[there] += (part[there] / stretch) @ weights - 0.5 * (self.means_.T * weights).sum(axis=0)
        return softmax(scores)

    def _space(self) -> FeatureSpace:
        schema = Schema(tuple(Column.from_dict(one) for one in self.columns_))
        groups = tuple(
            replace(group, start=start, stop=start + group.width)
            for group, start in zip(Encoding(schema).groups, self.starts_, strict=True)
        )
        return FeatureSpace(groups, Marginals(tuple(self.shares_)), self.radius_, tuple(self.stretch_))


def _shrunk_covariance(found: FeatureMoments) -> tuple[Matrix, float]:
    """Off-diagonals by how much of their mean square is above chance; the diagonal is one by the features' making."""
    m = len(found.together)
    known = (found.variances_together > 0) & (found.variances_together < 1e8)
    off = ~np.eye(m, dtype=bool) & known
    if not off.any():
        return np.eye(m), 0.0
    seen, variances, shrunk = found.together[off], found.variances_together[off], np.eye(m)
    weights = 1.0 / variances
    signal = max(float((weights * (seen**2 - variances)).sum() / weights.sum()), 0.0)
    trust = signal / (signal + variances) if signal else np.zeros(len(variances))
    shrunk[off] = trust * np.clip(seen, -1.0, 1.0)
    return (shrunk + shrunk.T) / 2.0, float(np.mean(trust))


def _shrunk_deviations(
    deviations: Matrix, variances: Matrix, values: Floats, vectors: Matrix, together: float = 1.0
) -> tuple[Matrix, float]:
    """Empirical Bayes in the directions in which people vary: a priori N(0, t lambda^gamma), averaged over both.

    With how much likelier what was seen is so than without any deviations, as a logarithm. `together`: what is found
    will be averaged with other estimates, until it is so many times as precise.
    """
    seen, noise, classes = deviations @ vectors, variances @ vectors**2, len(deviations)

    def log_likelihood(prior: Floats | float) -> float:
        total = prior + noise
        return -0.5 * float((seen**2 / total + np.log(total)).sum()) * (classes - 1) / classes

    priors = [spread * values**power for power in POWERS for spread in SPREADS]
    weights = [log_likelihood(prior) for prior in priors]
    means = [seen * prior / (prior + noise / together) for prior in priors]
    share = np.exp(np.array(weights) - max(weights))
    evidence = max(weights) + math.log(float(share.mean())) - log_likelihood(0.0)
    share /= share.sum()
    return np.asarray(np.tensordot(share, np.array(means), axes=1) @ vectors.T), evidence


def _own_covariance(seen: Matrix, variances: Matrix, within: Matrix, root: Matrix) -> Matrix:
    """A class's covariance: that of all classes, and as much of its own departure as is not noise."""
    away = seen - within
    signal = max(float((away**2 - variances).mean()), 0.0)
    trust = signal / (signal + variances) if signal else np.zeros(away.shape)
    values, vectors = np.linalg.eigh(root.T @ (trust * away) @ root)
    back = np.linalg.inv(root).T @ vectors
    found = (back * np.clip(1.0 + values, 1.0 / WIDEST, WIDEST)) @ back.T
    return np.asarray((found + found.T) / 2.0)


def _unmixed(seen: Floats, found: FeatureMoments, response: Matrix) -> tuple[Floats, FeatureMoments]:
    """Shares and means of the true classes from those of the reported ones."""
    true = np.maximum(np.linalg.solve(response, seen), 1e-3)
    true /= true.sum()
    inverse = np.linalg.inv(response)
    means = (inverse @ (seen[:, None] * found.means)) / true[:, None]
    variances = (inverse**2 @ (seen[:, None] ** 2 * found.variances)) / true[:, None] ** 2
    return true, replace(found, means=means, variances=variances, by_class=None, own_variances=None)
