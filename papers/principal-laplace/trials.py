"""One run of one method on one split: release, attack, classify. Numbers are shares of the range or of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from splits import MOST_ATTACKED, SYNTHETIC, Codes, Matrix, Split, Table, generator
from voting import neighbour_accuracies

from sfumato.attacks import ColumnMoments, Knowledge, KnownNoise, Transform, Values
from sfumato.attacks.linear_estimate import LinearEstimate
from sfumato.attacks.metrics import accuracy, interval_width
from sfumato.attacks.naive_estimate import KnownTransform, NaiveEstimate
from sfumato.attacks.spectral_filter import PrincipalFilter
from sfumato.channels.affine_bound import affine_epsilons
from sfumato.learn.classifiers import Part, RadiusVote, fit_on_parts
from sfumato.mechanisms import AdditiveNoise, Mechanism, PrincipalLaplace, RandomProjection
from sfumato.table import Encoding
from sfumato.table.neighbours import nearest

Found = dict[str, float]

STRONGEST = 0.3
"""The largest b of the paper's experiments."""


def as_published(b: float) -> PrincipalLaplace:
    """Fig. 2 to the letter: half of the components, scales from the scores' own range, floating-point noise."""
    return PrincipalLaplace(b=b, components=0.5, component_bounds="data", noise="float")


def pca_radius(table: Table, b: float, run: int) -> Found:
    """PCA-Radius, PCA-Best-K and PCA-K=5, and the attacks on their release [Figs 5, 8, 9]."""
    split, rng = table.split(run), generator(table.name, "pca-radius", b, run)
    mechanism = as_published(b)
    Z = mechanism.release(split.X, split.y, rng).X
    asked = mechanism.embed(split.Q)
    found: Found = {"mean": privacy(table, split, np.broadcast_to(split.X.mean(axis=0), split.X.shape))}
    known = knowledge(mechanism, Z, split)
    reversed_pca = attacked(KnownTransform(clip=False), known)
    found["reversed"] = privacy(table, split, reversed_pca)
    found["reversed_clipped"] = privacy(table, split, np.clip(reversed_pca, 0, 1))
    found |= filtered(table, known, split)
    found["linear"] = privacy(table, split, attacked(LinearEstimate(), known))
    for name, corrected in (("radius", False), ("corrected", True)):
        vote, predicted = radius_vote(mechanism, Z, split.y, asked, corrected)
        found[name] = accuracy(split.q, predicted)
        found["fallback"] = vote.fallback_rate_
    found["inside"] = inside(vote, Z, asked)
    found |= neighbour_accuracies(Z, split.y, asked, split.q, rng)
    return found


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
    known = knowledge(mechanism, Z, split)
    _, predicted = radius_vote(mechanism, Z, split.y, mechanism.embed(split.Q), True)
    stated = mechanism.guarantee()
    return {
        "accuracy": accuracy(split.q, predicted),
        "linear": privacy(table, split, attacked(LinearEstimate(), known)),
        **filtered(table, known, split),
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


def additive(law: str) -> Callable[[Table, float, int], Found]:
    """Noise on the columns themselves: Rand-U, Rand-N, and Laplace noise without PCA (Fig. 8)."""

    def trial(table: Table, scale: float, run: int) -> Found:
        split, rng = table.split(run), generator(table.name, law, scale, run)
        mechanism = AdditiveNoise(law, scale=scale, noise="float")
        Z = mechanism.release(split.X, split.y, rng).X
        known = knowledge(mechanism, Z, split)
        found = {
            "unfiltered": privacy(table, split, Z),
            "naive": privacy(table, split, attacked(NaiveEstimate(), known)),
            **filtered(table, known, split),
            "linear": privacy(table, split, attacked(LinearEstimate(), known)),
        }
        return found if law == "laplace" else found | neighbour_accuracies(Z, split.y, split.Q, split.q, rng)

    return trial


def rand_p(table: Table, share: str, run: int) -> Found:
    """Rand-P: k random columns, undone by the pseudo-inverse of the random matrix."""
    split, rng = table.split(run), generator(table.name, "rand-p", share, run)
    m = split.X.shape[1]
    k = {"m/4": max(1, m // 4), "m/2": m // 2, "m-1": m - 1}[share]
    mechanism, encoding = RandomProjection(components=k), Encoding.unit(m)
    # The product draws its keys from the operating system; here the matrix must be repeatable.
    matrix = rng.standard_normal((k, m)) / math.sqrt(k)
    drawn = mechanism.draw_key(encoding)
    key = replace(drawn, arrays=dict.fromkeys(drawn.arrays, matrix))
    Z = mechanism.release(split.X, split.y, rng, encoding=encoding, key=key).X
    known = knowledge(mechanism, Z, split, Transform(matrix, np.zeros(k)))
    guess = attacked(KnownTransform(clip=False), known)
    return {
        "filtered": privacy(table, split, guess),
        "filtered_clipped": privacy(table, split, np.clip(guess, 0, 1)),
        "linear": privacy(table, split, attacked(LinearEstimate(), known)),
        **neighbour_accuracies(Z, split.y, mechanism.embed(split.Q), split.q, rng),
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


def radius_vote(mechanism: Mechanism, Z: Matrix, y: Codes, asked: Matrix, corrected: bool) -> tuple[RadiusVote, Codes]:
    """The modified KNN of Fig. 4, fitted on the release, and which class gets most votes (not weighed further)."""
    recipe = mechanism.recipe_
    part = Part(Z, y, recipe)
    vote = fit_on_parts(RadiusVote(prior_correction=corrected), [part])
    return vote, vote.classes_[vote.vote_shares(asked).argmax(axis=1)]


def inside(vote: RadiusVote, Z: Matrix, asked: Matrix, queries: int = 50) -> float:
    """Share of the released rows that lie in the circle of a query, over a few queries."""
    squares = ((asked[:queries, None, :] - Z[None, :MOST_ATTACKED, :]) ** 2).sum(axis=2)
    return float((squares <= vote.squared_radius_[0]).mean())


def knowledge(mechanism: Mechanism, Z: Matrix, split: Split, transform: Transform | None = None) -> Knowledge:
    """The strongest adversary of 6.1.3: knows the transform, how strong the noise is, and the columns' moments."""
    recipe = mechanism.recipe_
    noise = KnownNoise.of(recipe.channels, recipe.map.apply(split.X))
    public = recipe.map.affine()
    assert public is not None
    return Knowledge(
        release=Z[:MOST_ATTACKED],
        encoding=mechanism.encoding_,
        columnwise=mechanism.columnwise,
        transform=transform or noise.on_average(*public),
        noise=noise,
        noise_covariance=noise.covariance(),
        column_moments=ColumnMoments(split.X.mean(axis=0), np.cov(split.X, rowvar=False)),
    )


def attacked(attack: KnownTransform | LinearEstimate | NaiveEstimate, known: Knowledge) -> Matrix:
    """The guess of an attack that has only one."""
    guess = attack.run(known)
    assert isinstance(guess, Values)
    return guess.X


def filtered(table: Table, known: Knowledge, split: Split) -> Found:
    """Filtering with the number of components that comes closest to the original [6.1.3], unclipped and clipped."""
    guess = PrincipalFilter(clip=False).run(known)
    assert isinstance(guess, Values)
    truth = split.X[: len(known.release)]
    errors = [float(((X - truth) ** 2).mean()) for X in guess.candidates]
    best = guess.candidates[int(np.argmin(errors))]
    return {
        "filtered": privacy(table, split, best),
        "filtered_clipped": privacy(table, split, np.clip(best, 0, 1)),
        "filtered_own": privacy(table, split, guess.X),
        "filter_components": float(np.argmin(errors) + 1),
    }


def privacy(table: Table, split: Split, guess: Matrix) -> float:
    """Average privacy: width of the error's 95% interval over the column's range, mean over the columns that vary."""
    guess = guess[:MOST_ATTACKED]
    widths = interval_width(split.X[: len(guess)], guess, span=np.ones(guess.shape[1]))
    return float(widths[table.varies].mean())


TRIALS: dict[str, Callable[..., Found]] = {
    "pca-radius": pca_radius,
    "product": product_default,
    "epsilons": epsilons,
    "laplace": additive("laplace"),
    "rand-u": additive("uniform"),
    "rand-n": additive("normal"),
    "rand-p": rand_p,
    "original": original,
}
