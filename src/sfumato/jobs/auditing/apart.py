"""Scoring without the people whom the adversary was given: what is known beforehand is no success."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.array_types import Codes
from sfumato.attacks import Abstain, Attack, Bounds, Guess, Values
from sfumato.jobs.auditing.arena import Arena
from sfumato.metrics import ScoredGuess, score_guess

Guesses = Guess | list[Guess]
NOBODY = "nobody is left to attack besides the people that the adversary was given"


def scored_apart(
    attack: Attack, guess: Guesses, arena: Arena, control: Guesses | None
) -> tuple[ScoredGuess | Abstain, Codes | None]:
    """The score, and the release rows (or targets) it rests on where these are not all."""
    given = arena.given_away(attack)
    behind = arena.evidence.behind
    if not len(given) or behind is None:
        return score_guess(guess, arena.truth, control), None
    if isinstance(guess, Values):
        kept = np.flatnonzero(~np.isin(behind, given))
        narrowed: Guesses = replace(
            guess,
            X=guess.X[kept],
            candidates=tuple(candidate[kept] for candidate in guess.candidates),
            aimed=None if guess.aimed is None else guess.aimed[kept],
        )
        labels = arena.truth.labels
        truth = replace(arena.truth, rows=arena.truth.rows[kept], labels=None if labels is None else labels[kept])
    elif isinstance(guess, list) and arena.truth.targets is not None:
        kept = np.flatnonzero(~np.isin(arena.targets, given))
        narrowed = [
            replace(part, low=part.low[kept], high=part.high[kept]) if isinstance(part, Bounds) else part
            for part in guess
        ]
        labels = arena.truth.target_labels
        truth = replace(
            arena.truth,
            targets=arena.truth.targets[kept],
            target_labels=None if labels is None else labels[kept],
        )
    else:
        return score_guess(guess, arena.truth, control), None
    if not len(kept):
        return Abstain(NOBODY), None
    scored = score_guess(narrowed, truth, control)
    if isinstance(scored, ScoredGuess):
        scored = replace(scored, riskiest=tuple(int(kept[position]) for position in scored.riskiest))
    return scored, kept
