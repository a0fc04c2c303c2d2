"""The link of a survey: where it is and what it must be. Whoever gives it away vouches for it, not the server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from sfumato.errors import UsageError

API = "/api/v1/surveys/"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True)
class SurveyLink:
    """`hash` is that of the survey file, `witnesses` are addresses that must have seen the same log; both may lack."""

    base: str
    identity: str
    hash: str | None = None
    witnesses: tuple[str, ...] = ()


def read_link(link: str) -> SurveyLink:
    """Read a link that somebody was given: the page's, also of a page elsewhere, or the survey's own address."""
    parts = urlsplit(link.strip())
    fragment = parse_qs(parts.fragment)
    survey = fragment.get("survey", [""])[0]
    if survey.startswith(("https://", "http://")):  # a page elsewhere names the server in full
        where = read_link(survey)
        base, identity = where.base, where.identity
    else:
        base, _, last = parts.path.rstrip("/").partition(API)
        if survey:
            base = base.removesuffix("index.html").rstrip("/").removesuffix("/survey")
        base, identity = f"{parts.scheme}://{parts.netloc}{base}", survey or last
    if not _ID.fullmatch(identity) or parts.query or not parts.scheme:
        raise UsageError("This is not the link of a survey. It looks like https://host/survey/#survey=ID&hash=HASH.")
    return SurveyLink(base, identity, _hash(fragment.get("hash")), tuple(fragment.get("witness", ())))


def _hash(found: list[str] | None) -> str | None:
    if found is None:
        return None
    fits = _HASH.fullmatch(found[0]) if len(found) == 1 else None
    if fits is None:  # half a hash would be checked by nobody
        raise UsageError("The link's hash is not whole: it has 64 letters. Ask for the link again.")
    return f"sha256:{fits[1]}"
