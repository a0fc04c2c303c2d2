"""A release as its reader received it, and what can be told of it without its table: the checks of `verify`.

A check takes what was read and yields findings. It believes nothing that it reads.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.wording import counted, first_names, own_words
from sfumato.guarantee import Card
from sfumato.guarantee.card import recomputed, understatement
from sfumato.guarantee.finding import Finding, cannot_check, ok, wrong
from sfumato.guarantee.rounding import rounded_up
from sfumato.release.bets import Power
from sfumato.release.check_rows import (
    BLOCK,
    UNREADABLE,
    check_columns,
    check_content,
    check_rows,
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

    @property
    def is_parquet(self) -> bool:
        """Whether the rows carry their card too."""
        return self.rows.suffix == ".parquet"

    def blocks(self) -> Iterator[pa.Table]:
        """The rows, block by block."""
        if self.is_parquet:
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
    if not what.is_parquet:
        check_columns(open_table(what.rows).arrow_schema, what.card)
        yield ok("files", "The columns are those of the card.")
        return
    with pq.ParquetFile(what.rows) as file:
        if (inside := card_inside(file)) is None:
            yield wrong("files", "The rows carry no card, as those that `sfumato sanitize` writes do.")
            return
        if not what.card.says_the_same(inside):
            yield wrong("files", "The card beside the rows is not the one inside their file: one of them was edited.")
            return
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
    from sfumato.release.drawn_evidence import DrawnEvidence, read_model  # a method of its own

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
