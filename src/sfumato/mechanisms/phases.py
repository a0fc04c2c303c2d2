"""What a mechanism needs from the table before rows are released: phases, each of them one pass.

A phase observes every block by itself and finishes on the sum of what was found. Who goes through the blocks (threads
of one machine, the executors of a cluster, a killed run that had finished the pass) is no business of the mechanism's:
one loop plays all phases, and asks for the next once the one before has finished.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sfumato.core.array_types import Codes, Matrix
from sfumato.guarantee import Key
from sfumato.noise import Streams
from sfumato.table import Encoding

FIT, COUNT, MEASURE, GUIDE = "Reading", "Counting", "Measuring", "Guiding"
"""What a phase is called while it runs."""


class Rows(Protocol):
    """A block of encoded rows, as a phase observes it."""

    @property
    def number(self) -> int:
        """Which block it is."""

    @property
    def X(self) -> Matrix:  # noqa: N802 - matrices have capital letters, as in the papers
        """One row for each record."""

    @property
    def y(self) -> Codes | None:
        """Class codes, where there are any."""


@dataclass(frozen=True)
class Whole:
    """A whole matrix as one block."""

    X: Matrix
    y: Codes | None
    number: int = 0


@dataclass(frozen=True)
class Given:
    """What a run gives to all phases of its mechanism."""

    encoding: Encoding
    key: Key | None
    streams: Streams
    labelled: bool = True


@dataclass(frozen=True)
class Phase:
    """One pass: `observe` is a pure function of a block, and what it returns can be added up."""

    step: str
    observe: Callable[[Rows], Any]
    finish: Callable[[Any], object]
    is_paid_before: bool = False
    """Whether its end draws the noise that the release rests on: the ledger is charged before."""

    def play(self, rows: Rows) -> None:
        """On rows that are one block."""
        self.finish(self.observe(rows))
