"""How far the release moves an adversary's belief in a property of one record [principal-laplace, Def. 1]."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from sfumato.attacks.base import (
    Abstain,
    Attack,
    Guess,
    Knowledge,
    Matrix,
    Posteriors,
    Property,
    Response,
)
from sfumato.attacks.carried_noise import CarriedNoise
from sfumato.attacks.likelihood import Suspects, blocks, log_likelihood, normalised
from sfumato.attacks.observation import empty_cells, reversed_release
from sfumato.noise import Law


class PosteriorBreach(Attack):
    """The adversary knows how values are spread in the population and the law of the noise, and applies Bayes' rule.

    A rho1-to-rho2 breach [principal-laplace, Def. 1]: a property that had prior probability of at most rho1 = `rare`
    has posterior probability of at least rho2 = `sure`; downward: from at least `sure` to at most `rare`. The
    properties are the `parts` quantile intervals of each numeric column (20: priors of 5%), each category and each
    "is missing".

    Column-wise releases are done column by column, exactly, over `grid` values of the column's known distribution.
    For others the posterior runs over the known `sample` of at most `rows` people: weight of a person x is the product
    over release columns of f_i(z_i - (A x + c)_i). A release without any noise whose transform has full rank is read
    exactly; one of lower rank with a normal kernel of the width of the sample's own spacing.
    """

    name = "posterior-breach"
    knows = frozenset({"release", "noise", "column_distributions"})
    helps = frozenset({"transform", "sample", "column_moments", "guided"})

    def __init__(
        self, rare: float = 0.1, sure: float = 0.5, parts: int = 20, grid: int = 500, rows: int = 1000
    ) -> None:
        self.rare, self.sure, self.parts, self.grid, self.rows = rare, sure, parts, grid, rows

    def guess(self, known: Knowledge) -> Guess:
        """Prior and posterior of every property for every record."""
        assert known.noise is not None
        properties = properties_of(known, self.parts)
        if known.columnwise:
            return self._columns(known, properties, known.release, known.noise)
        if known.transform is None and known.guided is None:
            return Abstain("needs the transform of a release that mixes columns")
        exact = all(law is None for law in known.noise)
        if (
            exact
            and known.transform is not None
            and np.linalg.matrix_rank(known.transform.matrix) == known.encoding.width
        ):
            return self._columns(known, properties, reversed_release(known), (None,) * known.encoding.width)
        if known.sample is None:
            return Abstain("needs a sample of people for a release that mixes columns")
        return self._people(known, properties, spread_out(known.sample, self.rows))

    def _columns(
        self,
        known: Knowledge,
        properties: tuple[Property, ...],
        Z: Matrix,
        noise: tuple[Law | Response | CarriedNoise | None, ...],
    ) -> Posteriors:
        assert known.column_distributions is not None
        prior = np.empty(len(properties))
        after = np.empty((len(Z), len(properties)))
        for slot in range(known.encoding.width):
            here = [i for i, item in enumerate(properties) if item.slot == slot]
            if not here:
                continue
            law = noise[slot]
            values = np.sort(spread_out(known.column_distributions[slot], self.grid))
            # A property covers the values first..last - 1: sums over runs are differences of running sums.
            first = np.searchsorted(values, [properties[i].low for i in here], "right")
            last = np.searchsorted(values, [properties[i].high for i in here], "right")
            prior[here] = (last - first) / len(values)
            if isinstance(law, Response):
                slots = _group_slots(known, slot)
                after[:, here] = _response_posterior(known, Z, slots, slot, law)
            elif law is None:
                after[:, here] = np.column_stack([properties[i].holds(Z) for i in here])
            else:
                for block in blocks(len(Z), len(values)):
                    running = np.cumsum(posterior(values, None, law, Z[block, slot]), axis=1)
                    running = np.column_stack([np.zeros(len(running)), running])
                    after[block, here[0] : here[-1] + 1] = np.clip(running[:, last] - running[:, first], 0.0, 1.0)
                after[np.flatnonzero(empty_cells(known, Z, slot))[:, None], here] = prior[here]
        return Posteriors(prior, after, properties, self.rare, self.sure)

    def _people(self, known: Knowledge, properties: tuple[Property, ...], people: Matrix) -> Posteriors:
        holds = np.column_stack([item.holds(people) for item in properties]).astype(float)
        suspects = Suspects.of(known, people)
        E = suspects.E
        width = _spacing(E)
        after = np.empty((len(known.release), len(properties)))
        for block in blocks(len(known.release), len(E)):
            Z = known.release[block]
            weights = normalised(log_likelihood(known, Z, suspects, width))
            nobody = np.isnan(weights[:, 0])
            if nobody.any():
                weights[nobody] = _nearest_person(Z[nobody], E)
            after[block] = weights @ holds
        return Posteriors(holds.mean(axis=0), after, properties, self.rare, self.sure)


def posterior(values: ArrayLike, probabilities: ArrayLike | None, law: Law | CarriedNoise, y: ArrayLike) -> Matrix:
    """P(X = values[j] | Y = y[i]) for Y = X + noise, or as an operator carries it: len(y) x len(values); rows sum to 1.

    Bayes' rule, Eqs (4)-(6) of [principal-laplace], in logarithms. `probabilities` None: all values equally likely.
    Where no value can have led to y, the nearest one gets everything.
    """
    x = np.asarray(values, dtype=np.float64)[None, :]
    seen = np.atleast_1d(np.asarray(y, dtype=np.float64))[:, None]
    log = law.logpdf(seen, x) if isinstance(law, CarriedNoise) else law.logpdf(seen - x)
    if probabilities is not None:
        with np.errstate(divide="ignore"):
            log = log + np.log(np.asarray(probabilities, dtype=np.float64))
    weights = normalised(log)
    nobody = np.isnan(weights[:, 0])
    if nobody.any():
        expected = law.moments(x[0])[0][:, None] if isinstance(law, CarriedNoise) else x.T
        weights[nobody] = _nearest_person(seen[nobody], expected)
    return weights


def properties_of(known: Knowledge, parts: int) -> tuple[Property, ...]:
    """Quantile intervals of numeric columns, categories, and "is missing", in the order of the encoded columns."""
    assert known.column_distributions is not None
    found: list[Property] = []
    for number, group in enumerate(known.encoding.groups):
        for slot in range(group.start, group.stop):
            if group.is_onehot or slot > group.start:
                found.append(Property(known.encoding.names[slot], number, slot, 0.5, np.inf))
                continue
            edges = np.unique(
                np.quantile(known.column_distributions[slot], np.arange(1, parts) / parts, method="lower")
            )
            bounds = [-np.inf, *edges, np.inf]
            for part, (low, high) in enumerate(pairwise(bounds), start=1):
                name = f"{known.encoding.names[slot]}: part {part} of {len(bounds) - 1}"
                found.append(Property(name, number, slot, float(low), float(high)))
    return tuple(found)


def spread_out(sample: Matrix, most: int) -> Matrix:
    """At most `most` rows of a sample, evenly over its order."""
    if len(sample) <= most:
        return np.asarray(sample, dtype=np.float64)
    return np.asarray(sample[np.linspace(0, len(sample) - 1, most).round().astype(int)], dtype=np.float64)


def _group_slots(known: Knowledge, slot: int) -> slice:
    group = next(group for group in known.encoding.groups if group.start <= slot < group.stop)
    return slice(group.start, group.stop) if group.is_onehot else slice(slot, slot + 1)


def _response_posterior(known: Knowledge, Z: Matrix, slots: slice, slot: int, law: Response) -> Matrix:
    """P(category of `slot` | report): prior x P(report | category), over all categories; n x 1."""
    assert known.column_distributions is not None
    prior = np.array([known.column_distributions[i].mean() for i in range(slots.start, slots.stop)])
    reported = Z[:, slots] > 0.5
    if len(prior) == 1:  # an indicator: two answers in one slot
        prior, reported = np.array([prior[0], 1 - prior[0]]), np.column_stack([reported, ~reported])
    weight = prior * np.where(reported, law.keep, law.other)
    return np.asarray(weight[:, [slot - slots.start]] / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300))


def _spacing(E: Matrix) -> float:
    """Typical distance to the nearest other person, per column: the finest that a finite sample can tell apart."""
    some = spread_out(E, 300)
    squared = _squared_distances(some, some)
    np.fill_diagonal(squared, np.inf)
    nearest = squared.min(axis=1, initial=np.inf)
    finite = nearest[np.isfinite(nearest)]
    return float(np.sqrt(np.median(finite) / E.shape[1]) if len(finite) else 0.0) or 1e-3


def _nearest_person(Z: Matrix, E: Matrix) -> Matrix:
    return np.asarray(np.eye(len(E))[_squared_distances(Z, E).argmin(axis=1)])


def _squared_distances(Z: Matrix, E: Matrix) -> Matrix:
    return np.asarray(np.maximum((Z**2).sum(axis=1)[:, None] - 2 * Z @ E.T + (E**2).sum(axis=1), 0.0))
