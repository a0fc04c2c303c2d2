"""How wide a kernel should be: the normal reference rule, for the kernel it was made for and for others.

The mean integrated square error of a product kernel estimate in d columns is, to leading order,

    R(K)^d / (N h^d)  +  h^4 mu_2(K)^2 / 4 * (integral of the squared Laplacian of f),

least at h^(d+4) proportional to R(K)^d / mu_2(K)^2, with R(K) the integral of K^2 and mu_2(K) its variance. Eq. 16 of
[kernel-resampling] is that minimum for normal data and a *Gaussian* kernel (R = 1 / (2 sqrt(pi)), mu_2 = 1). An
Epanechnikov kernel (R = 3/5, mu_2 = 1/5) of half-width h smooths as much at

    (25 (6 sqrt(pi) / 5)^d)^(1/(d+4))   times that: 2.214 for one column, 2.181 for four, 2.127 in the limit.
"""

from __future__ import annotations

import math

RULES = ("scaled", "published")


def reference_width(rows: int, columns: int) -> float:
    """h_i / sigma_i of Eq. 16: (4 / (d + 2))^(1/(d+4)) N^(-1/(d+4))."""
    return float((4.0 / ((columns + 2) * rows)) ** (1.0 / (columns + 4)))


def epanechnikov_factor(columns: int) -> float:
    """By how much an Epanechnikov kernel must be wider than a Gaussian one to smooth as much in d columns."""
    # by logarithms: a wide table would overflow the power
    return math.exp((math.log(25.0) + columns * math.log(1.2 * math.sqrt(math.pi))) / (columns + 4))


def category_mixing(rows: int, columns: int) -> float:
    """The share m of categories that are drawn anew, so that they lose as much correlation as numbers do.

    A Gaussian kernel of width h makes the variance of a number (1 + (h/sigma)^2) times what it was and takes its
    correlations down by the root of that. Drawing anew with probability m takes those of a category down by 1 - m.
    It falls like h^2 as N grows, which is the optimal rate for categories beside numbers [Li & Racine 2003].
    """
    return 1.0 - 1.0 / math.sqrt(1.0 + reference_width(rows, columns) ** 2)
