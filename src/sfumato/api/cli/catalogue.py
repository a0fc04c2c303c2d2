"""list: what there is to choose from, one line each."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from sfumato.api.cli.console import Console, Json


class Catalogue(StrEnum):
    """What can be listed."""

    mechanisms = "mechanisms"
    attacks = "attacks"
    classifiers = "classifiers"


def list_entries(
    what: Annotated[Catalogue, typer.Argument(metavar="mechanisms|attacks|classifiers", help="What to list.")],
    as_json: Json = False,
) -> None:
    """List every method, attacker or classifier with one line about it.

    Example: sfumato list mechanisms
    """
    entries = {name: _first_line(entry) for name, entry in sorted(_registered(what).items())}
    console = Console(quiet=False, as_json=as_json)
    width = max(map(len, entries)) + 2
    room = max(40, shutil.get_terminal_size((120, 24)).columns) - width
    for name, line in entries.items():
        console.say(f"{name:<{width}}{line if len(line) <= room else line[: room - 3] + '...'}")
    console.result({what.value: entries})


def _registered(what: Catalogue) -> Mapping[str, Any]:
    if what is Catalogue.mechanisms:
        from sfumato.mechanisms import MECHANISMS

        return MECHANISMS
    if what is Catalogue.attacks:
        from sfumato.attacks import ATTACKS

        return ATTACKS
    from sfumato.learn.classifiers import CLASSIFIERS

    return CLASSIFIERS


def _first_line(entry: Any) -> str:
    """The summary of a docstring, which may run over several lines."""
    text = (inspect.getdoc(entry) or "").split("\n\n")[0]
    return " ".join(text.replace("``", "").split())
