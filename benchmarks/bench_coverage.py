"""How often the band of a reconstruction holds the truth: the table of docs/reconstruction.md.

The truth is the histogram of the original values. Coverage by cells is the share of cells whose true share lies in the
band, by mass the same weighted with these shares; means of several runs. Behind it the same for the distribution that
the values were drawn from. Then the information loss of the estimate, and that of the noisy values' own histogram. The
constants of the band were chosen on the columns of --chosen-on and on two of real tables, which are others.

Run: python benchmarks/bench_coverage.py [--runs 20] [--rows 5000 50000] [--chosen-on]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.reconstruction.reconstruct import reconstruct

SUPPORT = (1.0, 11.0)


@dataclass(frozen=True)
class Shape:
    """Parts (share, distribution of the place in the range, cut off at 0 and 1) and points (share, place)."""

    parts: tuple[tuple[float, Any], ...]
    points: tuple[tuple[float, float], ...] = ()

    def draw(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        share = [one[0] for one in (*self.parts, *self.points)]
        kind = rng.choice(len(share), rows, p=share)
        place = np.zeros(rows)
        for number, (_, law) in enumerate(self.parts):
            low, high = law.cdf([0.0, 1.0])
            mine = kind == number
            place[mine] = law.ppf(low + (high - low) * rng.random(mine.sum()))
        for number, (_, at) in enumerate(self.points, start=len(self.parts)):
            place[kind == number] = at
        return np.clip(SUPPORT[0] + (SUPPORT[1] - SUPPORT[0]) * place, *SUPPORT)

    def mass(self, edges: np.ndarray) -> np.ndarray:
        place = (edges - SUPPORT[0]) / (SUPPORT[1] - SUPPORT[0])
        found = np.zeros(len(edges) - 1)
        for share, law in self.parts:
            low, high = law.cdf([0.0, 1.0])
            found += share * np.diff((law.cdf(place) - low) / (high - low))
        for share, at in self.points:
            found += share * np.histogram([SUPPORT[0] + (SUPPORT[1] - SUPPORT[0]) * at], edges)[0]
        return found


SHAPES = {
    "bimodal": Shape(((0.6, stats.norm(0.3, 0.07)), (0.4, stats.norm(0.7, 0.1)))),
    "skewed (gamma)": Shape(((1.0, stats.gamma(2.5, scale=0.07)),)),
    "skewed (lognormal)": Shape(((1.0, stats.lognorm(0.7, scale=0.15)),)),
    "30% at one value": Shape(((0.7, stats.norm(0.55, 0.18)),), ((0.3, 0.4),)),
    "30% at the lower end": Shape(((0.7, stats.gamma(3, scale=0.1)),), ((0.3, 0.0),)),
    "flat": Shape(((1.0, stats.uniform(0, 1)),)),
}
CHOSEN_ON = {
    "trimodal": Shape(((0.4, stats.norm(0.2, 0.06)), (0.3, stats.norm(0.5, 0.08)), (0.3, stats.norm(0.8, 0.05)))),
    "exponential": Shape(((1.0, stats.expon(scale=0.15)),)),
    "beta": Shape(((1.0, stats.beta(2, 5)),)),
    "15% at one value": Shape(((0.85, stats.beta(3, 2)),), ((0.15, 0.25),)),
    "slope": Shape(((1.0, stats.beta(1, 2)),)),
    "normal": Shape(((1.0, stats.norm(0.5, 0.2)),)),
    "peak": Shape(((0.5, stats.norm(0.35, 0.03)), (0.5, stats.norm(0.5, 0.2)))),
    "block": Shape(((1.0, stats.uniform(0.3, 0.4)),)),
}


def additive(law: str, **parameters: float) -> OperatorNoise:
    return OperatorNoise(make_operator("additive"), make_law(law, **parameters))


NOISES = {
    "factors 1 to 3": OperatorNoise(make_operator("multiplicative"), make_law("uniform", low=1, high=3)),
    "uniform, 25%": additive("uniform", low=-2.5, high=2.5),
    "normal, 10%": additive("normal", scale=1.0),
    "Laplace, 10%": additive("laplace", scale=1.0),
    "Laplace, 30%": additive("laplace", scale=3.0),
}


@dataclass
class Measured:
    """Means over runs."""

    cells: float
    mass: float
    cells_drawn_from: float
    mass_drawn_from: float
    loss: float
    noisy: float
    seconds: float


def measure(shape: Shape, noise: OperatorNoise, rows: int, runs: int, first: int = 0, **options: Any) -> Measured:
    """Coverage of the truth and losses, over runs with seeds from `first` on."""
    found = []
    for seed in range(first, first + runs):
        rng = np.random.default_rng(seed)
        x = shape.draw(rng, rows)
        z = noise.sample(x, rng)
        start = time.process_time()
        density = reconstruct(z, noise, support=SUPPORT, **options)
        seconds = time.process_time() - start
        shares, drawn_from = density.shares_of(x), shape.mass(density.cells.edges)
        held = [(density.low <= truth) & (truth <= density.high) for truth in (shares, drawn_from)]
        noisy = np.histogram(z, density.cells.edges)[0] / rows
        losses = [0.5 * (np.abs(one - shares).sum() + 1.0 - one.sum()) for one in (density.mass, noisy)]
        covered = [held[0].mean(), shares @ held[0], held[1].mean(), drawn_from @ held[1]]
        found.append((*covered, *losses, seconds))
    return Measured(*np.mean(found, axis=0))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=20)
    options.add_argument("--rows", type=int, nargs="+", default=[5000, 50_000])
    options.add_argument("--method", default="parzen-program")
    options.add_argument("--noise", choices=NOISES, nargs="+", default=list(NOISES))
    options.add_argument("--chosen-on", action="store_true")
    chosen = options.parse_args()
    shapes = CHOSEN_ON if chosen.chosen_on else SHAPES
    print("| noise | column | rows | cells | mass | (drawn from: cells | mass) | loss | noisy histogram | s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for noise_name in chosen.noise:
        for name, shape in shapes.items():
            for rows in chosen.rows:
                one = measure(shape, NOISES[noise_name], rows, chosen.runs, first=5000, method=chosen.method)
                print(
                    f"| {noise_name} | {name} | {rows:,} | {one.cells:.2f} | {one.mass:.2f} "
                    f"| {one.cells_drawn_from:.2f} | {one.mass_drawn_from:.2f} | {one.loss:.3f} "
                    f"| {one.noisy:.3f} | {one.seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
