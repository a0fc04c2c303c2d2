"""A push from body to receipt: received, checked, moved to its place, recorded, and only then acknowledged."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, Unpack

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request

from sfumato.core.files import PRIVATE
from sfumato.guarantee import Card
from sfumato.guarantee.borrowed import lent_by
from sfumato.study.protocol.acceptance import COUNTS_TRAIN
from sfumato.study.protocol.messages import Receipt
from sfumato.study.protocol.pool_study import Quota, pushes_counts
from sfumato.study.server.context import Context
from sfumato.study.server.problems import CLOSE, ApiError, busy, disk_full, not_found
from sfumato.study.server.shell import announced
from sfumato.study.server.store.release_store import (
    ELSEWHERE,
    NEW,
    SAME_ROWS,
    WITHDRAWN,
    Arrived,
    QuotaExceededError,
    Recorded,
    TestTable,
)
from sfumato.study.server.validation.checker_pool import Verdict

# A body goes to the disk in constant memory, is hashed on the way, and is durable when complete.


Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

CHUNK = 1 << 20
"""Bytes that are written and hashed at a time, in a thread."""


@contextlib.asynccontextmanager
async def received_body(request: Request, context: Context, who: str) -> AsyncIterator[Received]:
    """The body as a file that vanishes when the block ends, unless it was moved away.

    Uploads are counted for every site (`who`): one that lets many of its own stall keeps no other out.
    """
    if context.uploads[who] >= context.settings.max_site_pushes:
        context.metrics.quota_refusals.labels("uploads").inc()
        raise busy(5, "uploads of this site")
    if context.uploads.total() >= context.settings.max_pushes:
        raise busy(5, "uploads")
    context.uploads[who] += 1
    context.metrics.pushing.inc()
    path = context.folder.incoming()
    try:
        with full_disk_explained():
            free = await _in_thread(context, context.folder.free_bytes)
            if free < context.settings.spare_disk_bytes + _announced(request, context):
                raise disk_full()
            yield await _receive(request, context, path)
    finally:
        context.uploads[who] -= 1
        context.uploads += Counter()  # forgets those at zero
        context.metrics.pushing.dec()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _announced(request: Request, context: Context) -> int:
    """Bytes to come. What is larger than any release is refused for that, when it is read, and not for want of room."""
    return min(announced(request.scope), context.settings.max_push_bytes)


async def _receive(request: Request, context: Context, path: Path) -> Received:
    file = await _in_thread(context, Received, path)
    waiting = bytearray()
    try:
        async for part in request.stream():
            waiting += part
            if len(waiting) >= CHUNK:
                await _in_thread(context, file.write, waiting)
                context.metrics.push_bytes.inc(len(waiting))
                waiting = bytearray()
        await _in_thread(context, file.finish, waiting)
        context.metrics.push_bytes.inc(len(waiting))
    except ClientDisconnect:
        raise ApiError(400, "cut-short", "The connection closed before the body was complete.") from None
    finally:
        file.close()
    return file


async def _in_thread(context: Context, call: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    return await to_thread.run_sync(call, *arguments, limiter=context.disk)


class Received:
    """A new private file that hashes what is written to it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        self.path, self.size, self._hash = path, 0, hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: bytes | bytearray) -> None:
        self._hash.update(data)
        self.size += len(data)
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def finish(self, data: bytes | bytearray) -> None:
        """The last bytes, and everything flushed to the disk."""
        self.write(data)
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextlib.contextmanager
def full_disk_explained() -> Iterator[None]:
    """A full disk is the server's problem, and the client is told so: 507."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full() from None
        raise


BORROWED = (
    "Its card gives a basis or guidance as public that another release of this study learned from people's rows. "
    "Push it as what it is, without a formal guarantee, or use one that is public."
)


@dataclass(frozen=True)
class Push:
    """One site's wish to have one content in one study."""

    study: str
    site: str
    sha256: str
    purpose: str

    async def run(self, request: Request, context: Context) -> tuple[int, Receipt]:
        """201 and a receipt, or 200 and the same receipt for what was pushed before."""
        known = await to_thread.run_sync(context.store.releases.pushed_before, self.study, self.site, self.sha256)
        if known is None:
            definition = await to_thread.run_sync(pool_definition, context, self.study)
            if self.purpose != "train" and pushes_counts(definition):
                raise refused("The release is refused", Verdict.refused(COUNTS_TRAIN))
            quota, who = quota_of(context, definition), f"{self.study}/{self.site}"
            left = await to_thread.run_sync(rows_left, context, quota, self.study, self.site, request)
            async with received_body(request, context, who) as body:
                if body.sha256 != self.sha256:
                    words = "The body does not have the hash in the address: it was changed or cut short."
                    raise ApiError(400, "hash-mismatch", words)
                await know_older_rows(context, self.study, definition)
                verdict = await checked(context, "release", body.path, definition, who, left)
                if verdict.objections:
                    context.metrics.pushes.labels("refused").inc()
                    raise refused("The release is refused", verdict)
                await to_thread.run_sync(self._check_not_borrowed, context, verdict)
                known = await to_thread.run_sync(self._settle, context, body, verdict, quota, limiter=context.disk)
        context.metrics.pushes.labels(known.outcome).inc()
        return self._answer(known)

    def _check_not_borrowed(self, context: Context, verdict: Verdict) -> None:
        """No proof may rest on a basis or guidance that another release of this study learned from people's rows."""
        if verdict.epsilon is None or verdict.card["transform"]["kind"] not in ("affine", "guided"):
            return
        earlier = (Card(**card) for card in context.store.releases.unproved_cards(self.study))
        if lent_by(Card(**verdict.card), earlier):
            context.metrics.pushes.labels("refused").inc()
            raise refused("The release is refused", Verdict.refused(BORROWED))

    def _settle(self, context: Context, body: Received, verdict: Verdict, quota: Quota) -> Recorded:
        """Rename and commit. A file whose row is not committed is removed at the next start."""
        place = context.folder.release(self.study, self.sha256)
        with full_disk_explained(), context.folder.settling():
            context.folder.settle(body.path, place)
            found = {name: getattr(verdict, name) for name in ("rows", "epsilon", "card", "identity")}
            sketch = base64.b64decode(verdict.sketch) or None
            arrived = Arrived(**asdict(self), bytes=body.size, **found, sketch=sketch)
            try:
                recorded = context.store.releases.record(arrived, quota)
            except QuotaExceededError as error:  # of pushes that came together, all but the first
                raise _over(context, error.quota, quota) from None
            kept = context.store.releases.find(self.study, self.sha256)
            if kept is None or kept.withdrawn:  # meanwhile, or long before by another site
                place.unlink(missing_ok=True)
        if recorded.outcome == NEW:
            context.store.shared_rows.compare(self.study, self.sha256)
        return recorded

    def _answer(self, known: Recorded) -> tuple[int, Receipt]:
        if known.outcome == ELSEWHERE:
            raise ApiError(409, "pushed-elsewhere", "Another site has pushed the same rows to this study.")
        if known.outcome == WITHDRAWN:
            raise ApiError(410, "withdrawn", "This release was withdrawn. Release again to push these rows once more.")
        if known.receipt.purpose != self.purpose:
            raise ApiError(
                409,
                "other-purpose",
                f"This release was pushed before, to {known.receipt.purpose}, and it stays that. Push other rows to "
                f"{self.purpose}; rows that models learn from must not test them.",
            )
        if known.outcome == SAME_ROWS:
            raise ApiError(
                409,
                "same-rows",
                f"These rows were pushed before, in another file ({known.receipt.sha256[:12]}...): order and "
                "compression make no new rows. They count once.",
            )
        return 201 if known.outcome == NEW else 200, known.receipt


async def know_older_rows(context: Context, study: str, definition: dict[str, Any]) -> None:
    """Releases that were received before identities were kept get theirs now, from their files, once."""
    for sha256 in await to_thread.run_sync(context.store.shared_rows.unidentified, study):
        with context.folder.borrowed(context.folder.release(study, sha256)) as path:
            verdict = await checked(context, "identity", path, definition, study)
        sketch = base64.b64decode(verdict.sketch) or None
        await to_thread.run_sync(context.store.shared_rows.identify, study, sha256, verdict.identity, sketch)
        await to_thread.run_sync(context.store.shared_rows.compare, study, sha256)


async def keep_test_table(request: Request, context: Context, study: str) -> TestTable:
    """Receive a public test table, check it, and make it the study's."""
    definition = await to_thread.run_sync(pool_definition, context, study)
    async with received_body(request, context, study) as body:
        format = "parquet" if await to_thread.run_sync(_is_parquet, body.path) else "csv"
        named = body.path.with_suffix(f".{format}")
        body.path.rename(named)
        try:
            verdict = await checked(context, "table", named, definition, study)
            if verdict.objections:
                raise refused("The test table is refused", verdict)
            table = TestTable(body.sha256, format, body.size, verdict.rows, context.store.database.today())

            def settle() -> None:
                with full_disk_explained():
                    context.folder.settle(named, context.folder.test_table(study, table.sha256, format))
                    context.store.releases.set_test_table(study, table)

            await to_thread.run_sync(settle, limiter=context.disk)
        finally:
            named.unlink(missing_ok=True)
    return table


async def checked(
    context: Context, what: str, path: Path, definition: dict[str, Any], who: str, rows: int | None = None
) -> Verdict:
    """The verdict of a child process; waiting for one costs no thread, and sites (`who`) wait in rounds."""
    started = time.perf_counter()
    async with context.checks.turn(who):
        own = CapacityLimiter(1)  # the turn is the limit
        verdict = await to_thread.run_sync(context.validators.check, what, path, definition, rows, limiter=own)
    context.metrics.validation.observe(time.perf_counter() - started)
    return verdict


def refused(what: str, verdict: Verdict) -> ApiError:
    reasons = verdict.objections
    more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
    return ApiError(422, "refused", f"{what}: {reasons[0]}{more}", objections=reasons)


def pool_definition(context: Context, study: str) -> dict[str, Any]:
    """The definition of a study that pools releases; other kinds take none."""
    found = context.store.studies.find(study)
    if found is None or found.kind != "pool":
        raise not_found("study that takes releases")
    return found.definition


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


# How much a site may push: what the study grants it, within what the server grants to all


def quota_of(context: Context, definition: Mapping[str, Any]) -> Quota:
    """The smaller of study and settings, one by one."""
    settings = context.settings
    granted = Quota(settings.max_site_bytes, settings.max_site_rows, settings.max_site_releases)
    return granted.within(Quota.from_dict(definition["quota"])) if "quota" in definition else granted


def rows_left(context: Context, quota: Quota, study: str, site: str, request: Request) -> int | None:
    """Before anything is received: whether there is room for another release, and for how many rows."""
    kept = context.store.releases.kept_of(study, site)
    exceeded = quota.exceeded(kept, more_bytes=_announced(request, context))
    if exceeded is not None:
        raise _over(context, exceeded, quota)
    return None if quota.rows is None else quota.rows - (kept.rows or 0)


def _over(context: Context, exceeded: str, quota: Quota) -> ApiError:
    context.metrics.quota_refusals.labels(exceeded).inc()
    context.metrics.pushes.labels("refused").inc()
    return ApiError(
        413,
        "over-quota",
        f"With this release the site would have more than its limit of {getattr(quota, exceeded)} {exceeded}. "
        "Withdraw what is no longer needed, or ask the owner of the study.",
        headers=CLOSE,
    )
