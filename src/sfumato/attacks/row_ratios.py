"""How much better a person explains a released row than the population does: f(z | x) / f(z).

If one row of a release is x's and the others are anybody's, this ratio of row z is how likely it is that z is x's, up
to a factor that all rows share. And its mean over the rows is the likelihood ratio of "x is in the table".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import Knowledge
from sfumato.attacks.like_people import label_likelihood
from sfumato.attacks.likelihood import Suspects, blocks, log_likelihood
from sfumato.statistics import NO_CLASS

MOST_COMPARED = 2_000
"""People of the sample who stand for the population: more make the comparison slower, not sharper."""
MOST_CELLS = 2_000_000_000
"""Rows times people times columns up to which likelihoods are computed; beyond, distances are taken."""
EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""


class Ratios(NamedTuple):
    """Of some release rows (`rows`) and some people (`people`), log f(z | x) - log f(z), rows x people."""

    rows: Codes
    people: Codes
    log: Matrix


def has_law(known: Knowledge, people: int, others: int = 0) -> bool:
    """Whether likelihoods can be computed: the noise has a law, there is some, and the table is not too large."""
    if known.noise is None or known.noise.is_exact or not all(one.is_stated for one in known.noise.channels):
        return False
    if not known.columnwise and known.transform is None and known.guided is None:
        return False
    return bool(len(known.release) * (people + others) * known.release.shape[1] <= MOST_CELLS)


def log_ratios(known: Knowledge, X: Matrix, labels: Codes | None) -> Iterator[Ratios]:
    """Block by block; reads `noise`, `transform`, `guided`, `labels`, `sample` and `sample_labels`.

    `X` are the people asked about, `labels` their classes where they are known. Together with the sample they stand for
    the population, everybody once: somebody who counted twice would seem to explain less. People whose class the
    released label rules out are left out of its rows; each class has its own law.
    """
    assert known.noise is not None
    others, other_labels = _others(known, X)
    everybody = Suspects.of(known, np.vstack([X, others]))
    classes = None
    if known.labels is not None and labels is not None and (other_labels is not None or not len(others)):
        classes = labels if other_labels is None else np.concatenate([labels, other_labels])
    codes = [NO_CLASS] if known.labels is None else np.unique(known.labels).tolist()
    for code in codes:
        rows = np.arange(len(known.release)) if known.labels is None else np.flatnonzero(known.labels == code)
        told = np.zeros(len(everybody.X))
        if classes is not None:
            told = label_likelihood(classes == code, known.label_keep, max(len(known.encoding.classes), 2))
        possible = np.flatnonzero(np.isfinite(told))
        asked = possible[possible < len(X)]
        if not len(asked):
            continue
        suspects, noise = Suspects(*(part[possible] for part in everybody)), known.noise.of_class(code)
        for block in blocks(len(rows), len(possible)):
            here = rows[block]
            log = log_likelihood(known, known.release[here], suspects, EXACT_WIDTH, noise) + told[possible]
            somebody = np.isfinite(log.max(axis=1))
            if somebody.any():
                log = log[somebody]
                usual = log_sum(log, axis=1) - np.log(len(everybody.X))
                yield Ratios(here[somebody], asked, log[:, : len(asked)] - usual[:, None])


def _others(known: Knowledge, X: Matrix) -> tuple[Matrix, Codes | None]:
    """People of the sample who are not among those asked about."""
    if known.sample is None or not len(known.sample):
        return X[:0], None
    together = np.round(np.vstack([X, known.sample]), 9)
    _, code = np.unique(together, axis=0, return_inverse=True)
    code = code.reshape(-1)
    kept = np.flatnonzero(~np.isin(code[len(X) :], code[: len(X)]))[:MOST_COMPARED]
    return known.sample[kept], None if known.sample_labels is None else known.sample_labels[kept]


def log_sum(log: Matrix, axis: int) -> Matrix:
    """The logarithm of the sum of exponentials; -inf where all are."""
    top = log.max(axis=axis, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray((safe + np.log(np.exp(log - safe).sum(axis=axis, keepdims=True))).squeeze(axis))
