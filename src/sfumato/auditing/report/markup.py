"""Templates, sections of pages, and names that may be broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup, escape

from sfumato.core.svg import EMPTY, tag, trimmed

LONGEST = 64
"""Characters of a name; the list of all columns has it in full."""


@dataclass(frozen=True)
class Section:
    """A part of a page that has drawn itself. Without `html` it does not apply, and `why` is one line."""

    id: str
    title: str
    html: Markup = EMPTY
    why: str = ""


def templates(package: str, **filters: Callable[..., object]) -> jinja2.Environment:
    """The templates of a package. A name that a template does not know is an error, never an empty place."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"breakable": breakable, **filters}
    return environment


@cache
def report_text(name: str) -> str:
    """A style sheet or a script of the report: our own file, so it needs no escaping."""
    return files("sfumato.auditing.report").joinpath(name).read_text(encoding="utf-8")


@cache
def report_template(name: str) -> jinja2.Template:
    """A page of the report."""
    return templates("sfumato.auditing.report", short_name=short_name).get_template(name)


def drawn(name: str, title: str, **parts: object) -> Section:
    """A section by its own template."""
    return Section(name, title, Markup(report_template(f"{name}.html.j2").render(parts)))


def breakable(text: object) -> Markup:
    """A name that may be broken where a person would break it: behind an underscore, a slash, a full stop."""
    safe = escape(text)
    for sign in "_/.=":
        safe = safe.replace(sign, Markup(f"{sign}<wbr>"))
    return safe


def short_name(text: object) -> Markup:
    """The same, cut in the middle where it would fill a page."""
    name = str(text)
    return breakable(name if len(name) <= LONGEST else f"{name[: LONGEST - 20]}…{name[-16:]}")


def share(value: float) -> str:
    """A position on a scale from 0 to 1 as a percentage of the width."""
    return f"{trimmed(100 * min(1.0, max(0.0, value)))}%"


def at(value: float, *children: object) -> Markup:
    """Children drawn around a position of the scale, in pixels: shapes keep their size whatever the width."""
    return tag("svg", *children, x=share(value), y="50%", overflow="visible")
