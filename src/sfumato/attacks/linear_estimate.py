"""The best linear estimate: the Wiener filter."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from sfumato.attacks.base import Attack, ColumnMoments, Knowledge, Values
from sfumato.attacks.gaps import patterns
from sfumato.attacks.likelihood import blocks
from sfumato.attacks.observation import (
    Observation,
    covariance_of,
    into_domain,
    observed_with_mean,
    positive_part,
)
from sfumato.attacks.support import Support
from sfumato.attacks.window import AS_GOOD, best_window, device_window, half_width
from sfumato.core.accepted import Word
from sfumato.core.array_types import Codes, Matrix
from sfumato.table.neighbours.nearest import chosen, in_blocks


class LinearEstimate(Attack):
    """The adversary knows the transform and how strong the noise is, and weighs what he sees against what is usual.

    Linear minimum mean square error: x = mu + S A' (A S A' + N)^-1 (z - A mu - c) with the mean mu and covariance S of
    the source columns, the transform A, c and the noise covariance N. No linear estimate has a smaller mean square
    error, so none of the filters does. Where the distribution of a number is known as well, the guess that is scored is
    the window with most mass, given the estimate as if its error were normal. `moments="known"` takes mu and S from
    what is known of the columns and, where nothing is, from the release; `moments="release"` always from the release:
    S = A^+ (cov(Z) - N) A^+', negative eigenvalues set to 0.

    Parameters
    ----------
    moments : {"known", "release"}, default="known"
        Where mean and covariance come from.
    """

    name = "linear-estimate"
    reads_gaps = True
    knows = frozenset({"release", "transform", "noise_covariance"})
    helps = frozenset({"noise", "column_moments", "column_distributions"})
    accepts = MappingProxyType({"moments": Word(("known", "release"))})

    def __init__(self, moments: Literal["known", "release"] = "known") -> None:
        self.moments = moments

    def guess(self, known: Knowledge) -> Values:
        """Weigh every release row against the mean."""
        model, (mean, covariance) = self._model(known)
        X = into_domain(wiener(known.release, model, mean, covariance))
        if known.column_distributions is None:
            return Values(X)
        S, told = covariance + _speck(covariance) * np.eye(len(covariance)), np.empty_like(X)
        for rows, columns in patterns(known.release):
            A, _, noise = model.of(columns)
            told[rows] = np.einsum("ij,ij->j", A @ S, _gain(A, S, noise))
        return Values(X, aimed=_aimed(known, X, mean, np.diag(S), told))

    def _model(self, known: Knowledge) -> tuple[Observation, ColumnMoments]:
        use_moments = self.moments == "known"
        model, mean = observed_with_mean(known, use_moments)
        if use_moments and known.column_moments is not None:
            return model, known.column_moments
        signal = covariance_of(known.release) - model.noise
        return model, ColumnMoments(mean, positive_part(model.inverse @ signal @ model.inverse.T))


def _aimed(known: Knowledge, X: Matrix, mean: Matrix, variance: Matrix, told: Matrix) -> Matrix:
    """The guess that the score rewards, from the estimate of every number and the distribution of its column.

    Of the best linear estimate e of x, cov(e, x) = var(e), here `told`: e lies about mean + r (x - mean) with variance
    (1 - r) var(e), where r = var(e) / var(x). What is nearly exact stays as it is. `told` is by row: what is told of a
    number depends on which cells its row reports.
    """
    assert known.column_distributions is not None
    found = X.copy()
    for group in known.encoding.groups:
        slot = group.start
        if group.is_onehot:
            continue
        reliable = np.minimum(told[:, slot] / variance[slot], 1.0)
        half = half_width(group, known.tolerance)
        # What is nearly exact is right most of the time.
        rows = np.flatnonzero(np.sqrt(np.maximum(1.0 - reliable, 0.0) * variance[slot]) >= half / 2.0)
        if not len(rows):
            continue
        support, values = Support.of_group(group), known.column_distributions[slot]
        places = support.places(np.column_stack([values, np.zeros(len(values))]))
        prior = np.bincount(places, minlength=support.numbers)[: support.numbers]
        kernel = _Kernel(support, prior, float(mean[slot]), half)
        found[rows, slot] = kernel.guesses(X[rows, slot], reliable[rows], told[rows, slot])
    return found


@dataclass(frozen=True)
class _Kernel:
    """What is believed of a number beside its linear estimate, and the window with most of it."""

    support: Support
    prior: Codes
    mean: float
    half: float

    def guesses(self, estimate: Matrix, reliable: Matrix, told: Matrix) -> Matrix:
        """Of every row, by blocks; on a device where one is chosen, save for close calls."""
        found, left, device = np.empty(len(estimate)), np.arange(len(estimate)), chosen()
        width = np.maximum(np.sqrt((1.0 - reliable) * told), 1e-6)
        if device is not None:
            arrays, memory = device
            clear = np.zeros(len(estimate), dtype=bool)

            def work(block: slice, _: int) -> None:
                rows, shown, wide = (arrays.put(part[block])[:, None] for part in (estimate, reliable, width))
                belief = self.belief(rows, shown, wide, xp=arrays.namespace, put=arrays.put)
                ends = (self.half, self.support.extent, 2.0 * AS_GOOD)
                guess, _, sure = device_window(arrays, self.support.line, belief, *ends)
                found[block], clear[block] = arrays.get(guess), arrays.get(sure)

            in_blocks(arrays, len(found), 64 * len(self.prior), memory, work)
            left = np.flatnonzero(~clear)
        for block in blocks(len(left), len(self.prior)):
            rows = left[block]
            belief = self.belief(estimate[rows, None], reliable[rows, None], width[rows, None])
            found[rows] = best_window(self.support.line, belief, self.half, self.support.extent).guess
        return found

    def belief(self, estimate: Any, reliable: Any, width: Any, xp: Any = np, put: Any = np.asarray) -> Any:
        """Rows x values, up to a factor per row."""
        line, prior = put(self.support.line)[None, :], put(self.prior.astype(np.float64))[None, :]
        away = (estimate - (self.mean + reliable * (line - self.mean))) / width
        log = xp.where(prior > 0, -0.5 * away * away, -np.inf)
        return prior * xp.exp(log - xp.amax(log, axis=1)[:, None])


def _speck(covariance: Matrix) -> float:
    """Added to the source variances: see `wiener`."""
    return 1e-8 * max(float(np.trace(covariance)) / len(covariance), 1e-3)


def _gain(A: Matrix, S: Matrix, noise: Matrix) -> Matrix:
    """(A S A' + N)^-1 A S."""
    return np.asarray(np.linalg.lstsq(A @ S @ A.T + noise, A @ S, rcond=1e-13)[0])


def wiener(Z: Matrix, model: Observation, mean: Matrix, covariance: Matrix) -> Matrix:
    """Linear MMSE estimate of the rows behind Z, from the cells that each of them reports.

    A speck is added to the source variances: without it, a direction in which the known moments do not vary (a category
    that the adversary's sample lacks) would be held at its mean even where the release shows it without any noise.
    """
    S = covariance + _speck(covariance) * np.eye(len(covariance))
    found = np.empty((len(Z), len(mean)))
    for rows, columns in patterns(Z):
        A, offset, noise = model.of(columns)
        found[rows] = mean + (Z[np.ix_(rows, columns)] - offset - A @ mean) @ _gain(A, S, noise)
    return found
