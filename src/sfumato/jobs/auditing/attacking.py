"""Run the adversaries side by side; whatever happens to one of them, the audit goes on."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.array_types import Codes
from sfumato.attacks import (
    ATTACKS,
    Abstain,
    Attack,
    Bounds,
    Guess,
    Knowledge,
    Links,
    MembershipScores,
    Posteriors,
    Predicates,
    Secrets,
    Sources,
    Values,
)
from sfumato.attacks.known_rows import KnownRows
from sfumato.errors import UsageError
from sfumato.jobs.auditing.apart import scored_apart
from sfumato.jobs.auditing.arena import Arena
from sfumato.jobs.auditing.attack_settings import Settings, made_attack
from sfumato.jobs.engines.workers import all_of, in_order
from sfumato.jobs.progress import Progress
from sfumato.metrics import ScoredGuess, auc, recovery_curve
from sfumato.wording import WORSE_THAN_GUESSING, is_worse_than_guessing

NO_TRACE = "which release row belongs to which person is unknown (no private match file)"
NOT_LINEAR = {
    "guided": "the bits of a guided survey are not a linear function of the answers",
    "staged": "a release in stages is not a linear function of the columns: most rows are vectors of their ranks",
}
REASONS = {
    "candidates": "needs people who are not in the table: give a holdout table",
    "sample": "needs people who are not in the table: give a holdout table",
    "transform": "needs the transform, which is a secret key that is not in the folder",
    "noise": "needs the law of the noise, which is not stated",
    "guided": "is made for the bits of a guided survey, which this release is not",
    "known_rows": "needs original rows together with their images, which only the private match file can link",
    "lineups": "needs to know which release row is whose, which only the private match file can tell",
    "images": "needs original rows together with their images, which only the private match file can link",
}
MOST_AT_ONCE = 8
"""Attacks that run side by side on a machine with so many cores: each holds guesses about every row."""
LEAKED_KEY = "the attacker shares the secret key, or it has leaked"


@dataclass(frozen=True)
class Attempt:
    """One attack as it went: the guess and its score, or why there is none.

    kept: the release rows (or targets) that were scored; None for all. parameters: those that are not the default.
    """

    name: str
    story: str
    knows: tuple[str, ...]
    guess: Guess | list[Guess] | None = None
    scored: ScoredGuess | None = None
    not_applicable: str | None = None
    failed: str | None = None
    assumes: tuple[str, ...] = ()
    details: dict[str, float] | None = None
    kept: Codes | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For audit.json; riskiest records are reported apart."""
        scored = self.scored
        entry: dict[str, Any] = {"name": self.name, "story": self.story, "knows": list(self.knows)}
        entry |= {
            "score": None if scored is None else share(scored.score),
            "baseline": None if scored is None else share(scored.baseline),
            "control": None if scored is None else share(scored.control),
            "interval": None if scored is None else [share(end) for end in scored.interval],
            "worst": None if scored is None else share(scored.worst),
            "upper_bound": scored is not None and scored.upper_bound,
            "columns": [] if scored is None else [dict(column) for column in scored.columns],
            "details": {**({} if scored is None else scored.details), **(self.details or {})},
        }
        if scored is not None and is_worse_than_guessing(scored.score, scored.baseline):
            entry["remark"] = WORSE_THAN_GUESSING
        if scored is not None and scored.chosen:
            entry["chosen"] = scored.chosen
        if self.parameters:
            entry["parameters"] = dict(self.parameters)
        if self.assumes:
            entry["assumes"] = list(self.assumes)
        if self.not_applicable is not None:
            entry["not_applicable"] = self.not_applicable
        if self.failed is not None:
            entry["failed"] = self.failed
        return entry


def chosen_attacks(names: tuple[str, ...] | None) -> list[type[Attack]]:
    """The attacks to run, in the order of their names."""
    unknown = sorted(set(names or ()) - set(ATTACKS))
    if unknown:
        raise UsageError(f"There is no attacker {unknown[0]!r}. Choose from: {', '.join(ATTACKS)}.")
    return [attack for name, attack in ATTACKS.items() if names is None or name in names]


def attack_all(arena: Arena, attacks: list[type[Attack]], settings: Settings, progress: Progress) -> list[Attempt]:
    """Every attack with its default parameters, or those that `settings` give it."""
    return all_of(
        attacks,
        lambda attack: attempt(made_attack(attack, settings.get(attack.name, {})), arena),
        min(MOST_AT_ONCE, _cores()),
        lambda done: progress("Attacking", done, len(attacks)),
    )


def attempt(attack: Attack, arena: Arena) -> Attempt:
    """Run and score one attack. An unexpected error is reported by its type alone, and never counts as privacy."""
    told: dict[str, Any] = {"name": attack.name, "story": story_of(attack), "knows": tuple(sorted(attack.knows))}
    usual = type(attack)().parameters()
    told["parameters"] = {name: value for name, value in attack.parameters().items() if value != usual[name]}
    uses_transform = "transform" in attack.knows | attack.helps
    if arena.evidence.key_used and uses_transform:
        told["assumes"] = (LEAKED_KEY,)
    known = arena.known_to(attack)
    missing = [item for item in known.missing(attack.knows) if item != "secret"]
    if missing:
        curved = arena.known.guided if missing[0] == "transform" else None
        return Attempt(**told, not_applicable=reason_for(missing[0]) if curved is None else NOT_LINEAR[curved.kind])
    try:
        guess = aimed(attack, known)
        has_control = arena.aside is not None and "targets" in attack.knows and "images" not in attack.knows
        control = aimed(attack, arena.aside) if has_control and arena.aside is not None else None
        if arena.evidence.behind is None and isinstance(guess, Values | Posteriors | Links | Sources):
            return Attempt(**told, not_applicable=NO_TRACE, details=distances(guess, control))
        scored, kept = scored_apart(attack, guess, arena, control)
        if isinstance(scored, Abstain):
            return Attempt(**told, not_applicable=scored.reason)
        details = {**own_choice(attack, guess, arena), **recovered(attack, arena, kept), **_scope(guess, arena)}
        return Attempt(**told, guess=guess, scored=scored, details=details, kept=kept)
    except Exception as error:
        return Attempt(**told, failed=type(error).__name__)


def aimed(attack: Attack, known: Knowledge) -> Guess | list[Guess]:
    """One guess, or one for each secret column where the attack wants a secret."""
    if "secret" not in attack.knows:
        return attack.run(known)
    secrets = range(len(known.encoding.groups))
    return list(in_order(secrets, lambda secret: attack.run(known.hiding(secret)), max(1, _cores() // MOST_AT_ONCE)))


def _cores() -> int:
    return os.cpu_count() or 1


def own_choice(attack: Attack, guess: Guess | list[Guess], arena: Arena) -> dict[str, float]:
    """Where the best of several guesses was scored: what the adversary gets without knowing which is best."""
    if not isinstance(guess, Values) or not guess.candidates:
        return {}
    alone, _ = scored_apart(attack, Values(guess.X, aimed=guess.aimed), arena, None)
    return {"own_choice": alone.score} if isinstance(alone, ScoredGuess) else {}


def _scope(guess: Guess | list[Guess], arena: Arena) -> dict[str, float]:
    """On how many of the rows success was measured, where some are nobody's."""
    nobodys = arena.evidence.nobodys
    if not nobodys.any() or isinstance(guess, Predicates | MembershipScores):
        return {}
    return {"rows_of_people": float(np.count_nonzero(~nobodys)), "rows_in_all": float(len(nobodys))}


def recovered(attack: Attack, arena: Arena, kept: Codes | None) -> dict[str, float]:
    """For the attack with known rows: how recovery grows with their number."""
    if not isinstance(attack, KnownRows):
        return {}
    curve = recovery_curve(arena.known, arena.truth, kept=kept)
    return {f"recovered_with_{count}": share for count, share in curve.items()}


def distances(guess: Guess | list[Guess], control: Guess | list[Guess] | None) -> dict[str, float]:
    """How near people of the table and strangers come to a release row, where links cannot be checked."""
    if not isinstance(guess, Links):
        return {}
    away = "median_doubt" if guess.by_likelihood else "median_distance"
    found = {away: float(np.median(guess.distance))}
    if isinstance(control, Links):
        found[f"{away}_control"] = float(np.median(control.distance))
        found["strangers_as_near"] = auc(-control.distance, -guess.distance)
    return found


def aim_of(guess: Guess | list[Guess] | None) -> str:
    """What the riskiest positions of a scored guess count: release rows, targets, candidates or people."""
    if isinstance(guess, MembershipScores):
        return "candidates"
    if isinstance(guess, Predicates):
        return "people"
    return "targets" if isinstance(guess, Links | Secrets | Bounds | list) else "release"


def story_of(attack: Attack | type[Attack]) -> str:
    """The first paragraph of the docstring, on one line."""
    return " ".join((inspect.getdoc(attack) or "").split("\n\n")[0].split())


def share(value: float | None) -> float | None:
    """A share, freed of what rounding put beyond 0 or 1."""
    if value is None or not -1e-6 < value < 1 + 1e-6:
        return value
    return min(1.0, max(0.0, value))


def reason_for(item: str) -> str:
    return REASONS.get(item, f"needs {item.replace('_', ' ')}")
