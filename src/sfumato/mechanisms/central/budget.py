"""How the budget is spent: shares of rho (or of a pure epsilon) for every kind of measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes
from sfumato.noise.grid import discrete_gaussian, discrete_laplace_of, exponential_choice

SHARES = {"rows": 0.02, "edges": 0.08, "columns": 0.38, "forest": 0.10, "pairs": 0.42}
"""Of all that there is. What a step does not need (no numbers, no tree) goes to a later one."""
WITH_SECOND = {"pairs": 0.22, "second": 0.05, "triples": 0.15}
"""What becomes of the pairs' share where columns may have two parents."""


def replacing_costs(parents: int) -> float:
    """What one replaced record costs at most, as a multiple of the rho of one that is added or removed.

    Counts cost twice as much and choices four times (see `Measurement.rho_replaced`); this is the most that any fit
    with these shares spends on choices.
    """
    choices = SHARES["edges"] + (SHARES["forest"] if parents else 0.0) + (WITH_SECOND["second"] if parents > 1 else 0.0)
    return 2.0 + 2.0 * choices


@dataclass
class Budget:
    """Spends shares of `rho` (delta > 0) or of `epsilon` (pure), draws the noise, and writes down what was measured."""

    rho: float | None
    epsilon: float
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.measured: list[Measurement] = []
        self.answers: dict[str, list[Codes]] = {}
        """Counts with their noise: all that a fit may look at."""

    def __getstate__(self) -> dict[str, Any]:
        """Without its generator: what travels to where the rows are counts them, and draws nothing."""
        return {**vars(self), "rng": None}

    def spread(self, share: float, tables: int) -> float:
        """Standard deviation of the noise on counts of so many tables under this share, before it is drawn."""
        strength = self._noise(share, tables)
        return math.sqrt(strength) if self.rho is not None else math.sqrt(2.0) * strength

    def count(self, what: str, share: float, tables: list[Codes]) -> list[Codes]:
        """All these tables with noise: one record changes one count of each."""
        if not tables:
            return []
        measured = self.measurement(what, share, len(tables))
        draw = discrete_gaussian if self.rho is not None else discrete_laplace_of
        self.measured.append(measured)
        sizes = np.cumsum([table.size for table in tables])
        noise = draw(self.rng, measured.strength, int(sizes[-1]))
        parts = np.split(noise, sizes[:-1])
        self.answers[what] = [table + part.reshape(table.shape) for table, part in zip(tables, parts, strict=True)]
        return self.answers[what]

    def measurement(self, what: str, share: float, tables: int) -> Measurement:
        """What counting so many tables under this share comes to."""
        return Measurement(what, "laplace" if self.rho is None else "gaussian", tables, self._noise(share, tables))

    def chooser(self, what: str, share: float, times: int) -> Chooser:
        """So many choices by scores that one record changes by at most 1."""
        measured = self.choices(what, share, times)
        self.measured.append(measured)
        return Chooser(self.rng, measured.strength)

    def choices(self, what: str, share: float, times: int) -> Measurement:
        """What so many choices under this share come to."""
        epsilon = math.sqrt(8.0 * share * self.rho / times) if self.rho is not None else share * self.epsilon / times
        return Measurement(what, "choice", times, epsilon)

    def _noise(self, share: float, tables: int) -> float:
        if self.rho is not None:
            return tables / (2.0 * share * self.rho)
        return tables / (share * self.epsilon)


@dataclass(frozen=True)
class Chooser:
    """Exponential mechanisms of one epsilon."""

    rng: np.random.Generator
    epsilon: float

    def choose(self, scores: Codes) -> int:
        return exponential_choice(self.rng, scores, self.epsilon / 2.0)
