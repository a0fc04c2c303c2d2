"""All that the auditor holds, in one place: the release as a matrix, and the people behind it where they are known."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attacks.base import Attack, Knowledge, KnownNoise, Transform
from sfumato.attacks.likelihood import Observation
from sfumato.attacks.metrics.scored import Truth
from sfumato.auditing.asked import AuditAsked
from sfumato.auditing.generalised import Generalised, Sets
from sfumato.channels import Additive, Channel, Exact, OrMissing, RandomizedResponse, Sampled
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.noise import make_law
from sfumato.table import Encoding, Group, Schema, Table
from sfumato.table.arrays import plain, text
from sfumato.table.encoding import REFUSE, codes_of
from sfumato.table.tables import MemoryTable, PicksRows

FLAT = 1e-9
"""A slope below this says nothing."""


@dataclass(frozen=True)
class People:
    """Encoded rows of a table with their numbers in it, and class codes where there is a label."""

    numbers: Codes
    X: Matrix
    y: Codes | None
    total: int
    unfit: Mapping[str, int] = field(default_factory=dict)
    """Cells per column that fit no category of the table and were taken as missing."""

    def take(self, positions: Codes) -> People:
        """Some of them."""
        y = None if self.y is None else self.y[positions]
        return replace(self, numbers=self.numbers[positions], X=self.X[positions], y=y)


@dataclass
class Case:
    """What the auditor holds: the release, the original behind it, people who are not in the table, and the options.

    It is filled step by step: read (open_case, read_tables), people chosen and rows told whose they are, attackers
    given what they could know (open_case). From then on it stays as it is, and every part of the audit asks
    it.

    options: what was asked for. original: the table of all people. Z: the audited release rows (n x s); positions:
    their places among the rows that were read, which are `whole`, with the classes `whole_y`; release_rows: how many
    the release has. source: of every row of `whole` its row in the original, -1 where it is no person's, as far as can
    be told; None where that is unknown of all. affine: (A, c) as far as card and key tell; key_used: it came from a
    secret key. released: reads a release without a card, as it stands; sets: of its columns whose cells name sets
    of values, by the number of the group. people: original rows (m x d). behind: of every row of Z the position in
    `people` of its source, or -1. undrawn: people of the table of whom no row was released, where rows are drawn.
    noise: what the card says of the channels, or an estimate. known: everything that an
    attacker could know; aside: the same aimed at people who are not in the table. targets, candidates: positions in
    `people` of those aimed at, and of the members among the candidates (who come first). paired: of the people whose
    rows are known together with their images. lent: of the people whose rows serve as a sample where there is no
    holdout.
    """

    options: AuditAsked
    encoding: Encoding
    original: Table
    Z: Matrix
    y: Codes | None
    source: Codes | None
    affine: tuple[Matrix, Matrix] | None
    columnwise: bool
    card: Card | None = None
    key_used: bool = False
    alignment: str = "trace"
    notes: list[str] = field(default_factory=list)
    released: Callable[[], Iterable[pa.RecordBatch | pa.Table]] | None = None
    sets: Mapping[int, Sets] = field(default_factory=dict)
    release_rows: int = 0

    whole: Matrix = field(init=False)
    whole_y: Codes | None = field(init=False)
    positions: Codes = field(init=False)
    people: People = field(init=False)
    behind: Codes | None = field(init=False)
    holdout: People | None = field(init=False)
    undrawn: People | None = field(init=False, default=None)
    noise: KnownNoise = field(init=False)

    known: Knowledge = field(init=False)
    aside: Knowledge | None = field(init=False, default=None)
    truth: Truth = field(init=False)
    targets: Codes = field(init=False)
    candidates: Codes = field(init=False)
    paired: Codes = field(init=False)
    lent: Codes = field(init=False)

    def __post_init__(self) -> None:
        self.whole, self.whole_y = self.Z, self.y
        self.release_rows = self.release_rows or len(self.Z)

    @property
    def rows_behind(self) -> Matrix | None:
        """The encoded source row behind every release row (n x d); no number where the row is no person's."""
        return None if self.behind is None else np.where(self.unowned[:, None], np.nan, self.people.X[self.behind])

    @property
    def unowned(self) -> Flags:
        """Of the audited rows, those without a person behind them, where others have one."""
        return np.zeros(len(self.Z), dtype=bool) if self.behind is None else np.asarray(self.behind < 0)

    @property
    def register(self) -> People:
        """Everybody in the table, as far as they are audited: those behind a release row first."""
        people, others = self.people, self.undrawn
        if others is None:
            return people
        y = None if people.y is None or others.y is None else np.concatenate([people.y, others.y])
        numbers, X = np.concatenate([people.numbers, others.numbers]), np.vstack([people.X, others.X])
        return replace(people, numbers=numbers, X=X, y=y)

    @property
    def population(self) -> Matrix:
        """People like those in the table: others where there are any."""
        return self.people.X if self.holdout is None or len(self.holdout.X) < 2 else self.holdout.X

    @property
    def label_keep(self) -> float:
        """How often a released label is true."""
        return 1.0 if self.card is None else self.card.label_keep

    @property
    def is_made_up(self) -> bool:
        """Whether rows were drawn from a noisy model of the table."""
        return self.card is not None and self.card.made_by().rows == "nobody"

    @property
    def is_guided(self) -> bool:
        """Whether these are the bits of a guided survey: plain answers are classified as they are."""
        return self.card is not None and bool(self.card.transform["kind"] == "guided")

    @property
    def transform(self) -> Transform | None:
        """The map as card and key tell it, and what the channels make of every number on average."""
        return None if self.affine is None else self.noise.on_average(*self.affine)

    def embed(self, X: Matrix) -> Matrix | None:
        """Where unperturbed rows lie in the release's space; None where the map is a secret."""
        if self.transform is None:
            return X if self.columnwise or self.is_guided else None
        return np.asarray(X @ self.transform.matrix.T + self.transform.offset)

    def restored(self, Z: Matrix | None = None) -> Matrix | None:
        """Release rows (the audited ones by default) as encoded source columns, as anybody could map them back; None
        where that needs the key."""
        Z = self.Z if Z is None else Z
        if self.transform is None or self.key_used:
            return Z if self.columnwise else None
        matrix, offset = self.transform
        if self.columnwise and not offset.any() and np.array_equal(matrix, np.eye(len(matrix))):
            return Z
        middle = np.concatenate([group.vertices.mean(axis=0) for group in self.encoding.groups])
        if self.columnwise:  # cell by cell: one that is not reported stays so
            slopes = np.diag(matrix)
            tells = np.abs(slopes) > FLAT
            return np.where(tells | np.isnan(Z), (Z - offset) / np.where(tells, slopes, 1.0), middle)
        return Observation(matrix, offset, np.zeros((len(offset),) * 2)).reverse(Z, middle)

    def known_to(self, attack: Attack) -> Knowledge:
        """Everything, with the lent people as a sample for an attack that cannot do without one."""
        if "sample" in attack.knows and self.known.sample is None and len(self.lent):
            lent = self.people.take(self.lent)
            return replace(self.known, sample=lent.X, sample_labels=lent.y)
        return self.known

    def given_away(self, attack: Attack) -> Codes:
        """Positions of the people whom this attack was given, who therefore cannot count among its successes."""
        paired = self.paired if "known_rows" in attack.knows else self.paired[:0]
        lent = self.lent if "sample" in attack.knows and self.known.sample is None else self.lent[:0]
        return np.union1d(paired, lent)


def read_people(table: Table, encoding: Encoding, wanted: Codes | None = None, unknown: str = REFUSE) -> People:
    """Encode a table block by block; of the rows, keep those whose numbers are `wanted` (sorted), or all."""
    label = encoding.schema.label
    if isinstance(table, PicksRows):  # rows lie with Spark's executors: only those that are audited come here
        if wanted is None:
            raise UsageError(
                "--engine spark audits a release with its private match file, which says whose row is whose. Leave it "
                "out."
            )
        rows, total = table.rows_at(wanted)
        encoded = encoding.encode(rows, unknown=unknown)
        codes = encoding.encode_label(rows) if label is not None and label.name in rows.column_names else None
        return People(wanted[wanted < total], encoded.X, codes, total, encoded.unfit)
    unfit: Counter[str] = Counter()
    labelled, first = label is not None and label.name in table.names, 0
    numbers, matrices, labels = [np.empty(0, dtype=np.int64)], [np.empty((0, encoding.width))], list[Codes]()
    for batch in table.blocks():
        keep = np.arange(first, first + batch.num_rows)
        if wanted is not None:
            keep = wanted[slice(*np.searchsorted(wanted, (first, first + batch.num_rows)))]
        if len(keep):
            encoded = encoding.encode(batch, unknown=unknown, first_row=first)
            numbers.append(keep)
            matrices.append(encoded.X[keep - first])
            unfit.update(encoded.unfit)
            if labelled:
                labels.append(encoding.encode_label(batch, first_row=first)[keep - first])
        first += batch.num_rows
    if first < 2:
        raise TableError(f"{table.where} has {counted(first, 'row')}; an audit needs at least two.")
    y = np.concatenate(labels) if labels else None
    return People(np.concatenate(numbers), np.concatenate(matrices), y, first, unfit)


def read_holdout(table: Table, encoding: Encoding, unknown: str) -> tuple[People, int]:
    """People who are not in the table, and how many of them were left out.

    A category that the table does not have is taken as missing and counted (or refused: `unknown`). People are left out
    whose class does not occur in the table, or who lack a number that all people in the table have.
    """
    whole = table.read()
    fits = np.ones(whole.num_rows, dtype=bool)
    for column in encoding.schema.private:
        if column.name not in whole.column_names:
            raise TableError(
                f"The table of people not in the original lacks the column {column.name!r}, which the original has."
            )
        array = plain(whole[column.name])
        if unknown == REFUSE and column.categories is not None:
            codes_of(column, array, 0)  # before rows are left out, so that the row it names is the file's
        if not column.missing and column.categories is None:
            fits &= ~np.asarray(array.is_null(nan_is_null=pa.types.is_floating(array.type)))
    label = encoding.schema.label
    if label is not None and label.name in whole.column_names:
        words = pa.array(label.categories, pa.string())
        fits &= np.asarray(pc.is_in(text(plain(whole[label.name]), label.name), value_set=words))
    people = read_people(MemoryTable(whole.filter(pa.array(fits)), table.where), encoding, unknown=unknown)
    return people, int((~fits).sum())


def present(group: Group, X: Matrix) -> Flags:
    """In which rows a number is neither missing nor left out."""
    there = ~np.isnan(X[:, group.start])
    return np.asarray(there & (X[:, group.stop - 1] < 0.5) if group.has_indicator else there)


def schema_of(table: Table, schema: Schema | Path | str | None, label: str | None) -> Schema:
    """The given one, or one that is read off the table: nothing is released."""
    if schema is not None:
        return Schema.of(schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a release would leak is not what is asked here
        return Schema.infer(table, label, refuse=False)


def sampled(count: int, most: int, rng: np.random.Generator) -> Codes:
    """At most `most` positions out of `count`, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(rng.choice(count, size=most, replace=False))


NOTHING = 1e-12


def known_noise(case: Case) -> KnownNoise:
    """What the adversary is taken to know of the noise: the stated channels, an estimate in the place of each that is
    not stated; of a release without a card of all.

    How far an operator other than addition moves a value depends on the value, so that the channels are tried on what
    they are given for people like those in the table.
    """
    recipe, groups = None if case.card is None else case.card.made_by(), case.encoding.groups
    truth, people, given = case.rows_behind, case.people.X, np.zeros((1, case.Z.shape[1]))
    if recipe is not None and case.is_guided:
        given = recipe.map.apply(case.population)
    elif case.affine is not None:
        given = np.asarray(case.population @ case.affine[0].T + case.affine[1])
    if recipe is not None and all(channel.is_stated for channel in recipe.channels):
        return KnownNoise.of(recipe.channels, given, recipe.by_class)
    found: list[Channel] = []
    for number, channel in enumerate(recipe.channels if recipe else [None] * len(groups)):
        if channel is None or not channel.is_stated:
            estimate = _estimated(groups[number], case.Z, people, truth)
            # How many rows report the column is stated even where nothing else is.
            channel = Sampled(estimate, channel.reported) if channel and channel.leaves_out else estimate
        found.append(_generalised(case, number, channel, truth) if number in case.sets else channel)
    return KnownNoise.of(tuple(found), given)


def _generalised(case: Case, number: int, changed: Channel, truth: Matrix | None) -> Channel:
    """The same of a column with generalised cells, with what was done to the cells that hold a single value."""
    group, sets = case.encoding.groups[number], case.sets[number].take(case.positions)
    alone, single = sets.index < 0, changed
    if alone.any():
        single = _estimated(group, case.Z[alone], case.people.X, None if truth is None else truth[alone])
    points = np.full((len(sets.low), group.width), np.inf)
    for one in np.unique(sets.index[~alone]):
        points[one] = case.Z[np.flatnonzero(sets.index == one)[0], group.slice]
    return Generalised(changed, single, sets, points)


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
