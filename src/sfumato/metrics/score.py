"""One door to all scores: a guess and the truth in, a `ScoredGuess` out."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.attacks.base import (
    Abstain,
    Bounds,
    Guess,
    Links,
    MembershipScores,
    Picks,
    Posteriors,
    Secrets,
    Sources,
    Values,
)
from sfumato.attacks.predicates import Predicates
from sfumato.metrics.score_bounds import score_bounds
from sfumato.metrics.score_people import score_links, score_membership, score_picks, score_sources
from sfumato.metrics.score_predicates import score_predicates
from sfumato.metrics.score_values import score_posteriors, score_secrets, score_values
from sfumato.metrics.scored import ScoredGuess, Truth

Guesses = Guess | Sequence[Guess]


def score_guess(guess: Guesses, truth: Truth, control_guess: Guesses | None = None) -> ScoredGuess | Abstain:
    """Score any guess; higher is worse for privacy. `Abstain` comes back as it is, or where nothing can be scored.

    `control_guess` is the same attack aimed at `truth.control_targets`. A sequence of `Secrets` or `Bounds` (one per
    secret column) is one guess; those that abstained are left out, and if all did, the first reason stands.
    """
    if isinstance(guess, Secrets | Bounds):
        guess = [guess]
    if not isinstance(guess, Guess):
        return _score_secrets(guess, truth, control_guess)
    if isinstance(guess, Values):
        return score_values(guess, truth)
    if isinstance(guess, Posteriors):
        return score_posteriors(guess, truth)
    if isinstance(guess, Links):
        return score_links(guess, truth, control_guess if isinstance(control_guess, Links) else None)
    if isinstance(guess, Sources):
        return score_sources(guess, truth)
    if isinstance(guess, Picks):
        return score_picks(guess, truth)
    if isinstance(guess, MembershipScores):
        return score_membership(guess, truth)
    if isinstance(guess, Predicates):
        return score_predicates(guess, truth)
    if isinstance(guess, Abstain):
        return guess
    raise TypeError(f"There is no score for {type(guess).__name__}.")


def _score_secrets(guesses: Sequence[Guess], truth: Truth, control: Guesses | None) -> ScoredGuess | Abstain:
    bounds = [guess for guess in guesses if isinstance(guess, Bounds)]
    if bounds:
        return score_bounds(bounds, truth)
    secrets = [guess for guess in guesses if isinstance(guess, Secrets)]
    if not secrets:
        return next((guess for guess in guesses if isinstance(guess, Abstain)), Abstain("no secret was guessed"))
    aside = [control] if isinstance(control, Guess) else control or []
    return score_secrets(secrets, truth, [guess for guess in aside if isinstance(guess, Secrets)])
