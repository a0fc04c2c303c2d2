"""Ten releases of one table, judged by the audit, by Anonymeter and by SDMetrics: is the order of risk the same?

Run: python benchmarks/agreement.py [RESULT.json]. About a quarter of an hour. Without the peers' environment (see
peers.py) it stops. sdcMicro would be a fourth judge; Debian does not package it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from peers import python_with
from scipy import stats

import sfumato as sf
from sfumato.attacks import ATTACKS
from sfumato.attacks.base import INFERENCE, LINKABILITY
from sfumato.table import Column

HERE = Path(__file__).resolve().parent
ROWS, SEED = 800, 3
NUMBERS, WORDS = ["age", "weight", "height", "income"], ["sex", "town", "job"]
JOBS = ("none", "office", "craft", "health", "school")
PAIRS = {
    "singling out": ("ours singling out", "anonymeter singling out, multivariate"),
    "singling out by one column": ("ours singling out, one column", "anonymeter singling out, univariate"),
    "linkability": ("ours linkability", "anonymeter linkability"),
    "inference": ("ours inference", "anonymeter inference"),
    "nearer to the table": ("ours nearer", "sdmetrics DCR"),
    "copied rows": ("ours exact copies", "sdmetrics copied rows"),
}


def people(count: int, rng: np.random.Generator) -> pd.DataFrame:
    """Four numbers with decimals and three categories that hang together."""
    age, tall = rng.uniform(18, 90, count), rng.normal(size=count)
    sex = np.where(rng.random(count) < 0.5, "f", "m")
    height = 165 + 12 * (sex == "m") + 7 * tall
    job = np.array(JOBS)[np.clip((age / 25 + rng.normal(size=count)).astype(int), 0, 4)]
    town = rng.choice([f"t{i}" for i in range(9)], count, p=np.arange(9, 0, -1) / 45)
    weight = height * 0.9 - 85 + age / 8 + rng.normal(0, 8, count)
    income = np.exp(7.5 + (job != "none") * 0.6 + rng.normal(0, 0.4, count))
    frame = {"age": age, "weight": weight, "height": height, "income": income, "sex": sex, "town": town, "job": job}
    return pd.DataFrame(frame).round({"age": 1, "weight": 1, "height": 1, "income": 0})


def codebook() -> sf.Schema:
    """What everybody knows of such people."""
    known = {"source": "public", "reason": "the table is made up"}
    bounds = {"age": (18, 90), "weight": (20, 160), "height": (130, 210), "income": (200, 20_000)}
    words = {"sex": ("f", "m"), "town": tuple(f"t{i}" for i in range(9)), "job": JOBS}
    numbers = [Column(name, "numeric", low=low, high=high, **known) for name, (low, high) in bounds.items()]
    return sf.Schema(
        (*numbers, *(Column(name, "categorical", categories=some, **known) for name, some in words.items()))
    )


def noisy(table: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Normal noise of a share of each column's spread; as large a share of the categories is drawn anew."""
    made = table.copy()
    for name in NUMBERS:
        made[name] = (table[name] + rng.normal(0, share * table[name].std(), len(table))).round(2)
    for name in WORDS:
        drawn = rng.random(len(table)) < share / 2
        made.loc[drawn, name] = rng.permutation(table[name])[drawn]
    return made.sample(frac=1, random_state=SEED)


def generalised(table: pd.DataFrame, bands: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers as ranges (ours reads them) and as the middle of the range (the peers need numbers)."""
    ranges, middles = table.copy(), table.copy()
    for name in NUMBERS:
        edges = np.linspace(table[name].min(), table[name].max() + 1e-6, bands + 1)
        place = np.clip(np.searchsorted(edges, table[name], "right") - 1, 0, bands - 1)
        ranges[name] = [f"{edges[i]:.3f}-{edges[i + 1]:.3f}" for i in place]
        middles[name] = (edges[place] + edges[place + 1]) / 2
    return ranges.sample(frac=1, random_state=SEED), middles.sample(frac=1, random_state=SEED)


def microaggregated(table: pd.DataFrame, size: int) -> pd.DataFrame:
    """Means of groups of neighbours along the first principal axis; categories take the group's commonest."""
    X = (table[NUMBERS] - table[NUMBERS].mean()) / table[NUMBERS].std()
    order = np.argsort(X.to_numpy() @ np.linalg.svd(X, full_matrices=False)[2][0])
    made = table.copy()
    for start in range(0, len(table), size):
        rows = table.index[order[start : start + size]]
        for name in NUMBERS:
            made.loc[rows, name] = round(float(table.loc[rows, name].mean()), 2)
        for name in WORDS:
            made.loc[rows, name] = table.loc[rows, name].mode()[0]
    return made.sample(frac=1, random_state=SEED)


def releases(original: pd.DataFrame, folder: Path, python: str) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Name -> what the audit gets, and what the peers get."""
    rng = np.random.default_rng(SEED)
    subprocess.run([python, str(HERE / "agreement_peers.py"), "sample", str(folder)], check=True)
    made: dict[str, pd.DataFrame] = {
        "copy": original.sample(frac=1, random_state=SEED),
        **{f"noise {share}": noisy(original, share, rng) for share in (0.02, 0.2, 0.6, 1.5)},
        **{f"microaggregated {size}": microaggregated(original, size) for size in (3, 15)},
        "copula (SDV)": pd.read_csv(folder / "copula.csv"),
    }
    found = {name: (table, table) for name, table in made.items()}
    found["generalised 8"] = generalised(original, 8)
    drawn = sf.sanitize(
        original, schema=codebook(), mechanism="tree-resampling", seed=SEED, parameters={"epsilon": 3.0, "delta": 1e-6}
    )
    rows = pd.DataFrame(drawn.arrow.to_pydict())[list(original.columns)]
    found["trees (sfumato)"] = (rows, rows)
    return found


def ours(table: pd.DataFrame, original: pd.DataFrame, holdout: pd.DataFrame) -> dict[str, float]:
    """The audit's figures; what cannot be tried because rows are nobody's is a risk of 0 beyond chance."""
    started = time.process_time()
    found = sf.audit(table, original=original, holdout=holdout, repeats=0, seed=SEED)
    scores = {entry["name"]: entry["score"] or 0.0 for entry in found.data["attacks"]}
    return {
        "ours singling out": scores["singling-out"],
        "ours singling out, one column": scores["singling-out-one-column"],
        "ours linkability": max(score for name, score in scores.items() if ATTACKS[name].risk == LINKABILITY),
        "ours inference": max(score for name, score in scores.items() if ATTACKS[name].risk == INFERENCE),
        "ours nearer": found.copies["near"]["nearer"],
        "ours near copies": found.copies["near"]["share"],
        "ours exact copies": found.copies["exact"]["share"],
        "seconds": time.process_time() - started,
    }


def main(target: Path) -> int:
    python = python_with("anonymeter")
    if python is None:
        return 1
    rng = np.random.default_rng(SEED)
    original, holdout = people(ROWS, rng), people(ROWS, rng)
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        original.to_csv(folder / "original.csv", index=False)
        holdout.to_csv(folder / "holdout.csv", index=False)
        made = releases(original, folder, python)
        for number, (release, (for_us, for_peers)) in enumerate(made.items()):
            for_peers.to_csv(folder / f"release.{number}.csv", index=False)
            rows[release] = ours(for_us, original, holdout)
            print(release, {key: round(value, 3) for key, value in rows[release].items()}, flush=True)
        script = [python, str(HERE / "agreement_peers.py"), "score", str(folder)]
        done = subprocess.run(script, check=False, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        told = json.loads(line)
        release = list(made)[int(told.pop("release"))]
        rows[release] |= {("peers seconds" if key == "seconds" else key): value for key, value in told.items()}
        print(release, {key: round(value, 3) for key, value in told.items()}, flush=True)
    result = {"rows": ROWS, "seed": SEED, "releases": rows, "rank_correlation": agreement(rows)}
    target.write_text(json.dumps(result, indent=1) + "\n")
    for pair, value in result["rank_correlation"].items():
        print(f"{pair:<28} rank correlation {value['spearman']:+.2f} over {value['releases']} releases")
    return 0


def agreement(rows: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Spearman's rank correlation, over the releases that both judged."""
    found = {}
    for name, (mine, theirs) in PAIRS.items():
        both = [(row[mine], row[theirs]) for row in rows.values() if mine in row and theirs in row]
        first, second = zip(*both, strict=True)
        found[name] = {"spearman": float(stats.spearmanr(first, second).statistic), "releases": len(both)}
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "agreement.json"))
