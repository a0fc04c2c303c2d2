"""The `sfumato` command: its commands by who needs them, each imported when it is asked for."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from sfumato.api.cli.blocks import GroupedCommand, GroupedCommands, with_blocks
from sfumato.api.cli.console import run_guarded

GROUPS: dict[str, dict[str, str]] = {
    "Start": {"demo": "recommend.demo", "list": "recommend.list_entries"},
    "Data owners": {
        "open": "release.open_desk",
        "schema": "release.schema",
        "recommend": "recommend.recommend",
        "sanitize": "release.sanitize",
        "show": "release.show",
        "audit": "audit.audit",
        "certificate": "release.certificate",
        "ledger": "ledger.app",
    },
    "Analysts": {
        "verify": "ledger.verify",
        "train": "learn.train",
        "predict": "learn.predict",
        "evaluate": "learn.evaluate",
        "reconstruct": "learn.reconstruct",
        "mine": "learn.mine",
    },
    "Sites of a consortium": {"serve": "push.serve", "study": "push.app"},
    "Surveys": {"respond": "survey.respond", "survey": "survey_before.app"},
    "Laboratory": {
        "law": "laboratory.law",
        "invariance": "laboratory.invariance",
        "canary": "laboratory.canary",
        "redraw": "laboratory.redraw",
        "figure": "laboratory.app",
    },
}
"""The first screen: where each command is, module and name."""
BESIDE: dict[str, str] = {
    "schema declare": "release.declare",
    "audit find-person": "audit.find_person",
    "compare": "recommend.compare",
    "signer": "ledger.signers",
    "auditor": "ledger.auditors",
}
"""What the help of `schema`, `audit`, `recommend` and `verify` names."""


WHERE: dict[str, tuple[str, str | None]] = {
    name: (where, heading) for heading, names in GROUPS.items() for name, where in names.items()
} | {name: (where, None) for name, where in BESIDE.items()}


class EachAlone(Mapping[str, Any]):
    """All commands by name, each made when it is asked for: to load them all takes longer than to show a card."""

    def __getitem__(self, name: str) -> Any:
        return _made(name)

    def __iter__(self) -> Iterator[str]:
        return iter(WHERE)

    def __len__(self) -> int:
        return len(WHERE)


class FirstScreen(GroupedCommands):
    """The commands above."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "commands": EachAlone()})


@cache
def _made(name: str) -> Any:
    """A command, or a group of them, as the parser takes it."""
    where, heading = WHERE[name]
    module, _, attribute = where.partition(".")
    found = getattr(import_module(f"{__package__}.{module}"), attribute)
    alone = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name, rich_help_panel=heading, hidden=heading is None)
    else:
        alone.command(name, rich_help_panel=heading)(found)
    _prepare(alone)
    return typer.main.get_group(alone).commands[name]


def _prepare(group: typer.Typer) -> None:
    """Take blocks of options apart, and wrap help texts like prose; examples stay on lines of their own, by a mark."""
    for command in group.registered_commands:
        text = inspect.getdoc(command.callback) or ""
        command.help = text.replace("\n\nExample", "\n\n\b\nExample")
        command.callback = command.callback and with_blocks(command.callback)
        command.cls = GroupedCommand
    for child in group.registered_groups:
        if child.typer_instance is not None:
            _prepare(child.typer_instance)


app = typer.Typer(
    name="sfumato",
    cls=FirstScreen,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Learn from private tables without seeing the people in them.",
    epilog="Exit codes: 0 done, 1 any other error, 2 wrong option, 3 table, 4 schema, 5 output, 6 card, key or model, "
    "7 nothing new, 8 coordinator, 9 nothing keeps the wish, 10 budget, 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"sfumato {version('sfumato')}")
        raise typer.Exit


@app.callback()
def sfumato(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn from private tables without seeing the people in them."""


def main() -> None:
    """Entry point: errors become one clear line and an exit code."""
    gc.set_threshold(5_000)  # what a start makes is no garbage, and looking for some took a tenth of a short command
    code = run_guarded(app)
    if code:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError):  # closed, or what it leads to is full
                stream.flush()
        # After an error reader threads of native libraries may still run, and tearing the interpreter down under
        # them has been seen to abort the process, which would hide the exit code.
        os._exit(code)
