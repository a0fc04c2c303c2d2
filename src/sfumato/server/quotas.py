"""How much a site may push: what the study grants it, within what the server grants to all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request

from sfumato.protocol.quota import Quota
from sfumato.server.context import Context
from sfumato.server.problems import CLOSE, ApiError
from sfumato.server.store.release_store import QuotaExceededError


def quota_of(context: Context, definition: Mapping[str, Any]) -> Quota:
    """The smaller of study and settings, one by one."""
    settings = context.settings
    granted = Quota(settings.max_site_bytes, settings.max_site_rows, settings.max_site_releases)
    return granted.within(Quota.from_dict(definition["quota"])) if "quota" in definition else granted


def rows_left(context: Context, quota: Quota, study: str, site: str, request: Request) -> int | None:
    """Before anything is received: whether there is room for another release, and for how many rows."""
    announced = request.headers.get("content-length", "0")
    # what is larger than any release is refused for that, when it is read
    size = min(int(announced) if announced.isdigit() else 0, context.settings.max_push_bytes)
    kept = context.store.releases.kept_of(study, site)
    exceeded = quota.exceeded(kept, more_bytes=size)
    if exceeded is not None:
        raise _over(context, exceeded, quota)
    return None if quota.rows is None else quota.rows - (kept.rows or 0)


@contextlib.contextmanager
def quota_explained(context: Context, quota: Quota) -> Iterator[None]:
    """Around a commit: pushes that came together may exceed the quota together, and all but the first are refused."""
    try:
        yield
    except QuotaExceededError as error:
        raise _over(context, error.quota, quota) from None


def _over(context: Context, exceeded: str, quota: Quota) -> ApiError:
    context.metrics.quota_refusals.labels(exceeded).inc()
    context.metrics.pushes.labels("refused").inc()
    return ApiError(
        413,
        "over-quota",
        f"With this release the site would have more than {getattr(quota, exceeded)} {exceeded} here, the most that it "
        "may. Withdraw what is no longer needed, or ask the owner of the study.",
        headers=CLOSE,
    )
