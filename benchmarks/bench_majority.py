"""No classifier answers worse than the commonest class does: every set, five strengths of noise, one line a set.

Sets are released by a mechanism at five epsilons for the record, a classifier learns from the release, and plain rows
that were not released are classified. A cell holds its error; `!` marks one whose 95% interval (Wilson) lies above the
error of always answering the class that was commonest in training. The real tables are read from --data (SFUMATO_DATA,
or the shared folder beside the checkout); without them, or with --generated, sets are drawn. Constants of the product
were chosen on drawn sets alone.

Run: python benchmarks/bench_majority.py [--classifier radius-vote] [--mechanism additive-noise] [--generated]
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.model_selection import train_test_split

from sfumato.attacks.metrics.privacy import proportion_interval
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts, public_map
from sfumato.mechanisms import make_mechanism
from sfumato.noise import Streams
from sfumato.table import Column, Encoding, Schema

MOST_ROWS, TEST_SHARE = 4_000, 0.3
EPSILONS = (1.0, 4.0, 16.0, 64.0, 256.0)
LEFT_OUT = ("county_income", "pendigits_test", "svmguide1_test", "breast_cancer_libsvm")
"""No classes; second halves; and one that is another set with its row numbers as a column."""
HERE = Path(__file__).resolve().parent

DRAWN = (
    ("shift", 1_500, 12, (0.7, 0.3)),
    ("shift", 3_000, 16, (0.125,) * 8),
    ("spread", 800, 10, (0.8, 0.1, 0.1)),
    ("spread", 1_500, 30, (0.4, 0.6)),
    ("skew", 550, 30, (0.63, 0.37)),
    ("skew", 3_000, 8, (0.6, 0.4)),
    ("factor", 400, 20, (0.6, 0.4)),
    ("clusters", 2_500, 5, (0.35, 0.35, 0.3)),
    ("nothing", 500, 10, (0.62, 0.38)),
    ("mixed", 900, 6, (0.7, 0.3)),
)

Set = tuple[str, np.ndarray, np.ndarray, Encoding]


def real(folder: Path) -> Iterator[Set]:
    for path in sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")]):
        name = path.name.split(".")[0]
        if name in LEFT_OUT:
            continue
        table = pd.read_csv(path)
        if len(table) > MOST_ROWS:
            table = table.sample(MOST_ROWS, random_state=0)
        arrow = pa.Table.from_pandas(table, preserve_index=False)
        encoding = Encoding(Schema.infer(arrow, label="label"))
        yield name, encoding.encode(arrow).X, encoding.encode_label(arrow), encoding


def drawn() -> Iterator[Set]:
    for seed, (kind, rows, columns, shares) in enumerate(DRAWN):
        X, y, sizes = draw(kind, rows, columns, shares, np.random.default_rng(seed))
        yield f"{kind} {rows} x {columns}", X, y, unit_encoding(columns, sizes)


def draw(kind: str, rows: int, columns: int, shares, rng) -> tuple[np.ndarray, np.ndarray, list[int]]:
    k = len(shares)
    y, sizes = rng.choice(k, rows, p=shares), []
    X = rng.standard_normal((rows, columns))
    if kind in ("shift", "mixed"):
        X += 3 * rng.standard_normal((k, columns))[y] / np.sqrt(columns)
    elif kind == "spread":  # a class is told by how widely it is spread
        X = X * np.linspace(0.6, 1.6, k)[y][:, None] + 0.3 * rng.standard_normal((k, columns))[y]
    elif kind == "skew":
        X = np.exp(0.8 * X + 0.6 * y[:, None] * rng.uniform(0, 1, columns) + 0.5 * rng.standard_normal((rows, 1)))
    elif kind == "factor":  # many columns, three causes
        causes = rng.standard_normal((rows, 3)) + 1.2 * rng.standard_normal((k, 3))[y]
        X = causes @ rng.standard_normal((3, columns)) + 0.5 * X
    elif kind == "clusters":  # two of each class
        X = 1.5 * rng.standard_normal((2 * k, columns))[y + k * rng.integers(0, 2, rows)] + 0.7 * X
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    if kind == "mixed":
        sizes = rng.integers(2, 6, 6).tolist()
        laws = [rng.dirichlet(np.ones(size), k) for size in sizes]
        X = np.hstack([X, *(np.eye(len(law.T))[[rng.choice(len(law.T), p=law[c]) for c in y]] for law in laws)])
    return X, y, sizes


def unit_encoding(columns: int, sizes: list[int]) -> Encoding:
    public = {"source": "public", "reason": "drawn"}
    numbers = [Column(f"x{place}", "numeric", low=0.0, high=1.0, **public) for place in range(columns)]
    named = [
        Column(f"c{place}", "categorical", categories=tuple(map(str, range(size))), **public)
        for place, size in enumerate(sizes)
    ]
    return Encoding(Schema((*numbers, *named)))


def error(classifier: str, mechanism: str, epsilon: float, train, test, encoding: Encoding) -> float:
    """Share of wrong answers to plain rows, after training on a release of others."""
    made = make_mechanism(mechanism, {"epsilon_record": epsilon})
    made.fit(train[0], train[1], encoding=encoding)
    block = made.perturb(train[0], train[1], Streams.seeded(0).generator(0, b"bench_majority", b""))
    recipe = made.recipe_
    part = Part(block.X, train[1][block.source], recipe)
    unfitted, queries = make_classifier(classifier), test[0]
    if not made.columnwise:
        queries = made.embed(queries)
    elif not answers_plain_rows(unfitted):
        public = public_map(recipe)
        assert public is not None  # every column goes its own way
        matrix, offset = public
        queries = queries @ matrix.T + offset
    return float(np.mean(fit_on_parts(unfitted, [part]).predict(queries) != test[1]))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--classifier", default="radius-vote")
    options.add_argument("--mechanism", default="additive-noise")
    options.add_argument("--generated", action="store_true")
    folder = Path(os.environ.get("SFUMATO_DATA") or HERE.parent.parent / "shared" / "data")
    options.add_argument("--data", type=Path, default=folder)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    sets = drawn() if chosen.generated or not chosen.data.is_dir() else real(chosen.data)
    print(f"{chosen.classifier} on {chosen.mechanism}: error on plain rows, by epsilon of the record")
    print(f"{'set':24}{'rows x columns':>16}{'classes':>8}{'commonest':>11}" + "".join(f"{e:>9g}" for e in EPSILONS))
    worse = cells = 0
    for name, X, y, encoding in sets:
        few = np.bincount(y)[y].min() < 2
        Xa, Xb, ya, yb = train_test_split(X, y, test_size=TEST_SHARE, random_state=0, stratify=None if few else y)
        commonest = float(np.mean(yb != np.bincount(ya).argmax()))
        line = f"{name:24}{f'{len(X)} x {X.shape[1]}':>16}{len(np.unique(y)):>8}{commonest:>11.3f}"
        for epsilon in EPSILONS:
            try:
                found = error(chosen.classifier, chosen.mechanism, epsilon, (Xa, ya), (Xb, yb), encoding)
            except Exception as failure:
                line += f"{type(failure).__name__[:8]:>9}"
                worse, cells = worse + 1, cells + 1
                continue
            beyond = proportion_interval(round(found * len(yb)), len(yb))[0] > commonest
            worse, cells = worse + beyond, cells + 1
            line += f"{f'{found:.3f}' + ('!' if beyond else ''):>9}"
        print(line, flush=True)
    print(f"{worse} of {cells} worse than the commonest class beyond their interval, or failed")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
