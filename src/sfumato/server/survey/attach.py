"""Surveys as a part of an app: routes of the protocol, the respondents' page, and the API's description."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from sfumato.server.door import Door
from sfumato.server.metrics import Metrics
from sfumato.server.routes import surveys
from sfumato.server.settings import Settings
from sfumato.server.store import Store
from sfumato.server.survey.desks import SurveyDesks
from sfumato.server.survey.quick import QuickPath
from sfumato.server.web.render import ROOT

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' https:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


class RespondentPage(StaticFiles):
    """The static folder that a respondent's browser runs; witnesses are asked over https, nothing else leaves."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = PAGE_POLICY
        response.headers["Cache-Control"] = "no-cache"  # asked for again, so that a mended page reaches everybody
        return response


class SurveysFirst(FastAPI):
    """An app that answers respondents before any of its middleware is asked: they come by the thousand.

    It also notes where a foreign app has mounted it, for the pages. What the door refuses, the shell answers.
    """

    quick: QuickPath | None = None
    door: Door | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ROOT.set(scope.get("root_path", ""))
        if scope["type"] == "http" and self.door is not None:
            self.door.enter(scope)
            scope.setdefault("state", {})["refusal"] = self.door.refusal(scope)
        refused = scope.get("state", {}).get("refusal") is not None
        if refused or self.quick is None or not await self.quick.answered(scope, receive, send):
            await super().__call__(scope, receive, send)


def attach_surveys(app: SurveysFirst, store: Store, settings: Settings, metrics: Metrics) -> SurveyDesks:
    """Add surveys to an app; its owner closes the desks when it stops."""
    desks = app.state.surveys = SurveyDesks(store, settings.respondent_rate)
    folder = str(files("sfumato.server.web").joinpath("survey"))
    app.router.routes += [*surveys.ROUTES, Mount("/survey", RespondentPage(directory=folder, html=True))]
    app.quick, app.door = QuickPath(desks, metrics, settings), Door(settings)
    describe = app.openapi

    def with_surveys() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe()
            app.openapi_schema["paths"] |= surveys.described()
        return app.openapi_schema

    app.openapi = with_surveys  # type: ignore[method-assign]
    return desks
