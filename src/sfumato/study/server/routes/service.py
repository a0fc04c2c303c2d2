"""Is it alive, and how is it doing?"""

from __future__ import annotations

import contextlib

from fastapi import APIRouter, Response
from sqlalchemy.exc import SQLAlchemyError

from sfumato.study.server.context import Ctx
from sfumato.study.server.problems import declared, unavailable

router = APIRouter(tags=["service"])


@router.get("/healthz", responses=declared(503))
def healthz(context: Ctx) -> dict[str, str]:
    """200 while the database answers."""
    if not context.store.database.is_alive():
        raise unavailable()
    return {"status": "ok"}


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(context: Ctx) -> Response:
    """Counters of this process in Prometheus's text format."""
    with contextlib.suppress(SQLAlchemyError):
        context.metrics.models.set(context.store.models.waiting())
    return Response(context.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
