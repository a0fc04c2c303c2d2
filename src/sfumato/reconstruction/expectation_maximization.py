"""Reconstruction by iteration: Bayes' rule over and over, which is expectation-maximization.

    p_i <- p_i sum_j n_j A_ji / (A p)_j / N        A_ji = P(z in cell j | x in cell i), n_j values in cell j

Agrawal & Srikant (2000) derived the step from Bayes' rule, Agrawal & Aggarwal (2001) showed that it is
expectation-maximization and climbs to the maximum-likelihood estimate. That estimate is as ill-posed as the unpenalised
programme, so everything depends on where the iteration stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.stats import chi2

from sfumato.core.accepted import Accepted, Either, Flag, Whole, Word, check_accepted
from sfumato.core.array_types import Floats
from sfumato.reconstruction.evidence import MOST_POINTS, NO_ATOMS, Cells, Evidence, Part, z_cells
from sfumato.reconstruction.parzen_program import ConvergenceError

MOST_ROUNDS = 10_000
STOPPINGS = ("simulated", "successive", "discrepancy")
_TRIALS = 6
_PATIENCE = 3
_EXPECTED = 5.0
"""Neighbouring cells are merged until so many values are expected, so that Pearson's statistic keeps its law."""


@dataclass(frozen=True)
class ExpectationMaximization:
    """Start from evenly spread probabilities and repeat Bayes' rule until the stopping rule holds.

    Parameters
    ----------
    stopping : "simulated": after the number of iterations that would have been best had a pilot estimate (stopped by
        "successive") been the truth, tried on samples drawn from it. "successive": Agrawal & Srikant's rule, when X^2
        between successive estimates is below 1% of the 95% point of the chi-square law. "discrepancy": as soon as the
        estimate explains the released values as well as the truth would, that is when Pearson's X^2 between expected
        and observed counts falls to its expectation, the number of cells less one; or by "successive", if earlier.
        A number: exactly so many iterations.
    smooth : whether each step is followed by a running mean (1/4, 1/2, 1/4) [Silverman et al. 1990], iterated until
        nothing changes: steadier for small samples, but its blur does not shrink with more data.
    points : cells of z; at least 2.5 times the cells of x are taken.
    longest : iterations after which it is given up.
    """

    stopping: str | int = "simulated"
    smooth: bool = False
    points: int = 200
    longest: int = 5000
    name: ClassVar[str] = "expectation-maximization"
    accepts: ClassVar[Mapping[str, Accepted]] = MappingProxyType(
        {
            "stopping": Either((Word(STOPPINGS), Whole(1, MOST_ROUNDS))),
            "smooth": Flag(),
            "points": Whole(1, MOST_POINTS),
            "longest": Whole(1, MOST_ROUNDS),
        }
    )
    published: ClassVar[Mapping[str, Any]] = MappingProxyType({"smooth": False})

    def prepare(self, parts: Sequence[Part], cells: Cells, atoms: Mapping[float, float] = NO_ATOMS) -> EmSolver:
        check_accepted(self.name, self.accepts, vars(self))
        points = z_cells(self.points, cells)
        evidence = [Evidence.of(part, cells, points, margin=0.0, atoms=atoms) for part in parts]
        solver = EmSolver(evidence, self, np.array(list(atoms.values())))
        if self.stopping == "simulated" and not self.smooth:
            solver.rounds = best_rounds(solver)
        elif isinstance(self.stopping, int):
            solver.rounds = int(self.stopping)
        solver.solve(evidence)
        solver.about = {"iterations": solver.iterations, "stopping": str(self.stopping), "smooth": self.smooth}
        return solver


@dataclass
class EmSolver:
    """The iteration on fixed cells: exactly `rounds` times, else by the stopping rule; `iterations` of the last run."""

    evidence: Sequence[Evidence]
    method: ExpectationMaximization
    shares: Floats = field(default_factory=lambda: np.zeros(0))
    rounds: int | None = None
    iterations: int = 0
    about: dict[str, Any] = field(default_factory=dict)

    def solve(self, evidence: Sequence[Evidence]) -> Floats:
        total = sum(part.n for part in evidence)
        before: Floats | None = None
        for number, mass in enumerate(self.path(evidence)):
            self.iterations, done = number, number == self.rounds
            if self.rounds is None and before is not None:
                done = self._settled(evidence, mass, before, total)
            if done:
                return mass
            before = mass
        raise ConvergenceError(
            f"The iteration did not converge in {self.method.longest} rounds. Give a number of rounds."
        )

    def path(self, evidence: Sequence[Evidence]) -> Iterator[Floats]:
        """The estimates, beginning with the `shares` of the point masses, and the rest evenly spread."""
        total = sum(part.n for part in evidence)
        cells = evidence[0].spread.shape[1] - len(self.shares)
        mass = np.concatenate([np.full(cells, (1.0 - self.shares.sum()) / cells), self.shares])
        yield mass
        for _ in range(max(self.method.longest, self.rounds or 0)):
            mass = self._step(evidence, mass, total)
            yield mass

    def _settled(self, evidence: Sequence[Evidence], mass: Floats, before: Floats, total: int) -> bool:
        if self.method.smooth:
            return float(np.abs(mass - before).sum()) < 1e-6
        explained = self.method.stopping == "discrepancy" and all(_explained(part, mass) for part in evidence)
        return explained or successive(mass, before, total)

    def _step(self, evidence: Sequence[Evidence], mass: Floats, total: int) -> Floats:
        """All parts together: their likelihoods multiply, so their sums add up."""
        gain = np.zeros_like(mass)
        for part in evidence:
            expected = part.expected(mass)
            ratio = np.divide(part.counts, expected, out=np.zeros(len(expected)), where=expected > 0)
            gain += (1.0 - part.part.hidden) * (part.spread.T @ ratio)
        mass = mass * gain / total
        shown = float(mass.sum())  # below 1 by what hidden values and impossible cells take
        if not shown > 0:
            raise ConvergenceError(
                "No value in the range can have produced the released values. Card and release disagree."
            )
        mass = mass / shown
        if self.method.smooth:
            cells = mass[: len(mass) - len(self.shares)]
            smooth = np.convolve(np.concatenate([cells[:1], cells, cells[-1:]]), [0.25, 0.5, 0.25], "valid")
            mass = np.concatenate([smooth, mass[len(cells) :]])
            mass /= mass.sum()
        return np.asarray(mass)


def best_rounds(solver: EmSolver) -> int:
    """The number of iterations that serves best if the pilot is the truth; draws have a fixed seed."""
    rng = np.random.default_rng(0)
    pilot = solver.solve(solver.evidence)
    samples = ([part.resampled(rng, pilot) for part in solver.evidence] for _ in range(_TRIALS))
    return max(1, least_loss(map(solver.path, samples), pilot))


def least_loss(paths: Iterable[Iterator[Floats]], truth: Floats, more: int = 0) -> int:
    """After how many rounds estimates are nearest to the truth, on average over these paths."""
    losses: list[Floats] = []
    for path in paths:
        found: list[float] = []
        for mass in path:
            found.append(0.5 * float(np.abs(mass - truth).sum()))
            if len(found) > _PATIENCE * (1 + int(np.argmin(found))) + more:  # past the best for long enough
                break
        losses.append(np.array(found))
    common = min(map(len, losses))
    return int(np.argmin(np.mean([loss[:common] for loss in losses], axis=0)))


def successive(mass: Floats, before: Floats, total: int) -> bool:
    """Agrawal & Srikant's rule for stopping."""
    change = total * float(np.sum((mass - before) ** 2 / np.maximum(before, 1e-300)))
    return change < 0.01 * float(chi2.ppf(0.95, max(1, mass.size - 1)))


def _explained(part: Evidence, mass: Floats) -> bool:
    """Pearson's X^2 at or below its expectation, over cells merged so that enough values are expected in each."""
    expected = part.n * part.expected(mass)
    group = np.minimum((np.cumsum(expected) / _EXPECTED).astype(np.int64), int(expected.sum() // _EXPECTED) - 1)
    group = np.maximum(group, 0)
    observed, wanted = np.bincount(group, part.counts), np.bincount(group, expected)
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    return float(np.sum((observed - wanted) ** 2 / wanted)) <= max(1, len(wanted) - 1)
