"""Learners on reconstructed densities: naive Bayes on the densities themselves, and any learner on moved values.

Training rows look plain once values are moved so that every column has its reconstructed law. Agrawal & Srikant
(2000): sort the released values of a column and give the smallest ones to the first interval, as many as the
reconstruction says, the next ones to the second, and so on. The r-th of n values so becomes the (r - 1/2) / n quantile
of the reconstructed distribution. Order is kept, and with it most of what the noise has left of the columns'
dependence. `by-class` does this within every class, `global` for all rows together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from threadpoolctl import threadpool_limits

from sfumato.channels import Recipe
from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import CardError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.class_densities import (
    ClassDensities,
    ReleaseColumn,
    Slice,
    class_densities,
    columns_of,
    slices,
)
from sfumato.learn.classifiers.reads_noise import AnswersForReleased, Part, ReadsNoise, recipe_of, softmax
from sfumato.mechanisms import Mechanism
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import Cells, Method, cell_probabilities
from sfumato.reconstruction.reconstruct import make_method

WAYS = ("by-class", "global")


@dataclass(frozen=True)
class Assignment:
    """How values are reconstructed and assigned.

    `middles`: the middle of the interval, as published, which trees sort faster; else where in it the rank lies.
    """

    way: str = "by-class"
    method: Method | None = None
    intervals: int | None = None
    middles: bool = False

    def rows(self, parts: Sequence[Part], classes: int, rng: np.random.Generator) -> Floats:
        """The rows of all parts, one part after the other, with assigned values in the encoding of plain rows."""
        if self.way == "global":
            parts, classes = [Part(part.Z, np.zeros_like(part.y), part.source) for part in parts], 1
        moved = [part.Z.copy() for part in parts]
        for column in slices(parts):
            if not any(one.column.is_noisy for one in column):
                continue  # seen as it is: nothing to reconstruct, nothing to move
            found = class_densities(column, classes, method=self.method, intervals=self.intervals)
            for one, Z in zip(column, moved, strict=True):
                if found is None or not one.column.is_noisy:
                    continue
                there = one.column.reported(one.Z)  # a cell that is left out stays so
                mine = [np.flatnonzero((one.y == code) & there) for code in range(classes)]
                if found.cells is not None:
                    _move_numbers(Z, one, found, mine, rng, self.middles)
                    continue
                codes, block = one.column.codes(one.Z), slice(one.column.start, one.column.stop)
                for mass, rows in zip(found.mass, mine, strict=True):
                    Z[rows, block] = np.eye(block.stop - block.start)[moved_codes(codes[rows], mass, rng)]
        return np.concatenate(moved)


def _move_numbers(
    Z: Floats, one: Slice, found: ClassDensities, mine: Sequence[Codes], rng: np.random.Generator, middles: bool
) -> None:
    column, cells = one.column, found.cells
    assert cells is not None
    values, empty = column.values(one.Z), column.missing(one.Z)
    raw = np.full(len(values), column.low + 0.5 * column.width)  # where a missing value stands
    for code, rows in enumerate(mine):
        if column.has_indicator and len(rows):
            shares = np.array([1.0 - found.missing[code], found.missing[code]])
            empty[rows] = moved_codes(empty[rows].astype(np.int64), shares, rng).astype(bool)
        shown = rows[~empty[rows]]
        here = values[shown]
        hidden = np.isnan(here)  # reported missing, and now to have a value: the rank of another row's, at random
        if hidden.any():
            known = here[~hidden]
            here[hidden] = rng.choice(known, int(hidden.sum())) if len(known) else 0.0
        raw[shown] = by_rank(here, cells, found.mass[code], middles)
    there = column.reported(one.Z)
    Z[there, column.start] = column.encoded(raw[there])
    if column.has_indicator:
        Z[:, column.stop - 1] = empty


def by_rank(values: Floats, cells: Cells, mass: Floats, middles: bool = False) -> Floats:
    """The r-th smallest of n values becomes the (r - 1/2) / n quantile, or the middle of the cell that it lies in."""
    share, found = (np.arange(len(values)) + 0.5) / len(values), np.empty(len(values))
    if middles:
        quantiles = cells.middles[np.searchsorted(np.cumsum(mass)[:-1], share * mass.sum(), side="left")]
    else:
        quantiles = Density("", cells, mass).quantiles(share)
    found[np.argsort(values)] = quantiles
    return found


def moved_codes(codes: Codes, shares: Floats, rng: np.random.Generator) -> Codes:
    """Codes with the wanted shares that differ from the given ones in as few rows as possible; which, is drawn."""
    wanted = np.floor(shares * len(codes) + 1e-9).astype(np.int64)
    rest = np.argsort(wanted - shares * len(codes), kind="stable")[: len(codes) - wanted.sum()]
    wanted[rest] += 1
    surplus = np.bincount(codes, minlength=len(shares)) - wanted
    order = rng.permutation(len(codes))
    by_code = order[np.argsort(codes[order], kind="stable")]  # rows of each code together, in random order
    place = np.arange(len(codes)) - np.searchsorted(codes[by_code], codes[by_code])
    leaving = rng.permutation(by_code[place < surplus[codes[by_code]]])
    moved = codes.copy()
    moved[leaving] = np.repeat(np.arange(len(shares)), np.maximum(-surplus, 0))
    return moved


# Any scikit-learn classifier, and a decision tree, trained on reconstructed values instead of noisy ones.


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
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        method = None if self.method is None else make_method(self.method)
        how = Assignment(self.reconstruction, method, self.intervals, self.middles)
        with threadpool_limits(1, user_api="blas"):  # many small products: threads would only wait for each other
            assigned = how.rows(parts, len(self.classes_), rng)
        self.classifier_ = self._unfitted(len(codes)).fit(assigned, self.classes_[codes])

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Classes of plain rows."""
        rows = self._queries(X)
        return np.asarray(self.classifier_.predict(rows))

    @available_if(  # type: ignore[untyped-decorator]
        lambda model: hasattr(getattr(model, "classifier_", model._unfitted(0)), "predict_proba")
    )
    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes of plain rows, where the classifier has them; of a tree the shares in a leaf."""
        rows = self._queries(X)
        return np.asarray(self.classifier_.predict_proba(rows))


@dataclass(eq=False, repr=False)
class ReconstructedTree(_OnAssignedRows):
    """A decision tree on reconstructed values [Agrawal & Srikant 2000: Global and ByClass].

    The tree is grown by the Gini index (scikit-learn's). By-class values carry the chance differences of the
    reconstructions, which a deep tree would learn: leaves hold at least `min_leaf` rows. Values are moved once, at the
    root. Moving them again in every node (Local) was measured and does not pay; see docs/classifiers.md.

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

    reconstruction: str = "by-class"
    min_leaf: int | None = None
    max_depth: int | None = None
    method: Any = None
    intervals: int | None = None
    random_state: Any = 0

    def _unfitted(self, rows: int) -> DecisionTreeClassifier:
        leaf = max(5, rows // 100) if self.min_leaf is None else self.min_leaf
        return DecisionTreeClassifier(
            min_samples_leaf=leaf, max_depth=self.max_depth, random_state=check_random_state(self.random_state)
        )


@dataclass(eq=False, repr=False)
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

    classifier: Any = None
    reconstruction: str = "by-class"
    method: Any = None
    intervals: int | None = None
    random_state: Any = 0

    def _unfitted(self, rows: int) -> Any:  # noqa: ARG002
        return DecisionTreeClassifier(random_state=0) if self.classifier is None else clone(self.classifier)

    @property
    def reads_gaps(self) -> bool:  # type: ignore[override]
        """Where the classifier itself does: cells that are left out stay so."""
        return bool(get_tags(self._unfitted(0)).input_tags.allow_nan)


# Naive Bayes from reconstructed densities: P(class | x) is proportional to P(class) times its columns' densities.

_GRID = 2000
_TINY = 1e-300


@dataclass(eq=False, repr=False)
class ReconstructedNaiveBayes(AnswersForReleased):
    """Class densities of every column are reconstructed (ByClass) from the release and multiplied.

    Numbers: `sfumato.reconstruction`, one joint estimate from all parts. Categories: randomized response inverted.
    Randomized labels are undone in the densities themselves, cell by cell. The distribution of all rows is added
    to that of a class as if it were `pseudo_rows` more rows, so that no cell is impossible.

    `predict` answers for plain rows. `predict_released` answers for rows that were themselves perturbed, by the
    densities of the *released* values: the reconstructed ones, blurred by that release's noise.

    Parameters
    ----------
    method : method of reconstruction, by name or as an object; None for smoothed expectation-maximization.
    intervals : cells of a numeric column; None: 2 n^(1/3), between 10 and 60.
    pseudo_rows : weight of the overall distribution within every class.

    Attributes
    ----------
    classes_, class_prior_ : labels, and their shares (before randomization).
    edges_, mass_ : per column, edges of its cells (an empty list for categories) and the masses by class.
    """

    corrects_labels = True

    method: Any = None
    intervals: int | None = None
    pseudo_rows: float = 2.0

    def _check_parameters(self) -> None:
        if not self.pseudo_rows > 0:
            raise ValueError(f"The 'pseudo_rows' parameter must be above 0. Got {self.pseudo_rows!r} instead.")

    def _train(self, parts: list[Part]) -> None:
        """Reconstruct every column within every class."""
        k = len(self.classes_)
        prior, response = self._set_prior(parts)
        rows = sum(len(part.y) for part in parts)
        method = None if self.method is None else make_method(self.method)
        self.starts_: list[int] = []
        self.stops_: list[int] = []
        self.atoms_: list[bool] = []
        self.edges_: list[Floats] = []
        self.mass_: list[Floats] = []
        self.missing_: list[Floats] = []
        with threadpool_limits(1, user_api="blas"):  # many small products: threads would only wait for each other
            for slice_ in slices(parts):
                found = class_densities(slice_, k, method=method, intervals=self.intervals)
                if found is not None:
                    true = found if response is None else found.unmixed(prior, response)
                    self._keep(slice_[0].column, true, rows)

    def _keep(self, column: ReleaseColumn, found: ClassDensities, rows: int) -> None:
        """Smoothed masses, with edges in the matrix's own units."""
        own, more = np.maximum(self.class_prior_ * rows, 0.0), self.pseudo_rows
        self.mass_.append((own[:, None] * found.mass + more * found.overall) / (own[:, None] + more))
        missing = (own * found.missing + more * found.overall_missing) / (own + more)
        self.missing_.append(missing if column.has_indicator else np.zeros(0))
        self.starts_.append(column.start)
        self.stops_.append(column.stop)
        self.atoms_.append(bool(found.cells is not None and found.cells.atoms))
        self.edges_.append(np.zeros(0) if found.cells is None else column.encoded(found.cells.edges))

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probabilities of the classes of plain rows; values beyond the range count as its ends."""
        rows = self._queries(X)
        scores = self._prior_scores(len(rows))
        for start, stop, edges, mass, missing in self._columns():
            logs = np.log(np.maximum(mass, _TINY))
            if len(edges) == 0:
                slots = rows[:, start:stop]
                # A category that training did not see has equal slots: it speaks for no class.
                known = slots.max(axis=1, keepdims=True) > slots.min(axis=1, keepdims=True)
                scores += np.where(known, logs[:, slots.argmax(axis=1)].T, 0.0)
            else:
                cell = Cells(edges).holding(rows[:, start])
                scores += _with_missing(logs[:, cell].T, missing, rows[:, stop - 1])
        return softmax(scores)

    def predict_proba_released(self, Z: npt.ArrayLike, source: Recipe | Card | Mechanism) -> Floats:
        """Probabilities for perturbed rows: f(z | class) = sum over cells of P(z | x) f(x | class)."""
        recipe = recipe_of(source)
        rows = self._queries(Z, gaps=recipe is not None and bool(recipe.left_out))
        scores = self._prior_scores(len(rows))
        columns = {column.start: column for column in columns_of(source)}
        for place, (start, _, edges, mass, missing) in enumerate(self._columns()):
            column = columns.get(start)
            if column is None or column.described is None:
                raise CardError("The released rows have different columns from the training rows.")
            if len(edges) == 0:
                k, keep = mass.shape[1], column.described.keep
                seen = mass if k < 2 else (1 - keep) / (k - 1) + (keep - (1 - keep) / (k - 1)) * mass
                here = np.log(np.maximum(seen, _TINY))[:, column.codes(rows)].T
            else:
                cells = Cells(column.low + column.width * edges, self.atoms_[place])
                here = np.log(np.maximum(_blurred(column, rows, cells, mass, missing), _TINY))
                true = column.described.missing_keep
                told = missing if true is None else true * missing + (1 - true) * (1 - missing)
                here = _with_missing(here, told, rows[:, column.stop - 1])
            scores += np.where(column.reported(rows)[:, None], here, 0.0)
        return softmax(scores)

    def _columns(self) -> Any:
        return zip(self.starts_, self.stops_, self.edges_, self.mass_, self.missing_, strict=True)


def _with_missing(here: Floats, missing: Floats, indicator: Floats) -> Floats:
    """Scores of the values that are shown, and of the fact that they are or are not."""
    if len(missing) == 0:
        return here
    shown, empty = np.log(np.maximum(1 - missing, _TINY)), np.log(np.maximum(missing, _TINY))
    return np.asarray(np.where(indicator[:, None] > 0.5, empty[None, :], here + shown[None, :]))


def _blurred(column: ReleaseColumn, Z: Floats, cells: Cells, mass: Floats, missing: Floats) -> Floats:
    """Density of the released values of a column in every class, at every row, from a fine grid of z."""
    assert column.described is not None
    z, noise = column.values(Z), column.described.noise
    z = np.where(np.isnan(z), cells.middles.mean(), z)
    if noise is None:
        return np.asarray(mass[:, cells.holding(z)].T)
    low, high = float(z.min()), float(z.max())
    room = 1e-6 * (high - low) + 1e-12 * (1.0 + abs(low))
    edges = np.linspace(low - room, high + room, _GRID + 1)
    place = np.clip(np.searchsorted(edges, z, side="right") - 1, 0, _GRID - 1)
    density = cell_probabilities(noise, edges, cells)[1:-1] @ mass.T
    keep = column.described.missing_keep
    if keep is not None and keep < 1.0 and len(missing):
        # Some shown values stand in for missing ones, at the middle of the range.
        middle = column.low + 0.5 * column.width
        alone = Cells(np.array([middle - 0.5, middle + 0.5]), atoms=True)
        hidden = (1 - keep) * missing / ((1 - keep) * missing + keep * (1 - missing))
        density = (1 - hidden) * density + hidden * cell_probabilities(noise, edges, alone)[1:-1]
    return np.asarray(density[place])
