"""From what was read to evidence: choose the people, and find out which release row is whose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sfumato.attacks import KnownNoise
from sfumato.attacks.metrics.privacy import row_codes
from sfumato.auditing.evidence import Evidence, People, read_holdout, read_people, sampled
from sfumato.auditing.generalised import Generalised, Sets
from sfumato.auditing.matching import CANDIDATES, identical_rows, match_people, same_order
from sfumato.auditing.request import AuditRequest
from sfumato.channels import Additive, Channel, Exact, Guided, OrMissing, RandomizedResponse, Sampled
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.mechanisms import MECHANISMS, Mechanism, RowDrawing, make_mechanism
from sfumato.noise import make_law
from sfumato.table import Encoding, Group, Table, open_table
from sfumato.table.filling import unfit_in_words, warn_of_unfit

# What the adversary is taken to know of the noise: the card's word, or an estimate in the adversary's favour.


NOTHING = 1e-12


def known_noise(
    channels: tuple[Channel, ...] | None,
    encoding: Encoding,
    Z: Matrix,
    people: Matrix,
    truth: Matrix | None,
    given: Matrix,
    by_class: Mapping[int, tuple[Channel, ...]] | None = None,
    sets: Mapping[int, Sets] | None = None,
) -> KnownNoise:
    """The stated channels, an estimate in the place of each that is not stated; None: nobody states any.

    sets: of the columns whose cells were generalised, by the number of their group.

    `given`: what the channels are given for people like those in the table. How far an operator other than addition
    moves a value depends on the value. `by_class`: the channels of classes that have their own.
    """
    if channels is not None and all(channel.is_stated for channel in channels):
        return KnownNoise.of(channels, given, by_class)
    if channels is None:
        channels = tuple(
            _estimated(group, Z, people, truth)
            if number not in (sets or {})
            else _generalised(group, Z, people, truth, (sets or {})[number])
            for number, group in enumerate(encoding.groups)
        )
    else:
        channels = tuple(
            channel if channel.is_stated else _in_place_of(channel, _estimated(group, Z, people, truth))
            for channel, group in zip(channels, encoding.groups, strict=True)
        )
    return KnownNoise.of(channels, given)


def _generalised(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None, sets: Sets) -> Channel:
    """The sets' own likelihood, and an estimate of what was done to the cells that hold a single value."""
    alone = sets.index < 0
    changed = _estimated(group, Z, people, truth)
    single = _estimated(group, Z[alone], people, None if truth is None else truth[alone]) if alone.any() else changed
    points = np.full((len(sets.low), group.width), np.inf)
    for number in np.unique(sets.index[~alone]):
        points[number] = Z[np.flatnonzero(sets.index == number)[0], group.slice]
    return Generalised(changed, single, sets, points)


def _in_place_of(stated: Channel, estimate: Channel) -> Channel:
    """How many rows report the column is stated even where nothing else is."""
    return Sampled(estimate, stated.reported) if stated.leaves_out else estimate


def _estimated(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None) -> Channel:
    """Of a column whose maker does not tell, or which was rounded and clipped afterwards.

    The adversary is taken to know how strong the change is (Kerckhoffs): normal with the variance of released minus
    original values where it is known which row is whose, else with max(0, var(release) - var(original)); categories as
    randomized response with the share that was kept. A column that was not changed at all is exact.
    """
    slots = group.slice
    if truth is not None:
        somebodys = ~np.isnan(truth[:, group.start])
        Z, truth = Z[somebodys], truth[somebodys]
    if group.is_onehot:
        told = ~np.isnan(Z[:, group.start])
        if truth is None or not told.any():
            return Exact(group.width)
        same = Z[told, slots].argmax(axis=1) == truth[told, slots].argmax(axis=1)
        return _response(float(same.mean()), group.width)
    variance = _variance(group, Z, people, truth)
    law = make_law("normal", scale=float(np.sqrt(variance))) if variance > NOTHING else None
    value: Channel = Exact() if law is None else Additive(law)
    if not group.has_indicator:
        return value
    if truth is None:
        return OrMissing(value, 1.0)
    same = (Z[:, group.stop - 1] > 0.5) == (truth[:, group.stop - 1] > 0.5)
    return OrMissing(value, _kept(float(same.mean())))


def _variance(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None) -> float:
    released, original = _present(group, Z), _present(group, people)
    if truth is None:
        after, before = Z[released, group.start], people[original, group.start]
        return float(max(0.0, after.var() - before.var())) if len(after) and len(before) else 0.0
    both = released & _present(group, truth)
    return float(np.var(Z[both, group.start] - truth[both, group.start])) if both.any() else 0.0


def _present(group: Group, X: Matrix) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    there = ~np.isnan(X[:, group.start])
    return np.asarray(there & (X[:, group.stop - 1] < 0.5) if group.has_indicator else there)


def _response(keep: float, categories: int) -> Channel:
    return Exact(categories) if categories < 2 or keep >= 1.0 else RandomizedResponse(_kept(keep), categories)


def _kept(share: float) -> float:
    """A share that was never kept is still a probability."""
    return min(1.0, max(share, 1e-9))


SAME_ORDER = "No private match file: comparing the rows showed that release and original are in the same order."
MADE_UP = "The card says that rows were drawn from a noisy model of the table: none of them is anybody's."
IDENTICAL = "No private match file: release rows were matched to identical original rows."
MATCHED = (
    "No private match file, and the rows are in another order: rows were matched to people as an attacker would who "
    "holds the original ({how}). {sure:.0%} of the matched rows fit one person far better than all others; where "
    "several fit, one was drawn by likelihood. Attackers of values and links were judged by this match."
)
PARTLY = (
    "{own:,} of the {rows:,} audited rows fit a person of the table better than anyone else; the others are no "
    "person's, as far as can be told. Attackers of values and links are judged on these {own:,} rows and the people "
    "behind them."
)
EXACTLY = "optimal assignment by likelihood"
NOT_EXACTLY = "by likelihood among the {count} nearest people; the table is too large, or has too few people, for the "
NOT_EXACTLY += "optimal assignment"
UNKNOWN = (
    "No private match file, and the rows of the release are in another order, and no nearer to these people than rows "
    "of others are: it is unknown which row is whose."
)


NEVER_DRAWN = (
    "Rows were drawn at random, and {share:.0%} of the people have none. They count as members in the membership "
    "test and are in the register; attackers of a person's own row try the others."
)
NOT_ALL_USED = (
    "The release was not made from all rows of the original, and which of them it could have drawn is unknown: "
    "people from whom no row was drawn are left out, so the membership test errs on the safe side."
)


@dataclass
class Draft:
    """What was read of a release, before people were chosen.

    rows, people: of a release too large to hold, how many rows it has, and a sample of the people where it is unknown
    whose row is whose.
    """

    encoding: Encoding
    Z: Matrix
    y: Codes | None
    source: Codes | None
    original: Table
    affine: tuple[Matrix, Matrix] | None
    columnwise: bool
    card: Card | None = None
    channels: tuple[Channel, ...] | None = None
    by_class: Mapping[int, tuple[Channel, ...]] = field(default_factory=dict)
    key_used: bool = False
    alignment: str = "trace"
    sets: Mapping[int, Sets] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    released: Table | None = None
    rows: int | None = None
    people: People | None = None


def evidence_of(draft: Draft, request: AuditRequest, rng: np.random.Generator) -> Evidence:
    """Audit all people, or a sample of them: the same people for every release of the same table."""
    if len(draft.Z) < 2:
        raise TableError(f"The release has {counted(len(draft.Z), 'row')}; an audit needs at least two.")
    whole: People | None = None
    undrawn: People | None = None
    alignment, source, among = draft.alignment, draft.source, np.arange(len(draft.Z))
    strangers: tuple[People, int] | None = None
    if request.holdout is not None:
        strangers = read_holdout(open_table(request.holdout), draft.encoding, request.unknown)
    if source is None and draft.people is not None:
        whole, alignment = draft.people, "unknown"
    elif source is None:
        whole = read_people(draft.original, draft.encoding)
        others = None if strangers is None else strangers[0].X
        alignment, source, among = _find_source(draft, whole.X, others, request)
    if source is None:
        assert whole is not None
        people = whole.take(sampled(len(whole.X), request.max_rows, rng))
        positions = sampled(len(draft.Z), request.max_rows, rng)
        behind = None
    else:
        positions, numbers = _chosen(source, among, request.max_rows, rng)
        if whole is not None and (source[among] < 0).any():  # who has no row is in the table all the same
            numbers = _with_others(numbers, len(whole.X), request.max_rows, rng)
        people = _people(draft, whole, numbers)
        undrawn = _undrawn(draft, source, people.total, request.max_rows, rng)
        behind = np.where(source[positions] < 0, -1, np.searchsorted(numbers, source[positions]))
        if (behind < 0).any():
            draft.notes.append(PARTLY.format(own=np.count_nonzero(behind >= 0), rows=len(behind)))
    Z = draft.Z[positions]
    holdout = _holdout(draft, people, strangers, request.max_rows, rng)
    population = people.X if holdout is None or len(holdout.X) < 2 else holdout.X
    given = _given(draft, population)
    sets = {number: found.take(positions) for number, found in draft.sets.items()}
    truth = None if behind is None else np.where(behind[:, None] >= 0, people.X[behind], np.nan)
    noise = known_noise(draft.channels, draft.encoding, Z, people.X, truth, given, draft.by_class, sets)
    return Evidence(
        encoding=draft.encoding,
        Z=Z,
        y=None if draft.y is None else draft.y[positions],
        positions=positions,
        people=people,
        behind=behind,
        affine=draft.affine,
        noise=noise,
        columnwise=draft.columnwise,
        release_rows=draft.rows or len(draft.Z),
        card=draft.card,
        key_used=draft.key_used,
        holdout=holdout,
        undrawn=undrawn,
        alignment=alignment,
        sampled=len(positions) < (draft.rows or len(draft.Z)),
        notes=draft.notes,
        original=draft.original,
        released=draft.released,
        whole=draft.Z,
        whole_y=draft.y,
        generalised=np.any([found.index >= 0 for found in draft.sets.values()], axis=0) if draft.sets else None,
    )


def _given(draft: Draft, population: Matrix) -> Matrix:
    """What the channels are given for these people, as far as the map is known."""
    if draft.card is not None and draft.card.transform["kind"] == Guided.kind:
        return draft.card.made_by().map.apply(population)
    if draft.affine is not None:
        return np.asarray(population @ draft.affine[0].T + draft.affine[1])
    return np.zeros((1, draft.Z.shape[1]))


def _find_source(
    draft: Draft, people: Matrix, strangers: Matrix | None, request: AuditRequest
) -> tuple[str, Codes | None, Codes]:
    """How it is known whose row is whose, the original row behind each release row (-1: none), and the rows that were
    looked at."""
    rng = np.random.default_rng((request.seed, 1))  # of its own: who is attacked does not depend on the rows' order
    everything = np.arange(len(draft.Z))
    E, others = _as_released(draft, people), None if strangers is None else _as_released(draft, strangers)
    if same_order(E, draft.Z):
        draft.notes.append(SAME_ORDER)
        return "same-order", everything, everything
    identical = identical_rows(E, draft.Z, rng) if E.shape[1] else None
    if identical is not None:
        draft.notes.append(IDENTICAL)
        return "identical-rows", identical, everything
    if draft.card is not None and draft.card.guarantee.get("central"):
        draft.notes.append(MADE_UP)
        return "unknown", None, everything
    picked = sampled(len(draft.Z), request.max_rows, rng)
    found = match_people(E, draft.Z[picked], others, rng) if E.shape[1] and not np.isnan(draft.Z).any() else None
    if found is not None:
        how = EXACTLY if found.exact else NOT_EXACTLY.format(count=CANDIDATES)
        draft.notes.append(MATCHED.format(how=how, sure=found.sure))
        source = np.full(len(draft.Z), -1, dtype=np.int64)
        source[picked] = found.source
        return "matched", source, picked
    draft.notes.append(UNKNOWN)
    return "unknown", None, everything


def _as_released(draft: Draft, X: Matrix) -> Matrix:
    """Where these people would lie in the release; without columns where the map is a secret."""
    if draft.columnwise:
        return X
    return X[:, :0] if draft.affine is None else np.asarray(X @ draft.affine[0].T + draft.affine[1])


def _chosen(source: Codes, among: Codes, most: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Positions of the release rows to audit, and the numbers of the original rows behind them (sorted)."""
    numbers = np.unique(source[source >= 0])
    if (source[among] < 0).any():  # an adversary sees the rows that are nobody's too
        own = source[among] >= 0
        parts = [among[own], among[~own]]
        share = min(1.0, most / len(among))
        positions = np.sort(
            np.concatenate([part[sampled(len(part), max(2, int(share * len(part))), rng)] for part in parts])
        )
        found = np.unique(source[positions])
        return positions, found[found >= 0]
    numbers = numbers[sampled(len(numbers), most, rng)]
    positions = np.flatnonzero(np.isin(source, numbers))
    if len(positions) > most:  # several release rows of one source
        positions = positions[sampled(len(positions), most, rng)]
        numbers = np.unique(source[positions])
    return positions, numbers


def _with_others(numbers: Codes, people: int, most: int, rng: np.random.Generator) -> Codes:
    """These people and as many others as may be audited, in order."""
    others = np.setdiff1d(np.arange(people), numbers)
    return np.union1d(numbers, others[sampled(len(others), max(0, most - len(numbers)), rng)])


def _people(draft: Draft, whole: People | None, numbers: Codes) -> People:
    if whole is not None:
        return whole.take(numbers)
    people = read_people(draft.original, draft.encoding, numbers)
    if len(people.X) < len(numbers):
        raise TableError(
            f"The table given as original has {people.total} rows, but the private match file of the release names "
            "later ones. Give the table that the release was made from."
        )
    return people


def _undrawn(draft: Draft, source: Codes, total: int, most: int, rng: np.random.Generator) -> People | None:
    """People of whom no row was released, where rows are drawn: they are in the table all the same.

    As large a share of them as of the others, where these are a sample.
    """
    if draft.card is None or not issubclass(MECHANISMS.get(draft.card.mechanism["name"], Mechanism), RowDrawing):
        return None
    mechanism = make_mechanism(draft.card.mechanism["name"], dict(draft.card.mechanism["parameters"]))
    assert isinstance(mechanism, RowDrawing)
    drawn = np.unique(source)
    if mechanism.wanted(total) != draft.card.rows:
        draft.notes.append(NOT_ALL_USED)
        return None
    never = np.setdiff1d(np.arange(total), drawn)
    never = never[sampled(len(never), round(len(never) * min(1.0, most / max(len(drawn), 1))), rng)]
    draft.notes.append(NEVER_DRAWN.format(share=(total - len(drawn)) / total))
    return read_people(draft.original, draft.encoding, never)


def _holdout(
    draft: Draft, people: People, read: tuple[People, int] | None, most: int, rng: np.random.Generator
) -> People | None:
    if read is None:
        draft.notes.append(
            "No table of people not in the original: membership cannot be tested, and what attackers know about the "
            "population (means, covariances, distributions) was taken from the original itself."
        )
        return None
    holdout, left_out = read
    draft.notes.append(
        "What attackers know about the population (means, covariances, distributions) was taken from the people not "
        "in the table."
    )
    if left_out:
        draft.notes.append(
            f"{counted(left_out, 'row')} of people not in the table left out: they lack a number that no one in the "
            "original lacks, or have a class that no other person has."
        )
    if strange := unfit_in_words(holdout.unfit, "the original"):
        draft.notes.append(f"Of people not in the table: {strange[0].lower()}{strange[1:]}")
        warn_of_unfit(holdout.unfit, "the original")
    codes = row_codes(np.vstack([people.X, holdout.X]))
    twins = float(np.isin(codes[len(people.X) :], codes[: len(people.X)]).mean())
    if twins > 0.1:
        draft.notes.append(
            f"{twins:.0%} of the holdout rows are identical to a row of the original and were left out of the "
            "membership test. If these are the same people, the control says nothing."
        )
    return holdout.take(sampled(len(holdout.X), most, rng))
