"""Table 1 and Figs 1, 3, 4: each function returns plain figures that `tables`, `claims` and `plots` read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from papers.data import DataMissingError, data_folder
from published import BINS, FACTORS, PRIVACY_LOSS

from sfumato.attacks.metrics.information import (
    calibrate,
    collapsed_share,
    half_distance,
    information_loss,
    posterior_interval,
    privacy_loss,
)
from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import Bins, Method
from sfumato.reconstruction.expectation_maximization import ExpectationMaximization
from sfumato.reconstruction.parzen_program import ParzenProgram, leave_one_out_width
from sfumato.reconstruction.reconstruct import reconstruct
from sfumato.table import open_table

Floats = NDArray[np.float64]

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
NOISES = ("Mul", "Add")
SIMULATED = "two lumps"


def original(data: str) -> Floats:
    """County incomes, or 3,000 values in two lumps (the paper does not say what Fig. 3 was drawn from)."""
    if data == SIMULATED:
        rng = np.random.default_rng(2007)
        return np.concatenate([rng.normal(20.0, 3.0, 1800), rng.normal(40.0, 5.0, 1200)]).clip(5.0, 60.0)
    path = data_folder() / f"{data}.csv"
    if not path.is_file():
        raise DataMissingError(f"{data}: there is no {path.name} in the data folder. Name one in SFUMATO_DATA.")
    return np.asarray(open_table(path, columns=["income"]).read()["income"].to_numpy(), dtype=np.float64)


def factors(low: float = FACTORS[0], high: float = FACTORS[1]) -> OperatorNoise:
    return OperatorNoise(make_operator("multiplicative"), make_law("uniform", low=low, high=high))


def noises(data: str, wanted: float = PRIVACY_LOSS) -> dict[str, OperatorNoise]:
    """Factors around 2 and additive noise around 0, both uniform, with the same privacy loss (Eq. 19)."""
    return _calibrated(data, wanted)


@cache
def _calibrated(data: str, wanted: float) -> dict[str, OperatorNoise]:
    x = original(data)
    added = OperatorNoise(make_operator("additive"), make_law("uniform", low=-x.std(), high=x.std()))
    return {"Mul": calibrate(factors(), x, wanted), "Add": calibrate(added, x, wanted)}


def found(x: Floats, noise: OperatorNoise, z: Floats, method: Method, bins: int = BINS) -> Density:
    """One reconstruction over the range of the original values, as the paper's D_X, which knows no point masses."""
    return reconstruct(z, noise, support=(x.min(), x.max()), method=method, bins=bins, atoms=False, resamples=0)


def losses(
    x: Floats, noise: OperatorNoise, methods: Mapping[str, Method], runs: int, bins: int = BINS
) -> dict[str, Any]:
    """Information loss (Eq. 20) of every method on the same released values, run by run, and what was chosen."""
    told: dict[str, Any] = {name: {"losses": [], "rounds": [], "widths": [], "penalties": []} for name in methods}
    for run in range(runs):
        z = noise.sample(x, np.random.default_rng(run))
        for name, method in methods.items():
            density = found(x, noise, z, method, bins)
            told[name]["losses"].append(information_loss(x, density))
            for key, about in (("rounds", "iterations"), ("widths", "width"), ("penalties", "penalty")):
                if about in density.about:
                    told[name][key].append(density.about[about])
    return {name: {"loss": mean_sd(one["losses"]), **_chosen(one)} for name, one in told.items()}


def mean_sd(values: Iterable[float]) -> list[float]:
    """Mean, standard deviation, least and largest."""
    array = np.array(list(values))
    return [float(array.mean()), float(array.std()), float(array.min()), float(array.max())]


def _chosen(told: Mapping[str, list[float]]) -> dict[str, list[float]]:
    return {key: mean_sd(told[key]) for key in ("rounds", "widths", "penalties") if told[key]}


def table_1(data: str, runs: int) -> dict[str, Any]:
    """All methods on both noises at the paper's privacy loss."""
    x = original(data)
    return {name: losses(x, noise, METHODS, runs) for name, noise in noises(data).items()}


def privacy(data: str) -> dict[str, Any]:
    """What the two noises hide: Eq. 19, hard intervals, and what an adversary with the distribution is left with."""
    x = original(data)
    told: dict[str, Any] = {
        "rows": len(x),
        "factors 1 to 3": privacy_loss(factors(), x),
        "factors 0 to 1": privacy_loss(factors(0.0, 1.0), x),
    }
    for name, noise in noises(data).items():
        z_variance = _released_variance(noise, x)
        slope = noise.slope
        told[name] = {
            "law": list(noise.law.support),
            "interval 95%": posterior_interval(noise, x, 0.95) / np.ptp(x),
            "interval 50%": posterior_interval(noise, x, 0.5) / np.ptp(x),
            "collapsed": collapsed_share(noise, x),
            "linear error": float(np.sqrt(1.0 - slope**2 * x.var() / z_variance)),
        }
    return told


def _released_variance(noise: OperatorNoise, x: Floats) -> float:
    variance = noise.law.variance
    if noise.operator.is_additive:
        return float(x.var() + variance)
    return float(noise.slope**2 * x.var() + variance * np.mean(x**2))


def figure_3(data: str, wanted: float, runs: int) -> dict[str, Any]:
    """Information loss at one privacy loss."""
    x = original(data)
    names = ("PQP", "PQP, 0.01", "PQP, ours", "EM, 20", "EM, 50", "EM, ours")
    methods = {name: METHODS[name] for name in names}
    return {name: losses(x, noise, methods, runs) for name, noise in noises(data, wanted).items()}


def figure_4(data: str) -> dict[str, Any]:
    """One run: the original histogram and its reconstructions, as published and ours."""
    x = original(data)
    told: dict[str, Any] = {}
    for name, noise in noises(data).items():
        z = noise.sample(x, np.random.default_rng(0))
        for method in ("PQP", "EM, 50", "PQP, ours", "EM, ours"):
            density = found(x, noise, z, METHODS[method])
            told[f"{name} + {method}"] = {"mass": list(density.mass), "loss": information_loss(x, density)}
            told |= {"edges": list(density.cells.edges), "original": list(density.shares_of(x))}
    return told


def figure_1(data: str) -> dict[str, Any]:  # noqa: ARG001 - the same illustration for every data set
    """Seven values, the leave-one-out width, and the Parzen estimate at that width, a third and three times it."""
    z = np.array([-2.1, -2.0, -1.6, 0.2, 2.0, 2.3, 2.5])
    width = leave_one_out_width(Bins.over(-4.0, 4.0).of(z))
    return {"values": list(z), "width": width}


def large(data: str, runs: int) -> dict[str, Any]:
    """3.3: a random subset (as the paper proposes) against all values (counted on a grid, as we do)."""
    x = original(data)
    noise = noises(data)["Mul"]
    sizes = [size for size in (300, 1000) if size < len(x)]
    told: dict[str, Any] = {str(size): {"PQP": [], "PQP, ours": []} for size in (*sizes, len(x))}
    for run in range(runs):
        rng = np.random.default_rng(run)
        z = noise.sample(x, rng)
        for size in (*sizes, len(x)):
            some = rng.choice(z, size, replace=False)
            for name in ("PQP", "PQP, ours"):
                density = found(x, noise, some, METHODS[name])
                told[str(size)][name].append(half_distance(density.shares_of(x), density.mass))
    return {size: {name: mean_sd(values) for name, values in both.items()} for size, both in told.items()}
