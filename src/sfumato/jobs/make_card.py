"""From a fitted mechanism to the card of its release."""

from __future__ import annotations

import datetime
from importlib.metadata import version
from typing import Any

from sfumato import __version__
from sfumato.as_published import follows
from sfumato.guarantee import Card, Guarantee, ThreatModel, space_of
from sfumato.guarantee.consistency import LABEL_CLASSES, label_state
from sfumato.jobs.layout import Layout
from sfumato.table import Schema

LIKE_ORIGINAL = "like-original"


def today() -> str:
    """The date, and no finer: a time would help to link releases."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def make_card(
    layout: Layout,
    guarantee: Guarantee,
    *,
    rows: int,
    label_keep: float = 1.0,
    earlier: dict[str, Any] | None = None,
    labelled: bool = True,
    reproducible: bool = False,
    chosen_by: str = "parameters",
) -> Card:
    """Every field is computed from what was fitted; nothing is typed in."""
    mechanism, encoding = layout.mechanism, layout.encoding
    label = encoding.schema.label if labelled else None
    target = encoding.schema.target
    nobodys = mechanism.recipe_.rows == "nobody"
    state = label_state(None if label is None else label_keep, nobodys)
    post_processing = LIKE_ORIGINAL if layout.like_original else None
    recipe = layout.recipe()
    transform = recipe.map.to_dict()
    travelling = tuple(column for column in encoding.schema.columns if column.role in ("private", "label", "target"))
    used = mechanism.parameters_used()
    # no paper lets single columns choose their own noise
    own = any(column.choices.chosen for column in encoding.schema.private)
    published = follows(mechanism.published, used) and not own
    card = Card(
        mechanism={"name": mechanism.name, "parameters": used, **({"as_published": True} if published else {})},
        source_schema=Schema(travelling).to_dict(),
        release_schema={
            "columns": layout.columns(),
            "label": label and {"name": label.name, "classes": list(encoding.classes), "keep": label_keep},
            **({} if target is None else {"target": {"name": target.name}}),
        },
        space=space_of(encoding, transform, post_processing=post_processing),
        rows=rows,
        learned_from_data=list(
            dict.fromkeys([*mechanism.learned(), *(learned_classes(encoding.schema) if labelled else [])])
        ),
        label=state,
        guarantee=guarantee.to_dict(),
        transform=transform,
        recipe=recipe.to_dict(),
        threat_model=ThreatModel.of(
            label=state,
            nobodys=nobodys,
            rows=f"{rows:,}",
            learned_bounds=not encoding.public,
            mechanism=mechanism.not_protected,
            target=None if target is None else target.name,
        ).to_dict(),
        reproducible="not for release" if reproducible else None,
        chosen_by=chosen_by,
        post_processing=post_processing,
        earlier_releases=earlier or {"count": None, "total_epsilon_record": None},
        papers=list(mechanism.papers),
        created=today(),
        versions={"sfumato": __version__, **{name: version(name) for name in ("numpy", "scipy")}},
    )
    return card.in_own_words()


def learned_classes(schema: Schema) -> list[str]:
    """The classes of a label are public in the papers; where they were learned, the card says so."""
    label = schema.label
    return [f"{LABEL_CLASSES} {label.name!r}"] if label is not None and label.source == "learned" else []
