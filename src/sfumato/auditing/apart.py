"""Scoring without what cannot be a success: people whom the adversary was given, and rows that are nobody's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.attacks import Abstain, Attack, Bounds, Guess, Posteriors, Sources, Values
from sfumato.attacks.metrics import ScoredGuess, Truth, score_guess
from sfumato.auditing.arena import Arena
from sfumato.core.array_types import Codes

Guesses = Guess | list[Guess]
NOBODY = "nobody is left to attack besides the people that the adversary was given"


def scored_apart(
    attack: Attack, guess: Guesses, arena: Arena, control: Guesses | None
) -> tuple[ScoredGuess | Abstain, Codes | None]:
    """The score, and the release rows (or targets) it rests on where these are not all."""
    given, behind, truth = arena.given_away(attack), arena.evidence.behind, arena.truth
    narrowed: Guesses
    if behind is None:
        return score_guess(guess, truth, control), None
    if isinstance(guess, Values | Posteriors | Sources):
        apart = np.isin(behind, given) if isinstance(guess, Values) else np.zeros(len(behind), dtype=bool)
        kept = np.flatnonzero(~apart & ~arena.evidence.nobodys)
        everything, narrowed, truth = len(behind), _of_rows(guess, kept), of_rows(truth, kept)
    elif isinstance(guess, list) and truth.targets is not None:
        kept = np.flatnonzero(~np.isin(arena.targets, given))
        everything, narrowed = len(arena.targets), [_of_targets(part, kept) for part in guess]
        labels = truth.target_labels
        truth = replace(truth, targets=truth.targets[kept], target_labels=None if labels is None else labels[kept])
    else:
        return score_guess(guess, truth, control), None
    if len(kept) == everything:
        return score_guess(guess, arena.truth, control), None
    if not len(kept):
        return Abstain(NOBODY), None
    scored = score_guess(narrowed, truth, control)
    if isinstance(scored, ScoredGuess):
        scored = replace(scored, riskiest=tuple(int(kept[position]) for position in scored.riskiest))
    return scored, kept


def of_rows(truth: Truth, kept: Codes) -> Truth:
    """The truth of these release rows alone."""
    labels = truth.labels
    return replace(truth, rows=truth.rows[kept], labels=None if labels is None else labels[kept])


def _of_rows(guess: Values | Posteriors | Sources, kept: Codes) -> Guess:
    """The same guess about these release rows alone."""
    if isinstance(guess, Posteriors):
        return replace(guess, posterior=guess.posterior[kept])
    if isinstance(guess, Sources):
        return replace(guess, index=guess.index[kept], distance=guess.distance[kept])
    return replace(
        guess,
        X=guess.X[kept],
        candidates=tuple(candidate[kept] for candidate in guess.candidates),
        aimed=None if guess.aimed is None else guess.aimed[kept],
    )


def _of_targets(guess: Guess, kept: Codes) -> Guess:
    return replace(guess, low=guess.low[kept], high=guess.high[kept]) if isinstance(guess, Bounds) else guess
