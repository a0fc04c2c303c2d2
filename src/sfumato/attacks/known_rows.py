"""Some original rows are known with their images: the hidden map is fitted to them and turned back for everybody."""

from __future__ import annotations

import numpy as np

from sfumato.attacks.base import Attack, ColumnMoments, Knowledge, Transform, Values, promised
from sfumato.attacks.likelihood import Observation, into_domain, observe, own_columns
from sfumato.attacks.linear_estimate import wiener
from sfumato.core.accepted import Either, Nothing, Whole
from sfumato.core.array_types import Matrix
from sfumato.mechanisms.parameters import parameter

EXACT = 1e-6
"""Relative difference of distances up to which a map counts as a rotation."""
ALIKE = 1.5
"""How many times longer one of two steps from the known rows to the mean may be, before and after the rotation, to be
taken for the same: the mean is that of a sample."""
UNEXPLAINED = 1.5
"""Mean square, over that of the noise, which the best rotation may leave of the images to be believed."""
TRUSTED = 0.8
"""How much of what the pairs say must be believed before they are fitted by a rotation in spite of noise."""
NAMED_COLUMNS = 0.01
"""Variance (per entry) of what a release with the source's own columns may do to them beside what is known."""


class KnownRows(Attack):
    """The adversary knows some people of the table, and which released rows are theirs.

    A map that keeps distances is fitted by orthogonal Procrustes: with Xc = P D Q' the centred known rows and Zc their
    centred images, the images of the directions Q are W = polar(Zc' P / D), and every released row z has
    Q'(x - mean) = W'(z - mean) exactly. d + 1 rows in general position determine everything. Fewer leave directions
    unseen. How the population lies (mean and covariance) tells one direction more; since it is known from a sample, it
    must not touch those that the pairs tell exactly. What is left is filled in by the best linear estimate.

    Any other map z = A x + c + noise is fitted by Bayesian regression: entries of A have the variance v at which
    known rows and their images are equally long on average (1/d for a rotation, 1/s for a projection), around 0, or
    around the identity where the release has the source's own columns. With noise of variance q, the entries of row i
    of A keep the covariance v (I + Xc'Xc v/q)^-1, and the linear estimate counts that doubt as further noise.
    Without noise this is minimum norm least squares.

    There too the mean of the columns is one pair more, with no more than d rows.
    `rows` uses only the first so many of the known ones; see `metrics.recovery_curve`.
    """

    name = "known-rows"
    knows = frozenset({"release", "known_rows"})
    helps = frozenset({"noise", "noise_covariance", "column_moments"})
    rows: int | None = parameter(
        Either((Whole(1, 1_000_000), Nothing())), "Known rows that are used; null for all of them.", default=None
    )

    def guess(self, known: Knowledge) -> Values:
        pairs = promised(known.known_rows)
        X, index = pairs.X[: self.rows], pairs.index[: self.rows]
        Z, d, s = known.release[index], known.encoding.width, known.release.shape[1]
        moments = known.column_moments or ColumnMoments(X.mean(axis=0), np.eye(d) / 12)  # a uniform law's variance
        # What is taken for granted of the map: the source's own columns, or nothing.
        usual = own_columns(known) if known.columnwise else Transform(np.zeros((s, d)), np.zeros(s))
        prior = observe(known, moments.mean, usual)
        if rotation_like(X, Z, prior.noise) and not known.columnwise:
            found = rotated_back(known.release, X, Z, moments, known.column_moments is not None)
        else:
            if len(X) <= d and known.column_moments is not None and not known.columnwise:
                X, Z = np.vstack([X, moments.mean]), np.vstack([Z, known.release.mean(axis=0)])
            found = regressed(known.release, X, Z, moments, prior, known.columnwise)
        found = into_domain(found)
        found[index] = pairs.X[: self.rows]
        return Values(found, details={"known_rows": float(len(index))})


def rotation_like(X: Matrix, Z: Matrix, noise: Matrix) -> bool:
    """Whether the known rows are as far from each other as their images; one row alone proves nothing against it."""
    if X.shape[1] != Z.shape[1] or noise.any():
        return False
    before, after = (np.sqrt(((rows[1:] - rows[0]) ** 2).sum(axis=1)) for rows in (X, Z))
    return bool(np.allclose(before, after, rtol=EXACT, atol=EXACT))


def rotated_back(release: Matrix, X: Matrix, Z: Matrix, moments: ColumnMoments, trusted: bool = True) -> Matrix:
    """Orthogonal Procrustes with translation; unseen directions by the linear estimate from the seen ones.

    `trusted`: the mean is really known, and what it shows beyond the pairs is used.
    """
    centre, image = X.mean(axis=0), Z.mean(axis=0)
    left, sizes, right = np.linalg.svd(X - centre, full_matrices=False)
    seen = sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-12)
    turned = (Z - image).T @ (left[:, seen] / sizes[seen])
    u, _, v = np.linalg.svd(turned, full_matrices=False)
    directions, images = right[seen], u @ v
    if trusted and len(directions) < X.shape[1]:
        found = _one_more(release - image, moments.mean - centre, moments.covariance, directions, images)
        directions, images = np.vstack([directions, found[0]]), np.column_stack([images, found[1]])
    if not len(directions):
        return np.broadcast_to(moments.mean, (len(release), X.shape[1])).copy()
    scores = (release - image) @ images
    if len(directions) == X.shape[1]:
        return np.asarray(centre + scores @ directions)
    model = Observation(directions, -directions @ centre, np.zeros((len(directions),) * 2))
    return wiener(scores, model, *moments)[0]


def _one_more(
    release: Matrix, mean: Matrix, covariance: Matrix, directions: Matrix, images: Matrix
) -> tuple[Matrix, Matrix]:
    """One direction beyond the seen ones, and its image; none (of no rows) where they cannot be told.

    The mean's step beyond what is seen is as long after the rotation as before. If a single direction is unseen it is
    known but for its sign, and how it varies with the seen ones tells that too: for the sign s, means a and s b and
    covariances c_j and s e_j with seen scores of variances v_j are likeliest where s (a b + sum_j c_j e_j / v_j) > 0.
    """
    unseen = mean - directions.T @ (directions @ mean)
    shown = release.mean(axis=0) - images @ (images.T @ release.mean(axis=0))
    before, after = float(np.linalg.norm(unseen)), float(np.linalg.norm(shown))
    d = len(mean)
    if len(directions) == d - 1:
        last, turned = np.linalg.svd(directions)[2][-1], np.linalg.svd(images.T)[2][-1]
        seen, alone = release @ images, release @ turned
        sizes = np.maximum(seen.var(axis=0), 1e-12)
        shared = (alone - alone.mean()) @ (seen - seen.mean(axis=0)) / len(release)
        sign = (last @ mean) * alone.mean() + float(((directions @ covariance @ last) * shared / sizes).sum())
        if sign:
            return last[None], np.sign(sign) * turned[:, None]
    elif min(before, after) > EXACT and max(before, after) < ALIKE * min(before, after):
        return unseen[None] / before, shown[:, None] / after
    return np.empty((0, d)), np.empty((len(images), 0))


def regressed(
    release: Matrix, X: Matrix, Z: Matrix, moments: ColumnMoments, prior: Observation, named: bool = False
) -> Matrix:
    """The linear estimate with the map that the pairs make likely; `named`: the release has the source's columns."""
    s, k = len(prior.offset), len(X)
    noise = np.diag(prior.noise).copy()
    centre, image = X.mean(axis=0), Z.mean(axis=0)
    left, sizes, right = np.linalg.svd(X - centre, full_matrices=False)
    # The v for which |A x|^2 is on average what the images show beyond their noise: v s |x|^2.
    usual = 1.0 / X.shape[1]
    before, after = float(((X - centre) ** 2).sum()), float(((Z - image) ** 2).sum()) - max(k - 1, 0) * noise.sum()
    known = before > 0 and after > 0
    variance = min(max(after / before / s, 0.1 * usual), 100 * usual) if known else usual
    residual = (Z - image) - (X - centre) @ prior.matrix.T
    if named:  # columns that the pairs show unchanged are not doubted
        variance = min(NAMED_COLUMNS, max(float((residual**2).mean() / max((X**2).mean(), 1e-12)), 1e-14))
    # Per component i and direction j: the share of what the pairs say that is believed. Nothing is said where D_j = 0.
    there = sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-12)
    squares = np.where(there, sizes**2, 0.0)
    believed = squares / np.where(there, squares + noise[:, None] / variance, 1.0)
    slopes = residual.T @ (left / np.where(there, sizes, 1.0))
    matrix = prior.matrix + (believed * slopes) @ right
    mean, covariance = moments
    spread = covariance + np.outer(mean - centre, mean - centre)
    along = np.einsum("ij,jk,ik->i", right, spread, right)
    doubt = variance * np.maximum(np.trace(spread) - believed @ along, 0.0)
    doubt[doubt < 1e-12 * variance] = 0.0
    rotation = None if named else _blurred_rotation(X - centre, Z - image, noise)
    if rotation is not None and believed.mean() > TRUSTED:
        matrix, doubt = rotation, doubt / 2  # an orthogonal matrix has about half as many free entries
    total = prior.noise * (1 + 1 / k) + np.diag(doubt)
    model = Observation(matrix, image - matrix @ centre, total)
    if not total.any() and np.linalg.matrix_rank(matrix, tol=1e-8) == s == X.shape[1]:
        return model.reverse(release, mean)
    return wiener(release, model, mean, covariance)[0]


def _blurred_rotation(X: Matrix, Z: Matrix, noise: Matrix) -> Matrix | None:
    """The rotation nearest to the pairs, if there are enough and it leaves no more than the noise unexplained."""
    if X.shape[1] != Z.shape[1] or len(X) <= X.shape[1] or not noise.any():
        return None
    u, _, v = np.linalg.svd(Z.T @ X)
    rotation = np.asarray(u @ v)
    left = float(((Z - X @ rotation.T) ** 2).mean())
    return rotation if left <= UNEXPLAINED * float(noise.mean()) else None
