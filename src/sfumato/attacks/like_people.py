"""Whom an adversary can think of behind a released row: people of the released class, in blocks that fit memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import Knowledge
from sfumato.statistics import NO_CLASS

FEWEST = 10
"""With fewer people of a class in the sample, everybody stands for them."""


class Likely(NamedTuple):
    """Release rows of one released class, and the people who may be behind them with the log of their prior weight."""

    code: int
    rows: Codes
    X: Matrix
    log_prior: Matrix


def likely_people(known: Knowledge, most: int) -> Iterator[Likely]:
    """Class by class as released, no more than `most` people each; reads `labels`, `sample` and `sample_labels`.

    An exact label leaves people of its class; one told by randomized response weighs everybody by its likelihood.
    """
    assert known.sample is not None
    everybody, everywhere = np.arange(len(known.sample)), np.arange(len(known.release))
    if known.labels is None:
        yield _likely(known, NO_CLASS, everywhere, everybody, np.zeros(len(everybody)), most)
        return
    classes = max(len(known.encoding.classes), 2)
    for code in np.unique(known.labels).tolist():
        rows = np.flatnonzero(known.labels == code)
        told = np.zeros(len(everybody))
        if known.sample_labels is not None:
            told = label_likelihood(known.sample_labels == code, known.label_keep, classes)
        possible = everybody[np.isfinite(told)]
        if len(possible) < FEWEST:
            possible, told = everybody, np.zeros(len(everybody))
        yield _likely(known, code, rows, possible, told, most)


def label_likelihood(same: Matrix, keep: float, classes: int) -> Matrix:
    """log P(released label | class of each person), by whether they are the same."""
    other = math.log((1.0 - keep) / (classes - 1)) if keep < 1.0 else -math.inf
    return np.where(same, math.log(keep), other)


def _likely(known: Knowledge, code: int, rows: Codes, possible: Codes, told: Matrix, most: int) -> Likely:
    assert known.sample is not None
    if len(possible) > most:
        possible = possible[np.linspace(0, len(possible) - 1, most).round().astype(int)]
    return Likely(code, rows, np.asarray(known.sample[possible], dtype=np.float64), told[possible])
