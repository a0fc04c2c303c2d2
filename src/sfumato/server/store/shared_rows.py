"""Which rows releases hold in common: identities of older ones, sketches, and what was found to coincide."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import delete, insert, select, update

from sfumato.protocol.messages import SharedRows
from sfumato.server.overlap import overlap
from sfumato.server.store.releases import Releases
from sfumato.server.store.tables import releases, shared_rows
from sfumato.server.validation.row_identity import Sketch

UNKNOWN = ""
"""The identity of a release whose file could not be read: nobody tries again."""


class Coinciding(Releases):
    """The part of the store that knows shared rows."""

    def unidentified(self, study: str) -> list[str]:
        """Hashes of releases that were received before identities were kept, and are not withdrawn."""
        old = (releases.c.study == study, releases.c.identity.is_(None), releases.c.withdrawn.is_(None))
        with self.reading() as connection:
            return [row.sha256 for row in connection.execute(select(releases.c.sha256).where(*old))]

    def identify(self, study: str, sha256: str, identity: str, sketch: bytes | None) -> None:
        """Note which rows an older release holds."""
        here = (releases.c.study == study, releases.c.sha256 == sha256, releases.c.withdrawn.is_(None))
        with self.writing() as connection:
            connection.execute(update(releases).where(*here).values(identity=identity or UNKNOWN, sketch=sketch))

    def compare_rows(self, study: str, sha256: str) -> None:
        """Compare a release with all others of the study that stand, and note those that share rows beyond chance."""
        standing = (releases.c.study == study, releases.c.withdrawn.is_(None), releases.c.sketch.is_not(None))
        query = select(releases.c.sha256, releases.c.sketch).where(*standing)
        with self.reading() as connection:
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
        with self.writing() as connection:
            connection.execute(delete(shared_rows).where(shared_rows.c.study == study, shared_rows.c.sha256 == sha256))
            for one in values:
                connection.execute(insert(shared_rows).values(study=study, sha256=sha256, **one))

    def shared_rows(self, study: str) -> list[SharedRows]:
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
        with self.reading() as connection:
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
