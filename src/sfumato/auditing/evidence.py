"""All that the auditor holds, in one place: the release as a matrix, and the people behind it where they are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attacks import KnownNoise
from sfumato.attacks.observation import Observation
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import TableError, UsageError
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.table import Encoding, Table
from sfumato.table.arrays import plain, text
from sfumato.table.filling import REFUSE, codes_of
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
        return People(self.numbers[positions], self.X[positions], y, self.total, self.unfit)


@dataclass(frozen=True)
class Evidence:
    """The audited part of a release.

    Z: release rows (n x s); positions: their places in the release's file. people: original rows (m x d).
    behind: for every row of Z the position in `people` of its source, -1 where the row is nobody's, as far as can be
    told; None where nobody can tell of any. undrawn: people of the table of whom no row was released, where rows are
    drawn.
    affine: (A, c) as far as card and key tell; key_used: it came from a secret key. noise: what the card says of the
    channels, or an estimate; None where nothing is known. original: the table of all people; released: the cells of a
    release without a card, as they stand; whole, whole_y: all release rows and their classes; generalised: which of
    these have a cell that names a set of values.
    """

    encoding: Encoding
    Z: Matrix
    y: Codes | None
    positions: Codes
    people: People
    behind: Codes | None
    affine: tuple[Matrix, Matrix] | None
    noise: KnownNoise | None
    columnwise: bool
    release_rows: int
    card: Card | None = None
    key_used: bool = False
    holdout: People | None = None
    undrawn: People | None = None
    alignment: str = "trace"
    sampled: bool = False
    notes: list[str] = field(default_factory=list)
    original: Table | None = None
    released: Table | None = None
    whole: Matrix | None = None
    whole_y: Codes | None = None
    generalised: Flags | None = None

    @property
    def truth(self) -> Matrix | None:
        """The encoded source row behind every release row (n x d); no number where the row is nobody's."""
        if self.behind is None:
            return None
        return np.where(self.behind[:, None] >= 0, self.people.X[self.behind], np.nan)

    @property
    def nobodys(self) -> Flags:
        """Of the audited rows, those that nobody is known to be behind although somebody is behind others."""
        return np.zeros(len(self.Z), dtype=bool) if self.behind is None else np.asarray(self.behind < 0)

    @property
    def register(self) -> Matrix:
        """Everybody in the table, as far as they are audited: those behind a release row first."""
        return self.people.X if self.undrawn is None else np.vstack([self.people.X, self.undrawn.X])

    @property
    def register_labels(self) -> Codes | None:
        """Their classes."""
        others = None if self.undrawn is None else self.undrawn.y
        if self.people.y is None or self.undrawn is None:
            return self.people.y
        return None if others is None else np.concatenate([self.people.y, others])

    @property
    def label_keep(self) -> float:
        """How often a released label is true."""
        return 1.0 if self.card is None else self.card.label_keep

    @property
    def is_guided(self) -> bool:
        """Whether these are the bits of a guided survey: plain answers are classified as they are."""
        return self.card is not None and bool(self.card.transform["kind"] == "guided")

    def embed(self, X: Matrix) -> Matrix | None:
        """Where unperturbed rows lie in the release's space; None where the map is a secret."""
        if self.affine is None:
            return X if self.columnwise or self.is_guided else None
        matrix, offset = self.affine if self.noise is None else self.noise.on_average(*self.affine)
        return np.asarray(X @ matrix.T + offset)

    def restored(self) -> Matrix | None:
        """Release rows as encoded source columns, as anybody could map them back; None where that needs the key."""
        if self.affine is None or self.key_used:
            return self.Z if self.columnwise else None
        matrix, offset = self.affine if self.noise is None else self.noise.on_average(*self.affine)
        if self.columnwise and not offset.any() and np.array_equal(matrix, np.eye(len(matrix))):
            return self.Z
        middle = np.concatenate([group.vertices.mean(axis=0) for group in self.encoding.groups])
        if self.columnwise:  # cell by cell: one that is not reported stays so
            slopes = np.diag(matrix)
            tells = np.abs(slopes) > FLAT
            return np.where(tells | np.isnan(self.Z), (self.Z - offset) / np.where(tells, slopes, 1.0), middle)
        return Observation(matrix, offset, np.zeros((len(offset),) * 2)).reverse(self.Z, middle)


def read_people(table: Table, encoding: Encoding, wanted: Codes | None = None, unknown: str = REFUSE) -> People:
    """Encode a table block by block; of the rows, keep those whose numbers are `wanted` (sorted), or all."""
    if isinstance(table, PicksRows):
        return _fetched(table, encoding, wanted, unknown)
    unfit: Counter[str] = Counter()
    labelled = encoding.schema.label is not None and encoding.schema.label.name in table.names
    numbers: list[Codes] = []
    matrices: list[Matrix] = []
    labels: list[Codes] = []
    first = 0
    for batch in table.blocks():
        here = np.arange(first, first + batch.num_rows)
        keep = (
            here if wanted is None else wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, here[-1] + 1)]
        )
        if len(keep):
            encoded = encoding.encode(batch, unknown=unknown, first_row=first)
            matrices.append(encoded.X[keep - first])
            unfit.update(encoded.unfit)
            numbers.append(keep)
            if labelled:
                labels.append(encoding.encode_label(batch, first_row=first)[keep - first])
        first += batch.num_rows
    if first < 2:
        raise TableError(f"{table.where} has {counted(first, 'row')}; an audit needs at least two.")
    X = np.concatenate(matrices) if matrices else np.empty((0, encoding.width))
    found = np.concatenate(numbers) if numbers else np.empty(0, dtype=np.int64)
    return People(found, X, np.concatenate(labels) if labels else None, first, unfit)


def _fetched(table: PicksRows, encoding: Encoding, wanted: Codes | None, unknown: str) -> People:
    """The same where the rows lie with Spark's executors: only those that are audited come here."""
    if wanted is None:
        raise UsageError(
            "--engine spark audits a release with its private match file, which says whose row is whose. Leave it out."
        )
    rows, total = table.rows_at(wanted)
    label = encoding.schema.label
    encoded = encoding.encode(rows, unknown=unknown)
    codes = encoding.encode_label(rows) if label is not None and label.name in rows.column_names else None
    return People(wanted[wanted < total], encoded.X, codes, total, encoded.unfit)


def read_holdout(table: Table, encoding: Encoding, unknown: str) -> tuple[People, int]:
    """People who are not in the table, and how many of them were left out.

    A category that the table does not have is taken as missing and counted (or refused: `unknown`). People are left out
    whose class nobody in the table has, or who lack a number that nobody in the table lacks.
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


def sampled(count: int, most: int, rng: np.random.Generator) -> Codes:
    """At most `most` positions out of `count`, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(rng.choice(count, size=most, replace=False))
