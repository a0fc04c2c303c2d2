"""Releases: counts and cards of what the sites pushed, and the public test table. Rows lie in files, never here."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, case, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from sfumato.core.array_types import Flags
from sfumato.guarantee.all_releases import hidden_presence, total_without_delta
from sfumato.guarantee.rounding import rounded_up
from sfumato.study.protocol.messages import Receipt, ReleaseInfo, SharedRows
from sfumato.study.protocol.pool_study import Quota
from sfumato.study.server.store.database import Database, LogStore, told
from sfumato.study.server.store.sql_tables import model_releases, models, releases, shared_rows, studies, test_tables
from sfumato.study.server.validation.row_identity import Sketch

# Which rows releases hold in common, and how many would coincide by chance. Rows of continuous columns with noise never
# coincide. Rows of a few categories do, even in honest releases of different people. Each release tells how often: the
# share of its rows that occur in it more than once estimates the chance that another row drawn from the same people is
# among them [Good 1953]. Whatever is shared beyond that, and beyond the uncertainty of so few rows, is shown to the
# study's owner: a site pushed the same rows twice, or tests models with rows that they are trained on.

DEVIATIONS = 4.0
"""Standard deviations beyond what is expected: fewer than one honest pair of releases in ten thousand is shown."""


class Overlap(NamedTuple):
    """The share of rows of the one and of the other release that occur in both, and what chance would give."""

    mine: float
    theirs: float
    expected: float
    beyond_chance: bool


def overlap(mine: Sketch, theirs: Sketch) -> Overlap:
    """Estimated from the rows with small hashes, which both sketches know completely; exact for small releases."""
    # Up to the smaller of the largest hashes, each sketch holds every row of its release.
    ends = [one.entries["hash"][-1] for one in (mine, theirs) if not one.whole and len(one.entries)]
    end = min(ends, default=np.uint64(2**64 - 1))
    a, b = (one.entries[one.entries["hash"] <= end] for one in (mine, theirs))
    shared_a, shared_b = np.isin(a["hash"], b["hash"]), np.isin(b["hash"], a["hash"])
    expected = max(_share(one.entries, one.entries["times"] > 1) for one in (mine, theirs))
    shares = _share(a, shared_a), _share(b, shared_b)
    beyond = any(
        share > expected + DEVIATIONS * math.sqrt((expected * (1 - expected) + 1 / rows) / rows)
        for share, rows in zip(shares, (len(a), len(b)), strict=True)
        if rows
    )
    return Overlap(*shares, expected, beyond)


def _share(entries: NDArray[np.void], chosen: Flags) -> float:
    """By rows, not by different rows."""
    rows = int(entries["times"].sum(dtype=np.int64))
    return int(entries["times"][chosen].sum(dtype=np.int64)) / rows if rows else 0.0


PAGE_BYTES = 8 << 20  # cards on one page, or a single one
NEW, SAME, SAME_ROWS, ELSEWHERE, WITHDRAWN = "new", "same", "same-rows", "elsewhere", "withdrawn"
MOST_EARLIER = 2**31 - 1  # the largest number that a column of the database holds; a card may say anything
Packed = bytes


@dataclass(frozen=True)
class Arrived:
    """A release that was checked: whose it is, what for, and what was found in it. `identity` and `sketch` say which
    rows it holds (`sfumato.study.server.validation.row_identity`)."""

    study: str
    site: str
    sha256: str
    purpose: str
    bytes: int
    rows: int
    epsilon: float | None
    card: dict[str, Any]
    identity: str | None = None
    sketch: Packed | None = None


class Recorded(NamedTuple):
    """What became of a push: `new`, `same` (pushed before), `same-rows` (pushed before in another file), `elsewhere`
    (another site's), `withdrawn` (before). The receipt is that of the first."""

    outcome: str
    receipt: Receipt


@dataclass(frozen=True)
class TestTable:
    """A public table of plain rows that models are tested on."""

    __test__ = False  # not a test, whatever its name

    sha256: str
    format: str
    bytes: int
    rows: int
    received: str


class QuotaExceededError(Exception):
    """A release too many, or too large; `quota` says which of the three it exceeds."""

    def __init__(self, quota: str) -> None:
        self.quota = quota


class ReleaseStore:
    def __init__(self, database: Database, log: LogStore) -> None:
        self._database, self._log = database, log

    def record(self, arrived: Arrived, quota: Quota | None = None) -> Recorded:
        """Make a release visible. Of concurrent pushes of one content, or of the same rows in other files, one is new.
        `quota` is the most that the site may have with it."""
        # What the card says of earlier releases of the same rows; never less than what was recomputed for this one.
        stated, hidden = arrived.card.get("earlier_releases") or {}, hidden_presence(arrived.card)
        values = {
            **asdict(arrived),
            "received": self._database.today(),
            "earlier": min(int(stated.get("count") or 0), MOST_EARLIER),
            "total_epsilon": total_without_delta(arrived.epsilon, stated),
            "presence_epsilon": hidden.epsilon if hidden else None,
            "presence_delta": hidden.delta if hidden else None,
            "card": json.dumps(arrived.card, ensure_ascii=False, allow_nan=False),
        }
        content, here = _of(arrived.study, arrived.sha256), studies.c.id == arrived.study
        try:
            with self._database.writing() as connection:
                # One after the other, so that of two with the same rows the second finds the first, and quotas hold.
                # SQLite has one writer anyway.
                connection.execute(select(studies.c.id).where(here).with_for_update(key_share=True))
                if row := _same_rows(connection, arrived):
                    return self._known(row, arrived.site, SAME_ROWS)
                if quota is not None and connection.execute(content).one_or_none() is None:
                    kept = self.kept_of(arrived.study, arrived.site, connection)
                    if exceeded := quota.exceeded(kept, more_bytes=arrived.bytes, more_rows=arrived.rows):
                        raise QuotaExceededError(exceeded)
                connection.execute(insert(releases).values(**values))
                receipt = told(Receipt, connection.execute(content).one())
                number = self._log.append(connection, receipt.entry())
                connection.execute(update(releases).where(*_is(arrived.study, arrived.sha256)).values(logged=number))
            return Recorded(NEW, self._proved(receipt, number))
        except IntegrityError:
            known = self.pushed_before(arrived.study, arrived.site, arrived.sha256)
            if known is None:
                raise
            return known

    def kept_of(self, study: str, site: str, connection: Connection | None = None) -> Quota:
        """What one site has here: releases that were ever pushed; rows and bytes of those that were not withdrawn."""
        table = releases.c
        kept = [func.coalesce(func.sum(case((table.withdrawn.is_(None), one))), 0) for one in (table.bytes, table.rows)]
        query = select(*kept, func.count()).where(table.study == study, table.site == site)
        return Quota(*map(int, connection.execute(query).one() if connection else self._database.row(query)))

    def pushed_before(self, study: str, site: str, sha256: str) -> Recorded | None:
        """What is known of this content, before anything is uploaded."""
        row = self._database.row(_of(study, sha256))
        return None if row is None else self._known(row, site, SAME)

    def _known(self, row: Any, site: str, otherwise: str) -> Recorded:
        """What has become of a release that is here already, for a site that pushes it again."""
        outcome = ELSEWHERE if row.site != site else WITHDRAWN if row.withdrawn else otherwise
        return Recorded(outcome, self._proved(told(Receipt, row), row.logged))

    def _proved(self, receipt: Receipt, number: int | None) -> Receipt:
        """With the proof that it is in the public log; what was pushed before there was one has none."""
        if number is None:
            return receipt
        return replace(receipt, log=self._log.signer.key.text, proof=self._log.proof(number))

    def all(
        self,
        study: str,
        site: str | None = None,
        *,
        withdrawn: bool = True,
        after: str | None = None,
        most: int | None = None,
    ) -> list[ReleaseInfo]:
        """Releases in the order of their coming, or those of one site; a page: `most`, `after` one of a hash."""
        query = select(releases).where(releases.c.study == study).order_by(releases.c.number).limit(most)
        if after is not None:
            last = select(releases.c.number).where(releases.c.study == study, releases.c.sha256 == after)
            query = query.where(releases.c.number > last.scalar_subquery())
        if site is not None:
            query = query.where(releases.c.site == site)
        if not withdrawn:
            query = query.where(releases.c.withdrawn.is_(None))
        found: list[ReleaseInfo] = []
        size = 0
        with self._database.reading() as connection:
            for row in connection.execute(query):
                size += len(row.card)
                if found and most is not None and size > PAGE_BYTES:
                    break
                found.append(_release(row))
        return found

    def unproved_cards(self, study: str) -> list[dict[str, Any]]:
        """Cards of releases that prove nothing, withdrawn ones too: what they learned stays learned."""
        query = select(releases.c.card).where(releases.c.study == study, releases.c.epsilon.is_(None))
        return [json.loads(row.card) for row in self._database.rows(query)]

    def find(self, study: str, sha256: str, site: str | None = None) -> ReleaseInfo | None:
        """One release; for a `site`, only its own."""
        row = self._database.row(_of(study, sha256))
        return None if row is None or (site is not None and row.site != site) else _release(row)

    def withdraw(self, study: str, sha256: str, site: str | None = None) -> bool:
        """Mark a release as withdrawn, and the models that used it; whether there is such a release.

        Of its rows one hash of them all is kept, by which they are known again.

        The file is removed by whoever calls, afterwards: should that fail, the next start removes it.
        """
        with self._database.writing() as connection:
            row = connection.execute(_of(study, sha256).with_for_update()).one_or_none()
            if row is None or (site is not None and row.site != site):
                return False
            if row.withdrawn is None:
                gone = update(releases).where(*_is(study, sha256))
                connection.execute(gone.values(withdrawn=self._database.today(), sketch=None))
                shared = or_(shared_rows.c.sha256 == sha256, shared_rows.c.other == sha256)
                connection.execute(delete(shared_rows).where(shared_rows.c.study == study, shared))
                used = select(model_releases.c.model).where(model_releases.c.sha256 == sha256)
                trained = (models.c.study == study, models.c.id.in_(used))
                connection.execute(update(models).where(*trained).values(uses_withdrawn=True))
        return True

    def kept_files(self) -> set[tuple[str, str]]:
        """Study and hash of every release whose file must be there."""
        query = select(releases.c.study, releases.c.sha256).where(releases.c.withdrawn.is_(None))
        return {(row.study, row.sha256) for row in self._database.rows(query)}

    def compare(self, study: str, sha256: str) -> None:
        """Compare a release with all others of the study that stand, and note those that share rows beyond chance."""
        standing = (releases.c.study == study, releases.c.withdrawn.is_(None), releases.c.sketch.is_not(None))
        query = select(releases.c.sha256, releases.c.sketch).where(*standing)
        sketches = {row.sha256: Sketch.from_bytes(row.sketch) for row in self._database.rows(query)}
        mine = sketches.pop(sha256, None)
        if mine is None:
            return
        found = {other: overlap(mine, theirs) for other, theirs in sketches.items()}
        with self._database.writing() as connection:
            connection.execute(delete(shared_rows).where(shared_rows.c.study == study, shared_rows.c.sha256 == sha256))
            for other, (here, there, expected, beyond_chance) in found.items():
                if beyond_chance:
                    pair = {"sha256": sha256, "other": other, "mine": here, "theirs": there, "expected": expected}
                    connection.execute(insert(shared_rows).values(study=study, **pair))

    def shared_rows(self, study: str) -> list[SharedRows]:
        """Pairs of releases that share rows beyond chance, the largest share first; each pair once."""
        first, second, pairs = releases.alias(), releases.alias(), shared_rows.c
        about = [first.c.site, first.c.purpose, second.c.site.label("other_site")]
        query = (
            select(shared_rows, *about, second.c.purpose.label("other_purpose"))
            .join(first, (first.c.study == pairs.study) & (first.c.sha256 == pairs.sha256))
            .join(second, (second.c.study == pairs.study) & (second.c.sha256 == pairs.other))
            .where(pairs.study == study)
        )
        found = [told(SharedRows, row, share=row.mine, other_share=row.theirs) for row in self._database.rows(query)]
        found.sort(key=lambda one: -max(one.share, one.other_share))
        # Two pushes at once may each have found the other.
        kept = {frozenset((one.sha256, one.other)): one for one in reversed(found)}
        return list(reversed(kept.values()))

    def set_test_table(self, study: str, table: TestTable) -> None:
        """Keep a public test table: the newest one counts."""
        self._database.change(insert(test_tables).values(study=study, **asdict(table)))

    def test_table(self, study: str) -> TestTable | None:
        query = select(test_tables).where(test_tables.c.study == study).order_by(test_tables.c.number.desc()).limit(1)
        row = self._database.row(query)
        return None if row is None else told(TestTable, row)


def _is(study: str, sha256: str) -> tuple[Any, ...]:
    return releases.c.study == study, releases.c.sha256 == sha256


def _of(study: str, sha256: str) -> Select[Any]:
    return select(releases).where(*_is(study, sha256))


def _same_rows(connection: Connection, arrived: Arrived) -> Any:
    """A release of the same rows in another file: the site's own before another's, one that stands before others."""
    if arrived.identity is None:
        return None
    table = releases.c
    known = (table.study == arrived.study, table.identity == arrived.identity, table.sha256 != arrived.sha256)
    order = (table.site != arrived.site, table.withdrawn.is_not(None), table.number)
    return connection.execute(select(releases).where(*known).order_by(*order).limit(1)).one_or_none()


def _release(row: Any) -> ReleaseInfo:
    presence = presence_of(row)
    words = guarantee_words(row.epsilon, row.earlier, row.total_epsilon, presence)
    withdrawn, card = row.withdrawn is not None, json.loads(row.card)
    return told(ReleaseInfo, row, withdrawn=withdrawn, guarantee=words, presence=presence, card=card)


def presence_of(row: Any) -> dict[str, float] | None:
    """Epsilon and delta of a person's presence, where they were recorded."""
    return None if row.presence_epsilon is None else {"epsilon": row.presence_epsilon, "delta": row.presence_delta}


def guarantee_words(
    epsilon: float | None, earlier: int, total: float | None, presence: dict[str, float] | None = None
) -> str:
    """What was recomputed, in short, for people; programs have the numbers."""
    if presence is not None:
        with_earlier = ", with earlier releases" if earlier else ""
        delta = f", delta {presence['delta']:g}" if presence["delta"] else ""
        return f"epsilon at most {rounded_up(presence['epsilon'])}{delta} for presence{with_earlier}"
    if epsilon is None:
        return "no formal guarantee"
    if not earlier:
        return f"epsilon at most {rounded_up(epsilon)} for the record"
    if total is None:
        return "no bound with earlier releases"
    return f"epsilon at most {rounded_up(total)} for the record, with earlier releases"
