"""Evidence from a release with its card, in a folder or in memory."""

from __future__ import annotations

import numpy as np

from sfumato.auditing.assemble import Draft, evidence_of
from sfumato.auditing.evidence import Evidence, People
from sfumato.auditing.request import AuditRequest
from sfumato.channels import FLOAT_NOISE
from sfumato.core.array_types import Codes
from sfumato.core.errors import TableError, UsageError
from sfumato.release.release import Release
from sfumato.release.sanitize_checks import alone
from sfumato.table import open_table

LIKE_ORIGINAL_NOTE = (
    "The release was rounded and clipped to look like the original, and its card states no noise: the adversaries "
    "are given the actual strength of the change (normal noise, randomized response)."
)
OPERATOR_NOTE = (
    "Noise was applied by the owner's own operator, which the card cannot describe; the attackers are given the "
    "actual strength of the change, as if normal noise had been added. Anybody who knows the operator may learn more."
)
UNSTATED_NOTE = (
    "What was done to a single cell has no stated law; the attackers are given the actual strength of the change "
    "(normal noise, randomized response)."
)
TARGET_NOTE = (
    "The number to predict is released as it is ({alone:,} of {rows:,} rows have a value that no other row has). The "
    "adversaries are not given it: whoever knows somebody's value finds the row without any of these attacks."
)
WRONG_ORIGINAL = "The table given as original is not the one that this release was made from"


def evidence_from_release(release: Release, request: AuditRequest, rng: np.random.Generator) -> Evidence:
    """Take release, card, trace and key, and read the original rows that the trace names."""
    label = release.encoding.schema.label
    if request.label is not None and (label is None or label.name != request.label):
        raise UsageError(
            f"On the card of the release the column to predict is not {request.label!r}. Leave --label out."
        )
    notes: list[str] = []
    recipe = release.card.made_by()
    channels = recipe.channels
    if release.card.target is not None:
        notes.append(TARGET_NOTE.format(alone=alone(release.target), rows=len(release.target)))
    unstated = [channel for channel in channels if not channel.is_stated]
    if release.card.post_processing is not None:
        notes.append(LIKE_ORIGINAL_NOTE)
    elif any(channel.path == FLOAT_NOISE for channel in unstated):
        notes.append(OPERATOR_NOTE)
    elif unstated:
        notes.append(UNSTATED_NOTE)
    draft = Draft(
        encoding=release.encoding,
        Z=release.Z,
        y=release.y,
        source=release.source,
        original=open_table(request.original),
        affine=release.affine(),
        channels=channels,
        by_class=recipe.by_class,
        columnwise=release.card.is_columnwise,
        card=release.card,
        key_used=release.key is not None,
        notes=notes,
    )
    evidence = evidence_of(draft, request, rng)
    if evidence.alignment == "trace":
        _check_labels(release, evidence.people, evidence.behind, evidence.y)
    return evidence


def _check_labels(release: Release, people: People, behind: Codes | None, y: Codes | None) -> None:
    """Exact labels must be those of the original rows: a cheap proof that the right table was given."""
    if release.card.label != "exact" or people.y is None or y is None or behind is None:
        return
    if not np.array_equal(people.y[behind], y):
        raise TableError(f"{WRONG_ORIGINAL}: the classes differ. Give the same file, with its rows in the same order.")
