"""Releases whose rows are taken together: each of them once, and all of one space."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.core.errors import CardError, UsageError
from sfumato.guarantee import Card
from sfumato.release.release import Release, Releases, opened


def pooled(given: Releases, *, public: bool = False) -> list[Release]:
    """The releases of a job that takes their rows together: each of them once, and all of one space."""
    releases = opened(given, public=public)
    check_apart(releases)
    names = [str(one.folder or f"release {place}") for place, one in enumerate(releases, start=1)]
    check_one_space([one.card for one in releases], names)
    return releases


def check_apart(releases: Sequence[Release]) -> None:
    """At least one, and every release once, whichever way it was named."""
    places = {id(one) if one.folder is None else one.folder.resolve() for one in releases}
    if not releases or len(places) < len(releases):
        raise UsageError("Give at least one release, and each of them once: its rows would count twice.")


def check_one_space(cards: Sequence[Card], names: Sequence[str]) -> None:
    """Releases of different spaces mean different numbers, and are never trained on together."""
    for card, name in zip(cards, names, strict=True):
        if card.space != cards[0].space:
            raise CardError(
                f"{name} and {names[0]} do not fit together (columns, bounds, basis or key differ), so they "
                "cannot be pooled. Release them with the same --schema and the same basis or --key."
            )
