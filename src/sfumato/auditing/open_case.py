"""From a release and what was asked for to a case: read, people chosen and rows told whose they are, attackers given
what they could know."""

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
from sfumato.auditing.case import Case, People, known_noise, read_holdout, read_people, sampled
from sfumato.auditing.matching import CANDIDATES, SAME_ORDER, identical_rows, match_people, same_order
from sfumato.auditing.read_tables import case_from_tables
from sfumato.channels import FLOAT_NOISE, Guided, NotApplicableError, Secret, Staged, draw
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import SfumatoError, TableError, UsageError
from sfumato.core.wording import counted
from sfumato.mechanisms import find_mechanism, make_mechanism
from sfumato.release.release import Release
from sfumato.release.sanitize_checks import alone
from sfumato.table import open_table
from sfumato.table.encoding import unfit_in_words, warn_of_unfit
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
        case, sample = case_from_tables(release, options, rng)
        choose_people(case, rng, sample)
        return set_up(case, rng)
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
    unstated = {channel.path for channel in card.made_by().channels if not channel.is_stated}
    given = "the actual strength of the change (normal noise, randomized response)."
    if card.post_processing is not None:
        notes.append(
            "The release was rounded and clipped to look like the original, and its card states no noise: the "
            f"adversaries are given {given}"
        )
    elif FLOAT_NOISE in unstated:
        notes.append(OPERATOR_NOTE)
    elif unstated:
        notes.append(f"What was done to a single cell has no stated law; the attackers are given {given}")
    return notes


def is_folder(release: Any) -> bool:
    """Whether it is the folder of a release with its card, and not a table."""
    return isinstance(release, str | Path) and Path(release).is_dir()


def choose_people(case: Case, rng: np.random.Generator, people: People | None = None) -> None:
    """Audit all people, or a sample of them: the same people for every release of the same table.

    `people`: a sample that was read already, of a table too large to find out whose row is whose.
    """
    if len(case.Z) < 2:
        raise TableError(f"The release has {counted(len(case.Z), 'row')}; an audit needs at least two.")
    options, most, strangers = case.options, case.options.max_rows, None
    if options.holdout is not None:
        strangers = read_holdout(open_table(options.holdout), case.encoding, options.unknown)
    among = np.arange(len(case.Z))
    if people is not None:
        case.alignment = "unknown"
    elif case.source is None:
        people = read_people(case.original, case.encoding)
        among = _find_source(case, people.X, None if strangers is None else strangers[0].X)
    if case.source is not None:
        _choose_behind(case, case.source, among, people, rng)
    elif people is not None:
        case.people = people.take(sampled(len(people.X), most, rng))
        case.positions, case.behind = sampled(len(case.Z), most, rng), None
    case.Z, case.y = case.whole[case.positions], None if case.whole_y is None else case.whole_y[case.positions]
    case.holdout = _holdout(case, strangers, rng)
    case.noise = known_noise(case)


def _choose_behind(case: Case, source: Codes, among: Codes, people: People | None, rng: np.random.Generator) -> None:
    """The rows to audit and the people behind them (by their row numbers, sorted), where it is known whose row is
    whose."""
    most, own = case.options.max_rows, source[among] >= 0
    if own.all():
        numbers = np.unique(source[source >= 0])
        numbers = numbers[sampled(len(numbers), most, rng)]
        case.positions = np.flatnonzero(np.isin(source, numbers))
        if len(case.positions) > most:  # several release rows of one source
            case.positions = case.positions[sampled(len(case.positions), most, rng)]
            numbers = np.unique(source[case.positions])
    else:  # an adversary sees the rows without a person too
        share, parts = min(1.0, most / len(among)), (among[own], among[~own])
        chosen = [part[sampled(len(part), max(2, int(share * len(part))), rng)] for part in parts]
        case.positions = np.sort(np.concatenate(chosen))
        found = source[case.positions]
        numbers = np.unique(found[found >= 0])
        if people is not None:  # who has no row is in the table all the same
            others = np.setdiff1d(np.arange(len(people.X)), numbers)
            numbers = np.union1d(numbers, others[sampled(len(others), max(0, most - len(numbers)), rng)])
    case.people = read_people(case.original, case.encoding, numbers) if people is None else people.take(numbers)
    if len(case.people.X) < len(numbers):
        raise TableError(
            f"The table given as original has {case.people.total} rows, but the private match file of the release "
            "names later ones. Give the table that the release was made from."
        )
    case.undrawn = _undrawn(case, source, rng)
    theirs = source[case.positions]
    case.behind = np.where(theirs < 0, -1, np.searchsorted(numbers, theirs))
    if case.unowned.any():
        own_rows = f"{np.count_nonzero(theirs >= 0):,}"
        case.notes.append(
            f"{own_rows} of the {len(theirs):,} audited rows fit a person of the table better than anyone else; the "
            f"others are no person's, as far as can be told. Attackers of values and links are judged on these "
            f"{own_rows} rows and the people behind them."
        )


def _find_source(case: Case, people: Matrix, strangers: Matrix | None) -> Codes:
    """Find out whose row is whose, if that can be told, and how; returns the rows that were looked at."""
    rng = np.random.default_rng((case.options.seed, 1))  # of its own: who is attacked is the same in any order of rows
    everything = np.arange(len(case.Z))

    def as_released(X: Matrix) -> Matrix:
        """Where these people would lie in the release; without columns where the map is a secret."""
        if case.columnwise:
            return X
        return X[:, :0] if case.affine is None else np.asarray(X @ case.affine[0].T + case.affine[1])

    E, others = as_released(people), None if strangers is None else as_released(strangers)
    if same_order(E, case.Z):
        case.notes.append(SAME_ORDER)
        case.alignment, case.source = "same-order", everything
        return everything
    case.source = identical_rows(E, case.Z, rng) if E.shape[1] else None
    if case.source is not None:
        case.notes.append("No private match file: release rows were matched to identical original rows.")
        case.alignment = "identical-rows"
        return everything
    case.alignment = "unknown"
    if case.card is not None and case.card.guarantee.get("central"):
        case.notes.append(
            "The card says that rows were drawn from a noisy model of the table: none of them is anybody's."
        )
        return everything
    picked = sampled(len(case.Z), case.options.max_rows, rng)
    found = match_people(E, case.Z[picked], others, rng) if E.shape[1] and not np.isnan(case.Z).any() else None
    if found is None:
        case.notes.append(
            "No private match file, and the rows of the release are in another order, and no nearer to these people "
            "than rows of others are: it is unknown which row is whose."
        )
        return everything
    how = (
        "optimal assignment by likelihood"
        if found.exact
        else f"by likelihood among the {CANDIDATES} nearest people; the table is too large, or has too few people, for "
        "the optimal assignment"
    )
    case.notes.append(
        "No private match file, and the rows are in another order: rows were matched to people as an attacker would "
        f"who holds the original ({how}). {found.sure:.0%} of the matched rows fit one person far better than all "
        "others; where several fit, one was drawn by likelihood. Attackers of values and links were judged by this "
        "match."
    )
    case.alignment, case.source = "matched", np.full(len(case.Z), -1, dtype=np.int64)
    case.source[picked] = found.source
    return picked


def _undrawn(case: Case, source: Codes, rng: np.random.Generator) -> People | None:
    """People of whom no row was released, where rows are drawn: they are in the table all the same.

    As large a share of them as of the others, where these are a sample.
    """
    made_by = None if case.card is None else find_mechanism(case.card.mechanism["name"])
    if case.card is None or made_by is None or not made_by.redraws:
        return None
    drawn, total = np.unique(source), case.people.total
    if make_mechanism(made_by.name, dict(case.card.mechanism["parameters"])).wanted(total) != case.card.rows:
        case.notes.append(
            "The release was not made from all rows of the original, and which of them it could have drawn is unknown: "
            "people from whom no row was drawn are left out, so the membership test errs on the safe side."
        )
        return None
    never = np.setdiff1d(np.arange(total), drawn)
    share = min(1.0, case.options.max_rows / max(len(drawn), 1))
    never = never[sampled(len(never), round(len(never) * share), rng)]
    case.notes.append(
        f"Rows were drawn at random, and {(total - len(drawn)) / total:.0%} of the people have none. They count as "
        "members in the membership test and are in the register; attackers of a person's own row try the others."
    )
    return read_people(case.original, case.encoding, never)


def _holdout(case: Case, read: tuple[People, int] | None, rng: np.random.Generator) -> People | None:
    """A sample of those who are not in the table; the notes say what they are for, and what is odd about them."""
    if read is None:
        case.notes.append(
            "No table of people not in the original: membership cannot be tested, and what attackers know about the "
            "population (means, covariances, distributions) was taken from the original itself."
        )
        return None
    holdout, left_out = read
    case.notes.append(
        "What attackers know about the population (means, covariances, distributions) was taken from the people not "
        "in the table."
    )
    if left_out:
        case.notes.append(
            f"{counted(left_out, 'row')} of people not in the table left out: they lack a number that no one in the "
            "original lacks, or have a class that no other person has."
        )
    if strange := unfit_in_words(holdout.unfit, "the original"):
        case.notes.append(f"Of people not in the table: {strange[0].lower()}{strange[1:]}")
        warn_of_unfit(holdout.unfit, "the original")
    apart = strangers_without_twins(case.people.X, holdout.X)
    twins = (len(holdout.X) - len(apart)) / max(1, len(holdout.X))
    if len(holdout.X) and twins > 0.1:
        case.notes.append(
            f"{twins:.0%} of the holdout rows are identical to a row of the original and were left out of the "
            "membership test. If these are the same people, the control says nothing."
        )
    return holdout.take(sampled(len(holdout.X), case.options.max_rows, rng))


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
    classes = np.zeros(len(people.X), dtype=np.int64) if people.y is None else people.y
    for code in np.unique(classes).tolist():
        pools[code] = people.X[:0]
        if holdout is not None and (people.y is None or holdout.y is not None):
            pools[code] = holdout.X if people.y is None else holdout.X[holdout.y == code]
        if len(pools[code]) < min(MOST_PEOPLE - 1, 20):
            pools[code] = people.X[classes == code]
    size = min(MOST_PEOPLE, *(len(pool) + 1 for pool in pools.values()))
    if size < 2:
        return None, None
    X = np.empty((len(rows), size, case.encoding.width))
    places = rng.integers(size, size=len(rows))
    for number, own in enumerate(case.behind[rows]):
        pool = pools[int(classes[own])]
        pool = pool[(pool != people.X[own]).any(axis=1)]  # a twin is no other
        if len(pool) < 1:
            return None, None
        others = np.setdiff1d(np.arange(size), places[number])
        X[number, others] = pool[rng.choice(len(pool), size=size - 1, replace=len(pool) < size - 1)]
        X[number, places[number]] = people.X[own]
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
    people, holdout, register = case.people, case.holdout, case.register
    seen = np.arange(len(people.X)) if case.behind is None else np.unique(case.behind[~case.unowned])
    case.targets = seen[sampled(len(seen), MOST_TARGETS, rng)]
    aimed = people.take(case.targets)
    aside = None if holdout is None else holdout.take(sampled(len(holdout.X), MOST_TARGETS, rng))
    candidates, candidate_labels, members = _candidates(case, register, rng)
    pairs, images = _pairs(case, seen, rng)
    lineups, places = line_up(case, rng)
    guided = None if case.card is None else case.card.made_by().map
    if isinstance(guided, Guided):
        case.notes.append(
            "The release consists of the bits of a guided survey. Its guidance is public, so posterior-guess, "
            "posterior-breach and membership compute exact posteriors for the population they are given. The "
            "respondents are simulated: no one knows both what real people sent and what they answered."
        )
    population = case.population
    covariance = np.cov(population, rowvar=False) if len(population) > 1 else np.zeros((population.shape[1],) * 2)
    case.known = Knowledge(
        release=case.Z,
        encoding=case.encoding,
        columnwise=case.columnwise,
        labels=case.y,
        transform=case.transform,
        noise=case.noise,
        noise_covariance=case.noise.covariance(),
        column_moments=ColumnMoments(population.mean(axis=0), np.atleast_2d(covariance)),
        column_distributions=tuple(np.sort(population, axis=0).T),
        known_rows=pairs,
        sample=None if holdout is None else holdout.X,
        sample_labels=None if holdout is None else holdout.y,
        register=register.X,
        register_labels=register.y,
        candidates=candidates,
        candidate_labels=candidate_labels,
        targets=aimed.X,
        target_labels=aimed.y,
        images=images,
        guided=guided if isinstance(guided, Guided | Staged) else None,
        lineups=lineups,
        simulator=simulator_of(case),
        label_keep=case.label_keep,
        tolerance=case.options.tolerance,
    )
    if aside is not None:
        case.aside = replace(case.known, targets=aside.X, target_labels=aside.y, images=None)
    labels = {
        "labels": None if people.y is None else case.y,
        "candidate_labels": None if case.y is None else candidate_labels,
    }
    case.truth = Truth(
        **{**vars(case.known), **labels},
        rows=people.X if case.rows_behind is None else case.rows_behind,
        control_targets=None if aside is None else aside.X,
        members=members,
        lineup=places,
    )
    return case


def _candidates(
    case: Case, register: People, rng: np.random.Generator
) -> tuple[Matrix | None, Codes | None, Flags | None]:
    """People of whom some are in the table, their classes, and which are; nothing without people who are not in it."""
    holdout = case.holdout
    case.candidates = np.empty(0, dtype=np.int64)
    outside = case.candidates if holdout is None else strangers_without_twins(register.X, holdout.X)
    if holdout is None or not len(outside):
        return None, None, None
    chosen = sampled(len(register.X), MOST_CANDIDATES, rng)
    case.candidates = chosen[chosen < len(case.people.X)]  # people whom no row was drawn from come after these
    mine, theirs = register.take(chosen), holdout.take(outside[sampled(len(outside), MOST_CANDIDATES, rng)])
    labels = None if mine.y is None or theirs.y is None else np.concatenate([mine.y, theirs.y])
    members = np.arange(len(mine.X) + len(theirs.X)) < len(mine.X)
    return np.vstack([mine.X, theirs.X]), labels, members


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
