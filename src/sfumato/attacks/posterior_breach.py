"""How far the release moves an adversary's belief in a property of one record [principal-laplace, Def. 1]."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Posteriors, Property, Values, promised, truths
from sfumato.attacks.column_beliefs import likely_people
from sfumato.attacks.likelihood import Suspects, blocks, left_by_device, log_likelihood, normalised, reversed_release
from sfumato.attacks.support import channel_log, nearest_reported
from sfumato.channels import Channel, Guided
from sfumato.core.accepted import Share, Whole
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import UsageError
from sfumato.mechanisms.parameters import parameter
from sfumato.table import Group
from sfumato.table.neighbours.arrays import Arrays


class PosteriorGuess(Attack):
    """The adversary collects a guided survey: it knows guidance and floor, and how people usually answer. To
    everybody's bits it applies Bayes' rule over all people it can think of, and guesses the likeliest choices.

    The posterior is exact for the population it is given, since the law of the bits is public: weight of an answer t
    is prod_j q_j(t)^R_j (1 - q_j(t))^(1 - R_j) [guided-survey, Eqs 7 and 8]. `rows` people of the
    released class stand for the population. `details` tell how sure the collector is of its guesses.
    """

    name = "posterior-guess"
    reads_gaps = True
    knows = frozenset({"release", "guided", "noise", "sample"})
    helps = frozenset({"labels", "sample_labels"})
    rows: int = parameter(Whole(2, 1_000_000), "People who stand for the population.", default=4000)

    def guess(self, known: Knowledge) -> Guess:
        if not isinstance(known.guided, Guided):
            return Abstain("the release has stages, and is no guided survey")
        out = np.zeros((len(known.release), known.encoding.width))
        sure = np.empty((len(out), len(known.encoding.groups)))
        for likely in likely_people(known, self.rows):
            # Different people, and the log of how likely each is before the release.
            people, place = np.unique(np.rint(likely.X), axis=0, return_inverse=True)
            chances = np.bincount(place.reshape(-1), weights=np.exp(likely.log_prior - likely.log_prior.max()))
            prior = np.log(chances / chances.sum())
            suspects = Suspects.of(known, people)
            for block in blocks(len(likely.rows), len(people)):
                rows = likely.rows[block]
                weights = normalised(log_likelihood(known, known.release[rows], suspects) + prior)
                chances = weights @ people
                for number, group in enumerate(known.encoding.groups):
                    best = chances[:, group.slice].argmax(axis=1)
                    out[rows, group.start + best] = 1.0
                    sure[rows, number] = chances[np.arange(len(rows)), group.start + best]
        details = {"mean_sureness": float(sure.mean()), "largest_sureness": float(sure.max(initial=0.0))}
        return Values(out, details=details)


class PosteriorBreach(Attack):
    """The adversary knows the distribution of values in the population and the law of the noise, and applies Bayes'
    rule.

    A rho1-to-rho2 breach [principal-laplace, Def. 1]: a property that had prior probability of at most `rho1`
    has posterior probability of at least `rho2`; downward: from at least `rho2` to at most `rho1`. The
    properties are the `parts` quantile intervals of each numeric column (20: priors of 5%), each category and each
    "is missing".

    Column-wise releases are done column by column, exactly, over `grid` values of the column's known distribution.
    For others the posterior runs over the known `sample` of at most `rows` people: weight of a person x is the product
    over release columns of f_i(z_i - (A x + c)_i). A release without any noise whose transform has full rank is read
    exactly; one of lower rank with a normal kernel of the width of the sample's own spacing. Without a sample
    the people of the table stand for the population: the paper's adversary knows how the table itself is distributed.
    """

    name = "posterior-breach"
    reads_gaps = True
    knows = frozenset({"release", "noise", "column_distributions"})
    helps = frozenset({"transform", "sample", "register", "column_moments", "guided"})
    rho1: float = parameter(
        Share(), "A property is unlikely up to this prior probability, which is below rho2.", default=0.1
    )
    rho2: float = parameter(Share(), "A property is believed from this posterior probability on.", default=0.5)
    parts: int = parameter(Whole(2, 1_000), "Quantile intervals of a number.", default=20)
    grid: int = parameter(Whole(10, 100_000), "Values of a column that beliefs are computed at.", default=500)
    rows: int = parameter(Whole(2, 100_000), "People of the sample.", default=1000)

    def check(self) -> None:
        super().check()
        if not self.rho1 < self.rho2:
            raise UsageError(
                "The 'rho1' parameter of the attack posterior-breach must be below rho2: a belief is to grow from one "
                f"to the other. Got {self.rho1} and {self.rho2} instead."
            )

    def guess(self, known: Knowledge) -> Guess:
        properties = properties_of(known, self.parts)
        if known.columnwise:
            return self._columns(known, properties)
        matrix = None if known.transform is None else known.transform.matrix
        exact = promised(known.noise).is_exact
        if matrix is not None and exact and np.linalg.matrix_rank(matrix) == known.encoding.width:
            after = truths(properties, reversed_release(known)).astype(float)  # what values show is certain
            return Posteriors(self._prior(known, properties), after, properties, self.rho1, self.rho2)
        people = known.register if known.sample is None else known.sample
        if people is None:
            return Abstain("needs a sample of people for a release that mixes columns")
        return self._people(known, properties, spread_out(people, self.rows))

    def _prior(self, known: Knowledge, properties: tuple[Property, ...]) -> Matrix:
        distributions = promised(known.column_distributions)
        some = [spread_out(values, self.grid) for values in distributions]
        return np.array([item.covers(some[item.slot]).mean() for item in properties])

    def _columns(self, known: Knowledge, properties: tuple[Property, ...]) -> Guess:
        """Column by column, over the values of each that the adversary can think of."""
        after, noise = np.empty((len(known.release), len(properties))), promised(known.noise)
        for place, channel in zip(noise.places, noise.channels, strict=True):
            group = next((group for group in known.encoding.groups if group.slice == place), None)
            if group is None:
                return Abstain("some columns of the release were blurred together, not one by one")
            here = [i for i, item in enumerate(properties) if place.start <= item.slot < place.stop]
            mine, columns = [properties[i] for i in here], slice(here[0], here[-1] + 1)
            if channel.is_exact:
                after[:, columns] = truths(mine, known.release)
                continue
            values, weights = self._possible_values(known, group)
            holds = np.column_stack([item.covers(values[:, item.slot - group.start]) for item in mine]).astype(float)
            left = _by_device(channel, values, weights, holds, known.release[:, place], after[:, columns])
            for block in blocks(len(left), len(values)):
                rows = left[block]
                weighed = posterior(values, weights, channel, known.release[rows, place])
                after[rows, columns] = weighed @ holds
                if group.has_indicator:
                    # What is believed of a number is believed of it *if there is one*: a cell that is reported missing
                    # moves the belief that it is missing, which is the last of its properties, and no other.
                    there = weighed * (values[:, 1] < 0.5)
                    total = np.maximum(there.sum(axis=1, keepdims=True), 1e-300)
                    after[rows, columns.start : columns.stop - 1] = there @ holds[:, :-1] / total
        prior = self._prior(known, properties)
        return Posteriors(prior, np.clip(after, 0.0, 1.0), properties, self.rho1, self.rho2, columnwise=True)

    def _possible_values(self, known: Knowledge, group: Group) -> tuple[Matrix, Matrix]:
        """Values of one source column as its population has them, and how likely each is."""
        distributions = promised(known.column_distributions)
        if group.is_onehot:
            shares = np.array([column.mean() for column in distributions[group.slice]])
            return np.asarray(group.vertices), shares / max(float(shares.sum()), 1e-300)
        numbers = np.sort(spread_out(distributions[group.start], self.grid))[:, None]
        weights = np.full(len(numbers), 1.0 / len(numbers))
        if not group.has_indicator:
            return numbers, weights
        missing = float(distributions[group.stop - 1].mean())
        values = np.vstack([np.column_stack([numbers, np.zeros(len(numbers))]), [[0.5, 1.0]]])
        return values, np.append((1.0 - missing) * weights, missing)

    def _people(self, known: Knowledge, properties: tuple[Property, ...], people: Matrix) -> Posteriors:
        holds, suspects = truths(properties, people).astype(float), Suspects.of(known, people)
        E, some = suspects.E, spread_out(suspects.E, 300)
        # Typical distance to the nearest other person, per column: the finest that a finite sample can tell apart.
        squared = np.maximum((some**2).sum(axis=1)[:, None] - 2 * some @ some.T + (some**2).sum(axis=1), 0.0)
        np.fill_diagonal(squared, np.inf)
        nearest = squared.min(axis=1, initial=np.inf)
        finite = nearest[np.isfinite(nearest)]
        width = float(np.sqrt(np.median(finite) / E.shape[1]) if len(finite) else 0.0) or 1e-3
        after = np.empty((len(known.release), len(properties)))
        for block in blocks(len(known.release), len(E)):
            Z = known.release[block]
            weights = normalised(log_likelihood(known, Z, suspects, exact_width=width))
            none_fit = np.isnan(weights[:, 0])
            if none_fit.any():
                weights[none_fit] = np.eye(len(E))[nearest_reported(Z[none_fit], E)[1][:, 0]]
            after[block] = weights @ holds
        return Posteriors(holds.mean(axis=0), after, properties, self.rho1, self.rho2)


def _by_device(channel: Channel, values: Matrix, weights: Matrix, holds: Matrix, Z: Matrix, out: Matrix) -> Codes:
    """Let the device, if there is one, fill `out` for a number that is always there; returns the rows left over."""
    if values.shape[1] != 1 or channel.on_line(Z[:0], values) is None:
        return np.arange(len(Z))
    with np.errstate(divide="ignore"):
        prior = np.log(weights)

    def work(rows: Codes, arrays: Arrays) -> Flags:
        xp = arrays.namespace
        log = channel_log(arrays, channel, Z[rows], values) + arrays.put(prior)[None, :]
        top = xp.amax(log, axis=1)
        chance = xp.exp(log - top[:, None])
        out[rows] = arrays.get(chance @ arrays.put(holds) / chance.sum(axis=1)[:, None])
        # Where no value can have led to it, the nearest gets everything.
        return np.asarray(np.isfinite(arrays.get(top)))

    with np.errstate(invalid="ignore"):
        return left_by_device(len(Z), 48 * len(values), work)


def posterior(values: ArrayLike, probabilities: ArrayLike | None, channel: Channel, z: ArrayLike) -> Matrix:
    """P(X = values[j] | Z = z[i]) for one channel: len(z) x len(values); rows sum to 1.

    Bayes' rule, Eqs (4)-(6) of [principal-laplace], in logarithms. `probabilities` None: all values equally likely.
    Where no value can have led to z, the nearest one gets everything.
    """
    x, seen = (np.atleast_2d(np.asarray(part, dtype=np.float64).T).T for part in (values, z))
    log = channel.log_likelihood(seen, x)
    if probabilities is not None:
        with np.errstate(divide="ignore"):
            log = log + np.log(np.asarray(probabilities, dtype=np.float64))
    weights = normalised(log)
    none_fit = np.isnan(weights[:, 0])
    if none_fit.any():
        line = channel.line(x)
        nearest = nearest_reported(seen[none_fit], x @ line.gain.T + line.offset)[1][:, 0]
        weights[none_fit] = np.eye(len(x))[nearest]
    return weights


def properties_of(known: Knowledge, parts: int) -> tuple[Property, ...]:
    """Quantile intervals of numeric columns, categories, and "is missing", in the order of the encoded columns."""
    found, distributions = list[Property](), promised(known.column_distributions)
    for number, group in enumerate(known.encoding.groups):
        for slot in range(group.start, group.stop):
            if group.is_onehot or slot > group.start:
                found.append(Property(known.encoding.names[slot], number, slot, 0.5, np.inf))
                continue
            edges = np.unique(np.quantile(distributions[slot], np.arange(1, parts) / parts, method="lower"))
            bounds = [-np.inf, *edges, np.inf]
            for part, (low, high) in enumerate(pairwise(bounds), start=1):
                name = f"{known.encoding.names[slot]}: part {part} of {len(bounds) - 1}"
                found.append(Property(name, number, slot, float(low), float(high)))
    return tuple(found)


def spread_out(sample: Matrix, most: int) -> Matrix:
    """At most `most` rows of a sample, evenly over its order."""
    some = sample if len(sample) <= most else sample[np.linspace(0, len(sample) - 1, most).round().astype(int)]
    return np.asarray(some, dtype=np.float64)
