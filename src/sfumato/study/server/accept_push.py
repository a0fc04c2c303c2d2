"""A push from body to receipt: received, checked, moved to its place, recorded, and only then acknowledged. A body goes
to the disk in constant memory, is hashed on the way, and is durable when complete."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request

from sfumato.core.files import PRIVATE
from sfumato.guarantee import Card
from sfumato.guarantee.maps import lent_by
from sfumato.study.protocol.messages import Receipt
from sfumato.study.protocol.pool_study import Quota, pushes_counts
from sfumato.study.protocol.study_file import COUNTS_TRAIN
from sfumato.study.server.context import Context
from sfumato.study.server.shell import CLOSE, ApiError, announced, busy, disk_full, not_found
from sfumato.study.server.store import release_store
from sfumato.study.server.store.release_store import Arrived, QuotaExceededError, Recorded, TestTable
from sfumato.study.server.validation.checker_pool import Verdict

CHUNK = 1 << 20  # bytes that are written and hashed at a time, in a thread
BORROWED = (
    "Its card gives a basis or guidance as public that another release of this study learned from people's rows. "
    "Push it as what it is, without a formal guarantee, or use one that is public."
)


class Received(NamedTuple):
    """A body as a private file, complete and flushed to the disk."""

    path: Path
    size: int
    sha256: str


@contextlib.asynccontextmanager
async def received_body(request: Request, context: Context, who: str) -> AsyncIterator[Received]:
    """The body as a file that vanishes when the block ends, unless it was moved away. Uploads are counted for every
    site (`who`): one that lets many of its own stall keeps no other out."""
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
            disk = await to_thread.run_sync(shutil.disk_usage, context.folder.data, limiter=context.disk)
            if disk.free < context.settings.spare_disk_bytes + _to_come(request, context):
                raise disk_full()
            yield await _receive(request, context, path)
    finally:
        context.uploads[who] -= 1
        context.uploads += Counter()  # forgets those at zero
        context.metrics.pushing.dec()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _to_come(request: Request, context: Context) -> int:
    """Bytes to come. What is larger than any release is refused for that, when it is read, and not for want of room."""
    return min(announced(request.scope), context.settings.max_push_bytes)


async def _receive(request: Request, context: Context, path: Path) -> Received:
    in_thread = partial(to_thread.run_sync, limiter=context.disk)
    descriptor = await in_thread(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    hashed, size, waiting = hashlib.sha256(), 0, bytearray()

    def write(data: bytearray) -> None:
        hashed.update(data)
        context.metrics.push_bytes.inc(len(data))
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    try:
        async for part in request.stream():
            size += len(part)
            waiting += part
            if len(waiting) >= CHUNK:
                await in_thread(write, waiting)
                waiting = bytearray()
        await in_thread(write, waiting)
        await in_thread(os.fsync, descriptor)
    except ClientDisconnect:
        raise ApiError(400, "cut-short", "The connection closed before the body was complete.") from None
    finally:
        os.close(descriptor)
    return Received(path, size, hashed.hexdigest())


@contextlib.contextmanager
def full_disk_explained() -> Iterator[None]:
    """A full disk is the server's problem, and the client is told so: 507."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full() from None
        raise


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
            definition, quota, left = await to_thread.run_sync(self._room, request, context)
            who = f"{self.study}/{self.site}"
            async with received_body(request, context, who) as body:
                if body.sha256 != self.sha256:
                    words = "The body does not have the hash in the address: it was changed or cut short."
                    raise ApiError(400, "hash-mismatch", words)
                verdict = await checked(context, "release", body.path, definition, who, left)
                objections = verdict.objections or await to_thread.run_sync(self._borrows, context, verdict)
                if objections:
                    context.metrics.pushes.labels("refused").inc()
                    raise refused("The release is refused", objections)
                known = await to_thread.run_sync(self._settle, context, body, verdict, quota, limiter=context.disk)
        context.metrics.pushes.labels(known.outcome).inc()
        return self._answer(known)

    def _room(self, request: Request, context: Context) -> tuple[dict[str, Any], Quota, int | None]:
        """Before anything is received: what the study asks for, how much its sites may push (what the study grants,
        within what the server grants to all), and how many rows there is room for."""
        definition, settings = pool_definition(context, self.study), context.settings
        if self.purpose != "train" and pushes_counts(definition):
            raise refused("The release is refused", [COUNTS_TRAIN])
        quota = Quota(settings.max_site_bytes, settings.max_site_rows, settings.max_site_releases)
        if "quota" in definition:
            quota = quota.within(Quota.from_dict(definition["quota"]))
        kept = context.store.releases.kept_of(self.study, self.site)
        if exceeded := quota.exceeded(kept, more_bytes=_to_come(request, context)):
            raise _over(context, exceeded, quota)
        return definition, quota, None if quota.rows is None else quota.rows - (kept.rows or 0)

    def _borrows(self, context: Context, verdict: Verdict) -> list[str]:
        """No proof may rest on a basis or guidance that another release of this study learned from people's rows."""
        if verdict.epsilon is None or verdict.card["transform"]["kind"] not in ("affine", "guided"):
            return []
        earlier = (Card(**card) for card in context.store.releases.unproved_cards(self.study))
        return [BORROWED] if lent_by(Card(**verdict.card), earlier) else []

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
        if recorded.outcome == release_store.NEW:
            context.store.releases.compare(self.study, self.sha256)
        return recorded

    def _answer(self, known: Recorded) -> tuple[int, Receipt]:
        outcome, receipt = known
        if outcome == release_store.ELSEWHERE:
            raise ApiError(409, "pushed-elsewhere", "Another site has pushed the same rows to this study.")
        if outcome == release_store.WITHDRAWN:
            raise ApiError(410, "withdrawn", "This release was withdrawn. Release again to push these rows once more.")
        if receipt.purpose != self.purpose:
            words = f"This release was pushed before, to {receipt.purpose}, and it stays that. Push other rows to "
            words += f"{self.purpose}; rows that models learn from must not test them."
            raise ApiError(409, "other-purpose", words)
        if outcome == release_store.SAME_ROWS:
            words = f"These rows were pushed before, in another file ({receipt.sha256[:12]}...): order and "
            raise ApiError(409, "same-rows", words + "compression make no new rows. They count once.")
        return 201 if outcome == release_store.NEW else 200, receipt


async def keep_test_table(request: Request, context: Context, study: str) -> TestTable:
    """Receive a public test table, check it, and make it the study's."""
    definition = await to_thread.run_sync(pool_definition, context, study)
    async with received_body(request, context, study) as body:
        with body.path.open("rb") as file:
            format = "parquet" if file.read(4) == b"PAR1" else "csv"
        named = body.path.with_suffix(f".{format}")
        body.path.rename(named)
        try:
            verdict = await checked(context, "table", named, definition, study)
            if verdict.objections:
                raise refused("The test table is refused", verdict.objections)
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


def refused(what: str, reasons: list[str]) -> ApiError:
    more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
    return ApiError(422, "refused", f"{what}: {reasons[0]}{more}", objections=reasons)


def pool_definition(context: Context, study: str) -> dict[str, Any]:
    """The definition of a study that pools releases; other kinds take none."""
    found = context.store.studies.find(study)
    if found is None or found.kind != "pool":
        raise not_found("study that takes releases")
    return found.definition


def _over(context: Context, exceeded: str, quota: Quota) -> ApiError:
    context.metrics.quota_refusals.labels(exceeded).inc()
    context.metrics.pushes.labels("refused").inc()
    words = f"With this release the site would have more than its limit of {getattr(quota, exceeded)} {exceeded}. "
    words += "Withdraw what is no longer needed, or ask the owner of the study."
    return ApiError(413, "over-quota", words, headers=CLOSE)
