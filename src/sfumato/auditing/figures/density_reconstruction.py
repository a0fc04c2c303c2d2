"""density-reconstruction: a column blurred by multiplied or added noise, its distribution found again; its figures."""

from __future__ import annotations

from functools import cache

import numpy as np

from sfumato.attacks.metrics.information import calibrate, information_loss, privacy_loss
from sfumato.auditing.figures.item import Found, Name, item
from sfumato.auditing.figures.kernel_resampling import SEVEN
from sfumato.auditing.figures.sets import COUNTY, DataSet
from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import Bins, Method
from sfumato.reconstruction.expectation_maximization import ExpectationMaximization
from sfumato.reconstruction.parzen_program import ParzenProgram, leave_one_out_width
from sfumato.reconstruction.reconstruct import reconstruct

PRIVACY_LOSS = 0.330
"""P(X|Z) of Table 1 and Fig. 4, which the paper gets from factors uniform on [1, 3]."""
FACTORS = (1.0, 3.0)
TABLE_1 = {"Mul + PQP": 0.1174, "Add + PQP": 0.0957, "Add + EM": 0.1208}
"""Information loss, mean of 500 runs."""
BINS = 75
ROUNDS = 50
"""Of EM: the paper does not say where it stopped, and 50 come near on 75 cells."""
METHODS: dict[str, Method] = {
    "PQP": ParzenProgram.as_published(),
    "PQP, 0.01": ParzenProgram.as_published(1e-2),
    "PQP, ours": ParzenProgram(),
    "EM, 20": ExpectationMaximization(20),
    "EM, 50": ExpectationMaximization(50),
    "EM, 100": ExpectationMaximization(100),
    "EM, successive": ExpectationMaximization("successive"),
    "EM, discrepancy": ExpectationMaximization("discrepancy"),
    "EM, ours": ExpectationMaximization(),
    "EM, smoothed": ExpectationMaximization(smooth=True),
}
"""`ours` are the product's defaults: automatic penalty, and rounds of EM chosen by trial on simulated samples."""
WAYS = (("Mul + PQP", "Mul", "PQP"), ("Add + PQP", "Add", "PQP"), ("Add + EM", "Add", f"EM, {ROUNDS}"))
"""The paper's three: how it is called, the noise, the method."""
SETS = ("two-lumps", COUNTY)
LEVELS = (0.28, 0.33, 0.45, 0.6, 0.75, 0.9)
"""Privacy losses of Fig. 3. Uniform factors cannot go below .26 on two lumps."""


def factors(low: float = FACTORS[0], high: float = FACTORS[1]) -> OperatorNoise:
    """Factors, uniform."""
    return OperatorNoise(make_operator("multiplicative"), make_law("uniform", low=low, high=high))


def calibrated(x: Floats, wanted: float = PRIVACY_LOSS) -> dict[str, OperatorNoise]:
    """Factors around 2 and additive noise around 0, both uniform, with the same privacy loss (Eq. 19)."""
    added = OperatorNoise(make_operator("additive"), make_law("uniform", low=-x.std(), high=x.std()))
    return {"Mul": calibrate(factors(), x, wanted), "Add": calibrate(added, x, wanted)}


@cache
def _noises(data: DataSet, wanted: float) -> dict[str, OperatorNoise]:
    return calibrated(data.X[:, 0], wanted)


def _column(data: DataSet) -> Floats:
    """The first column, which must be one of different numbers."""
    x = np.asarray(data.X[:, 0], dtype=np.float64)
    if np.ptp(x) == 0 or any(slots.start == 0 for slots in data.onehot):
        raise UsageError("density-reconstruction takes the first column of a table: one of numbers that differ.")
    return x


def found_again(x: Floats, noise: OperatorNoise, z: Floats, method: Method, bins: int = BINS) -> Density:
    """One reconstruction over the range of the original values, as the paper's D_X, which knows no point masses."""
    support = float(x.min()), float(x.max())
    density = reconstruct(z, noise, support=support, method=method, bins=bins, atoms=False, resamples=0)
    assert isinstance(density, Density)
    return density


@item(axis="z", repeats=0)
def figure_1(data: DataSet, rng: np.random.Generator) -> Found:  # noqa: ARG001 - an illustration
    """The Parzen estimate of seven values at the leave-one-out width."""
    width = leave_one_out_width(Bins.over(-4.0, 4.0).of(SEVEN))
    found: dict[Name, float] = {"width, Eq. 5": float(width)}
    for z in np.linspace(-4.5, 4.5, 37):
        kernels = np.exp(-0.5 * ((z - SEVEN) / width) ** 2) / (width * np.sqrt(2 * np.pi))
        found["Parzen estimate", float(z)] = float(kernels.mean())
    return found


def _once(data: DataSet, wanted: float, rng: np.random.Generator, methods: tuple[tuple[str, str, str], ...]) -> Found:
    x, noises = _column(data), _noises(data, wanted)
    z = {name: noise.sample(x, rng) for name, noise in noises.items()}
    return {
        title: information_loss(x, found_again(x, noises[noise], z[noise], METHODS[method]))
        for title, noise, method in methods
    }


BESIDE = (("Mul + PQP, penalty 0.01", "Mul", "PQP, 0.01"), ("Add + PQP, penalty 0.01", "Add", "PQP, 0.01"))
MORE = (("Add + EM, 20 rounds", "Add", "EM, 20"), ("Add + EM, 100 rounds", "Add", "EM, 100"))


@item(SETS, printed={COUNTY: {**TABLE_1, "P(X|Z) of factors 1 to 3": PRIVACY_LOSS}}, repeats=5)
def table_1(data: DataSet, rng: np.random.Generator) -> Found:
    """Information loss at a privacy loss of .330, as published and by what the paper leaves open (first column)."""
    loss = privacy_loss(factors(), _column(data))
    return {"P(X|Z) of factors 1 to 3": loss, **_once(data, PRIVACY_LOSS, rng, (*WAYS, *BESIDE, *MORE))}


@item(SETS, axis="privacy loss", repeats=2)
def figure_3(data: DataSet, rng: np.random.Generator) -> Found:
    """Information loss against privacy loss (first column)."""
    return {(title, level): loss for level in LEVELS for title, loss in _once(data, level, rng, WAYS).items()}


@item(SETS, axis="value", repeats=1)
def figure_4(data: DataSet, rng: np.random.Generator) -> Found:
    """The original histogram and its reconstructions."""
    x, noises = _column(data), _noises(data, PRIVACY_LOSS)
    found: dict[Name, float] = {}
    for title, noise, method in WAYS:
        density = found_again(x, noises[noise], noises[noise].sample(x, rng), METHODS[method])
        places = density.cells.middles
        found |= {("original", float(at)): float(share) for at, share in zip(places, density.shares_of(x), strict=True)}
        found |= {(title, float(at)): float(share) for at, share in zip(places, density.mass, strict=True)}
    return found
