"""What is left of the original's clusters: for an audit that was asked for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.channels import NotApplicableError
from sfumato.errors import SfumatoError
from sfumato.jobs.auditing.evidence import Evidence, sampled
from sfumato.jobs.cluster import compare_with_plain
from sfumato.mining.choosing import AUTO, candidates, choose, expected_agreement
from sfumato.mining.mixture import fit_mixture
from sfumato.mining.seen import Part, see

MOST_ROWS = 3_000


def clusters_lost(evidence: Evidence, clusters: int, seed: int) -> dict[str, Any] | None:
    """Agreement (adjusted Rand index) of clusters found in the release with those of the original; None, with a note,
    where it cannot be told."""
    if not clusters:
        return None
    try:
        found = _lost(evidence, clusters, seed)
    except (SfumatoError, NotApplicableError) as error:
        evidence.notes.append(f"No clusters: {error}")
        return None
    beside = found.get("released_rows_by_k_means")
    evidence.notes.append(
        f"Looking for {clusters} clusters: groups of released rows agree with those of the original to "
        f"{found['released_rows']:.2f}"
        + ("" if beside is None else f" ({beside:.2f} by k-means that ignores the noise)")
        + f", groups of plain rows by the clusters of the release to {found['plain_rows']:.2f} (adjusted Rand index)."
        + ("" if found["is_shown"] else " The release itself does not show that there are so many.")
    )
    return found


def _lost(evidence: Evidence, clusters: int, seed: int) -> dict[str, Any]:
    card, truth = evidence.card, evidence.truth
    if card is None or truth is None:
        raise NotApplicableError("they need a release with its card, and which released row is whose.")
    recipe = card.made_by()
    if recipe.by_class or card.post_processing is not None:
        raise NotApplicableError("the noise of the release differs by class, or is no longer the one that was drawn.")
    rows = sampled(len(truth), MOST_ROWS, np.random.default_rng(seed))
    Z, X = evidence.Z[rows], truth[rows]
    if evidence.key_used and evidence.affine is not None:
        plain = np.asarray(X @ evidence.affine[0].T + evidence.affine[1])
    else:
        plain = recipe.map.apply(X)
    seen = see([Part(Z, recipe, recipe.channels)])
    chosen = choose(candidates(seen, [clusters], AUTO, seed), clusters)
    fitted = fit_mixture(seen, clusters, chosen.model, seed=seed)
    belongs = fitted.responsibilities(seen)
    lost = compare_with_plain(Z, recipe, plain, fitted, seen, belongs.argmax(axis=1), seed)
    told = {"clusters": clusters, "model": chosen.model, "rows": len(Z), "is_shown": chosen.is_shown}
    return {**told, "expected_agreement": expected_agreement(belongs), **lost}
