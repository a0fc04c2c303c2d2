"""Small pieces of SVG and HTML, every text and attribute escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

EMPTY = Markup("")


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
