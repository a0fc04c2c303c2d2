"""The paper's equations written out one by one, so that each of its errata can be put in and taken out.

The product's `ParzenProgram.as_published()` must give the same; it cannot be made to follow the errata, since it checks
every operator's derivative.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import OperatorNoise
from sfumato.reconstruction.evidence import Bins, Cells
from sfumato.reconstruction.parzen_program import leave_one_out_width, simplex_program

Floats = NDArray[np.float64]

Variant = Literal["right", "dE/dx", "Eq. 12", "Eq. 16", "Simpson"]


def parzen(z: Floats, at: Floats, width: float) -> Floats:
    """Eq. 2 at some points."""
    total = np.zeros(len(at))
    for start in range(0, len(z), 512):
        distance = (at[:, None] - z[None, start : start + 512]) / width
        total += np.exp(-0.5 * distance**2).sum(axis=1)
    return total / (len(z) * width * np.sqrt(2.0 * np.pi))


def density_matrix(noise: OperatorNoise, z: Floats, x: Floats, variant: Variant = "right") -> Floats:
    """Eq. 11 without its dx: f_E(E(x, z)) |dE/dz|, rows z, columns x; or with |dE/dx|, as Theorem 1 prints it."""
    found = noise.pdf(z[:, None], x[None, :])
    if variant == "dE/dx":
        inverse = noise.operator.branches[0].inverse
        step = 1e-4 * x[None, :]
        slope = (inverse(z[:, None], x[None, :] + step) - inverse(z[:, None], x[None, :] - step)) / (2.0 * step)
        right = np.abs(noise.operator.branches[0].derivative(z[:, None], x[None, :]))
        found = found / right * np.abs(slope)
    return found


def programme(
    noise: OperatorNoise,
    z: Floats,
    cells: Cells,
    points: int = 200,
    penalty: float = 0.0,
    variant: Variant = "right",
    width: float | None = None,
    at: Floats | None = None,
) -> Floats:
    """Probabilities of the cells of x from released values, by Eqs. 2, 5, 11 and 14-16; f_Z on evenly spread points.

    `at` are other points for f_Z. The paper's z_j could also be read as the released values themselves.

    In probabilities p = f_X dx, Eq. 8 is f_Z = G p / dx. Eq. 12 leaves out the dx in G, so f_Z meets G p / dx^2; with
    Eq. 16's sum of 1 in place of 1 / dx, f_Z meets G p. By Simpson's rule p = w f_X with weights w = dx (1, 4, 2, 4,
    ..., 1) / 3: the programme in p is the same, only what it says about f_X differs.
    """
    bins = Bins.over(float(z.min()), float(z.max())).of(z)
    if at is None:
        at = np.linspace(z.min(), z.max(), points)
    f = parzen(z, at, width or leave_one_out_width(bins))
    g = density_matrix(noise, at, cells.middles, variant)
    step = float(cells.widths[0])
    if variant == "Eq. 12":
        g = g / step
    elif variant == "Eq. 16":
        g = g * step
    p = simplex_program(g, f, penalty)
    if variant == "Simpson":
        weights = np.full(cells.count, 2.0 / 3.0)
        weights[1::2] = 4.0 / 3.0
        weights[[0, -1]] = 1.0 / 3.0
        p = p / weights
    return p


def direct_criterion(z: Floats, width: float) -> float:
    """Eq. 5 as the double sum that it is."""
    n, wide, pairs = len(z), 0.0, 0.0
    for start in range(0, n, 256):
        squared = (z[start : start + 256, None] - z[None, :]) ** 2
        wide += float(np.exp(-squared / (4.0 * width**2)).sum())
        pairs += float(np.exp(-squared / (2.0 * width**2)).sum())
    root = np.sqrt(2.0 * np.pi) * width
    return wide / (n**2 * np.sqrt(2.0) * root) - 2.0 * (pairs - n) / (n * (n - 1) * root)
