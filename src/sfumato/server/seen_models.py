"""A model as its caller may see it: how well another site does alone is that site's and the owner's business."""

from __future__ import annotations

from dataclasses import replace

from sfumato.protocol.messages import ModelInfo
from sfumato.server.store import Caller
from sfumato.server.store.token_store import OWNER


def seen_by(caller: Caller, model: ModelInfo) -> ModelInfo:
    """For a site, only its own figure of those that name a site."""
    if caller.role == OWNER or not model.results:
        return model
    results = dict(model.results)
    for part, listed in (("by_sites", "alone"), ("trust", "sites")):
        if found := results.get(part):
            own = [one for one in found.get(listed, []) if one.get("site") == caller.site]
            results[part] = {**found, listed: own}
    return replace(model, results=results)
