"""From a release and what was asked for to a case: read, people chosen, attackers given what they could know."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.base import ColumnMoments, Knowledge, Lineups, RowPairs, Simulated, Simulator
from sfumato.attacks.metrics.privacy import row_codes
from sfumato.attacks.metrics.scored import Truth
from sfumato.auditing.asked import AuditAsked
from sfumato.auditing.assemble import choose_people
from sfumato.auditing.case import Case, sampled
from sfumato.auditing.read_tables import case_from_tables
from sfumato.channels import FLOAT_NOISE, Guided, NotApplicableError, Secret, Staged, draw
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import SfumatoError, TableError, UsageError
from sfumato.mechanisms import find_mechanism, make_mechanism
from sfumato.release.release import Release
from sfumato.release.sanitize_checks import alone
from sfumato.table import open_table
from sfumato.table.statistics import NO_CLASS

OPERATOR_NOTE = (
    "Noise was applied by the owner's own operator, which the card cannot describe; the attackers are given the "
    "actual strength of the change, as if normal noise had been added. Whoever knows the operator may learn more."
)


def open_case(release: Any, options: AuditAsked, rng: np.random.Generator) -> Case:
    """Read a release (a `Release`, the folder of one, or the table of another tool's) and the tables to audit it by."""
    if is_folder(release):
        release = Release.open(release, None if options.key is None else Path(options.key))
    if not isinstance(release, Release):
        case, people = case_from_tables(release, options, rng)
        return set_up(choose_people(case, rng, people), rng)
    card, label = release.card, release.encoding.schema.label
    if options.label is not None and (label is None or label.name != options.label):
        raise UsageError(
            f"On the card of the release the column to predict is not {options.label!r}. Leave --label out."
        )
    case = Case(
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
        notes=_notes(release),
    )
    choose_people(case, rng)
    labels = None if case.people.y is None or case.behind is None else case.people.y[case.behind]
    told = card.label == "exact" and case.alignment == "trace"
    if told and labels is not None and case.y is not None and not np.array_equal(labels, case.y):
        raise TableError(
            "The table given as original is not the one that this release was made from: the classes differ. Give the "
            "same file, with its rows in the same order."
        )
    return set_up(case, rng)


def _notes(release: Release) -> list[str]:
    """What the card does not say, and what the adversaries are given instead."""
    card, notes = release.card, []
    if card.target is not None:
        notes.append(
            f"The number to predict is released as it is ({alone(release.target):,} of {len(release.target):,} rows "
            "have a value that no other row has). The adversaries are not given it: whoever knows a person's value "
            "finds the row without any of these attacks."
        )
    unstated = [channel for channel in card.made_by().channels if not channel.is_stated]
    if card.post_processing is not None:
        notes.append(
            "The release was rounded and clipped to look like the original, and its card states no noise: the "
            "adversaries are given the actual strength of the change (normal noise, randomized response)."
        )
    elif any(channel.path == FLOAT_NOISE for channel in unstated):
        notes.append(OPERATOR_NOTE)
    elif unstated:
        notes.append(
            "What was done to a single cell has no stated law; the attackers are given the actual strength of the "
            "change (normal noise, randomized response)."
        )
    return notes


def is_folder(release: Any) -> bool:
    """Whether it is the folder of a release with its card, and not a table."""
    return isinstance(release, str | Path) and Path(release).is_dir()


MOST_ROWS, MOST_PEOPLE = 300, 100
"""Line-ups, and people in each."""


def line_up(case: Case, rng: np.random.Generator) -> tuple[Lineups, Codes] | tuple[None, None]:
    """For some released rows the person behind each among others, and which one it is.

    Nothing where it is unknown whose a row is.

    The others are strangers of the holdout, or of the table where there are too few: people whom the released label,
    which is public, does not tell apart from the right one.
    """
    if case.behind is None:
        return None, None
    owned = np.flatnonzero(~case.unowned)
    rows = owned[sampled(len(owned), MOST_ROWS, rng)]
    people, holdout, pools = case.people, case.holdout, {}
    for code in [0] if people.y is None else np.unique(people.y).tolist():
        pools[code] = people.X[:0]
        if holdout is not None and (people.y is None or holdout.y is not None):
            pools[code] = holdout.X if people.y is None else holdout.X[holdout.y == code]
        if len(pools[code]) < min(MOST_PEOPLE - 1, 20):
            pools[code] = people.X if people.y is None else people.X[people.y == code]
    size = min(MOST_PEOPLE, *(len(pool) + 1 for pool in pools.values()))
    if size < 2:
        return None, None
    X = np.empty((len(rows), size, case.encoding.width))
    places = rng.integers(size, size=len(rows))
    for number, row in enumerate(rows):
        own = case.behind[row]
        pool = pools[0 if case.people.y is None else int(case.people.y[own])]
        pool = pool[(pool != case.people.X[own]).any(axis=1)]  # a twin is no other
        if len(pool) < 1:
            return None, None
        others = np.setdiff1d(np.arange(size), places[number])
        X[number, others] = pool[rng.choice(len(pool), size=size - 1, replace=len(pool) < size - 1)]
        X[number, places[number]] = case.people.X[own]
    return Lineups(rows, X), places.astype(np.int64)


def simulator_of(case: Case) -> Simulator | None:
    """How an adversary who knows a mechanism and its parameters makes releases of its own: by the channels of the card
    where they are stated, else by running the mechanism on other people.

    None where that needs a secret, or an operator of the owner's own: the channels as far as they are known must do.
    """
    card, affine, encoding = case.card, case.affine, case.encoding  # attackers hold what is made here, and no case
    if card is None or case.is_made_up:
        return None
    recipe, mechanism = card.made_by(), find_mechanism(card.mechanism["name"])

    def by_channels(X: Matrix, y: Codes | None, rng: np.random.Generator) -> Simulated:
        if recipe.by_class:
            codes = np.full(len(X), NO_CLASS) if y is None else y
            Z = np.empty((len(X), recipe.width))
            for code in np.unique(codes).tolist():
                Z[codes == code] = draw(recipe.of_class(code), np.array(X[codes == code]), rng)
        elif recipe.map.kind == Secret.kind and affine is not None:
            Z = draw(recipe.channels, np.asarray(X @ affine[0].T + affine[1]), rng)
        else:
            Z = recipe.perturb(np.array(X), rng)
        return Simulated(Z, y, np.arange(len(X)))

    def by_mechanism(X: Matrix, y: Codes | None, rng: np.random.Generator) -> Simulated:
        try:
            made = make_mechanism(card.mechanism["name"], dict(card.mechanism["parameters"]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                block = made.release(X, y, rng=rng, encoding=encoding)
        except SfumatoError as error:
            raise NotApplicableError("the method could not be run on the attacker's own people") from error
        return Simulated(block.X, block.y, block.source)

    if all(channel.is_stated for channel in recipe.channels):
        return None if recipe.map.kind == Secret.kind and affine is None else by_channels
    again = mechanism is not None and mechanism.columnwise and not mechanism.needs_key and case.columnwise
    return by_mechanism if again and card.post_processing is None else None


MOST_TARGETS = 1_000
MOST_CANDIDATES = 500
"""People that are aimed at one by one, and members (and as many others) in the membership test."""
MOST_SAMPLED = 2_000


def set_up(case: Case, rng: np.random.Generator) -> Case:
    """Give the attackers all they could have: the card, the strength of the noise, the ways of the population."""
    people, holdout = case.people, case.holdout
    seen = np.arange(len(people.X)) if case.behind is None else np.unique(case.behind[~case.unowned])
    case.targets = seen[sampled(len(seen), MOST_TARGETS, rng)]
    aimed = people.take(case.targets)
    aside = None if holdout is None else holdout.take(sampled(len(holdout.X), MOST_TARGETS, rng))
    candidates, candidate_labels, members = _candidates(case, rng)
    pairs, images = _pairs(case, seen, rng)
    lineups, places = line_up(case, rng)
    population = people.X if holdout is None or len(holdout.X) < 2 else holdout.X
    case.known = Knowledge(
        release=case.Z,
        encoding=case.encoding,
        columnwise=case.columnwise,
        labels=case.y,
        transform=case.transform,
        noise=case.noise,
        noise_covariance=None if case.noise is None else case.noise.covariance(),
        column_moments=moments_of(population),
        column_distributions=tuple(np.sort(population, axis=0).T),
        known_rows=pairs,
        sample=None if holdout is None else holdout.X,
        sample_labels=None if holdout is None else holdout.y,
        register=case.register,
        register_labels=case.register_labels,
        candidates=candidates,
        candidate_labels=candidate_labels,
        targets=aimed.X,
        target_labels=aimed.y,
        images=images,
        guided=known_guidance(case),
        lineups=lineups,
        simulator=simulator_of(case),
        label_keep=case.label_keep,
        tolerance=case.options.tolerance,
    )
    if aside is not None:
        case.aside = replace(case.known, targets=aside.X, target_labels=aside.y, images=None)
    labels = None if people.y is None else case.y
    case.truth = Truth(
        **{**vars(case.known), "labels": labels, "candidate_labels": None if case.y is None else candidate_labels},
        rows=people.X if case.rows_behind is None else case.rows_behind,
        control_targets=None if aside is None else aside.X,
        members=members,
        lineup=places,
    )
    return case


def known_guidance(case: Case) -> Guided | Staged | None:
    """How answers were projected, or stages guided, as the card states it; attacks then have exact posteriors."""
    found = None if case.card is None else case.card.made_by().map
    if isinstance(found, Guided):
        case.notes.append(
            "The release consists of the bits of a guided survey. Its guidance is public, so posterior-guess, "
            "posterior-breach and membership compute exact posteriors for the population they are given. The "
            "respondents are simulated: no one knows both what real people sent and what they answered."
        )
    return found if isinstance(found, Guided | Staged) else None


def moments_of(X: Matrix) -> ColumnMoments:
    """Mean and covariance of encoded columns."""
    covariance = np.atleast_2d(np.cov(X, rowvar=False)) if len(X) > 1 else np.zeros((X.shape[1],) * 2)
    return ColumnMoments(X.mean(axis=0), covariance)


def _candidates(case: Case, rng: np.random.Generator) -> tuple[Matrix | None, Codes | None, Flags | None]:
    """People of whom some are in the table, their classes, and which are; nothing without people who are not in it."""
    register, holdout = case.register, case.holdout
    case.candidates = np.empty(0, dtype=np.int64)
    outside = np.empty(0, dtype=np.int64) if holdout is None else strangers_without_twins(register, holdout.X)
    if holdout is None or not len(outside):
        return None, None, None
    chosen = sampled(len(register), MOST_CANDIDATES, rng)
    case.candidates = chosen[chosen < len(case.people.X)]  # people whom no row was drawn from come after these
    outside = outside[sampled(len(outside), MOST_CANDIDATES, rng)]
    mine, theirs = case.register_labels, holdout.y
    labels = None if mine is None or theirs is None else np.concatenate([mine[chosen], theirs[outside]])
    members = np.arange(len(chosen) + len(outside)) < len(chosen)
    return np.vstack([register[chosen], holdout.X[outside]]), labels, members


def _pairs(case: Case, seen: Codes, rng: np.random.Generator) -> tuple[RowPairs | None, Codes | None]:
    """Rows known together with their images, and the image of every target; nothing where whose is whose is unknown."""
    case.paired = case.lent = seen[:0]
    if case.behind is None:
        return None, None
    people = case.people.X
    order = np.argsort(case.behind, kind="stable")
    row_of = np.zeros(len(people), dtype=np.int64)
    row_of[seen] = order[np.searchsorted(case.behind[order], seen)]
    # No more than half of the people, so that some are left to be found out.
    case.paired = rng.permutation(seen)[: max(1, min(people.shape[1] + 1, len(seen) // 2))]
    if case.holdout is None:
        case.lent = sampled(len(people), min(len(people) // 4, MOST_SAMPLED), rng)
        case.notes.append(
            f"No holdout table: attacks that need a sample of similar people were given {len(case.lent):,} people of "
            "the original, without their images; these people do not count among their successes."
        )
    return RowPairs(people[case.paired], row_of[case.paired]), row_of[case.targets]


def strangers_without_twins(people: Matrix, strangers: Matrix) -> Codes:
    """Positions of people whose record is not in the table: one that is identical to a member's is in it, whoever it
    belongs to."""
    codes = row_codes(np.vstack([people, strangers]))
    return np.flatnonzero(~np.isin(codes[len(people) :], codes[: len(people)]))
