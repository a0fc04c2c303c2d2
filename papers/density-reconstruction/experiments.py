"""Table 1 and Figs 1, 3, 4: each function returns plain figures that `tables`, `claims` and `plots` read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from papers.data import DataMissingError, data_folder

from sfumato.attacks.metrics.information import (
    collapsed_share,
    half_distance,
    information_loss,
    posterior_interval,
    privacy_loss,
)
from sfumato.auditing.figures.density_reconstruction import BINS, METHODS, PRIVACY_LOSS, calibrated, factors
from sfumato.auditing.figures.density_reconstruction import found_again as found
from sfumato.auditing.figures.kernel_resampling import SEVEN
from sfumato.auditing.figures.sets import two_lumps
from sfumato.core.array_types import Floats
from sfumato.noise import OperatorNoise
from sfumato.reconstruction.evidence import Bins, Method
from sfumato.reconstruction.parzen_program import leave_one_out_width
from sfumato.table import open_table

NOISES = ("Mul", "Add")
SIMULATED = "two lumps"


def original(data: str) -> Floats:
    """County incomes, or 3,000 values in two lumps (the paper does not say what Fig. 3 was drawn from)."""
    if data == SIMULATED:
        return two_lumps(np.random.default_rng(2007))[0][:, 0]
    path = data_folder() / f"{data}.csv"
    if not path.is_file():
        raise DataMissingError(f"{data}: there is no {path.name} in the data folder. Name one in SFUMATO_DATA.")
    return np.asarray(open_table(path, columns=["income"]).read()["income"].to_numpy(), dtype=np.float64)


@cache
def noises(data: str, wanted: float = PRIVACY_LOSS) -> dict[str, OperatorNoise]:
    """Factors around 2 and additive noise around 0, both uniform, with the same privacy loss (Eq. 19)."""
    return calibrated(original(data), wanted)


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
    return {"values": list(SEVEN), "width": leave_one_out_width(Bins.over(-4.0, 4.0).of(SEVEN))}


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
