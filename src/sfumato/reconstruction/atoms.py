"""The density as the exponential of a smooth curve: what the released values say of it, and how surely.

    log p = f + a log u + b log(1 - u) + c log^2 u + d log^2(1 - u) + e u^2,   second differences of f ~ N(0, 1 / r),

u in (0, 1) is the place in the range, r the precision below. Flat, exponential, normal, gamma, beta and lognormal
columns need no f at all; near the ends of the range a density may rise or fall like a power. The likelihood is that of
the counts: n ~ multinomial(G p), as in Eilers' composite link model (2007). For every r the most probable curve is
found by Fisher scoring; with the curvature there it gives the probability of r itself (Laplace's approximation).

Point masses are further cells whose probability no neighbour holds back.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp

from sfumato.core.array_types import Floats
from sfumato.reconstruction.evidence import Cells, Evidence, point_probabilities
from sfumato.reconstruction.parzen_program import second_differences

KNOTS = 75
"""Knots of the curve; more cells than twice as many interpolate between them."""
ROUGHNESS = 10.0 ** np.arange(6.0, -0.1, -0.5)
"""Precisions of second differences that are tried, for `KNOTS` knots: straight lines to peaks of a single cell."""
_DEVIATIONS = np.array([20.0, 20.0, 5.0, 5.0, 30.0])
"""Of the coefficients a to e. A lognormal column whose median is 3% of its range needs a = -6 and c = -1: these must
not be unlikely, or the band of a skewed column leaves out what is true."""
MOST_ROWS = 100_000
"""More rows count as so many: beyond that not chance is the limit, but the cells, within which densities are even."""
_LOOSE = 1e-3
"""Precision that holds the curve's level where nothing else does."""
_ROUNDS = 100
_LARGEST_STEP, _SHORTEST_STEP = 3.0, 1e-9


@dataclass(frozen=True)
class Fitted:
    """The most probable curve at one roughness: `log_evidence` of it, and the curvature as a triangle U, U'U = H."""

    roughness: float
    theta: Floats
    log_evidence: float
    triangle: Floats
    precision: Floats
    """Of the prior, (knots + ...) x (knots + ...)."""


class LogDensity:
    """The model for given counts; `columns` are the spreads of point masses, one matrix for each part."""

    def __init__(self, evidence: Sequence[Evidence], columns: Sequence[Floats] = ()) -> None:
        kept = [1.0 - one.part.hidden for one in evidence]
        spreads = [one.spread for one in evidence]
        self.cells = spreads[0].shape[1]
        if columns:
            spreads = [np.hstack([spread, more]) for spread, more in zip(spreads, columns, strict=True)]
        counted = min(1.0, MOST_ROWS / sum(one.n for one in evidence))
        self.counts: Floats = counted * np.concatenate([one.counts for one in evidence])
        self.G: Floats = np.vstack([share * spread for share, spread in zip(kept, spreads, strict=True)])
        self.background: Floats = np.concatenate([one.part.hidden * one.background for one in evidence])
        self.rows: Floats = np.concatenate([np.full(len(one.counts), counted * one.n) for one in evidence])
        self._met = self.counts > 0
        self.knots = KNOTS if self.cells > 2 * KNOTS else self.cells
        # Second differences between k knots are (75 / k)^1.5 times as large: the same curve, the same probability.
        self.scale = (self.knots / KNOTS) ** 3
        self.points = self.G.shape[1] - self.cells
        self.design, self._differences = _curve(self.cells, self.knots, self.points)
        # Precision of what is no difference: the level, hardly; the coefficients.
        loose = np.full(self.design.shape[1] - len(_DEVIATIONS), _LOOSE)
        self._prior: Floats = np.diag(np.concatenate([loose, _DEVIATIONS**-2.0]))

    def masses(self, theta: Floats) -> Floats:
        """Probabilities of cells and points, for one curve or several (columns)."""
        height = self.design @ theta
        height = np.exp(height - height.max(axis=0))
        return np.asarray(height / height.sum(axis=0))

    def likelihood(self, mass: Floats) -> tuple[Floats, Floats]:
        """Log-likelihood, and its derivative by the heights of the curve."""
        background = self.background if mass.ndim == 1 else self.background[:, None]
        counts = self.counts if mass.ndim == 1 else self.counts[:, None]
        expected = np.maximum(self.G @ mass + background, 1e-300)
        pull = self.G.T @ (counts / expected)
        pull -= (mass * pull).sum(axis=0)
        return np.asarray(self.counts[self._met] @ np.log(expected[self._met])), np.asarray(mass * pull)

    def expected(self, mass: Floats) -> Floats:
        """Probabilities of the cells of z, part below part."""
        return np.asarray(self.G @ mass + self.background)

    def fit(self, roughness: float, start: Floats) -> Fitted:
        """Climb to the most probable curve; steps are halved until they lead upwards."""
        precision = roughness * self._differences + self._prior
        theta, value = start, self._posterior(start, precision)
        for _ in range(_ROUNDS):
            mass = self.masses(theta)
            slope = self.design.T @ self.likelihood(mass)[1] - precision @ theta
            change = self.changes(mass)
            information = (change.T * (self.rows / np.maximum(self.expected(mass), 1e-300))) @ change  # Fisher's
            triangle = cho_factor(information + precision)
            step = cho_solve(triangle, slope)
            gain = float(slope @ step)
            if gain < 1e-4:
                break
            length = min(1.0, _LARGEST_STEP / float(np.abs(self.design @ step).max()))
            while (found := self._posterior(theta + length * step, precision)) < value + 1e-4 * length * gain:
                length *= 0.5
                if length < _SHORTEST_STEP:
                    break
            if found <= value:  # at the top, as far as sums of logarithms tell
                break
            theta, value = theta + length * step, found
        upper = np.triu(triangle[0])
        volume = 0.5 * (self.knots - 2) * np.log(roughness) - float(np.log(np.diag(upper)).sum())
        return Fitted(roughness, theta, value + volume, upper, precision)

    def moved(self, point: int, spread: Floats) -> LogDensity:
        """The same with another spread of one point mass."""
        other = copy.copy(self)
        other.G = self.G.copy()
        other.G[:, self.cells + point] = spread
        return other

    def path(self) -> list[Fitted]:
        """The fits at every roughness, from the smoothest on, each beginning where the one before ended."""
        theta, found = np.zeros(self.design.shape[1]), []
        for roughness in self.scale * ROUGHNESS:
            found.append(self.fit(float(roughness), theta))
            theta = found[-1].theta
        return found

    def _posterior(self, theta: Floats, precision: Floats) -> float:
        return float(self.likelihood(self.masses(theta))[0]) - 0.5 * float(theta @ precision @ theta)

    def changes(self, mass: Floats) -> Floats:
        """Derivatives of the cells of z by the curve's parameters."""
        return np.asarray(((self.G - (self.G @ mass)[:, None]) * mass) @ self.design)


def _curve(cells: int, knots: int, points: int) -> tuple[Floats, Floats]:
    """The matrix from parameters (knots, points, coefficients) to heights, and the knots' squared differences."""
    place = (np.arange(cells) + 0.5) / cells
    curve = np.eye(cells, knots)
    if knots < cells:
        at = place * (knots - 1)
        left = np.minimum(at.astype(np.int64), knots - 2)
        curve = np.zeros((cells, knots))
        curve[np.arange(cells), left] = 1.0 - (at - left)
        curve[np.arange(cells), left + 1] = at - left
    powers = np.column_stack([np.log(place), np.log1p(-place)])
    shapes = np.column_stack([powers, powers**2, (place - 0.5) ** 2])
    free = knots + points
    design = np.zeros((cells + points, free + shapes.shape[1]))
    design[:cells, :knots], design[:cells, free:] = curve, shapes
    design[cells:, knots:free] = np.eye(points)
    rough = second_differences(knots)
    squares = np.zeros((design.shape[1], design.shape[1]))
    squares[:knots, :knots] = rough.T @ rough
    return design, squares


# Values that many people share: point masses are found before anything is smoothed.
#
# Thirty per cent of the people at one value are a wall to any smooth density, and smoothed they look like a hill.
# Through the noise a point mass shows as the noise's own density about its place. One after the other, the place is
# sought where a point explains most of what the smooth density leaves over. Its probability is that of the released
# values with it, against those with a smooth density alone and with a narrow hump in its stead; places and shares that
# do not fit count against it (Bayes factors). Strong noise cannot tell a point from a hump: then both stay, with their
# probabilities.

MOST = 12
_TOGETHER = 4
"""Points that are tried at once."""
_TRIED = 4
"""Sets of atoms that are looked at closely."""
_WORTH = 0.5
"""Log-likelihood that a point has to gain to be tried."""
_PER_CELL = 4
"""Places that are tried in every cell."""
_APART = 2.0
"""Cells between places that are tried as different ones."""
_LEAST_SHARE = 0.005
_HUMPS = (1.5, 3.0, 6.0)
"""Standard deviations, in cells, of the humps that may stand in a point's stead."""
_SELDOM = 2.0
"""How much rarer points are than humps and than neither, before anything is known."""
_LIKELY = 1.645
_WIDENED = 1.25
"""Places scatter by so much more than their likelihood says, which takes the curve's roughness as known."""
_HOPELESS = 5.0
"""Log-evidence that a better place cannot make up for."""
_VAGUE = 4.0
"""A point whose place is uncertain by more cells than this explains nothing that a curve would not."""
_FORGOTTEN = 0.05
_SMALL = 1e-300


@dataclass(frozen=True)
class Atom:
    """A value with a probability of its own; with a `width`, a hump of that standard deviation.

    It was found at `place`, give or take the standard `error`, and `value` is the roundest number near there.
    """

    value: float
    place: float
    error: float
    width: float = 0.0

    def spread(self) -> tuple[Floats, Floats]:
        """Distances from its value, and their weights."""
        if self.width == 0:
            return np.zeros(1), np.ones(1)
        about = np.linspace(-2.25, 2.25, 13)
        weight = np.exp(-0.5 * about**2)
        return self.width * about, weight / weight.sum()


@dataclass(frozen=True)
class Column:
    """A column as it may be: its points and humps, the model with them, and its fits."""

    atoms: tuple[Atom, ...]
    model: LogDensity = field(repr=False)
    fits: Sequence[Fitted] = field(repr=False)

    @property
    def best(self) -> Fitted:
        return max(self.fits, key=lambda fit: fit.log_evidence)

    @property
    def points(self) -> dict[float, float]:
        """Values of point masses, and their likeliest shares."""
        shares = self.model.masses(self.best.theta)[self.model.cells :].tolist()
        return {atom.value: share for atom, share in zip(self.atoms, shares, strict=True) if atom.width == 0}

    def log_evidence(self, width: float) -> float:
        """Of the values released. Any share of an atom is as likely as another, and any place of the whole `width`."""
        total = float(logsumexp([fit.log_evidence for fit in self.fits]))
        mass = self.model.masses(self.best.theta)
        for atom, share in zip(self.atoms, mass[self.model.cells :], strict=True):
            places = min(1.0, atom.error * np.sqrt(2.0 * np.pi) / width)
            total += float(np.log(max(share * (1.0 - share), _SMALL)) + np.log(max(places, _SMALL)))
            total += 0.5 * float(np.log(2.0 * np.pi)) - float(np.log(len(_HUMPS) if atom.width else _SELDOM))
        return total


def understand(evidence: Sequence[Evidence], cells: Cells, *, atoms: bool = True) -> list[tuple[Column, float]]:
    """What the column may be, with probabilities, the likeliest first; with at most `MOST` atoms if any are wanted."""
    search = _Search(evidence, cells)
    best = search.column(())
    tried = [best]
    while atoms and len(best.atoms) < MOST:
        begun = [search.column(more) for more in search.promising(best)]
        if not begun or max(map(search.log_evidence, begun)) + _HOPELESS < search.log_evidence(best):
            break
        found = search.settled(max(begun, key=search.log_evidence))
        rivals = [best, *search.rivals(found, len(best.atoms))]
        tried += [found, *rivals[1:]]
        winner = max([found, *rivals], key=search.log_evidence)
        if len(winner.atoms) <= len(best.atoms) or len(winner.points) < len(winner.atoms):
            break
        best = winner
    chances = np.array([search.log_evidence(column) for column in tried])
    chances = np.exp(chances - chances.max())
    chances[chances < _FORGOTTEN * chances.sum()] = 0.0
    order = [int(place) for place in np.argsort(-chances) if chances[place] > 0]
    return [(tried[place], float(chances[place] / chances.sum())) for place in order]


class _Search:
    """The released values, and what points and humps at any place would make of them."""

    def __init__(self, evidence: Sequence[Evidence], cells: Cells) -> None:
        self.evidence, self.whole = evidence, cells.atoms
        self.low, self.high = float(cells.edges[0]), float(cells.edges[-1])
        self.cell = float(cells.widths[0])
        self.step = self.cell / (1 if cells.atoms else _PER_CELL)
        self.places: Floats = cells.middles
        if not self.whole:
            self.places = np.linspace(self.low, self.high, _PER_CELL * cells.count + 1)
        self.spread = self.stacked(self.spreads(self.places))

    def log_evidence(self, column: Column) -> float:
        return column.log_evidence(self.high - self.low)

    def spreads(self, at: Floats) -> list[Floats]:
        return [point_probabilities(one.part.noise, one.edges, at) for one in self.evidence]

    def stacked(self, spreads: Sequence[Floats]) -> Floats:
        parts = zip(self.evidence, spreads, strict=True)
        return np.vstack([(1.0 - one.part.hidden) * spread for one, spread in parts])

    def column(self, atoms: Sequence[Atom]) -> Column:
        """The model with these atoms, fitted."""
        model = self.model(atoms)
        return Column(tuple(atoms), model, model.path())

    def model(self, atoms: Sequence[Atom]) -> LogDensity:
        if not atoms:
            return LogDensity(self.evidence)
        columns = []  # of every atom, part by part
        for atom in atoms:
            about, weight = atom.spread()
            at = np.clip(atom.value + about, self.low, self.high)
            columns.append([spread @ weight for spread in self.spreads(at)])
        return LogDensity(self.evidence, [np.column_stack(part) for part in zip(*columns, strict=True)])

    def promising(self, column: Column) -> list[tuple[Atom, ...]]:
        """More atoms to try: where one explains most of what is left over, or an end of the range, and then the next.

        They are sought at several roughnesses, for rough curves absorb what smooth ones leave, and several points may
        only go together.
        """
        found: list[tuple[float, tuple[Atom, ...]]] = []
        for fit in column.fits[::2]:
            places = self.gains(column.model, fit, column.atoms)
            places += [(end, 0.05) for end in (self.low, self.high) if self.apart(end, column.atoms)]
            single = [self.grown(column.atoms, column.model, fit, *place) for place in places]
            found += [(reached.log_evidence, atoms) for atoms, _, reached in single]
            if not single:
                continue
            atoms, model, reached = max(single, key=lambda one: one[2].log_evidence)
            while len(atoms) < min(MOST, len(column.atoms) + _TOGETHER):
                places = self.gains(model, reached, atoms)
                if not places:
                    break
                atoms, model, reached = self.grown(atoms, model, reached, *places[0])
                found.append((reached.log_evidence, atoms))
        chosen: dict[tuple[int, ...], tuple[Atom, ...]] = {}
        for _, atoms in sorted(found, key=lambda one: -one[0]):
            chosen.setdefault(tuple(sorted(round(atom.value / self.cell / _APART) for atom in atoms)), atoms)
        return list(chosen.values())[:_TRIED]

    def apart(self, place: float, atoms: Sequence[Atom]) -> bool:
        return all(abs(place - atom.value) > _APART * self.cell for atom in atoms)

    def gains(self, model: LogDensity, fit: Fitted, atoms: Sequence[Atom]) -> list[tuple[float, float]]:
        """The two places where one more point would gain most, with the curve as it is, and the share it would have."""
        expected = np.maximum(model.expected(model.masses(fit.theta)), _SMALL)
        change = (self.spread + model.background[:, None]) / expected[:, None] - 1.0
        share = np.full(len(self.places), 0.05)
        for _ in range(6):  # Newton's method for the share of every place by itself
            ratio = change / (1.0 + share * change)
            slope, curve = model.counts @ ratio, model.counts @ ratio**2
            share = np.clip(share + slope / np.maximum(curve, _SMALL), 1e-4, 0.95)
        gain = np.where(share < _LEAST_SHARE, -np.inf, model.counts @ np.log1p(share * change))
        for atom in atoms:  # what is left over there is a matter of its place
            gain[np.abs(self.places - atom.value) <= _APART * self.cell] = -np.inf
        found: list[tuple[float, float]] = []
        while len(found) < 2 and gain.max() > _WORTH:
            best = int(np.argmax(gain))
            found.append((float(self.places[best]), float(share[best])))
            gain[np.abs(self.places - self.places[best]) <= _APART * self.cell] = -np.inf
        return found

    def grown(
        self, atoms: Sequence[Atom], model: LogDensity, fit: Fitted, place: float, share: float
    ) -> tuple[tuple[Atom, ...], LogDensity, Fitted]:
        """The atoms and one more, fitted at the same roughness."""
        level = float(logsumexp(model.design @ fit.theta) + np.log(share / (1.0 - share)))
        more = (*atoms, Atom(place, place, self.step))
        grown = self.model(more)
        return more, grown, grown.fit(fit.roughness, np.insert(fit.theta, model.knots + model.points, level))

    def rivals(self, column: Column, first: int) -> list[Column]:
        """What else the atoms from `first` on may be: one of them less, or one of them a hump."""
        atoms, fresh = column.atoms, range(first, len(column.atoms))
        found = [self.column((*atoms[:one], *atoms[one + 1 :])) for one in (fresh if len(fresh) > 1 else ())]
        for one, hump in itertools.product(() if self.whole else fresh, _HUMPS):
            wider = replace(atoms[one], width=hump * self.cell)
            found.append(self.column((*atoms[:one], wider, *atoms[one + 1 :])))
        return found

    def settled(self, column: Column) -> Column:
        """Every atom moved to where it fits best, and the curve fitted again.

        Two that meet are one, and one that can be anywhere is none.
        """
        if self.whole:
            return column
        atoms: list[Atom] = []
        for atom in (self.located(column, number) for number in range(len(column.atoms))):
            if atom.error < _VAGUE * self.cell and self.apart(atom.value, atoms):
                atoms.append(atom)
        return self.column(atoms)

    def located(self, column: Column, number: int) -> Atom:
        """An atom's place and its standard error, with the curve free to follow; the roundest likely place is taken.

        The likelihood of a place has corners where the noise has edges, so that it is tabulated, not differentiated.
        """
        atom, fit = column.atoms[number], column.best
        value, error = atom.value, self.cell
        for _ in range(3):
            at = np.unique(np.clip(value + error * np.linspace(-2.5, 2.5, 11), self.low, self.high))
            spread = self.stacked(self.spreads(at))
            fits = [column.model.moved(number, one).fit(fit.roughness, fit.theta) for one in spread.T]
            chance = np.exp([one.log_evidence - max(other.log_evidence for other in fits) for one in fits])
            chance /= chance.sum()
            value = float(chance @ at)
            error = float(np.clip(np.sqrt(chance @ (at - value) ** 2), 0.4 * error, 2.0 * error))
        error = max(_WIDENED * error, 0.02 * self.cell)
        ends = np.clip([value - _LIKELY * error, value + _LIKELY * error], self.low, self.high)
        return Atom(roundest(float(ends[0]), float(ends[1])), value, error)


def roundest(low: float, high: float) -> float:
    """The number with the fewest digits in [low, high]: people share 40 hours or an income of 0, not 39.97."""
    if low <= 0.0 <= high:
        return 0.0
    size = 10.0 ** np.ceil(np.log10(max(abs(low), abs(high))))
    for _ in range(17):
        for step in (size, size / 2.0, size / 5.0):
            multiple = float(np.ceil(low / step) * step)
            if low <= multiple <= high:
                return multiple
        size /= 10.0
    return 0.5 * (low + high)
