"""Templates to pages: everything is escaped, nothing comes from elsewhere, no script or style stands in the page."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from sfumato.guarantee.rounding import epsilon_at_most
from sfumato.report.markup import breakable
from sfumato.server.web.chart_scale import percent

STATIC = {
    "page.css": "text/css; charset=utf-8",
    "fresh.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""All files that pages load, with their types."""


ROOT: ContextVar[str] = ContextVar("root", default="")
"""Where a foreign app has mounted this one, for example /study: every address on a page begins with it."""


def render(template: str, **values: Any) -> str:
    return environment().get_template(f"{template}.html.j2").render(**values)


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("sfumato.server.web", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"breakable": breakable, "thousands": "{:,}".format, "short_hash": short_hash, "share": percent}
    made.filters["epsilon_at_most"] = epsilon_at_most
    made.globals["root"] = ROOT.get
    return made


@cache
def static_file(name: str) -> bytes:
    return files("sfumato.server.web").joinpath("static", name).read_bytes()


def short_hash(text: str) -> str:
    """Enough of a content hash to tell releases apart by eye."""
    return text.removeprefix("sha256:")[:12]
