"""How wide a kernel should be: the normal reference rule, and rules that follow from it.

The mean integrated square error of a product kernel estimate in d columns is, to leading order,

    R(K)^d / (N h^d)  +  h^4 mu_2(K)^2 / 4 * (integral of the squared Laplacian of f),

least at h^(d+4) proportional to R(K)^d / mu_2(K)^2, with R(K) the integral of K^2 and mu_2(K) its variance. Eq. 16 of
[kernel-resampling] is that minimum for normal data and a *Gaussian* kernel (R = 1 / (2 sqrt(pi)), mu_2 = 1).

What is best for a density is not best for a classifier that learns from drawn rows: it gets the noise of all columns
at once. The default takes Eq. 16 for an Epanechnikov kernel, as the paper does, whose standard deviation is only
h / sqrt(5).
"""

from __future__ import annotations

import math

from sfumato.mechanisms.kernel_shapes import as_spread_as_published, equal_smoothing

POOLING, SCALED, PUBLISHED, LIKELIHOOD = "pooling", "scaled", "published", "likelihood"
MATRIX, MATRIX_LIKELIHOOD = "matrix", "matrix-likelihood"
"""As wide as by "pooling" and by "likelihood", with noise that is correlated as the class's columns are."""
RULES = (POOLING, SCALED, PUBLISHED, LIKELIHOOD, MATRIX, MATRIX_LIKELIHOOD)
MATRICES = (MATRIX, MATRIX_LIKELIHOOD)
CHOSEN_BY_LIKELIHOOD = (LIKELIHOOD, MATRIX_LIKELIHOOD)


def reference_width(rows: int, columns: int) -> float:
    """h_i / sigma_i of Eq. 16: (4 / (d + 2))^(1/(d+4)) N^(-1/(d+4))."""
    return float((4.0 / ((columns + 2) * rows)) ** (1.0 / (columns + 4)))


def rule_width(rule: str, kernel: str, rows: int, columns: int, constant: float = 1.0) -> float:
    """h_i / sigma_i by a rule. `constant` is what leave-one-out likelihood has chosen, in widths of Eq. 16."""
    width = reference_width(rows, columns)
    if rule in (POOLING, MATRIX):
        return width * as_spread_as_published(kernel)
    if rule == PUBLISHED:
        return width
    return width * equal_smoothing(kernel, columns) * (constant if rule in CHOSEN_BY_LIKELIHOOD else 1.0)


def category_mixing(rows: int, columns: int) -> float:
    """The share m of categories that are drawn anew, so that they lose as much correlation as numbers do.

    A Gaussian kernel of width h makes the variance of a number (1 + (h/sigma)^2) times what it was and takes its
    correlations down by the root of that. Drawing anew with probability m takes those of a category down by 1 - m.
    It falls like h^2 as N grows, which is the optimal rate for categories beside numbers [Li & Racine 2003].
    """
    return 1.0 - 1.0 / math.sqrt(1.0 + reference_width(rows, columns) ** 2)
