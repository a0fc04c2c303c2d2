"""RESULTS.md: what was reached, beside what was published."""

from __future__ import annotations

from collections.abc import Sequence

from claims import claims
from dependence import CELLS, MULTIPLES, PENALTIES, RATIOS, READINGS, ROUNDS, X_BINS
from experiments import METHODS, NOISES
from papers.page import sentences, table
from published import BINS, PRIVACY_LOSS, TABLE_1
from tasks import FEWER, TITLES, Results

INTRODUCTION = """# density-reconstruction: published and reached

Printed by `run.py`; do not edit. All losses are *information loss* (Eq. 20): half the L1 distance of the reconstruction
to the histogram of the original values, mean ± standard deviation over runs; lower is better, 0 is perfect. **PQP** and
**EM, n** (n rounds) are as published; **ours** are the product's defaults."""

WORDS = {
    "PQP": "PQP as published",
    "PQP, 0.01": "PQP as published, penalty 0.01",
    "PQP, ours": "**PQP, ours** (automatic penalty, cell averages, matched and weighted)",
    "EM, 20": "EM, 20 rounds",
    "EM, 50": "EM, 50 rounds",
    "EM, 100": "EM, 100 rounds",
    "EM, successive": "EM, Agrawal & Srikant's stopping",
    "EM, discrepancy": "EM, stopped by discrepancy",
    "EM, ours": "**EM, ours** (rounds by trial on simulated samples)",
    "EM, smoothed": "EM, smoothed",
}


def results_text(results: Results, minutes: float, fast: bool) -> str:
    """The whole file."""
    parts = [INTRODUCTION]
    if fast:
        parts.append("**A fast run**: simulated values and a few runs. Not the paper's setting.")
    parts.append(
        f"{minutes:.1f} minutes of computing. Data: {', '.join(TITLES[name] for name in results.data)}. "
        f"Table 1: {results.runs} runs"
        + (f" ({FEWER} on two lumps and on other numbers of cells)" if len(results.data) > 1 else "")
        + f"; everything else: {results.few}."
    )
    parts += [f"Skipped: {reason}" for reason in results.skipped.values()]
    parts += sentences(claims(results))
    parts += _table_1(results) + _privacy(results) + _figure_3(results) + _figure_4(results)
    parts += (
        _cells(results) + _errata(results) + _grid(results) + _penalty(results) + _stopping(results) + _width(results)
    )
    parts += _others(results)
    if not fast:
        parts += _figures()
    return "\n\n".join(parts) + "\n"


def spread(found: Sequence[float]) -> str:
    """Mean and deviation."""
    return f"{found[0]:.3f} ± {found[1]:.3f}"


def _table_1(results: Results) -> list[str]:
    rows = []
    for method, words in WORDS.items():
        printed = {"PQP": ("Mul + PQP", "Add + PQP"), "EM, 50": (None, "Add + EM")}.get(method, (None, None))
        cells = [words]
        for noise, key in zip(NOISES, printed, strict=True):
            cells.append(f"{TABLE_1[key]:.4f}" if key else "")
            cells.append(spread(results.loss(noise, method)))
        for data in results.data[1:]:
            cells += [spread(results.loss(noise, method, data)) for noise in NOISES]
        rows.append(cells)
    head = ["method", "Mul, published", "Mul, reached", "Add, published", "Add, reached"]
    head += [f"{noise}, {TITLES[data]}" for data in results.data[1:] for noise in NOISES]
    return [
        f"## Table 1: information loss at a privacy loss of {PRIVACY_LOSS:.3f}, {TITLES[results.main]}",
        f"{results.runs} runs, {BINS} cells of x, 200 points of z. The paper does not say where its EM stopped; its "
        "figure stands beside 50 rounds, which come nearest on so many cells.",
        table(head, rows),
    ]


def _cells(results: Results) -> list[str]:
    found, nearest = results.get("cells"), results.nearest_cells()
    kinds = (("Mul", "PQP"), ("Add", "PQP"), ("Add", "EM, 50"), ("Add", "EM, 100"))
    printed = (TABLE_1["Mul + PQP"], TABLE_1["Add + PQP"], None, TABLE_1["Add + EM"])
    rows: list[list[object]] = [["**published**", *(f"**{loss:.4f}**" if loss else "" for loss in printed)]]
    for count in CELLS:
        losses = (spread(found[noise][str(count)][method]["loss"]) for noise, method in kinds)
        rows.append([f"**{count}**" if count == nearest else count, *losses])
    parts = [
        "## Table 1 on other numbers of cells",
        "The same equations, 200 points of z, no penalty. The paper names 75 bins for the histogram of Fig. 4(a); on "
        "how many cells of x its programme and its EM worked (N_x), and for how many rounds, it does not say. On "
        f"**{nearest}** cells and after 100 rounds the three entries together come nearest; "
        f"{results.setting('cells')} runs.",
        table(("cells of x", *(f"{noise} + {method}" for noise, method in kinds)), rows),
    ]
    if results.has("other_readings"):
        other = results.get("other_readings")
        rows = [[reading, *(spread(other[noise][reading]) for noise in NOISES)] for reading in READINGS]
        rows[-1][-1] = ""  # factors are not added
        parts += [
            f"Other readings of what the paper leaves open, on {BINS} cells; {results.setting('other_readings')} runs.",
            table(("reading", "Mul + PQP", "Add + PQP"), rows),
        ]
    return parts


def _privacy(results: Results) -> list[str]:
    rows = []
    for data in results.data:
        found = results.get("privacy", data)
        for noise in NOISES:
            one = found[noise]
            rows.append(
                [
                    TITLES[data],
                    noise,
                    f"{one['law'][0]:.4g} to {one['law'][1]:.4g}",
                    f"{one['linear error']:.2f}",
                    f"{one['interval 50%']:.3f}",
                    f"{one['interval 95%']:.3f}",
                    f"{100 * one['collapsed']:.2f}%",
                ]
            )
    head = ("data", "noise", "uniform between", "linear estimate", "50% set", "95% set", "collapsed")
    return [
        f"## What the noise of Table 1 hides (privacy loss {PRIVACY_LOSS:.3f} for both)",
        "*Linear estimate*: error of the best linear guess of a value over the deviation (1: nothing learned). "
        "*Sets*: mean length of the shortest set that holds the value with that probability, over the range, for "
        "an adversary who knows the distribution. *Collapsed*: confined to a twentieth of the range with certainty.",
        table(head, rows),
    ]


def _figure_3(results: Results) -> list[str]:
    parts = ["## Figure 3: information loss against privacy loss"]
    kinds = (("Mul", "PQP"), ("Add", "PQP"), ("Add", "EM, 20"), ("Add", "EM, 50"))
    kinds += (("Mul", "PQP, ours"), ("Add", "PQP, ours"), ("Mul", "EM, ours"), ("Add", "EM, ours"))
    for data in results.data:
        levels = results.levels(data)
        rows = [
            [f"{level:.2f}", *(spread(found[noise][method]["loss"]) for noise, method in kinds)]
            for level, found in levels.items()
        ]
        floor = results.get("privacy", data)["factors 0 to 1"]
        parts.append(f"{TITLES[data]}; uniform factors cannot go below a privacy loss of {floor:.3f}.")
        parts.append(table(("privacy loss", *(f"{noise} + {method}" for noise, method in kinds)), rows))
    return parts


def _figure_4(results: Results) -> list[str]:
    found = results.get("figure_4")
    rows = [
        [name, f"{one['loss']:.4f}", sum(share < 1e-6 for share in one["mass"])]
        for name, one in found.items()
        if isinstance(one, dict)
    ]
    empty = sum(share == 0 for share in found["original"])
    return [
        "## Figure 4: one run",
        f"The first run. The original histogram has {empty} empty cells of {len(found['original'])}; many more in a "
        "reconstruction mean spikes.",
        table(("reconstruction", "information loss", "empty cells"), rows),
    ]


def _errata(results: Results) -> list[str]:
    found = results.get("errata")["losses"]
    words = {
        "Mul|right|0": "Mul, Eq. 13: dE/dz",
        "Mul|dE/dx|0": "Mul, Theorem 1 as printed: dE/dx",
        "Mul|right|0.01": "Mul, dE/dz, penalty 0.01",
        "Mul|dE/dx|0.01": "Mul, dE/dx as printed, penalty 0.01",
        "Mul|Simpson|0": "Mul, Simpson's rule",
        "Add|right|0": "Add, Eq. 11",
        "Add|Eq. 12|0": "Add, Eq. 12 as printed: without dx",
        "Add|Eq. 16|0": "Add, Eq. 16 as printed: f_X sums to 1",
    }
    return [
        "## The errata, put in and taken out",
        "The paper's equations written out (`literal.py`), Parzen sum by sum.",
        table(("equations", "information loss"), [[words[key], spread(value)] for key, value in found.items()]),
        f"The product as published (penalty 0.01) is {results.get('errata')['product less equations']:+.4f} from "
        "the equations. To an operator with the wrong derivative it says: "
        f"*{results.get('errata')['refused'] or 'nothing'}*",
    ]


def _grid(results: Results) -> list[str]:
    if not results.has("grid"):
        return []
    found = results.get("grid")
    rows = [
        [
            noise,
            count,
            *(spread(found[f"{noise}|{count}"][str(ratio)]) for ratio in RATIOS),
            spread(found[f"{noise}|{count}"]["ours"]),
        ]
        for noise in NOISES
        for count in X_BINS
    ]
    head = ("noise", "cells of x", *(f"z-points {ratio:g} x" for ratio in RATIOS), "ours")
    return [
        "## Dependence on the grid",
        "Paper's equations without a penalty; z-points as a multiple of the cells of x.",
        table(head, rows),
    ]


def _penalty(results: Results) -> list[str]:
    found = results.get("penalty")
    rows = []
    for weight in (f"{weight:g}" for weight in PENALTIES):
        rows.append(
            [
                weight,
                *(
                    spread(found[noise][f"{kind}|{weight}"]["loss"])
                    for noise in NOISES
                    for kind in ("published", "ours")
                ),
            ]
        )
    rows.append(["automatic", *(cell for noise in NOISES for cell in ("", spread(found[noise]["auto"]["loss"])))])
    chosen = ", ".join(
        f"{noise} {found[noise]['auto']['penalties'][2]:g} to {found[noise]['auto']['penalties'][3]:g}"
        for noise in NOISES
    )
    return [
        "## Dependence on the penalty",
        f"Weight of second differences, relative to the squared norm of G. The automatic choice took: {chosen}.",
        table(("weight", "Mul, published", "Mul, ours", "Add, published", "Add, ours"), rows),
    ]


def _stopping(results: Results) -> list[str]:
    found = results.get("stopping")
    rows = [
        [f"{count} rounds", *(spread(found[noise][str(count)]["loss"]) for noise in NOISES), ""] for count in ROUNDS
    ]
    for rule in (name for name in METHODS if name.startswith("EM, ") and not name[4:].isdigit()):
        taken = [found[noise][rule]["rounds"] for noise in NOISES]
        rows.append(
            [
                WORDS[rule],
                *(spread(found[noise][rule]["loss"]) for noise in NOISES),
                "; ".join(f"{one[0]:.0f} ({one[2]:.0f} to {one[3]:.0f})" for one in taken),
            ]
        )
    return ["## Dependence on EM's stopping", table(("stopped", "Mul", "Add", "rounds: Mul; Add"), rows)]


def _width(results: Results) -> list[str]:
    found = results.get("width")
    rows = []
    for noise in NOISES:
        one = found[noise]
        rows.append(
            [
                noise,
                *(f"{one[key][0]:.4g} ± {one[key][1]:.2g}" for key in ("chosen", "best", "normal rule")),
                f"{one['error ratio'][0]:.2f} (up to {one['error ratio'][3]:.2f})",
                *(f"{ratio:.2f}" for ratio in one["multiples"]),
            ]
        )
    direct = found["direct"]
    head = ("noise", "leave-one-out", "best", "normal rule", "error over least", *(f"x {m:g}" for m in MULTIPLES))
    return [
        "## The width of the window (Eqs. 3-5)",
        "Integrated squared error of the Parzen estimate against the true f_Z, over the least that any width gives; "
        "last columns: at multiples of the leave-one-out width. *Normal rule*: 1.06 sd N^(-1/5).",
        table(head, rows),
        f"From the binned autocorrelation {direct['ours']:.6g}, from the double sum of Eq. 5 {direct['direct']:.6g} "
        f"({abs(direct['ours'] / direct['direct'] - 1):.0e} apart); one evaluation is {direct['times faster']:.0f} "
        "times as fast.",
    ]


def _others(results: Results) -> list[str]:
    subset, quartic = results.get("large"), results.get("branches")
    rectangle = quartic["rectangle"]
    return [
        "## A random subset (3.3)",
        table(
            ("values used", "PQP", "PQP, ours"),
            [[size, spread(both["PQP"]), spread(both["PQP, ours"])] for size, both in subset.items() if size != "cpu"],
        ),
        "## x e + x^2 e^4 with e in [-1, 1] (3.2)",
        f"Not one-to-one for {100 * quartic['turning']:.0f}% of the values. From probabilities of cells: ours "
        f"{spread(quartic['PQP, ours']['loss'])}, EM {spread(quartic['EM, ours']['loss'])}; by the rectangle rule with "
        f"penalty 0.01: {spread(rectangle) if rectangle else 'refused, since the density is infinite where it turns'}.",
    ]


def _figures() -> list[str]:
    names = {
        "fig1": "Figure 1",
        "fig3": "Figure 3",
        "fig4": "Figure 4",
        "dependence": "Grid, penalty and stopping",
        "width": "Width of the window",
    }
    return ["## Figures", "\n".join(f"![{title}](figures/{name}.svg)" for name, title in names.items())]
