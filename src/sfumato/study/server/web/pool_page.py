"""The page of a study of kind `pool`: the owner's and a site's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.study.protocol.messages import StudyInfo
from sfumato.study.protocol.pool_study import PoolStudy, trains
from sfumato.study.server.access import seen_by
from sfumato.study.server.context import Context
from sfumato.study.server.store import Caller
from sfumato.study.server.store.token_store import OWNER
from sfumato.study.server.web.density_part import densities_shown
from sfumato.study.server.web.model_pages import Overview, overview
from sfumato.study.server.web.rendering import address_of, page
from sfumato.study.server.web.shown_study import asked, guarantee, shown_site, site_totals, totals

MOST_MODELS = 50
"""The newest ones; a page with the models of years would be slow."""
MOST_PAIRS = 20


@dataclass(frozen=True)
class Flash:
    """A line about what was just done, or why it failed."""

    kind: str
    words: str


DONE = {
    "training": Flash("good", "The model is queued. This page shows its progress."),
    "reconstructing": Flash("good", "The column is queued. This page shows its distribution once it is found."),
    "closed": Flash("good", "The survey is closed. No more answers are accepted; what was received stays."),
    "revoked": Flash("good", "The site's token is revoked. Its releases remain."),
    "withdrawn": Flash("good", "The release is withdrawn and its file is deleted. Models that used it are marked."),
}
"""What a page says after it was sent back to itself; only these words, whatever the address holds."""


def pool_page(
    request: Request, context: Context, caller: Caller, study: StudyInfo, flash: Flash | None = None, status: int = 200
) -> HTMLResponse:
    values: dict[str, Any] = {
        "caller": caller,
        "study": study,
        "flash": flash,
        "models": models_shown(context, caller),
        "asked": asked(study.definition),
        "address": address_of(request),
        "trains": trains(study.definition),
    }
    if caller.role == OWNER:
        sites, shared = context.store.sites.all(study.id), context.store.shared_rows.pairs(study.id)
        wanted = list(study.definition.get("classifiers") or ())
        return page(
            "owner",
            status,
            **values,
            sites=[shown_site(site, context.store.database.today()) for site in sites],
            totals=totals(sites),
            shared=shared[:MOST_PAIRS],
            more_shared=max(0, len(shared) - MOST_PAIRS),
            classifiers=[
                *wanted,
                *[name for name in CLASSIFIERS if name not in wanted and not CLASSIFIERS[name].on_bits],
            ],
            keeps_rows={name for name in [*wanted, *CLASSIFIERS] if choose_classifier(name).keeps_rows},
            test_table=context.store.releases.test_table(study.id),
            densities=densities_shown(context, study.id),
            columns=PoolStudy.from_dict(study.definition).reconstructible(),
        )
    releases = context.store.releases.all(study.id, caller.site)
    shown = [(one, guarantee(one.epsilon, one.earlier, one.total_epsilon, one.presence)) for one in reversed(releases)]
    return page("site", status, **values, releases=shown, totals=site_totals(releases))


def models_shown(context: Context, caller: Caller) -> Overview:
    models = [seen_by(caller, model) for model in reversed(context.store.models.all(caller.study))]
    return overview(models[:MOST_MODELS], owner=caller.role == OWNER)
