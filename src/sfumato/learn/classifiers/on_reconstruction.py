"""Any scikit-learn classifier, and a decision tree, trained on reconstructed values instead of noisy ones."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from threadpoolctl import threadpool_limits

from sfumato.core.array_types import Floats
from sfumato.learn.classifiers.assignment import WAYS, Assignment
from sfumato.learn.classifiers.reads_noise import Part, ReadsNoise
from sfumato.reconstruction import make_method


class _OnAssignedRows(ReadsNoise):
    """Reconstruct, assign, then fit what `_unfitted` gives."""

    reconstruction: str
    method: Any
    intervals: int | None
    random_state: Any
    middles: ClassVar[bool] = False

    def _unfitted(self, rows: int) -> Any:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        if self.reconstruction not in WAYS:
            raise ValueError(
                f"The 'reconstruction' parameter must be one of {', '.join(WAYS)}. Got {self.reconstruction!r} instead."
            )

    def _train(self, parts: list[Part]) -> None:
        """Assign reconstructed values to the released rows and train on them."""
        codes = np.concatenate([rows.y for rows in parts])
        self.classifier_ = self._unfitted(len(codes)).fit(self._assigned(parts), self.classes_[codes])

    def _assigned(self, parts: list[Part]) -> Floats:
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        method = None if self.method is None else make_method(self.method)
        with threadpool_limits(1, user_api="blas"):  # many small products: threads would only wait for each other
            how = Assignment(self.reconstruction, method, self.intervals, self.middles)
            return how.rows(parts, len(self.classes_), rng)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Classes of plain rows."""
        rows = self._queries(X)
        return np.asarray(self.classifier_.predict(rows))


class ReconstructedTree(_OnAssignedRows):
    """A decision tree on reconstructed values [Agrawal & Srikant 2000: Global and ByClass].

    Released values are sorted and given to the intervals of the reconstructed distribution, in order; the tree is then
    grown by the Gini index (scikit-learn's). By-class values carry the chance differences of the reconstructions, which
    a deep tree would learn: leaves hold at least `min_leaf` rows. Values are moved once, at the root. Moving them
    again in every node (Local) was measured and does not pay; see docs/classifiers.md.

    Parameters
    ----------
    reconstruction : "by-class", or "global" for all rows together.
    min_leaf : fewest rows of a leaf; None: 1% of the rows, and at least 5.
    max_depth : of the tree; None for no limit.
    method, intervals : of the reconstruction, see `ReconstructedNaiveBayes`.
    random_state : decides between equal splits, and which rows change their category.

    Attributes
    ----------
    classes_, classifier_ : labels; the scikit-learn tree.
    """

    middles = True

    def __init__(
        self,
        reconstruction: str = "by-class",
        min_leaf: int | None = None,
        max_depth: int | None = None,
        method: Any = None,
        intervals: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.reconstruction = reconstruction
        self.min_leaf = min_leaf
        self.max_depth = max_depth
        self.method = method
        self.intervals = intervals
        self.random_state = random_state

    def _unfitted(self, rows: int) -> DecisionTreeClassifier:
        leaf = max(5, rows // 100) if self.min_leaf is None else self.min_leaf
        return DecisionTreeClassifier(
            min_samples_leaf=leaf, max_depth=self.max_depth, random_state=check_random_state(self.random_state)
        )

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Shares of the classes in the leaf of every plain row."""
        rows = self._queries(X)
        return np.asarray(self.classifier_.predict_proba(rows))


class OnReconstruction(MetaEstimatorMixin, _OnAssignedRows):  # type: ignore[misc]
    """Train any scikit-learn classifier on values assigned from the (by-class) reconstruction.

    Parameters
    ----------
    classifier : a scikit-learn classifier; a copy is trained.
    reconstruction, method, intervals, random_state : see `ReconstructedTree`.

    Attributes
    ----------
    classes_, classifier_ : labels; the trained copy.
    """

    def __init__(
        self,
        classifier: Any = None,
        reconstruction: str = "by-class",
        method: Any = None,
        intervals: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.classifier = classifier
        self.reconstruction = reconstruction
        self.method = method
        self.intervals = intervals
        self.random_state = random_state

    def _unfitted(self, rows: int) -> Any:  # noqa: ARG002
        return DecisionTreeClassifier(random_state=0) if self.classifier is None else clone(self.classifier)

    @property
    def reads_gaps(self) -> bool:  # type: ignore[override]
        """Where the classifier itself does: cells that are left out stay so."""
        return bool(get_tags(self._unfitted(0)).input_tags.allow_nan)

    def _probabilities(self) -> bool:
        return hasattr(getattr(self, "classifier_", self._unfitted(0)), "predict_proba")

    @available_if(_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes of plain rows, where the classifier has them."""
        rows = self._queries(X)
        return np.asarray(self.classifier_.predict_proba(rows))
