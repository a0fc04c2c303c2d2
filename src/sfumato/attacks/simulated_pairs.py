"""Pairs of a released row and the row behind it, made by releasing people whom the adversary knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import Knowledge, Simulated
from sfumato.attacks.likelihood import released
from sfumato.channels import NotApplicableError

MOST_PAIRS, FEWEST_PAIRS = 6_000, 1_000
MOST_CELLS = 300_000
"""Pairs times columns, beyond which fewer pairs are made."""
MOST_TIMES = 8
"""How often one person is released: more of them add no people."""


@dataclass(frozen=True)
class Pairs:
    """`Z`: released rows; `labels`: released beside them; `X`: the rows behind; `person`: whose they are."""

    Z: Matrix
    labels: Codes | None
    X: Matrix
    person: Codes

    def take(self, rows: Codes) -> Pairs:
        """Some of them."""
        labels = None if self.labels is None else self.labels[rows]
        return Pairs(self.Z[rows], labels, self.X[rows], self.person[rows])


def simulated_pairs(known: Knowledge, rng: np.random.Generator) -> Pairs:
    """Release the people of the sample as often as it takes; reads `sample`, `sample_labels` and how rows are made."""
    assert known.sample is not None
    X, y = np.asarray(known.sample, dtype=np.float64), known.sample_labels
    if len(X) > MOST_PAIRS:
        some = np.sort(rng.choice(len(X), size=MOST_PAIRS, replace=False))
        X, y = X[some], None if y is None else y[some]
    wanted = max(FEWEST_PAIRS, min(MOST_PAIRS, MOST_CELLS // max(X.shape[1] + known.release.shape[1], 1)))
    parts = [_released(known, X, y, rng) for _ in range(min(MOST_TIMES, -(-wanted // len(X))))]
    person = np.concatenate([part.source for part in parts])
    labels = None
    if known.labels is not None and all(part.labels is not None for part in parts):
        labels = _told(known, np.concatenate([part.labels for part in parts if part.labels is not None]), rng)
    return Pairs(np.vstack([part.Z for part in parts]), labels, X[person], person)


def _released(known: Knowledge, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Simulated:
    """As the mechanism would; where only its channels are known, as they would."""
    if known.simulator is not None:
        return known.simulator(X, y, rng)
    noise = known.noise
    if noise is None or not all(channel.is_stated for channel in noise.channels):
        raise NotApplicableError("needs to know how the release was made, and its card does not say")
    if not known.columnwise and known.transform is None and known.guided is None:
        raise NotApplicableError("needs the transform of a release that mixes columns")
    return Simulated(released(known, noise, X, rng), y, np.arange(len(X)))


def _told(known: Knowledge, y: Codes, rng: np.random.Generator) -> Codes:
    """Labels as they are released: randomized response keeps one, or says any other class, each as likely."""
    classes = max(len(known.encoding.classes), 2)
    moved = (y + rng.integers(1, classes, size=len(y))) % classes
    return np.where(rng.random(len(y)) < known.label_keep, y, moved)
