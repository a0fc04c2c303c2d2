"""Case from a release with its card, in a folder or in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sfumato.auditing.assemble import choose_people
from sfumato.auditing.case import Case
from sfumato.auditing.knowledge import set_up
from sfumato.auditing.options import Options
from sfumato.auditing.read_tables import case_from_tables
from sfumato.channels import FLOAT_NOISE
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


def open_case(release: Any, options: Options, rng: np.random.Generator) -> Case:
    """Read a release (a `Release`, the folder of one, or the table of another tool's) and the tables to audit it by."""
    if is_folder(release):
        release = Release.open(release, None if options.key is None else Path(options.key))
    if not isinstance(release, Release):
        case, people = case_from_tables(release, options, rng)
        return set_up(choose_people(case, rng, people), rng)
    case = choose_people(_with_card(release, options), rng)
    if case.alignment == "trace":
        _check_labels(release, case)
    return set_up(case, rng)


def is_folder(release: Any) -> bool:
    """Whether it is the folder of a release with its card, and not a table."""
    return isinstance(release, str | Path) and Path(release).is_dir()


def _with_card(release: Release, options: Options) -> Case:
    """What release, card, trace and key tell."""
    card, label = release.card, release.encoding.schema.label
    if options.label is not None and (label is None or label.name != options.label):
        raise UsageError(
            f"On the card of the release the column to predict is not {options.label!r}. Leave --label out."
        )
    notes: list[str] = []
    if card.target is not None:
        notes.append(TARGET_NOTE.format(alone=alone(release.target), rows=len(release.target)))
    unstated = [channel for channel in card.made_by().channels if not channel.is_stated]
    if card.post_processing is not None:
        notes.append(LIKE_ORIGINAL_NOTE)
    elif any(channel.path == FLOAT_NOISE for channel in unstated):
        notes.append(OPERATOR_NOTE)
    elif unstated:
        notes.append(UNSTATED_NOTE)
    return Case(
        options=options,
        encoding=release.encoding,
        original=open_table(options.original),
        Z=release.Z,
        y=release.y,
        source=release.source,
        affine=release.affine(),
        columnwise=card.is_columnwise,
        card=card,
        key_used=release.key is not None,
        notes=notes,
    )


def _check_labels(release: Release, case: Case) -> None:
    """Exact labels must be those of the original rows: a cheap proof that the right table was given."""
    if release.card.label != "exact" or case.people.y is None or case.y is None or case.behind is None:
        return
    if not np.array_equal(case.people.y[case.behind], case.y):
        raise TableError(f"{WRONG_ORIGINAL}: the classes differ. Give the same file, with its rows in the same order.")
