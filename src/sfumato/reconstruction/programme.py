"""The quadratic programme on the probability simplex, solved exactly [density-reconstruction, Eqs. 14-18].

    minimise ||G p - f||^2 + penalty ||G||^2 ||D p||^2   over p >= 0, sum p = 1,

D takes second differences, ||G|| is the largest singular value, so that the weight means the same on every scale. On
the simplex f = f 1'p, so both terms are ||M p||^2 with M = [G - f 1'; sqrt(penalty) ||G|| D]. Non-negative least
squares of [M; 1'] to the target [0; 1] finds s p with s = 1 / (1 + ||M p||^2): for every p on the simplex the best
s leaves ||M p||^2 / (1 + ||M p||^2), which grows with ||M p||^2; so normalising gives the optimum itself, for every
penalty. (In Eq. 16 the sum should be 1 / dx as in Eq. 14, if f_X is a density; here p are probabilities. In
Eq. 18 < is <=.)
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from sfumato.array_types import Floats
from sfumato.errors import SfumatoError, UsageError


class ConvergenceError(SfumatoError):
    """A programme that did not reach its optimum."""


def second_differences(count: int) -> Floats:
    """(count - 2) x count; none where there are fewer than three cells."""
    return np.asarray(np.diff(np.eye(count), 2, axis=0)) if count > 2 else np.zeros((0, count))


def _roughness(count: int, points: int) -> Floats:
    """D of the cells; point masses have no neighbours."""
    return np.hstack([second_differences(count - points), np.zeros((max(0, count - points - 2), points))])


def optimality_residual(G: Floats, f: Floats, p: Floats, penalty: float = 0.0, points: int = 0) -> float:
    """How far p is from fulfilling [density-reconstruction, Eq. 18], with <= for its <; 0 at the optimum.

    At the optimum the cost has one and the same derivative, the least of all, at every cell with probability. The
    residual is by how much it exceeds the least one at such a cell, at most, over the largest part of the derivative.
    """
    size = float(np.linalg.norm(G, 2)) or 1.0
    rough = _roughness(G.shape[1], points)
    fitted, seen = G.T @ (G @ p) / size**2, G.T @ f / size**2
    slope = fitted - seen + penalty * (rough.T @ (rough @ p))
    scale = float(max(np.abs(fitted).max(), np.abs(seen).max())) or 1.0
    return float(slope[p > 0].max() - slope.min()) / scale


def simplex_program(G: Floats, f: Floats, penalty: float = 0.0, points: int = 0) -> Floats:
    """The p on the simplex that minimises ||G p - f||^2 + penalty ||G||^2 ||D p||^2.

    The last `points` columns of G are point masses, which have no neighbours: D leaves them out.
    """
    if not (np.isfinite(penalty) and penalty >= 0):
        raise UsageError(f"The 'penalty' parameter must be a number of at least 0, or auto. Got {penalty!r} instead.")
    if not (np.isfinite(G).all() and np.isfinite(f).all()):
        raise ConvergenceError(
            "The programme holds infinite densities: the operator has turning points. Use rule='cells' instead."
        )
    size = float(np.sqrt(np.linalg.eigvalsh(G.T @ G)[-1]))
    if not size > 0:
        raise ConvergenceError("No value in the range can have produced the released values: nothing can be estimated.")
    count, rough = G.shape[1], _roughness(G.shape[1], points)
    M = np.vstack([(G - f[:, None]) / size, np.sqrt(penalty) * rough, np.ones(count)])
    target = np.zeros((len(M), 1))
    target[-1] = 1.0
    # The triangle of a QR decomposition has the same norms and far fewer rows; its last column is the target.
    triangle: Floats = np.asarray(np.linalg.qr(np.hstack([M, target]), mode="r"))
    try:
        p, _ = nnls(triangle[:, :-1], triangle[:, -1], maxiter=max(1000, 30 * count))
    except RuntimeError as error:
        raise ConvergenceError(
            "The programme did not converge. Use fewer bins or a larger penalty, or expectation-maximization."
        ) from error
    total = float(p.sum())
    if not (np.isfinite(total) and total > 0):
        raise ConvergenceError("The programme has no solution: the released values do not fit the noise on the card.")
    return np.asarray(p / total)
