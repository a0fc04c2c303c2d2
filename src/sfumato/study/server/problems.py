"""Every refusal of the server: a status, a short code for programs, and words that say what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from sfumato.study.protocol.messages import ErrorMessage

Found = TypeVar("Found")
Headers = dict[str, str] | None


class ApiError(HTTPException):
    """A refusal; `objections` lists every reason where there are several."""

    def __init__(
        self, status: int, code: str, message: str, *, objections: Sequence[str] = (), headers: Headers = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code, self.objections = code, list(objections)


def unauthorized() -> ApiError:
    """One message for all invalid tokens: the difference would only help a thief."""
    return ApiError(
        401,
        "unauthorized",
        "The token is missing, unknown, revoked or expired. Ask the owner of the study for a new one.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def not_found(what: str = "page") -> ApiError:
    return ApiError(404, "not-found", f"There is no such {what} here.")


def there(found: Found | None, what: str) -> Found:
    """What was found, or 404."""
    if found is None:
        raise not_found(what)
    return found


def wrong_method(allowed: Iterable[str]) -> ApiError:
    return ApiError(
        405, "wrong-method", "This address does not support that method.", headers={"Allow": ", ".join(allowed)}
    )


def forbidden(needs: str) -> ApiError:
    return ApiError(403, "forbidden", f"Only {needs} may do this.")


def too_large(most: int, what: str = "body") -> ApiError:
    return ApiError(
        413, "too-large", f"The {what} is larger than {most} bytes, the most that this server accepts.", headers=CLOSE
    )


def too_slow() -> ApiError:
    return ApiError(408, "too-slow", "The client sent nothing for too long. Try again.", headers=CLOSE)


def busy(seconds: float, what: str = "requests") -> ApiError:
    wait = max(1, round(seconds + 0.5))
    return ApiError(
        429, "too-many", f"Too many {what} in a short time. Try again in {wait} s.", headers={"Retry-After": str(wait)}
    )


def disk_full() -> ApiError:
    return ApiError(507, "disk-full", "The server's disk is full. Nothing was kept. Try again when there is space.")


def unavailable(what: str = "database") -> ApiError:
    return ApiError(
        503,
        "unavailable",
        f"The server's {what} does not respond. Try again in a moment.",
        headers={"Retry-After": "5"},
    )


CLOSE = {"Connection": "close"}
STATUSES = {
    400: ("Bad request", "The request cannot be understood."),
    401: ("Signed out", "The token is missing or not valid."),
    403: ("Not allowed", "The token is for another role."),
    404: ("Not found", "There is nothing with this name, or it belongs to another study."),
    405: ("Method not allowed", ""),
    408: ("Too slow", "The client sent nothing for too long."),
    409: (
        "Not possible now",
        "The same rows were pushed before: by another site, in another file, for another purpose.",
    ),
    410: ("Withdrawn", "The content was withdrawn earlier."),
    413: ("Too large", "The body is too large, or exceeds the site's quota."),
    421: ("Wrong host name", ""),
    422: ("Not accepted", "The content is refused; `objections` says why."),
    429: ("Too many requests", "Too many requests; Retry-After says when to try again."),
    500: ("The server failed", "The server failed."),
    503: ("The database does not respond", "The database does not respond; try again later."),
    507: ("The disk is full", "The disk is full."),
}
"""The title of a page that says it, and what the API's description says of a route that may answer it."""


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may return besides success, for the API's description."""
    return {status: {"model": ErrorMessage, "description": STATUSES[status][1]} for status in statuses}


USUAL = declared(401, 404, 422, 429, 503)
"""What any route of a study may answer."""
