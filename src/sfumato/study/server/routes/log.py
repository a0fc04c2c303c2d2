"""The public log: read by anybody, in the form of tlog-tiles, so that monitors for such logs can follow it; commitments
of owners and what witnesses say are written to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from sfumato.ledger.notes import LONGEST_NOTE, TILE, opened, read_tile_path, signatures, split_note, time_signed
from sfumato.ledger.public_log import CHECKPOINT, KEY, LOG, commitment_entry, read_commitment
from sfumato.release.auditable import answer_of, noise_entry
from sfumato.study.protocol.messages import LogReceipt
from sfumato.study.server.context import Ctx, Sent, TokenHolder
from sfumato.study.server.shell import ApiError, busy, declared, not_found


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
    return _part(place, context.store.log.bundle)


@router.get("/tile/{level}/{place:path}", response_class=Response, responses=_BYTES)
def tile(level: Annotated[int, Path(ge=0, le=63)], place: TilePath, context: Ctx) -> Response:
    """Up to 256 hashes of one level of the tree."""
    return _part(place, partial(context.store.log.tile, level))


def _part(place: str, read: Callable[[int, int], bytes | None]) -> Response:
    try:
        number, width = read_tile_path(place)
    except ValueError:
        raise not_found("part of the log") from None
    found = read(number, width) if number * TILE <= 1 << 62 else None
    if found is None:
        raise not_found("part of the log")
    return Response(found, media_type=BYTES, headers=FOR_EVER)


written = APIRouter(tags=["log"], responses=declared(400, 403, 413, 422, 429, 503))
ROUTERS = (router, written)


class SignedCommitment(Sent):
    """A commitment as text, and the owner's signature of it in the form of OpenSSH."""

    text: Annotated[str, Field(max_length=4096)]
    signature: Annotated[str, Field(max_length=2048)]


@written.post("/api/v1/log", status_code=201, responses=declared(401))
def commit(sent: SignedCommitment, _: TokenHolder, context: Ctx) -> LogReceipt:
    """Log what an owner released, by the owner's word; any token of a study here will do."""
    read_commitment(sent.model_dump())
    return context.store.log.receipt(commitment_entry(sent.model_dump(), context.store.database.today()))


class NoiseCommitted(Sent):
    """What an owner commits to, before the noise of a release can be known, and the public key of the auditor."""

    commitment: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    auditor: Annotated[str, Field(pattern="^age1[a-z0-9]{58}$")]


@written.post("/api/v1/log/noise", status_code=201, responses=declared(401))
def commit_noise(sent: NoiseCommitted, _: TokenHolder, context: Ctx) -> LogReceipt:
    """Log a commitment, and answer it with a value that nobody could know before: it follows from the log's key."""
    store = context.store
    answer = answer_of(store.log.signer.secret, sent.commitment)
    return store.log.receipt(noise_entry(sent.model_dump(), answer, store.database.today()))


class Cosigned(Sent):
    """A checkpoint of this log with the signature of a witness."""

    note: Annotated[str, Field(max_length=LONGEST_NOTE)]


@written.post(f"{LOG}/cosignatures", status_code=204, dependencies=[Depends(_in_turn)], responses=declared(409))
def cosign(sent: Cosigned, context: Ctx) -> None:
    """Keep what a witness says of a checkpoint; only witnesses that this server was told of."""
    keys = {one.named: one for one in context.settings.witness_keys()}
    log = context.store.log
    try:
        seen = opened(sent.note, log.signer.key)
        lines = split_note(sent.note)[1]
        signed = zip(lines, signatures(lines), strict=True)
        found = {name: line for line, (name, key, _) in signed if (name, key) in keys}
        bad = [one for one in keys.values() if one.name in found and not time_signed(sent.note, one)]
    except ValueError as error:
        raise ApiError(422, "invalid", f"What the witness sent cannot be used. {error}") from None
    if not found or bad:
        raise ApiError(403, "forbidden", "No witness that this server knows has signed that.")
    if seen.size > log.size() or opened(log.checkpoint(seen.size), log.signer.key) != seen:
        words = "This server's log has another checkpoint of that size. Keep both, and tell others."
        raise ApiError(409, "fork", words)
    for name, line in found.items():
        log.cosign(seen.size, name, line)
