"""Classifiers that are hyperplanes: scikit-learn finds them, and nothing is kept of it but weights and intercepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Perceptron as Rosenblatt
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sfumato.core.array_types import Floats
from sfumato.learn.classifiers.reads_noise import matrix_of_rows, rows_and_targets

KINDS = ("perceptron", "logistic")


def _gives_probabilities(model: Hyperplanes) -> bool:
    return model.kind == "logistic"


@dataclass(eq=False, repr=False)
class Hyperplanes(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A perceptron or a logistic regression: the class on whose side of its plane a row lies furthest.

    *Rotations.* Logistic regression penalises the length of the weights and not the intercept: rotated weights have the
    same length, and the intercept takes up the centre, so that answers stay the same up to the solver's tolerance. The
    perceptron starts at weights and bias of zero and adds misclassified rows, so weights turn with the rows; but the
    bias moves by steps of 1, whatever the centre: its answers stay the same about the centre zero only.

    Parameters
    ----------
    kind : "perceptron" (Rosenblatt's rule, one class against the rest) or "logistic" (L2 penalty).
    penalty : of "logistic", in (0, inf): the weight of |w|^2 / 2 beside the sum of the rows' log losses.
    epochs : passes over the rows of "perceptron", iterations of "logistic", at most.
    random_state : order of the rows of "perceptron".

    Attributes
    ----------
    classes_, weights_, intercepts_ : one row of weights a class; with two classes one for the second.
    """

    kind: str = "logistic"
    penalty: float = 1.0
    epochs: int = 1_000
    random_state: int = 0

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Find the planes."""
        if self.kind not in KINDS:
            raise ValueError(f"The 'kind' parameter must be one of {', '.join(KINDS)}. Got {self.kind!r} instead.")
        X, y = rows_and_targets(self, X, y)
        found: Any
        if self.kind == "perceptron":
            found = Rosenblatt(max_iter=self.epochs, random_state=self.random_state).fit(X, y)
        else:
            found = LogisticRegression(C=1.0 / self.penalty, max_iter=self.epochs, tol=1e-8).fit(X, y)
        self.classes_ = found.classes_
        self.weights_, self.intercepts_ = np.array(found.coef_), np.array(found.intercept_)
        return self

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """How far on its side of every plane a row lies."""
        check_is_fitted(self)
        found = matrix_of_rows(self, X) @ self.weights_.T + self.intercepts_
        return np.asarray(found[:, 0] if len(self.classes_) == 2 else found)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The class on whose side the row lies furthest."""
        side = self.decision_function(X)
        codes = (side > 0).astype(np.int64) if side.ndim == 1 else side.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Of "logistic": the probability of every class."""
        side = self.decision_function(X)
        if side.ndim == 1:
            one = expit(side)
            return np.column_stack([1.0 - one, one])
        return np.asarray(softmax(side, axis=1))
