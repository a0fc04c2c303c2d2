"""One run of one method on one split: the product's own trials, with a generator for each. Numbers are shares of the
range or of the rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from splits import SYNTHETIC, Table, generator

from sfumato.attacks.linear_estimate import LinearEstimate
from sfumato.attacks.metrics.utility import accuracy
from sfumato.auditing.figures.principal_laplace import (
    STRONGEST,
    additive,
    as_published,
    attacked,
    filtered,
    knowledge,
    neighbour_accuracies,
    pca_radius,
    privacy,
    radius_vote,
    rand_p,
)
from sfumato.channels.affine_bound import affine_epsilons
from sfumato.mechanisms import PrincipalLaplace
from sfumato.table import Encoding
from sfumato.table.neighbours.nearest import nearest

Found = dict[str, float]


def product_default(table: Table, same: str, run: int) -> Found:
    """The product's own default: public widths, exact noise, votes corrected for class priors.

    At the b of the paper's strongest noise, or at the record epsilon that the published release has at that b
    (conditionally, and once its scores are clipped).
    """
    split, rng = table.split(run), generator(table.name, "product", same, run)
    width = split.X.shape[1]
    wanted = {} if same == "b" else {"epsilon_record": as_published(STRONGEST).fit(split.X).guarantee().record}
    mechanism = PrincipalLaplace(b=STRONGEST, **wanted)
    Z = mechanism.release(split.X, split.y, rng, encoding=Encoding.unit(width, public=True)).X
    known = knowledge(mechanism, Z, split.X)
    _, predicted = radius_vote(mechanism, Z, split.y, mechanism.embed(split.Q), True)
    stated = mechanism.guarantee()
    return {
        "accuracy": accuracy(split.q, predicted),
        "linear": privacy(split, attacked(LinearEstimate(), known)),
        **filtered(known, split),
        "b": mechanism.b_,
        "column": stated.column,
        "record": stated.record,
        "exact": float(stated.exact),
    }


def epsilons(table: Table, b: float, run: int) -> Found:  # noqa: ARG001
    """What e^(1/b) per component means for a column and a record, with the published widths [errata to Eq. 8].

    Of the whole table. Unclipped: as published, scores of new records may lie outside the range of the old ones.
    """
    mechanism = as_published(b).fit(table.X)
    scales = np.array([1 / channel.steepness for channel in mechanism.recipe_.channels])
    groups, s = mechanism.encoding_.groups, len(scales)
    clipped = mechanism.guarantee()
    free = affine_epsilons(mechanism.matrix_, scales, np.full(s, 1e9), groups)
    return {
        "components": float(s),
        "component": clipped.component,
        "column": clipped.column,
        "record": clipped.record,
        **({"record_unclipped": free.record} if free.exact else {}),
    }


def original(table: Table, _: object, run: int) -> Found:
    """Unperturbed rows, b = 0: all columns, best k and k = 5.

    On the synthetic sets also the nearest cluster mean: with spherical clusters no classifier can do better.
    """
    split = table.split(run)
    found = neighbour_accuracies(split.X, split.y, split.Q, split.q, generator(table.name, "original", run))
    if table.name in SYNTHETIC:
        means = np.array([split.X[split.y == code].mean(axis=0) for code in np.unique(split.y)])
        spread = np.mean([split.X[split.y == code].std(axis=0) for code in np.unique(split.y)], axis=0)
        predicted = nearest(split.Q / spread, means / spread)[1][:, 0]
        found["nearest_mean"] = accuracy(split.q, predicted)
    return found


def on_split(words: str, trial: Callable[..., Found]) -> Callable[[Table, object, int], Found]:
    """A trial of the product on the paper's split, with a generator of its own."""
    return lambda table, setting, run: trial(table.split(run), setting, generator(table.name, words, setting, run))


TRIALS: dict[str, Callable[..., Found]] = {
    "pca-radius": on_split("pca-radius", pca_radius),
    "product": product_default,
    "epsilons": epsilons,
    "laplace": on_split("laplace", additive("laplace")),
    "rand-u": on_split("uniform", additive("uniform")),
    "rand-n": on_split("normal", additive("normal")),
    "rand-p": on_split("rand-p", rand_p),
    "original": original,
}
