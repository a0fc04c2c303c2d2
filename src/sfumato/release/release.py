"""A release, in a folder or in memory: card, rows and labels; the owner also has the trace and the key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.asked import check_asked
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.files import new_folder, write_whole
from sfumato.core.wording import counted
from sfumato.guarantee import Card, Key
from sfumato.ledger import Ledger
from sfumato.ledger.memories import name_release
from sfumato.mechanisms import Mechanism, find_mechanism
from sfumato.noise import Streams
from sfumato.release.asked import RELEASE_FORMATS, RedrawAsked
from sfumato.release.engine import drawn
from sfumato.release.noted import Sanitized
from sfumato.release.signature import COUNTS, keep_signature
from sfumato.release.write_release import CARD_METADATA, MODEL, InFolder, InMemory, Layout, check_replaceable, today
from sfumato.table import Encoding, open_table
from sfumato.table.arrays import checked, numbers
from sfumato.table.cell_sets import ARROW, as_frame, kind_of
from sfumato.table.encoding import recode, unstated

_FORMAT_METADATA = {b"ARROW:schema", b"PARQUET:field_id"}
FILES = tuple(f"release.{format}" for format in RELEASE_FORMATS)


class Release:
    """Perturbed rows and the card that says what they guarantee; in a folder, or in memory until it is saved.

    `sfumato.sanitize` and `sfumato.open_release` give one. The owner's also holds the private trace (`source`: which
    row of the table each released row came from) and, where the mechanism has one, the `key`. Neither is ever shown.

    Attributes
    ----------
    card : Card
        What the release says about itself: mechanism, guarantee, what was learned from the data.
    folder : Path or None
        Where it lies; None until a release in memory is saved.
    told : Sanitized or None
        For the owner who made it just now: how many cells were clipped, which columns were left out.
    """

    def __init__(
        self,
        card: Card,
        *,
        folder: Path | None = None,
        held: InMemory | None = None,
        kind: str = ARROW,
        told: Sanitized | None = None,
    ) -> None:
        held = held or InMemory()
        self.card, self.folder, self.told, self._kind = card, folder, told, kind
        self._rows = pa.concat_tables(held.tables) if held.tables else None
        self._source = np.concatenate(held.sources) if held.sources else None
        self._key, self._key_kept, self._remembered = held.key, held.key_is_kept, held.note
        self._private_folder = None if told is None else folder
        self._model, self._counts = held.model, held.counts

    @classmethod
    def public(cls, folder: Path | str) -> Release:
        """What anybody may read of a release; rows are read when they are asked for."""
        folder = Path(folder)
        card, rows, embedded = Card.load(folder), folder / "release.parquet", None
        try:
            if rows.is_file():  # it carries its card too: one that was edited only beside it is found out
                with pq.ParquetFile(rows) as file:
                    embedded = card_inside(file)
        except (pa.ArrowException, OSError):
            told = f"{rows} cannot be read as Parquet: it is damaged, truncated or of another format."
            raise TableError(told) from None
        if embedded is not None and not card.says_the_same(embedded):
            raise CardError(
                f"The card beside the release in {folder} is not the one inside it: one of them was edited."
            )
        return cls(card, folder=folder, kind=kind_of(None))

    @classmethod
    def open(cls, folder: Path | str, key: Path | None = None) -> Release:
        """Read a release, and its private files where they are present."""
        release = cls.public(folder)
        release.check()
        release._private_folder = Path(folder)
        if key is not None:
            release._key, release._key_kept = release._key_in(key), True
        release.has_private_parts  # noqa: B018 - looked at now, so that what does not belong together is found now
        return release

    @classmethod
    def made(cls, told: Sanitized, kind: str) -> Release:
        """The owner's release that was just written into a folder."""
        return cls(told.card, folder=told.folder, kind=kind, told=told)

    @property
    def source(self) -> Codes | None:
        """Private: which row of the source table each released row came from; None where that is not known here."""
        if self._source is None and self._private_folder is not None:
            trace = self._private_folder / "trace.parquet"
            if trace.exists():
                found = open_table(trace).read()["source"].to_numpy()
                if len(found) != self.card.rows:
                    raise CardError(
                        f"The private match file of {self.folder} is not that of its release: numbers of rows differ."
                    )
                self._source = found
        return self._source

    @property
    def key(self) -> Key | None:
        """Private: the mechanism's key, where it has one that is known here."""
        if self._key is None and self._private_folder is not None and (self._private_folder / "key.json").exists():
            self._key = self._key_in(self._private_folder / "key.json")
        return self._key

    @property
    def model(self) -> Mapping[str, Any] | None:
        """Of made-up rows: what they were drawn from, noisy like them and to be shared like them."""
        if self._model is None and self.folder is not None and (self.folder / MODEL).is_file():
            from sfumato.mechanisms.central.drawing import model_digest  # a method of its own

            try:
                found = json.loads((self.folder / MODEL).read_text(encoding="utf-8"))
                same = isinstance(found, dict) and model_digest(found) == self.card.made_by().model
            except ValueError:
                same = False
            if not same:
                raise CardError(f"The model in {self.folder} is not the one that its release was drawn from.")
            self._model = found
        return self._model

    @property
    def counts(self) -> Codes | None:
        """Of a release in memory under an agreed plan: its noisy counts; a folder has them in counts.parquet."""
        return self._counts

    @property
    def kind(self) -> str:
        """Which frames `table` gives."""
        return self._kind

    @property
    def has_private_parts(self) -> bool:
        """Whether this is the owner's release, with its trace or its key."""
        return (self.source is not None) | (self.key is not None)

    def _key_in(self, path: Path) -> Key:
        key = Key.load(path)
        if key.commitment() != self.card.transform.get("commitment"):
            raise CardError(f"The key {path} is not the one that the release {self.where} was made with.")
        return key

    def __repr__(self) -> str:
        columns = len(self.card.release_schema["columns"])
        owner = ", with its owner's files" if self.has_private_parts else ""
        made = f"{counted(self.card.rows, 'row')} x {columns} by {self.card.mechanism['name']}"
        return f"<Release of {made}: {self.card.guarantee['kind']}{owner}>"

    def _repr_html_(self) -> str:
        """In a notebook: what it is, and the card's own words on what it gives away."""
        words = escape(self.card.guarantee["words"])
        return f'<p>{escape(repr(self))}</p><p style="white-space: pre-wrap">{words}</p>'

    def __len__(self) -> int:
        return self.card.rows

    @property
    def where(self) -> str:
        """For messages."""
        return "in memory" if self.folder is None else f"in {self.folder}"

    @property
    def table(self) -> Any:
        """The released rows, for everybody: a frame of the kind that was given to `sanitize`.

        For paths it is a pandas frame, or an Arrow table where pandas is not installed.
        """
        return as_frame(self.arrow, self._kind)

    @property
    def arrow(self) -> pa.Table:
        """The released rows as an Arrow table."""
        if self._rows is not None:
            return self._rows
        if self.folder is None:
            raise UsageError("A dry run has a card and no rows: nothing was released.")
        return open_table(release_file(self.folder)).read()

    def blocks(self, *columns: str, rows: int) -> Iterator[pa.RecordBatch]:
        """Released columns, block by block; of a folder no more is read."""
        source = self._rows if self.folder is None or self._rows is not None else release_file(self.folder)
        return open_table(source, columns=list(columns)).blocks(rows)

    @property
    def encoding(self) -> Encoding:
        """How source rows become numbers."""
        return self.card.source_encoding()

    def check(self) -> None:
        """Read the rows, and check them against the card."""
        self._matrix  # noqa: B018 - reading it is the check

    @property
    def Z(self) -> Matrix:  # noqa: N802 - matrices have capital letters, as in the papers
        """The release matrix: encoded source columns for column-wise releases, c000... for mixing ones."""
        return self._matrix[0]

    @property
    def y(self) -> Codes | None:
        """Class codes, where there is a label."""
        return self._matrix[1]

    @cached_property
    def target(self) -> Floats:
        """The number to predict, as it was; refused where the card names none."""
        name, rows = self.card.target, self.arrow
        if name is None:
            raise CardError("The release has no number to predict (sanitize --target).")
        if name not in rows.column_names:
            raise TableError(f"The release lacks the column {name!r} that its card names.")
        found, empty = checked(numbers(rows[name], name), name)
        if empty is not None and empty.any():
            raise TableError(f"Column {name!r} of the release has empty cells: it was changed or damaged.")
        return found

    @cached_property
    def _matrix(self) -> tuple[Matrix, Codes | None]:
        table = self.arrow
        if table.num_rows != self.card.rows:
            raise CardError(f"Card {self.where} states {self.card.rows} rows, but the release has {table.num_rows}.")
        return matrix_of(table, self.card)

    def affine(self) -> tuple[Matrix, Matrix] | None:
        """(A, c) of the map from encoded source rows, as far as card and key tell."""
        return self.card.made_by().map.affine() if self.key is None else self.key.affine()

    def save(self, folder: Path | str, *, format: str = "parquet", force: bool = False) -> Path:
        """Write the release into a new folder, whole or not at all.

        What you made with `sanitize` is signed with your key. One that you opened keeps its signature in its format.

        Parameters
        ----------
        folder : path
            Folder to write: release.parquet, card.json and (of made-up rows) model.json to share;
            trace.parquet and key.json, which only you can read and which are never to be shared.
        format : {"parquet", "csv", "sav", "zsav", "dta", "xpt", "xlsx", "ods"}, default "parquet"
            Of the released rows. All but the first two need the extra `sfumato[statistics]`.
        force : bool, default False
            Replace an earlier release in `folder`.

        Returns
        -------
        Path
            The folder.
        """
        if format not in RELEASE_FORMATS:
            raise UsageError(f"There is no format {format!r}. Choose one of: {', '.join(RELEASE_FORMATS)}.")
        out = Path(folder)
        check_replaceable(out, force)
        with new_folder(out, force=force) as aside:
            signer = None if self.told is None else self.told.signer
            landing = InFolder(aside, out, format, signer=signer)
            landing.take(self.card, [(self.arrow, self.source)], self.model, self._counts)
            if self._counts is None and self.folder is not None and (self.folder / COUNTS).is_file():
                write_whole(aside / COUNTS, (self.folder / COUNTS).read_bytes())
            if signer is None and self.folder is not None:
                keep_signature(self.folder, aside, aside / f"release.{format}")
            if self.key is not None and not self._key_kept:
                self.key.save(aside / "key.json")
            if self._remembered is not None:
                name_release(self._remembered, aside / f"release.{format}")
        if self.folder is None:
            self.folder = out
        return out


Releases = Release | Path | str | Sequence[Release | Path | str]
"""What a job takes that learns from releases."""


def opened(given: Releases, *, public: bool = False) -> list[Release]:
    """The releases of a job; folders are read, with their private files unless it is to do with `public` ones."""
    found = []
    for one in given if isinstance(given, Sequence) and not isinstance(given, str) else [given]:
        if isinstance(one, str | Path):
            one = Release.public(one) if public else Release.open(one)
        if not isinstance(one, Release):
            raise TableError(f"A {type(one).__name__} is not a release. Give what `sanitize` returned, or its folder.")
        found.append(one)
    return found


def open_release(folder: Path | str, key: Path | str | None = None) -> Release:
    """Open a release that lies in a folder, with the owner's files where they are present.

    Parameters
    ----------
    folder : path
        Folder that `sanitize` or `Release.save` wrote.
    key : path, optional
        Key file of the release, where it is not in the folder.

    Returns
    -------
    Release
        Its card and rows were checked against each other.

    Raises
    ------
    CardError
        Where card, rows, trace and key do not belong together.
    """
    return Release.open(folder, None if key is None else Path(key))


def card_inside(file: pq.ParquetFile) -> bytes | None:
    """The card that a release carries. A file holds such words twice, for Parquet and for Arrow: two cards are none."""
    card: bytes | None = (file.metadata.metadata or {}).get(CARD_METADATA)
    if card != (file.schema_arrow.metadata or {}).get(CARD_METADATA):
        raise CardError("The file contains two cards, and they differ: it was edited. Release again.")
    return card


def carries_more(file: pq.ParquetFile) -> bool:
    """Whether another program has written something beside card and rows, which no check would look at."""
    words = [file.metadata.metadata, file.schema_arrow.metadata, *(field.metadata for field in file.schema_arrow)]
    return any((found or {}).keys() - _FORMAT_METADATA - {CARD_METADATA} for found in words)


def release_file(folder: Path) -> Path:
    """The file of the released rows, whatever its format."""
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise TableError(f"There is no release.parquet or release.csv (or another format of `sanitize`) in {folder}.")


def matrix_of(table: pa.Table, card: Card, first_row: int = 0) -> tuple[Matrix, Codes | None]:
    """Released rows as the matrix that learners and attackers work on, and class codes. Cells that are infinite, no
    numbers, or empty without a word on the card are refused; one that its channel leaves out is NaN. `first_row` is the
    number of rows before this block, for messages."""
    label = card.release_schema["label"]
    encoding = card.source_encoding()
    names = [column["name"] for column in card.release_schema["columns"]]
    there = set(table.column_names)
    if absent := [name for name in names if name not in there]:
        raise TableError(f"The release lacks the column {absent[0]!r} that its card names.")
    codes = encoding.encode_label(table, first_row=first_row) if label and label["name"] in there else None
    left_out = card.made_by().left_out
    if card.is_columnwise:
        ranks = card.post_processing is None
        return recode(encoding, table, ranks=ranks, unreported=left_out, first_row=first_row), codes
    columns = []
    for name in names:  # numbers all of them, but for those that are not reported
        found, empty = checked(numbers(table[name], name, first_row), name, first_row)
        if empty is not None and empty.any():
            if name not in left_out:
                raise unstated(name, first_row + int(empty.argmax()) + 1)
            found = np.where(empty, np.nan, found)
        columns.append(found)
    return np.column_stack(columns), codes


# Rows drawn again from the model of an earlier release: the table is not needed, and nothing is spent.


def redraw(release: Release, asked: RedrawAsked) -> Release:
    """New rows under the claim of the release whose model they come from; its ledger notes a redraw, which is free."""
    made = draw_from(release, asked)
    Ledger(asked.ledger).redrawn(release.card.made_by().model)
    return made


def draw_from(release: Release, asked: RedrawAsked) -> Release:
    """The same for a reader who has no ledger."""
    check_asked(asked)
    mechanism = fitted_of(release, asked.rows)
    card = replace(
        release.card,
        rows=mechanism.released(0),
        mechanism={**release.card.mechanism, "parameters": mechanism.parameters_used()},
        earlier_releases={**release.card.earlier_releases, "redrawn": True},
        created=today(),
    ).in_own_words()
    # What was measured is noisy: no draw is a secret.
    streams = Streams() if asked.seed is None else Streams.seeded(asked.seed)
    laid = drawn(Layout(mechanism, mechanism.encoding_), streams, 0, asked.progress)
    if asked.out is None:
        held = InMemory()
        held.take(card, laid, mechanism.model())
        return Release(card, held=held, kind=release.kind)
    out = Path(asked.out)
    check_replaceable(out, asked.force)
    with new_folder(out, force=asked.force) as folder:
        InFolder(folder, out, asked.format).take(card, laid, mechanism.model())
    return Release(card, folder=out, kind=release.kind)


def fitted_of(release: Release, rows: int | None) -> Mechanism:
    """The mechanism as its fit left it, from the release's card and model."""
    card = release.card
    made_by = find_mechanism(card.mechanism["name"])
    if made_by is None or not made_by.made_up:
        raise UsageError(
            f"Rows can only be drawn again from a model of the table, and the release {release.where} was made by "
            f"{card.mechanism['name']}. Make one with --mechanism tree-resampling."
        )
    if release.model is None:
        raise CardError(f"There is no {MODEL} beside the release {release.where}, so nothing can be drawn again.")
    parameters: dict[str, Any] = {**card.mechanism["parameters"], "rows": rows}
    taken = made_by().get_params(deep=False).keys() & parameters.keys()
    mechanism = made_by(**{name: parameters[name] for name in taken})
    mechanism.check_parameters()
    return mechanism.restore_model(release.model, card.made_by(), card.release_schema["label"] is not None)
