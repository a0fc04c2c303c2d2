"""The people of whom the release adds most to what anybody could guess, for the owner's eyes only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sfumato.attacks import Values
from sfumato.attacks.metrics import ScoredGuess, breaches
from sfumato.attacks.metrics.scored import unseen_guess
from sfumato.auditing.attacking import Attempt, aim_of, of_rows
from sfumato.auditing.case import Case
from sfumato.core.array_types import Codes, Flags, Floats

MOST_RECORDS = 20
BY_CHANCE = 0.1
"""Of the records that are listed, at most so many are there by chance."""
FALSE_ALARMS = 0.01
"""At which `worst` of a membership test is measured."""
OTHERS = 5
"""Other people of the class whom every guess is held against, to know what chance gives."""


class Told(NamedTuple):
    """What the attack on values that gains most tells of each release row's person (rows x columns), what is guessed
    right without the release, and the people's row numbers. by_chance: what the same guesses seem to add of others."""

    hits: Flags
    without: Flags
    numbers: Codes
    by_chance: Floats

    @property
    def added(self) -> Floats:
        return added(self.hits, self.without)


def riskiest_records(case: Case, attempts: list[Attempt]) -> list[dict[str, Any]]:
    """Row numbers (from 1) in the original, those first of whom the release adds most, and only what is beyond chance.

    score: share of the record's columns that the attack on values that gains most tells; without: share that is guessed
    without the release; columns: those that the release adds. attacks: those that gain from the release and in whose
    worst 1% the record is. Where no attack on values adds anything beyond chance, attacks are counted whose successes
    are.
    """
    gaining = [
        one for one in attempts if one.scored is not None and bool(one.scored.interval.low > _by_luck(one.scored))
    ]
    told = told_by_strongest(case, attempts)
    if told is not None and (entries := _exposed(told, case, _found_by(gaining, case))):
        return entries
    certain = _found_by([one for one in gaining if one.scored is not None and _hardly_luck(one.scored)], case)
    ranked = sorted(certain, key=lambda record: (-len(certain[record]), record))[:MOST_RECORDS]
    return [
        {"record": one + 1, "score": None, "without": None, "columns": [], "attacks": sorted(certain[one])}
        for one in ranked
    ]


def _found_by(attempts: list[Attempt], case: Case) -> dict[int, list[str]]:
    """For each record the attacks in whose worst 1% it is."""
    found: dict[int, list[str]] = {}
    for attempt in attempts:
        positions = np.array(() if attempt.scored is None else attempt.scored.riskiest, dtype=np.int64)
        records = case.records(aim_of(attempt.guess), positions) if len(positions) else positions
        for record in dict.fromkeys(records.tolist()):
            found.setdefault(record, []).append(attempt.name)
    return found


def _exposed(told: Told, case: Case, found_by: dict[int, list[str]]) -> list[dict[str, Any]]:
    names = [group.column.name for group in case.encoding.groups]
    least = beyond_chance(told.added, told.by_chance)
    counts = np.array([len(found_by.get(int(number), ())) for number in told.numbers])
    entries: dict[int, dict[str, Any]] = {}
    for row in np.lexsort((told.numbers, -counts, -told.hits.mean(axis=1), -told.added)):
        if told.added[row] < least or len(entries) == MOST_RECORDS:
            break
        number, more = int(told.numbers[row]), told.hits[row] & ~told.without[row]
        entries.setdefault(  # several release rows may come from one person
            number,
            {
                "record": number + 1,
                "score": float(told.hits[row].mean()),
                "without": float(told.without[row].mean()),
                "columns": [name for name, new in zip(names, more, strict=True) if new],
                "attacks": sorted(found_by.get(number, ())),
            },
        )
    return list(entries.values())


def added(hits: Flags, without: Flags) -> Floats:
    """Per record the share of its columns that is told, less the share that is guessed without the release."""
    return np.asarray(hits.mean(axis=1) - without.mean(axis=1))


def beyond_chance(found: Floats, by_chance: Floats) -> float:
    """The least figure, above 0, at which one in ten of the records that reach it would do so by chance; else infinite.

    by_chance: the same figure of guesses about other people, several for each record.
    """
    ordered, chance = np.sort(found[found > 0])[::-1], np.sort(by_chance)
    expected = (1 + len(chance) - np.searchsorted(chance, ordered - 1e-9)) * len(found) / len(chance)
    reached = np.searchsorted(-ordered, -ordered, side="right")  # equal figures are kept or left together
    kept = np.flatnonzero(expected <= BY_CHANCE * reached)
    return float(ordered[kept[-1]]) if len(kept) else np.inf


def _hardly_luck(scored: ScoredGuess) -> bool:
    """Whether one in ten of its successes, or fewer, would be there without the release."""
    if "auc" in scored.details:  # of members: those found, at a false alarm in 100
        return bool(BY_CHANCE * scored.worst >= FALSE_ALARMS)
    return bool(_by_luck(scored) <= BY_CHANCE * scored.score)


def _by_luck(scored: ScoredGuess) -> float:
    return max(scored.baseline, scored.control or 0.0)


def told_by_strongest(case: Case, attempts: list[Attempt]) -> Told | None:
    """What the attack on values that gains most tells; None where there is none, or it is unknown whose a row is."""
    found = [
        (one.scored.score - one.scored.baseline, one.guess, one.kept)
        for one in attempts
        if one.scored is not None and isinstance(one.guess, Values)
    ]
    if not found or case.behind is None:
        return None
    _, guess, kept = max(found, key=lambda one: one[0])
    rows = np.arange(len(guess.X)) if kept is None else kept
    truth = of_rows(case.truth, rows)
    X = next(guess.of(rows).scored)
    hits = breaches(truth.rows, X, truth.encoding, truth.tolerance)
    usual = unseen_guess(truth, truth.labels, len(rows))
    chance = []
    for other in _others(truth.labels, len(rows)):
        with_it, without = (breaches(truth.rows[other], one, truth.encoding, truth.tolerance) for one in (X, usual))
        chance.append(added(with_it, without))
    return Told(
        hits=hits,
        without=breaches(truth.rows, usual, truth.encoding, truth.tolerance),
        numbers=case.people.numbers[case.behind[rows]],
        by_chance=np.concatenate(chance),
    )


def _others(labels: Codes | None, rows: int) -> list[Codes]:
    """For every row another one of the same class, several times."""
    rng = np.random.default_rng(0)  # fixed: the same audit gives the same list
    classes = np.zeros(rows, dtype=np.int64) if labels is None else labels
    found = [np.arange(rows) for _ in range(OTHERS)]
    for code in np.unique(classes):
        mine = rng.permutation(np.flatnonzero(classes == code))
        for shift, other in enumerate(found, start=1):
            other[mine] = np.roll(mine, shift)
    return found
