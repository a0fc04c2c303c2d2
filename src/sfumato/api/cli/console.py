"""What all commands share: messages, progress, and errors as one clear line."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import get_terminal_size
from typing import IO, Annotated, Any

import typer

from sfumato.core.errors import OutputError, SchemaError, SfumatoError, UsageError
from sfumato.core.progress import Progress, silent

ROW_STEPS = ("Reading", "Measuring", "Counting", "Guiding", "Comparing", "Perturbing", "Writing")
"""Steps that count rows; what others count is their own."""


class Pace:
    """Rows per second and time left of every step, counted from when a step was first heard of."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, tuple[float, int]] = {}

    def __call__(self, step: str, done: int, total: int | None) -> str:
        """In words; nothing where there is nothing to tell yet."""
        if step not in ROW_STEPS:
            return ""
        now = self._clock()
        at, before = self._began.setdefault(step, (now, done))
        if done < before:  # another pass of the same name
            self._began[step] = at, before = now, done
        if done == before or now <= at:
            return ""
        rate = (done - before) / (now - at)
        if total is None:
            return f"{rate:,.0f} rows/s"
        minutes, rest = divmod(round((total - done) / rate), 60)
        left = f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
        return f"{rate:,.0f} rows/s, {left} left"


INTERRUPTED = 130
EASILY_READ = 100
"""Characters of a line."""


def argument(metavar: str, help: str) -> Any:
    """What is typed without the name of an option."""
    return typer.Argument(metavar=metavar, help=help)


def option(help: str, *flags: str, metavar: str | None = None) -> Any:
    """An option as it is annotated where several commands have it."""
    return typer.Option(*flags, help=help, metavar=metavar)


Quiet = Annotated[bool, option("Print errors only.", "--quiet", "-q")]
Json = Annotated[bool, option("Print one JSON object on standard output.", "--json")]
AsPublished = Annotated[bool, option("The paper's own variant wherever our default differs.", "--as-published")]
Yes = Annotated[bool, option("Do not ask.", "--yes")]
Force = Annotated[bool, option("Replace what is at --out.", "--force")]
LedgerPath = Annotated[
    Path | None, option("Private ledger of releases, if not the usual one.", "--ledger", metavar="PATH")
]


def run_guarded(app: Callable[..., Any], arguments: list[str] | None = None) -> int:
    """Run the app; a user's mistake gives one line on standard error and its exit code, never a traceback."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill cleans up like Ctrl-C
    try:
        code = int(app(arguments, standalone_mode=False) or 0)
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
        if code == INTERRUPTED:  # the parser catches Ctrl-C itself, and says nothing
            raise KeyboardInterrupt
        return code
    except SfumatoError as error:
        return complain(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return complain("Interrupted. Nothing half-finished was left behind.", INTERRUPTED)
    except BrokenPipeError:
        return 0
    except MemoryError:
        return complain("There is not enough memory. Use --engine stream, or fewer rows.", SfumatoError.exit_code)
    except OSError as error:
        where = f"{error.filename} cannot be read or written" if error.filename else "Standard output cannot be written"
        return complain(
            f"{where}: {error.strerror or type(error).__name__}. Files finished before that are complete.",
            OutputError.exit_code,
        )
    except Exception as error:
        if hasattr(error, "format_message"):  # a wrong option or argument, as the parser words it
            return complain(_wrongly_typed(error), UsageError.exit_code)
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        # The text of an unforeseen error may quote a cell, so only its kind is shown.
        return complain(
            f"Internal error ({type(error).__name__}). Nothing was released. "
            "Set SFUMATO_DEBUG=1 to see where; the trace may show private values.",
            SfumatoError.exit_code,
        )


NOT_PUBLISHED = {
    "compare": "strengths on a ladder are in no paper. `sfumato sanitize` and `sfumato train` take it, at a strength",
    "study reconstruct": "a coordinator reconstructs by the defaults. `sfumato reconstruct` takes it, of one release",
    "mine": "no paper mines rules, clusters or regressions. `sfumato figure` has what the papers show",
}
"""Why a command has no --as-published, and what has it."""


def _wrongly_typed(error: Any) -> str:
    """What the parser says of it; of --as-published why it is not there."""
    message = str(error.format_message())
    if getattr(error, "option_name", None) == "--as-published" and error.ctx is not None:
        for name, why in NOT_PUBLISHED.items():
            if f" {name}" in error.ctx.command_path:
                return f"{message.partition(' (')[0]}: {why}."
    return message


def complain(message: str, code: int) -> int:
    print(f"sfumato: {message}", file=sys.stderr)
    return code


def _finite(data: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@dataclass
class Console:
    """Prints for people, or collects for one JSON object."""

    quiet: Quiet = False
    as_json: Json = False
    warnings: list[str] = field(default_factory=list, init=False)
    stream: IO[str] | None = field(default=None, init=False)
    """Where words go; None for standard output."""

    @property
    def can_ask(self) -> bool:
        """Whether a person sits at the terminal: a script is never asked."""
        return not self.quiet and not self.as_json and sys.stdin.isatty() and sys.stdout.isatty()

    def confirm(self, question: str, *, unasked: str, kept: str = "nothing was sent", shown: str = "") -> None:
        """Go on only after a person's yes; `unasked` is the refusal where nobody is here to ask."""
        if self.as_json or not sys.stdin.isatty():
            raise UsageError(unasked)
        if shown:
            print(f"{shown}\n")
        if not typer.confirm(question):
            raise UsageError(f"Not confirmed, so {kept}.")

    def say(self, text: str = "") -> None:
        if not self.quiet and not self.as_json:
            print(text, file=self.stream)

    def say_each(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.say(line)

    def tell(self, text: str) -> None:
        """Say it in lines that are no wider than the terminal, nor than is easily read; what is indented stays so."""
        width = min(get_terminal_size().columns, EASILY_READ)
        indent = text[: len(text) - len(text.lstrip())]
        below = f"{indent}  " if indent else ""
        for line in textwrap.wrap(text, width, subsequent_indent=below, break_on_hyphens=False, break_long_words=False):
            self.say(line)

    def recite(self, text: str) -> None:
        """Lines of a card: no wider than a terminal, and whole in a pipe, where they are searched."""
        stream = self.stream or sys.stdout
        on_terminal = stream is not None and stream.isatty()  # None where standard output is closed
        for line in text.splitlines():
            (self.tell if on_terminal else self.say)(line)

    def result(self, data: dict[str, Any]) -> None:
        """The object of `--json`; null is infinite, as on a card."""
        if self.as_json:
            print(json.dumps(_finite({**data, "warnings": self.warnings}), indent=1, default=str, allow_nan=False))

    @contextlib.contextmanager
    def listening(self) -> Iterator[Progress]:
        """Show warnings as lines and progress as a bar, on standard error."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = self._warn
            if self.quiet:
                yield silent
                return
            if self.as_json or not sys.stderr.isatty():
                yield ProgressLines()
                return
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as RichProgress

            shown = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            speed, tasks, pace = TextColumn("{task.fields[pace]}"), dict[str, Any](), Pace()
            with RichProgress(*shown, speed, console=RichConsole(stderr=True), transient=True) as bar:

                def progress(step: str, done: int, total: int | None) -> None:
                    if step not in tasks:
                        tasks[step] = bar.add_task(step, total=total, pace="")
                    bar.update(tasks[step], completed=done, total=total, pace=pace(step, done, total))

                yield progress

    def _warn(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = str(message)
        if category.__module__.startswith("sfumato") and text not in self.warnings:
            self.warnings.append(text)
            if not self.quiet and not self.as_json:
                print(f"Warning: {text}", file=sys.stderr)


class ProgressLines:
    """Where no bar is drawn (a log, a pipe): a line on standard error every few seconds."""

    def __init__(self, every: float = 5.0, clock: Callable[[], float] = time.monotonic):
        self.every, self.clock = every, clock
        self.said = now = clock()
        self._now = now
        self._pace = Pace(lambda: self._now)

    def __call__(self, step: str, done: int, total: int | None) -> None:
        self._now = now = self.clock()
        pace = self._pace(step, done, total)
        if now - self.said < self.every:
            return
        self.said = now
        of = f" {done:,} of {total:,}" if total else (f" {done:,}" if done else "")
        print(f"{step}{of}{pace and f', {pace}'} ...", file=sys.stderr, flush=True)


def parse_parameters(pairs: list[str]) -> dict[str, Any]:
    """`--param name=value`, values as in YAML: numbers, words, true, null."""
    from sfumato.table.schema import parse_yaml

    parameters: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--param needs name=value, for example --param b=0.3. Got {pair!r} instead.")
        try:
            read = parse_yaml(value, yes_is_true=True)
            # YAML takes 1e-3 for a word, since it has no point
            exponent = isinstance(read, str) and re.fullmatch(r"[-+]?\d+e[-+]?\d{1,3}", read, re.IGNORECASE)
            parameters[name.strip().replace("-", "_")] = float(read) if exponent else read
        except SchemaError as error:
            raise UsageError(f"The value of --param {name} cannot be read. Write a number or a plain word.") from error
    return parameters


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """`--columns left=right`, both as they are written."""
    found: dict[str, str] = {}
    for pair in pairs:
        left, equals, right = pair.partition("=")
        if not equals or not left.strip() or not right.strip():
            raise UsageError(f"--columns and --hierarchy need left=right. Got {pair!r} instead.")
        found[left.strip()] = right.strip()
    return found


def parse_column_parameters(pairs: list[str]) -> dict[str, dict[str, Any]]:
    """`--column-param column.name=value`; a column's name may have dots in it, a choice has none."""
    columns: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        column, dot, _ = pair.partition("=")[0].rpartition(".")
        if not dot or not column or "=" not in pair:
            raise UsageError(
                f"--column-param wants column.name=value, for example --column-param income.scale=0.5. Got {pair!r} "
                "instead."
            )
        columns.setdefault(column, {}).update(parse_parameters([pair[len(column) + 1 :]]))
    return columns
