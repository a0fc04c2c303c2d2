"""Signs of the classifiers: each has its own shape and its own colour, so that neither is needed alone."""

from __future__ import annotations

from markupsafe import Markup

from sfumato.classifiers.factory import CLASSIFIERS
from sfumato.report.markup import tag

SHAPES = (
    "M0-5a5 5 0 1 1 0 10a5 5 0 1 1 0-10z",  # disc
    "M-4.5-4.5h9v9h-9z",  # square
    "M0-6l6 6l-6 6l-6-6z",  # diamond
    "M0-6l5.8 10h-11.6z",  # triangle
    "M0 6l5.8-10h-11.6z",  # triangle on its tip
    "M-6-2h4v-4h4v4h4v4h-4v4h-4v-4h-4z",  # cross
    "M0-6.2l5.9 4.3l-2.3 6.9h-7.2l-2.3-6.9z",  # pentagon
)
COLOURS = 7
_PLACES = {name: place for place, name in enumerate(CLASSIFIERS)}


def series(classifier: str) -> str:
    """The classes that give a classifier its colour; when colours come round again, lines are dashed."""
    place = _PLACES.get(classifier, 0)
    return f"s{place % COLOURS}{' again' if place >= COLOURS else ''}"


def mark(classifier: str) -> Markup:
    """Its sign, drawn around the origin: no two have both shape and colour in common."""
    place = _PLACES.get(classifier, 0)
    return tag("path", d=SHAPES[(place + 3 * (place // COLOURS)) % len(SHAPES)], class_="mark")


def sign(classifier: str) -> Markup:
    """Its sign in the middle of text."""
    return tag(
        "svg",
        mark(classifier),
        viewBox="-8 -8 16 16",
        width=16,
        height=16,
        class_=f"sign {series(classifier)}",
        aria_hidden="true",
    )
