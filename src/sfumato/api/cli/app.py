"""The `sfumato` command and its commands, imported only as far as `--help` needs."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from typing import Annotated

import typer

from sfumato.api.cli import (
    audit,
    catalogue,
    compare,
    declare,
    demo,
    laboratory,
    learn,
    ledger,
    mine,
    push,
    recommend,
    reconstruct,
    release,
    respond,
    serve,
    study,
    study_counts,
    survey,
    survey_before,
)
from sfumato.api.cli.blocks import GroupedCommand
from sfumato.api.cli.console import run_guarded

app = typer.Typer(
    name="sfumato",
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


app.command("list")(catalogue.list_entries)
app.command()(release.schema)
app.command()(declare.declare)
app.command()(recommend.recommend)
app.command()(compare.compare)
app.command()(release.sanitize)
app.command()(laboratory.redraw)
app.command()(release.forget)
app.add_typer(ledger.app, name="ledger")
app.command()(release.show)
app.command()(declare.certificate)
app.command()(audit.audit)
app.command()(laboratory.canary)
app.command()(learn.train)
app.command()(learn.predict)
app.command()(learn.evaluate)
app.command()(reconstruct.reconstruct)
app.command()(mine.cluster)
app.command()(laboratory.law)
app.command()(mine.rules)
app.command()(laboratory.invariance)
app.add_typer(laboratory.app, name="figure")
app.command()(mine.regress)
app.command()(push.push)
app.command()(push.withdraw)
study.app.command()(study_counts.plan)
study.app.command()(study_counts.draw)
study.app.command()(study_counts.reconstruct)
study.app.command()(study_counts.rehearse)
app.add_typer(study.app, name="study")
app.add_typer(survey.app, name="survey")
survey.app.add_typer(survey_before.app)
app.command()(respond.respond)
app.command()(serve.serve)
app.command()(demo.demo)


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
