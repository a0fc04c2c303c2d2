"""The `sfumato` command and its commands, imported only as far as `--help` needs."""

from __future__ import annotations

import contextlib
import os
import sys

import typer

from sfumato.cli import audit, demo, learn, push, reconstruct, release, respond, serve, study, survey
from sfumato.cli.console import run_guarded

app = typer.Typer(
    name="sfumato",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Learn from private tables without seeing the people in them.",
    epilog="Exit codes: 0 done, 1 internal error, 2 wrong option, 3 table, 4 schema, 5 output, 6 card, key or model, "
    "7 nothing new, 8 coordinator, 130 interrupted.",
)


@app.callback()
def sfumato() -> None:
    """Learn from private tables without seeing the people in them."""


app.command()(release.schema)
app.command()(release.sanitize)
app.command()(release.forget)
app.command()(release.show)
app.command()(audit.audit)
app.command()(learn.train)
app.command()(learn.predict)
app.command()(learn.evaluate)
app.command()(reconstruct.reconstruct)
app.command()(push.push)
app.command()(push.withdraw)
app.add_typer(study.app, name="study")
app.add_typer(survey.app, name="survey")
app.command()(respond.respond)
app.command()(serve.serve)
app.command()(demo.demo)


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
