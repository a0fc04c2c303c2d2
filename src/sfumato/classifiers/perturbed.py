"""The scikit-learn door: a classifier that never sees unperturbed training rows."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.classifiers.embedding import columnwise_map
from sfumato.classifiers.factory import make_classifier
from sfumato.classifiers.training import Part, answers_plain_rows, fit_on_parts, noise_from_mechanism
from sfumato.errors import PrivacyLeakWarning, UsageError
from sfumato.mechanisms import Mechanism, PrincipalLaplace
from sfumato.noise import Streams
from sfumato.table import Column, Encoding, Schema

Matrix = NDArray[np.float64]


class PerturbedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Perturb what is trained on, embed what is predicted; works in `cross_val_score` and `GridSearchCV`.

    Parameters
    ----------
    mechanism : a `Mechanism`; `PrincipalLaplace()` by default.
    classifier : a scikit-learn classifier, or a name of `sfumato train` ("radius-vote" by default).
    bounds : (low, high), each a number or one per column, known without looking at the data. Without them they are
        learned from the training rows, with a `PrivacyLeakWarning`.
    random_state : None draws from the operating system; a number makes the noise repeatable (experiments only).

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PerturbedClassifier(PrincipalLaplace(b=0.1), bounds=(0, 8), random_state=0).fit(X, y)
    >>> model.guarantee().kind, model.predict(X[:2]).shape
    ('empirical-only', (2,))
    """

    def __init__(
        self,
        mechanism: Mechanism | None = None,
        classifier: Any = "radius-vote",
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        random_state: int | None = None,
    ):
        self.mechanism = mechanism
        self.classifier = classifier
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Release the rows in memory and train on the release."""
        matrix, targets = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(targets)
        self.classes_, codes = np.unique(targets, return_inverse=True)
        self.low_, self.high_ = self._domain(matrix)
        self.mechanism_ = clone(self.mechanism if self.mechanism is not None else PrincipalLaplace())
        streams = Streams() if self.random_state is None else Streams.seeded(self.random_state)
        encoded = self._encode(matrix)
        rng = streams.generator(0, b"perturbed classifier", b"")
        self.mechanism_.fit(encoded, codes, encoding=self._encoding(matrix.shape[1]))
        block = self.mechanism_.perturb(encoded, codes, rng)
        unfitted = make_classifier(self.classifier) if isinstance(self.classifier, str) else clone(self.classifier)
        noise = noise_from_mechanism(self.mechanism_)
        part = Part(block.X, codes[block.source], noise, source=self.mechanism_)
        self.embeds_ = not (self.mechanism_.columnwise and answers_plain_rows(unfitted))
        self.classifier_ = fit_on_parts(unfitted, [part]) if len(self.classes_) > 1 else None
        return self

    def _domain(self, X: Matrix) -> tuple[Matrix, Matrix]:
        if self.bounds is None:
            warnings.warn(
                "The bounds were learned from the training rows, so no formal guarantee holds. "
                "Give `bounds` from what is known of the columns.",
                PrivacyLeakWarning,
                stacklevel=3,
            )
            return X.min(axis=0), X.max(axis=0)
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), X.shape[1]) for side in self.bounds)
        if not np.all(low <= high):
            raise UsageError("The 'bounds' parameter of PerturbedClassifier must be (low, high) with low <= high.")
        return low, high

    def _encoding(self, width: int) -> Encoding:
        source, reason = ("learned", None) if self.bounds is None else ("public", "given as bounds")
        columns = tuple(
            Column(f"x{j}", "numeric", low=float(self.low_[j]), high=float(self.high_[j]), source=source, reason=reason)
            for j in range(width)
        )
        return Encoding(Schema(columns))

    def _encode(self, X: Matrix) -> Matrix:
        span = self.high_ - self.low_
        encoded = np.where(span > 0, (X - self.low_) / np.where(span > 0, span, 1.0), 0.5)
        return np.clip(encoded, 0.0, 1.0)

    def _embed(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self)
        encoded = self._encode(validate_data(self, X, dtype=np.float64, reset=False))
        if not self.embeds_:
            return encoded
        if self.mechanism_.columnwise:
            matrix, offset = columnwise_map(self.mechanism_.encoding_, self.mechanism_.release_columns())
            return np.asarray(encoded @ matrix.T + offset)
        embedded: Matrix = self.mechanism_.embed(encoded)
        return embedded

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Classes of plain rows, embedded where the release lies (unless the classifier answers for plain ones)."""
        Z = self._embed(X)
        if self.classifier_ is None:
            return np.repeat(self.classes_, len(Z))
        found: NDArray[Any] = self.classes_[self.classifier_.predict(Z)]
        return found

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities, where the classifier has them."""
        Z = self._embed(X)
        if self.classifier_ is None:
            return np.ones((len(Z), 1))
        found: Matrix = self.classifier_.predict_proba(Z)
        return found

    def guarantee(self) -> Any:
        """The guarantee of the rows that were trained on."""
        check_is_fitted(self)
        reasons = [] if self.random_state is None else ["a fixed seed: anybody can repeat the noise"]
        return self.mechanism_.guarantee().hindered(reasons)
