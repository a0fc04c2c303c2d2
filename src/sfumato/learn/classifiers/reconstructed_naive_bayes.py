"""Naive Bayes from reconstructed densities: P(class | x) is proportional to P(class) times its columns' densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato.channels import Recipe
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.class_densities import ClassDensities, class_densities, slices
from sfumato.learn.classifiers.reads_noise import AnswersForReleased, Part, recipe_of, softmax
from sfumato.learn.classifiers.release_columns import ReleaseColumn, columns_of
from sfumato.mechanisms import Mechanism
from sfumato.noise import NumberNoise
from sfumato.reconstruction.evidence import Cells, cell_probabilities
from sfumato.reconstruction.reconstruct import make_method

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
            for column in slices(parts):
                found = class_densities(column, k, method=method, intervals=self.intervals)
                if found is not None:
                    true = found if response is None else found.unmixed(prior, response)
                    self._keep(column[0].column, true, rows)

    def _keep(self, column: ReleaseColumn, found: ClassDensities, rows: int) -> None:
        """Smoothed masses, with edges in the matrix's own units."""
        weight = np.maximum(self.class_prior_ * rows, 0.0)[:, None]
        self.mass_.append((weight * found.mass + self.pseudo_rows * found.overall) / (weight + self.pseudo_rows))
        missing = (weight[:, 0] * found.missing + self.pseudo_rows * found.overall_missing) / (
            weight[:, 0] + self.pseudo_rows
        )
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
            if len(edges) == 0:
                slots = rows[:, start:stop]
                here = np.log(np.maximum(mass, _TINY))[:, slots.argmax(axis=1)].T
                # A category that training did not see has equal slots: it speaks for no class.
                scores += np.where(slots.max(axis=1, keepdims=True) > slots.min(axis=1, keepdims=True), here, 0.0)
                continue
            cell = np.clip(np.searchsorted(edges, rows[:, start], side="right") - 1, 0, len(edges) - 2)
            here = np.log(np.maximum(mass, _TINY))[:, cell].T
            scores += _with_missing(here, missing, rows[:, stop - 1])
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
                scores += np.where(column.reported(rows)[:, None], here, 0.0)
                continue
            cells = Cells(column.low + column.width * edges, self.atoms_[place])
            here = np.log(np.maximum(_blurred(column, rows, cells, mass, missing), _TINY))
            true = column.described.missing_keep
            told = missing if true is None else true * missing + (1 - true) * (1 - missing)
            here = _with_missing(here, told, rows[:, column.stop - 1])
            scores += np.where(column.reported(rows)[:, None], here, 0.0)
        return softmax(scores)

    def _prior_scores(self, rows: int) -> Floats:
        return np.repeat(np.log(np.maximum(self.class_prior_, _TINY))[None, :], rows, axis=0)

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
        cell = np.clip(np.searchsorted(cells.edges, z, side="right") - 1, 0, cells.count - 1)
        return np.asarray(mass[:, cell].T)
    low, high = float(z.min()), float(z.max())
    room = 1e-6 * (high - low) + 1e-12 * (1.0 + abs(low))
    edges = np.linspace(low - room, high + room, _GRID + 1)
    place = np.clip(np.searchsorted(edges, z, side="right") - 1, 0, _GRID - 1)
    density = cell_probabilities(noise, edges, cells)[1:-1] @ mass.T
    keep = column.described.missing_keep
    if keep is not None and keep < 1.0 and len(missing):
        density = _with_stand_ins(density, noise, edges, column, keep, missing)
    return np.asarray(density[place])


def _with_stand_ins(
    density: Floats, noise: NumberNoise, edges: Floats, column: ReleaseColumn, keep: float, missing: Floats
) -> Floats:
    """Some shown values stand in for missing ones, at the middle of the range."""
    middle = column.low + 0.5 * column.width
    alone = Cells(np.array([middle - 0.5, middle + 0.5]), atoms=True)
    stand_in = cell_probabilities(noise, edges, alone)[1:-1]
    hidden = (1 - keep) * missing / ((1 - keep) * missing + keep * (1 - missing))
    return np.asarray((1 - hidden) * density + hidden * stand_in)
