"""What pages of ours are sent with and whose requests they take: for the coordinator and for the owners' desk.

Nothing here knows a framework, so that the plain install can use it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing is loaded from another server, and no other page may frame ours."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer that does not set them itself."""


def is_own_origin(origin: str, host: str | None) -> bool:
    """Whether a form comes from a page of ours. Schemes are not compared: TLS may end at a proxy in front of us."""
    try:
        parts = urlsplit(origin)
    except ValueError:  # "http://[": no address at all
        return False
    return parts.scheme in ("http", "https") and parts.netloc == host
