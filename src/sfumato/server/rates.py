"""Token buckets: a rate on average and a burst at once, for many keys, in this process's memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from sfumato.server.settings import Rate

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
