"""The app: routes, refusals in one shape, and what runs beside them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DataError, DBAPIError, SQLAlchemyError
from starlette.exceptions import HTTPException

from sfumato import __version__
from sfumato.errors import SfumatoError
from sfumato.protocol.messages import ErrorMessage
from sfumato.server.context import Context
from sfumato.server.logs import fault, log
from sfumato.server.problems import ApiError, disk_full, unavailable
from sfumato.server.routes import models, page_forms, pages, releases, service, studies, survey_owner, survey_pages
from sfumato.server.settings import Settings
from sfumato.server.shell import Shell
from sfumato.server.survey.attach import SurveysFirst, attach_surveys
from sfumato.server.web.answers import error_page

ROUTERS = (
    service.router,
    studies.router,
    releases.router,
    models.router,
    survey_owner.router,
    pages.router,
    page_forms.router,
    survey_pages.router,
)


def create_app(settings: Settings) -> FastAPI:
    """One ASGI app for one data folder and database, both opened here; `app.state.store` is the store."""
    context = Context.open(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        context.start()
        log("started", version=__version__)
        try:
            yield
        finally:
            await surveys.close()
            context.close()
            log("stopped")

    app = SurveysFirst(
        title="Sfumato coordinator",
        version=__version__,
        summary="Studies to which sites push sanitized releases, one way.",
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        separate_input_output_schemas=False,
    )
    app.state.context, app.state.store, app.state.settings = context, context.store, settings
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(Shell, settings=settings, metrics=context.metrics, faulty=_faulty)
    surveys = attach_surveys(app, context.store, settings, context.metrics)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _misunderstood)
    app.add_exception_handler(SfumatoError, _mistaken)
    app.add_exception_handler(SQLAlchemyError, _database_away)
    return app


# Every refusal has the same shape


def _answer(request: Request, error: ApiError) -> Response:
    if (shown := error_page(request, error)) is not None:
        return shown
    message = ErrorMessage(error.code, str(error.detail), request.state.request_id, error.objections)
    return JSONResponse(message.to_dict(), error.status_code, error.headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, ApiError):
        return _answer(request, error)
    words = {404: "There is no such page here.", 405: "This address cannot be used that way."}
    message = words.get(error.status_code, "The request cannot be understood.")
    code = {404: "not-found", 405: "wrong-method"}.get(error.status_code, "bad-request")
    return _answer(request, ApiError(error.status_code, code, message, headers=dict(error.headers or {})))


async def _misunderstood(request: Request, error: Exception) -> Response:
    """Where and what was expected; never what was sent."""
    assert isinstance(error, RequestValidationError)
    places = [f"{'.'.join(str(part)[:40] for part in item['loc'])}: {item['msg']}" for item in error.errors()[:10]]
    return _answer(request, ApiError(422, "invalid", "The request is not as described.", objections=places))


async def _mistaken(request: Request, error: Exception) -> Response:
    return _answer(request, ApiError(422, "invalid", str(error)))


async def _database_away(request: Request, error: Exception) -> Response:
    if isinstance(error, DataError):  # what was sent is no text or number that a database has: nothing of ours is away
        return _answer(request, ApiError(422, "invalid", "The request holds characters that cannot be stored."))
    log("database", 40, request=request.state.request_id, **fault(error))
    full = isinstance(error, DBAPIError) and "full" in str(error.orig).lower()
    return _answer(request, disk_full() if full else unavailable())


async def _faulty(request: Request, error: Exception) -> Response:
    if isinstance(error, ApiError):
        return _answer(request, error)
    return _answer(request, ApiError(500, "fault", "The server made a mistake. The log knows it by this request's id."))
