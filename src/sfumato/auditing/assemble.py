"""From what was read to case: choose the people, and find out which release row is whose."""

from __future__ import annotations

import numpy as np

from sfumato.attacks.base import KnownNoise
from sfumato.attacks.metrics.privacy import row_codes
from sfumato.auditing.case import Case, People, present, read_holdout, read_people, sampled
from sfumato.auditing.generalised import Generalised
from sfumato.auditing.matching import CANDIDATES, identical_rows, match_people, same_order
from sfumato.channels import Additive, Channel, Exact, OrMissing, RandomizedResponse, Sampled
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError
from sfumato.core.wording import counted
from sfumato.mechanisms import find_mechanism, make_mechanism
from sfumato.noise import make_law
from sfumato.table import Group, open_table
from sfumato.table.encoding import unfit_in_words, warn_of_unfit

NOTHING = 1e-12


def known_noise(case: Case, population: Matrix) -> KnownNoise:
    """What the adversary is taken to know of the noise: the stated channels, an estimate in the place of each that is
    not stated; of a release without a card of all.

    `population`: people like those in the table. How far an operator other than addition moves a value depends on the
    value, so that the channels are tried on what they are given for these people.
    """
    truth, people, given = case.rows_behind, case.people.X, np.zeros((1, case.Z.shape[1]))
    if case.card is not None and case.is_guided:
        given = case.card.made_by().map.apply(population)
    elif case.affine is not None:
        given = np.asarray(population @ case.affine[0].T + case.affine[1])
    if case.card is None:
        estimates = [_estimated(group, case.Z, people, truth) for group in case.encoding.groups]
        for number, every in case.sets.items():  # an estimate too of what was done to the cells with a single value
            group, sets, changed = case.encoding.groups[number], every.take(case.positions), estimates[number]
            alone, single = sets.index < 0, changed
            if alone.any():
                single = _estimated(group, case.Z[alone], people, None if truth is None else truth[alone])
            points = np.full((len(sets.low), group.width), np.inf)
            for one in np.unique(sets.index[~alone]):
                points[one] = case.Z[np.flatnonzero(sets.index == one)[0], group.slice]
            estimates[number] = Generalised(changed, single, sets, points)
        return KnownNoise.of(tuple(estimates), given)
    recipe = case.card.made_by()
    if all(channel.is_stated for channel in recipe.channels):
        return KnownNoise.of(recipe.channels, given, recipe.by_class)
    found = []
    for channel, group in zip(recipe.channels, case.encoding.groups, strict=True):
        if not channel.is_stated:
            estimate = _estimated(group, case.Z, people, truth)
            # How many rows report the column is stated even where nothing else is.
            channel = Sampled(estimate, channel.reported) if channel.leaves_out else estimate
        found.append(channel)
    return KnownNoise.of(tuple(found), given)


def _estimated(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None) -> Channel:
    """Of a column whose maker does not tell, or which was rounded and clipped afterwards.

    The adversary is taken to know how strong the change is (Kerckhoffs): normal with the variance of released minus
    original values where it is known which row is whose, else with max(0, var(release) - var(original)); categories as
    randomized response with the share that was kept. A column that was not changed at all is exact.
    """
    slots = group.slice
    if truth is not None:
        owned = ~np.isnan(truth[:, group.start])
        Z, truth = Z[owned], truth[owned]
    if group.is_onehot:
        told = ~np.isnan(Z[:, group.start])
        if truth is None or not told.any():
            return Exact(group.width)
        same = Z[told, slots].argmax(axis=1) == truth[told, slots].argmax(axis=1)
        keep = float(same.mean())
        exact = group.width < 2 or keep >= 1.0
        return Exact(group.width) if exact else RandomizedResponse(max(keep, 1e-9), group.width)
    variance = _variance(group, Z, people, truth)
    law = make_law("normal", scale=float(np.sqrt(variance))) if variance > NOTHING else None
    value: Channel = Exact() if law is None else Additive(law)
    if not group.has_indicator:
        return value
    if truth is None:
        return OrMissing(value, 1.0)
    same = (Z[:, group.stop - 1] > 0.5) == (truth[:, group.stop - 1] > 0.5)
    return OrMissing(value, max(float(same.mean()), 1e-9))


def _variance(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None) -> float:
    """Of what was added to the numbers of a column; 0 where none can be compared."""
    released, original = present(group, Z), present(group, people if truth is None else truth)
    if truth is not None:
        both = released & original
        return float(np.var(Z[both, group.start] - truth[both, group.start])) if both.any() else 0.0
    after, before = Z[released, group.start], people[original, group.start]
    return float(max(0.0, after.var() - before.var())) if len(after) and len(before) else 0.0


SAME_ORDER = "No private match file: comparing the rows showed that release and original are in the same order."


def choose_people(case: Case, rng: np.random.Generator, people: People | None = None) -> Case:
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
    if case.source is None:
        assert people is not None
        case.people = people.take(sampled(len(people.X), most, rng))
        case.positions, case.behind = sampled(len(case.Z), most, rng), None
    else:
        _choose_behind(case, case.source, among, people, rng)
    case.Z, case.y = case.whole[case.positions], None if case.whole_y is None else case.whole_y[case.positions]
    case.holdout = _holdout(case, strangers, rng)
    population = case.people.X if case.holdout is None or len(case.holdout.X) < 2 else case.holdout.X
    case.noise = known_noise(case, population)
    return case


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
    E, others = _as_released(case, people), None if strangers is None else _as_released(case, strangers)
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
    how = "optimal assignment by likelihood"
    if not found.exact:
        how = (
            f"by likelihood among the {CANDIDATES} nearest people; the table is too large, or has too few people, for "
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


def _as_released(case: Case, X: Matrix) -> Matrix:
    """Where these people would lie in the release; without columns where the map is a secret."""
    if case.columnwise:
        return X
    return X[:, :0] if case.affine is None else np.asarray(X @ case.affine[0].T + case.affine[1])


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
    codes = row_codes(np.vstack([case.people.X, holdout.X]))
    twins = float(np.isin(codes[len(case.people.X) :], codes[: len(case.people.X)]).mean())
    if twins > 0.1:
        case.notes.append(
            f"{twins:.0%} of the holdout rows are identical to a row of the original and were left out of the "
            "membership test. If these are the same people, the control says nothing."
        )
    return holdout.take(sampled(len(holdout.X), case.options.max_rows, rng))
