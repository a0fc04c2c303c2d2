"""Naive Bayes for encoded tables: numbers are normal within a class, categories have smoothed frequencies.

scikit-learn's GaussianNB takes a one-hot column for a number. A category that a class does not show then has variance 0
there, and one row with it outweighs all other columns together: on mixed tables the answer is worse than guessing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from sfumato.core.array_types import Codes, Floats
from sfumato.learn.classifiers.reads_noise import GivesProbabilities, matrix_of_rows, rows_and_targets, softmax

RIDGE = 1e-9
"""Of the largest variance of all columns, added to each, as GaussianNB does."""


@dataclass(eq=False, repr=False)
class MixedNaiveBayes(GivesProbabilities):
    """P(class | x) is proportional to P(class) times a density for each column.

    Columns that hold only 0 and 1 are taken for categories: neighbours of which exactly one is 1 in every row are one
    categorical column, others are yes or no. Values are used as they are, noise and all.

    Parameters
    ----------
    pseudo_rows : so many rows with the distribution of all rows are added to every class, so that nothing is impossible
        that a class has not shown.

    Attributes
    ----------
    classes_, class_prior_ : labels and their shares.
    numbers_, means_, variances_ : the columns that are numbers, and by class their moments.
    slots_, log_shares_ : the columns of categories, and by class what a 1 there adds to its log-probability.
    log_absent_ : what a class begins with: yes-or-no columns that are all no.
    """

    pseudo_rows: float = 1.0

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Moments of numbers and shares of categories within every class."""
        if not self.pseudo_rows > 0:
            raise ValueError(f"The 'pseudo_rows' parameter must be above 0. Got {self.pseudo_rows!r} instead.")
        X, y = rows_and_targets(self, X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        counts = np.bincount(codes).astype(np.float64)
        self.class_prior_ = counts / counts.sum()
        groups, self.numbers_ = one_hot_groups(X)
        numbers, each = X[:, self.numbers_], range(len(counts))
        weight = self.pseudo_rows / (counts + self.pseudo_rows)
        middle, spread = numbers.mean(axis=0), numbers.var(axis=0)
        self.means_ = np.array([numbers[codes == code].mean(axis=0) for code in each])
        own = np.array([numbers[codes == code].var(axis=0) for code in each])
        # At least what the pseudo-rows alone would make of a class that shows one value only.
        least = weight[:, None] * (spread + (middle - self.means_) ** 2)
        ridge = RIDGE * float(spread.max(initial=0.0)) or RIDGE
        self.variances_ = np.maximum(own, least) + ridge
        self.slots_ = np.concatenate([*groups, np.zeros(0, dtype=np.int64)])
        self.log_shares_, self.log_absent_ = np.zeros((len(counts), len(self.slots_))), np.zeros(len(counts))
        start = 0
        for slots in groups:
            part = slice(start, start + len(slots))
            start += len(slots)
            seen = np.array([X[codes == code][:, slots].sum(axis=0) for code in each])
            overall = (seen.sum(axis=0) + 1.0) / (counts.sum() + max(len(slots), 2))
            shares = (seen + self.pseudo_rows * overall) / (counts[:, None] + self.pseudo_rows)
            self.log_shares_[:, part] = np.log(shares)
            if len(slots) == 1:  # no is an answer too
                self.log_absent_ += np.log1p(-shares[:, 0])
                self.log_shares_[:, part] -= np.log1p(-shares)
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes."""
        check_is_fitted(self)
        rows = matrix_of_rows(self, X)
        scores = rows[:, self.slots_] @ self.log_shares_.T + self.log_absent_ + np.log(self.class_prior_)
        numbers = rows[:, self.numbers_]
        for code, (mean, variance) in enumerate(zip(self.means_, self.variances_, strict=True)):
            scores[:, code] -= 0.5 * np.sum((numbers - mean) ** 2 / variance + np.log(variance), axis=1)
        return softmax(scores)


def one_hot_groups(X: Floats) -> tuple[list[Codes], Codes]:
    """Columns of 0 and 1, those of one category together, and all other columns.

    A category's columns lie side by side, and in every row exactly one of them is 1.

    >>> one_hot_groups(np.array([[1.0, 0.0, 1.0, 0.3], [0.0, 1.0, 1.0, 0.7], [0.0, 1.0, 0.0, 0.1]]))
    ([array([0, 1]), array([2])], array([3]))
    """
    is_slot = np.all((X == 0.0) | (X == 1.0), axis=0)
    binary = is_slot & (X.min(axis=0) < X.max(axis=0))
    groups: list[Codes] = []
    place = 0
    while place < X.shape[1]:
        if not binary[place]:
            place += 1
            continue
        total, stop = X[:, place].copy(), place + 1
        # Categories that no row shows are constant 0 and belong to the group that they lie in.
        while total.min() < 1.0 and stop < X.shape[1] and is_slot[stop] and (total + X[:, stop]).max() <= 1.0:
            total += X[:, stop]
            stop += 1
        if total.min() < 1.0:
            stop = place + 1
        groups.append(np.arange(place, stop))
        place = stop
    inside = np.concatenate([*groups, np.zeros(0, dtype=np.int64)])
    return groups, np.setdiff1d(np.arange(X.shape[1]), inside)
