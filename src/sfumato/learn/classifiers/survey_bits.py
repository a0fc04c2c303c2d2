"""Naive Bayes for encoded tables; classifiers on the bits of a guided survey, for plain answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import BernoulliNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from sfumato.channels.guidance.space import FLOOR, Link, bit_probabilities
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.learn.classifiers.reads_noise import GivesProbabilities, matrix_of_rows, rows_and_targets, softmax

FOLDS = 5
QUERIES = ("plain", "expected")


@dataclass(eq=False, repr=False)
class SurveyClassifier(GivesProbabilities):
    """Train on received bits, classify plain (unperturbed) one-hot answers [guided-survey, 3].

    Received bits are not one-hot, so that counting ones per question means nothing; every bit is a feature of its own.

    A plain answer is not distributed as what the classifier was trained on. `queries` says what to do about that:
    "plain" classifies the answer as it is (published); "expected" puts the probability q_j of every bit in its place,
    which for naive Bayes is the expected log-likelihood, sum_j q_j log P(R_j = 1 | c) + (1 - q_j) log P(R_j = 0 | c),
    and needs the guidance. On Votes "expected" gains two points at k = 1; trees do best with "plain".

    Parameters
    ----------
    classifier : "naive-bayes" (Bernoulli), "id3" (a tree by information gain), or any scikit-learn classifier.
    guidance, floor, link : of the answers received last.
    queries : one of the above; None: "expected" for naive Bayes where guidance is given, else "plain".
    min_leaf, max_depth : of "id3"; None: a thousandth of the rows, and 5 at least; no limit.

    Attributes
    ----------
    classes_, classifier_ : labels; the fitted scikit-learn classifier.
    """

    classifier: Any = "naive-bayes"
    guidance: Matrix | None = None
    floor: float = FLOOR
    link: Link = "square"
    queries: str | None = None
    min_leaf: int | None = None
    max_depth: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on received bits (m x width) and their labels."""
        bits = np.asarray(X)
        if bits.ndim != 2 or not len(bits):
            raise TableError("There are no received rows to learn from yet.")
        if not ((bits == 0) | (bits == 1)).all():
            raise TableError(
                "This classifier learns from bits, as surveys and guided-projection release them, but these rows "
                "contain other numbers. Choose another classifier, for example naive-bayes."
            )
        if self.queries is not None and self.queries not in QUERIES:
            raise UsageError(f"The 'queries' parameter must be one of {', '.join(QUERIES)}. Got {self.queries!r}.")
        self.classifier_ = self._unfitted(len(bits)).fit(bits, np.asarray(y))
        self.classes_ = self.classifier_.classes_
        self.n_features_in_ = bits.shape[1]
        return self

    def _unfitted(self, rows: int) -> Any:
        if not isinstance(self.classifier, str):
            return clone(self.classifier)
        if self.classifier == "naive-bayes":
            return BernoulliNB()
        if self.classifier == "id3":  # grown to single rows, a tree would learn the noise by heart
            leaf = self.min_leaf or max(5, rows // 1000)
            return DecisionTreeClassifier(
                criterion="entropy", min_samples_leaf=leaf, max_depth=self.max_depth, random_state=0
            )
        raise UsageError(
            f"There is no survey classifier {self.classifier!r}. Choose naive-bayes, id3, or give a classifier."
        )

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Class probabilities of plain one-hot answers (m x width)."""
        answers = np.atleast_2d(np.asarray(X))
        bayes, queries = isinstance(self.classifier_, BernoulliNB), self.queries
        if queries is None:
            queries = "expected" if bayes and self.guidance is not None else "plain"
        if queries == "plain":
            return np.asarray(self.classifier_.predict_proba(answers))
        if self.guidance is None:
            raise UsageError(f"The queries {queries!r} need the guidance: give it, or choose 'plain'.")
        q = bit_probabilities(answers, np.asarray(self.guidance), self.floor, self.link)
        if bayes:
            one = self.classifier_.feature_log_prob_
            zero = np.log(-np.expm1(one))
            return softmax(q @ (one - zero).T + zero.sum(axis=1) + self.classifier_.class_log_prior_)
        return np.asarray(self.classifier_.predict_proba(q))


def accuracy_on_received(bits: ArrayLike, y: ArrayLike) -> float | None:
    """Share of received rows whose class the others predict, or None where there are too few; higher is better.

    All that a collector can measure without anybody's plain answers. Plain answers are classified better than
    perturbed ones, so this is on the safe side.
    """
    R, labels = np.asarray(bits), np.asarray(y)
    if len(R) < 2 * FOLDS or len(np.unique(labels)) < 2 or np.unique(labels, return_counts=True)[1].min() < FOLDS:
        return None
    learner, folds = SurveyClassifier(queries="plain"), StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return float(np.mean(cross_val_predict(learner, R, labels, cv=folds) == labels))


# Naive Bayes for encoded tables: numbers are normal within a class, categories have smoothed frequencies.
#
# scikit-learn's GaussianNB takes a one-hot column for a number. A category that a class does not show then has variance
# 0 there, and one row with it outweighs all other columns together: on mixed tables the answer is worse than guessing.

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

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Moments of numbers and shares of categories within every class."""
        if not self.pseudo_rows > 0:
            raise ValueError(f"The 'pseudo_rows' parameter must be above 0. Got {self.pseudo_rows!r} instead.")
        X, y = rows_and_targets(self, X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        counts = np.bincount(codes).astype(np.float64)
        self.class_prior_ = counts / counts.sum()
        groups, self.numbers_ = one_hot_groups(X)
        numbers, mine = X[:, self.numbers_], [codes == code for code in range(len(counts))]
        weight = self.pseudo_rows / (counts + self.pseudo_rows)
        middle, spread = numbers.mean(axis=0), numbers.var(axis=0)
        self.means_, own = (np.array([one(numbers[rows], axis=0) for rows in mine]) for one in (np.mean, np.var))
        # At least what the pseudo-rows alone would make of a class that shows one value only.
        least = weight[:, None] * (spread + (middle - self.means_) ** 2)
        ridge = RIDGE * float(spread.max(initial=0.0)) or RIDGE
        self.variances_ = np.maximum(own, least) + ridge
        self.slots_ = np.concatenate([*groups, np.zeros(0, dtype=np.int64)])
        self.log_shares_, self.log_absent_ = np.zeros((len(counts), len(self.slots_))), np.zeros(len(counts))
        for slots in groups:
            part = np.isin(self.slots_, slots)
            seen = np.array([X[rows][:, slots].sum(axis=0) for rows in mine])
            overall = (seen.sum(axis=0) + 1.0) / (counts.sum() + max(len(slots), 2))
            shares = (seen + self.pseudo_rows * overall) / (counts[:, None] + self.pseudo_rows)
            self.log_shares_[:, part] = np.log(shares)
            if len(slots) == 1:  # no is an answer too
                self.log_absent_ += np.log1p(-shares[:, 0])
                self.log_shares_[:, part] -= np.log1p(-shares)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
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
