"""Values that many people share: point masses are found before anything is smoothed.

Thirty per cent of the people at one value are a wall to any smooth density, and smoothed they look like a hill. Through
the noise a point mass shows as the noise's own density about its place. One after the other, the place is sought where
a point explains most of what the smooth density leaves over. Its probability is that of the released values with it,
against those with a smooth density alone and with a narrow hump in its stead; places and shares that do not fit count
against it (Bayes factors). Strong noise cannot tell a point from a hump: then both stay, with their probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.core.array_types import Floats
from sfumato.reconstruction.evidence import Evidence
from sfumato.reconstruction.kernel import Cells, point_probabilities
from sfumato.reconstruction.log_density import Fitted, LogDensity, log_sum

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
        total = log_sum([fit.log_evidence for fit in self.fits])
        mass = self.model.masses(self.best.theta)
        for atom, share in zip(self.atoms, mass[self.model.cells :], strict=True):
            places = min(1.0, atom.error * np.sqrt(2.0 * np.pi) / width)
            total += float(np.log(max(share * (1.0 - share), _SMALL)) + np.log(max(places, _SMALL)))
            total += 0.5 * float(np.log(2.0 * np.pi))
            total -= float(np.log(len(_HUMPS) if atom.width else _SELDOM))
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
        columns: list[list[Floats]] = [[] for _ in self.evidence]
        for atom in atoms:
            about, weight = atom.spread()
            for part, spread in zip(
                columns, self.spreads(np.clip(atom.value + about, self.low, self.high)), strict=True
            ):
                part.append(spread @ weight)
        return LogDensity(self.evidence, [np.column_stack(part) for part in columns] if atoms else ())

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
        height = model.design @ fit.theta
        level = float(height.max() + np.log(np.exp(height - height.max()).sum()) + np.log(share / (1.0 - share)))
        more = (*atoms, Atom(place, place, self.step))
        grown = self.model(more)
        return more, grown, grown.fit(fit.roughness, np.insert(fit.theta, model.knots + model.points, level))

    def rivals(self, column: Column, first: int) -> list[Column]:
        """What else the atoms from `first` on may be: one of them less, or one of them a hump."""
        found, fresh = [], range(first, len(column.atoms))
        for number in fresh if len(fresh) > 1 else ():
            found.append(self.column((*column.atoms[:number], *column.atoms[number + 1 :])))
        for number in fresh if not self.whole else ():
            for hump in _HUMPS:
                atoms = list(column.atoms)
                atoms[number] = replace(atoms[number], width=hump * self.cell)
                found.append(self.column(atoms))
        return found

    def settled(self, column: Column) -> Column:
        """Every atom moved to where it fits best, and the curve fitted again.

        Two that meet are one, and one that can be anywhere is none.
        """
        if self.whole:
            return column
        atoms: list[Atom] = []
        for number in range(len(column.atoms)):
            atom = self.located(column, number)
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
