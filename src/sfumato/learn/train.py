"""Pool releases of one space, and train a classifier that knows their noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.channels.staged import Staged
from sfumato.core.array_types import Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.wording import to_type
from sfumato.guarantee import Card
from sfumato.learn.asked import TrainAsked
from sfumato.learn.classifiers.factory import CLASSIFIERS, Choice, choose_classifier, make_classifier
from sfumato.learn.classifiers.reads_noise import Part, mean_keep
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts, public_map
from sfumato.learn.mining.seen import pooled
from sfumato.learn.model import FORMAT, VERSION, Model
from sfumato.noise.response import onto_simplex
from sfumato.release.release import Releases

MOST_TRIED = 1_000
"""Rows of the release that a trained model is tried on."""


@asks(TrainAsked)
def train(releases: Releases, options: TrainAsked) -> Model:
    """Pool releases of one space, and train a classifier that knows their noise.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Releases with a label, or their folders. Each part's noise is read from its own card.
    {options}

    Returns
    -------
    Model
        `model.predict(table)` classifies plain rows; `model.save("model.skops")` keeps it.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)
    >>> model = sf.train(release, classifier="reconstructed-naive-bayes")
    >>> model
    <Model reconstructed-naive-bayes from 100 released rows>
    >>> list(model.predict({"age": [30, 60]}))
    ['no', 'yes']
    """
    chosen = choose_classifier(options.classifier, options.parameters)
    make_classifier(chosen, options.reconstruction)  # what cannot be is found before releases are read
    releases = pooled(releases)
    if options.published:
        papers = sorted({paper for release in releases for paper in release.card.papers})
        chosen = choose_classifier(options.classifier, options.parameters, published=papers)
    unfitted = make_classifier(chosen, options.reconstruction)
    parts = []
    for release in releases:
        if release.y is None and release.card.target is not None:
            instead = to_type("mine regress", target=release.card.target)
            raise SchemaError(
                f"The release {release.where} has a number to predict, and classifiers learn classes. Use `{instead}`."
            )
        if release.y is None:
            raise SchemaError(f"The release {release.where} has no column to predict. Release with --label.")
        parts.append(Part.of_card(release.Z, release.y, release.card))
    fitted = fit_on_parts(unfitted, parts)
    about = about_model(chosen, [release.card for release in releases], options.reconstruction) | settled(fitted)
    about |= {"as_published": True} if options.published else {}
    return Model(fitted, about | _beside(fitted, parts))


def _beside(fitted: Any, parts: Sequence[Part]) -> dict[str, Any]:
    """What a model's answers are held against: the share of the commonest class, before randomization where labels were
    randomized; and whether everybody gets the same answer, of some of the rows it was trained on or by its own account.
    """
    counts = np.bincount(np.concatenate([part.y for part in parts]))
    keep, shares, k = mean_keep(parts), counts / counts.sum(), max(len(counts), 2)
    if keep < 1.0:
        other = (1.0 - keep) / (k - 1)
        shares = onto_simplex((np.pad(shares, (0, k - len(counts))) - other) / (keep - other))
    alike = bool(getattr(getattr(fitted, "classifier_", fitted), "answers_prior_", False))
    if not alike:
        rows = np.concatenate([_to_try(part, getattr(fitted, "reads_stages", False)) for part in parts])[:MOST_TRIED]
        alike = len(np.unique(fitted.predict(rows))) == 1
    return {"commonest": float(shares.max()), "answers_one_class": alike}


def _to_try(part: Part, stages: bool) -> Matrix:
    """Some of its rows. A cell that is left out is taken from rows that report it: what is tried is the model alone.

    `stages`: the model answers for plain rows of a release in stages.
    """
    rows = part.Z[:MOST_TRIED]
    gaps = np.isnan(rows)
    if not gaps.any() or part.source is None:
        return rows
    whole = rows.copy()
    for place in part.source.places:
        absent = np.flatnonzero(gaps[:, place.start])
        there = np.flatnonzero(~np.isnan(part.Z[:, place.start]))
        if len(absent):
            whole[absent, place] = part.Z[np.resize(there, len(absent)), place] if len(there) else 0.5
    if not (stages and isinstance(part.source.map, Staged)):
        return whole
    # What a release in stages shows of the source's own columns.
    plain, start = np.full((len(whole), part.source.encoding.width), 0.5), 0
    for group in part.source.map.groups:
        plain[:, group.slice] = whole[:, start : start + group.width]
        start += group.width
    return plain


STAGED = (
    "The model was trained on a release with stages, whose rows mean something only with their stage. It answers for "
    "rows that were released likewise; plain rows need a classifier that knows the stages."
)


def _embedding(card: Card, plain: bool, stages: bool) -> dict[str, Any]:
    """The public map of plain rows to where the release lies on average, as far as the card tells.

    A column-wise release lies where its source does, unless noise has another mean. Classifiers that answer for `plain`
    rows need no such map then; nor do those that read `stages`. Where there is none, the model says why.
    """
    kind = card.transform["kind"]
    # plain answers of a guided survey are classified as they are
    if (card.is_columnwise and plain) or (kind == "staged" and stages) or kind == "guided":
        return {"kind": "identity"}
    if kind == "staged":
        return {"kind": "unknown", "why": STAGED}
    if card.is_columnwise:
        try:
            placed = public_map(card.made_by())
            assert placed is not None  # the map of columns that keep their place
            matrix, offset = placed
        except UsageError as error:
            return {"kind": "unknown", "why": str(error)}
        if np.array_equal(matrix, np.eye(len(matrix))) and not offset.any():
            return {"kind": "identity"}
        return {"kind": "affine", "matrix": matrix.tolist(), "offset": offset.tolist()}
    return {name: value for name, value in card.transform.items() if name != "variances"}


def settled(fitted: Any) -> dict[str, Any]:
    """What training chose on the rows themselves, for the model's card; nothing where there was nothing to choose."""
    if (losses := getattr(fitted, "losses_", None)) is not None:  # a choice between classifiers
        keeps = fitted.chosen_ in CLASSIFIERS and CLASSIFIERS[fitted.chosen_].keeps_rows
        told = {"classifier": fitted.chosen_, "held_out_loss": {name: round(loss, 6) for name, loss in losses.items()}}
        return {"chosen": told | {"skipped": fitted.skipped_}, "contains_rows": keeps}
    inner = getattr(fitted, "classifier_", fitted)
    found = {name: getattr(inner, f"{name}_") for name in ("k", "width") if hasattr(inner, f"{name}_")}
    return {"chosen": found} if found else {}


def about_model(classifier: Choice, cards: Sequence[Card], reconstruction: str | None = None) -> dict[str, Any]:
    """The model's own card."""
    chosen, card = choose_classifier(classifier), cards[0]
    made = make_classifier(chosen, reconstruction)
    published = reconstruction is None and chosen.is_published({paper for used in cards for paper in used.papers})
    plain, stages = answers_plain_rows(made), bool(getattr(made, "reads_stages", False))
    return {
        "format": FORMAT,
        "version": VERSION,
        "classifier": chosen.name,
        "parameters": chosen.get_params(),
        **({"as_published": True} if published else {}),
        "reconstruction": reconstruction,
        "answers_plain_rows": plain,
        "contains_rows": chosen.keeps_rows,
        "space": card.space,
        "source_schema": dict(card.source_schema),
        "release_columns": [column["name"] for column in card.release_schema["columns"]],
        "columnwise": card.is_columnwise,
        "transform": _embedding(card, plain, stages),
        "classes": list(card.classes),
        "label": card.release_schema["label"]["name"],
        "releases": [
            {
                "mechanism": used.mechanism["name"],
                "rows": used.rows,
                "guarantee": used.guarantee["kind"],
                "epsilon_record": used.guarantee["epsilon_record"],
                **({"central": used.guarantee["central"]} if used.guarantee.get("central") else {}),
                "earlier_releases": dict(used.earlier_releases),
                "words": used.guarantee["words"],
            }
            for used in cards
        ],
        "rows": sum(used.rows for used in cards),
    }
