"""What the result hangs on: the grid, the penalty, EM's stopping, the window's width, and each of the errata."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from experiments import METHODS, Floats, factors, found, losses, mean_sd, noises, original
from literal import Variant, direct_criterion, parzen, programme
from published import BINS
from scipy.optimize import minimize_scalar

from sfumato.attacks.metrics.information import half_distance, information_loss
from sfumato.core.errors import SfumatoError
from sfumato.noise import Operator, OperatorNoise, make_law, make_operator
from sfumato.reconstruction.evidence import Bins, Cells
from sfumato.reconstruction.expectation_maximization import ExpectationMaximization
from sfumato.reconstruction.parzen_program import LeaveOneOut, ParzenProgram, leave_one_out_width
from sfumato.reconstruction.reconstruct import reconstruct

X_BINS = (25, 50, 75, 100, 150)
RATIOS = (1.0, 1.5, 2.5, 5.0)
PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
ROUNDS = (5, 10, 20, 30, 50, 75, 100, 200, 400)
CELLS = (15, 20, 25, 28, 30, 40, 50, 75)
READINGS = (
    "as above",
    "1,000 points of z",
    "z_j are the released values",
    "width by the normal rule",
    "1.5 times the width",
    "z_j and width",
    "factors between 1 and 3",
)
MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def grid(data: str, runs: int) -> dict[str, Any]:
    """Cells of x, and points of z for each of them; without a penalty by the paper's equations, and ours."""
    x = original(data)
    told: dict[str, Any] = {}
    for name, noise in noises(data).items():
        for count in X_BINS:
            cells = Cells.even(x.min(), x.max(), count)
            shares = np.histogram(x, cells.edges)[0] / len(x)
            tried: dict[str, list[float]] = {str(ratio): [] for ratio in RATIOS} | {"ours": []}
            for run in range(runs):
                z = noise.sample(x, np.random.default_rng(run))
                width = leave_one_out_width(Bins.over(z.min(), z.max()).of(z))
                for ratio in RATIOS:
                    mass = programme(noise, z, cells, points=round(ratio * count), width=width)
                    tried[str(ratio)].append(half_distance(shares, mass))
                tried["ours"].append(information_loss(x, found(x, noise, z, METHODS["PQP, ours"], count)))
            told[f"{name}|{count}"] = {key: mean_sd(values) for key, values in tried.items()}
    return told


def cells(data: str, runs: int) -> dict[str, Any]:
    """Which grid has the losses of Table 1? The paper names 75 bins for the histogram of Fig. 4(a), and N_x nowhere."""
    x = original(data)
    methods = {name: METHODS[name] for name in ("PQP", "EM, 50", "EM, 100")}
    return {
        name: {str(count): losses(x, noise, methods, runs, count) for count in CELLS}
        for name, noise in noises(data).items()
    }


def other_readings(data: str, runs: int) -> dict[str, Any]:
    """Does another reading of what the paper leaves open have the losses of Table 1 on 75 cells, without a penalty?"""
    x, both = original(data), noises(data)
    grid_of_x = Cells.even(x.min(), x.max(), BINS)
    shares = np.histogram(x, grid_of_x.edges)[0] / len(x)
    told: dict[str, dict[str, list[float]]] = {name: {reading: [] for reading in READINGS} for name in both}
    for name, noise in both.items():
        stated = factors() if name == "Mul" else noise
        for run in range(runs):
            z = noise.sample(x, np.random.default_rng(run))
            chosen = leave_one_out_width(Bins.over(z.min(), z.max()).of(z))
            tried: dict[str, dict[str, Any]] = {
                "as above": {},
                "1,000 points of z": {"points": 1000},
                "z_j are the released values": {"at": np.sort(z)},
                "width by the normal rule": {"width": 1.06 * z.std() * len(z) ** -0.2},
                "1.5 times the width": {"width": 1.5 * chosen},
                "z_j and width": {"at": np.sort(z), "width": 1.5 * chosen},
            }
            for reading, change in tried.items():
                mass = programme(noise, z, grid_of_x, **{"width": chosen, **change})
                told[name][reading].append(half_distance(shares, mass))
            again = stated.sample(x, np.random.default_rng(run))
            told[name][READINGS[-1]].append(half_distance(shares, programme(stated, again, grid_of_x)))
    return {name: {reading: mean_sd(values) for reading, values in one.items()} for name, one in told.items()}


def penalty(data: str, runs: int) -> dict[str, Any]:
    """The weight of second differences, on the paper's programme and on ours; `auto` chooses by itself."""
    x = original(data)
    told: dict[str, Any] = {}
    for name, noise in noises(data).items():
        published = {f"published|{weight:g}": ParzenProgram.as_published(weight) for weight in PENALTIES}
        ours = {f"ours|{weight:g}": ParzenProgram(penalty=weight) for weight in PENALTIES}
        told[name] = losses(x, noise, published | ours | {"auto": ParzenProgram()}, runs)
    return told


def stopping(data: str, runs: int) -> dict[str, Any]:
    """EM after so many rounds, and by each of its rules."""
    x = original(data)
    methods = {f"{count}": ExpectationMaximization(count) for count in ROUNDS}
    rules = {name: METHODS[name] for name in METHODS if name.startswith("EM, ") and not name[4:].isdigit()}
    return {name: losses(x, noise, methods | rules, runs) for name, noise in noises(data).items()}


def errata(data: str, runs: int) -> dict[str, Any]:
    """Loss with each erratum put in; how far the product is from the equations written out; what it refuses."""
    x = original(data)
    cells = Cells.even(x.min(), x.max(), BINS)
    shares = np.histogram(x, cells.edges)[0] / len(x)
    both = noises(data)
    cases: list[tuple[str, Variant, float]] = [
        ("Mul", "right", 0.0),
        ("Mul", "right", 1e-2),
        ("Mul", "dE/dx", 0.0),
        ("Mul", "dE/dx", 1e-2),
        ("Mul", "Simpson", 0.0),
        ("Add", "right", 0.0),
        ("Add", "Eq. 12", 0.0),
        ("Add", "Eq. 16", 0.0),
    ]
    told: dict[str, list[float]] = {f"{name}|{variant}|{weight:g}": [] for name, variant, weight in cases}
    apart = []
    for run in range(runs):
        released = {name: noise.sample(x, np.random.default_rng(run)) for name, noise in both.items()}
        for name, variant, weight in cases:
            mass = programme(both[name], released[name], cells, penalty=weight, variant=variant)
            told[f"{name}|{variant}|{weight:g}"].append(half_distance(shares, mass))
        apart.append(
            information_loss(x, found(x, both["Mul"], released["Mul"], ParzenProgram.as_published(1e-2)))
            - told["Mul|right|0.01"][-1]
        )
    return {
        "losses": {key: mean_sd(values) for key, values in told.items()},
        "product less equations": float(np.mean(apart)),
        "refused": refusal(x),
    }


def refusal(x: Floats) -> str:
    """What the product says to an operator with the paper's |dE/dx|."""
    wrong = Operator.of(lambda e, x: x * e, lambda z, x: z / x, lambda z, x: z / x**2)
    noise = OperatorNoise(wrong, make_law("uniform", low=1.0, high=3.0))
    try:
        reconstruct(
            factors().sample(x, np.random.default_rng(0)), noise, support=(x.min(), x.max()), atoms=False, resamples=0
        )
    except SfumatoError as error:
        return str(error)
    return ""


def width(data: str, runs: int) -> dict[str, Any]:
    """The leave-one-out width: its integrated squared error (Eq. 3) beside the least one, and that of other widths.

    The true f_Z is known here: the mean of g(z | x) over the original values.
    """
    x = original(data)
    told: dict[str, Any] = {}
    for name, noise in noises(data).items():
        ends = noise.span(x)
        at = np.linspace(ends[0].min() - 0.1 * np.ptp(x), ends[1].max() + 0.1 * np.ptp(x), 800)
        truth = np.mean([noise.pdf(at, value) for value in x], axis=0)
        chosen, best, ratio, multiples, rule = [], [], [], [], []
        for run in range(runs):
            z = noise.sample(x, np.random.default_rng(run))

            error = partial(squared_error, z, at, truth)
            own = leave_one_out_width(Bins.over(z.min(), z.max()).of(z))
            least = minimize_scalar(
                lambda log, error=error: error(np.exp(log)),
                bounds=(np.log(own / 10), np.log(10 * own)),
                options={"xatol": 0.02},
            )
            chosen.append(own)
            best.append(float(np.exp(least.x)))
            ratio.append(error(own) / float(least.fun))
            multiples.append([error(m * own) / float(least.fun) for m in MULTIPLES])
            rule.append(1.06 * z.std() * len(z) ** -0.2)
        told[name] = {
            "chosen": mean_sd(chosen),
            "best": mean_sd(best),
            "error ratio": mean_sd(ratio),
            "multiples": list(np.mean(multiples, axis=0)),
            "normal rule": mean_sd(rule),
        }
    return {**told, "direct": _direct(noise.sample(x, np.random.default_rng(0)))}


def squared_error(z: Floats, at: Floats, truth: Floats, width: float) -> float:
    """Eq. 3, on evenly spaced points."""
    return float(np.sum((parzen(z, at, width) - truth) ** 2) * (at[1] - at[0]))


def _direct(z: Floats) -> dict[str, float]:
    """The product's width beside that of the double sum of Eq. 5, and how long one evaluation of each takes."""
    bins = Bins.over(z.min(), z.max()).of(z)
    ours = leave_one_out_width(bins)
    started = time.process_time()
    found = minimize_scalar(
        lambda log: direct_criterion(z, float(np.exp(log))),
        bounds=(np.log(ours / 2), np.log(2 * ours)),
        options={"xatol": 1e-5},
    )
    direct = (time.process_time() - started) / found.nfev
    criterion = LeaveOneOut(bins)
    started = time.process_time()
    for _ in range(100):
        criterion(ours)
    quick = (time.process_time() - started) / 100
    return {"ours": ours, "direct": float(np.exp(found.x)), "times faster": direct / quick}


def branches(data: str, runs: int) -> dict[str, Any]:
    """3.2: x e + x^2 e^4 really is not one-to-one with e in [-1, 1] and x > 1/4; values are divided by their mean."""
    x = original(data) / original(data).mean()
    noise = OperatorNoise(make_operator("quartic"), make_law("uniform", low=-1.0, high=1.0))
    told = losses(x, noise, {name: METHODS[name] for name in ("PQP, ours", "EM, ours")}, runs)
    rectangle, infinite = [], 0
    for run in range(runs):
        z = noise.sample(x, np.random.default_rng(run))
        try:
            rectangle.append(information_loss(x, found(x, noise, z, ParzenProgram.as_published(1e-2))))
        except SfumatoError:
            infinite += 1
    return {
        **told,
        "turning": float(np.mean(x > 0.25)),
        "rectangle": mean_sd(rectangle) if rectangle else None,
        "refused": infinite,
    }
