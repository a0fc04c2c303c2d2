"""Find the rows of a table that were not released before, in memory of a few bytes per row.

The rolls of releases that were made without `--only-new`, or under another schema, say how often each row was in them.
Of all others the ledger has hashes of their own. Rows are hashed block by block and dealt to files by the first bits of
their hash. Within such a file equal rows meet, so that rows which occur several times are counted, and each file is
compared with what the ledger remembers.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sfumato.core.array_types import Codes, Flags, Hashes
from sfumato.core.errors import NothingNewError, PrivacyLeakWarning, UsageError
from sfumato.core.files import explained, file_digest
from sfumato.core.progress import Progress
from sfumato.core.wording import counted
from sfumato.guarantee.all_releases import is_drawn
from sfumato.ledger import Ledger
from sfumato.ledger.ledger import EXPIRED
from sfumato.ledger.memories import ROW_BYTES, RowMemory, forget, memory_folder, was_released
from sfumato.ledger.roll import KeptRoll
from sfumato.release.asked import SanitizeAsked
from sfumato.release.release import release_file
from sfumato.release.source import MOST_BLOCK_ROWS, Piece, Source, SourceBlock
from sfumato.table.cell_sets import person_hashes

BUCKETS = 64
BUCKET_STARTS = np.array([bytes([256 // BUCKETS * j]) for j in range(BUCKETS)], dtype=f"S{ROW_BYTES}")


class Remembered(NamedTuple):
    """The memory that is told of the new rows once they are released, and how many are not new."""

    memory: RowMemory
    known: int


def remember(
    ledger: Ledger, source: Source, asked: SanitizeAsked, until: ExitStack, progress: Progress
) -> Remembered | None:
    """Compare the source with what the ledger remembers; with `only_new` the source then gives new rows alone, with
    `again` all of them. Without `only_new` nothing is left out, but a ledger that remembers rows of this schema already
    goes on to. `until` ends when it is certain whether the release stands."""
    schema = source.encoding.schema
    labelled = source.labelled and schema.label is not None
    unit = "person" if schema.person is not None else "labelled" if labelled else "row"
    series = f"{unit}/{source.encoding.fingerprint()}"  # what makes hashes comparable
    if not asked.only_new and not memory_folder(ledger, series).exists():
        return None
    if source.elsewhere:
        raise UsageError(
            "The ledger remembers the rows of this schema, released with --only-new, and goes through them on one "
            "machine. Use --engine stream, or another --ledger."
        )
    # The label's code is one more cell of a row.
    memory = until.enter_context(RowMemory.opened(ledger, series, source.encoding.width + 1))
    until.callback(memory.settle)
    times = _times_noted(source, kept_rolls(ledger, source, memory), ledger, progress) if asked.only_new else None
    new = find_new(replace(source, keep_in_memory=False, roll=None), memory, progress, times)
    if asked.only_new and not asked.again:
        if not new.any():
            raise NothingNewError(
                f"None of the {len(new):,} rows is new: all were released before. Nothing was written. "
                "To release them once more (what that reveals adds up), add --again."
            )
        source.new = new
    return Remembered(memory, int(len(new) - new.sum()))


def kept_rolls(ledger: Ledger, source: Source, memory: RowMemory) -> list[KeptRoll]:
    """The rolls of earlier releases that tell more than the memory; the owner is warned of those that left none. The
    memory alone knows how often equal rows were released under its schema. People it knows by their names alone, and
    their rows may come under other names."""
    people = source.encoding.schema.person is not None
    now = Ledger(ledger.path)  # another run may have noted its release while this one waited
    rolls, lost, first_time = [], 0, next(memory.known(), None) is None
    for _, entry in now.entries():
        mark, roll = entry.get("memory"), now.roll_of(entry)
        if is_drawn(entry) or (mark and not was_released(now, mark)):  # nobody's rows, or a run that was killed
            continue
        held = mark and memory.holds(mark)
        if roll is not None and (people or not held):
            rolls.append(roll)
        elif not held:
            lost += bool(first_time or entry.get(EXPIRED))
    if lost:
        warnings.warn(
            f"The ledger has no fingerprints of {counted(lost, 'earlier release')} (deleted, or made by an older "
            "version or in Spark), so whoever was in them counts as new.",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return rolls


def _times_noted(source: Source, rolls: list[KeptRoll], ledger: Ledger, progress: Progress) -> Codes | None:
    """How often these rolls have each row of the table."""
    if not rolls:
        return None
    roll = ledger.new_roll(source.known_by, people=source.encoding.schema.person is not None)
    whole = replace(source, keep_in_memory=False, max_rows_per_person=None, roll=roll)
    for piece in whole.pieces():
        assert isinstance(piece, Piece)  # nothing was kept
        told = whole.told(piece)
        assert told is not None
        roll.add(told)
        progress("Comparing", len(roll), source.table.rows)
    times = (roll.times_in(one) for one in rolls)
    return sum((found for found in times if found is not None), np.zeros(len(roll), dtype=np.int64))


def ledger_forget(folder: Path | str, *, ledger: Path | str | None = None) -> int:
    """Tell the ledger that a release made with `only_new` never left this machine: it is no longer counted.

    Parameters
    ----------
    folder : path
        The release. One that was pushed, or that anybody has seen, must not be forgotten.
    ledger : path, optional
        The owner's ledger, if not the usual one.

    Returns
    -------
    int
        How many rows or people are new again.

    Raises
    ------
    UsageError, TableError
        Where the release was pushed, or the ledger does not know it.
    """
    folder = Path(folder)
    if list(folder.glob("receipt-*.json")):
        raise UsageError(f"The release in {folder} was pushed: there is a receipt. What has left cannot be forgotten.")
    rows = forget(Ledger(ledger), file_digest(release_file(folder)))
    if not rows:
        raise UsageError(
            f"The ledger knows the release in {folder} from no run with --only-new, and only such a release can be "
            "forgotten. Nothing was changed: if `sfumato ledger show` lists it, it goes on counting."
        )
    return rows


def find_new(source: Source, memory: RowMemory, progress: Progress, elsewhere: Codes | None) -> Flags:
    """Which rows (with a person column: rows of which people) the memory does not know; their hashes are left there,
    pending. `elsewhere` says how often each row is known from elsewhere."""
    people, buckets = source.encoding.schema.person is not None, memory.folder / ".dealt"

    def fresh(new: Flags) -> Iterator[Hashes]:
        for number in range(BUCKETS):
            path = buckets / f"{number}"
            found = np.fromfile(path, dtype=_RECORD) if path.exists() else np.empty(0, dtype=_RECORD)
            found = found[np.argsort(found["hash"], kind="stable")]
            hashes, places = found["hash"], found["row"]
            first = np.searchsorted(hashes, hashes, side="left")
            before = _times_known(hashes, memory) + (0 if elsewhere is None else elsewhere[places])
            if people:  # whoever is known under any of the spellings in this table, or by any row
                np.maximum.at(before, first, np.maximum(before, _times_known(found["written"], memory)))
                before = before[first]
            # The i-th of equal rows is new if fewer than i were released before; a person is new or is not.
            is_new = before == 0 if people else np.arange(len(hashes)) - first >= before
            new[places] = is_new
            yield hashes[is_new & (np.arange(len(hashes)) == first)] if people else hashes[is_new]

    shutil.rmtree(buckets, ignore_errors=True)  # of a run that was killed
    try:
        with explained(buckets):
            buckets.mkdir(mode=0o700)
        new = np.zeros(_deal(source, memory, buckets, progress), dtype=np.bool_)
        memory.write_pending(fresh(new))
    finally:
        shutil.rmtree(buckets, ignore_errors=True)
    return new


def _deal(source: Source, memory: RowMemory, buckets: Path, progress: Progress) -> int:
    """Append the hashes and numbers of all rows to the file of their bucket; returns how many rows there are."""
    rows = 0
    for hashes, written in _hashes(source, memory):
        bucket = np.searchsorted(BUCKET_STARTS, hashes, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=BUCKETS))
        records = np.empty(len(hashes), dtype=_RECORD)
        records["hash"], records["written"], records["row"] = hashes, written, np.arange(rows, rows + len(hashes))
        for number, chosen in enumerate(np.split(order, ends[:-1])):
            if len(chosen):
                with (buckets / f"{number}").open("ab") as file:
                    file.write(records[chosen].tobytes())
        rows += len(hashes)
        progress("Comparing", rows, source.table.rows)
    return rows


def _hashes(source: Source, memory: RowMemory) -> Iterator[tuple[Hashes, Hashes]]:
    """Of every row, and of people also as version 0.1.0 hashed them: what it remembered stays known."""
    if source.encoding.schema.person is not None:  # no other column is read
        first = 0
        for batch in source.table.blocks(MOST_BLOCK_ROWS):
            yield person_hashes(*source.encoding.people(batch), first, memory.hasher.person_key)
            first += batch.num_rows
        return

    def work(block: SourceBlock) -> Hashes:
        codes = np.full(len(block.X), -1.0) if block.y is None else block.y.astype(np.float64)
        return memory.hasher.of_rows(np.column_stack([block.X, codes]))

    for hashes in source.each(work):
        yield hashes, hashes


_RECORD = np.dtype([("hash", f"S{ROW_BYTES}"), ("written", f"S{ROW_BYTES}"), ("row", np.int64)])


def _times_known(hashes: Hashes, memory: RowMemory) -> Codes:
    """How often each of the hashes was released before."""
    times = np.zeros(len(hashes), dtype=np.int64)
    for known in memory.known():
        times += np.searchsorted(known, hashes, side="right") - np.searchsorted(known, hashes, side="left")
    return times
