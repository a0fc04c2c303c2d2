"""Parzen window, then a quadratic programme: reconstruction without iteration [density-reconstruction, Fig. 2]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.optimize import minimize_scalar, nnls
from scipy.special import ndtr

from sfumato.core.accepted import Accepted, Either, Flag, Nothing, Positive, Whole, Word, check_accepted
from sfumato.core.array_types import Floats
from sfumato.core.errors import SfumatoError
from sfumato.noise import NumberNoise
from sfumato.reconstruction.evidence import MOST_POINTS, NO_ATOMS, Bins, Cells, Evidence, Part, z_cells


# The quadratic programme on the probability simplex, solved exactly [density-reconstruction, Eqs. 14-18].
#
#     minimise ||G p - f||^2 + penalty ||G||^2 ||D p||^2   over p >= 0, sum p = 1,
#
# D takes second differences, ||G|| is the largest singular value, so that the weight means the same on every scale. On
# the simplex f = f 1'p, so both terms are ||M p||^2 with M = [G - f 1'; sqrt(penalty) ||G|| D]. Non-negative least
# squares of [M; 1'] to the target [0; 1] finds s p with s = 1 / (1 + ||M p||^2): for every p on the simplex the best
# s leaves ||M p||^2 / (1 + ||M p||^2), which grows with ||M p||^2; so normalising gives the optimum itself, for every
# penalty. (In Eq. 16 the sum should be 1 / dx as in Eq. 14, if f_X is a density; here p are probabilities. In
# Eq. 18 < is <=.)
class ConvergenceError(SfumatoError):
    """A programme that did not reach its optimum."""


def second_differences(count: int) -> Floats:
    """(count - 2) x count; none where there are fewer than three cells."""
    return np.asarray(np.diff(np.eye(count), 2, axis=0)) if count > 2 else np.zeros((0, count))


def _roughness(count: int, points: int) -> Floats:
    """D of the cells; point masses have no neighbours."""
    return np.hstack([second_differences(count - points), np.zeros((max(0, count - points - 2), points))])


def optimality_residual(G: Floats, f: Floats, p: Floats, penalty: float = 0.0, points: int = 0) -> float:
    """How far p is from fulfilling [density-reconstruction, Eq. 18], with <= for its <; 0 at the optimum.

    At the optimum the cost has one and the same derivative, the least of all, at every cell with probability. The
    residual is by how much it exceeds the least one at such a cell, at most, over the largest part of the derivative.
    """
    size = float(np.linalg.norm(G, 2)) or 1.0
    rough = _roughness(G.shape[1], points)
    fitted, seen = G.T @ (G @ p) / size**2, G.T @ f / size**2
    slope = fitted - seen + penalty * (rough.T @ (rough @ p))
    scale = float(max(np.abs(fitted).max(), np.abs(seen).max())) or 1.0
    return float(slope[p > 0].max() - slope.min()) / scale


def simplex_program(G: Floats, f: Floats, penalty: float = 0.0, points: int = 0) -> Floats:
    """The p on the simplex that minimises ||G p - f||^2 + penalty ||G||^2 ||D p||^2.

    The last `points` columns of G are point masses, which have no neighbours: D leaves them out.
    """
    if not (np.isfinite(G).all() and np.isfinite(f).all()):
        raise ConvergenceError(
            "The programme holds infinite densities: the operator has turning points. Use rule='cells' instead."
        )
    size = float(np.sqrt(np.linalg.eigvalsh(G.T @ G)[-1]))
    if not size > 0:
        raise ConvergenceError("No value in the range can have produced the released values: nothing can be estimated.")
    count, rough = G.shape[1], _roughness(G.shape[1], points)
    M = np.vstack([(G - f[:, None]) / size, np.sqrt(penalty) * rough, np.ones(count)])
    target = np.zeros((len(M), 1))
    target[-1] = 1.0
    # The triangle of a QR decomposition has the same norms and far fewer rows; its last column is the target.
    triangle: Floats = np.asarray(np.linalg.qr(np.hstack([M, target]), mode="r"))
    try:
        p, _ = nnls(triangle[:, :-1], triangle[:, -1], maxiter=max(1000, 30 * count))
    except RuntimeError as error:
        raise ConvergenceError(
            "The programme did not converge. Use fewer bins or a larger penalty, or expectation-maximization."
        ) from error
    total = float(p.sum())
    if not (np.isfinite(total) and total > 0):
        raise ConvergenceError("The programme has no solution: the released values do not fit the noise on the card.")
    return np.asarray(p / total)


# Width of the Parzen window by leave-one-out cross-validation [density-reconstruction, Eq. 5], from counts.
#
#     E(s) = 1/N^2 sum_ij N(z_i; z_j, sqrt(2) s)  -  2 / (N (N - 1)) sum_{i != j} N(z_i; z_j, s)
#
# Both sums are sums of a normal kernel over the autocorrelation of the sample. On g cells of width d, each value shared
# between the two edges of its cell (linear binning), that costs one FFT: with C(w) the transform of the shared counts
# (padded to a period P that no kernel reaches round), the sum over pairs i != j of a normal kernel of width s is
#
#     1/P sum_w (|C(w)|^2 - S(w)) / sinc^4(w d / 2) exp(-w^2 s^2 / 2),   S(w) = N - 2 (1 - cos w d) sum_i t_i (1 - t_i).
#
# S are the self-terms of values that lie t_i into their cell. Taking them out exactly matters at small widths, where
# they would otherwise be smeared over a cell and spoil the criterion; the self-terms that Eq. 5 keeps are added in
# closed form. sinc^4 is what sharing takes from a pair on average. Only frequencies up to about 8 / s count, so a width
# costs O(range / s) and the whole search O(N + g log g).

_REACH = 8.0
_WIDEST = 1.5
"""Largest width that is tried, in standard deviations."""


class LeaveOneOut:
    """The criterion of Eq. 5 for one sample, as a function of the width."""

    def __init__(self, bins: Bins) -> None:
        # A transform is periodic: two values a whole range apart are neighbours round the end. With few values the best
        # width is of the size of the range, and a period of only twice the range made it up to 15% too small.
        self.finest = 2.0 * bins.step
        self.widest = max(_WIDEST * bins.spread(), 2.0 * self.finest)
        reach = 6.0 * math.sqrt(2.0) * self.widest
        size = int(next_fast_len(len(bins.counts) + 1 + math.ceil(reach / bins.step), real=True))
        self.n = int(bins.counts.sum())
        self.period = size * bins.step
        shared = np.zeros(len(bins.counts) + 1)
        shared[:-1] = bins.counts - bins.shift
        shared[1:] += bins.shift
        transform = rfft(shared, size)
        self.frequency: Floats = np.arange(float(len(transform))) * (2.0 * np.pi / self.period)
        angle = self.frequency * bins.step
        selves = self.n - 2.0 * (1.0 - np.cos(angle)) * bins.wobble
        power = transform.real**2 + transform.imag**2 - selves
        self.power: Floats = power / np.sinc(angle / (2.0 * np.pi)) ** 4
        self.power[1:] *= 2.0  # negative frequencies

    def pairs(self, width: float) -> float:
        """Sum of N(z_i; z_j, width) over i != j."""
        last = int(np.searchsorted(self.frequency, _REACH / width)) + 1
        exponent = self.frequency[:last] * (width / math.sqrt(2.0))
        exponent *= -exponent
        return float(self.power[:last] @ np.exp(exponent, out=exponent)) / self.period

    def __call__(self, width: float) -> float:
        """E_LOO."""
        return self._criterion(width, self.pairs(width), self.pairs(math.sqrt(2.0) * width))

    def _criterion(self, width: float, pairs: float, wide: float) -> float:
        selves = self.n / (2.0 * width * math.sqrt(math.pi))
        return (wide + selves) / self.n**2 - 2.0 / (self.n * (self.n - 1)) * pairs

    def series(self, first: float, last: float) -> tuple[Floats, Floats]:
        """The criterion at widths from `first` to `last`; in steps of 2^(1/6) all sqrt(2) widths are there already."""
        count = max(6, math.ceil(6.0 * math.log2(last / first)))
        widths = first * 2.0 ** (np.arange(count + 4) / 6.0)
        pairs = [self.pairs(width) for width in widths]
        found = [self._criterion(widths[k], pairs[k], pairs[k + 3]) for k in range(count + 1)]
        return widths[: count + 1], np.array(found)


def leave_one_out_width(bins: Bins) -> float:
    """The width that minimises the criterion: the best of a geometric series, then refined.

    Never below two cells: tied values (a release that was rounded) would draw it to 0.
    """
    criterion = LeaveOneOut(bins)
    widths, values = criterion.series(criterion.finest, criterion.widest)
    best = int(np.argmin(values))
    ends = math.log(widths[max(0, best - 1)]), math.log(widths[min(len(widths) - 1, best + 1)])
    found = minimize_scalar(lambda x: criterion(math.exp(x)), bounds=ends, method="bounded", options={"xatol": 1e-5})
    return float(math.exp(found.x))


def rectangle_rule(noise: NumberNoise, z_edges: Floats, cells: Cells) -> Floats:
    """g(z | x) dz at the middles of the z- and x-cells (without overflow rows): Eqs. 11-13 with |dE/dz|."""
    middles = 0.5 * (z_edges[1:] + z_edges[:-1])
    return noise.pdf(middles[:, None], cells.middles[None, :]) * np.diff(z_edges)[:, None]


def smoothing(count: int, width: float) -> Floats:
    """The Parzen window on cells: row j spreads over the cells by a normal kernel of `width` cells."""
    lag = np.arange(count)
    weights = ndtr((lag + 0.5) / width) - ndtr((lag - 0.5) / width)
    return np.asarray(weights[np.abs(lag[:, None] - lag[None, :])])


RULES = ("cells", "rectangle")
PENALTIES = tuple(10.0 ** (k / 2) for k in range(-8, 7))
"""Among which the automatic weight is chosen: 1e-4 to 1e3."""
_PILOT = 6
"""Place in `PENALTIES` of the pilot's weight, 0.1."""
_TRIALS = 6
_FLOOR = 0.02
"""A row's weight is 1 / sqrt(f + this share of the largest f): cells that stay empty must not count without limit."""


@dataclass(frozen=True)
class ParzenProgram:
    """f_Z by a Parzen window of leave-one-out width, then f_X by a programme on the simplex with f_Z = G f_X.

    As published the programme is ill-posed: it overfits the more, the more cells of x there are. By default
    (`penalty="auto"`) second differences are penalised, with the weight that would have been best had the pilot
    estimate (weight 0.1) been the truth: from the pilot, samples as large as the release are drawn, every weight is
    tried on them, and the one with the least mean information loss (Eq. 20) is taken [in the manner of Delaigle &
    Gijbels 2004]. Discrepancy and cross-validation judge the fit to z, where roughness of f_X hardly shows, and choose
    far too small weights in one case of five.

    Parameters
    ----------
    points : cells of z; at least 2.5 times the cells of x are taken.
    penalty : "auto", or the weight relative to ||G||^2; 0 as published.
    rule : "cells": probabilities of cells, right also where densities have edges or poles; "rectangle" as published.
    matched : whether G is blurred by the Parzen window as f_Z is, so that both sides mean the same.
    weighted : whether rows count by their precision, 1 / f_Z as the pilot expects it, or all alike as published.
    width : of the window; None: by leave-one-out cross-validation (Eq. 5).
    """

    points: int = 200
    penalty: float | str = "auto"
    rule: str = "cells"
    matched: bool = True
    weighted: bool = True
    width: float | None = None
    name: ClassVar[str] = "parzen-program"
    accepts: ClassVar[Mapping[str, Accepted]] = MappingProxyType(
        {
            "points": Whole(1, MOST_POINTS),
            "penalty": Either((Positive(or_zero=True), Word(("auto",)))),
            "rule": Word(RULES),
            "matched": Flag(),
            "weighted": Flag(),
            "width": Either((Positive(math.inf), Nothing())),
        }
    )
    published: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"penalty": 0.0, "rule": "rectangle", "matched": False, "weighted": False}
    )
    """Rectangle rule, f_Z against the unblurred G, all rows alike, no penalty."""

    @classmethod
    def as_published(cls, penalty: float = 0.0, points: int = 200) -> ParzenProgram:
        """The paper's own; with another penalty, all else is."""
        return cls(**{**cls.published, "penalty": penalty, "points": points})

    def prepare(self, parts: Sequence[Part], cells: Cells, atoms: Mapping[float, float] = NO_ATOMS) -> ParzenSolver:
        check_accepted(self.name, self.accepts, vars(self))
        widths = [leave_one_out_width(part.bins) if self.width is None else self.width for part in parts]
        points = z_cells(self.points, cells)
        margins = [4.0 * width if self.rule == "cells" else 0.0 for width in widths]
        evidence = [Evidence.of(one, cells, points, margin, atoms) for one, margin in zip(parts, margins, strict=True)]
        designs = [self._design(one, width, cells) for one, width in zip(evidence, widths, strict=True)]
        solver = ParzenSolver(evidence, designs, len(atoms))
        if self.weighted:
            solver.weigh()
        solver.penalty = best_penalty(solver) if self.penalty == "auto" else float(self.penalty)
        # of the conditions of optimality [density-reconstruction, Eq. 18] at the estimate
        programme, found = solver.stacked(evidence), solver.solve(evidence)
        residual = optimality_residual(*programme, found, solver.penalty, solver.atoms)
        width = widths if len(widths) > 1 else widths[0]
        solver.about = {"width": width, "penalty": solver.penalty, "residual": residual}
        return solver

    def _design(self, evidence: Evidence, width: float, cells: Cells) -> tuple[Floats, Floats]:
        """The window as a matrix, and G with the hidden values' column behind it, both as probabilities of z-cells."""
        window = smoothing(len(evidence.edges) - 1, width / float(evidence.edges[1] - evidence.edges[0]))
        G = np.column_stack([evidence.spread, evidence.background])[1:-1]
        if self.rule == "rectangle":
            G[:, : cells.count] = rectangle_rule(evidence.part.noise, evidence.edges, cells)
        return window, window @ G if self.matched else G


@dataclass
class ParzenSolver:
    """The programme with everything chosen; see `ParzenProgram`."""

    evidence: Sequence[Evidence]
    designs: Sequence[tuple[Floats, Floats]]
    atoms: int = 0
    penalty: float = 0.0
    weights: Sequence[Floats] | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def weigh(self) -> None:
        """Settle the weights of the rows, from an estimate that counts all rows alike.

        Weights from the counts themselves would favour cells that are empty by chance, and draw mass away from long
        tails: with 600 values under the quartic operator twice the loss.
        """
        pilot = self.solve(self.evidence, PENALTIES[_PILOT])
        found = []
        for part, (_, G) in zip(self.evidence, self.designs, strict=True):
            hidden = part.part.hidden
            f = (1.0 - hidden) * (G[:, :-1] @ pilot) + hidden * G[:, -1]
            found.append(1.0 / np.sqrt(np.maximum(f + _FLOOR * f.max(), 1e-300)))
        self.weights = found

    def solve(self, evidence: Sequence[Evidence], penalty: float | None = None) -> Floats:
        return simplex_program(*self.stacked(evidence), self.penalty if penalty is None else penalty, self.atoms)

    def stacked(self, evidence: Sequence[Evidence]) -> tuple[Floats, Floats]:
        """One programme for all parts: rows of every part, weighted by its number of values (variances are 1 / n)."""
        rows, targets = [], []
        total = sum(part.n for part in evidence)
        for place, (part, (window, G)) in enumerate(zip(evidence, self.designs, strict=True)):
            hidden = part.part.hidden
            f = (window @ (part.counts[1:-1] / part.n) - hidden * G[:, -1]) / (1.0 - hidden)
            weight = np.full(len(f), np.sqrt(part.n / total))
            if self.weights is not None:
                weight *= self.weights[place]
            rows.append(weight[:, None] * G[:, :-1])
            targets.append(weight * f)
        return np.vstack(rows), np.concatenate(targets)


def best_penalty(solver: ParzenSolver) -> float:
    """The weight that serves best if the pilot is the truth (see `ParzenProgram`): downhill along `PENALTIES`.

    The draws are the same for all weights, and their seed is fixed: the choice is a function of the counts.
    """
    rng = np.random.default_rng(0)
    pilot = solver.solve(solver.evidence, PENALTIES[_PILOT])
    samples = [[part.resampled(rng, pilot) for part in solver.evidence] for _ in range(_TRIALS)]
    losses: dict[int, float] = {}

    def loss(place: int) -> float:
        if place not in losses:
            found = [solver.solve(sample, PENALTIES[place]) for sample in samples]
            losses[place] = float(np.mean([0.5 * np.abs(mass - pilot).sum() for mass in found]))
        return losses[place]

    best, step = _PILOT, 1 if loss(_PILOT + 1) < loss(_PILOT - 1) else -1
    while 0 <= best + step < len(PENALTIES) and loss(best + step) < loss(best):
        best += step
    return float(PENALTIES[best])
