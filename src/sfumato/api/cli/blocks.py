"""Options that many commands share, written once: a command takes a block as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

Command = TypeVar("Command", bound=Callable[..., None])


class OptionBlock:
    """A dataclass whose fields are options: each is annotated as a command's parameter would be."""


def with_blocks(command: Command) -> Command:
    """The command with each parameter that is an `OptionBlock` taken apart into its options, which come last."""
    blocks: dict[str, type[OptionBlock]] = {}
    own: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, OptionBlock):
            blocks[parameter.name] = parameter.annotation
        else:
            own.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    options = {name: _options(block) for name, block in blocks.items()}

    @functools.wraps(command)
    def run(**words: Any) -> None:
        whole = {name: blocks[name](**{one.name: words.pop(one.name) for one in options[name]}) for name in blocks}
        command(**words, **whole)

    shared = [one for block in options.values() for one in block]
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def _options(block: type[OptionBlock]) -> list[inspect.Parameter]:
    hints = get_type_hints(block, include_extras=True)
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is MISSING else one.default,
            annotation=hints[one.name],
        )
        for one in fields(block)  # type: ignore[arg-type]
        if one.init
    ]
