"""Pool releases of one space, train a classifier, and write it with what prediction needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.channels.staged import Staged
from sfumato.core.array_types import Floats, Matrix
from sfumato.core.as_published import follows
from sfumato.core.errors import CardError, SchemaError, UsageError
from sfumato.core.files import check_free
from sfumato.guarantee import Card
from sfumato.learn.classifiers.auto import AutoClassifier
from sfumato.learn.classifiers.embedding import public_map
from sfumato.learn.classifiers.factory import CLASSIFIERS, Choice, choose_classifier, make_classifier
from sfumato.learn.classifiers.label_noise import corrected_priors
from sfumato.learn.classifiers.training import Part, answers_plain_rows, fit_on_parts, part_of_card
from sfumato.learn.model import FORMAT, VERSION, Model
from sfumato.noise import OperatorNoise
from sfumato.reconstruction import Density, Shares, reconstruct
from sfumato.reconstruction.described import Described, describe
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.noise_strength import NoiseStrength, estimate_common_strength
from sfumato.release.release import Release
from sfumato.table import Encoding
from sfumato.table.arrays import day_numbers, numbers, plain

# Released columns as values, block by block, and the distribution behind one of them; nothing is written.


BLOCK = 1 << 18


def reconstruct_from(releases: Sequence[Release], column: str, method: Method, **options: Any) -> Density | Shares:
    """One column of releases that are open, in folders or in memory; nothing is written."""
    check_apart(releases)
    values = [_values(release, describe(release.card, column)) for release in releases]
    return reconstruct(values, [release.card for release in releases], column=column, method=method, **options)


def _values(release: Release, one: Described) -> Iterator[Any]:
    """The released column, block by block."""
    return _blocks(release.blocks(one.name, rows=BLOCK), one, release)


def _blocks(batches: Iterator[pa.RecordBatch], one: Described, release: Release) -> Iterator[Any]:
    met = 0
    for batch in batches:
        met += batch.num_rows
        yield batch.column(0).to_pylist() if one.is_categorical else as_numbers(batch.column(0), one)
    if met != release.card.rows:
        raise CardError(f"The card of {release.folder} states {release.card.rows} rows, but the release has {met}.")


def as_numbers(array: Any, one: Described) -> Floats:
    """Cells as raw numbers, empty ones as NaN; dates as days."""
    read = day_numbers if one.kind == "date" else numbers
    found, empty = read(plain(array), one.name)
    return found if empty is None else np.where(empty, np.nan, found)


def strength_of(releases: Sequence[Release], column: str) -> NoiseStrength:
    """What the released values themselves say about the strength of their noise; 1 is what each card states."""
    check_apart(releases)
    parts, described = [], [describe(release.card, column) for release in releases]
    for release, one in zip(releases, described, strict=True):
        if not isinstance(one.noise, OperatorNoise) or one.missing_keep is not None:
            raise UsageError(
                f"The strength of the noise of column {column!r} cannot be estimated: it has other noise too."
            )
        parts.append((np.concatenate(list(_values(release, one))), one.noise))
    support = min(one.low for one in described), max(one.high for one in described)
    return estimate_common_strength(parts, support)


def check_apart(releases: Sequence[Release]) -> None:
    """At least one, and every release once, whichever way it was named."""
    places = {id(one) if one.folder is None else one.folder.resolve() for one in releases}
    if not releases or len(places) < len(releases):
        raise UsageError("Give at least one release, and each of them once: its rows would count twice.")


def blocks_of(release: Release, described: Sequence[Described]) -> Iterator[list[Any]]:
    """The values of several columns, block by block."""
    for batch in release.blocks(*(one.name for one in described), rows=BLOCK):
        yield [
            batch.column(one.name).to_pylist() if one.is_categorical else as_numbers(batch.column(one.name), one)
            for one in described
        ]


MOST_TRIED = 1_000
"""Rows of the release that a trained model is tried on."""


def train(
    folders: Sequence[Path],
    classifier: Choice,
    out: Path,
    *,
    reconstruction: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    published: bool = False,
    force: bool = False,
) -> Model:
    """Train `classifier` on the pooled releases in `folders`; every part's noise is taken from its own card.

    With a `reconstruction` ("by-class", "global") it learns from reconstructed values in place of the noisy ones.
    """
    chosen = choose_classifier(classifier, parameters, published=published)
    check_free(out, force=force)
    make_classifier(chosen, reconstruction)  # what cannot be is found before releases are read
    model = train_on([Release.open(folder) for folder in folders], chosen, reconstruction)
    model.save(out)
    return model


def train_on(
    releases: Sequence[Release],
    classifier: Choice,
    reconstruction: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    published: bool = False,
) -> Model:
    """The same of releases that are open, in folders or in memory; nothing is written."""
    chosen = choose_classifier(classifier, parameters, published=published)
    check_apart(releases)
    unfitted = make_classifier(chosen, reconstruction)
    cards = [release.card for release in releases]
    check_one_space(cards, [str(one.folder or f"release {place}") for place, one in enumerate(releases, start=1)])
    parts = [_part(release) for release in releases]
    fitted = fit_on_parts(unfitted, parts)
    about = about_model(chosen, cards, reconstruction) | settled(fitted)
    about |= {"commonest": commonest_share(parts), "answers_one_class": answers_one_class(fitted, parts)}
    return Model(fitted, about)


def commonest_share(parts: Sequence[Part]) -> float:
    """The share of the commonest class, before randomization where labels were randomized: the figure to beat."""
    counts = np.bincount(np.concatenate([part.y for part in parts]))
    k = max(len(counts), 2)
    keep = float(np.average([part.label_keep for part in parts], weights=[len(part.y) for part in parts]))
    shares = counts / counts.sum() if keep >= 1.0 else corrected_priors(np.pad(counts, (0, k - len(counts))), keep, k)
    return float(shares.max())


def answers_one_class(fitted: Any, parts: Sequence[Part]) -> bool:
    """Whether the same class is answered to everybody: of some of the rows it was trained on, or by its own account."""
    inner = getattr(fitted, "classifier_", fitted)
    if getattr(inner, "answers_prior_", False):
        return True
    stages = bool(getattr(fitted, "reads_stages", False))
    rows = np.concatenate([_to_try(part, stages) for part in parts])[:MOST_TRIED]
    return len(np.unique(fitted.predict(rows))) == 1


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
    if stages and isinstance(part.source.map, Staged):
        return _first_stage(part.source.map, whole, part.source.encoding)
    return whole


def _first_stage(staged: Staged, rows: Matrix, encoding: Encoding) -> Matrix:
    """What a release in stages shows of the source's own columns."""
    plain, start = np.full((len(rows), encoding.width), 0.5), 0
    for group in staged.groups:
        plain[:, group.slice] = rows[:, start : start + group.width]
        start += group.width
    return plain


def check_one_space(cards: Sequence[Card], names: Sequence[str]) -> None:
    """Releases of different spaces mean different numbers, and are never trained on together."""
    for card, name in zip(cards, names, strict=True):
        if card.space != cards[0].space:
            raise CardError(
                f"{name} and {names[0]} do not fit together (columns, bounds, basis or key differ), so they "
                "cannot be pooled. Release them with the same --schema and the same basis or --key."
            )


def _part(release: Release) -> Part:
    if release.y is None:
        if release.card.target is not None:
            raise SchemaError(
                f"The release {release.where} has a number to predict, and classifiers learn classes. Use `sfumato "
                f"regress --target {release.card.target}`."
            )
        raise SchemaError(f"The release {release.where} has no column to predict. Release with --label.")
    return part_of_card(release.Z, release.y, release.card)


STAGED = (
    "The model was trained on a release with stages, whose rows mean something only with their stage. It answers for "
    "rows that were released likewise; plain rows need a classifier that knows the stages."
)


def _embedding(card: Card, plain: bool, stages: bool) -> dict[str, Any]:
    """The public map of plain rows to where the release lies on average, as far as the card tells.

    A column-wise release lies where its source does, unless noise has another mean. Classifiers that answer for `plain`
    rows need no such map then; nor do those that read `stages`. Where there is none, the model says why.
    """
    if card.is_columnwise and plain:
        return {"kind": "identity"}
    if card.transform["kind"] == "staged":
        return {"kind": "identity"} if stages else {"kind": "unknown", "why": STAGED}
    if card.transform["kind"] == "guided":
        return {"kind": "identity"}  # plain answers are classified as they are
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
    if isinstance(fitted, AutoClassifier):
        losses = {name: round(loss, 6) for name, loss in fitted.losses_.items()}
        keeps = fitted.chosen_ in CLASSIFIERS and CLASSIFIERS[fitted.chosen_].keeps_rows
        told = {"classifier": fitted.chosen_, "held_out_loss": losses, "skipped": fitted.skipped_}
        return {"chosen": told, "contains_rows": keeps}
    inner = getattr(fitted, "classifier_", fitted)
    found = {name: getattr(inner, f"{name}_") for name in ("k", "width") if hasattr(inner, f"{name}_")}
    return {"chosen": found} if found else {}


def about_model(classifier: Choice, cards: Sequence[Card], reconstruction: str | None = None) -> dict[str, Any]:
    """The model's own card."""
    chosen = choose_classifier(classifier)
    made = make_classifier(chosen, reconstruction)
    card, plain, stages = cards[0], answers_plain_rows(made), bool(getattr(made, "reads_stages", False))
    return {
        "format": FORMAT,
        "version": VERSION,
        "classifier": chosen.name,
        "parameters": chosen.get_params(),
        **({"as_published": True} if follows(chosen.published, chosen.get_params()) else {}),
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
