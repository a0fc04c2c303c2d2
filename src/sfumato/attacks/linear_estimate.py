"""The best linear estimate: the Wiener filter."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from sfumato.attacks import likelihood
from sfumato.attacks.base import Abstain, Attack, Bounds, ColumnMoments, Guess, Knowledge, Values, promised
from sfumato.attacks.support import AS_GOOD, HERE, Support, best_window, half_width, patterns, reported_mean
from sfumato.core.accepted import Between, Either, Flag, Whole, Word
from sfumato.core.array_types import Codes, Matrix
from sfumato.mechanisms.parameters import parameter
from sfumato.table.neighbours.arrays import Arrays


class KnownTransform(Attack):
    """The adversary learned the transform (the basis, the projection matrix) and turns it back.

    Noise is ignored: x = m + A^+ (z - c - A m) for a release z ~ A x + c, the least squares solution nearest to the
    column means m where these are known, else to the middle of the unit cube corrected by the release's own mean. For a
    release of s principal components this is the reverse PCA of [principal-laplace, 6.3], "No-Filtering"; for a random
    projection it is the pseudo-inverse of [principal-laplace, 6.1.3].

    `clip=False` leaves the guess as it comes out, as published; an adversary who knows the domain clips to it.
    """

    name = "known-transform"
    published = MappingProxyType({"clip": False})
    reads_gaps = True
    knows = frozenset({"release", "transform"})
    helps = frozenset({"column_moments"})
    clip: bool = parameter(Flag(), "Whether guesses are clipped to the domain; false as published.", default=True)

    def guess(self, known: Knowledge) -> Values:
        X = likelihood.reversed_release(known)
        return Values(likelihood.into_domain(X) if self.clip else X)


class HardInterval(Attack):
    """The adversary knows which released row is a person's and how far the noise can reach, and rules values out.

    Uniform noise on [a, b] added to x confines it to [z - b, z - a]; a factor between 1 and 3 confines a positive x to
    [z / 3, z]. Near the ends of the range little is left, and the interval can collapse to a point. This needs no
    population and no probability: what is ruled out is ruled out. Unbounded noise, and categories behind randomized
    response, rule nothing out; a column without noise leaves nothing open.
    """

    name = "hard-interval"
    reads_gaps = True
    knows = frozenset({"release", "noise", "images", "secret"})

    def guess(self, known: Knowledge) -> Guess:
        secret, noise = promised(known.secret), promised(known.noise)
        if not known.columnwise:
            return Abstain("the release mixes columns: a component does not confine any single column")
        for place, channel in zip(noise.places, noise.channels, strict=True):
            if place == known.encoding.groups[secret].slice:
                low, high = channel.possible(known.release[promised(known.images), place])
                fits = (low <= 1.0) & (high >= 0.0)  # where nothing does the release was changed, and says nothing
                low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
                return Bounds(np.where(fits, low, 0.0), np.where(fits, high, 1.0), secret)
        return Abstain("the channel of this column covers other columns too")


class NaiveEstimate(Attack):
    """The adversary takes the release at face value: what is in a column is the person's value.

    A column-wise release is read as it is. A release that mixes columns is read as in [random-rotation]: release
    column j for source column j, stretched to that column's mean and standard deviation where they are known, else to
    [0, 1]; source columns beyond the last release column, and cells that are not reported, are guessed by their mean.
    """

    name = "naive-estimate"
    reads_gaps = True
    knows = frozenset({"release"})
    helps = frozenset({"column_moments"})

    def guess(self, known: Knowledge) -> Values:
        moments, usual = known.column_moments, reported_mean(known.release)
        if moments is not None and known.columnwise:
            usual = moments.mean
        Z = np.where(np.isnan(known.release), usual, known.release)
        if known.columnwise:
            return Values(likelihood.into_domain(Z))
        X = np.full((len(Z), known.encoding.width), 0.5)
        Z = Z[:, : X.shape[1]]
        s = Z.shape[1]
        if moments is None:
            low, high = Z.min(axis=0), Z.max(axis=0)
            X[:, :s] = (Z - low) / np.where(high > low, high - low, 1.0)
        else:
            X[:], spread = moments.mean, Z.std(axis=0)
            scores = (Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
            X[:, :s] = moments.mean[:s] + scores * np.sqrt(np.diag(moments.covariance)[:s])
        return Values(likelihood.into_domain(X))


class LinearEstimate(Attack):
    """The adversary knows the transform and how strong the noise is, and weighs what he sees against what is usual.

    Linear minimum mean square error: x = mu + S A' (A S A' + N)^-1 (z - A mu - c) with the mean mu and covariance S of
    the source columns, the transform A, c and the noise covariance N. No linear estimate has a smaller mean square
    error, so none of the filters does. Where the distribution of a number is known as well, the guess that is scored is
    the window with most mass, given the estimate as if its error were normal. `moments="known"` takes mu and S from
    what is known of the columns and, where nothing is, from the release; `moments="release"` always from the release:
    S = A^+ (cov(Z) - N) A^+', negative eigenvalues set to 0.
    """

    name = "linear-estimate"
    reads_gaps = True
    knows = frozenset({"release", "transform", "noise_covariance"})
    helps = frozenset({"noise", "column_moments", "column_distributions"})
    moments: Literal["known", "release"] = parameter(
        Word(("known", "release")), "Where mean and covariance come from.", default="known"
    )

    def guess(self, known: Knowledge) -> Values:
        moments = known.column_moments if self.moments == "known" else None
        model, mean = likelihood.observed_with_mean(known, self.moments == "known")
        if moments is None:
            signal = model.inverse @ (likelihood.covariance_of(known.release) - model.noise) @ model.inverse.T
            values, vectors = np.linalg.eigh((signal + signal.T) / 2)  # negative eigenvalues are noise
            moments = ColumnMoments(mean, (vectors * np.maximum(values, 0.0)) @ vectors.T)
        X, told, variance = wiener(known.release, model, *moments)
        X = likelihood.into_domain(X)
        if known.column_distributions is None:
            return Values(X)
        return Values(X, aimed=_aimed(known, X, moments.mean, variance, told))


def _aimed(known: Knowledge, X: Matrix, mean: Matrix, variance: Matrix, told: Matrix) -> Matrix:
    """The guess that the score rewards, from the estimate of every number and the distribution of its column.

    Of the best linear estimate e of x, cov(e, x) = var(e), here `told`: e lies about mean + r (x - mean) with variance
    (1 - r) var(e), where r = var(e) / var(x). What is nearly exact stays as it is. `told` is by row: what is told of a
    number depends on which cells its row reports.
    """
    found, distributions = X.copy(), promised(known.column_distributions)
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
        support, values = Support.of_group(group), distributions[slot]
        places = support.places(np.column_stack([values, np.zeros(len(values))]))
        prior = np.bincount(places, minlength=support.numbers)[: support.numbers].astype(np.float64)
        estimate = X[rows, slot], reliable[rows], told[rows, slot]
        found[rows, slot] = _best_windows(support, prior, float(mean[slot]), half, *estimate)
    return found


def _best_windows(
    support: Support, prior: Matrix, mean: float, half: float, estimate: Matrix, reliable: Matrix, told: Matrix
) -> Matrix:
    """Of every row the window with most belief in a number; on a device, if there is one, all but close calls."""
    found, width = np.empty(len(estimate)), np.maximum(np.sqrt((1.0 - reliable) * told), 1e-6)

    def work(rows: Codes, arrays: Arrays, nearly: float = 2.0 * AS_GOOD) -> Any:
        xp, put = arrays.namespace, arrays.put
        here, shown, wide = (put(part[rows])[:, None] for part in (estimate, reliable, width))
        line, before = put(support.line)[None, :], put(prior)[None, :]
        away = (here - (mean + shown * (line - mean))) / wide
        log = xp.where(before > 0, -0.5 * away * away, -np.inf)
        belief = before * xp.exp(log - xp.amax(log, axis=1)[:, None])
        guess, _, clear = best_window(support.line, belief, half, support.extent, arrays, nearly)
        found[rows] = arrays.get(guess)
        return None if clear is None else arrays.get(clear)

    left = likelihood.left_by_device(len(found), 64 * len(prior), work)
    for block in likelihood.blocks(len(left), len(prior)):
        work(left[block], HERE, 0.0)
    return found


def wiener(Z: Matrix, model: likelihood.Observation, mean: Matrix, covariance: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Linear MMSE estimate of the rows behind Z, from the cells that each of them reports; its variances; the sources'.

    A speck is added to the source variances: without it, a direction in which the known moments do not vary (a category
    that the adversary's sample lacks) would be held at its mean even where the release shows it without any noise.
    """
    S = covariance + 1e-8 * max(float(np.trace(covariance)) / len(covariance), 1e-3) * np.eye(len(covariance))
    found, told = (np.empty((len(Z), len(mean))) for _ in range(2))
    for rows, columns in patterns(Z):
        A, offset, noise = model.of(columns)
        gain = np.linalg.lstsq(A @ S @ A.T + noise, A @ S, rcond=1e-13)[0]
        found[rows] = mean + (Z[np.ix_(rows, columns)] - offset - A @ mean) @ gain
        told[rows] = np.einsum("ij,ij->j", A @ S, gain)
    return found, told, np.diag(S)


# Filtering noise by correlation: keep the principal components in which the data live [HDC05].
class PrincipalFilter(Attack):
    """The adversary knows the transform and the strength of the noise, and that data are correlated while noise is not.

    He turns the transform back, takes the principal components of what he gets and keeps p of them, hoping that the
    data are in these and the noise is in all ([HDC05]; [principal-laplace, 6.1.3 and 6.3]).

    `components="best"` is the paper's attack: p is the number for which the result comes closest to the original,
    which needs the truth. All p are returned as candidates, the score takes the best and is an upper bound. The
    adversary's own choice is their first guess, and `components="own"` returns nothing else: components of cov(R) - N
    (R the reversed release, N the noise carried back) whose variance exceeds the noise's in the same direction, since
    keeping any other adds more noise than data. A whole number keeps that many.

    `clip=False` leaves the guess as it comes out, as published; an adversary who knows the domain clips to it.
    """

    name = "principal-filter"
    published = MappingProxyType({"clip": False})
    knows = frozenset({"release", "transform", "noise_covariance"})
    helps = frozenset({"noise", "column_moments"})
    components: Literal["best", "own"] | int = parameter(
        Either((Word(("best", "own")), Whole(1, 100_000))),
        "Components that are kept: the best number, the choice of the adversary, or this many.",
        default="best",
    )
    most_candidates: int = parameter(Whole(1, 1_000), "Numbers that are tried for the best.", default=20)
    clip: bool = parameter(Flag(), "Whether guesses are clipped to the domain; false as published.", default=True)

    def guess(self, known: Knowledge) -> Values:
        model, mean = likelihood.observed_with_mean(known)
        R = model.reverse(known.release, mean)
        centre = R.mean(axis=0)

        def clipped(X: Matrix) -> Matrix:
            return likelihood.into_domain(X) if self.clip else X.copy()

        noise = model.inverse @ model.noise @ model.inverse.T
        signal, vectors = np.linalg.eigh(likelihood.covariance_of(R) - noise)
        own = vectors[:, signal > np.einsum("ij,ik,kj->j", vectors, noise, vectors)]
        filtered = clipped(centre + (R - centre) @ own @ own.T)
        if self.components == "own":
            return Values(filtered)
        # As published: the components of the release itself, from the largest variance down.
        vectors = np.linalg.eigh(likelihood.covariance_of(R))[1][:, ::-1]
        scores = (R - centre) @ vectors
        if self.components != "best":
            p = int(self.components)
            return Values(clipped(centre + scores[:, :p] @ vectors[:, :p].T))
        rank = int(np.linalg.matrix_rank(model.matrix))
        counts = np.unique(np.linspace(1, rank, min(rank, self.most_candidates)).astype(int))

        def projected(rows: Codes | slice) -> Iterator[Matrix]:
            """The first p components for every p of `counts`: each adds to the one before."""
            X, done = np.tile(centre, (len(scores[rows]), 1)), 0
            for p in counts:
                X += scores[rows, done:p] @ vectors[:, done:p].T
                done = p
                yield clipped(X)

        return Values(filtered, projected if len(counts) else None)


class SpectralFilter(Attack):
    """The adversary knows how large the eigenvalues of pure noise can be, and keeps every direction that exceeds them.

    In the release's own space, after whitening by the known noise covariance, n rows of s columns of pure noise have
    eigenvalues up to the Marchenko-Pastur edge (1 + sqrt(s/n))^2 (Kargupta et al.). Directions above it are kept, the
    others are set to the mean; then the transform is turned back.

    `log=True` is for multiplicative noise z = x e on positive data: the same on logarithms, with `noise_covariance`
    that of log e and `noise_mean` the mean of log e. It abstains where a released value is not positive.
    """

    name = "spectral-filter"
    knows = frozenset({"release", "transform", "noise_covariance"})
    helps = frozenset({"noise", "column_moments"})
    log: bool = parameter(
        Flag(), "Whether to work on logarithms, for multiplicative noise on positive values.", default=False
    )
    noise_mean: float = parameter(Between(-1e6, 1e6), "Mean of the logarithm of that noise.", default=0.0)

    def guess(self, known: Knowledge) -> Guess:
        model, mean = likelihood.observed_with_mean(known)
        if not self.log:
            return Values(likelihood.into_domain(model.reverse(above_edge(known.release, model.noise), mean)))
        if np.any(known.release <= 0):
            return Abstain("logarithms need a release with positive values only")
        cleaned = np.exp(above_edge(np.log(known.release), model.noise) - self.noise_mean)
        return Values(likelihood.into_domain(model.reverse(cleaned, mean)))


def marchenko_pastur_edge(rows: int, columns: int) -> float:
    """Largest eigenvalue of the sample covariance of white noise of variance 1, as rows and columns grow."""
    return float((1.0 + np.sqrt(columns / max(rows, 1))) ** 2)


def above_edge(Z: Matrix, noise: Matrix) -> Matrix:
    """Z with every direction set to its mean in which it varies no more than noise of this covariance could.

    A speck of variance is added to the noise, so that an exact column is whitened to an enormous one and kept.
    """
    values, vectors = np.linalg.eigh(noise)
    deviations = np.sqrt(np.maximum(values, 0.0) + 1e-12)
    centre = Z.mean(axis=0)
    white = (Z - centre) @ vectors / deviations
    strength, directions = np.linalg.eigh(likelihood.covariance_of(white))
    signal = directions[:, strength > marchenko_pastur_edge(*Z.shape)]
    return np.asarray(centre + (white @ signal @ signal.T * deviations) @ vectors.T)
