"""Where a coordinator is, and whether a token may be sent there."""

from __future__ import annotations

import ipaddress
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sfumato.errors import PrivacyLeakWarning, UsageError
from sfumato.files import is_private

TOKEN_VARIABLE = "SFUMATO_TOKEN"
_TOKEN = re.compile(r"sfu_[a-z]+_[A-Za-z0-9_-]{20,200}")


@dataclass(frozen=True)
class Address:
    """The base of all addresses of a coordinator, without a slash at its end."""

    base: str
    host: str
    loopback: bool

    @classmethod
    def read(cls, url: str, *, insecure_http: bool = False) -> Address:
        """Check an address that somebody typed; plain http is for this machine only, unless that is asked for."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise UsageError(
                "The coordinator's address cannot be understood. Write https://host or https://host:port."
            ) from None
        if parts.scheme not in ("http", "https") or not host:
            raise UsageError("The coordinator's address must begin with https:// and name a host.")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise UsageError(
                "The coordinator's address must be https://host[:port][/path] alone. A token goes into "
                f"{TOKEN_VARIABLE} or --token-file, never into an address."
            )
        loopback = _is_loopback(host)
        if parts.scheme == "http" and not loopback and not insecure_http:
            raise UsageError(
                f"http://{host} is not encrypted: everybody along the way could read the token and the release. "
                "Use https://, or add --insecure-http if you know that the connection is safe (a private network, a "
                "tunnel)."
            )
        shown = f"[{host}]" if ":" in host else host
        netloc = shown if port is None else f"{shown}:{port}"
        return cls(f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}", host, loopback)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(file: Path | None = None) -> str:
    """The token in `file`, or in the environment; never quoted in an error."""
    if file is not None:
        if not file.is_file():
            raise UsageError(f"There is no token file {file}.")
        if not is_private(file):
            warnings.warn(
                f"The token file {file} can be read by others on this machine. Fix it: chmod 600 {file}",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        text, where = file.read_text(encoding="utf-8", errors="replace"), f"The file {file}"
    else:
        text, where = os.environ.get(TOKEN_VARIABLE, ""), f"The variable {TOKEN_VARIABLE}"
        if not text.strip():
            raise UsageError(f"A token is needed. Give its file with --token-file, or set {TOKEN_VARIABLE}.")
    return check_token(text.strip(), where)


def check_token(token: str, where: str = "The token") -> str:
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            f"{where} does not contain a token. Tokens begin with sfu_ and are shown once, when they are created."
        )
    return token
