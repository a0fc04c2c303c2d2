"""Mechanisms that fit a noisy model of the whole table and draw rows from it; no released row is anybody's."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.channels import Recipe
from sfumato.guarantee import Key
from sfumato.guarantee.concentrated import Central
from sfumato.mechanisms.base import Block, Mechanism
from sfumato.mechanisms.knob import PRESENCE
from sfumato.statistics import Counts, Statistics
from sfumato.table import Encoding

NOBODY = -1
"""Where others say which source row a released row came from."""


class ModelDrawing(Mechanism):
    """Fit: `start`, then `count` over all blocks and `measure` of the sum, as long as it `needs_counts`.

    Noise is drawn by `measure`, from the generator that `start` was given. After that the table is not needed.
    """

    own_knob = PRESENCE

    @property
    @abstractmethod
    def planned(self) -> Central:
        """What the fit costs at most: it is charged before any noise is drawn."""

    @abstractmethod
    def check_parameters(self) -> None:
        """Refuse parameters that make no sense."""

    @abstractmethod
    def check_schema(self, encoding: Encoding) -> None:
        """Refuse what cannot be claimed, before a row is read."""

    @abstractmethod
    def start(self, encoding: Encoding, rng: np.random.Generator, labelled: bool = True) -> None:
        """Begin a fit whose noise comes from this generator."""

    @abstractmethod
    def count(self, X: Matrix, y: Codes | None) -> Counts:
        """What the present pass adds up over blocks."""

    @abstractmethod
    def measure(self, counts: Counts) -> None:
        """Take the sum of a pass, with noise."""

    @property
    @abstractmethod
    def needs_counts(self) -> bool:
        """Whether one more pass is needed."""

    @abstractmethod
    def model(self) -> dict[str, Any]:
        """What rows are drawn from, as plain JSON; all of it noisy or public."""

    def counts(self) -> Codes | None:
        """Noisy counts that can be added to those of other sites, where the fit followed a plan that they agreed on."""
        return None

    @abstractmethod
    def restore_model(self, found: Any, recipe: Recipe, labelled: bool) -> Self:
        """Be what the fit left behind, from a file and a card."""

    @abstractmethod
    def draw_rows(self, rows: int, rng: np.random.Generator) -> Block:
        """New rows, without a source."""

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        raise TypeError(f"{self.name} is fitted on counts, not on moments.")

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:  # noqa: ARG002
        """As many rows as there would be: what rows are given does not matter."""
        return self.draw_rows(self.released(len(X)), rng)
