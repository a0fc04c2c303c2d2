"""What is to be done, in pieces that can be done again alone: one release of one split of one set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import experiments
from roads import EPSILONS, MECHANISMS, ruled, runs
from sets import GENERATED, HELD_OUT, MIXED, TEN
from threadpoolctl import threadpool_limits

SPLITS, FEWER = 3, {"covtype": 1}
FAST_EPSILONS = {"principal-laplace": (8.0,), "square-wave": (2.0, 8.0), "staged-release": (8.0,)}
PLAIN = "plain"


@dataclass(frozen=True)
class Task:
    """A mechanism at an epsilon, or what needs none ("plain")."""

    data: str
    split: int
    mechanism: str = PLAIN
    epsilon: float = 0.0

    @property
    def key(self) -> str:
        """As it stands in the store."""
        return f"{self.data}|{self.split}|{self.mechanism}|{self.epsilon:g}"

    def do(self) -> dict[str, Any]:
        """Its figures, computed in one thread."""
        with threadpool_limits(1):
            if self.mechanism == PLAIN:
                return experiments.plain(self.data, self.split)
            return experiments.released(self.data, self.split, self.mechanism, self.epsilon)


def known_tasks(fast: bool) -> Iterator[Task]:
    """Every road on the sets that everything was made on; the first split of all sets first."""
    for number in range(1 if fast else SPLITS):
        for name in (GENERATED,) if fast else TEN:
            if number >= FEWER.get(name, SPLITS):
                continue
            yield Task(name, number)
            for mechanism in MECHANISMS:
                for epsilon in FAST_EPSILONS[mechanism] if fast else EPSILONS:
                    if runs(mechanism, epsilon):
                        yield Task(name, number, mechanism, epsilon)


def held_out_tasks() -> Iterator[Task]:
    """The recommended road alone."""
    for number in range(SPLITS):
        for name in (*HELD_OUT, *MIXED):
            yield Task(name, number)
            for epsilon in EPSILONS:
                yield Task(name, number, ruled(epsilon).mechanism, epsilon)
