"""A study and its sites."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from sfumato.study.protocol.messages import Invited, SiteInfo, StudyInfo
from sfumato.study.server.context import AnyCaller, Ctx, Owner, Sent
from sfumato.study.server.problems import USUAL, declared, not_found
from sfumato.study.server.store.store import LONGEST_DAYS

router = APIRouter(prefix="/api/v1/studies/{study_id}", tags=["studies"], responses=USUAL)


class Invitation(Sent):
    """Who is invited, and for how long; inviting a site again ends its older token."""

    name: Annotated[str, Field(min_length=1, max_length=60, description="Letters, digits, spaces, dots, hyphens.")]
    days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = 365


@router.get("")
def read_study(caller: AnyCaller, context: Ctx) -> StudyInfo:
    """What the study asks for; its `hash` is what sites compare with the owner by another way."""
    found = context.store.studies.find(caller.study)
    if found is None:
        raise not_found("study")
    return found


@router.post("/sites", status_code=201, responses=declared(400, 403, 413))
def invite_site(invitation: Invitation, caller: Owner, context: Ctx) -> Invited:
    """Invite a site; its token is shown this once."""
    return context.store.sites.invite(caller.study, invitation.name, invitation.days)


@router.get("/sites", responses=declared(403))
def list_sites(caller: Owner, context: Ctx) -> list[SiteInfo]:
    """Every site, with what it has pushed."""
    return context.store.sites.all(caller.study)


@router.delete("/sites/{name}", status_code=204, responses=declared(403))
def revoke_site(name: Annotated[str, Path(max_length=60)], caller: Owner, context: Ctx) -> None:
    """End a site's tokens. What it pushed stays, until it is withdrawn."""
    if not context.store.sites.revoke(caller.study, name):
        raise not_found("site")
