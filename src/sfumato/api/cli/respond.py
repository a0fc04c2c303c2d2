"""respond: answer a survey from a program, with the same checks as the page."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console
from sfumato.api.cli.push import Yes
from sfumato.api.cli.survey import AtSurvey
from sfumato.core.errors import NothingNewError, UsageError
from sfumato.study.asked import RespondAsked

CODE_VARIABLE = "SFUMATO_CODE"


@dataclass(frozen=True)
class Sending:
    """Whether, and how often, something is sent."""

    again: Annotated[bool, typer.Option(help="Answer even if an answer from this file was sent before.")] = False
    dry_run: Annotated[bool, typer.Option(help="Show what would be sent, and send nothing.")] = False
    yes: Yes = False


@with_blocks
def respond(
    at: AtSurvey,
    answers: Annotated[Path, typer.Option(metavar="FILE", help="Your answers, name: answer, as YAML or JSON.")],
    accepts: RespondAsked,
    sending: Sending,
    console: Console,
    code_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Your invitation; otherwise the variable {CODE_VARIABLE}.")
    ] = None,
) -> None:
    """Answer a survey: ask for the level, recompute the guidance, blur the answers here, show the bits, send them.

    The hash in the link says which survey this must be; without one, what is shown is taken on trust. An invitation is
    exchanged for a ticket first, which does not reveal whose answer it comes with.

    A question that the file leaves out counts as "prefer not to say". Bits are drawn once: if sending fails, the same
    command sends the same bits again. An answer that was sent is not drawn a second time without --again.

    Example: sfumato respond 'https://study.example/survey/#survey=k3f9&hash=HASH' --answers me.yaml --max-level 3
    """
    from sfumato.study.client.private_notes import RememberedHeads, default_heads
    from sfumato.study.client.respondent import Device, TicketBox, alone, pending_path, prepare, resend, send, was_sent

    given, code = read_answers(answers), read_code(code_file)
    heads = RememberedHeads(default_heads())
    server = at.server()
    pending = pending_path(heads.path.parent, server, answers)
    tickets = TicketBox(pending.with_name(pending.name.replace("answer-", "ticket-")))
    with server, nullcontext() if sending.dry_run else alone(pending):
        if was_sent(pending) and not (sending.again or sending.dry_run):
            raise NothingNewError(
                f"The answers in {answers} were sent to this survey before, and another draw would reveal more about "
                "them. Nothing was sent. Add --again if the file now contains another person's answers."
            )
        if pending.exists() and not (was_sent(pending) or sending.dry_run):
            new = resend(server, pending, tickets, code)
            tickets.clear()
            console.say("The bits that were drawn before are " + ("now sent." if new else "with the survey already."))
            console.result({"sent": True, "counted": new})
            return
        device = Device(heads, None if sending.dry_run else tickets, code)
        prepared = prepare(server, given, accepts, device)
        for line in shown(prepared, linked=server.link.hash is not None):
            console.say(line)
        told: dict[str, Any] = {"survey": prepared.survey.hash}
        told |= {"level": prepared.k, "epsilon": prepared.epsilon, "witnesses": prepared.witnesses}
        told["bits"] = prepared.drawn.bits
        if sending.dry_run:
            console.say("Nothing was sent.")
            console.result({**told, "sent": False})
            return
        if not sending.yes:
            _ask(console.as_json)
        new = send(server, prepared, pending)
        tickets.clear()
    console.say("Sent." if new else "The survey already had this answer.")
    console.result({**told, "sent": True, "counted": new})


def read_answers(path: Path) -> dict[str, Any]:
    """The answers of one person; the error never quotes them."""
    from sfumato.core.errors import SchemaError
    from sfumato.table.schema import read_yaml

    if not path.is_file():
        raise UsageError(f"There is no file {path} with answers.")
    try:
        found = read_yaml(path)
    except SchemaError as error:
        raise UsageError(f"{path}: {error}") from None
    if not isinstance(found, dict) or not found or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{path} must hold one line for each question, like `smokes: no`.")
    return found


def read_code(file: Path | None) -> str | None:
    """A code of invitation, from a file or the environment, so that it stays out of the shell's history."""
    if file is None:
        return os.environ.get(CODE_VARIABLE) or None
    if not file.is_file():
        raise UsageError(f"There is no file {file} with an invitation.")
    return file.read_text(encoding="utf-8").strip() or None


def shown(prepared: Any, *, linked: bool) -> list[str]:
    """Exactly what would leave this machine, and what it is worth to others."""
    from sfumato.guarantee.rounding import epsilon_at_most

    survey, ones = prepared.survey, set(prepared.drawn.bits)
    lines = [
        f"{survey.name}, asked by {survey.by}",
        f"{survey.hash} " + ("(as in the link)" if linked else "(the link names none: compare it by other means)"),
        f"Level {prepared.k}; epsilon {epsilon_at_most(prepared.epsilon)} for all answers together; "
        f"{prepared.witnesses}.",
        "These bits would be sent (1: the mark is set), with your answer to "
        f"{survey.label.name!r} as it is ({survey.classes[prepared.drawn.label]}):",
    ]
    place = 0
    for question in survey.questions:
        marks = []
        for choice in question.choices:
            marks.append(f"{choice.value}={int(place in ones)}")
            place += 1
        lines.append(f"  {question.name}: {' '.join(marks)}")
    lines.append("A sent answer cannot be withdrawn: the server cannot tell whose it is.")
    return lines


def _ask(as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise UsageError("Nothing was sent: no person is here to look at it. Add --yes to send without asking.")
    if not typer.confirm("Send?"):
        raise UsageError("Not confirmed, so nothing was sent.")
