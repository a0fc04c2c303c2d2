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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.noise import Law, Normal, Uniform
from sfumato.noise.law import is_own, own_law
from sfumato.noise.laws import Biweight, Epanechnikov, Triangular
from sfumato.table import Column
from sfumato.table.statistics import Statistics

# The kernels that rows may be drawn from: each is a density, so that Eq. 12 of [kernel-resampling] holds. A kernel of
# bandwidth h is a law of noise. h is half the width of a bounded kernel and the standard deviation of the Gaussian one.


class Kernel(NamedTuple):
    """`law` of a bandwidth; R(K), the integral of K^2, and mu_2(K), the variance, both at h = 1."""

    law: Callable[[float], Law]
    roughness: float
    variance: float
    bounded: bool = True


KERNELS: dict[str, Kernel] = {
    "epanechnikov": Kernel(Epanechnikov, 3 / 5, 1 / 5),
    "gaussian": Kernel(Normal, 1 / (2 * math.sqrt(math.pi)), 1.0, bounded=False),
    "uniform": Kernel(lambda h: Uniform(low=-h, high=h), 1 / 2, 1 / 3),
    "triangular": Kernel(Triangular, 2 / 3, 1 / 6),
    "biweight": Kernel(Biweight, 5 / 7, 1 / 7),
}


def kernel_named(name: str) -> Kernel:
    """One of `KERNELS`, or a law of one's own as a text (``cosine(scale=1)``, ``table(-1: 0, 0: 1, 1: 0)``).

    h of such a one is how far it reaches, or its standard deviation where it has no end. R(K) is the mean of its own
    density, by its quantiles.
    """
    if isinstance(name, str) and name in KERNELS:
        return KERNELS[name]
    if not is_own(name):
        raise UsageError(
            f"The 'kernel' parameter of kernel-resampling must be one of {', '.join(KERNELS)}, or a law as a text: a "
            f"distribution of scipy.stats as in cosine(scale=1), or table(-1: 0, 0: 1, 1: 0). Got {name!r} instead."
        )
    return _own_kernel(name)


@lru_cache(maxsize=64)
def _own_kernel(name: str) -> Kernel:
    law = own_law(name)
    spread = math.sqrt(law.variance)
    if not math.isfinite(spread) or abs(law.mean) > 1e-6 * spread:
        raise UsageError(f"A kernel has a finite variance and the mean 0: {name[:60]!r} has not. Shift it by its loc.")
    reach = max(-law.support[0], law.support[1])
    unit = law.scaled(1.0 / (reach if math.isfinite(reach) else spread))
    quantiles = unit.ppf((np.arange(20_000) + 0.5) / 20_000)
    roughness = float(unit.pdf(quantiles).mean())
    return Kernel(unit.scaled, roughness, unit.variance, bounded=math.isfinite(reach))


def equal_smoothing(kernel: str, columns: int) -> float:
    """By how much a kernel must be wider than a Gaussian one to smooth as much in d columns: of the Epanechnikov kernel
    (25 (6 sqrt(pi) / 5)^d)^(1/(d+4)), 2.214 for one column, 2.181 for four, 2.127 in the limit."""
    shape, normal = kernel_named(kernel), KERNELS["gaussian"]
    # by logarithms: a wide table would overflow the power
    rough = columns * math.log(shape.roughness / normal.roughness)
    return math.exp((rough - 2 * math.log(shape.variance)) / (columns + 4))


def as_spread_as_published(kernel: str) -> float:
    """h of a kernel that has the standard deviation of an Epanechnikov kernel of h = 1."""
    return math.sqrt(KERNELS["epanechnikov"].variance / kernel_named(kernel).variance)


# A bandwidth that is a matrix H: noise B u with B B' = H, which follows the columns' correlations.
#
# H = h^2 S, with S the covariance of the class's rows and h the factor of a rule [kernel-resampling, Eq. 16, with a
# matrix in the place of its diagonal]. Every column is blurred as much as by the diagonal rule. What differs is which
# differences between columns are blurred: the diagonal drowns those in which the class hardly varies, the matrix blurs
# every direction by the same share of how much the class varies in it.


LEAST_SHARE = 1e-3
"""No direction of the standardised columns has a smaller variance, so that no combination of columns is released
unchanged: not where one follows from others, nor where a class has fewer rows than columns."""


def correlated_root(covariance: Matrix, sigma: Floats) -> Matrix:
    """B of one bandwidth: diag(sigma) R^(1/2), R the correlations; rows have the length sigma_i.

    The root of the correlations, not of the covariance: it does not depend on the columns' units.
    """
    correlations = covariance / np.outer(sigma, sigma)
    values, vectors = np.linalg.eigh((correlations + correlations.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, LEAST_SHARE))) @ vectors.T
    return np.asarray(sigma[:, None] * root / np.linalg.norm(root, axis=1, keepdims=True))


def is_matrix(given: Any) -> bool:
    """Whether H itself was given: a list of lists."""
    if isinstance(given, np.ndarray):
        return given.ndim == 2
    listed = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    return listed and all(isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) for row in given)


def _given_root(given: Any, columns: int) -> Matrix:
    """B of a matrix H that was given, in shares of the columns' ranges: its symmetric root."""
    try:
        H = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        H = np.zeros(0)
    if H.shape != (columns, columns):
        wrong = f"there are {columns} numeric columns, and the matrix does not have as many rows and columns"
    elif not np.isfinite(H).all() or not np.allclose(H, H.T, rtol=1e-9, atol=0.0):
        wrong = "it holds something that is no finite number, or is not symmetric"
    else:
        values, vectors = np.linalg.eigh((H + H.T) / 2)
        if values[0] > 1e-12 * values[-1]:
            return np.asarray((vectors * np.sqrt(values)) @ vectors.T)
        wrong = "some direction of it has no positive variance, so that combinations of columns stay unchanged"
    raise UsageError(
        f"The 'bandwidth' parameter of kernel-resampling, given as a matrix, must be the covariance H of the kernel's "
        f"argument in shares of the columns' ranges. Here {wrong}."
    )


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


# A bandwidth by leave-one-out likelihood: how probable is each row under the kernels of the others?
#
# h_i = c h_i(Eq. 16), and c is what makes the mean of log f_{-j}(x_j) largest, with
#
#     f_{-j}(x) = 1/(n-1) sum over k != j of prod_i K((x_i - x_ki) / h_i) / h_i.
#
# With a matrix in the place of the h_i, rows are whitened by it first. K is Gaussian here whichever kernel is drawn
# from, and the result is carried over to it: under a bounded kernel a row that lies apart has likelihood 0 for every h
# that is of use. Of a large class a sample is enough: c is chosen for the sample's size, and Eq. 16 says how h falls
# with the number of rows.


CONSTANTS: Matrix = np.geomspace(0.05, 4.0, 41)
MOST_ROWS = 1500
"""Rows of a class that are held against each other: pairs grow with the square."""


class RowSample(Statistics):
    """Rows of every class, no more than `MOST_ROWS`: those with the lowest hash, so that blocks add up in any order."""

    def __init__(self, rows: Mapping[int, Matrix], width: int):
        super().__init__({}, width)
        self.rows = {code: _lowest(some) for code, some in rows.items()}

    @classmethod
    def among(cls, X: Matrix, codes: Codes) -> RowSample:
        """A sample of one block."""
        return cls({int(code): X[codes == code] for code in np.unique(codes)}, X.shape[1])

    def __add__(self, other: Statistics) -> RowSample:
        assert isinstance(other, RowSample)
        both = {code: [one.rows[code] for one in (self, other) if code in one.rows] for code in self.rows | other.rows}
        return RowSample({code: np.vstack(parts) for code, parts in both.items()}, self.width)


def _lowest(rows: Matrix) -> Matrix:
    mixed = np.full(len(rows), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in np.ascontiguousarray(rows.T):
        mixed = (mixed ^ (column + 0.0).view(np.uint64)) * np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
    return rows[np.argsort(mixed, kind="stable")[:MOST_ROWS]]


def best_constant(rows: Matrix | None, sigma: Matrix, block: Codes | None = None, root: Matrix | None = None) -> float:
    """c of the highest mean log-likelihood; 1, as in Eq. 16, where no two rows can be compared.

    `root`: B of the columns `block` that share noise; its rows are as long as their `sigma`.
    """
    if rows is None or len(rows) < 2 or not (sigma > 0).any():
        return 1.0
    if block is not None and root is not None:
        rows, sigma = rows.copy(), sigma.copy()
        rows[:, block] = np.linalg.solve(root, rows[:, block].T).T
        sigma[block] = 1.0
    return float(CONSTANTS[int(np.argmax(log_likelihoods(rows, sigma).mean(axis=0)))])


def log_likelihoods(rows: Matrix, sigma: Matrix) -> Matrix:
    """log f_{-j}(x_j) of every row for every one of `CONSTANTS`, up to what no bandwidth changes.

    `sigma` is 0 where a column is not smoothed.
    """
    scaled = rows[:, sigma > 0] / sigma[sigma > 0]
    squares = (scaled**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * scaled @ scaled.T, 0.0)
    np.fill_diagonal(distances, np.inf)
    columns = scaled.shape[1]
    width = reference_width(len(rows), columns)
    return np.column_stack(
        [logsumexp(-distances / (2 * (c * width) ** 2), axis=1) - columns * np.log(c * width) for c in CONSTANTS]
    )


# What the `bandwidth` parameter says: one choice for all columns, one for each, or either for each class.
#
# A choice is the name of a rule or h itself, as a share of the column's range.
#
#     "pooling"                                     a rule for all columns and classes
#     0.1                                           h for all columns
#     [0.1, 0.2, "scaled"]                          one for each numeric column, in the table's order
#     {age: 0.1, income: scaled}                    some columns; the others follow the default rule
#     {by_class: {ill: 0.2, well: {age: 0.1}}}      any of these for a class; others follow the default rule
#     [[0.01, 0.004], [0.004, 0.02]]                H itself, in shares of the columns' ranges (`bandwidth_matrix`)


Choice = str | float
GIVEN = "given matrix"
"""What a column has where H itself is given; it cannot be asked for by name."""
BY_CLASS = "by_class"


@dataclass(frozen=True)
class Bandwidths:
    """For every class code, the choice of every numeric column, and B where a matrix H was given."""

    choices: Mapping[int, Mapping[str, Choice]]
    roots: Mapping[int, Matrix]

    @classmethod
    def of(cls, bandwidth: Any, columns: Sequence[Column], classes: Mapping[int, str]) -> Bandwidths:
        """What the parameter says, and what columns of the schema say for themselves."""
        names, given = [column.name for column in columns], _by_class(bandwidth, classes)
        own = {one.name: one_choice(one.choices.bandwidth) for one in columns if one.choices.bandwidth is not None}
        found = {code: {**_of_columns(one, names), **own} for code, one in given.items()}
        roots = {code: _given_root(one, len(names)) for code, one in given.items() if is_matrix(one)}
        if roots and (unfit := [one.name for one in columns if one.missing or one.choices.bandwidth]):
            raise UsageError(
                f"Column {unfit[0]!r} may be missing or has a bandwidth of its own, so it cannot share noise by a "
                "given matrix. Use the rule 'matrix', which leaves such columns to themselves."
            )
        return cls(found, roots)

    def ask(self, rules: Sequence[str], code: int | None = None) -> bool:
        """Whether some column asks for one of these rules, in one class or in any."""
        some = self.choices.values() if code is None else [self.choices[code]]
        return any(choice in rules for one in some for choice in one.values())


def _by_class(bandwidth: Any, classes: Mapping[int, str]) -> dict[int, Any]:
    if not (isinstance(bandwidth, Mapping) and set(bandwidth) == {BY_CLASS}):
        return dict.fromkeys(classes, bandwidth)
    named = bandwidth[BY_CLASS]
    if not isinstance(named, Mapping):
        raise _wrong(f"{BY_CLASS} is followed by classes and their bandwidths")
    words = {str(name): one for name, one in named.items()}
    if strange := sorted(set(words) - set(classes.values())):
        raise _wrong(f"there is no class {strange[0]!r}; there are {', '.join(sorted(classes.values()))}")
    return {code: words.get(name, POOLING) for code, name in classes.items()}


def _of_columns(given: Any, columns: Sequence[str]) -> dict[str, Choice]:
    if is_matrix(given):
        return dict.fromkeys(columns, GIVEN)
    if isinstance(given, Mapping):
        if strange := [name for name in given if name not in columns]:
            raise _wrong(f"there is no numeric column {strange[0]!r}")
        chosen = {name: one_choice(given.get(name, POOLING)) for name in columns}
    elif isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        if len(given) != len(columns):
            raise _wrong(f"the list has {len(given)} entries for {len(columns)} numeric columns")
        chosen = dict(zip(columns, map(one_choice, given), strict=True))
    else:
        chosen = dict.fromkeys(columns, one_choice(given))
    if set(MATRICES).issubset(chosen.values()):
        raise _wrong(f"columns ask for {' and '.join(MATRICES)}, and a class has one matrix")
    return chosen


def one_choice(given: Any) -> Choice:
    if isinstance(given, str) and given in RULES:
        return given
    if isinstance(given, Real) and not isinstance(given, bool) and 0 < float(given) < np.inf:
        return float(given)
    raise _wrong(f"got {given!r}")


def _wrong(what: str) -> UsageError:
    return UsageError(
        f"The 'bandwidth' parameter of kernel-resampling must be {', '.join(RULES)} or a positive share of the "
        f"columns' range (0.1), for all columns, as a list, by column name or under {BY_CLASS}, or a matrix as a list "
        f"of lists. Here {what}."
    )
