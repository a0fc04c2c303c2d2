"""Blind source separation: a mixture of independent columns is unmixed by independent component analysis (ICA)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values, promised
from sfumato.attacks.likelihood import covariance_of, into_domain
from sfumato.core.accepted import Flag, Whole
from sfumato.core.array_types import Matrix
from sfumato.mechanisms.parameters import parameter

FREQUENCIES = (0.3, 0.7, 1.2)
"""At which characteristic functions are compared, per standard deviation: bounded, so that tails do not decide."""
MIDDLE = 1.0
MATCHED_ROWS = 5_000
MATCHED_CELLS = 20_000_000
"""Rows used, and products of two axes over all of them."""


class Agreement(NamedTuple):
    """Coefficients of f(s) = sum a_i s_i + sum B_ij s_i s_j + sum C_ijk s_i s_j s_k, the agreement of two tables."""

    single: Matrix
    double: Matrix
    triple: Matrix

    def climb(self, signs: Matrix) -> tuple[float, Matrix]:
        """The top of the hill above these signs, one flip at a time, the best first; and its height."""
        signs = signs.copy()
        own = np.einsum("iii->i", self.triple)
        twice = np.einsum("iij->ij", self.triple)
        for _ in range(100 * len(signs)):  # every step climbs, so this many are never made
            pairs = np.einsum("ijk,k->ij", self.triple, signs) @ signs
            others = pairs - 2 * signs * (twice @ signs) + own  # sum over the pairs without the axis itself
            gain = -2 * signs * (self.single + 2 * (self.double @ signs) + 3 * others + own)
            best = int(gain.argmax())
            if gain[best] <= 1e-12:
                break
            signs[best] *= -1
        return self.height(signs), signs

    def height(self, signs: Matrix) -> float:
        """f(s)."""
        cubic = np.einsum("ijk,i,j,k", self.triple, signs, signs, signs, optimize=True)
        return float(self.single @ signs + signs @ self.double @ signs + cubic)


def matching_signs(
    first: Matrix, second: Matrix, weights: Matrix | None = None, restarts: int = 20, seed: int = 0
) -> Matrix:
    """The signs s for which the rows `first * s` are distributed most like the rows `second`; both standardised.

    Compared are joint characteristic functions of one, two and three axes: E sin(a u_i) cos(b u_j) changes sign with
    s_i, E sin(a u_i) sin(b u_j) with s_i s_j and E sin(u_i) sin(u_j) sin(u_k) with s_i s_j s_k, so that the squared
    distance between both tables is least where f(s) of `Agreement` is greatest. f is climbed from the signs that the
    single axes suggest and from `restarts` random ones; a step costs O(d^3). `weights` say how sure each axis is.
    A distribution that a flip does not change (a normal law) has no sign to be found.
    """
    agreement = agreement_of(first, second, np.ones(first.shape[1]) if weights is None else weights)
    rng = np.random.default_rng(seed)
    starts = [np.where(agreement.single < 0, -1.0, 1.0)]
    starts += [rng.choice([-1.0, 1.0], size=first.shape[1]) for _ in range(restarts)]
    return max((agreement.climb(start) for start in starts), key=lambda found: found[0])[1]


def agreement_of(first: Matrix, second: Matrix, weights: Matrix) -> Agreement:
    """Products of both tables' characteristic functions, by the signs that they change with."""
    one, two = (_functions(U) for U in (first, second))
    d = first.shape[1]
    single = (one[0] * two[0]).sum(axis=0) + np.einsum("aibj,j->i", one[1] * two[1], weights)
    double = np.einsum("aibj->ij", one[2] * two[2]) + np.einsum("ijk,i->jk", one[4] * two[4], weights)
    double = double * np.outer(weights, weights)
    double[np.arange(d), np.arange(d)] = 0.0  # s_i^2 = 1
    cube = weights[:, None, None] * weights[:, None] * weights
    return Agreement(single * weights, double, one[3] * two[3] * cube)


def _functions(U: Matrix) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
    """Means of sin; sin cos; sin sin (at all pairs of frequencies); sin sin sin; cos sin sin (at the middle one)."""
    n, d = min(len(U), MATCHED_ROWS, max(MATCHED_CELLS // U.shape[1] ** 2, 100)), U.shape[1]
    U = U[np.linspace(0, len(U) - 1, n).round().astype(int)]
    count = len(FREQUENCIES)
    odd = np.hstack([np.sin(frequency * U) for frequency in FREQUENCIES])
    even = np.hstack([np.cos(frequency * U) for frequency in FREQUENCIES])
    middle = np.sin(MIDDLE * U)
    pairs = (middle[:, :, None] * middle[:, None, :]).reshape(n, -1)
    return (
        odd.mean(axis=0).reshape(count, d),
        (odd.T @ even / n).reshape(count, d, count, d),
        (odd.T @ odd / n).reshape(count, d, count, d),
        (middle.T @ pairs / n).reshape(d, d, d),
        (np.cos(MIDDLE * U).T @ pairs / n).reshape(d, d, d),
    )


# Independent component analysis by fixed-point iteration [Hyvarinen 1999], given up where it gets no further.
SETTLED = 1e-6
"""Largest 1 - |cosine| between a component and its successor at which a run counts as settled."""
PATIENCE = 50
"""Rounds without getting nearer to settling (by a tenth) after which a run is given up: on normal columns it would
wander about for ever. A small table costs nothing, and gets all its rounds."""
SMALL = 20_000
"""Cells of a small table."""


def _logcosh(S: Matrix) -> tuple[Matrix, Matrix]:
    G = np.tanh(S)
    return G, 1.0 - np.square(G).mean(axis=1)


def _exp(S: Matrix) -> tuple[Matrix, Matrix]:
    square = np.square(S)
    bell = np.exp(-0.5 * square)
    return S * bell, ((1.0 - square) * bell).mean(axis=1)


def _cube(S: Matrix) -> tuple[Matrix, Matrix]:
    square = np.square(S)
    return square * S, 3.0 * square.mean(axis=1)


CONTRASTS: dict[str, Callable[[Matrix], tuple[Matrix, Matrix]]] = {"logcosh": _logcosh, "exp": _exp, "cube": _cube}
"""Contrast -> derivative G' at every score, and the mean of its own derivative for every component."""


def unmixing_rotation(white: Matrix, contrast: str, start: Matrix, rounds: int) -> Matrix | None:
    """The rotation (components in rows) that unmixes white rows; None if the iteration does not settle.

    All components move at once: w <- E[x G'(w x)] - E[G''(w x)] w, then the rows are made orthonormal.
    """
    X, derivatives = np.ascontiguousarray(white.T), CONTRASTS[contrast]
    W, nearest, since = _orthonormal(start), np.inf, 0
    patience = rounds if white.size < SMALL else PATIENCE
    for _ in range(rounds):
        G, slope = derivatives(W @ X)
        after = _orthonormal(G @ X.T / X.shape[1] - slope[:, None] * W)
        if not np.isfinite(after).all():
            return None
        left = float(np.max(np.abs(np.abs(np.einsum("ij,ij->i", after, W)) - 1.0)))
        W = after
        if left < SETTLED:
            return W
        nearest, since = (left, 0) if left < 0.9 * nearest else (nearest, since + 1)
        if since == patience:
            return None
    return None


def _orthonormal(W: Matrix) -> Matrix:
    """(W W')^(-1/2) W."""
    values, vectors = np.linalg.eigh(W @ W.T)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-300))) @ vectors.T @ W)


# A rotation undone by a sample of like people: principal axes are matched [Liu, Giannella & Kargupta 2006].
NOTHING_MIXED = "every column of the release is a column of the source: there is no mixing to undo"


class Axes(NamedTuple):
    """Mean, variances along the principal axes (largest first) and the axes themselves (columns)."""

    mean: Matrix
    variances: Matrix
    vectors: Matrix


class EigenAlignment(Attack):
    """The adversary holds a sample of like people, none of whom need be in the table, and no row's image.

    A rotation turns the principal axes of the data with it. He takes the axes of his sample (eigenvectors V of its
    covariance) and of the release (W, after taking off the noise he knows of), pairs them by the order of their
    variances, and is left with one sign per axis, which the shape of the distribution decides: see `matching_signs`.
    The rotation is then R = W S V'. A score along an axis counts for as much as the axis is sure (`axis_certainty`)
    and free of noise, which makes the guess a linear estimate.

    Axes whose variances are nearly equal cannot be told apart, and a map that changes lengths (a random projection)
    changes the axes' order: there the attack is weak, which is not the same as the release being safe. A release with
    fewer columns is taken to hold the first axes. `restarts` and `seed` are those of the search for signs,
    which has `most_axes` axes at most, those that vary most.
    """

    name = "eigen-alignment"
    knows = frozenset({"release", "sample"})
    helps = frozenset({"noise_covariance"})
    restarts: int = parameter(Whole(1, 1_000), "Starts of the search for signs.", default=20)
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the search for signs.", default=0)
    most_axes: int = parameter(Whole(1, 1_000), "Axes that are signed.", default=100)

    def guess(self, known: Knowledge) -> Guess:
        sample, s = promised(known.sample), known.release.shape[1]
        if known.columnwise:
            return Abstain(NOTHING_MIXED)
        if len(sample) < 3 or len(known.release) < 3:
            return Abstain("needs at least three rows of the release and of a sample")
        covariance = np.zeros((s, s)) if known.noise_covariance is None else known.noise_covariance
        noise = np.nan_to_num(covariance, posinf=1e6)
        out, here = axes_of(known.release, noise), axes_of(sample)
        count = min(s, sample.shape[1], self.most_axes)
        if here.variances[0] <= 0 or out.variances[0] <= 0:
            return Abstain("the release, or the sample, does not vary beyond the noise")
        sure = axis_certainty(here.variances, len(known.release), len(sample))[:count]
        scores = standardised(known.release, out, count), standardised(sample, here, count)
        signs = matching_signs(*scores, sure, self.restarts, self.seed)
        along = out.vectors[:, :count]
        kept = here.variances[:count].clip(min=0.0)
        noisy = np.einsum("ij,ik,kj->j", along, noise, along)
        share = kept / np.where(kept + noisy > 0, kept + noisy, 1.0)
        X = here.mean + (known.release - out.mean) @ along * (signs * sure * share) @ here.vectors[:, :count].T
        details = {"sample_rows": float(len(sample)), "mean_axis_certainty": float(sure.mean())}
        return Values(into_domain(X), details=details)


def axes_of(X: Matrix, noise: Matrix | float = 0.0) -> Axes:
    """Principal axes of the rows, or of what is left of them without noise of this covariance."""
    values, vectors = np.linalg.eigh(covariance_of(X) - noise)
    return Axes(X.mean(axis=0), values[::-1], vectors[:, ::-1])


def standardised(X: Matrix, axes: Axes, count: int) -> Matrix:
    """Scores along the first axes, each over its deviation; an axis along which nothing varies gives zeros."""
    scores = (X - axes.mean) @ axes.vectors[:, :count]
    spread = scores.std(axis=0)
    varies = axes.variances[:count] > 1e-10 * max(float(axes.variances[0]), 1e-300)
    return np.asarray(np.where(varies, scores / np.where(spread > 0, spread, 1.0), 0.0))


def axis_certainty(variances: Matrix, rows: int, sample: int) -> Matrix:
    """Cosine to expect between the same principal axis of two tables of one population, per axis, in (0, 1].

    Sampling turns axis i towards axis j by an angle of variance l_i l_j / (l_i - l_j)^2 per row and table, to first
    order: axes of nearly equal variance are as good as random.
    """
    size = np.maximum(variances, 1e-9 * max(float(variances[0]), 1e-300))
    gaps = (size[:, None] - size) ** 2
    np.fill_diagonal(gaps, np.inf)
    turned = size[:, None] * size / np.maximum(gaps, 1e-12 * size[0] ** 2) * (1 / rows + 1 / sample)
    return np.asarray(1.0 / np.sqrt(1.0 + turned.sum(axis=1)))


MOST_ROWS, MOST_CELLS = 5_000, 150_000
"""Of which the components are learned; they are then read off all rows."""
LEVELS = (np.arange(200) + 0.5) / 200
ALIKE = 0.95
"""Correlation at which two runs are said to have found the same component."""


class Unmixed(NamedTuple):
    """Components of unit variance (n x r); for each of the r how well another run agrees; runs that settled."""

    components: Matrix
    agreement: Matrix
    settled: int
    runs: int


class IndependentComponents(Attack):
    """The adversary takes the release for a mixture of independent columns and unmixes it.

    ICA [random-rotation, 4.4] gives components without order, sign or scale. He knows how each source column is
    distributed, and pairs components with columns by an exact assignment: the cost of a pair is the squared distance
    of their standardised quantile functions, for the better of both signs. A component then takes the column's mean
    and deviation; columns without a component are guessed by their mean.

    ICA finds local optima: `runs` starts and three contrasts are tried, and the settled run that fits the columns best
    is taken. Where no run settles, or no two runs find a common component (normal columns), it says that ICA did not
    converge, which is no privacy: another start, or another attack, may still succeed. (On a small table of normal
    columns the runs may also agree on an accident of the sample; the guess is then wrong.) The release is put on its
    principal axes first, signed by their skewness, so that the result is the same for every rotation of the same rows.
    """

    name = "independent-components"
    published = MappingProxyType({"rescaled": False})
    knows = frozenset({"release", "column_moments", "column_distributions"})
    runs: int = parameter(Whole(1, 100), "Starts that are tried.", default=6)
    iterations: int = parameter(Whole(1, 10_000), "Of one run at most.", default=200)
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the starts.", default=0)
    rescaled: bool = parameter(
        Flag(),
        "Whether components take the columns' deviations, and guesses are clipped to the domain; false as published.",
        default=True,
    )

    def guess(self, known: Knowledge) -> Guess:
        if known.columnwise:
            return Abstain(NOTHING_MIXED)
        mean, covariance = promised(known.column_moments)
        deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        columns = column_quantiles(promised(known.column_distributions), mean, deviation)
        found = self.unmix(known.release, columns)
        if isinstance(found, Abstain):
            return found
        costs, signs = matching_costs(found.components, columns)
        which, column = linear_sum_assignment(costs)
        X = np.tile(mean, (len(known.release), 1))
        scale = deviation[column] if self.rescaled else 1.0
        X[:, column] += found.components[:, which] * signs[which, column] * scale
        details = {
            "converged_runs": float(found.settled),
            "runs": float(found.runs),
            "stable_components": float(np.mean(found.agreement > ALIKE)),
        }
        return Values(into_domain(X) if self.rescaled else X, details=details)

    def unmix(self, Z: Matrix, columns: Matrix | None = None) -> Unmixed | Abstain:
        """The components of the best settled run: the one nearest to the columns' quantiles, else the first."""
        white = canonical_scores(Z)
        rank = white.shape[1]
        if rank == 0:
            return Abstain("the release does not vary")
        if len(Z) <= 2 * rank:
            return Abstain(f"ICA needs more than {len(Z)} rows for {rank} components")
        if rank == 1:
            return Unmixed(white, np.ones(1), 1, 1)
        settled = self._settled(white)
        if not settled:
            return Abstain("ICA did not converge in any run, which says nothing about privacy")
        # For each component of one run the largest correlation with a component of any other run.
        agreement = []
        for W in settled:
            others = [np.abs(W @ other.T).max(axis=1) for other in settled if other is not W]
            agreement.append(np.max(others, axis=0) if others else np.zeros(len(W)))
        if max(float(shares.max()) for shares in agreement) <= ALIKE:
            return Abstain(
                f"ICA did not converge: no two of {self.runs} runs found a common component, which says nothing about "
                "privacy"
            )
        fits = list[float]()
        for W in settled if columns is not None else ():
            costs, _ = matching_costs(white @ W.T, promised(columns))
            fits.append(float(costs[linear_sum_assignment(costs)].sum()))
        best = int(np.argmin(fits)) if fits else 0
        return Unmixed(white @ settled[best].T, agreement[best], len(settled), self.runs)

    def _settled(self, white: Matrix) -> list[Matrix]:
        """The rotations of the runs that settled, on as many rows as are needed."""
        rank = white.shape[1]
        most = min(len(white), MOST_ROWS, max(MOST_CELLS // rank, 20 * rank))
        rows = white[np.linspace(0, len(white) - 1, most).round().astype(int)]
        rng = np.random.default_rng(self.seed)
        settled: list[Matrix] = []
        for tried in range(self.runs):
            if tried == len(CONTRASTS) and not settled:  # no contrast finds anything: further starts would not either
                break
            start = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
            found = unmixing_rotation(rows, list(CONTRASTS)[tried % len(CONTRASTS)], start, self.iterations)
            if found is not None:
                settled.append(found)
        return settled


def canonical_scores(Z: Matrix) -> Matrix:
    """Uncorrelated scores of variance 1 along the axes that vary, each signed so that its skewness is positive."""
    axes = axes_of(Z)
    keep = axes.variances > 1e-9 * max(float(axes.variances[0]), 1e-12)
    scores = (Z - axes.mean) @ axes.vectors[:, keep]
    scores = scores / np.where(scores.std(axis=0) > 0, scores.std(axis=0), 1.0)
    return np.asarray(scores * np.where((scores**3).sum(axis=0) < 0, -1.0, 1.0))


def column_quantiles(distributions: tuple[Matrix, ...], mean: Matrix, deviation: Matrix) -> Matrix:
    """Standardised quantile function of every column (d x levels); NaN for a constant one."""
    raw = np.array([np.quantile(values, LEVELS) for values in distributions])
    spread = np.where(deviation > 1e-12, deviation, np.nan)
    return np.asarray((raw - mean[:, None]) / spread[:, None])


def matching_costs(components: Matrix, columns: Matrix) -> tuple[Matrix, Matrix]:
    """Squared distance of quantile functions for the better sign, and that sign (both components x columns)."""
    own = np.quantile(components, LEVELS, axis=0).T
    same = ((own[:, None] - columns[None]) ** 2).mean(axis=2)
    turned = ((-own[:, None, ::-1] - columns[None]) ** 2).mean(axis=2)
    costs = np.minimum(same, turned)
    return np.where(np.isnan(costs), 1e3, costs), np.where(turned < same, -1.0, 1.0)
