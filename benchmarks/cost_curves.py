"""What rows, columns, sites and attackers cost, measured on this machine, and drawn as one picture.

Each point is a process of its own, warm: processor seconds of the work alone, and the process's peak memory. Rows and
columns: a whole release from Parquet to Parquet (ledger, shuffle, card) by the streaming engine. Sites: a coordinator
pools so many releases of as many rows in all, and trains. Attackers: each attacker of an audit, alone.

Run: python benchmarks/cost_curves.py [--only rows]  measures into cost_curves.json (all kinds, or some), and draws
     python benchmarks/cost_curves.py --draw         draws what was measured: docs/images/cost-curves.svg
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_audit_device
import numpy as np
from bench_stream_mechanisms import released
from side_by_side import WORK, big_table, in_child, peak_megabytes

import sfumato as sf
from sfumato.auditing import attacking

HERE = Path(__file__).resolve().parent
MEASURED, PICTURE = HERE / "cost_curves.json", HERE.parent / "docs" / "images" / "cost-curves.svg"
METHODS = ("tree-resampling", "square-wave, float", "additive-noise, float")
SIZES: dict[str, tuple[int, ...]] = {
    "rows": (10_000, 100_000, 1_000_000, 10_000_000),
    "columns": (10, 30, 100, 300, 1_000),
    "sites": (1, 4, 16, 64, 256),
    "attackers": (1_000, 10_000),
}
TINY: dict[str, tuple[int, ...]] = {"rows": (1_000, 2_000), "columns": (3, 5), "sites": (1, 2), "attackers": (100, 200)}
COLUMNS, ROWS, POOLED = 10, 10_000, 25_600
"""Columns where rows grow, rows where columns grow, and the rows that all sites have together."""
LEARNERS = ("noise-aware-lda", "radius-vote")
COLOURS = ("#1b5e8c", "#b4531a", "#3f7d4e", "#7a4b94")


def release(rows: int, columns: int, method: str) -> dict[str, float]:
    """Processor seconds of one release."""
    released(big_table(1_000, columns), columns, method)
    table = big_table(rows, columns)
    start = time.process_time()
    released(table, columns, method)
    return {method: time.process_time() - start}


def pool(sites: int) -> dict[str, float]:
    """Processor seconds of training on the releases of so many sites."""
    whole, size = bench_audit_device.table(POOLED, 1), POOLED // sites
    words = {"schema": sf.Schema.infer(whole, label="label"), "mechanism": "additive-noise", "unprotected": True}
    parts = [sf.sanitize(whole.slice(site * size, size), seed=site, **words) for site in range(sites)]
    found = {}
    for learner in LEARNERS:
        sf.train(parts[:1], classifier=learner)
        start = time.process_time()
        sf.train(parts, classifier=learner)
        found[learner] = time.process_time() - start
    return found


def attackers(rows: int) -> dict[str, float]:
    """Processor seconds of each attacker, one after the other, on additive noise."""
    table, others = bench_audit_device.table(rows, 1), bench_audit_device.table(rows // 2, 2)
    made = sf.sanitize(table, label="label", mechanism="additive-noise", seed=3, unprotected=True)
    found: dict[str, float] = {}
    played = attacking._played

    def timed(attack: Any, *given: Any) -> Any:
        start = time.process_time()
        answer = played(attack, *given)
        found[attack.name] = time.process_time() - start
        return answer

    attacking.MOST_AT_ONCE, attacking._played = 1, timed
    sf.audit(made, original=table, holdout=others, max_rows=rows, repeats=0)
    return found


def measured(what: str, size: int, method: str) -> dict[str, Any]:
    """One point, in this process."""
    work: dict[str, Callable[[], dict[str, float]]] = {
        "rows": lambda: release(size, COLUMNS, method),
        "columns": lambda: release(ROWS, size, method),
        "sites": lambda: pool(size),
        "attackers": lambda: attackers(size),
    }
    return {"seconds": work[what](), "megabytes": peak_megabytes()}


def measure(sizes: dict[str, tuple[int, ...]], into: Path) -> None:
    """All points, written as soon as each is there."""
    found: dict[str, Any] = json.loads(into.read_text()) if into.exists() else {}
    for what, several in sizes.items():
        for size in several:
            point: dict[str, Any] = {"seconds": {}, "megabytes": {}}
            for method in METHODS if what in ("rows", "columns") else ("",):
                one = in_child(__file__, "--one", what, "--size", str(size), "--method", method)
                point["seconds"] |= {name: float(f"{value:.3g}") for name, value in one["seconds"].items()}
                point["megabytes"][method or what] = round(one["megabytes"])
            found.setdefault(what, {})[str(size)] = point
            into.write_text(json.dumps(found, indent=1) + "\n")
            print(what, f"{size:,}", point["seconds"], "MB", point["megabytes"], flush=True)
        for path in WORK.glob("table-*.parquet"):
            path.unlink()


def draw(measured: Path, picture: Path) -> None:
    """Three curves and the attackers' bars."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "sfumato", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False}
    mpl.rcParams |= {"axes.spines.right": False, "axes.prop_cycle": mpl.cycler(color=COLOURS)}
    from matplotlib import pyplot as plt

    found = json.loads(measured.read_text())
    figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
    titles = {
        "rows": f"Release of N rows x {COLUMNS} columns",
        "columns": f"Release of {ROWS:,} rows x N columns",
        "sites": f"Training on N sites' releases, {POOLED:,} rows in all",
    }
    for place, (what, title) in zip(axes.flat, titles.items(), strict=False):
        sizes = sorted(map(int, found[what]))
        for name in found[what][str(sizes[0])]["seconds"]:
            place.plot(sizes, [found[what][str(size)]["seconds"][name] for size in sizes], marker="o", label=name)
        if what == "rows":
            first = found[what][str(sizes[0])]["seconds"][METHODS[0]]
            place.plot(sizes, [first * size / sizes[0] for size in sizes], ":", color="#666666", label="linear")
        place.set(xscale="log", yscale="log", title=title, ylabel="processor seconds", xlabel=what)
        place.legend(frameon=False)
    small, large = (found["attackers"][str(size)]["seconds"] for size in sorted(map(int, found["attackers"])))
    names = sorted(large, key=large.__getitem__)
    sizes = sorted(map(int, found["attackers"]))
    bars = axes[1, 1]
    bars.barh(names, [large[name] for name in names], label=f"{sizes[-1]:,} rows")
    bars.plot([small.get(name, np.nan) for name in names], names, "o", color=COLOURS[1], label=f"{sizes[0]:,} rows")
    bars.set(title="Each attacker of an audit, 20 columns", xlabel="processor seconds", xscale="log")
    bars.legend(frameon=False)
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--draw", action="store_true", help="draw what was measured, and measure nothing")
    options.add_argument("--only", choices=SIZES, nargs="+", default=list(SIZES))
    options.add_argument("--tiny", action="store_true", help="the smallest sizes")
    options.add_argument("--into", type=Path, default=MEASURED, help="where measured figures are written")
    options.add_argument("--picture", type=Path, default=PICTURE)
    options.add_argument("--one", help=argparse.SUPPRESS)
    options.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options.add_argument("--method", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    if chosen.one:
        print(json.dumps(measured(chosen.one, chosen.size, chosen.method)))
        return
    if not chosen.draw:
        sizes = TINY if chosen.tiny else SIZES
        measure({what: sizes[what] for what in chosen.only}, chosen.into)
    draw(chosen.into, chosen.picture)


if __name__ == "__main__":
    main()
