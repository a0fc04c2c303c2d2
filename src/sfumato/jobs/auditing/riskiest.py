"""The people who are most exposed, for the owner's eyes only."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.array_types import Matrix
from sfumato.attacks import Values
from sfumato.jobs.auditing.arena import Arena
from sfumato.jobs.auditing.attacking import Attempt, aim_of
from sfumato.metrics import breaches

MOST_RECORDS = 20


def riskiest_records(arena: Arena, attempts: list[Attempt]) -> list[dict[str, Any]]:
    """Row numbers (from 1) in the original, most exposed first.

    score: share of the record's columns that the strongest value attack tells; columns: which ones. attacks: those in
    whose worst 1% the record is. Without a value attack only these attacks are counted.
    """
    found_by: dict[int, list[str]] = {}
    for attempt in attempts:
        if attempt.scored is None or not attempt.scored.riskiest:
            continue
        positions = np.array(attempt.scored.riskiest, dtype=np.int64)
        for record in arena.records(aim_of(attempt.guess), positions):
            found_by.setdefault(int(record), []).append(attempt.name)
    told = _told_by_strongest(arena, attempts)
    if told is None:
        ranked = sorted(found_by, key=lambda record: (-len(found_by[record]), record))[:MOST_RECORDS]
        return [{"record": r + 1, "score": None, "columns": [], "attacks": sorted(found_by[r])} for r in ranked]
    hits, numbers = told
    names = [group.column.name for group in arena.evidence.encoding.groups]
    share = hits.mean(axis=1)
    counts = np.array([len(found_by.get(int(number), ())) for number in numbers])
    ranked_rows = np.lexsort((numbers, -counts, -share))
    entries: dict[int, dict[str, Any]] = {}
    for row in ranked_rows:
        number = int(numbers[row])
        if number not in entries:  # several release rows may come from one person
            columns = [name for name, hit in zip(names, hits[row], strict=True) if hit]
            entries[number] = {
                "record": number + 1,
                "score": float(share[row]),
                "columns": columns,
                "attacks": sorted(found_by.get(number, ())),
            }
        if len(entries) == MOST_RECORDS:
            break
    return list(entries.values())


def _told_by_strongest(arena: Arena, attempts: list[Attempt]) -> tuple[Matrix, Any] | None:
    """Per release row and column whether the strongest value attack tells it, and the rows' numbers."""
    values = [(attempt.scored.score, attempt.guess, attempt.kept) for attempt in attempts if attempt.scored is not None]
    guesses = [(score, guess, kept) for score, guess, kept in values if isinstance(guess, Values)]
    if not guesses or arena.evidence.behind is None:
        return None
    _, guess, kept = max(guesses, key=lambda found: found[0])
    rows = np.arange(len(guess.X)) if kept is None else kept
    told = [
        breaches(arena.truth.rows[rows], X[rows], arena.truth.encoding, arena.truth.tolerance) for X in guess.scored
    ]
    numbers = arena.evidence.people.numbers[arena.evidence.behind[rows]]
    return max(told, key=lambda hits: float(hits.mean())).astype(np.float64), numbers
