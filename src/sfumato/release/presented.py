"""A release as its reader received it, and what can be told of it without its table: the checks of `verify`.

A check takes what was read and yields findings. It believes nothing that it reads.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.channels.recipe import COUNTS as COUNTED
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.files import file_digest
from sfumato.core.wording import counted, first_names, own_words
from sfumato.guarantee import Card
from sfumato.guarantee.card import MOST_BYTES, from_json, recomputed, understatement
from sfumato.guarantee.rounding import rounded_up
from sfumato.guarantee.words import Finding, cannot_check, ok, wrong
from sfumato.mechanisms.central.drawing import DAMAGED as DAMAGED_MODEL
from sfumato.mechanisms.central.drawing import DrawnModel, ModelColumn, Node, model_from_dict
from sfumato.release.bets import Power
from sfumato.release.check_rows import (
    BLOCK,
    UNREADABLE,
    check_columns,
    check_content,
    check_rows,
    exceeds,
    parquet_blocks,
)
from sfumato.release.release import FILES, card_inside, release_file
from sfumato.release.signature import COUNTS, SIGNATURE, SIGNED, STATEMENTS
from sfumato.release.write_release import MODEL
from sfumato.table import open_table

FALSE_ALARMS = 5e-5
"""Honest releases whose rows are accused, at most: with what else chance can bring, fewer than 1 in 10,000."""
UNSEEN = "outside the audit"
"""Of findings that an auditor who recomputes the release replaces."""
PACKED, ROOM = 1000, 1 << 24
"""No release is packed more tightly, beyond this many bytes or rows."""
LONGEST_NAMED = 200
CHECKED = ("card.json", MODEL, COUNTS, SIGNED, SIGNATURE, STATEMENTS)
"""What a release consists of, beside its rows."""
DAMAGED = "It cannot be read: it was edited or is damaged."


@dataclass(frozen=True)
class Presented:
    """`card` follows the published schema; nothing else is known of it yet. `rows` is the file beside it."""

    folder: Path
    card: Card
    rows: Path

    def blocks(self) -> Iterator[pa.Table]:
        """The rows, block by block."""
        if self.rows.suffix == ".parquet":
            with pq.ParquetFile(self.rows) as file:
                yield from parquet_blocks(file)
        else:
            for batch in open_table(self.rows).blocks(BLOCK):
                yield pa.Table.from_batches([batch])


Check = Callable[[Presented], Iterable[Finding]]


def presented(release: Path | str) -> Presented:
    """Read the card, and find the rows; raises what stands in the way."""
    folder = Path(release)
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Give the folder of a release: release.parquet and card.json.")
    try:
        found = Presented(folder, Card.load(folder), release_file(folder))
        check_unpacked(found.rows)
        return found
    except (pa.ArrowException, OSError, zipfile.BadZipFile):
        raise TableError(f"The rows in {folder} cannot be read: they were edited or are damaged.") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, UsageError):
        raise CardError(f"The card in {folder} cannot be understood: it was edited or is damaged.") from None


def check_unpacked(rows: Path) -> None:
    """Refuse a small file that would fill the memory, or be read for ever."""
    size, count, unpacked = rows.stat().st_size, 0, 0
    if rows.suffix == ".parquet":
        with pq.ParquetFile(rows) as file:
            found = file.metadata
            count = found.num_rows
            unpacked = sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))
    elif zipfile.is_zipfile(rows):
        with zipfile.ZipFile(rows) as sheets:
            unpacked = sum(one.file_size for one in sheets.infolist())
    if unpacked > ROOM + PACKED * size or count > ROOM + PACKED * size:
        raise TableError(f"{rows.name} unpacks to more than {PACKED:,} times its size, which no release does.")


def run(check: Check, what: Presented) -> list[Finding]:
    """What one check finds; what it could not read is wrong."""
    found: list[Finding] = []
    try:
        found.extend(check(what))
    except (*UNREADABLE, AttributeError, RecursionError, MemoryError) as error:
        said = str(error) if isinstance(error, CardError | TableError | UsageError) else DAMAGED
        found.append(wrong(check.__name__.replace("_", " "), said))
    return found


# The checks, in the order in which they are told.


def guarantee(what: Presented) -> Iterator[Finding]:
    """The coordinator's: every figure again, from what the card says was done."""
    card = what.card
    if said := understatement(card):
        yield wrong("guarantee", said)
    elif card.post_processing is not None:
        yield cannot_check(
            "guarantee", "Rows were rounded and clipped after their noise, so that no figure follows from the card."
        )
    elif not card.is_formal:
        yield ok("guarantee", "The card claims no proof.")
    else:
        found = recomputed(card)
        strength = found.central.words() if found.central else f"epsilon {rounded_up(found.record)} for the record"
        yield ok("guarantee", f"What the card says was done proves what it claims: {strength}.")


def files(what: Presented) -> Iterator[Finding]:
    """Rows, columns and kinds are those of the card, and both copies of the card are the same; and nothing else lies
    there that could be taken for the release."""
    others = sorted({path.name for path in what.folder.iterdir()} - {what.rows.name, *CHECKED})
    if second := [name for name in others if name in FILES]:
        yield wrong("files", f"{first_names(second)} lies beside {what.rows.name}: a release has one file of rows.")
    elif others:
        shown = own_words(first_names(others), LONGEST_NAMED)
        yield cannot_check("files", f"What else lies in the folder, and belongs to no check: {shown}.")
    if what.rows.suffix != ".parquet":  # whose rows carry their card too
        check_columns(open_table(what.rows).arrow_schema, what.card)
        yield ok("files", "The columns are those of the card.")
        return
    with pq.ParquetFile(what.rows) as file:
        if (inside := card_inside(file)) is None:
            raise CardError("The rows carry no card, as those that `sfumato sanitize` writes do.")
        if not what.card.says_the_same(inside):
            raise CardError("The card beside the rows is not the one inside their file: one of them was edited.")
        check_content(file, what.card)
    yield ok("files", f"{what.rows.name} has the rows and columns of the card, and the same card inside.")


def rows(what: Presented) -> Iterator[Finding]:
    """Every cell, and all of them together, as the stated noise makes them."""
    if what.card.made_by().rows == "nobody":
        yield from made_up_rows(what)
        return
    found = check_rows(what.blocks(), what.card, false_alarms=FALSE_ALARMS)
    yield ok("rows", f"No cell of {counted(found.rows, 'row')} lies where the stated noise cannot carry it.")
    if not found.bets.placed:
        yield cannot_check(
            "noise", "How much noise was added: no column has noise of a stated law that rows could show."
        )
        return
    power = Power.of(found.bets, FALSE_ALARMS)
    told = ok if power.found is not None else cannot_check
    vary = "Rows vary as much as the stated noise makes them vary."
    yield told("noise", f"{vary} {power.in_words(found.rows)}", **asdict(power))


def made_up_rows(what: Presented) -> Iterator[Finding]:
    """Rows against the model that they were drawn from, and the model against what the guarantee counts."""
    model = read_model(what.folder, what.card)
    evidence = None if model is None else DrawnEvidence(model)
    found = check_rows(what.blocks(), what.card, None if evidence is None else evidence.add, FALSE_ALARMS)
    yield ok("rows", f"All cells of {counted(found.rows, 'row')} are values that the card allows.")
    if evidence is None:
        yield cannot_check(
            "rows", "Whether the rows were drawn from a model that was paid for: it was not handed over."
        )
    else:
        evidence.check(FALSE_ALARMS)
        yield ok("rows", "The rows are spread as their model says, and the card counts as many measurements as it has.")
    yield cannot_check("noise", "That noise was drawn for the counts behind made-up rows: no row can show it.")


def outside(what: Presented) -> Iterator[Finding]:
    """What no reader of a release can see."""
    yield cannot_check(UNSEEN, "That the rows were made from the table that the owner says, and from all of it.")
    yield cannot_check(UNSEEN, "That the noise was drawn afresh and kept secret, and that this is the first draw.")
    if what.card.auditable is not None:
        auditor = what.card.auditable["auditor"]
        yield cannot_check(UNSEEN, f"The noise, here: the auditor with the key {auditor} can recompute it.")
    if any(column.source == "public" for column in what.card.source_encoding().schema.columns):
        yield cannot_check("outside", "That ranges and categories were public: the owner's reasons are on the card.")


CHECKS: tuple[Check, ...] = (guarantee, files, rows, outside)


# Made-up rows against the model that they were drawn from, and the model against what was paid for.
#
# The model is public, so the law of the rows is known exactly. Rows are independent, and so are, given what they depend
# on, the bins of a column: none is rarer or more frequent than its share allows [Chernoff 1952], and within a bin of a
# number no fine cell is. That the noise in the model was drawn cannot be seen.

FLOOR = 1e-9
"""Added to every share: rounding may carry a value over the edge of its cell."""
FINE_ENOUGH = 1e-13
"""Of a range: doubles as fine as that hardly ever leave their cell."""
CHOSEN = frozenset({"edges", "forest", "second"})
OTHER_MODEL = (
    "Its rows are not spread as the model beside them says: they were not drawn from it, or were edited. Take the "
    "folder as `sfumato sanitize` wrote it."
)
UNPAID = "Its model rests on more measurements than the card states and its guarantee counts: one of them was edited."


def read_model(folder: Path, card: Card) -> DrawnModel | None:
    """The model beside a card, checked against its digest there; None where it was not handed over."""
    path, digest = folder / MODEL, card.made_by().model
    if digest is None or not path.is_file():
        return None
    if file_digest(path) != digest:
        raise CardError(f"{MODEL} is not the model of the card: it was edited, or comes from another release.")
    try:
        found = from_json(path.read_bytes() if path.stat().st_size <= MOST_BYTES else b"")
    except ValueError:
        raise CardError(DAMAGED_MODEL) from None
    model = model_from_dict(found, card.source_encoding())
    measured = card.made_by().measured
    if {one.what for one in measured} <= COUNTED | CHOSEN:
        paid = sum(one.times for one in measured if one.what in ("columns", "pairs", "triples"))
        if paid < len(model.columns) + sum(bool(node.parents) for node in model.nodes):
            raise CardError(UNPAID)
    return model


@dataclass
class DrawnEvidence:
    """How often each bin was seen, given what it depends on."""

    model: DrawnModel
    counts: dict[tuple[str, int], Codes] = field(default_factory=dict)

    def add(self, matrix: Matrix, codes: Codes | None) -> None:
        """One block of the release matrix."""
        model = self.model
        classes = np.zeros(len(matrix), dtype=np.int64) if codes is None or model.classes == 1 else codes
        self._add("class", 0, classes, model.classes)
        fine = {node.column: model.columns[node.column].fine.codes(matrix) for node in self._told()}
        bins = {column: model.columns[column].bins.of[some] for column, some in fine.items()}
        for node in self._told():
            one, states = model.columns[node.column], classes
            for place, parent in enumerate(node.parents):
                as_parent = model.columns[parent].as_parent(place)
                states = states * as_parent.count + as_parent.of[bins[parent]]
            size = len(model.conditional(node))
            self._add("bin", node.column, states * one.bins.count + bins[node.column], size * one.bins.count)
            if one.fine.is_ordered:
                self._add("cell", node.column, fine[node.column], one.fine.size)

    def _add(self, kind: str, column: int, codes: Codes, size: int) -> None:
        found = np.bincount(codes, minlength=size)
        self.counts[kind, column] = self.counts.get((kind, column), 0) + found

    def _told(self) -> Iterator[Node]:
        """Columns whose cells can be told from what is written, as can those of the columns that they depend on."""
        for node in self.model.nodes:
            if all(_is_told(self.model.columns[column]) for column in (node.column, *node.parents)):
                yield node

    def check(self, false_alarms: float) -> None:
        """Raise what contradicts the model; an honest release does so with a probability of `false_alarms` at most."""
        sizes = self.model.sizes / self.model.sizes.sum()
        tests = [(self.counts["class", 0][None, :], sizes[None, :])]
        for node in self._told():
            one, shares = self.model.columns[node.column], self.model.conditional(node)
            tests.append((self.counts["bin", node.column].reshape(shares.shape), shares))
            if one.fine.is_ordered:
                seen = self.counts["cell", node.column]
                of_bin = np.bincount(one.bins.of, weights=seen, minlength=one.bins.count)
                width = np.bincount(one.bins.of, minlength=one.bins.count)
                inside = 1 / width[one.bins.of]
                split = np.stack([inside, 1 - inside], axis=1)
                tests.append((np.stack([seen, of_bin[one.bins.of] - seen], axis=1), split))
        doubt = math.log(2 * sum(counts.size for counts, _ in tests) / false_alarms)
        for counts, shares in tests:
            total = counts.sum(axis=1, keepdims=True)
            often = exceeds(counts, total, np.minimum(shares * (1 + FLOOR) + FLOOR, 1.0), doubt)
            seldom = exceeds(total - counts, total, np.minimum(1 - shares + FLOOR, 1.0), doubt)
            if often.any() or seldom.any():
                raise TableError(OTHER_MODEL)


def _is_told(one: ModelColumn) -> bool:
    """Whole numbers of a wide range are rounded over the edges of their cells, and so are numbers of a narrow range far
    from zero."""
    column = one.fine.group.column
    if one.fine.is_whole or column.kind != "numeric":
        return one.fine.is_whole
    low, high = column.bounds
    return float(np.spacing(max(abs(low), abs(high)))) < FINE_ENOUGH * (high - low)
