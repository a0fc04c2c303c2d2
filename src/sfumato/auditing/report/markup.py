"""Templates and small pieces of SVG and HTML, every text and attribute escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup, escape

EMPTY = Markup("")
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


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """One element; `class_` and `stroke_width` become `class` and `stroke-width`; what is None is left out.

    >>> tag("text", "a < b", x=1.50, class_="name")
    Markup('<text x="1.5" class="name">a &lt; b</text>')
    """
    parts = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(short(value))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    opening = f"<{name}{''.join(parts)}"
    if not children:
        return Markup(opening + "/>")
    return Markup(f"{opening}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Markup:
    """One after the other; plain strings are escaped, markup is not."""
    return EMPTY.join(escape(child) for child in children)


def short(value: object) -> str:
    """Numbers with at most two decimals: a hundredth of a pixel cannot be seen, and pages stay small."""
    return trimmed(value) if isinstance(value, float) else str(value)


def trimmed(value: float) -> str:
    """Two decimals without trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


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
