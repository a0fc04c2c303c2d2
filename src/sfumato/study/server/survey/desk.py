"""One survey in one process: takes answers in, hands guidance out from memory, closes batches. Several processes share
a database. Each one's answers are kept by its own transactions, without a lock that another would wait for; whoever
finds a batch full computes the next version and appends it to the log. The log's primary key lets one of them win, and
only the winner's answers are marked as counted."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import numpy as np
from sqlalchemy.exc import SQLAlchemyError
from threadpoolctl import ThreadpoolController

from sfumato.channels.guidance.guidance import SurveyCounts, encode_matrix
from sfumato.study.protocol.agreed import LETTERS, LogEntry, read_number, write_number
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import guidance_for, inputs_hash
from sfumato.study.server.context import Buckets
from sfumato.study.server.settings import Rate
from sfumato.study.server.shell import ApiError, fault, log, unavailable
from sfumato.study.server.store import Store, survey_store
from sfumato.study.server.store.survey_store import Answer, AnswerError, CodeStore, Exchange, SurveyStore, Version


class TicketAsked(msgspec.Struct, forbid_unknown_fields=True):
    """An invitation, and the name of a future answer behind a random factor."""

    code: Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": survey_store.LONGEST_CODE})]
    blinded: Annotated[str, msgspec.Meta(extra_json_schema={"pattern": f"^[A-Za-z0-9_-]{{{LETTERS}}}$"})]


class TicketDesk:
    """Where an invitation becomes a ticket: the code is used up, durably, before the blinded name is signed."""

    def __init__(self, codes: CodeStore, study: str, survey: SurveyStudy):
        self._codes, self._study, self._key = codes, study, codes.key(study)
        if self._key.public != survey.ticket_key:
            raise RuntimeError("the key of this survey's tickets is not the one that its file names")
        self.is_good = functools.partial(self._key.is_good, survey.hash)
        self._commit: GroupCommit[Exchange, bool] = GroupCommit(self._write)
        self._signer = ThreadPoolExecutor(1, thread_name_prefix="tickets")
        self._tidying, self._order_shows = threading.Lock(), False

    async def exchange(self, body: bytes) -> bytes | None:
        """The signature as JSON; None where the code is unknown, or was used for another name."""
        try:
            asked = msgspec.json.decode(body, type=TicketAsked)
            code, hidden = asked.code.encode(), read_number(asked.blinded)
        except (msgspec.MsgspecError, ValueError):
            code, hidden = b"", 0
        if not self._key.fits(hidden) or not 0 < len(code) <= survey_store.LONGEST_CODE:
            words = "Send `code`, your invitation, and `blinded`, 256 bytes that are below the key."
            raise AnswerError("malformed", words)
        blinded = hashlib.sha256(write_number(hidden).encode("ascii")).digest()
        if not await self._commit.put(Exchange(code, blinded)):
            return None
        signature = await asyncio.get_running_loop().run_in_executor(self._signer, self._key.sign, hidden)
        return msgspec.json.encode({"signature": write_number(signature)})

    def _write(self, asked: Sequence[Exchange]) -> list[bool]:
        outcomes = self._codes.exchange(self._study, asked)
        self.tidy(now=True)
        return outcomes

    def tidy(self, *, now: bool = False) -> None:
        """Take away what the database's own log tells about the order of codes; `now`, or if it did not work before."""
        with self._tidying:
            if now or self._order_shows:
                self._order_shows = not self._codes.forget_order()

    async def close(self) -> None:
        await self._commit.close()
        self._signer.shutdown(wait=True)
        self.tidy()


Result = TypeVar("Result")
LOOK_SECONDS = 1.0  # how often a process looks for versions and answers of other processes
LOOK_AGAIN_SECONDS = 0.05
REMEMBERED = 64  # older versions whose guidance stays in memory


@functools.cache
def _libraries() -> ThreadpoolController:
    """Looked for once: by then all that compute guidance are loaded."""
    return ThreadpoolController()


class SurveyDesk:
    """`take` answers, `inquiry` (k* and its version, as JSON) and `ready` tell guidance; `look` sees what other
    processes did."""

    inquiry: bytes

    def __init__(self, store: SurveyStore, study: str, survey: SurveyStudy):
        self.store, self.study, self.survey = store, study, survey
        self._commit: GroupCommit[Answer, str] = GroupCommit(self._write)
        self.tickets = TicketDesk(store.codes, study, survey) if survey.invitations else None
        good_ticket = self.tickets.is_good if self.tickets else None
        width, classes = survey.width, len(survey.classes)
        self._read = functools.partial(survey_store.read_answer, width=width, classes=classes, good_ticket=good_ticket)
        self._closer = ThreadPoolExecutor(2, thread_name_prefix="survey")
        self._closing = threading.Lock()
        self._fresh = 0
        self._looked = 0.0
        self._ready: dict[int, bytes] = {}
        self._closed = store.closed(study)
        first = store.version(study)
        if first is None:
            empty = SurveyCounts(survey.width)
            # Of several processes that start together, one appends; all of them then read the same.
            store.add_version(study, self._version(empty, None), [])
            first = store.version(study)
        assert first is not None
        self._show(first)

    def is_open(self) -> bool:
        """Whether the closing day lies ahead and its owner left it open: seen at every `look`, within a second."""
        return not self._closed and not self.survey.closed(datetime.now(UTC).date())

    async def ready(self, version: int) -> bytes | None:
        """Round 2: guidance of a version, as JSON; None where there is no such version."""
        if version > self.head.version:
            await self.look(LOOK_AGAIN_SECONDS)
        found = self._ready.get(version)
        if found is None and 1 <= version <= self.head.version:
            stored = await self.in_thread(self.store.version, self.study, version)
            assert stored is not None
            found = self._remember(stored)
        return found

    def _remember(self, version: Version) -> bytes:
        entry, matrix = version.entry, encode_matrix(version.directions)
        told = {"version": entry.version, "k": entry.k, "width": self.survey.width, "v": matrix}
        told |= {"sha256": entry.sha256, "head": entry.hash}
        self._ready[entry.version] = message = msgspec.json.encode(told)
        for oldest in sorted(self._ready)[:-REMEMBERED]:
            self._ready.pop(oldest, None)
        return message

    async def in_thread(self, work: Callable[..., Result], *given: Any) -> Result:
        """Ask the database without holding up those who are answered from memory."""
        return await asyncio.get_running_loop().run_in_executor(self._closer, work, *given)

    async def take(self, body: bytes) -> tuple[Answer, str]:
        """Keep one answer; returns when it is durable, with what became of it."""
        try:
            answer = self._read(body, latest=self.head.version)
        except AnswerError as error:
            if error.code != survey_store.UNKNOWN_VERSION:
                raise
            await self.look(LOOK_AGAIN_SECONDS)  # another process may have issued it a moment ago
            answer = self._read(body, latest=self.head.version)
        return answer, await self._commit.put(answer)

    def _write(self, answers: Sequence[Answer]) -> list[str]:
        outcomes = self.store.add(self.study, answers)
        self._fresh += outcomes.count(survey_store.NEW)
        if self._fresh >= self.survey.batch:
            self._fresh = 0
            self._closer.submit(self.close_batches)
        return outcomes

    def close_batches(self) -> int:
        """Count every full batch that waits; returns the number of versions that this process added."""
        added = 0
        with self._closing:
            while True:
                # In this order: answers that another process counts meanwhile belong to a version that exists by then.
                latest, waiting = self.store.version(self.study), self.store.waiting(self.study)
                if latest is None or len(waiting) < self.survey.batch:
                    return added
                full = waiting[: len(waiting) - len(waiting) % self.survey.batch]
                version = self._next(latest, full)
                won = self.store.add_version(self.study, version, [answer.id for answer in full])
                added += won
                self._show(version if won else self.store.version(self.study) or latest)

    def _next(self, latest: Version, answers: Sequence[Answer]) -> Version:
        bits = survey_store.unpack([answer.bits for answer in answers], self.survey.width)
        # One thread: matrices are small, and several would only keep the processors from those who answer.
        with _libraries().limit(limits=1):
            counts = SurveyCounts.of(bits, np.array([answer.label for answer in answers], dtype=np.int64))
            return self._version(SurveyCounts.from_json(latest.inputs) + counts, latest.entry)

    def _version(self, counts: SurveyCounts, previous: LogEntry | None) -> Version:
        guidance, inputs = guidance_for(self.survey, counts), counts.to_json()
        entry = LogEntry.chained(
            previous.hash if previous else self.survey.root,
            version=previous.version + 1 if previous else 1,
            k=guidance.k,
            sha256=guidance.sha256,
            inputs_sha256=inputs_hash(inputs),
            answers=counts.n,
        )
        return Version(entry, np.ascontiguousarray(guidance.V, dtype="<f8").tobytes(), inputs, self.store.hour())

    def _show(self, version: Version) -> None:
        entry = version.entry
        self._remember(version)
        self.inquiry = msgspec.json.encode({"version": entry.version, "k": entry.k, "head": entry.hash})
        self.head = entry

    async def look(self, patience: float = LOOK_SECONDS) -> None:
        """See versions that other processes added, and close a batch that they and we filled together. Nothing is done
        if that was done less than `patience` seconds ago: no client can make us ask the database often."""
        if time.monotonic() - self._looked < patience:
            return
        self._looked = time.monotonic()
        await self.in_thread(self._look)

    def _look(self) -> None:
        if self.tickets is not None:
            self.tickets.tidy()
        self._closed = self.store.closed(self.study)
        if self.store.latest(self.study) > self.head.version and (found := self.store.version(self.study)) is not None:
            self._show(found)
        if self.store.count(self.study, waiting=True) >= self.survey.batch:
            self.close_batches()

    async def close(self) -> None:
        await self._commit.close()
        if self.tickets is not None:
            await self.tickets.close()
        with contextlib.suppress(RuntimeError):
            self._closer.shutdown(wait=True)


TELL_SECONDS = 60.0


class SurveyDesks:
    """The surveys of one process, each opened when it is first asked for, with a task that keeps them up to date.

    Nothing here waits for the app's start: an app that is mounted inside a foreign one is never told that it started.
    """

    def __init__(self, store: Store, rate: Rate):
        self._store = store
        self._desks: dict[str, SurveyDesk] = {}
        self._opening = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None
        self._rates, self._secret = Buckets(rate), secrets.token_bytes(32)
        self.patience = TELL_SECONDS
        self._noted: Counter[tuple[str, ...]] = Counter()
        self._told = time.monotonic()

    async def find(self, study: str) -> SurveyDesk | None:
        """The desk of a survey; None where there is no such survey."""
        if (found := self._desks.get(study)) is not None:
            return found
        async with self._opening:
            if self._watch is None or self._watch.done():
                self._watch = asyncio.create_task(self._keep_watch())
            if study not in self._desks:
                survey = await asyncio.to_thread(self._store.studies.read, study)
                if not isinstance(survey, SurveyStudy):
                    return None
                self._desks[study] = await asyncio.to_thread(SurveyDesk, self._store.surveys, study, survey)
        return self._desks[study]

    async def _keep_watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for desk in list(self._desks.values()):
                try:
                    await desk.look()
                except Exception as error:  # the database may come back; answers are refused meanwhile, none is lost
                    self.note(error)
            self.tell()

    def note(self, error: Exception) -> ApiError:
        """Count an error by its type and place; returns what the client is told. Faults are logged once a minute and
        all together: no line says when a respondent asked. All calls come from one event loop."""
        away = isinstance(error, SQLAlchemyError)  # the database went away: nothing was acknowledged
        fields = fault(error)
        self._noted["database" if away else "fault", fields["fault"], *fields["where"]] += 1
        return unavailable() if away else ApiError(500, "fault", "The server failed. Nothing was counted.")

    def tell(self, *, now: bool = False) -> None:
        """Log what was noted, if that was not done in the last minute."""
        if not now and time.monotonic() - self._told < self.patience:
            return
        self._told = time.monotonic()
        noted, self._noted = self._noted, Counter()
        for (event, kind, *where), times in noted.items():
            log(event, 40, times=times, fault=kind, where=where)

    def too_many(self, address: str) -> float:
        """Seconds that a client must wait, 0 if none: by a keyed hash of its address that only this process can make,
        in memory, and forgotten when it is not used."""
        return self._rates.wait(hashlib.blake2b(address.encode(), key=self._secret, digest_size=16).hexdigest())

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        self.tell(now=True)
        for desk in self._desks.values():
            await desk.close()
        self._desks.clear()


Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
LARGEST_GROUP = 2000  # rows of one transaction: larger ones make everybody wait without being cheaper
LONGEST_QUEUE = 20_000  # answers in memory: beyond this the server is told to be busy instead of growing


class GroupCommit(Generic[Item, Outcome]):
    """Answers that arrive together become durable together, in one transaction, which costs one wait for the disk
    however many rows it holds. While one group is being written the next one gathers, so a single answer waits for at
    most two transactions and a thousand a second cost hardly more than ten.

    `put(item)` returns the item's outcome once the transaction that holds it is durable.
    `write` runs in a thread of its own, gets a group and returns one outcome per item, in order; if it raises, every
    item of the group gets that error and nothing of it was committed.
    """

    def __init__(self, write: Callable[[Sequence[Item]], Sequence[Outcome]], *, largest: int = LARGEST_GROUP):
        self._write, self._largest = write, largest
        self._waiting: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-commit")

    async def put(self, item: Item) -> Outcome:
        if len(self._waiting) >= LONGEST_QUEUE:
            raise unavailable("disk")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._drain())
        # A client that goes away cancels its own wait, never the transaction that others wait for.
        return await future

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            try:
                outcomes = await loop.run_in_executor(self._thread, self._write, [item for item, _ in group])
            except Exception as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), outcome in zip(group, outcomes, strict=True):
                if not future.done():
                    future.set_result(outcome)

    async def close(self) -> None:
        """Finish what waits; nothing may be put afterwards."""
        if self._writing is not None:
            await self._writing
        self._thread.shutdown(wait=True)
