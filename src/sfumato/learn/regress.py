"""Releases in, a linear model between plain columns out: coefficients.csv, regression.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.channels import Recipe, Secret
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.learn.asked import RegressAsked
from sfumato.learn.classifiers.geometric import REGRESSIONS
from sfumato.learn.mining.linear import WEAK, Linear, Unbiased, fit_linear, unbiased
from sfumato.learn.mining.seen import Mined, file_order, parts_of
from sfumato.learn.releases import pooled
from sfumato.release.release import Release, Releases
from sfumato.table import Group

# How well learners predict a released number from the other released columns: kernel smoother, linear models, a tree.
#
# Rows are learned from and asked as they were released, noise and all, each left out of what answers for it. That is
# what a holder of the release alone can measure. A rotation of the explaining columns would change nothing of it
# for the kernel smoother and linear models (`sfumato invariance --target`).


FOLDS = 5
MOST_ROWS = 5_000
FEWEST_ROWS = 20


def errors_of(X: Matrix, y: Matrix, unit: float, seed: int) -> dict[str, Any]:
    """Root mean square error of each learner in raw units, and of always answering the mean; lower is better.

    Of rows X and the number y beside each; `unit` is how many raw units one of y's is. Empty where cells are left out,
    or there are too few rows.
    """
    some = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    X, y = X[some], y[some]
    if len(X) < FEWEST_ROWS or np.isnan(X).any() or np.isnan(y).any():
        return {}
    fold = np.arange(len(X)) % FOLDS
    found = {}
    for name, regression in REGRESSIONS.items():
        answers = np.empty(len(y))
        for held in range(FOLDS):
            out = fold == held
            answers[out] = regression.make().fit(X[~out], y[~out]).predict(X[out])
        found[name] = float(np.sqrt(np.mean((answers - y) ** 2))) * unit
    means = np.array([y[fold != held].mean() for held in range(FOLDS)])
    return {"rows": len(X), "rmse": found, "rmse_of_mean": float(np.sqrt(np.mean((means[fold] - y) ** 2))) * unit}


FIGURES = ("coefficient", "low", "high", "as_released")
NO_TERMS = pa.table({"term": pa.array([], pa.string()), **{name: pa.array([], pa.float64()) for name in FIGURES}})
"""Of a model that could not be fitted."""
DEPENDENT = (
    "The released columns follow from each other, as the slots of a category do, so that single coefficients mean "
    "nothing. Name fewer columns for coefficients (--column)."
)


@dataclass(frozen=True, repr=False)
class Regression(Mined):
    """How a plain column depends on others, in raw units, from releases that hold neither without noise.

    Attributes
    ----------
    coefficients : pyarrow.Table
        Term, coefficient, interval, and what least squares on the released values would have said.
    about : dict
        Target, rows, share of the variance explained, how well learners predict released rows, and warnings.
    """

    name: ClassVar[str] = "regression"
    coefficients: pa.Table
    about: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Regression of {self.about['target']!r} on {self.coefficients.num_rows - 1} terms>"

    def files(self) -> dict[str, pa.Table]:
        """coefficients.csv."""
        return {"coefficients.csv": self.coefficients}


@dataclass(frozen=True, eq=False)
class Terms:
    """What explains: places in the encoded matrix, names, raw units per encoded unit and raw value at 0.

    `reference`: of every category, the one that its others are compared with.
    """

    places: Codes
    names: Sequence[str]
    scales: Matrix
    lows: Matrix
    reference: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, chosen: Sequence[Group]) -> Terms:
        """Of source columns; the first category of a column is what the others are compared with."""
        found: list[tuple[int, str, float, float]] = []
        for group in chosen:
            if group.is_onehot:
                slots = list(enumerate(group.slots))[1:]
                found += [(group.start + place, f"{group.column.name}={slot}", 1.0, 0.0) for place, slot in slots]
            else:
                low, high = group.column.bounds
                found.append((group.start, group.column.name, high - low, low))
        places, names, scales, lows = zip(*found, strict=True) if found else ((),) * 4
        reference = {group.column.name: group.slots[0] for group in chosen if group.is_onehot}
        return cls(np.array(places), names, np.array(scales), np.array(lows), reference)

    def in_raw_units(self, found: Linear, bounds: tuple[float, float]) -> pa.Table:
        """`bounds` of the target, in whose units it was fitted."""
        low, high = bounds
        unit = (high - low) / np.concatenate([[1.0], self.scales])

        def raw(b: Any) -> Any:
            slopes = b[1:] * unit[1:]
            return np.concatenate([[low + (high - low) * b[0] - slopes @ self.lows], slopes])

        return pa.table(
            {
                "term": ["(intercept)", *self.names],
                "coefficient": raw(found.coefficients),
                "low": [None, *(found.low * unit)[1:].tolist()],  # where all columns are 0 is often nowhere
                "high": [None, *(found.high * unit)[1:].tolist()],
                "as_released": raw(found.naive),
            }
        )


@asks(RegressAsked)
def regress(releases: Releases, target: str, options: RegressAsked) -> Regression:
    """A linear model between plain columns, from noisy ones: the known noise is taken out of both sides.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Of one space. Each part's noise is read from its own card.
    target : str
        A released number.
    {options}

    Returns
    -------
    Regression
        `coefficients` (an Arrow table in raw units), `about` and `warnings`; `save(folder)` writes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 30, 40, 50, 60] * 400, "income": [25, 33, 41, 52, 60] * 400}
    >>> release = sf.sanitize(people, mechanism="additive-noise", parameters={"scale": 0.2}, seed=1)
    >>> found = sf.regress(release, "income").coefficients.to_pylist()[1]
    >>> found["as_released"] < 0.7, 0.7 < found["coefficient"] < 1.1
    (True, True)
    """
    columns, confidence, seed = options.columns, options.confidence, options.seed
    if not 0 < confidence < 1:
        raise UsageError(f"The 'confidence' parameter must lie between 0 and 1. Got {confidence} instead.")
    releases = pooled(releases, public=True)
    if releases[0].card.target == target:
        return regress_target(releases, target, columns, confidence, seed)
    groups = {group.column.name: group for group in releases[0].card.source_encoding().groups}
    if target not in groups:
        raise UsageError(f"The release has no column {target!r}. It has: {', '.join(groups)}.")
    goal = groups[target]
    if goal.is_onehot or goal.is_constant:
        raise UsageError(f"Column {target!r} is no number that varies. For classes use `sfumato train`.")
    terms = Terms.of(_chosen(groups, target, columns))
    parts = [unbiased(part) for release in releases for part in parts_of(release)]
    found = fit_linear(parts, terms.places, goal.start, confidence=confidence, seed=seed)
    low, high = goal.column.bounds
    about = _about(found, releases, target, confidence, terms)
    about["as_released"] = {}
    if all(release.card.is_columnwise for release in releases):
        Z = np.concatenate([release.Z for release in releases])
        about["as_released"] = errors_of(Z[:, terms.places], Z[:, goal.start], high - low, seed)
    about["warnings"] = _warnings(found, releases)
    return Regression(terms.in_raw_units(found, (low, high)), about)


def regress_target(
    releases: Sequence[Release], target: str, columns: Sequence[str], confidence: float, seed: int
) -> Regression:
    """A linear model of a number that was released as it is, by columns that were not.

    By the source's columns, where these can be told; behind a key, by the components as they are released.
    """
    recipe = releases[0].card.made_by()
    terms, own_space = _explaining(recipe, target, columns)
    values = np.concatenate([release.target for release in releases])
    bounds = float(values.min()), float(values.max())
    if bounds[0] == bounds[1]:
        raise UsageError(f"{target!r} is the same in every row, so that there is nothing to predict.")
    Z = np.concatenate([release.Z for release in releases])
    explaining = terms.places if recipe.is_columnwise or own_space else np.arange(Z.shape[1])
    told: dict[str, Any] = {"exact_target": True, "own_space": own_space}
    told["as_released"] = errors_of(Z[:, explaining], values, 1.0, seed)
    if _only_rotates(recipe):
        told["as_on_plain_rows"] = [name for name, one in REGRESSIONS.items() if one.when == "any centre"]
    parts = [part for release in releases for part in _beside_target(release, bounds, own_space)]
    try:
        found = fit_linear(parts, terms.places, parts[0].W.shape[1] - 1, confidence=confidence, seed=seed)
    except UsageError as error:  # learners that take released values as they are still have an answer
        if not told["as_released"]:
            raise
        rows, why = sum(len(release) for release in releases), _why_none(parts, error)
        told |= {"target": target, "rows": rows, "confidence": confidence, "explained": None, "warnings": [why]}
        return Regression(NO_TERMS, told)
    told |= _about(found, releases, target, confidence, terms) | {"warnings": _warnings(found, releases)}
    return Regression(terms.in_raw_units(found, bounds), told)


def _explaining(recipe: Recipe, target: str, columns: Sequence[str]) -> tuple[Terms, bool]:
    """The chosen columns of the source; or of the release, where the source's cannot be told from them, and that so."""
    affine, encoding, known = recipe.map.affine(), recipe.encoding, recipe.names()
    if affine is not None and np.linalg.matrix_rank(affine[0], tol=1e-9) >= encoding.width:
        return Terms.of(_chosen({group.column.name: group for group in encoding.groups}, target, columns)), False
    if unknown := [name for name in columns if name not in known]:
        raise UsageError(f"The release has no component {unknown[0]!r}. It has: {', '.join(known)}.")
    names = list(columns or known)
    places = np.array([known.index(name) for name in names])
    return Terms(places, names, np.ones(len(names)), np.zeros(len(names))), True


def _why_none(parts: Sequence[Unbiased], error: UsageError) -> str:
    """Why there is no linear model: the columns themselves, or what is left of them without the noise."""
    noisy = any(part.diagonal.any() or part.together.any() for part in parts)
    return f"No linear model with the noise taken out. {error}" if noisy else DEPENDENT


def _only_rotates(recipe: Recipe) -> bool:
    """Whether rows were rotated by a key, and nothing else was done to them."""
    exact = all(one.is_exact for one in recipe.channels)
    return exact and isinstance(recipe.map, Secret) and recipe.map.orthogonal


def _beside_target(release: Release, bounds: tuple[float, float], own_space: bool) -> list[Unbiased]:
    """What a release says of its columns, with the number to predict as one more column without noise."""
    low, high = bounds
    values, first, found = (release.target[file_order([release])] - low) / (high - low), 0, []
    for part in parts_of(release):
        one = unbiased(part, own_space=own_space)
        mine = values[first : first + len(part.Z)]
        first += len(part.Z)
        together = np.pad(one.together, ((0, 1), (0, 1)))
        exact = np.zeros((len(mine), 1))
        found.append(
            Unbiased(np.column_stack([one.W, mine]), np.column_stack([one.diagonal, exact]), together, one.onehot)
        )
    return found


def _about(found: Linear, releases: Sequence[Release], target: str, confidence: float, terms: Terms) -> dict[str, Any]:
    return {
        "target": target,
        "rows": sum(len(release) for release in releases),
        "confidence": confidence,
        "explained": found.explained,
        "firmness": float(min(found.firmness, 1e6)),
        "reference": dict(terms.reference),
    }


def _chosen(groups: dict[str, Group], target: str, columns: Sequence[str]) -> list[Group]:
    if unknown := [name for name in columns if name not in groups or name == target]:
        raise UsageError(f"Column {unknown[0]!r} cannot explain {target!r}: it is not there, or is the same.")
    wanted = [groups[name] for name in columns or groups if name != target]
    found = [group for group in wanted if group.is_onehot or not group.is_constant]
    if not found:
        raise UsageError("There is no other column to explain it with.")
    return found


def _warnings(found: Linear, releases: Sequence[Release]) -> list[str]:
    told = []
    if found.firmness < WEAK:
        told.append(
            f"Some direction of the columns is weakly known: what is left of its variance is {found.firmness:.1f} "
            f"standard errors, and below {WEAK:g} intervals can be too narrow. Use fewer columns or more rows."
        )
    if any(release.card.made_by().rows != "perturbed" for release in releases):
        told.append("Released rows were drawn, so several can come from one person: intervals are too narrow.")
    if releases[0].card.source_encoding().learned:
        told.append(
            "Bounds were learned from the table; cells outside them would have been clipped, which bends a line."
        )
    return told
