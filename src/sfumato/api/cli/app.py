"""The `sfumato` command and its commands, imported only as far as `--help` needs."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from typing import Annotated, Any

import typer

from sfumato.api.cli import (
    audit,
    auditor,
    laboratory,
    learn,
    ledger,
    push,
    recommend,
    release,
    serve,
    signer,
    study,
    survey,
    survey_before,
)
from sfumato.api.cli.blocks import GroupedCommand, GroupedCommands
from sfumato.api.cli.console import run_guarded

app = typer.Typer(
    name="sfumato",
    cls=GroupedCommands,
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


mine = typer.Typer(no_args_is_help=True, help="What else is behind noise: clusters, rules, linear models.")
for find in (learn.cluster, learn.regress, learn.rules):
    mine.command()(find)
for act in (push.push, push.withdraw, push.plan, push.draw, push.reconstruct):
    study.app.command()(act)
study.app.command()(push.rehearse)
survey.app.add_typer(survey_before.app)

GROUPS: dict[str, dict[str, Any]] = {
    "Start": {"demo": recommend.demo, "list": recommend.list_entries},
    "Data owners": {
        "open": serve.open_desk,
        "schema": release.schema,
        "recommend": recommend.recommend,
        "sanitize": release.sanitize,
        "show": release.show,
        "audit": audit.audit,
        "certificate": release.certificate,
        "ledger": ledger.app,
    },
    "Analysts": {
        "verify": signer.verify,
        "train": learn.train,
        "predict": learn.predict,
        "evaluate": learn.evaluate,
        "reconstruct": learn.reconstruct,
        "mine": mine,
    },
    "Sites of a consortium": {"study": study.app, "serve": serve.serve},
    "Surveys": {"survey": survey.app, "respond": survey.respond},
    "Laboratory": {
        "law": laboratory.law,
        "invariance": laboratory.invariance,
        "figure": laboratory.app,
        "canary": laboratory.canary,
        "redraw": laboratory.redraw,
    },
}
"""The first screen."""
BESIDE: dict[str, Any] = {
    "schema declare": release.declare,
    "audit find-person": audit.find_person,
    "compare": recommend.compare,
    "signer": signer.app,
    "auditor": auditor.app,
}
"""What the help of `schema`, `audit`, `recommend` and `verify` names."""


def _add(name: str, added: Any, heading: str | None = None) -> None:
    if isinstance(added, typer.Typer):
        app.add_typer(added, name=name, rich_help_panel=heading, hidden=heading is None)
    else:
        app.command(name, rich_help_panel=heading)(added)


for heading, commands in GROUPS.items():
    for name, added in commands.items():
        _add(name, added, heading)
for name, added in BESIDE.items():
    _add(name, added)


def _keep_lines_of_examples(group: typer.Typer) -> None:
    """Wrap help texts like prose, but leave examples on their own lines: that is what the mark says."""
    for command in group.registered_commands:
        text = inspect.getdoc(command.callback) or ""
        command.help = text.replace("\n\nExample", "\n\n\b\nExample")
        command.cls = GroupedCommand
    for child in group.registered_groups:
        if child.typer_instance is not None:
            _keep_lines_of_examples(child.typer_instance)


_keep_lines_of_examples(app)


def main() -> None:
    """Entry point: errors become one clear line and an exit code."""
    code = run_guarded(app)
    if code:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError):  # closed, or what it leads to is full
                stream.flush()
        # After an error reader threads of native libraries may still run, and tearing the interpreter down under
        # them has been seen to abort the process, which would hide the exit code.
        os._exit(code)
