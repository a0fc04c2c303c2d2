"""Run the adversaries side by side; whatever happens to one of them, the audit goes on."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

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
from sfumato.attacks.metrics import ScoredGuess, Truth, auc, recovery_curve
from sfumato.attacks.metrics.score_values import score_values
from sfumato.auditing.apart import of_rows, scored_apart
from sfumato.auditing.arena import Arena
from sfumato.core.array_types import Codes
from sfumato.core.as_published import as_published
from sfumato.core.errors import TableError, UsageError
from sfumato.core.progress import Progress
from sfumato.core.wording import WORSE_THAN_GUESSING, is_worse_than_guessing
from sfumato.release.engines.workers import all_of, in_order
from sfumato.table import Encoding, Schema, open_table
from sfumato.table.encoding import recode

# Settings of attacks: `posterior-breach.rho1=0.05` is the parameter `rho1` of the attack `posterior-breach`.


Settings = Mapping[str, Mapping[str, Any]]
"""For every attack that is not run with its defaults, parameters by name."""


def settings_of(parameters: Mapping[str, Any], *, published: bool = False) -> dict[str, dict[str, Any]]:
    """Settings from names with a dot, or from attacks with their parameters; both may be given.

    >>> settings_of({"posterior-breach.rho1": 0.05, "membership": {"statistic": "distance"}})
    {'posterior-breach': {'rho1': 0.05}, 'membership': {'statistic': 'distance'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        attack, dot, parameter = name.partition(".")
        attack = attack.replace("_", "-")
        if attack not in ATTACKS:
            raise UsageError(f"There is no attacker {attack[:60]!r}. Choose from: {', '.join(ATTACKS)}.")
        if not dot and not isinstance(value, Mapping):
            raise UsageError(
                f"A setting is ATTACK.NAME=VALUE, for example posterior-breach.rho1=0.05. Got {name[:60]!r} instead."
            )
        given = {parameter: value} if dot else dict(value)
        found.setdefault(attack, {}).update({key.replace("-", "_"): one for key, one in given.items()})
    for attack, known in ATTACKS.items() if published else ():
        if known.published:
            found[attack] = as_published(attack, known.published, found.get(attack, {}))
    for attack, given in found.items():
        made_attack(ATTACKS[attack], given)  # a wrong one is found before anything is read
    return found


def made_attack(attack: type[Attack], given: Mapping[str, Any]) -> Attack:
    """The attack with these parameters; what does not exist is refused with what does."""
    for name in given:
        if name not in attack.accepts:
            has = f"It has: {', '.join(attack.accepts)}." if attack.accepts else "It has none."
            raise UsageError(f"The attacker {attack.name} has no parameter {name[:60]!r}. {has}")
    made = attack(**given)
    made.check()
    return made


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


# Somebody else's attack: guesses from a file, scored like all others.


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
