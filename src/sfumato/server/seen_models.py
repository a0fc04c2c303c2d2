"""A model as its caller may see it: how well another site does alone is that site's and the owner's business."""

from __future__ import annotations

from dataclasses import replace

from sfumato.protocol.messages import ModelInfo
from sfumato.server.store import Caller
from sfumato.server.store.tokens import OWNER


def seen_by(caller: Caller, model: ModelInfo) -> ModelInfo:
    """For a site, only its own figure of those that name a site."""
    compared = (model.results or {}).get("by_sites")
    if caller.role == OWNER or not compared:
        return model
    own = [one for one in compared.get("alone", []) if one.get("site") == caller.site]
    return replace(model, results={**(model.results or {}), "by_sites": {**compared, "alone": own}})
