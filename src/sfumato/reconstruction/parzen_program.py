"""Parzen window, then a quadratic programme: reconstruction without iteration [density-reconstruction, Fig. 2]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import UsageError
from sfumato.reconstruction.bandwidth import leave_one_out_width
from sfumato.reconstruction.evidence import NO_ATOMS, Evidence, Part, z_cells
from sfumato.reconstruction.kernel import Cells, rectangle_rule, smoothing
from sfumato.reconstruction.programme import optimality_residual, simplex_program

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

    @classmethod
    def as_published(cls, penalty: float = 0.0, points: int = 200) -> ParzenProgram:
        """The paper's own: rectangle rule, f_Z against the unblurred G, all rows alike, no penalty."""
        return cls(points, penalty, "rectangle", matched=False, weighted=False)

    def prepare(self, parts: Sequence[Part], cells: Cells, atoms: Mapping[float, float] = NO_ATOMS) -> ParzenSolver:
        if self.rule not in RULES:
            raise UsageError(f"The 'rule' parameter must be one of {', '.join(RULES)}. Got {self.rule!r} instead.")
        if isinstance(self.penalty, str) and self.penalty != "auto":
            raise UsageError(f"The 'penalty' parameter must be a number or auto. Got {self.penalty!r} instead.")
        if self.width is not None and not 0 < self.width < np.inf:
            raise UsageError(f"The 'width' parameter must be a positive number, or None. Got {self.width!r} instead.")
        widths = [leave_one_out_width(part.bins) if self.width is None else self.width for part in parts]
        points = z_cells(self.points, cells)
        margins = [4.0 * width if self.rule == "cells" else 0.0 for width in widths]
        evidence = [
            Evidence.of(part, cells, points, margin, atoms) for part, margin in zip(parts, margins, strict=True)
        ]
        designs = [self._design(e, w, cells) for e, w in zip(evidence, widths, strict=True)]
        solver = ParzenSolver(evidence, designs, len(atoms))
        if self.weighted:
            solver.weigh()
        solver.penalty = best_penalty(solver) if self.penalty == "auto" else float(self.penalty)
        solver.about = {
            "width": widths if len(widths) > 1 else widths[0],
            "penalty": solver.penalty,
            "residual": solver.residual(),
        }
        return solver

    def _design(self, evidence: Evidence, width: float, cells: Cells) -> tuple[Floats, Floats]:
        """The window as a matrix, and G with the hidden values' column behind it, both as probabilities of z-cells."""
        window = smoothing(len(evidence.edges) - 1, width / float(evidence.edges[1] - evidence.edges[0]))
        spread = evidence.spread[1:-1]
        if self.rule == "rectangle":
            spread = np.hstack([rectangle_rule(evidence.part.noise, evidence.edges, cells), spread[:, cells.count :]])
        G = np.column_stack([spread, evidence.background[1:-1]])
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
        pilot = self.solve_with(self.evidence, PENALTIES[_PILOT])
        found = []
        for part, (_, G) in zip(self.evidence, self.designs, strict=True):
            hidden = part.part.hidden
            f = (1.0 - hidden) * (G[:, :-1] @ pilot) + hidden * G[:, -1]
            found.append(1.0 / np.sqrt(np.maximum(f + _FLOOR * f.max(), 1e-300)))
        self.weights = found

    def solve(self, evidence: Sequence[Evidence]) -> Floats:
        return self.solve_with(evidence, self.penalty)

    def solve_with(self, evidence: Sequence[Evidence], penalty: float) -> Floats:
        return simplex_program(*self._stacked(evidence), penalty, self.atoms)

    def residual(self) -> float:
        """Of the conditions of optimality [density-reconstruction, Eq. 18] at the estimate."""
        G, f = self._stacked(self.evidence)
        return optimality_residual(G, f, self.solve(self.evidence), self.penalty, self.atoms)

    def _stacked(self, evidence: Sequence[Evidence]) -> tuple[Floats, Floats]:
        """One programme for all parts: rows of every part, weighted by its number of values (variances are 1 / n)."""
        rows, targets = [], []
        total = sum(part.n for part in evidence)
        for place, (part, (window, G)) in enumerate(zip(evidence, self.designs, strict=True)):
            hidden = part.part.hidden
            f = window @ (part.counts[1:-1] / part.n)
            f = (f - hidden * G[:, -1]) / (1.0 - hidden)
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
    pilot = solver.solve_with(solver.evidence, PENALTIES[_PILOT])
    samples = [[part.resampled(rng, part.expected(pilot)) for part in solver.evidence] for _ in range(_TRIALS)]
    losses: dict[int, float] = {}

    def loss(place: int) -> float:
        if place not in losses:
            found = [solver.solve_with(sample, PENALTIES[place]) for sample in samples]
            losses[place] = float(np.mean([0.5 * np.abs(mass - pilot).sum() for mass in found]))
        return losses[place]

    best, step = _PILOT, 1 if loss(_PILOT + 1) < loss(_PILOT - 1) else -1
    while 0 <= best + step < len(PENALTIES) and loss(best + step) < loss(best):
        best += step
    return float(PENALTIES[best])
