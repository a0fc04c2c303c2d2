"""A respondent's program: does what the page does, and decides on the device how much leaves it. The order is the
protocol's: inquiry, accept or wait, guidance, checks, one draw of the bits, send the same bits however often it must be
tried. The respondent's own limit never leaves this program."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from sfumato.channels.guidance.epsilon import survey_epsilon
from sfumato.channels.guidance.space import perturb_bits, uniforms_from_bytes
from sfumato.core.array_types import Codes
from sfumato.core.errors import CoordinatorError, NothingNewError, SchemaError, UsageError
from sfumato.core.files import exclusive, write_whole
from sfumato.core.records import BRIEF, Record
from sfumato.guarantee.rounding import epsilon_at_most
from sfumato.study.asked import RespondAsked
from sfumato.study.client.connection import RefusedError
from sfumato.study.client.private_notes import RememberedHeads
from sfumato.study.client.survey_server import Inquiry, SurveyServer, check_log
from sfumato.study.protocol.agreed import blind, read_key, read_number, unblinded, write_number
from sfumato.study.protocol.survey_file import SurveyStudy

# Where a respondent's program keeps its ticket: the same name is asked for however often the exchange breaks off.


@dataclass(frozen=True)
class Ticket(Record):
    """The name of one answer and, once the server has signed it unseen, what proves an invitation."""

    survey: str
    name: str
    hidden: str
    inverse: str
    ticket: str | None = None


def new_name() -> str:
    """128 random bits: the name of an answer, known to this device alone."""
    return base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode("ascii")


class TicketBox:
    """One private file; it is written before the invitation is used up, so that nothing can be lost in between."""

    def __init__(self, path: Path):
        self.path = path

    def obtain(self, server: SurveyServer, survey: SurveyStudy, code: str | None) -> Ticket:
        """The ticket kept here, or a new one in exchange for the invitation."""
        if survey.ticket_key is None:
            raise UsageError("This survey asks for invitations and names no key to check tickets by. Nothing was sent.")
        key, kept = read_key(survey.ticket_key), None
        try:
            kept = Ticket.from_dict(json.loads(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.path} does not contain a ticket. Remove it to start again.") from error
        if kept is None or kept.survey != survey.hash:
            name = new_name()
            made = blind(key, survey.hash, name)
            kept = Ticket(survey.hash, name, write_number(made.hidden), write_number(made.inverse))
        if kept.ticket is not None:
            return kept
        if not code:
            raise UsageError("This survey is by invitation: give the code that you were sent.")
        self._write(kept)
        signature = server.exchange(code, kept.hidden)
        ticket = unblinded(key, survey.hash, kept.name, read_number(kept.inverse), signature)
        done = replace(kept, ticket=ticket)
        self._write(done)
        return done

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)

    def _write(self, ticket: Ticket) -> None:
        write_whole(self.path, json.dumps(ticket.to_dict()), private=True)


MEAN_WAIT = 60.0
SENT = {"sent": True}
Bytes = Callable[[int], bytes]


class NotYetError(CoordinatorError):
    """The survey asks for more than the respondent's limit allows; nothing was sent."""


@dataclass(frozen=True)
class Drawn(Record):
    """What will be sent, drawn once: kept until the server has acknowledged it."""

    id: str
    version: int
    label: int
    bits: list[int]
    ticket: Annotated[str | None, BRIEF] = None


class Prepared(NamedTuple):
    """An answer before it is sent, with what it gives away."""

    survey: SurveyStudy
    drawn: Drawn
    k: int
    epsilon: float
    witnesses: str


def choices_of(survey: SurveyStudy, answers: Mapping[str, Any], *, randomness: Bytes = os.urandom) -> tuple[Codes, int]:
    """Choice numbers of every question, and the class; a question left out gets a random choice, drawn here."""
    unknown = sorted(set(answers) - {question.name for question in survey.questions} - {survey.label.name})
    if unknown:
        names = ", ".join(question.name for question in survey.questions[:20])
        raise SchemaError(f"The survey does not ask {unknown[0]!r}. It asks: {names}.")
    if answers.get(survey.label.name) is None:
        raise SchemaError(f"The answers lack {survey.label.name!r}, which the survey needs in order to predict it.")
    drawn = uniforms_from_bytes(randomness(8 * len(survey.questions)))
    chosen = [
        int(drawn[place] * len(question.choices))
        if answers.get(question.name) is None
        else question.choice_of(answers[question.name])
        for place, question in enumerate(survey.questions)
    ]
    return np.array(chosen, dtype=np.int64), survey.label.choice_of(answers[survey.label.name])


class Device(NamedTuple):
    """What a respondent's device brings: heads that it has seen, tickets and invitation, chance and patience."""

    heads: RememberedHeads | None = None
    tickets: TicketBox | None = None
    code: str | None = None
    randomness: Bytes = os.urandom
    sleep: Callable[[float], None] = time.sleep


def prepare(
    server: SurveyServer, answers: Mapping[str, Any], accepts: RespondAsked, device: Device | None = None
) -> Prepared:
    """Wait until the level is acceptable, check the guidance, and draw the bits. An invitation is exchanged first, as
    long before the answer as can be; without `tickets` it is not, and what is drawn can only be looked at. Without
    `max_epsilon` any finite epsilon is accepted. `pinned` witnesses must agree."""
    device, max_epsilon = device or Device(), accepts.max_epsilon
    if accepts.max_level < 1:
        raise UsageError(f"--max-level must be at least 1. Got {accepts.max_level} instead.")
    survey, state = server.describe()
    if state != "open":
        raise CoordinatorError("The survey is closed. Nothing was sent.")
    chosen, label = choices_of(survey, answers, randomness=device.randomness)
    ticket = None
    if survey.invitations and device.tickets is not None:
        ticket = device.tickets.obtain(server, survey, device.code)
    asked = _acceptable(server, accepts, device.sleep)
    V = server.guidance(asked, survey.width)
    witnesses = check_log(server, survey, V, asked, device.heads, accepts.pinned)
    space = survey.space
    epsilon = survey_epsilon(V, space, survey.floor, survey.link).record
    if max_epsilon is None and not math.isfinite(epsilon):
        raise NotYetError(
            "The survey has no floor: your answers could be read with certainty, and no epsilon holds. Nothing was "
            "sent. Add --max-epsilon inf if you want to answer anyway."
        )
    if max_epsilon is not None and epsilon > max_epsilon:
        raise NotYetError(
            f"The guidance would let its reader learn as much as epsilon {epsilon_at_most(epsilon)} of your answers, "
            f"more than the {max_epsilon:.9g} that you allow. Nothing was sent."
        )
    uniforms = uniforms_from_bytes(device.randomness(8 * survey.width))
    bits = perturb_bits(space.onehot(chosen[None, :])[0], V, uniforms, survey.floor, survey.link)
    name, proof = (new_name(), None) if ticket is None else (ticket.name, ticket.ticket)
    drawn = Drawn(name, asked.version, label, [int(place) for place in np.flatnonzero(bits)], proof)
    return Prepared(survey, drawn, asked.k, epsilon, witnesses)


def _acceptable(server: SurveyServer, accepts: RespondAsked, sleep: Callable[[float], None]) -> Inquiry:
    """Ask for k* until it is low enough; pauses are random, so that they tell little about the limit."""
    end = time.monotonic() + accepts.wait
    while True:
        asked = server.inquire()
        if asked.k <= accepts.max_level:
            return asked
        # A floor and an exponential part: requests form no pattern.
        pause = min(MEAN_WAIT * (0.2 + 0.8 * random.SystemRandom().expovariate(1.0)), 5 * MEAN_WAIT)
        if time.monotonic() + pause > end:
            raise NotYetError(
                f"The survey asks for level {asked.k} at present, above your limit of {accepts.max_level}. Nothing was "
                "sent. Try again later, or give --wait."
            )
        sleep(pause)


def alone(pending: Path) -> AbstractContextManager[None]:
    """One program at a time answers from a file, from the look at what was drawn before to the receipt."""
    words = "Another `sfumato respond` is answering from this file at present. Nothing was sent from here."
    return exclusive(pending, busy=NothingNewError(words))


def send(server: SurveyServer, drawn: Drawn, pending: Path | None = None) -> bool:
    """Send the drawn bits; they are kept (0600) until acknowledged, and a second attempt sends the same ones."""
    if pending is None:
        return server.send(drawn.to_dict())
    write_whole(pending, json.dumps(drawn.to_dict()), private=True)
    try:
        new = server.send(drawn.to_dict())
    except RefusedError as error:  # a server that could make us draw again would learn more each time
        words = f"{error} The drawn bits wait in {pending}; the same command sends them again."
        raise RefusedError(words, error.status, error.code, error.objections) from error
    write_whole(pending, json.dumps(SENT), private=True)
    return new


def waiting(pending: Path) -> Drawn:
    """What an earlier attempt drew and could not bring over."""
    try:
        return Drawn.from_dict(json.loads(pending.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        words = f"{pending} does not contain an answer that waits to be sent. Remove it to start again."
        raise UsageError(words) from error


def was_sent(pending: Path) -> bool:
    """Whether the answer that waited here was acknowledged: of that answer nothing else is kept."""
    try:
        return bool(json.loads(pending.read_text(encoding="utf-8")) == SENT)
    except (OSError, ValueError):
        return False


def pending_path(folder: Path, server: SurveyServer, answers_file: Path) -> Path:
    """Where the drawn bits of one answers file wait, and later that they were sent: a name that says nothing."""
    name = hashlib.sha256(f"{server.name}\n{answers_file.resolve()}".encode()).hexdigest()[:24]
    return folder / f"answer-{name}.json"
