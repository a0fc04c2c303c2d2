"""Releases: pushed, listed and withdrawn; never read back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response

from sfumato.study.protocol.messages import LONGEST, Receipt, ReleaseInfo, SharedRows, push_wish, withdraw_wish
from sfumato.study.server.accept_push import Push, keep_test_table
from sfumato.study.server.context import AnyCaller, Ctx, Owner, Sha256, SiteCaller, SiteOfStudy, check_signed
from sfumato.study.server.problems import USUAL, declared, not_found
from sfumato.study.server.store import TestTable

router = APIRouter(prefix="/api/v1/studies/{study_id}", tags=["releases"], responses=USUAL)


def _binary(*kinds: str) -> dict[str, Any]:
    body = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, body)}}


MOST_RELEASES = 100
"""Of one page: each brings its card."""
PARQUET, CSV = "application/vnd.apache.parquet", "text/csv"
_AGAIN: dict[int | str, dict[str, Any]] = {
    200: {"model": Receipt, "description": "The release was pushed before; the receipt is the same."}
}
Signature = Annotated[
    str | None, Header(max_length=LONGEST, description="Where a key is enrolled for the site: its signature.")
]
_PUSH = declared(400, 403, 408, 409, 410, 413, 507)


@router.put(
    "/releases/{sha256}",
    status_code=201,
    responses=_AGAIN | _PUSH,
    openapi_extra=_binary(PARQUET),
)
async def push_release(
    sha256: Sha256,
    caller: SiteCaller,
    context: Ctx,
    request: Request,
    response: Response,
    purpose: Annotated[Literal["train", "test"], Query()] = "train",
    sfumato_signed: Signature = None,
) -> Receipt:
    """Push release.parquet, its card inside. Repeating a push is safe; the receipt means that it is durable."""
    wish = push_wish(caller.study, sha256, purpose)
    await to_thread.run_sync(check_signed, context, caller, wish, sfumato_signed)
    response.status_code, receipt = await Push(caller.study, caller.site, sha256, purpose).run(request, context)
    return receipt


@router.get("/releases")
def list_releases(
    caller: AnyCaller,
    context: Ctx,
    limit: Annotated[int, Query(ge=1, le=MOST_RELEASES, description="How many at most.")] = MOST_RELEASES,
    after: Annotated[str | None, Query(pattern="^[0-9a-f]{64}$", description="SHA-256 of the last one seen.")] = None,
) -> list[ReleaseInfo]:
    """A site's own releases; for the owner all of them: counts and cards, never rows.

    They come page by page, the oldest first: ask for those `after` the last one, until an empty page comes.
    """
    return context.store.releases.all(caller.study, caller.site, after=after, most=limit)


@router.get("/shared-rows", responses=declared(403))
def list_shared_rows(caller: Owner, context: Ctx) -> list[SharedRows]:
    """Pairs of releases that share rows beyond what chance would give, the largest share first."""
    return context.store.shared_rows.pairs(caller.study)


@router.get("/releases/{sha256}")
def read_release(sha256: Sha256, caller: AnyCaller, context: Ctx) -> ReleaseInfo:
    """One release with its card."""
    found = context.store.releases.find(caller.study, sha256, caller.site)
    if found is None:
        raise not_found("release")
    return found


@router.delete("/releases/{sha256}", status_code=204, responses=declared(403))
def withdraw_release(sha256: Sha256, caller: AnyCaller, context: Ctx, sfumato_signed: Signature = None) -> None:
    """Withdraw a release: its rows are deleted, and models that used it are marked."""
    if caller.site is not None:
        site = SiteOfStudy(caller.study, caller.site)
        check_signed(context, site, withdraw_wish(caller.study, sha256), sfumato_signed)
    if not context.store.releases.withdraw(caller.study, sha256, caller.site):
        raise not_found("release")
    context.folder.release(caller.study, sha256).unlink(missing_ok=True)


@router.put(
    "/test",
    responses=declared(400, 403, 408, 413, 507),
    openapi_extra=_binary(PARQUET, CSV),
)
async def put_test_table(caller: Owner, context: Ctx, request: Request) -> TestTable:
    """A PUBLIC table of plain rows to test models on: anybody may see it. It replaces an earlier one."""
    return await keep_test_table(request, context, caller.study)
