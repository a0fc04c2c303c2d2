"""Somebody else's attack: guesses from a file, scored like all others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from sfumato.attacks import ATTACKS, Values
from sfumato.errors import TableError
from sfumato.jobs.auditing.apart import of_rows
from sfumato.jobs.auditing.arena import Arena
from sfumato.jobs.auditing.attacking import NO_TRACE, Attempt
from sfumato.metrics import Truth
from sfumato.metrics.score_values import score_values
from sfumato.table import Encoding, Schema, open_table
from sfumato.table.recoding import recode

STORY = "Somebody else's attack: guesses of private values, read from a file."


def attempt_from_file(path: Path, arena: Arena) -> Attempt:
    """Score guessed source columns, one row per row of the release; columns that were not guessed do not count."""
    evidence = arena.evidence
    name = path.name.split(".")[0] or "guess"
    if name in ATTACKS:
        name += "-from-file"
    if evidence.behind is None:
        return Attempt(name, STORY, (), not_applicable=NO_TRACE)
    table = open_table(path).read()
    if table.num_rows != evidence.release_rows:
        raise TableError(
            f"{path} has {table.num_rows} rows, but the release has {evidence.release_rows}. "
            "A file of guesses has one row for every row of the release, in the same order."
        )
    schema = evidence.encoding.schema
    label = None if schema.label is None else schema.label.name
    strange = [column for column in table.column_names if column not in schema and column != label]
    if strange:
        raise TableError(
            f"{path} has a column {strange[0]!r} that the original does not have. Name source columns only."
        )
    guessed = [number for number, column in enumerate(schema.private) if column.name in table.column_names]
    if not guessed:
        raise TableError(f"{path} guesses no private column. Give at least one under its name in the original.")
    encoding = Encoding(Schema(tuple(schema.private[number] for number in guessed)))
    X = recode(encoding, table, guessed=True)[evidence.positions]
    kept = np.flatnonzero(~evidence.nobodys)
    scored = score_values(Values(np.clip(X[kept], 0.0, 1.0)), of_rows(_narrowed(arena, encoding, guessed), kept))
    scored = replace(scored, riskiest=tuple(int(kept[position]) for position in scored.riskiest))
    guess = Values(X) if len(guessed) == len(schema.private) else None
    return Attempt(name, STORY, (), guess=guess, scored=scored, kept=kept)


def _narrowed(arena: Arena, encoding: Encoding, guessed: list[int]) -> Truth:
    """The truth with the guessed columns only."""
    groups = arena.evidence.encoding.groups
    slots = np.concatenate([np.arange(groups[number].start, groups[number].stop) for number in guessed])
    control = arena.truth.control
    return replace(
        arena.truth,
        encoding=encoding,
        rows=arena.truth.rows[:, slots],
        control=None if control is None else control[:, slots],
    )
