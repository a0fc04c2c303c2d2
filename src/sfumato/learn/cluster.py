"""Releases in, clusters of plain rows out: clusters.csv, rows.parquet, clusters.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.channels import Exact, Recipe
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.learn.asked import AUTO, ClusterAsked
from sfumato.learn.mining.choosing import (
    Mixture,
    adjusted_rand,
    candidates,
    choose,
    expected_agreement,
    fit_mixture,
    stability,
)
from sfumato.learn.mining.seen import Mined, Part, Seen, file_order, parts_of, pooled, see
from sfumato.release.release import Release, Releases
from sfumato.table import open_table

TRIED = range(2, 9)
"""How many clusters are tried where their number is not given."""

ROWS_PER_CLUSTER = 5
"""Fewer rows tell nothing of a cluster's spread."""
BLURRED = 0.5
"""Below this expected agreement the groups of single rows are said to be mostly noise."""


@dataclass(frozen=True, repr=False)
class Clustering(Mined):
    """Clusters of the plain rows behind a release.

    Attributes
    ----------
    labels : numpy.ndarray of int
        The likeliest cluster of every released row, 0 for the largest.
    probabilities : numpy.ndarray
        P(cluster | released row), one column for each cluster.
    about : dict
        Everything in figures: shares, held-out likelihoods, stability, and for the owner what was lost.
    """

    name: ClassVar[str] = "clusters"
    mixture: Mixture
    labels: Codes
    probabilities: Matrix
    centres: pa.Table
    about: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Clustering of {len(self.labels):,} released rows: {self.mixture.clusters} clusters>"

    def files(self) -> dict[str, pa.Table]:
        """clusters.csv (centres) and rows.parquet (cluster of each released row)."""
        certainty = self.probabilities.max(axis=1)
        rows = pa.table({"cluster": self.labels, "probability": certainty})
        return {"clusters.csv": self.centres, "rows.parquet": rows}


@asks(ClusterAsked)
def cluster(releases: Releases, options: ClusterAsked) -> Clustering:
    """Clusters of the plain rows behind releases: the noise on their cards is taken out.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Of one space. Each part's noise is read from its own card.
    {options}

    Returns
    -------
    Clustering
        `labels`, `probabilities`, `centres`, `about` and `warnings`; `save(folder)` writes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [24, 61, 27, 66, 22] * 40}
    >>> release = sf.sanitize(people, mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)
    >>> found = sf.cluster(release, clusters=2, resamples=0)
    >>> [round(share, 1) for share in found.about["shares"]]
    [0.6, 0.4]
    """
    wanted, original, seed = _wanted(options.clusters), options.original, options.seed
    releases = pooled(releases, public=original is None)
    parts = [part for release in releases for part in parts_of(release)]
    _check_rows(sum(len(part.Z) for part in parts), wanted)
    seen = see(parts)
    tried = candidates(seen, TRIED if wanted is None else [wanted], options.model, seed)
    chosen = choose(tried, wanted)
    fitted = fit_mixture(seen, chosen.clusters, chosen.model, seed=seed)
    probabilities = fitted.responsibilities(seen)
    placed = np.empty_like(probabilities)
    placed[file_order(releases)] = probabilities
    labels: Codes = placed.argmax(axis=1)
    about: dict[str, Any] = {
        "rows": len(labels),
        "clusters": chosen.clusters,
        "model": chosen.model,
        "chosen_by": "held-out likelihood of released rows" if wanted is None else "given",
        "shares": fitted.weights.tolist(),
        "tried": [one.to_dict() for one in tried],
        "is_shown": chosen.clusters > 1 and chosen.is_shown,
        "expected_agreement": expected_agreement(probabilities),
        "stability": stability(seen, fitted, options.resamples, seed) if chosen.clusters > 1 else [],
    }
    if original is not None:
        about["lost"] = lost(releases, fitted, seen, labels, original, seed)
    about["warnings"] = _warnings(about, releases)
    centres = _centres(releases[0].card.made_by(), fitted, seen)
    return Clustering(fitted, labels, placed, centres, about)


def _wanted(clusters: int | str) -> int | None:
    """The number of clusters that is asked for, if one is."""
    if clusters == AUTO:
        return None
    if isinstance(clusters, bool | str) or int(clusters) < 1:
        raise UsageError(f"The number of clusters must be a whole number above 0, or auto. Got {clusters!r} instead.")
    return int(clusters)


def _check_rows(rows: int, wanted: int | None) -> None:
    if rows < 20:
        raise UsageError("There are fewer than 20 released rows: nothing can be said of clusters behind noise.")
    if wanted is not None and wanted > rows // ROWS_PER_CLUSTER:
        raise UsageError(
            f"{wanted:,} clusters are too many for {rows:,} released rows. "
            f"Ask for at most {rows // ROWS_PER_CLUSTER:,}, or auto."
        )


def _warnings(about: dict[str, Any], releases: Sequence[Release]) -> list[str]:
    found = []
    if about["clusters"] == 1:
        found.append("One cluster explains the released rows best: if there are more, the noise hides them.")
    elif not about["is_shown"]:
        found.append(
            f"The release does not show that there are {about['clusters']} clusters: rows held out are not clearly "
            "likelier than under one cluster. Do not rely on them."
        )
    if about["clusters"] > 1 and about["expected_agreement"] < BLURRED:
        found.append(
            f"Single rows cannot be told apart: even if the clusters are right, the groups of released rows agree with "
            f"them to {about['expected_agreement']:.2f} (adjusted Rand index). Use the centres and shares, and assign "
            "plain rows."
        )
    if any(release.card.made_by().rows != "perturbed" for release in releases):
        found.append("Released rows were drawn, so several can come from one person: held-out rows are not new people.")
    return found


def _centres(recipe: Recipe, fitted: Mixture, seen: Sequence[Seen]) -> pa.Table:
    """Share and centre of every cluster: source columns in raw units, or components as they are released."""
    found = np.full((fitted.clusters, recipe.width), 0.5)  # means of what channels were given; 1/2 of a constant
    for one, laws in zip(seen, fitted.laws, strict=True):
        found[:, one.place] = laws.over(one).T @ one.nodes
    told = {"cluster": np.arange(fitted.clusters), "share": fitted.weights}
    columns = {f"c{place:03d}": found[:, place] for place in range(recipe.width)}
    if recipe.is_columnwise:
        columns = {}
        for group in recipe.encoding.groups:
            inside = found[:, group.slice]
            if group.is_onehot:
                columns |= {f"{group.column.name}={slot}": inside[:, j] for j, slot in enumerate(group.slots)}
                continue
            low, high = group.column.bounds
            missing = inside[:, 1] if group.has_indicator else np.zeros(len(inside))
            shown = (inside[:, 0] - 0.5 * missing) / np.maximum(1.0 - missing, 1e-12)
            columns[group.column.name] = low + (high - low) * shown
            if group.has_indicator:
                columns[f"{group.column.name} missing"] = missing
    return pa.table({**told, **columns})


def lost(
    releases: Sequence[Release], fitted: Mixture, seen: Sequence[Seen], labels: Codes, original: Any, seed: int
) -> dict[str, float]:
    """For the owner: adjusted Rand index against the same clustering of the original rows, and of plain k-means."""
    if len(releases) != 1 or releases[0].source is None:
        raise UsageError("What was lost can be told to the owner only, of one release with its private match file.")
    release = releases[0]
    recipe = release.card.made_by()
    plain = recipe.map.apply(recipe.encoding.encode(open_table(original).read()).X[release.source])
    return compare_with_plain(Part(release.Z, recipe, recipe.channels), plain, fitted, seen, labels, seed)


def compare_with_plain(
    released: Part, plain: Matrix, fitted: Mixture, seen: Sequence[Seen], labels: Codes, seed: int = 0
) -> dict[str, float]:
    """`plain`: what the channels were given of every released row.

    `released_rows`: their groups against the clusters of the original; `plain_rows`: the original rows grouped by the
    clusters found in the release. Both also of k-means that takes released values for true ones.
    """
    from sklearn.cluster import KMeans

    Z, recipe = released.Z, released.recipe
    whole = Recipe(recipe.encoding, recipe.map, (Exact(recipe.width),))
    nodes = {one.name: one for one in seen}
    exact = [one for one in see([Part(plain, whole, whole.channels)]) if one.name in nodes]
    best = fit_mixture(exact, fitted.clusters, fitted.model, seed=seed)
    truth = best.responsibilities(exact).argmax(axis=1)
    told = {
        "released_rows": adjusted_rand(truth, labels),
        "plain_rows": adjusted_rand(truth, fitted.responsibilities(exact).argmax(axis=1)),
    }
    if np.isnan(Z).any():
        return told
    naive = KMeans(fitted.clusters, n_init=5, random_state=seed).fit(Z)
    told["released_rows_by_k_means"] = adjusted_rand(truth, naive.labels_)
    told["plain_rows_by_k_means"] = adjusted_rand(truth, naive.predict(np.ascontiguousarray(plain)))
    return told
