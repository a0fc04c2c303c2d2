"""Bayes' rule over people of the released class, and the guess that the score rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.attacks.base import Attack, Guess, Knowledge, KnownNoise, Transform, Values, promised
from sfumato.attacks.column_beliefs import CELLS, LEAST, Beliefs, ColumnBeliefs, Likely, Placed, likely_people, made_up
from sfumato.attacks.likelihood import Suspects, blocks, left_by_device, log_likelihood, normalised, released
from sfumato.attacks.support import Support, best_window, half_width
from sfumato.channels import NotApplicableError, apart, draw
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.mechanisms.parameters import parameter
from sfumato.table import Group
from sfumato.table.neighbours.nearest import chosen
from sfumato.table.neighbours.tiles import crew, worker_count

# What is believed of every column behind a release that mixes columns by a known map.
#
# People are smoothed by a normal kernel of covariance H, a share of their own covariance. A released component is
# then as likely for a person as its channel says, blurred by the kernel. Given a person x, the row behind
# z = A x + c + noise lies about x + K (z - A x - c), K = H A' (A H A' + N)^-1, with covariance H - K A H: the linear
# answer within the kernel, which is exact for normal noise, leaves people where they are under strong noise and inverts
# the map where there is none.
SPECK = 0.01
"""Standard deviation that every source column has within the kernel, also where the sample does not vary."""
MOST_CELLS = 2_000
FINER = 2
"""Cells of a component, per cell of a column."""


class MixedBeliefs(Beliefs):
    """People of one class behind an affine map and known channels of its components."""

    def __init__(
        self, known: Knowledge, noise: KnownNoise, people: Likely, cells: int, transform: Transform | None = None
    ) -> None:
        """`transform`: the map that mixes columns, where it is not the release's own."""
        if any(channel.width != 1 for channel in noise.channels):
            raise NotApplicableError("some components of the release were blurred together, not one by one")
        self.encoding, self.noise, self.X, self.cells = known.encoding, noise, people.X, cells
        self.log_prior, self.has_gaps = people.log_prior, bool(np.isnan(known.release).any())
        # The map to what the channels are given, and the variance that each adds in these units.
        matrix, offset = (np.array(part, dtype=np.float64) for part in transform or promised(known.transform))
        self.variance, self.seen = np.zeros(len(offset)), []
        for slot, (channel, line) in enumerate(zip(noise.channels, noise.lines, strict=True)):
            if line is None:
                raise NotApplicableError(f"{channel.tag} components are no linear function of the columns plus noise")
            self.seen.append((slice(slot, slot + 1), channel, line))
            if not channel.is_exact:
                gain = float(line.gain[0, 0]) or 1e-12
                matrix[slot], offset[slot] = matrix[slot] / gain, (offset[slot] - line.offset[0]) / gain
                self.variance[slot] = min(line.covariance[0, 0] / gain**2, 1e6)
        self.map = Transform(matrix, offset)
        self.given = people.X @ self.map.matrix.T + self.map.offset
        ends = zip(self.given.min(axis=0), self.given.max(axis=0), strict=True)
        self.supports = [Support.between(float(low), float(high), FINER * cells) for low, high in ends]
        places = [one.places(self.given[:, place]) for one, (place, _, _) in zip(self.supports, self.seen, strict=True)]
        self.placed = Placed.of(places, [len(one.values) for one in self.supports], people.log_prior)

    def smooth(self, share: float) -> None:
        """Also where people lie in the source columns before a row moves them."""
        A = self.map.matrix
        d = self.X.shape[1]
        spread = np.atleast_2d(np.cov(self.X, rowvar=False)) if len(self.X) > 1 else np.zeros((d, d))
        H = share**2 * (spread + SPECK**2 * np.eye(d))
        across = A @ H @ A.T
        widths = np.sqrt(np.maximum(np.diag(across), 0.0))
        self.smoothing = [one.smoothing(float(w), 0.0) for one, w in zip(self.supports, widths, strict=True)]
        speck = 1e-9 * max(float(np.trace(across)) / len(across), 1e-12)
        self.gain = np.linalg.lstsq(across + np.diag(self.variance + speck), A @ H, rcond=1e-13)[0].T
        if self.has_gaps:
            self.gain = np.zeros_like(self.gain)  # people stay where they are
        left = np.sqrt(np.maximum(np.diag(H - self.gain @ A @ H), 0.0))
        self.fixed = self.X - (self.X @ A.T) @ self.gain.T
        self.sources, places = list[tuple[Group, Support, Matrix]](), list[Codes]()
        for group in self.encoding.groups:
            if group.is_onehot:
                one = Support.of_group(group, self.cells)
                places.append(one.places(self.X[:, group.slice]))
            else:
                column, beyond = self.fixed[:, group.start], 4.0 * float(left[group.start])
                low, high = float(column.min()) - beyond, float(column.max()) + beyond
                one = Support.between(low, high, min(MOST_CELLS, max(2, math.ceil((high - low) * self.cells))))
                places.append(one.places(column[:, None]))
            self.sources.append((group, one, one.smoothing(float(left[group.start]), 0.0)))
        self.back = Placed.of(places, [len(one.values) for _, one, _ in self.sources], self.log_prior)

    def _weights(self, Z: Matrix, without: Codes | None = None) -> Any:
        return self.placed.weights(self.placed.smoothed(self.told(Z), self.smoothing), without)

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        return draw(self.noise.channels, np.array(self.given[own]), rng)

    def fit(self, Z: Matrix, own: Codes) -> float:
        weights, moved, total = self._weights(Z, own), self._moved(Z), 0.0
        at = self.back.at_places(weights)
        mean = np.clip(weights.T @ self.fixed + moved, 0.0, 1.0)
        for number, (group, support, S) in enumerate(self.sources):
            if group.is_onehot:
                found = (mean[:, group.slice] * self.X[own][:, group.slice]).sum(axis=1)
            else:
                place = support.places(self.X[own][:, [group.start]] - moved[:, [group.start]])
                found = (at[number] @ S)[np.arange(len(Z)), place] / max(support.extent * self.cells, 1e-9)
            total += float(np.log(np.maximum(found, LEAST)).sum())
        return total

    def _moved(self, Z: Matrix) -> Matrix:
        """How far a row moves people, in every source column."""
        seen = self.noise.before(Z) - self.map.offset
        return np.asarray(np.where(np.isnan(seen), 0.0, seen) @ self.gain.T)

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> Flags:
        weights, moved = self._weights(Z), self._moved(Z)
        at = self.back.at_places(weights)
        mean[:] = np.clip(weights.T @ self.fixed + moved, 0.0, 1.0)
        for number, (group, support, S) in enumerate(self.sources):
            where = group.slice
            if group.is_onehot:
                best = mean[:, where].argmax(axis=1)
                out[:, where] = group.vertices[best]
                sure[:, number] = mean[np.arange(len(mean)), group.start + best]
                continue
            belief = at[number] @ S
            middle, mass, _ = best_window(support.line, belief, half_width(group, tolerance), support.extent)
            out[:, group.start], sure[:, number] = np.clip(middle + moved[:, group.start], 0.0, 1.0), mass
            if group.has_indicator:
                chance = mean[:, group.stop - 1]
                missing = chance > 0.5
                out[:, where] = np.where(missing[:, None], [0.5, 1.0], np.column_stack([out[:, group.start], missing]))
                sure[:, number] = np.where(missing, chance, (1.0 - chance) * mass)
        return np.ones(len(Z), dtype=bool)


class SharedBeliefs(MixedBeliefs):
    """People of one class behind z = x + B u: B^-1 z = B^-1 x + u is a known map with independent noise."""

    def __init__(self, known: Knowledge, noise: KnownNoise, people: Likely, cells: int) -> None:
        self.shared, width = promised(apart(noise.channels)), known.encoding.width
        white = Transform(np.asarray(self.shared.white(np.eye(width)).T), np.zeros(width))
        own = KnownNoise.of(self.shared.channels, self.shared.white(people.X))
        super().__init__(known, own, people, cells, white)

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> Flags:
        return super().guess(self.shared.white(Z), tolerance, out, mean, sure)


# What is believed of every column where the map is no line, or where numbers share noise beside categories.
#
# The bits of a survey and a release in stages are of the first kind. A row tells of all columns at once, so smoothed
# people are drawn (`made_up`), and each has its exact likelihood. Smoothing beliefs after taking likelihoods of the
# listed people instead would leave out everybody between them, who may fit a row far better: where a row tells much,
# nobody on the list does.
MADE_UP = 8_000
"""People drawn of a class, whose numbers stand for others within `ABOUT` of the column's spread."""
ABOUT = 0.1


class ListedBeliefs(Beliefs):
    """People of one class, smoothed by drawing people like them."""

    def __init__(self, known: Knowledge, people: Likely, cells: int, noise: KnownNoise | None = None) -> None:
        """`noise`: that of the class, where classes differ."""
        self.known, self.noise = known, noise or promised(known.noise)
        self.X, self.listed_prior = people.X, people.log_prior
        self.groups = known.encoding.groups
        self.supports = [Support.of_group(group, cells) for group in self.groups]
        pairs = zip(self.supports, self.groups, strict=True)
        self.smoothing = [one.smoothing(ABOUT * float(self.X[:, group.start].std()), 0.0) for one, group in pairs]
        self.smooth(0.0)

    def smooth(self, share: float) -> None:
        """Categories stay as they are."""
        rng = np.random.default_rng(0)  # the adversary's own draws; a guess is a function of what is known
        X, self.after = made_up(self.X, self.groups, share, MADE_UP, rng)
        self.log_prior = self.listed_prior[self.after]
        self.suspects = Suspects.of(self.known, X)
        self.placed = Placed.of(self._places(X), [len(one.values) for one in self.supports], self.log_prior)

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        return released(self.known, self.noise, self.X[own], rng)

    def _beliefs(self, Z: Matrix, without: Codes | None = None) -> list[Matrix]:
        """With a person all who were made after that person are left out."""
        log = log_likelihood(self.known, Z, self.suspects, self.noise) + self.log_prior
        if without is not None:
            log[without[:, None] == self.after] = -np.inf
        weights = normalised(log)
        none_fit = np.isnan(weights[:, 0])
        if none_fit.any():
            weights[none_fit] = normalised(self.log_prior[None])
        at_places = self.placed.at_places(np.ascontiguousarray(weights.T, dtype=np.float32))
        return [np.asarray(here @ S) for here, S in zip(at_places, self.smoothing, strict=True)]


SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""How far people may stand for others like them, as shares of the spread of their class."""
TRIED = 400
"""People of the list on whom they are tried."""


class BayesWindow(Attack):
    """The adversary knows the law of every channel and other people of the released class, applies Bayes' rule, and
    guesses the value that most of its belief lies within the scoring window of.

    Its prior are `people` of the same class as the released row (all people, weighed by the label's own law, where the
    label is randomized), smoothed by a normal kernel. The kernel's width is the one with which the adversary, who
    releases people of the list anew and leaves each out in turn, believes most in what is true. The weight of a person
    is the product of the likelihoods of all channels on `cells` of each column, exact for the smoothed people where
    columns are released one by one; where the release is no line of the columns, smoothed people are drawn. A category
    is guessed by its highest posterior probability. `details` say how sure the adversary is: if its prior is right, it
    is right so often.
    """

    name = "bayes-window"
    reads_gaps = True
    knows = frozenset({"release", "noise", "sample"})
    helps = frozenset({"labels", "sample_labels", "transform", "guided"})
    people: int = parameter(
        Whole(2, 1_000_000),
        "Most people of a class who stand for the population. In many columns a short list is a poor prior: it costs "
        "more than all else that this adversary approximates.",
        default=10_000,
    )
    cells: int = parameter(Whole(20, 2_000), "Cells of a number's range.", default=100)

    def guess(self, known: Knowledge) -> Guess:
        n, encoding = len(known.release), known.encoding
        out, mean = np.empty((n, encoding.width)), np.empty((n, encoding.width))
        sure = np.empty((n, len(encoding.groups)))
        everybody = [(people, self._beliefs(known, people)) for people in likely_people(known, self.people)]
        share = _best_share(everybody)
        for people, beliefs in everybody:
            beliefs.smooth(share)
            _guess_class(known, people.rows, beliefs, (out, mean, sure))
        details = {"mean_sureness": float(sure.mean()), "largest_sureness": float(sure.max(initial=0.0))}
        return Values(mean, details=details, aimed=out)

    def _beliefs(self, known: Knowledge, people: Likely) -> Beliefs:
        if known.guided is not None:
            return ListedBeliefs(known, people, self.cells)
        noise = promised(known.noise).of_class(people.code)
        if not known.columnwise:
            return MixedBeliefs(known, noise, people, self.cells)
        if apart(noise.channels) is None:
            return ColumnBeliefs(noise, known.encoding, people, self.cells)
        if all(channel.width == 1 for channel in noise.channels):
            return SharedBeliefs(known, noise, people, self.cells)
        return ListedBeliefs(known, people, self.cells, noise)


def _guess_class(known: Knowledge, mine: Codes, beliefs: Beliefs, found: tuple[Matrix, Matrix, Matrix]) -> None:
    """Fill in best guesses, posterior means and how sure each is; on a device, if there is one, all but close calls."""
    count, left = beliefs.placed.people, np.arange(len(mine))

    def guess(rows: Codes, by: Beliefs) -> Flags:
        rows = mine[rows]
        out, mean, sure = (np.empty((len(rows), whole.shape[1])) for whole in found)
        settled = by.guess(known.release[rows], known.tolerance, out, mean, sure)
        for whole, part in zip(found, (out, mean, sure), strict=True):
            whole[rows] = part
        return settled

    if isinstance(beliefs, ColumnBeliefs) and (device := chosen()) is not None:
        over = beliefs.on(device[0])
        bytes_of_a_row = 8 * (4 * count + 8 * over.placed.ends[-1])
        left = left_by_device(len(mine), bytes_of_a_row, lambda rows, _: guess(rows, over))

    def by_processor(block: slice) -> None:
        guess(left[block], beliefs)

    with crew(worker_count(None, float(len(left)) * count)) as run:
        run(by_processor, list(blocks(len(left), count, CELLS)))


def _best_share(everybody: Sequence[tuple[Likely, Beliefs]]) -> float:
    """How far people should stand for others: tried on people of the list, released anew and left out in turn. One
    share for all classes, so that it rests on many people."""
    rng = np.random.default_rng(0)  # the adversary's own draws; a guess is a function of what is known
    total = sum(len(people.rows) for people, _ in everybody)
    found = np.zeros(len(SHARES))
    for people, beliefs in everybody:
        chances = np.exp(people.log_prior - people.log_prior.max())
        some = min(int(np.count_nonzero(chances)), max(1, round(TRIED * len(people.rows) / total)))
        if beliefs.placed.people < 3:
            continue
        own = rng.choice(len(chances), size=some, replace=False, p=chances / chances.sum())
        Z = beliefs.simulated(own, rng)
        for place, share in enumerate(SHARES):
            beliefs.smooth(share)
            found[place] += beliefs.fit(Z, own)
    return SHARES[int(np.argmax(found))]
