"""What routes are given: everything that they share, who may call what, and how often."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Annotated

import anyio
from anyio import CapacityLimiter
from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict

from sfumato.core.errors import CardError
from sfumato.study.protocol.messages import ModelInfo, signed_by
from sfumato.study.server.settings import DataFolder, Rate, Settings
from sfumato.study.server.shell import ApiError, Metrics, busy, forbidden, log, not_found
from sfumato.study.server.store import Store
from sfumato.study.server.store.token_store import OWNER, SITE, Caller, token_hash
from sfumato.study.server.validation.checker_pool import Limits, ValidationPool
from sfumato.study.server.worker.worker import Worker

MOST_KEYS = 100_000


class Buckets:
    """One bucket a key, the least recently used forgotten first: a forgotten one is a full one."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic, most: int = MOST_KEYS) -> None:
        self._rate, self._clock, self._most = rate, clock, most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, key: str) -> float:
        """Take one from the key's bucket: 0, or the seconds until there is one again."""
        now = self._clock()
        with self._lock:
            level, then = self._levels.pop(key, (self._rate.burst, now))
            level = min(self._rate.burst, level + (now - then) * self._rate.per_second)
            short = 1.0 - level
            self._levels[key] = (level if short > 0 else level - 1.0, now)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)
        return short / self._rate.per_second if short > 0 else 0.0


class FairTurns:
    """`size` turns at a time, at most `each` of them of one site. Whoever asks for a hundred waits behind himself: a
    site that comes later has its turn after at most one of every other. All calls come from one event loop."""

    def __init__(self, size: int, each: int) -> None:
        self._size, self._each = size, each
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[anyio.Event]] = OrderedDict()

    @property
    def running(self) -> int:
        return self._running.total()

    @property
    def waiting(self) -> int:
        return sum(len(line) for line in self._waiting.values())

    @contextlib.asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Wait for a turn of `who`, and keep it for the block."""
        granted = anyio.Event()
        self._waiting.setdefault(who, deque()).append(granted)
        self._grant()
        try:
            await granted.wait()
            yield
        finally:
            if granted.is_set():  # also where it was given up in the moment of being granted
                self._running[who] -= 1
                self._running += Counter()  # forgets those at zero
                self._grant()
            else:
                self._waiting[who].remove(granted)
                if not self._waiting[who]:
                    del self._waiting[who]

    def _grant(self) -> None:
        while self._running.total() < self._size:
            who = next((one for one in self._waiting if self._running[one] < self._each), None)
            if who is None:
                return
            line = self._waiting.pop(who)
            granted = line.popleft()
            if line:
                self._waiting[who] = line  # at the end of the round
            self._running[who] += 1
            granted.set()


class Context:
    """What all routes share. Opening it opens store and folder; nothing runs yet. Threads that write to the disk
    (`disk`) and that wait for a validator are counted apart from those that answer small requests, which therefore
    never wait for a large push. `uploads` are pushes under way, by site."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.store = settings, Store.open(settings)
        self.worker: Worker | None = None
        if self.store.log.size():
            _ = self.store.log.signer  # a log that has lost its key is refused before anybody pushes
        self.folder, self.metrics = DataFolder(settings.data), Metrics()
        self.disk, self.uploads = CapacityLimiter(16), Counter[str]()
        self.checks = FairTurns(settings.validators, each=max(1, settings.validators // 2))
        self.metrics.checks.labels("running").set_function(lambda: self.checks.running)
        self.metrics.checks.labels("waiting").set_function(lambda: self.checks.waiting)
        limits = Limits(rows=settings.max_rows, seconds=settings.validation_seconds, memory=settings.validation_memory)
        seen = self.folder.data / "incoming"
        self.validators = ValidationPool(settings.validators, limits, seen, self.metrics.note_confinement)
        self.token_rates, self.study_rates = Buckets(settings.token_rate), Buckets(settings.study_rate)
        self.stranger_rates = Buckets(settings.stranger_rate)

    def start(self) -> None:
        """Clean up after those who died, before anything new comes in."""
        self.folder.open()
        with self.folder.settling(exclusive=True):
            self.folder.sweep(self.store.releases.kept_files())
        if self.settings.worker:
            self.worker = Worker(self.store, self.folder, self.settings, log)
            self.worker.start()

    def close(self) -> None:
        if self.worker is not None:
            self.worker.stop()
        self.validators.close()
        self.folder.close()
        self.store.close()


# Who may call what: a bearer token stands for the owner of one study or for one of its sites. Cookies mean nothing.

bearer = HTTPBearer(auto_error=False, scheme_name="token", description="sfu_owner_... or sfu_site_...")


class Sent(BaseModel):
    """A body in JSON: what is not declared is refused, and no text is taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


StudyId = Annotated[str, Path(max_length=64, description="Id of a study.")]
Sha256 = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file, in hexadecimal digits.")]


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Ctx = Annotated[Context, Depends(context_of)]


def token_holder(
    request: Request, context: Ctx, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Caller:
    """Whoever has a token of any study here: 401 without a good one."""
    return authenticate(request, context, credentials.credentials if credentials else "")


TokenHolder = Annotated[Caller, Depends(token_holder)]


def caller(study_id: StudyId, found: TokenHolder) -> Caller:
    """The caller, in her own study: 404 for what belongs to another study."""
    if found.study != study_id:
        raise not_found("study")
    return found


def authenticate(request: Request, context: Context, token: str) -> Caller:
    if token and (seconds := context.token_rates.wait(token_hash(token))):
        raise busy(seconds)
    found = context.store.tokens.authenticate(token)
    if found is None:  # few tries for strangers; the address is forgotten soon and never written down
        seconds = context.stranger_rates.wait(request.client.host if request.client else "")
        if seconds:
            raise busy(seconds)
        # One message for all invalid tokens: the difference would only help a thief.
        words = "The token is missing, unknown, revoked or expired. Ask the owner of the study for a new one."
        raise ApiError(401, "unauthorized", words, headers={"WWW-Authenticate": "Bearer"})
    if seconds := context.study_rates.wait(found.study):
        raise busy(seconds, "requests to this study")
    request.state.caller = found
    return found


AnyCaller = Annotated[Caller, Depends(caller)]


def owner(found: AnyCaller) -> Caller:
    if found.role != OWNER:
        raise forbidden("the owner of the study")
    return found


def site(found: AnyCaller) -> Caller:
    if found.role != SITE or found.site is None:
        raise forbidden("a site")
    return found


Owner = Annotated[Caller, Depends(owner)]
SiteCaller = Annotated[Caller, Depends(site)]
UNSIGNED = (
    "A key is enrolled for this site, and the request is not signed by it. Push with a version newer than 0.2, as the "
    "user whose `sfumato signer show` says that fingerprint. If you pushed nothing, someone has your token: have it "
    "replaced."
)


def check_signed(context: Context, caller: Caller, wish: Mapping[str, str], header: str | None) -> None:
    """Where a key is enrolled for the site, a token alone is not enough; a signature is taken once."""
    if caller.site is None:
        return
    enrolled = {one.fingerprint for one in context.store.keys.all(caller.study, caller.site)}
    if not enrolled:
        return
    try:
        key, once = signed_by(header or "", wish)
    except CardError:
        key, once = None, ""
    if key is None or key.fingerprint not in enrolled:
        raise ApiError(403, "unsigned", UNSIGNED)
    if not context.store.keys.first_use(caller.study, caller.site, once):
        raise ApiError(403, "replayed", "This signed request was sent before. Sign it again: each one is taken once.")


def seen_by(caller: Caller, model: ModelInfo) -> ModelInfo:
    """A model without the figures of other sites: how well a site does alone is its own and the owner's business."""
    if caller.role == OWNER or not model.results:
        return model
    results = dict(model.results)
    for part, listed in (("by_sites", "alone"), ("trust", "sites")):
        if found := results.get(part):
            own = [one for one in found.get(listed, []) if one.get("site") == caller.site]
            results[part] = {**found, listed: own}
    return replace(model, results=results)
