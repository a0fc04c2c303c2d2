"""Noisy counts of all sites, added: a model of everybody that the owner draws rows from."""

from __future__ import annotations

from fastapi import APIRouter

from sfumato.core.errors import SfumatoError
from sfumato.mechanisms.central.scoring import NoisyScores
from sfumato.study.pooling.added import add_counts
from sfumato.study.pooling.pushed import Pushed
from sfumato.study.protocol.messages import AddedCounts
from sfumato.study.server.access import Ctx, Owner
from sfumato.study.server.problems import USUAL, ApiError, declared
from sfumato.study.server.routes.densities import pool_of

router = APIRouter(prefix="/api/v1/studies/{study_id}/counts", tags=["counts"], responses=USUAL)


@router.get("", responses=declared(403, 409))
def added_counts(caller: Owner, context: Ctx) -> AddedCounts:
    """The sum of what all sites have pushed and not withdrawn, as a model to draw rows from; no site's own counts."""
    plan = pool_of(context, caller.study).plan
    if plan is None:
        raise ApiError(409, "invalid", "Sites of this study push rows, so there are no counts to add.")
    standing = context.store.releases.all(caller.study, withdrawn=False)
    pushed = [Pushed(context.folder.release(caller.study, one.sha256), one.site, one.sha256) for one in standing]
    try:
        added = add_counts(pushed, plan)
        release = added.release()
    except SfumatoError as error:
        raise ApiError(409, "invalid", str(error)) from None
    assert release.model is not None
    scores = added.counts.to_dict() if isinstance(added.counts, NoisyScores) else None
    return AddedCounts(release.card.to_dict(), dict(release.model), added.sites, len(pushed), scores)
