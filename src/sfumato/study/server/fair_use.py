"""No caller takes everything: rates of requests for each caller, and turns that go round among the sites."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable

import anyio

from sfumato.study.server.settings import Rate

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
    """`size` turns at a time, at most `each` of them of one site.

    Whoever asks for a hundred waits behind himself: a site that comes later has its turn after at most one of every
    other. All calls come from one event loop.
    """

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
        except BaseException:
            if granted.is_set():  # given up in the moment of being granted
                self._end(who)
            else:
                self._waiting[who].remove(granted)
                if not self._waiting[who]:
                    del self._waiting[who]
            raise
        try:
            yield
        finally:
            self._end(who)

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

    def _end(self, who: str) -> None:
        self._running[who] -= 1
        self._running += Counter()  # forgets those at zero
        self._grant()
