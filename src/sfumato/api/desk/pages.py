"""Screens as pages: templates, words in the reader's language, and the few files that pages load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from sfumato.api.desk.heard import heard
from sfumato.api.desk.words import WORDS, figure, say
from sfumato.auditing.report.markup import short_name, templates

STATIC = {"desk.css": "text/css; charset=utf-8", "desk.js": "text/javascript; charset=utf-8"}
FILES = {
    "release.csv": "text/csv; charset=utf-8",
    "release.xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "release.parquet": "application/vnd.apache.parquet",
    "card.json": "application/json",
    "model.json": "application/json",
    "signed.txt": "text/plain; charset=utf-8",
    "signed.txt.sig": "application/octet-stream",
    "report.html": "text/html; charset=utf-8",
    "certificate.html": "text/html; charset=utf-8",
}
"""What the desk hands out of a release's folder."""
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"


@dataclass(frozen=True)
class Answer:
    """What is sent back; a path stands for the file's content."""

    body: bytes | Path
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@cache
def _environment() -> jinja2.Environment:
    def duration(seconds: float) -> str:
        """As people say it: under a minute in tens of seconds, else in minutes."""
        return f"{10 * round(seconds / 10 + 0.5):.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"

    made = templates("sfumato.api.desk", short_name=short_name)
    made.globals |= {"duration": duration, "is_known": WORDS.__contains__}
    return made


def page(screen: str, language: str, values: Mapping[str, Any], status: int = 200) -> Answer:
    """A screen in a language."""
    plainly = values["desk"].plainly if "desk" in values else str
    spoken = {name: partial(one, language=language) for name, one in (("t", say), ("figure", figure))}
    spoken["heard"] = partial(heard, language=language, plainly=plainly)
    template = _environment().get_template(f"{screen}.html.j2")
    return Answer(template.render(**{**spoken, **values}, language=language).encode(), status)


@cache
def static_file(path: str) -> Answer | None:
    """A style sheet or the script, which tell nothing; None for every other path."""
    name = path.removeprefix("/")
    if name not in STATIC:
        return None
    return Answer(files("sfumato.api.desk").joinpath(name).read_bytes(), 200, {"Content-Type": STATIC[name]})
