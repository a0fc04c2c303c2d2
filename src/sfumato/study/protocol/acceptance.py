"""When a study takes a release: the same rules at the site, before anything leaves it, and at the server."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.channels.measured import Measurement
from sfumato.core.errors import CardError, SfumatoError
from sfumato.guarantee import Card
from sfumato.guarantee.guarantee import CENTRAL_DP
from sfumato.guarantee.own_words import listed
from sfumato.guarantee.recompute import Recomputed, recomputed
from sfumato.guarantee.rounding import rounded_up
from sfumato.mechanisms.central.agreed import AgreedPlan
from sfumato.release.asked import Presence
from sfumato.release.counts_file import expected_measurements
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.table import Column, Schema

MAP_FIELDS = ("kind", "low", "high", "categories", "edges", "missing")
"""What decides how a column's values become numbers; reasons and weights may differ between sites."""

COUNTS_TRAIN = "Sites of this study push noisy counts to train on. Give public rows to test with: `sfumato study test`."


def objections(study: PoolStudy, card: Card) -> list[str]:
    """Every reason to refuse a release with this card, in words; empty where there is none."""
    try:
        found = list(_schema(study, card))
        if not found:  # the rest is computed on the card's schema, which is now known to be the study's
            found = [*_made(study, card), *_guaranteed(study, card)]
    except SfumatoError as error:
        return [str(error)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ["The card cannot be understood: it was edited or is damaged."]
    return found


def _schema(study: PoolStudy, card: Card) -> Iterator[str]:
    expected, found = _travelling(study.schema), _travelling(Schema.from_dict(card.source_schema))
    if [(column.name, column.role) for column in found] != [(column.name, column.role) for column in expected]:
        yield (
            f"The release's columns are not the study's: expected {_names(expected)}, found {_names(found)}. "
            "Sanitize with the study's schema."
        )
        return
    for column, wanted in zip(found, expected, strict=True):
        for field in MAP_FIELDS:
            if getattr(column, field) != getattr(wanted, field):
                yield f"Column {wanted.name!r}: {field!r} differs from the study's. Sanitize with the study's schema."
        if wanted.noise is not None and column.choices != wanted.choices:
            yield f"Column {wanted.name!r}: its `noise` is not the study's. Sanitize with the study's schema."
    if card.target is not None:
        yield "The release has a number to predict, which studies do not pool. Sanitize without --target."
    label = card.release_schema["label"]
    if study.schema.label is None:
        return
    if label is None:
        yield f"The release has no label, but the study learns to predict {expected[-1].name!r}."
    elif label["name"] != expected[-1].name or tuple(label["classes"]) != expected[-1].categories:
        yield f"The classes of the column to predict {expected[-1].name!r} are not the study's."


def _travelling(schema: Schema) -> list[Column]:
    """The columns that a card speaks of: the private ones, and the label last."""
    return [*schema.private, *([schema.label] if schema.label else [])]


def _names(columns: list[Column]) -> str:
    names = [repr(column.name[:40]) for column in columns]
    return (", ".join(names[:20]) or "none") + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _made(study: PoolStudy, card: Card) -> Iterator[str]:
    if card.reproducible:
        yield "The release was made with a fixed seed: anybody can repeat its noise. Sanitize again without --seed."
    if study.quota is not None and study.quota.rows is not None and card.rows > study.quota.rows:
        yield f"The release has {card.rows} rows, and the study takes {study.quota.rows} of one site at most."
    if card.mechanism["name"] != study.mechanism:
        yield f"The study asks for {study.mechanism}, and this release was made by another mechanism."
        return
    used = card.mechanism["parameters"]
    for name, wanted in study.parameters_expected().items():
        if name not in used or not same(used[name], wanted):
            yield f"The study fixes the parameter {name}={wanted!r}, but the release was made with another value."
    if study.plan is not None and not _as_planned(study.plan, card):
        yield "The card does not state the noise that the study's plan gives for its epsilon and delta. Release again."
    if card.space != study.space:
        yield (
            "The release is in another space than the study's, so its rows cannot be pooled with the others'. "
            "Use the study's schema and the shared key or basis."
        )


def _guaranteed(study: PoolStudy, card: Card) -> Iterator[str]:
    found = recomputed(card)
    if wrong := found.understated(card):
        yield (
            f"The card states less than its own parameters give ({', '.join(wrong)}): it was edited or is damaged. "
            "Push the card that `sfumato sanitize` wrote."
        )
    if study.presence is not None:
        yield from _hidden(study.presence, found, card)
    if study.epsilon_record is None:
        return
    weaker = max(found.proved, card.stated_guarantee().proved)
    if math.isinf(weaker):
        reasons = listed(found.in_the_way, 5) or "this mechanism, or what was done to its rows, gives no proof"
        yield f"The study asks for a formal guarantee, but this release has none: {reasons}."
    elif weaker > study.epsilon_record * (1 + 1e-9):
        yield (
            f"The study asks for an epsilon of at most {study.epsilon_record:.9g} for the record, and this release has "
            f"{rounded_up(weaker, 9)}. Ask `sfumato sanitize` for epsilon_record={study.epsilon_record:.9g}."
        )


def _as_planned(plan: AgreedPlan, card: Card) -> bool:
    return same_measurements(card.made_by().measured, expected_measurements(plan, card))


def same_measurements(stated: Sequence[Measurement], wanted: Sequence[Measurement]) -> bool:
    """The same figures were measured as often and with the same noise."""
    return len(stated) == len(wanted) and all(
        (one.what, one.way, one.times) == (other.what, other.way, other.times) and same(one.strength, other.strength)
        for one, other in zip(stated, wanted, strict=True)
    )


def _hidden(asked: Presence, found: Recomputed, card: Card) -> Iterator[str]:
    """Presence costs what the weaker says of what was recomputed and what is stated, at the study's delta."""
    stated = card.stated_guarantee()
    if found.kind != CENTRAL_DP or stated.kind != CENTRAL_DP or found.central is None or stated.central is None:
        reasons = listed(found.in_the_way, 5) or "its rows are not drawn from a noisy model of the table"
        yield f"The study asks for rows that hide who is in the table, but this release does not: {reasons}."
        return
    weaker = max(replace(one, delta=asked.delta).epsilon for one in (found.central, stated.central))
    if weaker > asked.epsilon * (1 + 1e-9):
        yield (
            f"The study asks for an epsilon of at most {asked.epsilon:.9g} at delta {asked.delta:g} for somebody's "
            f"presence, and this release has {rounded_up(weaker, 9)}. Sanitize with the study's file."
        )


def same(one: Any, other: Any) -> bool:
    """Equal, numbers to rounding."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return math.isclose(one, other, rel_tol=1e-9) if numbers else bool(one == other)


def read_card(text: bytes | str) -> Card:
    """A card as it is embedded in a release, from anybody: no NaN, no duplicate meaning, and the published schema."""

    def refuse(_: str) -> Any:
        raise CardError("The card contains numbers that JSON does not have: it was edited or is damaged.")

    try:
        data = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise CardError("The card inside the release is not valid JSON: it was edited or is damaged.") from None
    if not isinstance(data, Mapping):
        raise CardError("The card inside the release is not a card: it was edited or is damaged.")
    try:
        return Card.from_dict(data, where="The card inside the release")
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        raise CardError("The card inside the release cannot be understood: it was edited or is damaged.") from None
