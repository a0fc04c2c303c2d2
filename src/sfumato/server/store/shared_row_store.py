"""Which rows releases hold in common, and how many would coincide by chance.

Rows of continuous columns with noise never coincide. Rows of a few categories do, even in honest releases of different
people. Each release tells how often: the share of its rows that occur in it more than once estimates the chance that
another row drawn from the same people is among them [Good 1953]. Whatever is shared beyond that, and beyond the
uncertainty of so few rows, is shown to the study's owner: somebody pushed the same rows twice, or tests models with
rows that they are trained on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, insert, select, update

from sfumato.array_types import Flags
from sfumato.protocol.messages import SharedRows
from sfumato.server.store.database import Database
from sfumato.server.store.sql_tables import releases, shared_rows
from sfumato.server.validation.row_identity import Sketch

UNKNOWN = ""
"""The identity of a release whose file could not be read: nobody tries again."""

DEVIATIONS = 4.0
"""Standard deviations beyond what is expected: fewer than one honest pair of releases in ten thousand is shown."""


@dataclass(frozen=True)
class Overlap:
    """The share of rows of the one and of the other release that occur in both, and what chance would give."""

    mine: float
    theirs: float
    expected: float
    beyond_chance: bool


class SharedRowStore:
    """The part of the store that knows shared rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def unidentified(self, study: str) -> list[str]:
        """Hashes of releases that were received before identities were kept, and are not withdrawn."""
        old = (releases.c.study == study, releases.c.identity.is_(None), releases.c.withdrawn.is_(None))
        with self._database.reading() as connection:
            return [row.sha256 for row in connection.execute(select(releases.c.sha256).where(*old))]

    def identify(self, study: str, sha256: str, identity: str, sketch: bytes | None) -> None:
        """Note which rows an older release holds."""
        here = (releases.c.study == study, releases.c.sha256 == sha256, releases.c.withdrawn.is_(None))
        with self._database.writing() as connection:
            connection.execute(update(releases).where(*here).values(identity=identity or UNKNOWN, sketch=sketch))

    def compare(self, study: str, sha256: str) -> None:
        """Compare a release with all others of the study that stand, and note those that share rows beyond chance."""
        standing = (releases.c.study == study, releases.c.withdrawn.is_(None), releases.c.sketch.is_not(None))
        query = select(releases.c.sha256, releases.c.sketch).where(*standing)
        with self._database.reading() as connection:
            sketches = {row.sha256: Sketch.from_bytes(row.sketch) for row in connection.execute(query)}
        mine = sketches.pop(sha256, None)
        if mine is None:
            return
        found = {other: overlap(mine, theirs) for other, theirs in sketches.items()}
        values = [
            {"other": other, "mine": one.mine, "theirs": one.theirs, "expected": one.expected}
            for other, one in found.items()
            if one.beyond_chance
        ]
        with self._database.writing() as connection:
            connection.execute(delete(shared_rows).where(shared_rows.c.study == study, shared_rows.c.sha256 == sha256))
            for one in values:
                connection.execute(insert(shared_rows).values(study=study, sha256=sha256, **one))

    def pairs(self, study: str) -> list[SharedRows]:
        """Pairs of releases that share rows beyond chance, the largest share first; each pair once."""
        first, second = releases.alias(), releases.alias()
        query = (
            select(
                shared_rows,
                first.c.site.label("site"),
                first.c.purpose.label("purpose"),
                second.c.site.label("other_site"),
                second.c.purpose.label("other_purpose"),
            )
            .join(first, (first.c.study == shared_rows.c.study) & (first.c.sha256 == shared_rows.c.sha256))
            .join(second, (second.c.study == shared_rows.c.study) & (second.c.sha256 == shared_rows.c.other))
            .where(shared_rows.c.study == study)
        )
        with self._database.reading() as connection:
            found = [
                SharedRows(
                    sha256=row.sha256,
                    site=row.site,
                    purpose=row.purpose,
                    share=row.mine,
                    other=row.other,
                    other_site=row.other_site,
                    other_purpose=row.other_purpose,
                    other_share=row.theirs,
                    expected=row.expected,
                )
                for row in connection.execute(query)
            ]
        return _each_once(sorted(found, key=lambda one: -max(one.share, one.other_share)))


def _each_once(pairs: Iterable[SharedRows]) -> list[SharedRows]:
    """Two pushes at once may each have found the other."""
    kept = {frozenset((one.sha256, one.other)): one for one in reversed(list(pairs))}
    return list(reversed(kept.values()))


def overlap(mine: Sketch, theirs: Sketch) -> Overlap:
    """Estimated from the rows with small hashes, which both sketches know completely; exact for small releases."""
    a, b = _known_to_both(mine, theirs)
    shared_a, shared_b = np.isin(a["hash"], b["hash"]), np.isin(b["hash"], a["hash"])
    expected = max(_twins(mine), _twins(theirs))
    shares = _share(a, shared_a), _share(b, shared_b)
    beyond = any(
        share > expected + DEVIATIONS * math.sqrt((expected * (1 - expected) + 1 / rows) / rows)
        for share, rows in zip(shares, (len(a), len(b)), strict=True)
        if rows
    )
    return Overlap(*shares, expected, beyond)


def _known_to_both(mine: Sketch, theirs: Sketch) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Up to the smaller of the largest hashes, each sketch holds every row of its release."""
    ends = [one.entries["hash"][-1] for one in (mine, theirs) if not one.whole and len(one.entries)]
    end = min(ends, default=np.uint64(2**64 - 1))
    a, b = mine.entries, theirs.entries
    return a[a["hash"] <= end], b[b["hash"] <= end]


def _share(entries: NDArray[np.void], chosen: Flags) -> float:
    """By rows, not by different rows."""
    rows = int(entries["times"].sum(dtype=np.int64))
    return int(entries["times"][chosen].sum(dtype=np.int64)) / rows if rows else 0.0


def _twins(sketch: Sketch) -> float:
    return _share(sketch.entries, sketch.entries["times"] > 1)
