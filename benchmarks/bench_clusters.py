"""Clusters found in noisy releases, against k-means that takes released values for true ones: adjusted Rand index.

Iris, Wdbc, Wine and Pendigits, as many clusters as classes, all against the classes. "components": principal-laplace as
published (half of the components, their own ranges); "columns": Laplace noise of scale b of the range on every column.
"released" groups the released rows; "plain" groups the original rows by the clusters that were found in the release.
"ceiling": released rows by somebody who knows the classes' own means and variances.

Run: python benchmarks/bench_clusters.py [--repeats 3] [--rows 3000] [--sets iris wdbc]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `papers.data`

from papers.data import DataMissingError, load

from sfumato.channels import Exact, Recipe
from sfumato.learn.asked import MIXTURES
from sfumato.learn.cluster import Laws, Mixture, adjusted_rand, fit_mixture
from sfumato.learn.mining.seen import Part, see
from sfumato.mechanisms import AdditiveNoise, PrincipalLaplace

SETS = {"iris": 3, "wdbc": 2, "wine": 3, "pendigits": 10}
SCALES = (0.1, 0.3)


def known_classes(seen, plain, y):
    """The mixture whose clusters are the classes, from the plain rows."""
    codes = np.unique(y)
    laws = tuple(
        Laws(
            np.array([plain[y == c, one.place.start].mean() for c in codes]),
            np.maximum([plain[y == c, one.place.start].var() for c in codes], one.step**2),
            np.zeros((len(codes), 0)),
        )
        for one in seen
    )
    return Mixture("diagonal", np.array([np.mean(y == c) for c in codes]), laws)


def one_run(mechanism, X, y, clusters, seed):
    mechanism.fit(X, y)
    recipe = mechanism.recipe_
    Z, plain = mechanism.perturb(X, y, np.random.default_rng(seed)).X, recipe.map.apply(X)
    seen = see([Part(Z, recipe, recipe.channels)])
    whole = Recipe(recipe.encoding, recipe.map, (Exact(recipe.width),))
    exact = see([Part(plain, whole, whole.channels)])
    naive = KMeans(clusters, n_init=10, random_state=seed).fit(np.ascontiguousarray(Z))
    found = [adjusted_rand(y, naive.labels_), adjusted_rand(y, naive.predict(np.ascontiguousarray(plain)))]
    for model in MIXTURES:
        mixture = fit_mixture(seen, clusters, model, seed=seed)
        found += [adjusted_rand(y, mixture.responsibilities(part).argmax(axis=1)) for part in (seen, exact)]
    ceiling = known_classes(seen, plain, y).responsibilities(seen).argmax(axis=1)
    return [*found, adjusted_rand(y, ceiling)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--rows", type=int, default=3000)
    options.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    heads = ["k-means", *MIXTURES]
    print("| set, rows | noise | b | " + " | ".join(f"{h}: released, plain" for h in heads) + " | ceiling, released |")
    print("|---" * (4 + len(heads)) + "|")
    for name in chosen.sets:
        clusters = SETS[name]
        try:
            data = load(name)
        except DataMissingError as error:
            print(f"{name}: left out, {error}")
            continue
        X = (data.X - data.X.min(axis=0)) / np.ptp(data.X, axis=0)
        X, y = X[: chosen.rows], data.y[: chosen.rows]
        plain = adjusted_rand(y, KMeans(clusters, n_init=10, random_state=0).fit_predict(X))
        print(f"| {name}, {len(X):,} | none | 0 | {plain:.2f} | | | |", flush=True)
        for b in SCALES:
            for noise in ("components", "columns"):
                runs = []
                for seed in range(chosen.repeats):
                    mechanism = (
                        PrincipalLaplace(b=b, component_bounds="data")
                        if noise == "components"
                        else AdditiveNoise(scale=b)
                    )
                    runs.append(one_run(mechanism, X, y, clusters, seed))
                mean = np.mean(runs, axis=0)
                pairs = " | ".join(f"{mean[2 * j]:.2f}, {mean[2 * j + 1]:.2f}" for j in range(len(heads)))
                print(f"| {name}, {len(X):,} | {noise} | {b} | {pairs} | {mean[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
