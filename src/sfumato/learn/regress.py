"""Releases in, a linear model between plain columns out: coefficients.csv, regression.json.

Least squares on noisy columns is biased towards 0. Here the noise is taken off the second moments first [Fuller 1987]:
b = (S_xx - N_xx)^-1 (S_xy - N_xy). Moments are sums over rows, so intervals are by the jackknife over groups of rows,
which allows for everything that is estimated, the noise of factors and answers too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy import stats
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from sfumato.channels import Channel, NotApplicableError, Recipe, Secret, apart
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import CardError, UsageError
from sfumato.learn.asked import RegressAsked
from sfumato.learn.classifiers.geometric import REGRESSIONS
from sfumato.learn.mining.seen import Mined, Part, Piece, file_order, parts_of, pieces_of, pooled
from sfumato.release.release import Release, Releases
from sfumato.table import Group


# Released entries made unbiased, and what noise adds to their products.
#
# w has E[w | x] = x in the encoding of plain rows, and `extra` is an unbiased estimate, row by row, of what noise adds
# to the square: E[w^2 - extra | x] = x^2. It is the noise's variance where noise is added. Where Var(w | x) is
# a + b x + c x^2, it is (a + b w + c w^2) / (1 + c), since E[w^2 | x] has that variance in it too. Where (z - o) =
# f (x - o), it is (w - o)^2 r / (1 + r) with r = Var f / (E f)^2. A one-hot entry is its own square, so extra =
# w^2 - w, and products of two slots of one column are 0. Noise of different columns is independent and adds nothing to
# their products, unless they share it (`channels.mixed`): then its covariance is taken off.
@dataclass(frozen=True, eq=False)
class Unbiased:
    """Encoded source columns: entries w (n x d, NaN where not reported), and `products` (d x d, or n x d on the
    diagonal): what is to be taken off w w'."""

    W: Matrix
    diagonal: Matrix
    together: Matrix
    """Constant, d x d: of maps that mix columns, whose noise is mixed with them. 0 elsewhere."""
    onehot: tuple[slice, ...]


def unbiased(part: Part, *, own_space: bool = False) -> Unbiased:
    """Of one part; refused where a card does not say enough. `own_space`: components stay as they are."""
    recipe = part.recipe
    pieces = pieces_of(recipe, part.channels)
    W, extra = np.empty_like(part.Z), np.zeros_like(part.Z)
    for piece in pieces:
        if piece.is_category:
            _answers(piece, part.Z, W, extra)
        elif piece.group is not None and piece.group.has_indicator:
            raise UsageError(
                f"Not applicable: cells of column {piece.name!r} can be missing, and a linear model of numbers that "
                "may be missing is not defined for everybody."
            )
        else:
            _numbers(piece, part.Z, W, extra)
    none = np.zeros((W.shape[1],) * 2)
    if recipe.is_columnwise:
        shared, onehot = apart(part.channels), tuple(piece.place for piece in pieces if piece.is_category)
        return Unbiased(W, extra, none if shared is None else shared.between(W.shape[1]), onehot)
    if own_space:
        return Unbiased(W, extra, none, ())
    if (affine := recipe.map.affine()) is None:
        raise CardError(
            "Not applicable: the map of the release is a secret key, so no source column can be told from it."
        )
    matrix, offset = affine
    if np.linalg.matrix_rank(matrix, tol=1e-9) < matrix.shape[1]:
        raise CardError(
            f"Not applicable: the release keeps {len(matrix)} components of {matrix.shape[1]} encoded columns, so what "
            "source columns do is not all in it. Release with all components, or with a method that keeps columns."
        )
    back, noise = np.linalg.pinv(matrix), np.diag(extra.mean(axis=0))
    plain = (W - offset) @ back.T
    onehot = () if noise.any() else tuple(group.slice for group in recipe.encoding.groups if group.is_onehot)
    return Unbiased(plain, np.zeros_like(plain), np.asarray(back @ noise @ back.T), onehot)


def _numbers(piece: Piece, Z: Matrix, W: Matrix, extra: Matrix) -> None:
    channel: Channel = piece.channel
    try:
        slope, offset = channel.mean_line()
    except NotApplicableError as error:
        raise CardError(f"Not applicable: column {piece.name!r} was {error}.") from None
    (base, tilt, bend), factor = channel.variance_curve, channel.factor
    if not math.isfinite(base) or (factor is not None and not math.isfinite(factor.variance)):
        raise CardError(f"Not applicable: the noise of column {piece.name!r} has no variance that could be taken out.")
    w = W[:, piece.place] = (Z[:, piece.place] - offset) / slope
    if factor is None:
        bend /= slope**2
        extra[:, piece.place] = (base / slope**2 + tilt / slope**2 * w + bend * w**2) / (1.0 + bend)
    else:
        relative = factor.variance / factor.mean**2
        extra[:, piece.place] = (w - factor.origin) ** 2 * relative / (1.0 + relative)


def _answers(piece: Piece, Z: Matrix, W: Matrix, extra: Matrix) -> None:
    slots = piece.place.stop - piece.place.start
    keep = piece.channel.kept
    other = (1.0 - keep) / max(1, slots - 1)
    if slots > 1 and abs(keep - other) < 1e-9:
        raise UsageError(f"The answers of column {piece.name!r} tell nothing of the truth. Leave it out.")
    w = (Z[:, piece.place] - other) / (keep - other) if slots > 1 else Z[:, piece.place]
    W[:, piece.place], extra[:, piece.place] = w, w**2 - w


GROUPS = 100
ROWS_A_COLUMN = 10
WEAK = 3.0
"""A direction whose plain variance is below so many standard errors is weakly known."""
ROUNDING = 1e-12
"""A direction whose variance is less than this part of the largest is there by rounding alone."""


@dataclass(frozen=True, eq=False)
class Linear:
    """y = intercept + x coefficients, in encoded units; the first entry is the intercept."""

    coefficients: Floats
    errors: Floats
    low: Floats
    high: Floats
    naive: Floats
    """Least squares on the released values as they are."""
    explained: float
    """The share of the plain target's variance that plain columns explain."""
    firmness: float
    """The least plain variance of any direction of the columns, in standard errors of it."""


def fit_linear(
    parts: Sequence[Unbiased], columns: Codes, target: int, *, confidence: float = 0.95, seed: int = 0
) -> Linear:
    """Of encoded columns; `columns` are those of the matrix that explain."""
    rows = sum(len(part.W) for part in parts)
    used = np.append(columns, target)
    if rows < ROWS_A_COLUMN * len(used):
        raise UsageError(
            f"{rows:,} released rows are too few for {len(columns)} columns: {ROWS_A_COLUMN} a column are needed."
        )
    groups = min(GROUPS, rows // 5)
    dealt = np.random.default_rng(seed).permutation(rows) % groups
    sums, counts, noise = _moments(parts, used, dealt, groups)
    total, rows_of_both = sums.sum(axis=0), counts.sum(axis=0)
    b, covariance, explained = _solve(total, rows_of_both)
    again, spreads, _ = zip(
        *(_solve(total - s, rows_of_both - c) for s, c in zip(sums, counts, strict=True)), strict=True
    )
    spread, direction = np.linalg.eigh(covariance)
    if spread[0] <= 0:
        raise UsageError(
            "The noise is too strong for these columns: taken out, it leaves no variance in some direction of them, so "
            "their coefficients cannot be told. Use fewer columns, more rows or weaker noise."
        )
    least = np.array([direction[:, 0] @ one @ direction[:, 0] for one in spreads])
    scatter = float(np.sqrt((groups - 1) * least.var()))
    errors = np.sqrt((groups - 1) * np.array(again).var(axis=0))
    half = float(stats.t.ppf(0.5 + confidence / 2, groups - 1)) * errors
    naive, _, _ = _solve(total + noise, rows_of_both)
    firmness = float(spread[0]) / scatter if scatter > 0 else np.inf
    return Linear(b, errors, b - half, b + half, naive, explained, firmness)


def _moments(parts: Sequence[Unbiased], used: Codes, dealt: Codes, groups: int) -> tuple[Matrix, Matrix, Matrix]:
    """Sums of plain (1, x, y) (1, x, y)' by group of rows, of rows that report both, how many these are, and all that
    was taken off."""
    size = len(used) + 1
    sums, counts = np.zeros((groups, size, size)), np.zeros((groups, size, size))
    removed, first = np.zeros((size, size)), 0
    for part in parts:
        W, extra = part.W[:, used], part.diagonal[:, used]
        there = ~np.isnan(W)
        known = np.column_stack([np.ones(len(W)), np.where(there, W, 0.0)])
        reported = np.column_stack([np.ones(len(W)), there]).astype(np.float64)
        # Different slots of one column, whose product is 0 for everybody.
        column = -1 - np.arange(part.W.shape[1])
        for number, place in enumerate(part.onehot):
            column[place] = number
        own = np.append(-len(column) - 1, column[used])
        exclusive = (own[:, None] == own[None]) & ~np.eye(len(own), dtype=bool)
        mine = dealt[first : first + len(W)]
        first += len(W)
        for group in range(groups):
            rows = mine == group
            both = reported[rows].T @ reported[rows]
            seen = known[rows].T @ known[rows]
            plain = np.where(exclusive, 0.0, seen)
            plain[1:, 1:] -= np.diag(np.where(there[rows], extra[rows], 0.0).sum(axis=0))
            plain[1:, 1:] -= part.together[np.ix_(used, used)] * both[1:, 1:]
            sums[group] += plain
            counts[group] += both
            removed += seen - plain
    return sums, counts, removed


def _solve(sums: Matrix, counts: Matrix) -> tuple[Floats, Matrix, float]:
    """Coefficients, covariance of what explains, and the share of the variance that it does."""
    if not (counts > 0).all():
        raise UsageError("Not applicable: no row reports two of the columns together.")
    moments = sums / counts
    mean = moments[0, 1:]
    covariance = moments[1:, 1:] - np.outer(mean, mean)
    inside, cross, total = covariance[:-1, :-1], covariance[:-1, -1], covariance[-1, -1]
    if np.linalg.matrix_rank(inside, tol=ROUNDING * np.abs(inside).max(), hermitian=True) < len(inside):
        raise UsageError("Some columns are a sum of others: leave one of them out.")
    slopes = np.linalg.solve(inside, cross)
    intercept = mean[-1] - mean[:-1] @ slopes
    explained = float(np.clip(cross @ slopes / total, 0.0, 1.0)) if total > 0 else float("nan")
    return np.concatenate([[intercept], slopes]), inside, explained


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
        answers = cross_val_predict(regression.make(), X, y, cv=PredefinedSplit(fold))
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
    confidence, seed = options.confidence, options.seed
    if not 0 < confidence < 1:
        raise UsageError(f"The 'confidence' parameter must lie between 0 and 1. Got {confidence} instead.")
    releases = pooled(releases, public=True)
    if releases[0].card.target == target:
        return regress_target(releases, target, options)
    groups = {group.column.name: group for group in releases[0].card.source_encoding().groups}
    if target not in groups:
        raise UsageError(f"The release has no column {target!r}. It has: {', '.join(groups)}.")
    goal = groups[target]
    if goal.is_onehot or goal.is_constant:
        raise UsageError(f"Column {target!r} is no number that varies. For classes use `sfumato train`.")
    terms = Terms.of(_chosen(groups, target, options.columns))
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


def regress_target(releases: Sequence[Release], target: str, options: RegressAsked) -> Regression:
    """A linear model of a number that was released as it is, by columns that were not.

    By the source's columns, where these can be told; behind a key, by the components as they are released.
    """
    recipe, confidence, seed = releases[0].card.made_by(), options.confidence, options.seed
    terms, own_space = _explaining(recipe, target, options.columns)
    values = np.concatenate([release.target for release in releases])
    bounds = float(values.min()), float(values.max())
    if bounds[0] == bounds[1]:
        raise UsageError(f"{target!r} is the same in every row, so that there is nothing to predict.")
    Z = np.concatenate([release.Z for release in releases])
    explaining = terms.places if recipe.is_columnwise or own_space else np.arange(Z.shape[1])
    told: dict[str, Any] = {"exact_target": True, "own_space": own_space}
    told["as_released"] = errors_of(Z[:, explaining], values, 1.0, seed)
    if _only_rotates(recipe):
        told["as_on_plain_rows"] = [name for name, one in REGRESSIONS.items() if one.rotations.when == "any centre"]
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
        W, exact = np.column_stack([one.W, mine]), np.column_stack([one.diagonal, np.zeros(len(mine))])
        found.append(Unbiased(W, exact, np.pad(one.together, ((0, 1), (0, 1))), one.onehot))
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
