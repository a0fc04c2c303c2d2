"""The public log: read by anybody, in the form of tlog-tiles, so that monitors for such logs can follow it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from sfumato.ledger.merkle import TILE, read_tile_path
from sfumato.ledger.public_log import CHECKPOINT, KEY, LOG
from sfumato.study.server.context import Ctx
from sfumato.study.server.problems import busy, declared, not_found


def _in_turn(request: Request, context: Ctx) -> None:
    """Strangers get their share of requests, and no more."""
    if seconds := context.stranger_rates.wait(request.client.host if request.client else ""):
        raise busy(seconds)


router = APIRouter(prefix=LOG, tags=["log"], dependencies=[Depends(_in_turn)], responses=declared(404, 429, 503))
TEXT, BYTES = "text/plain; charset=utf-8", "application/octet-stream"
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_BYTES: dict[int | str, dict[str, Any]] = {200: {"content": {BYTES: {}}}}
TilePath = Annotated[str, Path(description="Number of the tile, for example 000, x001/234 or 000.p/12.")]


@router.get(f"/{CHECKPOINT}", response_class=Response, responses=_TEXT)
def checkpoint(context: Ctx) -> Response:
    """Size and root of the log, signed by its key and by witnesses."""
    return Response(context.store.log.checkpoint(), media_type=TEXT, headers={"Cache-Control": "no-cache"})


@router.get(f"/{KEY}", response_class=Response, responses=_TEXT)
def key(context: Ctx) -> Response:
    """The key that checkpoints are signed by; compare it with the one that you were told by other means."""
    return Response(context.store.log.signer.key.text + "\n", media_type=TEXT, headers={"Cache-Control": "no-cache"})


@router.get("/tile/entries/{place:path}", response_class=Response, responses=_BYTES)
def entries(place: TilePath, context: Ctx) -> Response:
    """Up to 256 entries, each after its length in two bytes."""
    number, width = _place(place)
    return _part(context.store.log.bundle(number, width))


@router.get("/tile/{level}/{place:path}", response_class=Response, responses=_BYTES)
def tile(level: Annotated[int, Path(ge=0, le=63)], place: TilePath, context: Ctx) -> Response:
    """Up to 256 hashes of one level of the tree."""
    number, width = _place(place)
    return _part(context.store.log.tile(level, number, width))


def _place(text: str) -> tuple[int, int]:
    try:
        number, width = read_tile_path(text)
    except ValueError:
        raise not_found("part of the log") from None
    if number * TILE > 1 << 62:
        raise not_found("part of the log")
    return number, width


def _part(found: bytes | None) -> Response:
    if found is None:
        raise not_found("part of the log")
    return Response(found, media_type=BYTES, headers=FOR_EVER)
