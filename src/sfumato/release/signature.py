"""The owner's signature of a release: what is signed, how it is put beside the card, and what it shows to a reader.

Signed are the bytes of the card, the content of the rows and, where there are some, noisy counts: as lines of text that
`sha256sum` reads, with a signature beside them that `ssh-keygen -Y verify` checks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.errors import CardError, TableError
from sfumato.core.files import file_digest, write_whole
from sfumato.guarantee import signer
from sfumato.guarantee.words import Finding, cannot_check, ok, wrong
from sfumato.table import open_table
from sfumato.table.arrays import is_text
from sfumato.table.tables import Table

# What a table holds, as a hash: the same for the same cells in the same order, whichever file they were read from.

_DOMAIN = b"sfumato/table/content/1"


class Content:
    """SHA-256 of each column, block by block: of its kind, of which cells are empty, and of every value with all its
    bits. Where blocks end does not matter."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._kinds, self._rows = dict.fromkeys(names, ""), 0
        self._parts = {name: [hashlib.sha256() for _ in range(3)] for name in names}

    def add(self, block: pa.RecordBatch) -> pa.RecordBatch:
        """Take in a block, and give it back."""
        self._rows += block.num_rows
        for name, cells in zip(block.schema.names, block.columns, strict=True):
            self._kinds[name], values = _plain(cells, name)
            empty, lengths, content = self._parts.setdefault(name, [hashlib.sha256() for _ in range(3)])
            empty.update(_bytes(values.is_null().cast(pa.uint8()), "u1") if values.null_count else bytes(len(values)))
            if pa.types.is_large_string(values.type):
                text = pc.fill_null(values, "").cast(pa.large_binary())
                lengths.update(_bytes(pc.binary_length(text), "<i8"))
                content.update(b"".join(text.to_pylist()))
            else:
                dtype = "<f8" if pa.types.is_floating(values.type) else "<i8"
                content.update(_bytes(pc.fill_null(values, 0) if values.null_count else values, dtype))
        return block

    def by_name(self) -> dict[str, str]:
        """The hash of each column."""
        digests = {name: b"".join(part.digest() for part in parts) for name, parts in self._parts.items()}
        heads = {name: f"{kind}|{self._rows}|".encode() for name, kind in self._kinds.items()}
        return {name: hashlib.sha256(heads[name] + digest).hexdigest() for name, digest in digests.items()}


def content_of(table: Table) -> dict[str, str]:
    """The hash of each column of a table, by name."""
    found = Content(table.names)
    for block in table.blocks():
        found.add(block)
    return found.by_name()


def content_digest(columns: Mapping[str, str]) -> bytes:
    """One hash of all columns in their order, from what `content_of` found."""
    digest = hashlib.sha256(_DOMAIN)
    for name, column in columns.items():
        digest.update(hashlib.sha256(name.encode()).digest() + bytes.fromhex(column))
    return digest.digest()


def _bytes(numbers: pa.Array, dtype: str) -> memoryview:
    return np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False), dtype=dtype).data


def _plain(cells: pa.Array, name: str) -> tuple[str, Any]:
    """Kind and values: whole numbers, other numbers, or text, which everything else is written as."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    of = cells.type
    if pa.types.is_integer(of) and of != pa.uint64():
        return "whole", cells.cast(pa.int64())
    if pa.types.is_floating(of):
        return "number", cells.cast(pa.float64())
    try:
        return "text" if is_text(of) else str(of), cells.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TableError(f"Column {name!r} holds {of}, which has no hash. Leave the column out.") from None


SIGNED, SIGNATURE, STATEMENTS = "signed.txt", "signed.txt.sig", "signer.json"
"""What is signed, its signature, and what the owner's keys said of each other, where they did."""
COUNTS = "counts.parquet"
"""Of a fit under a plan: noisy counts that can be added to those of other sites; to share, like the release."""
LINES = ("The card", "The file of the rows", "The file of noisy counts")
UNSIGNED = "The release is unsigned: anyone may have made rows and card."
EDITED = "{} is not the one that was signed: it was edited or taken away, or comes from another release."


def rows_digest(path: Path) -> str:
    """SHA-256 of the rows of a Parquet file, however they are cut and packed: the card stands in the same file. Of
    another file, of its bytes."""
    if path.suffix != ".parquet":
        return file_digest(path)
    return content_digest(content_of(open_table(path))).hex()


def to_be_signed(folder: Path, rows: Path, content: Content | None = None) -> str:
    """A line for each file, as `sha256sum --ignore-missing -c` checks them; that of Parquet rows is checked by us, and
    is their `content` where that was hashed while they were written."""
    name = f"{rows.name} (rows alone)" if rows.suffix == ".parquet" else rows.name
    digest = rows_digest(rows) if content is None else content_digest(content.by_name()).hex()
    text = f"{file_digest(folder / 'card.json')}  card.json\n{digest}  {name}\n"
    counts = folder / COUNTS
    return f"{text}{file_digest(counts)}  {COUNTS}\n" if counts.is_file() else text


def sign_release(folder: Path, rows: Path, key_file: Path, content: Content | None = None) -> None:
    """Put the signature of the key in a file, which is made at first use, beside the card and the rows."""
    own, text = signer.Signer.at(key_file), to_be_signed(folder, rows, content)
    write_whole(folder / SIGNED, text)
    write_whole(folder / SIGNATURE, own.sign(text.encode()))
    if own.stated:
        write_whole(folder / STATEMENTS, signer.statements_text(own.stated))


def keep_signature(old: Path, folder: Path, rows: Path) -> None:
    """Of a copy of a release: the signature goes along where it still fits."""
    with suppress(OSError):
        if (old / SIGNED).read_text(encoding="utf-8") != to_be_signed(folder, rows):
            return
        for name in (SIGNED, SIGNATURE, STATEMENTS):
            if (old / name).is_file():
                write_whole(folder / name, (old / name).read_bytes())


def signer_of(folder: Path, rows: Path) -> signer.PublicKey | None:
    """Whose key signed this card and these rows; None without a signature, `CardError` where it does not fit."""
    there = [(folder / name).is_file() for name in (SIGNED, SIGNATURE)]
    if not any(there):
        return None
    if not all(there):
        missing = SIGNATURE if there[0] else SIGNED
        raise CardError(f"{missing} is missing: the signature was taken away in part. Take the folder as it was.")
    text = _read(folder / SIGNED)
    key = signer.checked(_read(folder / SIGNATURE), text)
    signed, found = text.decode(errors="replace"), to_be_signed(folder, rows)
    for one, expected, what in zip_longest(signed.split("\n"), found.split("\n"), LINES, fillvalue="What else"):
        if one != expected:
            raise CardError(EDITED.format(what))
    return key


def _read(path: Path) -> bytes:
    """Ours are much shorter."""
    with path.open("rb") as file:
        return file.read(signer.MOST + 1)


def signature(
    folder: Path, rows: Path, owner: str | None = None, handed: Iterable[signer.Stated] = ()
) -> Iterator[Finding]:
    """Who signed, whether that is the `owner` who was asked for (by fingerprint), and what that leaves open. Statements
    of keys about keys that were `handed` over count as those beside the card do."""
    key = signer_of(folder, rows)
    if key is None:
        told = wrong if owner is not None else cannot_check
        yield told("signature", UNSIGNED)
        return
    stated = [*(signer.stated_in(folder / STATEMENTS) if (folder / STATEMENTS).is_file() else ()), *handed]
    if signer.revoked(key.fingerprint, stated):
        yield wrong(
            "signature", f"The owner of the key {key.fingerprint} has revoked it: what it signed counts no more."
        )
        return
    signed = f"Card and rows are signed with the key {key.fingerprint}."
    if owner is None:
        yield ok("signature", signed, signed_by=key.fingerprint)
        yield cannot_check(
            "signature",
            "Whose key that is: ask the owner for the fingerprint, by telephone or on paper, and give it with --from.",
        )
    elif key.fingerprint == owner:
        yield ok("signature", f"{signed} That is the one you asked for.", signed_by=key.fingerprint)
    elif signer.follows(key.fingerprint, owner, stated):
        yield ok("signature", f"{signed} The one you asked for named it as the next.", signed_by=key.fingerprint)
    else:
        yield wrong("signature", f"{signed} You asked for {owner}.", signed_by=key.fingerprint)
