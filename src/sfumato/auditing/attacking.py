"""Run the adversaries side by side; whatever happens to one of them, the audit goes on."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import (
    Abstain,
    Attack,
    Bounds,
    Guess,
    Knowledge,
    Links,
    MembershipScores,
    Posteriors,
    Secrets,
    Sources,
    Values,
)
from sfumato.attacks.known_rows import KnownRows
from sfumato.attacks.metrics.privacy import breaches
from sfumato.attacks.metrics.score import nearness, score_guess
from sfumato.attacks.metrics.scored import ScoredGuess, recovery_curve, score_values, unseen_guess
from sfumato.attacks.nearest_row import AttributeInference
from sfumato.attacks.singling_out import Predicates
from sfumato.auditing.asked import made_attack
from sfumato.auditing.case import Case
from sfumato.auditing.extra import NO_HOLDOUT
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.core.errors import TableError
from sfumato.core.wording import WORSE_THAN_GUESSING, is_worse_than_guessing
from sfumato.guarantee.cost import posterior_bound
from sfumato.release.source import all_of, in_order
from sfumato.table import Encoding, Group, Schema, open_table
from sfumato.table.encoding import recode

Guesses = Guess | list[Guess]

NO_TRACE = "which release row belongs to which person is unknown (no private match file)"
NOT_LINEAR = {
    "guided": "the bits of a guided survey are not a linear function of the answers",
    "staged": "a release in stages is not a linear function of the columns: most rows are vectors of their ranks",
}
REASONS = {
    "candidates": NO_HOLDOUT,
    "sample": NO_HOLDOUT,
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
ROW_BY_ROW = ("rows", "labels", "posterior", "index", "distance", "low", "high")
"""Of a guess or the truth, what has an entry for each release row or target."""
NOBODY = "no one is left to attack besides the people that the adversary was given"


@dataclass(frozen=True)
class Attempt:
    """One attack as it went: the guess and its score, or why there is none.

    kept: the release rows (or targets) that were scored; None for all. parameters: those that are not the default.
    """

    name: str
    story: str
    knows: Sequence[str] = ()
    guess: Guesses | None = None
    scored: ScoredGuess | None = None
    not_applicable: str | None = None
    failed: str | None = None
    assumes: Sequence[str] = ()
    details: Mapping[str, float] = field(default_factory=dict)
    kept: Codes | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, attack: Attack, case: Case) -> Attempt:
        """Run and score one attack. An unexpected error is reported by its type alone, and never counts as privacy."""
        leaks = case.key_used and "transform" in attack.knows | attack.helps
        tried = cls(
            attack.name,
            story_of(attack),
            sorted(attack.knows),
            assumes=[LEAKED_KEY] if leaks else [],
            parameters=attack.parameters,
        )
        known = case.known_to(attack)
        missing = [item for item in known.missing(attack.knows) if item != "secret"]
        if missing[:1] == ["transform"] and known.guided is not None:
            return replace(tried, not_applicable=NOT_LINEAR[known.guided.kind])
        if missing:
            why = REASONS.get(missing[0], f"needs {missing[0].replace('_', ' ')}")
            return replace(tried, not_applicable=why)
        try:
            return replace(tried, **_played(attack, known, case))
        except Exception as error:
            return replace(tried, failed=type(error).__name__)

    def exposed(self, case: Case) -> list[int]:
        """Row numbers in the original of the riskiest records, worst first and each once; strangers are left out."""
        positions = np.array(() if self.scored is None else self.scored.riskiest, dtype=np.int64)
        if isinstance(self.guess, MembershipScores):
            positions = case.candidates[positions[positions < len(case.candidates)]]
        elif isinstance(self.guess, Predicates):  # people of whom no row was drawn come after the others
            positions = positions[positions < len(case.people.X)]
        elif isinstance(self.guess, Links | Secrets | Bounds | list):
            positions = case.targets[positions]
        elif len(positions):
            assert case.behind is not None
            positions = case.behind[positions]
        return list(dict.fromkeys(case.people.numbers[positions].tolist()))

    def to_dict(self) -> dict[str, Any]:
        """For audit.json, all figures there also where there is no score; riskiest records are reported apart."""
        scored = self.scored
        worse = scored is not None and is_worse_than_guessing(scored.score, scored.baseline)
        more = {
            "remark": WORSE_THAN_GUESSING if worse else None,
            "chosen": getattr(scored, "chosen", None),
            "parameters": dict(self.parameters),
            "assumes": list(self.assumes),
            "not_applicable": self.not_applicable,
            "failed": self.failed,
        }
        return {
            "name": self.name,
            "story": self.story,
            "knows": list(self.knows),
            **{name: share(getattr(scored, name, None)) for name in ("score", "baseline", "control")},
            "interval": None if scored is None else [share(end) for end in scored.interval],
            "worst": share(getattr(scored, "worst", None)),
            "upper_bound": getattr(scored, "upper_bound", False),
            "columns": [dict(column) for column in getattr(scored, "columns", ())],
            "details": {**getattr(scored, "details", {}), **self.details},
            **{name: told for name, told in more.items() if told},
        }


def attack_all(case: Case) -> list[Attempt]:
    """Every attack that was asked for, with its default parameters or those that were given."""
    attacks, settings, progress = case.options.chosen, case.options.settings, case.options.progress
    return all_of(
        attacks,
        lambda attack: Attempt.of(made_attack(attack, settings.get(attack.name, {})), case),
        min(MOST_AT_ONCE, os.cpu_count() or 1),
        lambda done: progress("Attacking", done, len(attacks)),
    )


def _played(attack: Attack, known: Knowledge, case: Case) -> dict[str, Any]:
    """What the attack came to: guess and score, or why there is none."""
    guess = aimed(attack, known)
    has_control = "targets" in attack.knows and "images" not in attack.knows
    control = aimed(attack, case.aside) if has_control and case.aside is not None else None
    if case.behind is None and isinstance(guess, Values | Posteriors | Links | Sources):
        # How near people of the table and strangers come to a release row, where links cannot be checked.
        near = nearness(guess, control if isinstance(control, Links) else None) if isinstance(guess, Links) else {}
        return {"not_applicable": NO_TRACE, "details": near}
    scored, kept = scored_apart(attack, guess, case, control)
    if isinstance(scored, Abstain):
        return {"not_applicable": scored.reason}
    if isinstance(guess, Values):
        guess = guess.settled(scored.best)
    details = any_release(guess, case)
    if isinstance(attack, KnownRows):  # how recovery grows with their number
        curve = recovery_curve(case.known, case.truth, kept=kept)
        details = {f"recovered_with_{count}": share for count, share in curve.items()}
    if case.unowned.any() and not isinstance(guess, Predicates | MembershipScores):
        details |= {"rows_of_people": float(np.sum(~case.unowned)), "rows_in_all": float(len(case.unowned))}
    return {"guess": guess, "scored": scored, "details": details, "kept": kept}


def aimed(attack: Attack, known: Knowledge) -> Guesses:
    """One guess, or one for each secret column where the attack wants a secret."""
    if "secret" not in attack.knows:
        return attack.run(known)
    together = attack.at_once(known) if isinstance(attack, AttributeInference) else None
    if together is not None:
        return list(together)
    secrets, cores = range(len(known.encoding.groups)), os.cpu_count() or 1
    return list(in_order(secrets, lambda secret: attack.run(known.hiding(secret)), max(1, cores // MOST_AT_ONCE)))


def any_release(guess: Guesses, case: Case) -> dict[str, float]:
    """What the likeliest of the rare properties could become at most, whatever is released [principal-laplace, Eq. 2].

    By the largest factor that the card's channels allow on odds: of a column where beliefs rest on that column alone,
    else of the record. 1 where nothing bounds it.
    """
    if not isinstance(guess, Posteriors) or case.card is None or not (guess.prior <= guess.rare).any():
        return {}
    proved = case.card.made_by().epsilons()
    factor = proved.column if guess.columnwise else proved.record
    rare = float(guess.prior[guess.prior <= guess.rare].max())
    return {"rare_prior": rare, "any_release": posterior_bound(rare, factor) if 0 < rare < 1 else rare}


def story_of(attack: Attack | type[Attack]) -> str:
    """The first paragraph of the docstring, on one line."""
    return " ".join((inspect.getdoc(attack) or "").split("\n\n")[0].split())


def share(value: float | None) -> float | None:
    """A share, freed of what rounding put beyond 0 or 1."""
    if value is None or not -1e-6 < value < 1 + 1e-6:
        return value
    return min(1.0, max(0.0, value))


def scored_apart(
    attack: Attack, guess: Guesses, case: Case, control: Guesses | None
) -> tuple[ScoredGuess | Abstain, Codes | None]:
    """The score without what cannot be a success, people whom the attacker was given and rows that are no person's,
    and the release rows (or targets) it rests on where these are not all."""
    by_row, given, truth = isinstance(guess, Values | Posteriors | Sources), case.given_away(attack), case.truth
    apart = np.isin(case.targets, given)
    if by_row and case.behind is not None:
        apart = case.unowned | (np.isin(case.behind, given) if isinstance(guess, Values) else False)
    if case.behind is None or not (by_row or isinstance(guess, list)) or not apart.any():
        return score_guess(guess, truth, control), None
    if apart.all():
        return Abstain(NOBODY), None
    kept = np.flatnonzero(~apart)
    if isinstance(guess, list):
        narrowed: Guesses = [_of(part, kept) if isinstance(part, Bounds) else part for part in guess]
        truth = _of(truth, kept, ("targets", "target_labels"))
    else:
        narrowed, truth = guess.of(kept) if isinstance(guess, Values) else _of(guess, kept), _of(truth, kept)
    return _placed(score_guess(narrowed, truth, control), kept), kept


def _of(whole: Any, kept: Codes, parts: Sequence[str] = ROW_BY_ROW) -> Any:
    """A guess or the truth about these release rows (or targets) alone."""
    found = {name: getattr(whole, name, None) for name in parts}
    return replace(whole, **{name: part[kept] for name, part in found.items() if part is not None})


def _placed(scored: Any, kept: Codes) -> Any:
    """The score of some rows, with the riskiest by their places among all."""
    if isinstance(scored, Abstain):
        return scored
    return replace(scored, riskiest=tuple(int(kept[position]) for position in scored.riskiest))


STORY = "Another program's attack: guesses of private values, read from a file."


def attempt_from_file(path: Path, case: Case) -> Attempt:
    """Score guessed source columns, one row per row of the release; columns that were not guessed do not count."""
    name = path.name.split(".")[0] or "guess"
    if name in ATTACKS:
        name += "-from-file"
    if case.behind is None:
        return Attempt(name, STORY, not_applicable=NO_TRACE)
    X, guessed, encoding = _read_guesses(path, case)
    kept, strangers = np.flatnonzero(~case.unowned), case.truth.sample
    slots = np.concatenate([np.arange(group.start, group.stop) for group in guessed])
    truth = replace(
        _of(case.truth, kept),
        encoding=encoding,
        rows=case.truth.rows[kept][:, slots],
        sample=None if strangers is None else strangers[:, slots],
    )
    scored = _placed(score_values(Values(np.clip(X[kept], 0.0, 1.0)), truth), kept)
    guess = Values(X) if len(guessed) == len(case.encoding.groups) else None
    return Attempt(name, STORY, guess=guess, scored=scored, kept=kept)


def _read_guesses(path: Path, case: Case) -> tuple[Matrix, list[Group], Encoding]:
    """The guesses about the audited rows, which private columns they guess, and how these are encoded."""
    table, schema = open_table(path).read(), case.encoding.schema
    if table.num_rows != case.release_rows:
        raise TableError(
            f"{path} has {table.num_rows} rows, but the release has {case.release_rows}. "
            "A file of guesses has one row for every row of the release, in the same order."
        )
    label = None if schema.label is None else schema.label.name
    if strange := [column for column in table.column_names if column not in schema and column != label]:
        raise TableError(
            f"{path} has a column {strange[0]!r} that the original does not have. Name source columns only."
        )
    guessed = [group for group in case.encoding.groups if group.column.name in table.column_names]
    if not guessed:
        raise TableError(f"{path} guesses no private column. Give at least one under its name in the original.")
    encoding = Encoding(Schema(tuple(group.column for group in guessed)))
    return recode(encoding, table, why=None)[case.positions], guessed, encoding


MOST_RECORDS = 20
BY_CHANCE = 0.1
"""Of the records that are listed, at most so many are there by chance."""
FALSE_ALARMS = 0.01
"""At which `worst` of a membership test is measured."""
OTHERS = 5
"""Other people of the class whom every guess is held against, to know what chance gives."""


class Told(NamedTuple):
    """What the attack on values that gains most tells of each release row's person (rows x columns), what is guessed
    right without the release, and the people's row numbers. added: the share that is told less the share that is
    guessed; by_chance: the same that its guesses seem to add of others."""

    hits: Flags
    without: Flags
    numbers: Codes
    added: Floats
    by_chance: Floats


def riskiest_records(case: Case, attempts: list[Attempt]) -> list[dict[str, Any]]:
    """Row numbers (from 1) in the original, those first of whom the release adds most, and only what is beyond chance.

    score: share of the record's columns that the attack on values that gains most tells; without: share that is guessed
    without the release; columns: those that the release adds. attacks: those that gain from the release and in whose
    worst 1% the record is. Where no attack on values adds anything beyond chance, attacks are counted whose successes
    are.
    """
    gaining = [(one, one.scored) for one in attempts if one.scored and one.scored.interval.low > _by_luck(one.scored)]
    told = told_by_strongest(case, attempts)
    if told is not None and (entries := _exposed(told, case, _found_by([one for one, _ in gaining], case))):
        return entries
    certain = _found_by([one for one, scored in gaining if _hardly_luck(scored)], case)
    ranked = sorted(certain, key=lambda record: (-len(certain[record]), record))[:MOST_RECORDS]
    return [
        {"record": one + 1, "score": None, "without": None, "columns": [], "attacks": sorted(certain[one])}
        for one in ranked
    ]


def _found_by(attempts: list[Attempt], case: Case) -> dict[int, list[str]]:
    """For each record the attacks in whose worst 1% it is."""
    found: dict[int, list[str]] = {}
    for attempt in attempts:
        for record in attempt.exposed(case):
            found.setdefault(record, []).append(attempt.name)
    return found


def _exposed(told: Told, case: Case, found_by: dict[int, list[str]]) -> list[dict[str, Any]]:
    names = [group.column.name for group in case.encoding.groups]
    least = beyond_chance(told.added, told.by_chance)
    counts = np.array([len(found_by.get(int(number), ())) for number in told.numbers])
    entries: dict[int, dict[str, Any]] = {}
    for row in np.lexsort((told.numbers, -counts, -told.hits.mean(axis=1), -told.added)):
        number = int(told.numbers[row])
        if told.added[row] < least or len(entries) == MOST_RECORDS:
            break
        if number not in entries:  # several release rows may come from one person
            more = told.hits[row] & ~told.without[row]
            entries[number] = {
                "record": number + 1,
                "score": float(told.hits[row].mean()),
                "without": float(told.without[row].mean()),
                "columns": [name for name, new in zip(names, more, strict=True) if new],
                "attacks": sorted(found_by.get(number, ())),
            }
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
    """Whether one in ten of its successes, or fewer, would be there without the release; of members found, at a false
    alarm in 100."""
    of_members = "auc" in scored.details
    luck, right = (FALSE_ALARMS, scored.worst) if of_members else (_by_luck(scored), scored.score)
    return bool(luck <= BY_CHANCE * right)


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
    truth, X = _of(case.truth, rows), next(guess.of(rows).scored)
    usual = unseen_guess(truth, truth.labels, len(rows))

    def told(of: Codes) -> tuple[Flags, Flags]:
        """By the guesses, and by the usual one, of these rows."""
        first, second = (breaches(truth.rows[of], one, truth.encoding, truth.tolerance) for one in (X, usual))
        return first, second

    hits, without = told(np.arange(len(rows)))
    by_chance = list(in_order(_others(truth.labels, len(rows)), lambda other: added(*told(other))))
    numbers = case.people.numbers[case.behind[rows]]
    return Told(hits, without, numbers, added(hits, without), np.concatenate(by_chance))


def _others(labels: Codes | None, rows: int) -> list[Codes]:
    """For every row another one of the same class, several times."""
    rng = np.random.default_rng(0)  # fixed: the same audit gives the same list
    classes = np.zeros(rows, dtype=np.int64) if labels is None else labels
    found = np.tile(np.arange(rows), (OTHERS, 1))
    for code in np.unique(classes):
        mine = rng.permutation(np.flatnonzero(classes == code))
        found[:, mine] = [np.roll(mine, shift) for shift in range(1, OTHERS + 1)]
    return list(found)
