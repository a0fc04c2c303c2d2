"""Classifiers on the bits of a guided survey, for plain answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import BernoulliNB
from sklearn.tree import DecisionTreeClassifier

from sfumato.channels.guidance.space import FLOOR, Link, bit_probabilities
from sfumato.core.array_types import Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.learn.classifiers.reads_noise import GivesProbabilities, softmax

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
        queries, known = self.queries, self.guidance is not None
        if queries is None:
            queries = "expected" if known and isinstance(self.classifier_, BernoulliNB) else "plain"
        if queries != "plain" and not known:
            raise UsageError(f"The queries {queries!r} need the guidance: give it, or choose 'plain'.")
        if queries == "plain":
            return np.asarray(self.classifier_.predict_proba(answers))
        q = bit_probabilities(answers, np.asarray(self.guidance), self.floor, self.link)
        if isinstance(self.classifier_, BernoulliNB):
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
    hits = 0
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(R, labels):
        model = SurveyClassifier(queries="plain").fit(R[train], labels[train])
        hits += int((model.predict(R[test]) == labels[test]).sum())
    return hits / len(R)
