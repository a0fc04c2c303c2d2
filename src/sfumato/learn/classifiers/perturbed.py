"""The scikit-learn door: a classifier that never sees unperturbed training rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from sfumato.core.array_types import Matrix
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, UsageError
from sfumato.core.wording import counted
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.reads_noise import Part, check_columns, matrix_of_rows, rows_and_targets, targets_beside
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts, public_map
from sfumato.mechanisms import Mechanism
from sfumato.mechanisms.principal_laplace import PrincipalLaplace
from sfumato.noise import Streams
from sfumato.table import Column, Encoding, Schema
from sfumato.table.arrays import is_number
from sfumato.table.column import nearest
from sfumato.table.encoding import MISSING_INSTEAD, warn_of_unfit
from sfumato.table.readers import as_arrow

# The encoding of a data frame whose columns are not all numbers, from a schema, from bounds, or from itself.

GIVEN = "given as bounds"


def as_frame(X: Any) -> pa.Table | None:
    """A data frame as an Arrow table; None for arrays, lists and sparse matrices."""
    if issparse(X) or isinstance(X, np.ndarray | list | tuple):
        return None
    named = isinstance(X, pa.Table) or (hasattr(X, "columns") and hasattr(X, "shape"))
    return as_arrow(X) if named else None


def encoding_of(frame: pa.Table, schema: Schema | None, bounds: Any) -> Encoding:
    """Public where a schema or bounds say so; what is learned from the rows is warned of."""
    if schema is not None:
        known = Schema(schema.private)
        if strange := [name for name in frame.column_names if name not in schema]:
            raise SchemaError(f"The schema has no column {strange[0]!r}.{nearest(strange[0], schema.names)}")
        return Encoding(known)
    for name in bounds if isinstance(bounds, Mapping) else ():
        if name not in frame.column_names:
            raise UsageError(f"The 'bounds' parameter names {name!r}.{nearest(name, frame.column_names)}")
    if bounds is not None and not isinstance(bounds, Mapping) and any(np.ndim(side) for side in bounds):
        raise UsageError(
            "For a DataFrame with columns that are not numbers, give bounds by name ({'age': (0, 120)}), or a schema."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # said below, of what is still learned then
        found = Schema.infer(frame)
    schema = Schema(tuple(_bounded(column, bounds) for column in found.private))
    if schema.learned:
        warnings.warn(
            f"Bounds or categories of {', '.join(schema.learned[:10])} were read off the training rows, so "
            "nothing is proved. Give a `schema` with what is known about them.",
            PrivacyLeakWarning,
            stacklevel=4,
        )
    return Encoding(schema)


def _bounded(column: Column, bounds: Any) -> Column:
    """The column with the bounds that were given for it; categories have none."""
    mine = bounds.get(column.name) if isinstance(bounds, Mapping) else bounds
    if mine is None or column.kind not in ("numeric", "integer"):
        return column
    low, high = (float(side) for side in mine)
    if not low <= high:
        raise UsageError(f"The bounds of column {column.name!r} must be (low, high) with low <= high.")
    return replace(column, kind="numeric", low=low, high=high, source="public", reason=GIVEN)


MOST_CLIPPED = 0.01
"""Share of a column's values outside its bounds that needs no word."""
EXACTLY = 1e-7
"""Of a standard deviation. The mean of n rows that were not centred comes that near with probability 1e-7 sqrt(n)."""
FEW_VALUES = 20
"""A scale of marks often shows its lowest and its highest; a measurement hardly ever does."""
CENTRED = "a step before it that was fitted on the same rows: every column has mean 0"


@dataclass(eq=False, repr=False)
class PerturbedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Perturb what is trained on, embed what is predicted; works in `cross_val_score` and `GridSearchCV`.

    `X` is an array of numbers, a sparse matrix (which is made dense), or a DataFrame, whose columns may hold numbers,
    words, truth values and dates, with empty cells. Categories that only `predict` meets are treated as missing and
    warned of.

    Parameters
    ----------
    mechanism : a `Mechanism`; `PrincipalLaplace()` by default.
    classifier : a scikit-learn classifier, or a name of `sfumato train` ("auto" by default).
    bounds : (low, high), each a number or one per column, or {column: (low, high)} for a DataFrame; known without
        looking at the data. Without them they are learned from the training rows, with a `PrivacyLeakWarning`.
    random_state : None draws from the operating system; a number makes the noise repeatable (experiments only).
    schema : a `Schema` instead of bounds, which also knows categories, for a DataFrame.

    The guarantee is about the rows that `fit` is given, and holds where nothing was learned from them before. A step of
    a pipeline that is fitted on the same rows (`StandardScaler`, `PCA`, an imputer) is not perturbed: its means go into
    the model as they are. Leave it out, for bounds scale already, or fit it on other people's rows beforehand
    (`FrozenEstimator`). Rows that a step has centred are recognised, and nothing is called proved then; other steps
    are not seen from here.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PerturbedClassifier(PrincipalLaplace(b=0.1), bounds=(0, 8), random_state=0).fit(X, y)
    >>> model.guarantee().kind, model.predict(X[:2]).shape
    ('empirical-only', (2,))
    """

    mechanism: Mechanism | None = None
    classifier: Any = "auto"
    bounds: tuple[ArrayLike, ArrayLike] | Mapping[str, tuple[float, float]] | None = None
    random_state: int | None = None
    schema: Schema | None = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Release the rows in memory and train on the release."""
        if self.schema is not None and self.bounds is not None:
            raise UsageError("Give 'schema' or 'bounds', not both: a schema contains bounds.")
        encoded, targets = self._training_rows(X, y)
        self.classes_, codes = np.unique(targets, return_inverse=True)
        self.mechanism_ = clone(self.mechanism if self.mechanism is not None else PrincipalLaplace())
        streams = Streams() if self.random_state is None else Streams.seeded(self.random_state)
        rng = streams.generator(0, b"perturbed classifier", b"")
        unfitted = make_classifier(self.classifier) if isinstance(self.classifier, str) else clone(self.classifier)
        block = self.mechanism_.release(encoded, codes, rng, encoding=self.encoding_, streams=streams)
        recipe = self.mechanism_.recipe_
        staged = recipe.map.kind == "staged"
        if staged and not getattr(unfitted, "reads_stages", False):
            raise UsageError(
                f"A release in stages, as {self.mechanism_.name} makes it, needs a classifier that knows the stages: "
                "auto or private-discriminant."
            )
        part = Part(block.X, codes[block.source], recipe)
        self.embeds_ = not (staged or (recipe.is_columnwise and answers_plain_rows(unfitted)))
        self.classifier_ = fit_on_parts(unfitted, [part]) if len(self.classes_) > 1 else None
        return self

    def _training_rows(self, X: Any, y: Any) -> tuple[Matrix, NDArray[Any]]:
        """Encoded rows and their classes; sets `encoding_`."""
        frame = as_frame(X)
        by_name = self.schema is not None or isinstance(self.bounds, Mapping)
        if frame is None and by_name:
            raise UsageError("A schema, or bounds by name, needs a DataFrame, whose columns have names.")
        mixed = frame is not None and not all(is_number(field.type) for field in frame.schema)
        self.takes_frames_ = frame is not None and (by_name or mixed)
        if frame is None or not self.takes_frames_:
            matrix, targets = rows_and_targets(self, X, y, accept_sparse=True)
            low, high = self._domain(matrix)
            source, reason = ("learned", None) if self.bounds is None else ("public", GIVEN)
            ends = zip(low.tolist(), high.tolist(), strict=True)
            columns = (
                Column(f"x{place}", "numeric", low=least, high=most, source=source, reason=reason)
                for place, (least, most) in enumerate(ends)
            )
            self.encoding_ = Encoding(Schema(tuple(columns)))
            self._look_at(matrix, low, high)
            return self._encode(matrix), targets
        check_columns(self, X, reset=True)
        targets = targets_beside(X, y)
        self.encoding_ = encoding_of(frame, self.schema, self.bounds)
        self._look_at(*_numbers_within(frame, self.encoding_))
        return self.encoding_.encode(frame).X, targets

    def _look_at(self, numbers: Matrix, low: Matrix, high: Matrix) -> None:
        """Whether the bounds are those of these rows, and whether something learned from them before; sets
        `centred_`."""
        # All columns have mean 0, as `StandardScaler` and `PCA` make those of the rows that they are fitted on. Columns
        # of one or two values do not count: a balanced experiment has such.
        found = numbers[:, [len(np.unique(column[~np.isnan(column)])) > 2 for column in numbers.T]]
        near = np.abs(np.nanmean(found, axis=0)) <= EXACTLY * np.nanstd(found, axis=0) if found.size else np.zeros(1)
        self.centred_ = bool(np.all(near))
        learned = self.bounds is None and self.schema is None
        for warned in () if learned else _bounds_in_doubt(numbers, low, high):
            warnings.warn(warned, PrivacyLeakWarning, stacklevel=4)

    def _domain(self, X: Matrix) -> tuple[Matrix, Matrix]:
        if self.bounds is None:
            warnings.warn(
                "The bounds were read off the training rows, so nothing is proved. "
                "Give `bounds` from what is known about the columns.",
                PrivacyLeakWarning,
                stacklevel=4,
            )
            return X.min(axis=0), X.max(axis=0)
        sides = [np.asarray(side, dtype=np.float64) for side in self.bounds]
        if len(sides) != 2 or any(side.shape not in ((), X.shape[1:]) for side in sides):
            raise UsageError(
                "The 'bounds' parameter of PerturbedClassifier must be (low, high), each one number or one for each of "
                f"the {counted(X.shape[1], 'column')}."
            )
        low, high = (np.broadcast_to(side, X.shape[1]) for side in sides)
        if not np.all(low <= high):
            raise UsageError("The 'bounds' parameter of PerturbedClassifier must be (low, high) with low <= high.")
        return low, high

    def _encode(self, X: Matrix) -> Matrix:
        low = np.array([group.column.bounds[0] for group in self.encoding_.groups])
        span = self.encoding_.scale
        encoded = np.where(span > 0, (X - low) / np.where(span > 0, span, 1.0), 0.5)
        return np.clip(encoded, 0.0, 1.0)

    def _embed(self, X: Any) -> Matrix:
        check_is_fitted(self)
        if self.takes_frames_:
            frame = as_frame(X)
            if frame is None:
                raise UsageError("The classifier was trained on a DataFrame, so it answers for DataFrames only.")
            check_columns(self, X)
            found = self.encoding_.encode(frame, unknown=MISSING_INSTEAD)
            warn_of_unfit(found.unfit, "the training data", "", stacklevel=4)
            encoded = found.X
        else:
            encoded = self._encode(matrix_of_rows(self, X, accept_sparse=True))
        if not self.embeds_:
            return encoded
        placed = public_map(self.mechanism_.recipe_) if self.mechanism_.recipe_.is_columnwise else None
        return np.asarray(self.mechanism_.embed(encoded) if placed is None else encoded @ placed[0].T + placed[1])

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of plain rows, embedded where the release lies (unless the classifier answers for plain ones)."""
        Z = self._embed(X)
        if self.classifier_ is None:
            return np.repeat(self.classes_, len(Z))
        return np.asarray(self.classes_[self.classifier_.predict(Z)])

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities, where the classifier has them."""
        Z = self._embed(X)
        return np.ones((len(Z), 1)) if self.classifier_ is None else np.asarray(self.classifier_.predict_proba(Z))

    def guarantee(self) -> Any:
        """The guarantee of the rows that were trained on."""
        check_is_fitted(self)
        reasons = [] if self.random_state is None else ["a fixed seed: anybody can repeat the noise"]
        reasons += [CENTRED] if self.centred_ else []
        return self.mechanism_.guarantee().hindered(reasons)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _numbers_within(frame: pa.Table, encoding: Encoding) -> tuple[Matrix, Matrix, Matrix]:
    """The columns of numbers of a data frame (empty cells are NaN), and their bounds."""
    columns = [
        group.column
        for group in encoding.groups
        if group.column.kind in ("numeric", "integer") and is_number(frame.schema.field(group.column.name).type)
    ]
    cells = [frame[one.name].cast(pa.float64(), safe=False).to_numpy() for one in columns]
    low, high = np.array([one.bounds for one in columns]).reshape(-1, 2).T
    return np.column_stack(cells) if cells else np.zeros((frame.num_rows, 0)), low, high


def _bounds_in_doubt(X: Matrix, low: Matrix, high: Matrix) -> Iterator[str]:
    """What speaks against bounds that are called public, in sentences for whoever has the rows."""
    if not X.size:
        return
    outside = np.mean((low > X) | (high < X), axis=0)
    if (outside > MOST_CLIPPED).any():
        yield (
            f"In {np.count_nonzero(outside > MOST_CLIPPED)} of {X.shape[1]} columns more than {MOST_CLIPPED:.0%} of "
            f"the values lie outside the bounds (at most {outside.max():.0%}) and were moved to them. Give the bounds "
            "of the columns as `fit` gets them: a step before it, such as a scaler, changes them, and one that is "
            "fitted on the same rows voids the guarantee."
        )
    many = np.array([len(np.unique(column)) > FEW_VALUES for column in X.T])
    if many.any() and np.allclose([np.nanmin(X, axis=0)[many], np.nanmax(X, axis=0)[many]], [low[many], high[many]]):
        yield (
            "The smallest and the largest value of every column are its bounds. If these were read off the rows, or a "
            "step before it was fitted on them (MinMaxScaler), the guarantee does not hold."
        )
