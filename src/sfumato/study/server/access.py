"""Who may call what: a bearer token stands for the owner of one study or for one of its sites. Cookies mean nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from sfumato.study.protocol.messages import ModelInfo
from sfumato.study.server.context import Context
from sfumato.study.server.problems import ApiError, busy, forbidden, not_found, unauthorized
from sfumato.study.server.store.token_store import OWNER, SITE, Caller, token_hash

bearer = HTTPBearer(auto_error=False, scheme_name="token", description="sfu_owner_... or sfu_site_...")
StudyId = Annotated[str, Path(max_length=64, description="Id of a study.")]
Sha256 = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file, in hexadecimal digits.")]


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Ctx = Annotated[Context, Depends(context_of)]


def caller(
    request: Request,
    study_id: StudyId,
    context: Ctx,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Caller:
    """The caller, in her own study: 401 without a good token, 404 for what belongs to another study."""
    found = authenticate(request, context, credentials.credentials if credentials else "")
    if found.study != study_id:
        raise not_found("study")
    return found


def authenticate(request: Request, context: Context, token: str) -> Caller:
    """Check the rates, then the token."""
    if token and (seconds := context.token_rates.wait(token_hash(token))):
        raise busy(seconds)
    found = context.store.tokens.authenticate(token)
    if found is None:
        raise _stranger(request, context)
    if seconds := context.study_rates.wait(found.study):
        raise busy(seconds, "requests to this study")
    request.state.caller = found
    return found


def _stranger(request: Request, context: Context) -> ApiError:
    """Who has no good token gets few tries; the address is forgotten soon and never written down."""
    seconds = context.stranger_rates.wait(request.client.host if request.client else "")
    return busy(seconds) if seconds else unauthorized()


def owner(found: Annotated[Caller, Depends(caller)]) -> Caller:
    if found.role != OWNER:
        raise forbidden("the owner of the study")
    return found


@dataclass(frozen=True)
class SiteOfStudy:
    """A calling site."""

    study: str
    site: str


def site(found: Annotated[Caller, Depends(caller)]) -> SiteOfStudy:
    if found.role != SITE or found.site is None:
        raise forbidden("a site")
    return SiteOfStudy(found.study, found.site)


def seen_by(caller: Caller, model: ModelInfo) -> ModelInfo:
    """A model without the figures of other sites: how well a site does alone is its own and the owner's business."""
    if caller.role == OWNER or not model.results:
        return model
    results = dict(model.results)
    for part, listed in (("by_sites", "alone"), ("trust", "sites")):
        if found := results.get(part):
            own = [one for one in found.get(listed, []) if one.get("site") == caller.site]
            results[part] = {**found, listed: own}
    return replace(model, results=results)


AnyCaller = Annotated[Caller, Depends(caller)]
Owner = Annotated[Caller, Depends(owner)]
SiteCaller = Annotated[SiteOfStudy, Depends(site)]
