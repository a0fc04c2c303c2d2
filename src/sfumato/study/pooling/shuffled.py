"""What a pool tells about one record to somebody who sees only the pool, shuffled: no site, no order, no ids.

Everybody in a crowd must have used the same randomizer and look alike but for their record. So rows are one crowd where
their recipes are the same to the last digit, where they went through the same stage, and, since a label that is
released exactly tells people apart, where they have the same class.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.channels import Recipe
from sfumato.channels.staged import Staged
from sfumato.core.array_types import Codes
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.guarantee.guarantee import LOCAL_DP
from sfumato.guarantee.rounding import rounded_up
from sfumato.guarantee.shuffled import DELTA, shuffled_epsilon
from sfumato.learn.classifiers.training import Part
from sfumato.study.pooling.gather import Pool

HONEST = (
    "This holds against somebody who sees only the shuffled pool: its rows without site, order and ids. The shuffler "
    "is honest: it does not hold against the coordinator itself, nor against somebody who is told figures of single "
    "sites."
)
NOTHING_GAINED = 0.999


@dataclass(frozen=True)
class Crowd:
    """People who look alike: their number, the class and the stage if these are public, both epsilons."""

    rows: int
    of_class: str | None
    stage: int | None
    local: float
    epsilon: float

    def to_dict(self) -> dict[str, Any]:
        """As it stands on a model's card."""
        return {
            "rows": self.rows,
            "class": self.of_class,
            "stage": self.stage,
            "local_epsilon": self.local,
            "epsilon": self.epsilon,
        }


def shuffled_pool(pool: Pool, delta: float = DELTA) -> dict[str, Any] | None:
    """Central epsilon at `delta` for one released record; None where a release of the pool has no local one."""
    cards = [_card(part, pool) for part in pool.parts]
    if not all(card.guarantee["kind"] == LOCAL_DP for card in cards):
        return None
    crowds = list(_crowds(pool, cards, delta))
    worst: dict[tuple[str | None, int | None], Crowd] = {}
    for crowd in crowds:  # of several recipes, the one that protects least
        kind = (crowd.of_class, crowd.stage)
        if kind not in worst or crowd.epsilon > worst[kind].epsilon:
            worst[kind] = crowd
    largest = max(worst.values(), key=lambda crowd: crowd.epsilon)
    return {
        "delta": delta,
        "epsilon": largest.epsilon,
        "local_epsilon": max(crowd.local for crowd in crowds),
        "crowds": [crowd.to_dict() for crowd in worst.values()],
        "words": _words(largest, delta),
    }


def _crowds(pool: Pool, cards: list[Card], delta: float) -> Iterator[Crowd]:
    counts: dict[tuple[str, int, int], int] = {}
    local: dict[tuple[str, int, int], float] = {}
    for part, card in zip(pool.parts, cards, strict=True):
        same = _randomizer(card)
        classes = part.y if part.label_keep >= 1.0 else np.full(len(part.y), -1, dtype=np.int64)
        stages = _stages(part)
        for (code, stage), rows in _counted(classes, stages):
            kind = (same, code, stage)
            counts[kind] = counts.get(kind, 0) + rows
            local[kind] = max(local.get(kind, 0.0), card.stated_guarantee().record)
    names = pool.cards[0].classes
    for kind, rows in sorted(counts.items(), key=lambda one: one[0][1:]):
        _, code, stage = kind
        epsilon = shuffled_epsilon(local[kind], rows, delta) if math.isfinite(local[kind]) else math.inf
        yield Crowd(rows, names[code] if code >= 0 else None, stage + 1 if stage >= 0 else None, local[kind], epsilon)


def _counted(classes: Codes, stages: Codes) -> Iterator[tuple[tuple[int, int], int]]:
    pairs, counts = np.unique(np.column_stack([classes, stages]), axis=0, return_counts=True)
    yield from (((code, stage), rows) for (code, stage), rows in zip(pairs.tolist(), counts.tolist(), strict=True))


def _stages(part: Part) -> Codes:
    """Which stage every row went through, which its cells show; -1 of releases without stages."""
    recipe = part.source
    if recipe is None or not isinstance(recipe.map, Staged):
        return np.full(len(part.y), -1, dtype=np.int64)
    told = [(~np.isnan(part.Z[:, place])).any(axis=1) for place in recipe.map.parts]
    return np.asarray(np.argmax(told, axis=0), dtype=np.int64)


def _randomizer(card: Card) -> str:
    recipe: Recipe = card.made_by()
    return json.dumps([recipe.to_dict(), recipe.map.to_dict(), card.label_keep], sort_keys=True)


def _card(part: Part, pool: Pool) -> Card:
    return next(card for card in pool.cards if card.made_by() is part.source)


def _words(largest: Crowd, delta: float) -> str:
    """Of the crowd that protects least."""
    alike = [f"class {largest.of_class!r}"] if largest.of_class is not None else []
    alike += [f"stage {largest.stage}"] if largest.stage is not None else []
    rows = counted(largest.rows, "row") + (f" of {' and '.join(alike)}" if alike else "")
    local = f"local epsilon {rounded_up(largest.local)}"
    if largest.epsilon > NOTHING_GAINED * largest.local:
        return f"Shuffling adds nothing to the {local} where the crowd is smallest: {rows}. {HONEST}"
    central = f"central epsilon {rounded_up(largest.epsilon)} with delta {delta:g}"
    return f"For one released record: {central}, from a {local} and a crowd of {rows}, the weakest of all. {HONEST}"
