"""At the door, before any route: who asks, under which name we are addressed, and whether the address is one at all.

Proxies write the caller's address at the end of X-Forwarded-For; what stands before was sent by the caller, who can
invent it. So of the addresses there, the one is believed that the outermost of our own proxies wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from typing import Any

from sfumato.server.problems import ApiError, not_found
from sfumato.server.settings import Settings

Scope = MutableMapping[str, Any]

_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names that lead to this machine only, and so are always ours: for health checks and metrics beside a proxy."""


class Door:
    """What every request passes. `enter` notes who asks; `refusal` says why the request goes no further."""

    def __init__(self, settings: Settings) -> None:
        self._hops = settings.proxy_hops if settings.trust_proxy else 0
        names = {name.lower() for name in settings.host_names()}
        self._hosts = frozenset(names | set(LOOPBACK)) if names else frozenset()

    def enter(self, scope: Scope) -> None:
        """Take caller and scheme from what our own proxies wrote; without them the connection tells."""
        if self._hops == 0:
            return
        if (caller := self._written(scope, b"x-forwarded-for")) is not None:
            scope["client"] = (_without_port(caller), 0)
        if (scheme := self._written(scope, b"x-forwarded-proto")) in ("http", "https"):
            scope["scheme"] = scheme

    def _written(self, scope: Scope, header: bytes) -> str | None:
        """What the outermost of our proxies wrote; where only the innermost writes at all, what that one did."""
        said = [part.strip() for part in ",".join(_all(scope["headers"], header)).split(",") if part.strip()]
        return None if not said else said[max(0, len(said) - self._hops)]

    def refusal(self, scope: Scope) -> ApiError | None:
        """An address that cannot be one, or a name that is not ours."""
        if _CONTROL.search(scope["path"]):
            return not_found()  # under names that no database and no file system has, there is nothing
        names = _all(scope["headers"], b"host")
        host = _HOST.fullmatch(names[0]) if len(names) == 1 else None
        if host is None:
            return None if not names else ApiError(400, "bad-host", "The Host header is not a host name.")
        if self._hosts and host[1].lower() not in self._hosts:
            return ApiError(421, "other-host", "This server does not use that host name. Check the address.")
        return None


def path_of(scope: Scope) -> str:
    """The path inside this server, wherever a foreign application has mounted it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _all(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


def _without_port(address: str) -> str:
    """Some proxies write the port too, which changes with every connection."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address
